//! The C library's allocator, and the system itself.

use super::allocator::Functions;
use std::ptr;

/// The baseline's name.
pub(super) const MALLOC: &str = Malloc::NAME;

/// `malloc` and `free`.
pub(super) struct Malloc;

impl Functions for Malloc {
    const NAME: &'static str = "malloc";

    #[inline]
    fn alloc(bytes: usize) -> *mut u8 {
        // SAFETY: it may be called with any number.
        unsafe { libc::malloc(bytes).cast() }
    }

    #[inline]
    unsafe fn free(start: *mut u8, _: usize) {
        // SAFETY: the caller has it from `alloc`, and uses it no more.
        unsafe { libc::free(start.cast()) };
    }

    /// Gives memory back to the system, as HAProxy's gc does.
    #[cfg(target_env = "gnu")]
    fn gc() {
        // SAFETY: it moves nothing that is in use.
        unsafe { libc::malloc_trim(0) };
    }
}

/// HAProxy's "no cache": every buffer is mapped anew.
pub(super) struct NoCache;

impl Functions for NoCache {
    const NAME: &'static str = "no_cache";

    #[inline]
    fn alloc(bytes: usize) -> *mut u8 {
        // SAFETY: a fresh anonymous mapping touches nothing that exists.
        let place = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if place == libc::MAP_FAILED { ptr::null_mut() } else { place.cast() }
    }

    #[inline]
    unsafe fn free(start: *mut u8, bytes: usize) {
        // SAFETY: the caller has this mapping of this size from `alloc`, and uses it no more.
        unsafe { libc::munmap(start.cast(), bytes) };
    }
}
