//! The locks, as far as they are state machines.

#[path = "../../../crates/outlive/src/sync/raw/mod.rs"]
mod raw;
