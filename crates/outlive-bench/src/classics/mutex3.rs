//! A mutex of three states (U. Drepper's): the kernel is called only if a thread may sleep.
//!
//! | word | |
//! | --- | --- |
//! | 0 | free |
//! | 1 | locked, no thread sleeps |
//! | 2 | locked, a thread may sleep |
//!
//! A woken thread cannot know whether others still sleep. So a thread that comes from sleep locks
//! by 2, never by 1: the last unlock after a queue makes a system call that wakes no thread. The
//! other way round, a sleeper would be forgotten.

use std::sync::atomic::{AtomicU32, Ordering};

use outlive::{Deadline, futex};

const FREE: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

/// See the file's head. The word may lie anywhere, also in memory that processes share; zero is a
/// free mutex.
pub struct Mutex3;

impl Mutex3 {
    /// Takes the lock, sleeping while another thread has it.
    pub fn lock(word: &AtomicU32) {
        if word.compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            Mutex3::lock_slow(word);
        }
    }

    #[cold]
    fn lock_slow(word: &AtomicU32) {
        // One exchange does both: it takes the lock if that is free, and else asks its owner for a
        // wake-up.
        while word.swap(CONTENDED, Ordering::Acquire) != FREE {
            match futex::wait(word, CONTENDED, Deadline::NEVER) {
                Err(error) if !error.is_look_again() => panic!("{error}"),
                _ => {}
            }
        }
    }

    /// Gives it back. The caller has it.
    pub fn unlock(word: &AtomicU32) {
        if word.swap(FREE, Ordering::Release) == CONTENDED {
            let _ = futex::wake(word, 1);
        }
    }
}
