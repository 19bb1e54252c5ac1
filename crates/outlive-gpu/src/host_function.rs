//! What the driver calls when a stream has got there.
//!
//! Such a function calls nothing of the driver's and waits for nobody who waits for the driver; no panic leaves it. The driver does not
//! call it at all once the context has an error: what it had is kept then, see doc/protocols/gpu.md.

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::under_way::Keeps;

/// What is to be done then. It may be dropped in place of that.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// What a host function is given.
pub(crate) struct Job {
    pub(crate) work: Work,
    /// Registrations and mappings stay until it is over.
    pub(crate) keeper: Arc<dyn Keeps>,
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is in a host function, where nothing of the driver's may be called.
pub(crate) fn is_inside() -> bool {
    // A thread that ends calls no host function.
    INSIDE.try_with(Cell::get).unwrap_or(false)
}

/// The host function.
///
/// # Safety
/// `job` is a `Box<Job>`, given to the driver once.
pub(crate) unsafe extern "C" fn run(job: *mut c_void) {
    // SAFETY: the caller's promise.
    let Job { work, keeper } = *unsafe { Box::from_raw(job.cast::<Job>()) };
    let was_inside = INSIDE.replace(true);
    // Nothing of ours panics; what a user's allocator or logger does must not unwind into the driver.
    let _ = catch_unwind(AssertUnwindSafe(work));
    let under_way = Arc::clone(keeper.under_way());
    // Perhaps the last one: it is left to the next call then. Before anybody is told: who waits for that finds nothing here any more.
    drop(keeper);
    under_way.one_is_over();
    INSIDE.set(was_inside);
}
