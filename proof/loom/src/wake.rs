//! Sleeping and being woken: the library's own, but for what looks at clocks and at the sleeper's
//! own slot.

#[path = "../../../crates/outlive/src/wake/event_count.rs"]
pub(crate) mod event_count;
#[path = "../../../crates/outlive/src/wake/readiness.rs"]
mod readiness;
#[path = "../../../crates/outlive/src/wake/recheck.rs"]
mod recheck;
mod record;
#[path = "../../../crates/outlive/src/wake/rung_count.rs"]
mod rung_count;
#[path = "../../../crates/outlive/src/wake/sleep.rs"]
mod sleep;
mod strategy;
mod wait_dead;
#[path = "../../../crates/outlive/src/wake/wait_for.rs"]
mod wait_for;
mod wait_list;

pub(crate) use event_count::{EventCount, RelayedEventCount, Ticket};
pub(crate) use readiness::{PreparedWait, Readiness, Source, SourceState, Waited, Watched};
pub(crate) use rung_count::RungEventCount;
pub(crate) use sleep::{Asleep, MOST_OWNERS, Sleep, has_changed, look_again};
pub(crate) use strategy::SpinWait;
pub use strategy::WaitStrategy;
pub(crate) use wait_dead::WaitError;
pub(crate) use wait_for::{Look, wait_for};
pub(crate) use wait_list::WaitWords;
