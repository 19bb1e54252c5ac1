//! Several holders of one object.

#[path = "../../../../crates/outlive/src/pool/share/holders.rs"]
mod holders;
