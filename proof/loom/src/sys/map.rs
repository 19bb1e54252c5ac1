//! Mapped memory: there is none.

pub(crate) const PAGE: u64 = 4096;

pub(crate) fn prefetch_for_write(_: *const u8) {}
