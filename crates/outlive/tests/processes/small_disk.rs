//! Nothing yet.
crate::checks!();
