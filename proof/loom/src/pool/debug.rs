//! Debug modes, and what a record's note says of an object's bytes.

#[path = "../../../../crates/outlive/src/pool/debug/modes.rs"]
mod modes;
#[path = "../../../../crates/outlive/src/pool/debug/poison.rs"]
mod poison;
