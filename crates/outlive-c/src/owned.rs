//! A part that borrows from a whole, kept together with it: the one place where a lifetime is
//! extended.
//!
//! Rust's guards, loans and pending calls borrow from what they came from, so the compiler checks
//! that they end first. C has no borrows; a handle of C's has both, and drops the part first.

use std::sync::Arc;

/// `part` borrows from `whole`.
pub(crate) struct Owned<P: 'static, W: 'static> {
    // They are dropped in this order.
    part: P,
    whole: Arc<W>,
}

impl<P, W> Owned<P, W> {
    /// Makes the part from the whole.
    pub(crate) fn new<E>(
        whole: Arc<W>,
        make: impl FnOnce(&'static W) -> Result<P, E>,
    ) -> Result<Owned<P, W>, E> {
        // SAFETY: an Arc's value does not move as long as there is an Arc, and this one is dropped
        // after the part, which `take` alone gives away, together with it. The closures in this
        // crate give what they borrow to the part alone.
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

    /// Returns whether that is the whole.
    pub(crate) fn is_of(&self, whole: &Arc<W>) -> bool {
        Arc::ptr_eq(&self.whole, whole)
    }

    /// Releases the whole; the part is not dropped, so no other process learns of its end.
    pub(crate) fn abandon(self) {
        let (part, _whole) = self.take();
        core::mem::forget(part);
    }

    /// Returns both. The caller consumes the part, or drops it, before the whole.
    #[inline]
    pub(crate) fn take(self) -> (P, Arc<W>) {
        (self.part, self.whole)
    }
}

/// Does the same for a part that is kept beside its whole, in one box: borrows it for longer than
/// the compiler can see.
///
/// # Safety
/// The caller drops each borrow from the result before the whole is dropped, moved, or borrowed
/// again.
#[inline]
pub(crate) unsafe fn outlasting<'long, T>(whole: &mut T) -> &'long mut T {
    // SAFETY: the caller drops each borrow from the result before the whole ends, moves, or is
    // borrowed again.
    unsafe { &mut *core::ptr::from_mut(whole) }
}
