//! The atomics that every protocol is written in.
//!
//! Here they are the processor's. proof/loom compiles the protocols' very source files with loom's
//! in their place, and explores them under the C11 memory model; its own `shim` has the same names
//! as this one. Loom's atomics cannot live in mapped memory, therefore a protocol takes references
//! to words and never asks where they lie.

pub use core::sync::atomic::{AtomicU32, AtomicU64};
pub(crate) use core::sync::atomic::{Ordering, compiler_fence, fence};
// For what threads of one process have among themselves: never in shared memory.
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Padding in shared memory: atomics as well, so that every byte may be read. Loom, which follows
/// every atomic, has numbers.
pub(crate) type Pad32 = AtomicU32;
/// Padding in shared memory, 8 bytes.
pub(crate) type Pad64 = AtomicU64;

/// States what a layout in shared memory must be: a build in which it is not so fails. Loom's
/// atomics have other sizes.
macro_rules! assert_layout {
    ($($fact:expr),+ $(,)?) => { const _: () = { $(assert!($fact);)+ }; };
}
pub(crate) use assert_layout;

/// Returns `all`; loom's shim returns `few`, with which there is less to explore.
pub(crate) const fn fewer_under_loom(all: usize, _few: usize) -> usize {
    all
}

/// Tells the processor that this is a spin-wait.
#[inline]
pub(crate) fn spin_hint() {
    core::hint::spin_loop();
}

/// The fence between a SeqCst store and a SeqCst load of another word: the two are in order as they
/// are. Loom takes SeqCst accesses for AcqRel ones and knows this order from fences only, so its
/// shim has a fence here.
#[inline]
pub(crate) fn order_seq_cst_accesses() {}
