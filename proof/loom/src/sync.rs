//! The locks, as far as they are state machines.

#[path = "../../../crates/outlive/src/sync/event_count.rs"]
pub(crate) mod event_count;
#[path = "../../../crates/outlive/src/sync/raw/mod.rs"]
mod raw;

pub(crate) use event_count::{EventCount, Ticket};
