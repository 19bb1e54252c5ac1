//! A message that a subscriber has taken.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Deref;

use super::header::Header;
use super::hold;
use super::message::Message;
use super::slot::{HEADER_WORDS, INLINE_WORDS, Words};
use crate::TokenId;
use crate::shim::AtomicU32;
use crate::sys::identity;

/// A message, to read. Its payload stays as it is until this is dropped, whatever its publisher and the topic do meanwhile.
///
/// It may be sent to other threads, and outlive the subscriber that took it, and the publisher. A forked child's copy of it
/// may be read as long as its parent has not dropped it.
///
/// # If a process dies
/// The publisher: nothing happens to it. The holder: its memory can be used again once the holder's last thread has ended.
#[must_use = "what is dropped can be overwritten"]
pub struct Sample<M: Message + ?Sized = [u8]> {
    /// Of a payload in an object; null: in `inline`.
    pub(super) data: *const u8,
    pub(super) len: usize,
    /// The cell that holds the object.
    pub(super) cell: *const AtomicU32,
    /// The process whose it is, by number.
    pub(super) owner: u64,
    pub(super) order: u64,
    pub(super) position: u64,
    pub(super) publisher: u32,
    pub(super) has_header: bool,
    pub(super) header: Words<HEADER_WORDS>,
    pub(super) inline: Words<INLINE_WORDS>,
    pub(super) _message: PhantomData<*const M>,
}

// SAFETY: bytes that nobody changes, and a cell that is this sample's alone.
unsafe impl<M: Message + ?Sized> Send for Sample<M> {}
// SAFETY: shared, it gives its bytes to read.
unsafe impl<M: Message + ?Sized> Sync for Sample<M> {}

impl<M: Message + ?Sized> Sample<M> {
    /// The payload.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: of the object, held until this is dropped; or copied, as many words of it as have these bytes.
        unsafe { core::slice::from_raw_parts(self.as_ptr(), self.len) }
    }

    #[inline]
    fn as_ptr(&self) -> *const u8 {
        if self.data.is_null() { self.inline.as_ptr().cast() } else { self.data }
    }

    /// What its publisher said besides; all zero if nothing.
    #[must_use]
    pub fn header(&self) -> Header {
        if !self.has_header {
            return Header::default();
        }
        // SAFETY: read from the slot, as it has one.
        Header::of_words(self.header.map(|word| unsafe { word.assume_init() }))
    }

    /// Its number among the messages of the publisher's ring, from 0 on: without gaps, but for what was lost. A ring goes on counting when another
    /// publisher takes it.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.position
    }

    /// Its order among all messages of the topic: what was published before another's publishing began has a lower one. Two that were published at
    /// the same time may have the same.
    #[must_use]
    pub fn order(&self) -> u64 {
        self.order
    }

    /// The token of the process that published it, if that says so.
    #[must_use]
    pub fn publisher(&self) -> Option<TokenId> {
        TokenId::from_word(self.publisher)
    }

    /// The value, read from msgpack.
    ///
    /// # Errors
    /// What the bytes have instead.
    #[cfg(feature = "msgpack")]
    pub fn msgpack<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, rmp_serde::decode::Error> {
        rmp_serde::from_slice(self.bytes())
    }
}

impl<M: Message + ?Sized> Deref for Sample<M> {
    type Target = M;

    #[inline]
    fn deref(&self) -> &M {
        // SAFETY: objects are aligned to 64 and more, words to 8; what is aligned more does not travel in slots. Whoever made
        // the sample has seen that the length is right.
        unsafe { M::at(self.as_ptr(), self.len).unwrap_unchecked() }
    }
}

impl<M: Message + ?Sized> Drop for Sample<M> {
    #[inline]
    fn drop(&mut self) {
        // In a forked child the cell is its parent's.
        if !self.cell.is_null() && identity::this_process() == Ok(self.owner) {
            // SAFETY: the line stays mapped until all of its cells are 0: subscriber.rs.
            hold::release(unsafe { &*self.cell });
        }
    }
}

impl<M: Message + ?Sized> core::fmt::Debug for Sample<M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sample").field("sequence", &self.position).field("bytes", &self.len).finish_non_exhaustive()
    }
}

/// Words of which nothing is known.
pub(super) const fn unknown<const N: usize>() -> Words<N> {
    [MaybeUninit::uninit(); N]
}
