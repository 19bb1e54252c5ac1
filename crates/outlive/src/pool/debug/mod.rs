//! Finding misuse of objects: the debug modes of a pool, chosen at run time (`modes.rs`).
//!
//! With a mode on, objects are taken and freed by `checked.rs`. It writes a redzone behind the
//! bytes that were asked for, fills free objects with a pattern, or takes an object's pages out of
//! the process's reach (`redzone.rs`, `poison.rs`, `guard_pages.rs`); what it finds is a fault
//! (`fault.rs`). This folder uses the heap and the caches. doc/protocols/pool-modes.md.

mod checked;
mod fault;
mod guard_pages;
mod modes;
mod poison;
mod redzone;

pub use fault::{Caller, Fault, FaultKind, on_fault};
pub(in crate::pool) use guard_pages::GuardPages;
pub use modes::{MODES, Mode, Modes, ModesError};
pub(in crate::pool) use poison::Note;
pub(in crate::pool) use redzone::{REDZONE, TAIL, caller_from};
