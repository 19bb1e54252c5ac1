//! One slot of a publisher's ring, and how a message is put into it and taken out.
//!
//! | `ready` | meaning | a death here |
//! | --- | --- | --- |
//! | p + 1 | message p is there | it stays |
//! | 0 | being written, or given up, or never used | the message before is gone, as if overwritten; the ring's next owner writes it again |
//!
//! One thread at a time writes, any number read. A reader copies, or holds the object
//! (`hazard.rs`), and then looks at `ready` again.

use core::mem::MaybeUninit;

use super::hazard::HazardPointers;
use crate::shim::{AtomicU64, Ordering, fence};

/// Words of payload that fit into a slot.
pub(super) const INLINE_WORDS: usize = if cfg!(loom) { 2 } else { 21 };
/// Payloads of up to so many bytes lie in the slot itself.
pub(super) const INLINE: usize = INLINE_WORDS * 8;
/// Words of a user's header, besides the stamp.
pub(super) const HEADER_WORDS: usize = if cfg!(loom) { 1 } else { 6 };

/// See the head of this file.
#[repr(C)]
pub(super) struct Slot {
    ready: AtomicU64,
    order: AtomicU64,
    /// {the publisher's token, length}
    what: AtomicU64,
    /// {the session's number, form, the object's reference}
    form: AtomicU64,
    /// 0: none. In the first line, which each message needs.
    stamp: AtomicU64,
    inline: [AtomicU64; INLINE_WORDS],
    header: [AtomicU64; HEADER_WORDS],
}

pub(super) const SLOT: u64 = size_of::<Slot>() as u64;
crate::shim::assert_layout!(SLOT == 256 && core::mem::offset_of!(Slot, inline) == 40);

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl crate::segment::SharedLayout for Slot {}

/// The payload lies in an object.
const OBJECT: u32 = 1;
/// The message has a user's header: more than a stamp.
const HEADER: u32 = 2;

/// The message counts for its publisher's lifespan only.
const LIFESPAN: u32 = 4;

/// The publisher stands for one elsewhere (forwarding.rs).
const FOREIGN: u32 = 8;

/// Where the number of a session lies in `form`: above the flags.
const SESSION_AT: u32 = 32 + 4;

/// Bits of a session's number: the rest of `form`.
pub(super) const SESSION_BITS: u32 = 64 - SESSION_AT;

/// Where a session's own bits begin: [`LIFESPAN`], [`FOREIGN`], and its number.
const ORIGIN_AT: u32 = SESSION_AT - 2;
const _: () = assert!((LIFESPAN as u64) << 32 == 1 << ORIGIN_AT);

/// A message's publisher and session, as a slot's words have them: the same for all messages of a
/// session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    /// The publishing process's token, in the upper half.
    what: u64,
    /// The session's number, from `SESSION_AT` on, and its flags.
    form: u64,
}

impl Origin {
    pub(super) fn new(
        publisher: u32,
        session: u32,
        has_lifespan: bool,
        is_foreign: bool,
    ) -> Origin {
        let flags = (u32::from(has_lifespan) * LIFESPAN) | (u32::from(is_foreign) * FOREIGN);
        let flags = u64::from(flags) << 32;
        Origin { what: u64::from(publisher) << 32, form: u64::from(session) << SESSION_AT | flags }
    }

    /// Returns whether the publisher has a lifespan.
    pub(super) fn has_lifespan(self) -> bool {
        self.form >> 32 & u64::from(LIFESPAN) != 0
    }

    /// Returns whether the publisher stands for one elsewhere.
    pub(super) fn is_foreign(self) -> bool {
        self.form >> 32 & u64::from(FOREIGN) != 0
    }

    /// Returns the publishing process's token.
    #[inline]
    pub(super) fn publisher(self) -> u32 {
        (self.what >> 32) as u32
    }

    #[inline]
    pub(super) fn session(self) -> u32 {
        (self.form >> SESSION_AT) as u32
    }
}

