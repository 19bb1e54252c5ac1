//! A mutex of four states: two bits, so that "somebody sleeps" outlives an unlock.
//!
//! | word | |
//! | --- | --- |
//! | 0 | free |
//! | 1 | locked |
//! | 2 | free, and somebody may sleep: one has been woken and is on its way |
//! | 3 | locked, and somebody may sleep |
//!
//! With three states an unlock wipes out that others sleep, and leaves it to the one it wakes to
//! say so again. Here the word goes on saying it: a thread that takes the lock before the woken one
//! is there inherits the duty to wake, by the very instruction that locks. The bit goes when the
//! kernel has said that nobody slept.

use std::sync::atomic::{AtomicU32, Ordering};

use outlive::{Deadline, futex};

const LOCKED: u32 = 1;
const SLEEPERS: u32 = 2;

/// See the file's head. The word may lie anywhere, also in memory that processes share; zero is a
/// free mutex.
pub struct Mutex4;

impl Mutex4 {
    /// Takes the lock, sleeping while somebody else has it.
    pub fn lock(word: &AtomicU32) {
        // 0 → 1 or 2 → 3: whatever the other bit says, it stays.
        if word.fetch_or(LOCKED, Ordering::Acquire) & LOCKED != 0 {
            Mutex4::lock_slow(word);
        }
    }

    #[cold]
    fn lock_slow(word: &AtomicU32) {
        // Whoever may come from sleep sets both: the bit may just have been taken back by an unlock
        // that found nobody.
        while word.fetch_or(LOCKED | SLEEPERS, Ordering::Acquire) & LOCKED != 0 {
            match futex::wait(word, LOCKED | SLEEPERS, Deadline::NEVER) {
                Err(error) if !error.is_look_again() => panic!("{error}"),
                _ => {}
            }
        }
    }

    /// Gives it back. The caller has it.
    pub fn unlock(word: &AtomicU32) {
        if word.fetch_and(!LOCKED, Ordering::Release) & SLEEPERS != 0
            && futex::wake(word, 1) == Ok(0)
        {
            // Nobody slept. If anybody has locked since, this fails, and the bit is theirs to take
            // back.
            let _ = word.compare_exchange(SLEEPERS, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}
