//! A mutex of four states: two bits, so that "a thread sleeps" outlives an unlock.
//!
//! | word | |
//! | --- | --- |
//! | 0 | free |
//! | 1 | locked |
//! | 2 | free, and a thread may sleep: one has been woken and has not taken the lock yet |
//! | 3 | locked, and a thread may sleep |
//!
//! With three states an unlock clears that others sleep, and the woken thread has to set it again.
//! Here the word keeps it: a thread that takes the lock before the woken one does inherits the duty
//! to wake, by the very instruction that locks. An unlock clears the bit when the kernel has
//! answered that no thread slept.

use std::sync::atomic::{AtomicU32, Ordering};

use outlive::{Deadline, futex};

const LOCKED: u32 = 1;
const SLEEPERS: u32 = 2;

/// See the file's head. The word may lie anywhere, also in memory that processes share; zero is a
/// free mutex.
pub struct Mutex4;

impl Mutex4 {
    /// Takes the lock, sleeping while another thread has it.
    pub fn lock(word: &AtomicU32) {
        // 0 → 1 or 2 → 3: whatever the other bit says, it stays.
        if word.fetch_or(LOCKED, Ordering::Acquire) & LOCKED != 0 {
            Mutex4::lock_slow(word);
        }
    }

    #[cold]
    fn lock_slow(word: &AtomicU32) {
        // A thread that may come from sleep sets both: an unlock that found no sleeper may just
        // have cleared the bit.
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
            // No thread slept. If another one has locked since, this fails, and that one's unlock
            // clears the bit.
            let _ = word.compare_exchange(SLEEPERS, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}
