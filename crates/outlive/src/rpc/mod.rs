//! Requests and replies: one server, many clients, many calls in flight, and everybody told at once who died.
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

mod answer;
mod asked;
mod bytes;
mod client;
mod error;
mod look;
#[cfg(feature = "msgpack")]
mod msgpack;
mod pending;
mod place;
mod request;
mod requests;
mod server;
mod service;
mod stream;
mod words;

pub(crate) use answer::{Answer, Came};
pub use bytes::Reply;
pub use client::Client;
pub use error::{CallError, ReplyError, ServeError};
pub use look::{ClientUse, Overview};
pub(crate) use look::{look, sweep};
pub use pending::Pending;
pub use request::Request;
pub(crate) use requests::Asking;
pub use server::Server;
pub use service::ServiceOptions;
pub use stream::Stream;
