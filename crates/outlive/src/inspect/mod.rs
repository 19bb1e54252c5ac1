//! Floor 7: a domain seen from outside: what is in it, who uses it, what the dead left, and cleaning up.

mod entries;
mod sweep;
mod users;

pub use entries::{Detail, Entry};
pub use sweep::SweepReport;
pub(crate) use sweep::sweep_rested;
