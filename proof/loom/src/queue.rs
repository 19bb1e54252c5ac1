//! The queue, but for its files: the rings lie in memory of the test.

#[path = "../../../crates/outlive/src/queue/batch.rs"]
mod batch;
#[path = "../../../crates/outlive/src/queue/handles.rs"]
mod handles;
#[path = "../../../crates/outlive/src/queue/head.rs"]
mod head;
#[path = "../../../crates/outlive/src/queue/inner.rs"]
mod inner;
#[path = "../../../crates/outlive/src/queue/layout.rs"]
mod layout;
#[path = "../../../crates/outlive/src/queue/peek.rs"]
mod peek;
#[path = "../../../crates/outlive/src/queue/readiness.rs"]
mod readiness;
#[path = "../../../crates/outlive/src/queue/receive.rs"]
mod receive;
#[path = "../../../crates/outlive/src/queue/receiver.rs"]
mod receiver;
mod ring;
#[path = "../../../crates/outlive/src/queue/room.rs"]
mod room;
#[path = "../../../crates/outlive/src/queue/send.rs"]
mod send;
#[path = "../../../crates/outlive/src/queue/senders.rs"]
mod senders;
#[path = "../../../crates/outlive/src/queue/spare.rs"]
mod spare;
#[path = "../../../crates/outlive/src/queue/sweep.rs"]
mod sweep;
#[path = "../../../crates/outlive/src/queue/task_table.rs"]
mod task_table;
#[cfg(test)]
mod tests;

pub use handles::{Receiver, Sender};
pub(crate) use inner::Inner;
pub use layout::LARGEST_MESSAGE;
pub use peek::Peeked;
pub(crate) use readiness::QueueReadiness;
pub(crate) use sweep::sweep;
