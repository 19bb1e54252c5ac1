//! The layout of a notifier's file.
//!
//! ```text
//! page 0, 1, 2   header of every segment
//! page 3         NotifierHead: what it was made as; how many slots; the notifiers' slots
//!    + 640       the listeners' slots, 576 bytes each
//! ```
//! The first six listeners' slots lie in that page. The others get pages when they are first used.

use super::listener_slot::ListenerSlot;
use super::notifier_slot::NotifierSlot;
use crate::segment::SharedLayout;
use crate::shim::{AtomicU32, Pad32};

/// The most notifiers at a time.
pub(super) const MOST_NOTIFIERS: usize = 64;
/// The most listeners at a time.
pub(super) const MOST_LISTENERS: u32 = 64;

/// The shared words of the whole.
#[repr(C)]
pub(super) struct NotifierHead {
    // Written by the creator, constant from then on: a notice's number + 1, or 0 for none.
    pub(super) on_created: AtomicU32,
    pub(super) on_left: AtomicU32,
    pub(super) on_died: AtomicU32,
    reserved: [Pad32; 13],
    // Written by those that come; read by each notification and each look.
    /// How many listeners' slots have ever been in use.
    pub(super) listener_slots: AtomicU32,
    /// How many notifiers' slots have ever been in use.
    pub(super) notifier_slots: AtomicU32,
    reserved_2: [Pad32; 14],
    // Written by notifiers that come and go, and by a sweep.
    pub(super) notifiers: [NotifierSlot; MOST_NOTIFIERS],
}

pub(super) const HEAD_AT: u64 = crate::segment::BODY;
const LISTENERS_AT: u64 = HEAD_AT + size_of::<NotifierHead>() as u64;
/// Bytes of a listener's slot.
pub(super) const LISTENER_BYTES: u64 = size_of::<ListenerSlot>() as u64;
/// Bytes that exist from the beginning.
pub(super) const INITIAL: u64 = HEAD_AT + 4096;
/// Where the last listener's slot ends.
pub(super) const END: u64 = LISTENERS_AT + MOST_LISTENERS as u64 * LISTENER_BYTES;

/// Returns where a listener's slot lies.
pub(super) const fn listener_at(index: u32) -> u64 {
    LISTENERS_AT + index as u64 * LISTENER_BYTES
}

crate::shim::assert_layout!(
    core::mem::offset_of!(NotifierHead, listener_slots) == 64,
    core::mem::offset_of!(NotifierHead, notifiers) == 128,
    size_of::<NotifierHead>() == 640,
    LISTENER_BYTES == 576,
    listener_at(6) == INITIAL,
);

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for NotifierHead {}
