//! `outlive notifier`: notices that each listener counts.

pub mod listen;
pub mod notify;
