//! Wraps the futex system call itself, for people who build their own locks: one function for each
//! operation, with the kernel's answers.
//!
//! A futex is any [`AtomicU32`](std::sync::atomic::AtomicU32). The program decides what its values
//! mean; the kernel only lets threads sleep while it has a certain value, and wakes them. So the
//! fast path makes no system call.
//!
//! | chapter | here | to read and run in `outlive-bench`'s `src/classics` |
//! | --- | --- | --- |
//! | sleeping and waking | [`wait`], [`wake`] | `mutex2.rs`, `mutex3.rs`, `mutex4.rs`: a lock of two, three, four states |
//! | waiting for a thread's end | [`wait`] on the word that `CLONE_CHILD_CLEARTID` names | `join.rs` |
//! | all together | [`wake`] with [`ALL`] | `barrier.rs`, with a serial participant |
//! | private or shared | shared always: a word may lie in memory of several processes | |
//! | early termination | [`OWNER_DIED`], [`TID_MASK`], and [`sync`](crate::sync), which is made for it | |
//! | priority inheritance | [`lock_pi`], [`trylock_pi`], [`unlock_pi`] | |
//! | several at once | [`waitv`] | |
//! | timeouts | a [`Deadline`](crate::Deadline): on the monotonic clock, or a time of day; [`wait_for`] for a span | |
//! | conditional wake-up | [`wake_op`], [`wait_bitset`], [`wake_bitset`] | |
//! | requeueing | [`requeue`], [`cmp_requeue`], [`wait_requeue_pi`], [`cmp_requeue_pi`] | |
//!
//! # Why these functions are safe
//! Any thread that has a `&AtomicU32` may change it at any time by atomic instructions, and the
//! kernel does no more than that. Whatever values the kernel finds, the worst that it answers is an
//! error.
//!
//! # What to reckon with
//! - **Look again after every return.** [`FutexError::Again`] means that the value changed before
//!   the thread slept; an `Ok` may be a wake-up that was meant for another waiter. Neither is a
//!   failure: see [`FutexError::is_look_again`].
//! - **A death wakes no waiter**, unless the word is on a robust list, which libc manages. A lock
//!   built of these functions alone is lost when its owner is killed. The locks in
//!   [`sync`](crate::sync) are not.
//! - **A wake-up takes some 20 µs** until the other thread runs; a call that finds nothing to do
//!   takes some 400 ns.
//! - In memory shared between processes a futex is known by file and offset, not by address: the
//!   same word may be mapped anywhere. Private anonymous memory works too, between threads.

pub use crate::sys::futex_call::{
    ALL, Change, Comparison, FutexError, MOST_WATCHES, OWNER_DIED, TID_MASK, WAITERS, WakeOp,
    Watch, cmp_requeue, cmp_requeue_pi, lock_pi, requeue, thread_id, trylock_pi, unlock_pi, wait,
    wait_bitset, wait_for, wait_requeue_pi, waitv, wake, wake_bitset, wake_op,
};
