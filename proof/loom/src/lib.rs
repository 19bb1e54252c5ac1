//! The library's state machines under loom: the very source files of `crates/outlive`, compiled
//! with loom's atomics.
//!
//! Loom runs a test again and again, once for each order in which its threads' accesses may take
//! effect under the C11 memory model. It sees only its own atomics, and these cannot lie in mapped
//! memory. So the files that make a protocol's decisions come from the library as they are, by
//! `#[path]`, and those that talk to the kernel or map files have a stand-in here, under the same
//! name. A test is at the foot of the file that it explores, or in `tests.rs` and `litmus.rs`
//! here where it explores several. proof/models/weak-memory.md has the table: which order is
//! checked by what.
//!
//! `cargo xtask loom [--all]`; one test: `cargo test -p outlive-loom --profile loom NAME`.

#![allow(
    dead_code,
    unused_imports,
    missing_docs,
    mismatched_lifetime_syntaxes,
    reason = "for what is not explored"
)]
#![allow(
    clippy::modulo_one,
    clippy::unnecessary_min_or_max,
    clippy::type_complexity,
    reason = "some sizes are 1 here"
)]

mod claim;
#[path = "../../../crates/outlive/src/describe/mod.rs"]
pub mod describe;
#[path = "../../../crates/outlive/src/error.rs"]
mod error;
mod jobs;
#[path = "../../../crates/outlive/src/kind.rs"]
mod kind;
mod liveness;
mod notify;
#[path = "../../../crates/outlive/src/payload.rs"]
mod payload;
mod pool;
mod queue;
mod rpc;
mod segment;
mod shim;
mod state;
mod sync;
mod sys;
mod topic;
mod wake;

pub use claim::{RecvError, SendError};
pub use error::Error;
pub use kind::Kind;
pub use liveness::TokenId;
pub use payload::{Payload, Plain, Shareable};
pub use sys::clock::Deadline;
pub use wake::WaitStrategy;
