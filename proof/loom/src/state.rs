//! The state, but for its file.

mod buffers;
#[path = "../../../crates/outlive/src/state/inner.rs"]
mod inner;
#[path = "../../../crates/outlive/src/state/layout.rs"]
mod layout;
#[path = "../../../crates/outlive/src/state/read.rs"]
mod read;
#[path = "../../../crates/outlive/src/state/sweep.rs"]
mod sweep;
#[cfg(test)]
mod tests;
#[path = "../../../crates/outlive/src/state/wait.rs"]
mod wait;
#[path = "../../../crates/outlive/src/state/write.rs"]
mod write;

pub(crate) use inner::Inner;
pub use wait::Change;
