//! A mutex of two states: the least that works.
//!
//! | word | |
//! | --- | --- |
//! | 0 | free |
//! | 1 | locked |
//!
//! Locking a free one makes no system call. Unlocking always makes one: the word does not say
//! whether any thread sleeps, so the caller has to ask the kernel each time. That is what the third
//! state is for.
//!
//! If its owner is killed, this mutex stays locked for ever. `outlive::sync::Mutex` does not.

use std::sync::atomic::{AtomicU32, Ordering};

use outlive::{Deadline, futex};

const FREE: u32 = 0;
const LOCKED: u32 = 1;

/// See the file's head. The word may lie anywhere, also in memory that processes share; zero is a
/// free mutex.
pub struct Mutex2;

impl Mutex2 {
    /// Takes the lock, sleeping while another thread has it.
    pub fn lock(word: &AtomicU32) {
        while word.compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // Unlocked between the exchange and this call: the kernel compares again and answers
            // "again", and the loop tries again.
            match futex::wait(word, LOCKED, Deadline::NEVER) {
                Err(error) if !error.is_look_again() => panic!("{error}"),
                _ => {}
            }
        }
    }

    /// Gives it back. The caller has it.
    pub fn unlock(word: &AtomicU32) {
        word.store(FREE, Ordering::Release);
        // One is enough: the others would find it taken. If no thread sleeps, this costs some
        // 400 ns for nothing.
        let _ = futex::wake(word, 1);
    }
}
