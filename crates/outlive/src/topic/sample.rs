//! A message that a subscriber has received.

use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use std::time::Duration;

use super::header::Header;
use super::sample_cache::{self, Taken};
use crate::Payload;
use crate::TokenId;

/// A received message. Its payload does not change until the sample is dropped, whatever its
/// publisher and the topic do meanwhile.
///
/// A sample may move to other threads, and outlive its subscriber and its publisher. A forked child
/// may read its copy as long as the parent has not dropped its own.
///
/// # If a process dies
/// If the publisher dies, the sample stays as it is. If the holder dies, the memory can be used
/// again once the holder's last thread has ended.
#[must_use = "what is dropped can be overwritten"]
pub struct Sample<M: Payload + ?Sized = [u8]> {
    taken: NonNull<Taken>,
    _message: PhantomData<*const M>,
}

// SAFETY: the bytes do not change, and the hazard pointer is this sample's alone.
unsafe impl<M: Payload + ?Sized> Send for Sample<M> {}
// SAFETY: a shared sample only gives its bytes to read.
unsafe impl<M: Payload + ?Sized> Sync for Sample<M> {}

impl<M: Payload + ?Sized> Sample<M> {
    /// Makes a sample of what [`Free::keep`](super::sample_cache::Free::keep) returned, with a
    /// payload that `Payload::at` accepts.
    #[inline]
    pub(super) fn new(taken: NonNull<Taken>) -> Sample<M> {
        Sample { taken, _message: PhantomData }
    }

    #[inline]
    pub(super) fn taken(&self) -> &Taken {
        // SAFETY: `Free::keep` gave it to this sample until the drop; no thread writes to it
        // meanwhile.
        unsafe { self.taken.as_ref() }
    }

    /// Turns the sample into one pointer: for bindings, whose handle it is.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn into_raw(self) -> NonNull<core::ffi::c_void> {
        let taken = self.taken.cast();
        core::mem::forget(self);
        taken
    }

    /// Turns such a pointer into the sample again.
    ///
    /// # Safety
    /// The pointer comes from [`Sample::into_raw`] of a sample of this type. There may be several
    /// copies, of which at most one is dropped, as the last.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn from_raw(raw: NonNull<core::ffi::c_void>) -> Sample<M> {
        Sample::new(raw.cast())
    }

    /// Returns the payload.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let taken = self.taken();
        // SAFETY: an object's bytes, held until this is dropped; or copied words that have at least
        // `len` bytes.
        unsafe { core::slice::from_raw_parts(taken.data(), taken.len) }
    }

    /// Returns the header that its publisher sent along; all zero if there was none.
    #[must_use]
    pub fn header(&self) -> Header {
        self.taken().header()
    }

    /// Returns its number among the messages of the publisher's ring, from 0 on. The numbers have
    /// no gaps except for lost messages. A ring goes on counting when another publisher takes it.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.taken().position
    }

    /// Returns the number of the ring that it was published in: [`Sample::sequence`] counts for each
    /// ring. [`TopicUsage::rings`](super::TopicUsage::rings) are in the order of these numbers.
    #[must_use]
    pub fn ring(&self) -> u32 {
        self.taken().ring
    }

    /// Returns its order among all messages of the topic: a message that was published before
    /// another's publishing began has the lower order. Two that were published at the same time may
    /// have the same.
    #[must_use]
    pub fn order(&self) -> u64 {
        self.taken().order
    }

    /// Returns the number of the session that it is of: each start of a publisher, of this topic and
    /// by whichever process, is a session of its own, with a higher number than those before it.
    /// [`Sample::publisher`] is its process.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-sessions-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::RecvError;
    /// use outlive::topic::{Subscriber, Topic};
    /// let topic = Topic::<u64>::open_or_create(&domain, "steps")?;
    /// let mut subscriber = topic.subscriber_with(Subscriber::options().sessions(true))?;
    /// topic.publisher()?.publish(&1)?;
    /// let publisher = topic.publisher()?;               // the program was started again
    /// publisher.publish(&2)?;
    /// assert_eq!(subscriber.recv().map(drop), Err(RecvError::NewSession { session: 1 }));
    /// assert_eq!(subscriber.recv()?.session(), 1);
    /// assert_eq!(subscriber.recv().map(drop), Err(RecvError::NewSession { session: 2 }));
    /// assert_eq!(*subscriber.recv()?, 2);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn session(&self) -> u32 {
        self.taken().session
    }

    /// Returns whether the process that published it is alive: correct at once after it was killed.
    #[must_use]
    pub fn publisher_alive(&self) -> bool {
        self.taken().is_publisher_alive()
    }

    /// Returns how long ago it was published, by its header's stamp and the time of day; `None`
    /// without a stamp. A stamp that lies in the future is no time ago.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.taken().age()
    }

    /// Returns the token of the process that published it; `None` if the token is damaged.
    #[must_use]
    pub fn publisher(&self) -> Option<TokenId> {
        TokenId::from_word(self.taken().publisher)
    }
}

impl<M: Payload + ?Sized> Deref for Sample<M> {
    type Target = M;

    #[inline]
    fn deref(&self) -> &M {
        let taken = self.taken();
        // SAFETY: objects are aligned to 64 and more, words to 8; types with a larger alignment do
        // not travel in slots. `take` has checked the length.
        unsafe { M::at(taken.data(), taken.len).unwrap_unchecked() }
    }
}

impl<M: Payload + ?Sized> Drop for Sample<M> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `keep` gave it to this sample, which is dropped once.
        unsafe { sample_cache::let_go(self.taken) };
    }
}

impl<M: Payload + ?Sized> core::fmt::Debug for Sample<M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sample")
            .field("sequence", &self.sequence())
            .field("bytes", &self.bytes().len())
            .finish_non_exhaustive()
    }
}
