//! A mutex of two states: the least that works.
//!
//! | word | |
//! | --- | --- |
//! | 0 | free |
//! | 1 | locked |
//!
//! Locking a free one makes no system call. Unlocking always makes one: the word does not say
//! whether anybody sleeps, so the kernel has to be asked each time. That is what the third state is
//! for.
//!
//! If its owner is killed it stays locked for ever. `outlive::sync::Mutex` does not.

use std::sync::atomic::{AtomicU32, Ordering};

use outlive::{Deadline, futex};

const FREE: u32 = 0;
const LOCKED: u32 = 1;

/// See the file's head. The word may lie anywhere, also in memory that processes share; zero is a
/// free mutex.
pub struct Mutex2;

impl Mutex2 {
    /// Takes the lock, sleeping while somebody else has it.
    pub fn lock(word: &AtomicU32) {
        while word.compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // Unlocked between our look and this call: the kernel compares again, answers "again",
            // and so do we.
            match futex::wait(word, LOCKED, Deadline::NEVER) {
                Err(error) if !error.is_look_again() => panic!("{error}"),
                _ => {}
            }
        }
    }

    /// Gives it back. The caller has it.
    pub fn unlock(word: &AtomicU32) {
        word.store(FREE, Ordering::Release);
        // One is enough: the others would find it taken. Nobody there: some 400 ns for nothing.
        let _ = futex::wake(word, 1);
    }
}
