//! Messages that are described, and JSON: one as the other.
//!
//! | file | what it does |
//! | --- | --- |
//! | `written.rs` | the JSON of a message, and its schema |
//! | `read.rs` | the message that JSON says: the program `outlive`'s own file, so both take the same |
//!
//! JSON knows less: a floating-point number that is none becomes null.

#[path = "../../../../crates/outlive-cli/src/described/read.rs"]
// Its function for programs that end with a failure is not used here.
#[allow(dead_code)]
mod read;
mod written;

use outlive::describe::Struct;

pub use read::parsed;
pub use written::{Blobs, schema, write};

/// Returns how many bytes a text has room for, or items a list.
fn room_of(shape: &Struct) -> u32 {
    shape.fields.get(1).and_then(|field| field.extents.first()).copied().unwrap_or(0)
}
