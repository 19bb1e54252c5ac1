//! The futex itself, for people who build their own: each operation a function, with what the kernel answers.
//!
//! A futex is any [`AtomicU32`](std::sync::atomic::AtomicU32). What its values mean is the program's business; the
//! kernel only lets threads sleep while it has a value, and wakes them. So the fast path makes no system call.
//!
//! | chapter | here | to read and run in `examples/futex` |
//! | --- | --- | --- |
//! | sleeping and waking | [`wait`], [`wake`] | `mutex2.rs`, `mutex3.rs`, `mutex4.rs`: a lock of two, three, four states |
//! | waiting for a thread's end | [`wait`] on the word that `CLONE_CHILD_CLEARTID` names | `join.rs` |
//! | all together | [`wake`] with [`ALL`] | `barrier.rs`, with a serial participant |
//! | private or shared | shared always: a word may lie in memory of several processes | |
//! | early termination | [`OWNER_DIED`], [`TID_MASK`], and [`sync`](crate::sync), which is made for it | |
//! | priority inheritance | [`lock_pi`], [`trylock_pi`], [`unlock_pi`] | |
//! | several at once | [`waitv`] | |
//! | timeouts | a span, an `Instant`, a `SystemTime` ([`Deadline`](crate::Deadline)); [`wait_for`] | |
//! | conditional wake-up | [`wake_op`], [`wait_bitset`], [`wake_bitset`] | |
//! | requeueing | [`requeue`], [`cmp_requeue`], [`wait_requeue_pi`], [`cmp_requeue_pi`] | |
//!
//! # Why these functions are safe
//! A `&AtomicU32` may be changed by anybody who has one, at any time, by atomic instructions; that is all the kernel does
//! with it. Whatever values it finds, it answers with an error at worst.
//!
//! # What to reckon with
//! - **Look again after every return.** [`FutexError::Again`] is the race between value and sleep, won by the other; an
//!   `Ok` may be somebody else's wake-up. Neither is a failure: see [`FutexError::is_look_again`].
//! - **Nobody is told of a death** unless the word is on a robust list, which is libc's to manage. A lock built of these
//!   alone is lost when its owner is killed. The locks in [`sync`](crate::sync) are not.
//! - **A wake-up costs some 20 µs** until the other runs; a call that finds nothing to do some 400 ns.
//! - In memory shared between processes a futex is known by file and offset, not by address: the same word may be mapped
//!   anywhere. Private anonymous memory works too, between threads.

pub use crate::sys::futex_call::{
    ALL, Change, Comparison, FutexError, MOST_WATCHES, OWNER_DIED, TID_MASK, WAITERS, WakeOp, Watch, cmp_requeue,
    cmp_requeue_pi, lock_pi, requeue, thread_id, trylock_pi, unlock_pi, wait, wait_bitset, wait_for, wait_requeue_pi,
    waitv, wake, wake_bitset, wake_op,
};
