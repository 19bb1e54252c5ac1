//! The reason why messages elsewhere are none here, in the place of a message: a gateway's stand-in
//! publishes it where the topic has another type (forwarding.rs).
//!
//! Such a slot has an impossible length, so that no other message costs more than before: a subscriber
//! that comes to it looks here instead of taking it for damaged.

use core::mem::MaybeUninit;

use super::slot::{INLINE, INLINE_WORDS, Metadata, Slot};

/// In the length: the bits below are that of the text in the slot.
const REFUSAL: u32 = 1 << 31;

/// What a slot has whose message has an impossible length.
pub(super) enum Instead {
    Why(Box<str>),
    /// It was overwritten meanwhile.
    Gone,
    Damaged,
}

/// Returns what such a slot says of its length.
pub(super) fn length(text: usize) -> usize {
    REFUSAL as usize | text
}

/// Reads such a slot.
#[cold]
pub(super) fn read(slot: &Slot, position: u64, metadata: Metadata) -> Instead {
    let len = (metadata.len ^ REFUSAL) as usize;
    if !metadata.origin.is_foreign() || len > INLINE {
        return Instead::Damaged;
    }
    let mut words = [MaybeUninit::uninit(); INLINE_WORDS];
    slot.read(len, &mut words);
    if !slot.is_still(position) {
        return Instead::Gone;
    }
    // SAFETY: `read` has written as many words as have `len` bytes.
    let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), len) };
    str::from_utf8(bytes).map_or(Instead::Damaged, |why| Instead::Why(why.into()))
}
