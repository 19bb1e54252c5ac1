//! Floor 6: the growing queue: many senders, one receiver, lock-free, told at once when the other side dies.
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("outlive-doc-queue-{}", std::process::id()));
//! # let domain = outlive::Domain::open_at(&folder)?;
//! use outlive::queue::Queue;
//!
//! let queue = Queue::create(&domain, "orders")?;
//! let sender = queue.sender()?;
//! let mut receiver = queue.receiver()?;
//! sender.send(b"buy 10")?;
//! assert_eq!(receiver.recv()?, b"buy 10");
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod endpoint;
mod error;
mod inbox;
mod layout;
mod look;
#[cfg(all(test, loom))]
mod loom_tests;
mod peek;
#[cfg(not(loom))]
#[expect(clippy::module_inception, reason = "the floor's main thing")]
mod queue;
mod receive;
mod receiver;
#[cfg(not(loom))]
mod ring;
#[cfg(loom)]
#[path = "ring_model.rs"]
mod ring;
mod send;
#[cfg(not(loom))]
mod service;
mod sweep;
#[cfg(not(loom))]
mod typed;
mod wake;
#[cfg(not(loom))]
mod writers;

pub use error::{RecvError, SendError};
pub(crate) use inbox::{Inbox, Lies};
pub use layout::LARGEST_MESSAGE;
pub use peek::Peeked;
#[cfg(not(loom))]
pub(crate) use queue::Annex;
#[cfg(not(loom))]
pub use queue::{Counters, Queue, QueueOptions};
pub use receiver::Receiver;
pub use send::Sender;
#[cfg(not(loom))]
pub(crate) use service::Server;
pub(crate) use sweep::sweep;
#[cfg(not(loom))]
pub use typed::{TypedReceiver, TypedSender};

use crate::liveness::{Patience, Registry};
use ring::Ring;

/// What all handles of one opening have in common.
pub(crate) struct Shared {
    ring: Ring,
    registry: &'static Registry,
    patience: Patience,
    refuse_without_reader: bool,
}
