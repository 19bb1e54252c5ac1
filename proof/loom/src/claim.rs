//! Words that name their owner.

#[path = "../../../crates/outlive/src/claim/holder.rs"]
mod holder;
#[path = "../../../crates/outlive/src/claim/role.rs"]
mod role;
#[path = "../../../crates/outlive/src/claim/transfer.rs"]
mod transfer;

pub use holder::Holder;
pub use transfer::{RecvError, SendError};

pub(crate) use role::{NoRole, ROLE_DIED, Role, RoleWords, Standing, sweep_role};
