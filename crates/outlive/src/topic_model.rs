//! What of topics loom runs: slots and holds, and which message is the newest.

#[path = "topic/hold.rs"]
mod hold;
#[path = "topic/latest.rs"]
mod latest;
#[path = "topic/slot.rs"]
mod slot;
