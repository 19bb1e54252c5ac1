//! What the core lends by reference (guards, permits, loans), kept in objects without a lifetime.
//!
//! Each such object has the lender in an [`Arc`] beside what it lent, and drops that first: the one place where a lifetime
//! is made longer is [`lender`].

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use outlive::{Domain, Error};

/// The lender, for as long as what it lends is there.
///
/// # Safety
/// The lender stays where it is, and what is borrowed by way of this is dropped before it is.
pub(crate) unsafe fn lender<T>(lender: &T) -> &'static T {
    // SAFETY: the caller's promise.
    unsafe { &*core::ptr::from_ref(lender) }
}

/// A name for the calling thread that no other thread has, of this process or its forked children: its token.
pub(crate) fn this_thread(domain: &Domain) -> Result<u32, Error> {
    domain.token().map(|token| token.as_u32())
}

/// What a thread got from a lock and gives back itself: a guard belongs to its thread.
pub(crate) struct Held<G> {
    /// Whose it is, by [`this_thread`]; 0: nobody's.
    thread: AtomicU32,
    guard: UnsafeCell<Option<G>>,
}

// SAFETY: the guard is reached by the thread only whose name stands in `thread`, which no other thread writes.
unsafe impl<G> Sync for Held<G> {}
// SAFETY: as above; dropped by another thread, a guard of the core's does nothing, since it compares tokens.
unsafe impl<G> Send for Held<G> {}

impl<G> Held<G> {
    pub(crate) const fn nothing() -> Held<G> {
        Held { thread: AtomicU32::new(0), guard: UnsafeCell::new(None) }
    }

    pub(crate) fn is_of(&self, thread: u32) -> bool {
        // Relaxed: a thread's own name was written by itself.
        self.thread.load(Ordering::Relaxed) == thread
    }

    /// The calling thread is about to get something. False: somebody has it, or is about to.
    pub(crate) fn reserve(&self, thread: u32) -> bool {
        // Acquire pairs with the Release in `take`.
        self.thread.compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The calling thread, whose name that is, has got it: it has reserved this, or has a lock that nobody else can have.
    pub(crate) fn put(&self, thread: u32, guard: G) {
        // SAFETY: nobody else is in here; what is left of an owner that has ended, or of before a fork, is another's, and
        // dropping it does nothing.
        unsafe { *self.guard.get() = Some(guard) };
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// The calling thread gives it back, or what it reserved.
    pub(crate) fn take(&self, thread: u32) -> Option<G> {
        if !self.is_of(thread) {
            return None;
        }
        // SAFETY: this thread's.
        let guard = unsafe { (*self.guard.get()).take() };
        self.thread.store(0, Ordering::Release);
        guard
    }

    /// The calling thread uses what it has.
    pub(crate) fn with<R>(&self, thread: u32, with: impl FnOnce(&mut G) -> R) -> Option<R> {
        if !self.is_of(thread) {
            return None;
        }
        // SAFETY: this thread's; `with` does not come back here.
        unsafe { (*self.guard.get()).as_mut().map(with) }
    }
}
