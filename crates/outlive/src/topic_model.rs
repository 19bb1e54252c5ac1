//! What of topics loom runs: slots and holds.

#[path = "topic/hold.rs"]
mod hold;
#[path = "topic/slot.rs"]
mod slot;
