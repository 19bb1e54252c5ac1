//! The verbs, one file each; `under` and `running` are what `lock` and `sem` share.

pub mod call;
pub mod completions;
pub mod demo;
pub mod doctor;
pub mod exit_codes;
pub mod gc;
pub mod info;
pub mod lock;
pub mod ls;
pub mod man;
pub mod pools;
pub mod recv;
pub mod rm;
mod running;
pub mod sem;
pub mod send;
pub mod serve;
pub mod state;
pub mod under;
pub mod wait;
