//! The engine: one process traced, moved on by single instructions, killed at a chosen one.
//!
//! Layers, lowest first: [`control`] is the page that victim and engine share, [`trace`] the system
//! calls of tracing, [`victim`] one traced life, [`watch`] notices when the shared state changes,
//! [`plan`] chooses where to kill, [`errnos`] says which system call may fail how.

pub mod control;
pub mod errnos;
pub mod plan;
pub mod trace;
pub mod victim;
pub mod watch;
