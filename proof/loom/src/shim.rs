//! Loom's atomics, under the names of the library's shim.

pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use loom::sync::{Mutex, MutexGuard};

/// Numbers: loom follows every atomic.
pub(crate) type Pad32 = u32;
pub(crate) type Pad64 = u64;

macro_rules! assert_layout {
    ($($fact:expr),+ $(,)?) => {};
}
pub(crate) use assert_layout;

pub(crate) const fn fewer_under_loom(_all: usize, few: usize) -> usize {
    few
}

/// Loom's compiler keeps all in order.
pub(crate) fn compiler_fence(_: Ordering) {}

/// Lets another thread run.
pub(crate) fn spin_hint() {
    loom::thread::yield_now();
}

/// Loom takes SeqCst accesses for AcqRel ones, and knows their order from fences only.
pub(crate) fn order_seq_cst_accesses() {
    fence(Ordering::SeqCst);
}
