//! mimalloc, by its own functions.

use outlive_bench::suite::pool::Functions;

/// The row.
pub(crate) struct Mimalloc;

impl Functions for Mimalloc {
    const NAME: &'static str = "mimalloc";

    #[inline]
    fn alloc(bytes: usize) -> *mut u8 {
        // SAFETY: it may be called with any number.
        unsafe { libmimalloc_sys::mi_malloc(bytes).cast() }
    }

    #[inline]
    unsafe fn free(start: *mut u8, _: usize) {
        // SAFETY: the caller has it from `alloc`, and uses it no more.
        unsafe { libmimalloc_sys::mi_free(start.cast()) };
    }

    fn gc() {
        // SAFETY: it moves nothing that is in use.
        unsafe { libmimalloc_sys::mi_collect(true) };
    }
}
