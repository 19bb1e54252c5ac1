//! The verbs, one file each.

pub mod completions;
pub mod demo;
pub mod doctor;
pub mod exit_codes;
pub mod gc;
pub mod info;
pub mod lock;
pub mod ls;
pub mod man;
pub mod recv;
pub mod rm;
pub mod send;
pub mod wait;
