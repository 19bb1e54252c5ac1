//! jemalloc, by its own functions.

use outlive_bench::suite::pool::Functions;
use std::ptr;

/// The row.
pub(crate) struct Jemalloc;

impl Functions for Jemalloc {
    const NAME: &'static str = "jemalloc";

    #[inline]
    fn alloc(bytes: usize) -> *mut u8 {
        // SAFETY: it may be called with any number.
        unsafe { tikv_jemalloc_sys::malloc(bytes).cast() }
    }

    #[inline]
    unsafe fn free(start: *mut u8, _: usize) {
        // SAFETY: the caller has it from `alloc`, and uses it no more.
        unsafe { tikv_jemalloc_sys::free(start.cast()) };
    }

    fn gc() {
        // 4096 is MALLCTL_ARENAS_ALL. An older jemalloc without it refuses, and nothing is given
        // back. SAFETY: a name that ends with NUL, no values.
        unsafe {
            tikv_jemalloc_sys::mallctl(
                c"arena.4096.purge".as_ptr(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                0,
            )
        };
    }
}
