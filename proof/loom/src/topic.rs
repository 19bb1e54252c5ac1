//! What of topics loom runs: slots and holds, and which message is the newest.

#[path = "../../../crates/outlive/src/topic/hazard.rs"]
mod hazard;
#[cfg(test)]
mod litmus;
#[path = "../../../crates/outlive/src/topic/newest.rs"]
mod newest;
#[path = "../../../crates/outlive/src/topic/slot.rs"]
mod slot;
