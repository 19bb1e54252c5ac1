//! The numbers of notices: 0 to 63, one bit each in a word.

/// How many there are.
pub(super) const IDS: usize = 64;