/// What is written besides the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    pub(super) order: u64,
    pub(super) origin: Origin,
    pub(super) len: u32,
    /// The reference of a payload that does not lie in the slot.
    pub(super) object: Option<u32>,
    /// 0: none.
    pub(super) stamp: u64,
    pub(super) has_header: bool,
}

/// What a reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageState {
    There,
    /// Not published yet, or given up: the ring's `published` tells.
    NotThere,
    /// A later message has taken its place.
    Overwritten,
}

/// A copy of the words of a message.
pub(super) type CopiedWords<const N: usize> = [MaybeUninit<u64>; N];

impl Slot {
    /// Begins a message: the slot's earlier message is gone from here on.
    #[inline]
    pub(super) fn begin(&self) {
        self.ready.store(0, Ordering::Relaxed);
        // Before all that is written next: pairs with the fence in `is_still`. A reader that has
        // seen any of it sees the 0, or a later value.
        fence(Ordering::Release);
    }

    /// Writes the metadata, between `begin` and `publish`.
    #[inline]
    pub(super) fn describe(&self, metadata: Metadata) {
        self.order.store(metadata.order, Ordering::Relaxed);
        self.what.store(metadata.origin.what | u64::from(metadata.len), Ordering::Relaxed);
        let form = (u32::from(metadata.object.is_some()) * OBJECT)
            | (u32::from(metadata.has_header) * HEADER);
        self.form.store(
            metadata.origin.form | u64::from(form) << 32 | u64::from(metadata.object.unwrap_or(0)),
            Ordering::Relaxed,
        );
        self.stamp.store(metadata.stamp, Ordering::Relaxed);
    }

    /// Writes the payload, between `begin` and `publish`; of more bytes than fit, as many as fit.
    #[inline]
    pub(super) fn write(&self, bytes: &[u8]) {
        let mut words = self.inline.iter();
        let (whole, rest) = bytes.as_chunks::<8>();
        for (word, bytes) in words.by_ref().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if !rest.is_empty() && whole.len() < INLINE_WORDS {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.inline[whole.len()].store(u64::from_ne_bytes(last), Ordering::Relaxed);
        }
    }

    /// Writes the header, between `begin` and `publish`.
    #[inline]
    pub(super) fn write_header(&self, header: &[u64; HEADER_WORDS]) {
        self.header
            .iter()
            .zip(header)
            .for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
    }

    /// Publishes message `position`.
    #[inline]
    pub(super) fn publish(&self, position: u64) {
        // Release pairs with `look`. A death just before: not published. Just after: published.
        self.ready.store(position.wrapping_add(1), Ordering::Release);
    }

    #[inline]
    pub(super) fn look(&self, position: u64) -> MessageState {
        let ready = self.ready.load(Ordering::Acquire);
        if ready == position.wrapping_add(1) {
            MessageState::There
        } else if ready > position {
            MessageState::Overwritten
        } else {
            MessageState::NotThere
        }
    }

