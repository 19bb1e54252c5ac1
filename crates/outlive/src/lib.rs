//! map
#[cfg(not(loom))]
mod error;
mod shim;
mod sys;
#[cfg(not(loom))]
mod segment;
mod liveness;
#[cfg(not(loom))]
mod domain;
pub mod sync;
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
pub mod queue;
#[cfg(not(loom))]
pub use domain::{Domain, DomainOptions, DomainStats};
#[cfg(not(loom))]
pub use error::Error;
#[cfg(not(loom))]
pub use liveness::{Peer, TokenInfo, TokenKind, WaitError};
pub use liveness::{TokenId, Wait};
#[cfg(not(loom))]
pub use segment::Kind;
pub use sys::clock::Deadline;
