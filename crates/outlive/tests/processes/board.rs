//! A board that a check and its children share: words for signals and counts, in memory without a
//! name.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::child::wait_until;

/// Two MiB; what is never touched costs nothing.
pub const WORDS: usize = 1 << 18;

/// Shared words, all zero at first. Inherited by children; gone with the last of them.
#[derive(Clone, Copy)]
pub struct Board(&'static [AtomicU64; WORDS]);

impl Board {
    pub fn new() -> Board {
        let bytes = WORDS * 8;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        let base = NonNull::new(base).expect("a mapping is not at 0");
        // SAFETY: mapped, zeroed, page-aligned, never unmapped.
        Board(unsafe { base.cast().as_ref() })
    }

    pub fn word(&self, index: usize) -> &'static AtomicU64 {
        &self.0[index]
    }

    pub fn get(&self, index: usize) -> u64 {
        self.0[index].load(Ordering::SeqCst)
    }

    pub fn set(&self, index: usize, value: u64) {
        self.0[index].store(value, Ordering::SeqCst);
    }

    pub fn add(&self, index: usize, more: u64) -> u64 {
        self.0[index].fetch_add(more, Ordering::SeqCst) + more
    }

    /// Waits until the word is at least that; fails when it takes too long. Says what it is then.
    pub fn reach(&self, index: usize, least: u64) -> u64 {
        wait_until(&format!("word {index} of the board reaches {least}"), || {
            self.get(index) >= least
        });
        self.get(index)
    }
}
