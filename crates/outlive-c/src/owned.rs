//! A part that borrows from a whole, kept together with it: the one place where a lifetime is
//! extended.
//!
//! Rust's shared objects and peeked messages borrow from what they came from, so the
//! compiler checks that they end first. C has no borrows; a handle of C's has both, and drops the
//! part first.

use std::sync::Arc;

/// `part` borrows from `whole`.
pub(crate) struct Owned<P: 'static, W: 'static> {
    // They are dropped in this order.
    part: P,
    _whole: Arc<W>,
}

impl<P, W> Owned<P, W> {
    /// Makes the part from the whole.
    pub(crate) fn new<E>(
        whole: Arc<W>,
        make: impl FnOnce(&'static W) -> Result<P, E>,
    ) -> Result<Owned<P, W>, E> {
        // SAFETY: an Arc's value does not move as long as there is an Arc, and this one is dropped
        // after the part, which nothing gives away. The closures in this crate give what they
        // borrow to the part alone.
        let borrowed: &'static W = unsafe { &*Arc::as_ptr(&whole) };
        Ok(Owned { part: make(borrowed)?, _whole: whole })
    }

    #[inline]
    pub(crate) fn part(&self) -> &P {
        &self.part
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
