//! A growing lock-free queue: many senders, one receiver; each side learns at once of the other's
//! death.
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("outlive-doc-queue-{}", std::process::id()));
//! # let domain = outlive::Domain::open_or_create_at(&folder)?;
//! use outlive::queue::Queue;
//!
//! let queue = Queue::<[u8]>::open_or_create(&domain, "orders")?;
//! let sender = queue.sender()?;
//! let mut receiver = queue.receiver()?;
//! sender.send(b"buy 10")?;
//! assert_eq!(receiver.recv()?, b"buy 10");
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod carrier;
mod config;
mod full;
mod handles;
mod head;
#[cfg(feature = "testing")]
mod held;
mod in_flight;
mod inner;
mod layout;
mod peek;
mod plan;
#[expect(clippy::module_inception, reason = "the layer's main thing")]
mod queue;
mod readiness;
mod receive;
mod receiver;
mod resident;
mod ring;
mod room;
mod send;
mod senders;
mod spare;
mod sweep;
mod taking;
mod tap;
mod task_table;
mod tasks;
mod unread;

pub use config::{OnReceiverDeath, QueueConfig};
pub use handles::{Receiver, Sender};
pub use in_flight::{HandedOut, InFlight};
pub(crate) use inner::Inner;
pub use layout::LARGEST_MESSAGE;
pub use peek::Peeked;
pub(crate) use plan::Annex;
pub use queue::{Counters, Queue, QueueOptions};
pub(crate) use room::Counterpart;
pub(crate) use spare::suits;
pub(crate) use sweep::sweep;
#[doc(hidden)]
pub use tap::{Messages, Place, Tap, Tapped};
pub use tasks::Tasks;
