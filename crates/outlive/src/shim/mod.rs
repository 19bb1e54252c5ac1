//! Floor 0: the atomics that every protocol is written in.
//!
//! In an ordinary build these are the processor's. Under `--cfg loom` they are loom's, so that the very source files of
//! the protocols can be explored under the C11 memory model. Loom's atomics cannot live in mapped memory, therefore a
//! protocol takes references to words and never asks where they lie.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64};
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{Ordering, compiler_fence, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

// For what threads of one process have among themselves: never in shared memory.
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Loom's compiler keeps all in order.
#[cfg(loom)]
pub(crate) fn compiler_fence(_: Ordering) {}

/// Tells the processor that this is a spin-wait; under loom it lets another thread run.
#[inline]
pub(crate) fn spin_hint() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// The fence between an SeqCst store and an SeqCst load of another word: the two are in order as they are. Loom takes
/// SeqCst accesses for AcqRel ones and knows this order from fences only.
#[inline]
pub(crate) fn order_seq_cst_accesses() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
