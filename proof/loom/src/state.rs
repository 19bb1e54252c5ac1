//! The state, but for its file.

mod buffers;
#[path = "../../../crates/outlive/src/state/copy.rs"]
mod copy;
#[path = "../../../crates/outlive/src/state/error.rs"]
mod error;
#[path = "../../../crates/outlive/src/state/layout.rs"]
mod layout;
#[path = "../../../crates/outlive/src/state/read.rs"]
mod read;
#[path = "../../../crates/outlive/src/state/shared.rs"]
mod shared;
#[path = "../../../crates/outlive/src/state/sweep.rs"]
mod sweep;
#[cfg(test)]
mod tests;
#[path = "../../../crates/outlive/src/state/wait.rs"]
mod wait;
#[path = "../../../crates/outlive/src/state/write.rs"]
mod write;

pub use error::SetError;
pub(crate) use shared::Shared;
pub use wait::Change;
