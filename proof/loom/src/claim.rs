//! Words that name their owner.

#[path = "../../../crates/outlive/src/claim/role.rs"]
mod role;

pub(crate) use role::{NoRole, ROLE_DIED, Role, RoleWords, Standing, sweep_role};
