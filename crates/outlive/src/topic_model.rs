//! What of topics loom runs: slots and holds, and which message is the newest.

#[path = "topic/hold.rs"]
mod hold;
#[path = "topic/latest.rs"]
mod latest;
#[cfg(test)]
#[path = "topic/litmus.rs"]
mod litmus;
#[path = "topic/slot.rs"]
mod slot;
