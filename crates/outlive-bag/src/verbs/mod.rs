//! The verbs, each with its arguments.

pub mod check;
pub mod convert;
pub mod cut;
pub mod filter;
pub mod info;
pub mod merge;
pub mod recover;
