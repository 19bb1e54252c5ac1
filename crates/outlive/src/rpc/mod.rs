//! Floor 7: requests and replies: one server, many clients, many calls in flight, and everybody told at once who died.
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("outlive-doc-rpc-{}", std::process::id()));
//! # let domain = outlive::Domain::open_at(&folder)?;
//! use outlive::rpc::{Client, Server};
//!
//! let mut server = Server::open(&domain, "upper")?;
//! let client = Client::open(&domain, "upper")?;
//!
//! let call = client.begin(b"hello")?;
//! let request = server.next()?;                       // in another process, as a rule
//! let answer = request.to_ascii_uppercase();
//! request.reply(&answer)?;
//! assert_eq!(*call.wait()?, *b"HELLO");
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! doc/protocols/rpc.md has the argument.

#[cfg(not(loom))]
mod answer;
mod asked;
#[cfg(not(loom))]
mod bytes;
#[cfg(not(loom))]
mod client;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod look;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(feature = "msgpack", not(loom)))]
mod msgpack;
#[cfg(not(loom))]
mod pending;
#[cfg(not(loom))]
mod place;
#[cfg(not(loom))]
mod request;
#[cfg(not(loom))]
mod requests;
#[cfg(not(loom))]
mod server;
#[cfg(not(loom))]
mod service;
#[cfg(not(loom))]
mod stream;
mod words;

#[cfg(not(loom))]
pub(crate) use answer::{Answer, Came};
#[cfg(not(loom))]
pub use bytes::Reply;
#[cfg(not(loom))]
pub use client::Client;
#[cfg(not(loom))]
pub use error::{CallError, ReplyError, ServeError};
#[cfg(not(loom))]
pub use look::{ClientUse, Overview};
#[cfg(not(loom))]
pub(crate) use look::{look, sweep};
#[cfg(not(loom))]
pub use pending::Pending;
#[cfg(not(loom))]
pub use request::Request;
#[cfg(not(loom))]
pub(crate) use requests::Asking;
#[cfg(not(loom))]
pub use server::Server;
#[cfg(not(loom))]
pub use service::ServiceOptions;
#[cfg(not(loom))]
pub use stream::Stream;
