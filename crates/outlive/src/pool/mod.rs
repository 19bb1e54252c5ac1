//! Floor 5: objects in shared memory, by size class, each named by who has it.
//!
//! The core, as the queue needs it for large messages; caches and debug modes stand on it later.
//! doc/protocols/pool.md has the argument.

mod classes;
mod objects;
mod room;
mod spans;
#[cfg(test)]
mod waiting_tests;

pub(crate) use objects::{Found, Object, Pool, Tag};
pub(crate) use room::{Message, Room};
pub(crate) use spans::SPAN;
