//! Words that name their owner.

#[path = "../../../crates/outlive/src/claim/role.rs"]
mod role;
#[path = "../../../crates/outlive/src/claim/word.rs"]
mod word;

pub(crate) use role::{NoRole, ROLE_DIED, Role, RoleWords, Standing, sweep_role};
pub(crate) use word::{Claimed, DIED, Unclaimed, Word};
