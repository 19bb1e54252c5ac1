//! Words that name their owner.

#[path = "../../../crates/outlive/src/claim/holder.rs"]
mod holder;
#[path = "../../../crates/outlive/src/claim/role.rs"]
mod role;
#[path = "../../../crates/outlive/src/claim/transfer.rs"]
mod transfer;
#[path = "../../../crates/outlive/src/claim/word.rs"]
mod word;

pub use holder::Holder;
pub(crate) use role::{HeldRole, Role, RoleState, RoleWords, Standing};
pub use transfer::{RecvError, SendError};
pub(crate) use word::{Claimed, DIED, Heed, Unclaimed, Word};