    /// Returns the word that changes when a message comes.
    pub(super) fn watch(&self) -> crate::sys::futex::Watch<'_> {
        let half = usize::from(cfg!(target_endian = "big"));
        // SAFETY: the lower half of `ready`, 4-aligned; only the kernel reads it as a 32-bit word.
        let word = unsafe { &*(&raw const self.ready).cast::<crate::shim::AtomicU32>().add(half) };
        crate::sys::futex::Watch { word, expected: word.load(Ordering::Acquire) }
    }

    /// Returns which message is there.
    pub(super) fn position(&self) -> Option<u64> {
        self.ready.load(Ordering::Acquire).checked_sub(1)
    }

    /// Returns the message's order; valid only if `is_still` says so afterwards.
    #[inline]
    pub(super) fn order(&self) -> u64 {
        self.order.load(Ordering::Relaxed)
    }

    /// Returns the metadata; valid only if `is_still` says so afterwards.
    #[inline]
    pub(super) fn metadata(&self) -> Metadata {
        let (what, form) = (self.what.load(Ordering::Relaxed), self.form.load(Ordering::Relaxed));
        let flags = (form >> 32) as u32;
        Metadata {
            order: self.order(),
            origin: Origin {
                what: what & !u64::from(u32::MAX),
                form: form >> ORIGIN_AT << ORIGIN_AT,
            },
            len: what as u32,
            object: (flags & OBJECT != 0).then_some(form as u32),
            stamp: self.stamp.load(Ordering::Relaxed),
            has_header: flags & HEADER != 0,
        }
    }

    /// Reads as many words as have `len` bytes; valid only if `is_still` says so afterwards.
    #[inline]
    pub(super) fn read(&self, len: usize, into: &mut CopiedWords<INLINE_WORDS>) {
        for (word, into) in self.inline.iter().zip(into).take(len.div_ceil(8)) {
            into.write(word.load(Ordering::Relaxed));
        }
    }

    /// Reads the header; valid only if `is_still` says so afterwards.
    #[inline]
    pub(super) fn read_header(&self, into: &mut CopiedWords<HEADER_WORDS>) {
        for (word, into) in self.header.iter().zip(into) {
            into.write(word.load(Ordering::Relaxed));
        }
    }

    /// Returns whether what was read since `look` belongs to this message.
    #[inline]
    pub(super) fn is_still(&self, position: u64) -> bool {
        // Pairs with the fence in `begin`.
        fence(Ordering::Acquire);
        self.ready.load(Ordering::Relaxed) == position.wrapping_add(1)
    }

    /// Holds this message's object by that hazard pointer. Returns `false` when the message is not
    /// there any more.
    #[inline]
    pub(super) fn hold(
        &self,
        position: u64,
        reference: u32,
        pointers: &HazardPointers<'_>,
        at: usize,
    ) -> bool {
        pointers.set(at, reference);
        // Of this reader and a publisher that overwrites the slot, at least one sees the other:
        // pairs with the fence in `hazard::names`.
        fence(Ordering::SeqCst);
        let there = self.ready.load(Ordering::Relaxed) == position.wrapping_add(1);
        if !there {
            pointers.clear(at);
        }
        there
    }
}

#[cfg(loom)]
impl Slot {
    pub(super) fn new() -> Slot {
        let zero = || AtomicU64::new(0);
        Slot {
            ready: zero(),
            order: zero(),
            what: zero(),
            form: zero(),
            stamp: zero(),
            inline: core::array::from_fn(|_| zero()),
            header: core::array::from_fn(|_| zero()),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        // SAFETY: all zero is a slot that was never used.
        let slot: Slot = unsafe { core::mem::zeroed() };
        let bytes: Vec<u8> = (0..INLINE as u8).collect();
        for (position, len) in (0..=INLINE).enumerate() {
            let position = position as u64;
            let metadata = Metadata {
                order: 7,
                origin: Origin::new(8, position as u32, len % 3 == 0, len % 2 == 0),
                len: len as u32,
                object: None,
                stamp: u64::MAX - position,
                has_header: len % 2 == 0,
            };
            assert_eq!(slot.look(position), MessageState::NotThere);
            slot.begin();
            slot.describe(metadata);
            slot.write(&bytes[..len]);
            slot.write_header(&[position; HEADER_WORDS]);
            slot.publish(position);
            assert_eq!((slot.look(position), slot.metadata()), (MessageState::There, metadata));
            let mut words = [MaybeUninit::new(0); INLINE_WORDS];
            slot.read(len, &mut words);
            assert!(slot.is_still(position));
            // SAFETY: initialized above; the words have INLINE bytes.
            let read = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), INLINE) };
            assert_eq!(&read[..len], &bytes[..len]);
            assert_eq!(slot.look(position + 1), MessageState::NotThere);
            assert!(position == 0 || slot.look(position - 1) == MessageState::Overwritten);
        }
        slot.begin();
        let metadata = Metadata {
            order: 1,
            origin: Origin::new(u32::MAX, (1 << SESSION_BITS) - 1, true, true),
            len: 1 << 30,
            object: Some((1 << 29) - 1),
            stamp: 0,
            has_header: false,
        };
        slot.describe(metadata);
        assert_eq!(slot.metadata(), metadata);
    }
}
