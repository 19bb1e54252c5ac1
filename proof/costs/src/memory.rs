//! The largest piece of memory that was asked for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static LARGEST: AtomicUsize = AtomicUsize::new(0);

/// Returns the bytes of the largest piece that any thread asked for, of a process whose allocator is
/// [`Watched`]; 0 in any other.
pub fn largest() -> usize {
    LARGEST.load(Ordering::Relaxed)
}

/// The system's allocator, which notes what is asked for: a test says
/// `#[global_allocator] static ALLOCATOR: Watched = Watched;`.
#[derive(Debug)]
pub struct Watched;

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller of this function promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller of this function promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller of this function promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        LARGEST.fetch_max(len, Ordering::Relaxed);
        // SAFETY: as the caller of this function promises.
        unsafe { System.realloc(at, layout, len) }
    }
}
