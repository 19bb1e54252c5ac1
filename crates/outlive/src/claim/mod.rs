//! Words that name their owner. Any process takes them over from a dead one.

mod holder;
mod role;
mod word;

pub use holder::Holder;
pub(crate) use role::{NoRole, ROLE_DIED, Role, RoleWords, Standing, sweep_role};
pub(crate) use word::{Claimed, DIED, Unclaimed, Word};
