//! A message that a subscriber has taken.

use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use super::header::Header;
use super::message::Message;
use super::sample_cache::{self, Taken};
use crate::TokenId;

/// A message, to read. Its payload stays as it is until this is dropped, whatever its publisher and the topic do meanwhile.
///
/// It may be sent to other threads, and outlive the subscriber that took it, and the publisher. A forked child's copy of it
/// may be read as long as its parent has not dropped it.
///
/// # If a process dies
/// The publisher: nothing happens to it. The holder: its memory can be used again once the holder's last thread has ended.
#[must_use = "what is dropped can be overwritten"]
pub struct Sample<M: Message + ?Sized = [u8]> {
    taken: NonNull<Taken>,
    _message: PhantomData<*const M>,
}

// SAFETY: bytes that nobody changes, and a hazard pointer that is this sample's alone.
unsafe impl<M: Message + ?Sized> Send for Sample<M> {}
// SAFETY: shared, it gives its bytes to read.
unsafe impl<M: Message + ?Sized> Sync for Sample<M> {}

impl<M: Message + ?Sized> Sample<M> {
    /// Of [`Free::keep`](super::sample_cache::Free::keep), with a payload that [`Message::at`] finds to be one.
    #[inline]
    pub(super) fn new(taken: NonNull<Taken>) -> Sample<M> {
        Sample { taken, _message: PhantomData }
    }

    #[inline]
    fn taken(&self) -> &Taken {
        // SAFETY: this sample's until it is dropped; nobody writes to it meanwhile.
        unsafe { self.taken.as_ref() }
    }

    /// As one pointer: for bindings, whose handle it is.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn into_raw(self) -> NonNull<core::ffi::c_void> {
        let taken = self.taken.cast();
        core::mem::forget(self);
        taken
    }

    /// The sample again.
    ///
    /// # Safety
    /// From [`Sample::into_raw`] of such a sample. There may be several, of which one at most is dropped, as the last.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn from_raw(raw: NonNull<core::ffi::c_void>) -> Sample<M> {
        Sample::new(raw.cast())
    }

    /// The payload.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let taken = self.taken();
        // SAFETY: of the object, held until this is dropped; or copied, as many words of it as have these bytes.
        unsafe { core::slice::from_raw_parts(taken.data(), taken.len) }
    }

    /// What its publisher said besides; all zero if nothing.
    #[must_use]
    pub fn header(&self) -> Header {
        self.taken().header()
    }

    /// Its number among the messages of the publisher's ring, from 0 on: without gaps, but for what was lost. A ring goes on counting when another
    /// publisher takes it.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.taken().position
    }

    /// Its order among all messages of the topic: what was published before another's publishing began has a lower one. Two that were published at
    /// the same time may have the same.
    #[must_use]
    pub fn order(&self) -> u64 {
        self.taken().order
    }

    /// The token of the process that published it, if that says so.
    #[must_use]
    pub fn publisher(&self) -> Option<TokenId> {
        TokenId::from_word(self.taken().publisher)
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
        let taken = self.taken();
        // SAFETY: objects are aligned to 64 and more, words to 8; what is aligned more does not travel in slots. Whoever made
        // the sample has seen that the length is right.
        unsafe { M::at(taken.data(), taken.len).unwrap_unchecked() }
    }
}

impl<M: Message + ?Sized> Drop for Sample<M> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: kept for this sample, dropped once.
        unsafe { sample_cache::let_go(self.taken) };
    }
}

impl<M: Message + ?Sized> core::fmt::Debug for Sample<M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sample")
            .field("sequence", &self.sequence())
            .field("bytes", &self.bytes().len())
            .finish_non_exhaustive()
    }
}
