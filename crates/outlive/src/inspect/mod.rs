//! A domain seen from outside: its contents, its users, what the dead left, and cleaning up.

mod deadlocks;
mod entries;
mod sweep;
mod users;
mod waits;

pub use deadlocks::{Blocked, Deadlock};
pub use entries::{Detail, Entry};
pub use sweep::SweepReport;
pub(crate) use sweep::sweep_quarantined;
pub use waits::Waiter;
