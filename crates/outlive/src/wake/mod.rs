//! Sleeping until a word changes or an owner ends, and being woken, whichever other process is
//! killed or stopped.
//!
//! | a process is killed or stopped | what wakes the sleepers |
//! | --- | --- |
//! | that holds what they wait for (killed) | the kernel marks its token and wakes one sleeper, which wakes the others (sleep.rs) |
//! | with a wake-up in hand (killed) | the kernel wakes the next sleeper, on the relay word (`WakeRelay`) |
//! | with a wake-up in hand (stopped) | nothing: each sleeper finds the change at its recheck, a second later (recheck.rs) |
//! | between its change and the wake | the change and the wake are one step in the kernel, or the notifier's next notification, or the recheck (event_count.rs) |
//!
//! doc/protocols/token.md and doc/protocols/event_count.md have the arguments.

mod default_strategy;
mod error;
mod event_count;
mod readiness;
mod recheck;
mod record;
mod rung_count;
mod sleep;
mod strategy;
mod wait_dead;
mod wait_for;
mod wait_list;

pub use error::WaitError;
pub(crate) use event_count::{EventCount, RelayedEventCount, Ticket};
pub(crate) use readiness::{PreparedWait, SourceState, Waited};
pub use readiness::{Readiness, Source, Watched};
pub(crate) use record::{FoundRecord, WaitRecord};
pub(crate) use rung_count::{Registered, RungEventCount};
pub(crate) use sleep::{Asleep, MOST_OWNERS, Sleep, has_changed, look_again};
#[cfg(test)]
pub(crate) use strategy::SPINS;
pub(crate) use strategy::SpinWait;
pub use strategy::WaitStrategy;
pub(crate) use wait_for::{Look, wait_for};
pub(crate) use wait_list::{WaitList, WaitWords};
