//! Verbs of the noun `topic` that have no short form.

pub mod forget;
pub mod info;
pub mod list;
pub mod shown;
