//! A part that borrows from a whole, and the whole, kept together: the one place where a lifetime is extended.
//!
//! Rust's guards, loans and pending calls borrow from what they came from, so that the compiler sees to it that they end
//! first. C has no borrows; a handle of C's has both, and drops the part first.

use std::sync::Arc;

/// `part` borrows from `whole`.
pub(crate) struct Owned<P: 'static, W: 'static> {
    // In this order they are dropped.
    part: P,
    whole: Arc<W>,
}

impl<P, W> Owned<P, W> {
    /// Makes the part of the whole.
    pub(crate) fn new<E>(whole: Arc<W>, make: impl FnOnce(&'static W) -> Result<P, E>) -> Result<Owned<P, W>, E> {
        // SAFETY: an Arc's value stays where it is as long as there is an Arc, and this one is dropped after the part, which is
        // given away by `take` only, together with it. The closures in this crate hand what they borrow to the part alone.
        let borrowed: &'static W = unsafe { &*Arc::as_ptr(&whole) };
        Ok(Owned { part: make(borrowed)?, whole })
    }

    #[inline]
    pub(crate) fn part(&self) -> &P {
        &self.part
    }

    #[inline]
    pub(crate) fn part_mut(&mut self) -> &mut P {
        &mut self.part
    }

    /// Whether that is the whole.
    pub(crate) fn is_of(&self, whole: &Arc<W>) -> bool {
        Arc::ptr_eq(&self.whole, whole)
    }

    /// Lets go of the whole; the part's end is not told to anybody.
    pub(crate) fn abandon(self) {
        let (part, _whole) = self.take();
        core::mem::forget(part);
    }

    /// Both. The caller uses the part up, or drops it, before the whole.
    #[inline]
    pub(crate) fn take(self) -> (P, Arc<W>) {
        (self.part, self.whole)
    }
}

/// The same for a part that is kept beside its whole, in one box: borrowed for longer than the compiler can see.
///
/// # Safety
/// Whoever borrows from the result is dropped before the whole is dropped, moved, or borrowed again.
#[inline]
pub(crate) unsafe fn outlasting<'long, T>(whole: &mut T) -> &'long mut T {
    // SAFETY: the caller's promise.
    unsafe { &mut *core::ptr::from_mut(whole) }
}
