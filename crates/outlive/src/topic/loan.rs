//! Memory that a publisher has lent for a message. Its description lies with the publisher, and a
//! loan is a pointer to it: so moving a loan costs nothing, and a short message is written where it
//! is copied from.

use core::cell::Cell;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::header::Header;
use super::publisher::Publisher;
use super::slot::INLINE_WORDS;
use crate::Payload;
use crate::pool::ObjectRef;

/// Memory for one message, written in place and published by [`Publisher::publish`].
///
/// A loan that is dropped gives its memory back to the publisher.
#[must_use = "a loan that is dropped is not published"]
pub struct Loan<'p, M: Payload + ?Sized = [u8]> {
    publisher: &'p Publisher<M>,
    lent: NonNull<Lent>,
}

/// The description of a loan.
struct Lent {
    is_out: Cell<bool>,
    /// Allocated for this loan, not the publisher's own: freed with its loan.
    is_alone: bool,
    /// Where the object is written; null: the bytes lie in `inline`, to be copied into the slot.
    at: *mut u8,
    len: usize,
    object: Option<ObjectRef>,
    header: Option<Header>,
    inline: [u64; INLINE_WORDS],
}

/// The description that a publisher's loan points to: it seldom has two loans at a time.
pub(super) struct LoanCache(NonNull<Lent>);

impl Lent {
    fn new(is_alone: bool) -> NonNull<Lent> {
        let at = core::ptr::null_mut();
        let inline = [0; INLINE_WORDS];
        let lent = Lent {
            is_out: Cell::new(false),
            is_alone,
            at,
            len: 0,
            object: None,
            header: None,
            inline,
        };
        Box::leak(Box::new(lent)).into()
    }

    #[inline]
    fn as_ptr(&self) -> *const u8 {
        if self.at.is_null() { self.inline.as_ptr().cast() } else { self.at }
    }

    #[inline]
    fn as_mut_ptr(&mut self) -> *mut u8 {
        if self.at.is_null() { self.inline.as_mut_ptr().cast() } else { self.at }
    }
}

impl LoanCache {
    pub(super) fn new() -> LoanCache {
        LoanCache(Lent::new(false))
    }

    /// Returns a description that no loan uses.
    #[inline]
    fn free(&self) -> NonNull<Lent> {
        // SAFETY: the cache owns it until it is dropped; a loan that uses it has set `is_out`.
        if unsafe { (*self.0.as_ptr()).is_out.get() } { Lent::new(true) } else { self.0 }
    }
}

impl Drop for LoanCache {
    fn drop(&mut self) {
        // SAFETY: `Lent::new` made it with `Box::leak`; loans do not outlive their publisher.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl<'p, M: Payload + ?Sized> Loan<'p, M> {
    /// Makes a loan of an object of the publisher's, with the address where it is written, or of
    /// room in a slot.
    #[inline]
    pub(super) fn new(
        publisher: &'p Publisher<M>,
        len: usize,
        object: Option<(ObjectRef, *mut u8)>,
    ) -> Loan<'p, M> {
        let mut lent = publisher.loan_cache().free();
        // SAFETY: `free` returned a description that no loan uses, so this is the only reference.
        let this = unsafe { lent.as_mut() };
        this.is_out.set(true);
        this.at = object.map_or(core::ptr::null_mut(), |(_, at)| at);
        this.len = len;
        this.object = object.map(|(block, _)| block);
        this.header = None;
        Loan { publisher, lent }
    }

    fn lent(&self) -> &Lent {
        // SAFETY: `is_out` keeps the description this loan's until the loan is dropped.
        unsafe { self.lent.as_ref() }
    }

    fn lent_mut(&mut self) -> &mut Lent {
        // SAFETY: `is_out` keeps the description this loan's; `&mut self` borrows it for this call
        // alone.
        unsafe { self.lent.as_mut() }
    }

    /// Sets the header that is published with the message: see [`Header`].
    pub fn set_header(&mut self, header: Header) {
        self.lent_mut().header = Some(header);
    }

    pub(super) fn header(&self) -> Option<Header> {
        self.lent().header
    }

    /// Shortens the loan to at most so many bytes.
    #[cfg(feature = "msgpack")]
    pub(super) fn cut(&mut self, len: usize) {
        let lent = self.lent_mut();
        lent.len = lent.len.min(len);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let lent = self.lent();
        // SAFETY: the memory has at least `len` bytes, and is this loan's alone.
        unsafe { core::slice::from_raw_parts(lent.as_ptr(), lent.len) }
    }

    /// Takes the object out of the loan, if it has one of that publisher's.
    #[inline]
    pub(super) fn take_object(&mut self, publisher: &Publisher<M>) -> Option<(ObjectRef, usize)> {
        if !core::ptr::eq(self.publisher, publisher) {
            return None;
        }
        let lent = self.lent_mut();
        lent.object.take().map(|block| (block, lent.len))
    }
}

impl<M: Payload + ?Sized> Deref for Loan<'_, M> {
    type Target = M;

    #[inline]
    fn deref(&self) -> &M {
        let lent = self.lent();
        // SAFETY: `lend` allocated memory aligned for `M` and of the length that was asked for.
        unsafe { M::at(lent.as_ptr(), lent.len).unwrap_unchecked() }
    }
}

impl<M: Payload + ?Sized> DerefMut for Loan<'_, M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut M {
        let lent = self.lent_mut();
        // SAFETY: `lend` allocated memory aligned for `M`; `&mut self` makes this the only
        // reference.
        unsafe { M::at_mut(lent.as_mut_ptr(), lent.len).unwrap_unchecked() }
    }
}

impl<M: Payload + ?Sized> Drop for Loan<'_, M> {
    #[inline]
    fn drop(&mut self) {
        let lent = self.lent_mut();
        let (object, is_alone) = (lent.object.take(), lent.is_alone);
        lent.is_out.set(false);
        if let Some(block) = object {
            self.publisher.ring(|ring| ring.free_list.put_back(block));
        }
        if is_alone {
            // SAFETY: `Lent::new` made it with `Box::leak` for this loan alone.
            drop(unsafe { Box::from_raw(self.lent.as_ptr()) });
        }
    }
}
