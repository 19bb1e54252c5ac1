//! What one learns a futex by, each built on [`outlive::futex`] in a file of its own; `cargo run
//! --profile dist -p outlive-bench --example futex` runs them all.
//!
//! Read them in this order: [`Mutex2`], [`Mutex3`], [`Mutex4`], [`Thread`], [`Barrier`]. None of
//! them survives the death of a process that uses it; what is in [`outlive::sync`] does.

mod barrier;
mod join;
mod mutex2;
mod mutex3;
mod mutex4;

pub use barrier::Barrier;
pub use join::Thread;
pub use mutex2::Mutex2;
pub use mutex3::Mutex3;
pub use mutex4::Mutex4;
