//! Words that name their owner. Any process takes them over from a dead one. With them, the errors
//! of moving messages, which name the process that is in the way.
//!
//! Permits, seats, senders, a topic's rings and its subscriber slots are tables of such words. Each
//! lies with its kind: what a taker does with a dead owner's entry differs (free it, break the
//! barrier, recover a ring), and the rest is one compare-exchange.

mod holder;
mod role;
mod stand_by;
mod transfer;
mod word;

pub use holder::Holder;
pub(crate) use role::{HeldRole, Role, RoleState, RoleWords, Standing, unless_taken};
pub(crate) use stand_by::HasRole;
pub use stand_by::StandBy;
pub use transfer::{RecvError, SendError};
pub(crate) use word::{Claimed, DIED, Heed, Unclaimed, Word};
