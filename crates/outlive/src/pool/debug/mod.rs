//! Debug modes.

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
pub(in crate::pool) use redzone::{DRESS, TAIL, caller_from};
