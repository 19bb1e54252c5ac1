//! Requests and replies: one server, many clients, many calls in flight; each side learns at once
//! of the other's death.
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("outlive-doc-rpc-{}", std::process::id()));
//! # let domain = outlive::Domain::open_or_create_at(&folder)?;
//! use outlive::rpc::Service;
//!
//! let service = Service::<[u8], [u8]>::open_or_create(&domain, "upper")?;
//! let mut server = service.server()?;
//! let client = service.client()?;
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

mod accept;
mod arriving;
mod asked;
mod begin_readiness;
mod call;
mod cancellation;
mod client;
mod client_call;
mod client_slot;
mod client_stream;
mod client_wait;
mod client_watch;
mod error;
mod forwarding;
mod in_place;
mod layout;
mod loan;
#[cfg(feature = "msgpack")]
mod msgpack;
mod own_slots;
mod part_room;
mod parts;
mod places;
mod readiness;
mod reply;
mod reply_room;
mod request;
mod resident;
mod server;
mod service;
mod stream;
mod stream_loan;
mod tap;
mod told;
mod turns;
mod usage;

pub use arriving::Parts;
pub use client::Client;
pub use client_call::Call;
pub use client_stream::RequestStream;
pub use client_watch::{ClientEvent, ClientWatch};
pub use error::CallError;
pub use loan::{ReplyLoan, RequestLoan};
pub use part_room::PartRoom;
pub use parts::Part;
pub use reply::Reply;
pub use reply_room::ReplyRoom;
pub use request::Request;
pub use server::Server;
pub use service::{Service, ServiceConfig, ServiceOptions};
pub use stream::Stream;
pub use stream_loan::{LentPart, LentReply, PartLoan, StreamLoan};
#[doc(hidden)]
pub use tap::{Phase, Seen, Sides};
pub use usage::{ClientUse, Overview};
pub(crate) use usage::{sweep, usage};

/// Compiles only if clients, calls, and what goes between the two sides may move between threads,
/// and be used by several: else no task of an executor with several threads could have them.
#[cfg(test)]
const _: () = {
    const fn may_be_spawned<T: Send + Sync + 'static>() {}
    may_be_spawned::<Client>();
    may_be_spawned::<Client<u64, [f32]>>();
    may_be_spawned::<Call<'static>>();
    may_be_spawned::<Reply>();
    may_be_spawned::<ReplyRoom>();
    may_be_spawned::<Request>();
    may_be_spawned::<RequestStream<'static>>();
    may_be_spawned::<Part>();
    may_be_spawned::<PartRoom>();
    may_be_spawned::<Parts>();
    may_be_spawned::<Stream>();
    may_be_spawned::<RequestLoan<'static>>();
    may_be_spawned::<ReplyLoan>();
    may_be_spawned::<PartLoan<'static, 'static>>();
    may_be_spawned::<StreamLoan<'static>>();
    may_be_spawned::<LentPart>();
    may_be_spawned::<LentReply>();
    may_be_spawned::<ClientWatch>();
};
