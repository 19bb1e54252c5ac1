//! Host functions: what the driver calls when a stream has got there.
//!
//! Such a function calls nothing of the driver's and waits for no thread that waits for the driver;
//! no panic leaves it. The driver does not call it at all once the context has an error: what it
//! had is kept then, see doc/protocols/gpu.md.

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::under_way::Keeps;

/// The work of a host function. It may be dropped instead of called.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// What a host function gets.
pub(crate) struct Job {
    pub(crate) work: Work,
    /// Registrations and mappings stay until it is over.
    pub(crate) keeper: Arc<dyn Keeps>,
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the calling thread is in a host function, where it must not call the driver.
pub(crate) fn is_inside() -> bool {
    // A thread that ends calls no host function.
    INSIDE.try_with(Cell::get).unwrap_or(false)
}

/// The host function itself.
///
/// # Safety
/// The caller passes `job`, a `Box<Job>`, which was given to the driver once.
pub(crate) unsafe extern "C" fn run(job: *mut c_void) {
    // SAFETY: the caller passes a `Box<Job>`, once.
    let Job { work, keeper } = *unsafe { Box::from_raw(job.cast::<Job>()) };
    let was_inside = INSIDE.replace(true);
    // This crate's code does not panic; a panic of a user's allocator or logger must not unwind
    // into the driver.
    let _ = catch_unwind(AssertUnwindSafe(work));
    let under_way = Arc::clone(keeper.under_way());
    // It may be the last user: then the next call of the driver drops it. Before any waiter is
    // told: it finds nothing left here.
    drop(keeper);
    under_way.one_is_over();
    INSIDE.set(was_inside);
}
