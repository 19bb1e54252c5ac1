//! Memory that a publisher has lent for a message.

use core::ops::{Deref, DerefMut};

use super::header::Header;
use super::message::Message;
use super::publisher::Publisher;
use super::slot::INLINE_WORDS;
use crate::pool::Block;

/// Memory for one message, to be written in place: [`Publisher::publish`] publishes it. Dropped, it is the publisher's again.
#[must_use = "a loan that is dropped is not published"]
pub struct Loan<'p, M: Message + ?Sized = [u8]> {
    pub(super) publisher: &'p Publisher<M>,
    pub(super) place: Place,
    pub(super) len: usize,
    pub(super) header: Option<Header>,
}

/// Where the bytes are meanwhile.
pub(super) enum Place {
    /// To be copied into the slot.
    Slot([u64; INLINE_WORDS]),
    Object(Block, *mut u8),
    /// Published: the loan is about to be dropped.
    Gone,
}

impl<M: Message + ?Sized> Loan<'_, M> {
    /// What is to go with it: see [`Header`].
    pub fn set_header(&mut self, header: Header) {
        self.header = Some(header);
    }

    /// Of as many bytes at most.
    #[cfg(feature = "msgpack")]
    pub(super) fn cut(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: as many bytes at least, this loan's alone.
        unsafe { core::slice::from_raw_parts(self.as_ptr(), self.len) }
    }

    fn as_ptr(&self) -> *const u8 {
        match &self.place {
            Place::Slot(words) => words.as_ptr().cast(),
            Place::Object(_, at) => *at,
            Place::Gone => core::ptr::null(),
        }
    }
}

impl<M: Message + ?Sized> Deref for Loan<'_, M> {
    type Target = M;

    fn deref(&self) -> &M {
        // SAFETY: aligned as `lend` has seen to, of the length that was asked for.
        unsafe { M::at(self.as_ptr(), self.len).unwrap_unchecked() }
    }
}

impl<M: Message + ?Sized> DerefMut for Loan<'_, M> {
    fn deref_mut(&mut self) -> &mut M {
        // SAFETY: as above; borrowed mutably, this loan's alone.
        unsafe { M::at_mut(self.as_ptr().cast_mut(), self.len).unwrap_unchecked() }
    }
}

impl<M: Message + ?Sized> Drop for Loan<'_, M> {
    fn drop(&mut self) {
        if let Place::Object(block, _) = self.place {
            self.publisher.ring(|ring| ring.stock.put_back(block));
        }
    }
}
