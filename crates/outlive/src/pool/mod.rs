//! Floor 5: objects in shared memory, by size class, each named by who has it.
//!
//! The core, as the queue needs it for large messages; caches and debug modes stand on it later.
//! doc/protocols/pool.md has the argument.

mod classes;
mod collect;
mod layout;
mod objects;
mod reclaim;
mod room;
mod runs;
mod spans;
mod tag;
#[cfg(test)]
mod waiting_tests;

pub(crate) use collect::Found;
pub(crate) use layout::{Block, Heap};
pub(crate) use room::{Message, Room};
pub(crate) use spans::{SPAN, Shape};
pub(crate) use tag::Tag;
