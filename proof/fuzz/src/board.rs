//! What a child tells its watcher: which operation it is in, since when, and how many it has done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Shared memory without a name, inherited by children.
#[derive(Clone, Copy)]
pub struct Board(&'static [AtomicU64; 64]);

const STOP: usize = 0;
const DONE: usize = 1;
const PLACES: usize = 2;

impl Board {
    pub fn new() -> Board {
        // SAFETY: a fresh mapping at an address of the kernel's choice; zeroed, page-aligned, never
        // unmapped.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            let base = libc::mmap(core::ptr::null_mut(), 4096, protection, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
            Board(&*base.cast())
        }
    }

    /// The child at `place` begins operation `operation`.
    pub fn begin(&self, place: usize, operation: usize) {
        self.0[PLACES + 2 * place + 1].store(now_millis(), Ordering::SeqCst);
        self.0[PLACES + 2 * place].store(operation as u64, Ordering::SeqCst);
        self.0[DONE].fetch_add(1, Ordering::Relaxed);
    }

    /// Before a child is started there.
    pub fn clear(&self, place: usize) {
        self.0[PLACES + 2 * place + 1].store(now_millis(), Ordering::SeqCst);
        self.0[PLACES + 2 * place].store(u64::MAX, Ordering::SeqCst);
    }

    /// Returns which operation the child at `place` is in, if it has come to one, and for how long.
    pub fn current(&self, place: usize) -> (Option<usize>, Duration) {
        let operation = self.0[PLACES + 2 * place].load(Ordering::SeqCst);
        let since = self.0[PLACES + 2 * place + 1].load(Ordering::SeqCst);
        let span = Duration::from_millis(now_millis().saturating_sub(since));
        ((operation != u64::MAX).then_some(operation as usize), span)
    }

    pub fn operations(&self) -> u64 {
        self.0[DONE].load(Ordering::Relaxed)
    }

    pub fn set_stop(&self, stop: bool) {
        self.0[STOP].store(u64::from(stop), Ordering::SeqCst);
    }

    pub fn must_stop(&self) -> bool {
        self.0[STOP].load(Ordering::Relaxed) != 0
    }
}

fn now_millis() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}
