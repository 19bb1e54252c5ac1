//! The layout of a service's file: a queue, of which it uses the ends' words and the pool, and in
//! its annex the client slots, each with its call slots.
//!
//! ```text
//! page 0      how many client slots there are; from byte 128 on tickets and bits (asked.rs)
//! page 1, 2   by client slot: {process, thread inside} (client_slot.rs)
//! page 3..    client slots: sixteen call slots of 1,536 bytes each
//!               0     words (call.rs)
//!               264   eight replies of 120 bytes: {length, form}, and 112 bytes, or the reference of an object
//!               1280  words of the request (asked.rs), and 232 bytes, or the reference of an object
//! ```

use super::asked::{Asked, Asks, Question};
use super::call::CallWords;
use crate::Error;
use crate::pool::ObjectRef;
use crate::queue::{Annex, LARGEST_MESSAGE, Queue};
use crate::segment::{Segment, SharedLayout};
use crate::shim::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a reply, or of a copy, that need no memory outside the slot.
pub(super) const INLINE: usize = 112;
/// Replies of a stream that lie in a slot at once.
pub(super) const RING: u32 = 8;
/// Call slots of a client slot.
pub(super) const SLOTS: u32 = 16;
pub(super) const MOST_CLIENT_SLOTS: u32 = 1024;

/// Bytes of a request that need no memory outside the slot.
pub(super) const INLINE_REQUEST: usize = 232;
const REPLY: u64 = 8 + INLINE as u64;
const REPLIES_AT: u64 = size_of::<CallWords>() as u64;
const QUESTION_AT: u64 = 1280;
const REQUEST_AT: u64 = QUESTION_AT + size_of::<Question>() as u64;
const SLOT: u64 = 1536;
pub(super) const CLIENT_SLOT: u64 = SLOT * SLOTS as u64;
const WORDS_AT: u64 = 4096;
const CLIENT_SLOTS_AT: u64 = WORDS_AT + MOST_CLIENT_SLOTS as u64 * 8;
pub(super) const ANNEX: Annex = Annex {
    len: CLIENT_SLOTS_AT + MOST_CLIENT_SLOTS as u64 * CLIENT_SLOT,
    first: CLIENT_SLOTS_AT,
    usual_bytes: Some(1 << 30),
};

const _: () = {
    assert!(REPLIES_AT + REPLY * RING as u64 <= QUESTION_AT);
    assert!(REQUEST_AT + INLINE_REQUEST as u64 == SLOT);
    assert!(
        core::mem::offset_of!(ServiceHeader, asks) == 128
            && size_of::<ServiceHeader>() as u64 <= WORDS_AT
    );
    assert!(MOST_CLIENT_SLOTS * SLOTS == 256 * 64);
    assert!(
        SLOT.is_multiple_of(64)
            && CLIENT_SLOT.is_multiple_of(4096)
            && CLIENT_SLOTS_AT.is_multiple_of(4096)
    );
};

/// In tags, the numbers of a slot's objects: its replies', and behind them its request's.
const OBJECTS_OF_A_SLOT: u64 = 16;
const _: () = assert!((RING as u64) < OBJECTS_OF_A_SLOT);

/// In a reply's first word: the bytes lie in an object.
const OBJECT: u64 = 1 << 63;

/// The first words of the annex.
#[repr(C)]
pub(super) struct ServiceHeader {
    /// Client slots that exist; the number only grows.
    pub(super) client_slots: AtomicU32,
    reserved: [AtomicU32; 31],
    asks: Asks,
}

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for ServiceHeader {}

/// A service's file, open in this process.
#[derive(Clone)]
pub(super) struct ServiceFile {
    pub(super) queue: Queue,
    at: u64,
}

/// A call slot.
#[derive(Clone, Copy)]
pub(super) struct CallSlot<'s> {
    pub(super) words: &'s CallWords,
    pub(super) question: &'s Question,
    replies: *mut u8,
    request: *mut u8,
    pub(super) slot: u32,
}

/// A reply or a request in its slot, its words read once and checked.
pub(super) struct SlotBytes {
    pub(super) bytes: *const u8,
    pub(super) len: usize,
    pub(super) object: Option<ObjectRef>,
}

impl ServiceFile {
    pub(super) fn new(queue: Queue) -> Result<ServiceFile, Error> {
        let (at, end) = queue.annex();
        if end.saturating_sub(at) < ANNEX.len {
            return Err(queue.segment().damaged("the service's configuration"));
        }
        queue.segment().exists(at + ANNEX.first)?;
        // Otherwise a server would skip a request whose slot it had not mapped, and the client
        // would wait as long as that server lives.
        queue.segment().expect_mapped(at + ANNEX.len)?;
        Ok(ServiceFile { queue, at })
    }

    #[inline]
    pub(super) fn segment(&self) -> &Segment {
        self.queue.segment()
    }

    #[inline]
    pub(super) fn head(&self) -> &ServiceHeader {
        // SAFETY: `new` has found that it exists; page-aligned; all atomics; mappings do not
        // shrink.
        unsafe { &*self.segment().address(self.at).cast() }
    }

    #[inline]
    pub(super) fn asks(&self) -> &Asks {
        &self.head().asks
    }

    /// Returns how many client slots exist.
    #[inline]
    pub(super) fn client_slots(&self) -> u32 {
        // Acquire pairs with `add_client_slot`: the pages exist.
        self.head().client_slots.load(Ordering::Acquire).min(MOST_CLIENT_SLOTS)
    }

    #[inline]
    pub(super) fn client_slot(&self, client_slot: u32) -> &AtomicU64 {
        debug_assert!(client_slot < MOST_CLIENT_SLOTS);
        let at = self.at + WORDS_AT + u64::from(client_slot % MOST_CLIENT_SLOTS) * 8;
        // SAFETY: before CLIENT_SLOTS_AT, which `new` has found to exist; all atomics; mappings do
        // not shrink.
        unsafe { &*self.segment().address(at).cast() }
    }

    /// Makes the pages of one more client slot.
    #[cold]
    pub(super) fn add_client_slot(&self, client_slots: u32) -> Result<(), Error> {
        if client_slots >= MOST_CLIENT_SLOTS {
            return Err(Error::NoSpace {
                path: self.segment().path().to_path_buf(),
                wanted: CLIENT_SLOT,
            });
        }
        // A death just after leaves pages that no count includes; the next client finds them.
        self.segment()
            .grow(self.at + CLIENT_SLOTS_AT + u64::from(client_slots) * CLIENT_SLOT, CLIENT_SLOT)?;
        // Release: the pages exist for each process that reads the count. A lost exchange: another
        // client added the slot.
        let _ = self.head().client_slots.compare_exchange(
            client_slots,
            client_slots + 1,
            Ordering::Release,
            Ordering::Relaxed,
        );
        Ok(())
    }

    /// Returns the slot of that number, if it exists.
    #[inline]
    pub(super) fn call(&self, slot: u32) -> Result<CallSlot<'_>, Error> {
        let client_slot = slot / SLOTS;
        if client_slot >= self.client_slots() {
            return Err(self.segment().damaged("a call's slot"));
        }
        let at = self.at + CLIENT_SLOTS_AT + u64::from(slot) * SLOT;
        self.segment().exists(at + SLOT)?;
        // SAFETY: below the number of client slots that exist, and inside the file, as `exists` has
        // found; 64-aligned; all atomics.
        let words = unsafe { &*self.segment().address(at).cast::<CallWords>() };
        // SAFETY: inside the same slot, which `exists` has found in the file.
        let replies = unsafe { self.segment().address(at + REPLIES_AT) };
        // SAFETY: inside the same slot, which `exists` has found in the file; 8-aligned; all
        // atomics.
        let question = unsafe { &*self.segment().address(at + QUESTION_AT).cast::<Question>() };
        // SAFETY: inside the same slot, which `exists` has found in the file.
        let request = unsafe { self.segment().address(at + REQUEST_AT) };
        Ok(CallSlot { words, question, replies, request, slot })
    }

    /// Returns the reply of that number in a call's ring; `None` when its words are damaged. Fails
    /// when the system does not say whether its memory exists.
    #[inline]
    pub(super) fn found(
        &self,
        call: CallSlot<'_>,
        number: u32,
    ) -> Result<Option<SlotBytes>, Error> {
        let meta = call.meta(number).load(Ordering::Relaxed);
        let Ok(len) = usize::try_from(meta & !OBJECT) else { return Ok(None) };
        if meta & OBJECT == 0 {
            return Ok((len <= INLINE).then(|| SlotBytes {
                bytes: call.bytes(number),
                len,
                object: None,
            }));
        }
        self.found_in(call.reference(number), len)
    }

    /// Returns the request in a call's slot, of which the calling thread has the claim; `None` when
    /// its words are damaged. Fails as [`ServiceFile::found`].
    #[inline]
    pub(super) fn request(
        &self,
        call: CallSlot<'_>,
        asked: Asked,
    ) -> Result<Option<SlotBytes>, Error> {
        let len = asked.len();
        if len <= INLINE_REQUEST {
            return Ok(Some(SlotBytes { bytes: call.request, len, object: None }));
        }
        self.found_in(call.request_reference(), len)
    }

    fn found_in(&self, reference: Option<u32>, len: usize) -> Result<Option<SlotBytes>, Error> {
        let Some(reference) = reference else { return Ok(None) };
        let object = self.queue.object(reference)?;
        Ok(object.filter(|object| len as u64 <= object.capacity.min(LARGEST_MESSAGE)).map(
            |object| {
                // SAFETY: `Heap::find_object` has checked the object's range against the file and the
                // mapping.
                let bytes = unsafe { self.segment().address(object.offset) };
                SlotBytes { bytes, len, object: Some(object) }
            },
        ))
    }

    /// Frees the objects in a slot that no other thread writes to or reads. Fails when the system
    /// does not say whether one of them exists, after it has freed the others. The slot must not be
    /// used before another try has succeeded, because the slot would then no longer name that
    /// object.
    #[cold]
    pub(super) fn free_objects(&self, call: CallSlot<'_>) -> Result<(), Error> {
        let freed = self.free_request(call);
        call.long_replies().fold(freed, |freed, number| {
            freed.and(self.free_at(call.reference(number), call.reply_position(number)))
        })
    }

    /// Returns whether an object lies in a slot. Fails as [`Service::free_objects`].
    #[cold]
    pub(super) fn has_objects(&self, call: CallSlot<'_>) -> Result<bool, Error> {
        if self.is_at(call.request_reference(), call.request_position())? {
            return Ok(true);
        }
        for number in call.long_replies() {
            if self.is_at(call.reference(number), call.reply_position(number))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Frees a request's object, if it still lies in the slot, for the process that has the slot.
    /// The word may be no reference at all: the tag tells. Fails as [`Service::free_objects`].
    #[cold]
    pub(super) fn free_request(&self, call: CallSlot<'_>) -> Result<(), Error> {
        self.free_at(call.request_reference(), call.request_position())
    }

    fn is_at(&self, reference: Option<u32>, position: u64) -> Result<bool, Error> {
        let Some(reference) = reference else { return Ok(false) };
        // Damaged: treated as absent.
        Ok(self
            .queue
            .object(reference)?
            .is_some_and(|object| self.queue.is_put(&object, position).unwrap_or(false)))
    }

    fn free_at(&self, reference: Option<u32>, position: u64) -> Result<(), Error> {
        if let Some(reference) = reference
            && let Some(object) = self.queue.object(reference)?
        {
            // Damaged: treated as absent.
            let _ = self.queue.free_put(&object, position);
        }
        Ok(())
    }
}

impl<'s> CallSlot<'s> {
    fn meta(self, number: u32) -> &'s AtomicU64 {
        let at = u64::from(number % RING) * REPLY;
        // SAFETY: `at` is inside the slot, 8-aligned; atomics.
        unsafe { &*self.replies.add(at as usize).cast() }
    }

    /// Returns the numbers of the replies in the ring whose words name an object. The object may be
    /// elsewhere by now: its tag says where.
    fn long_replies(self) -> impl Iterator<Item = u32> {
        (0..RING).filter(move |&number| self.meta(number).load(Ordering::Relaxed) & OBJECT != 0)
    }

    fn bytes(self, number: u32) -> *mut u8 {
        // SAFETY: the ring's replies lie inside the slot, and the number is taken modulo RING.
        unsafe { self.replies.add((u64::from(number % RING) * REPLY) as usize + 8) }
    }

    fn reference(self, number: u32) -> Option<u32> {
        // SAFETY: the reply's first word lies inside the slot, 8-aligned; an atomic.
        let word = unsafe { &*self.bytes(number).cast::<AtomicU64>() };
        u32::try_from(word.load(Ordering::Relaxed)).ok()
    }

    /// Returns the position of an object that belongs to that reply, as its tag has it.
    pub(super) fn reply_position(self, number: u32) -> u64 {
        u64::from(self.slot) * OBJECTS_OF_A_SLOT + u64::from(number % RING)
    }

    /// Returns the position of the request's object, as its tag has it.
    pub(super) fn request_position(self) -> u64 {
        u64::from(self.slot) * OBJECTS_OF_A_SLOT + u64::from(RING)
    }

    fn request_reference(self) -> Option<u32> {
        // SAFETY: the request's first word lies inside the slot, 8-aligned; an atomic.
        let word = unsafe { &*self.request.cast::<AtomicU64>() };
        u32::try_from(word.load(Ordering::Relaxed)).ok()
    }

    /// Writes a short request. Relaxed: the Release of `asked` orders it.
    ///
    /// # Safety
    /// The caller owns the slot: no call is in it, and no thread of a server is inside.
    #[inline]
    pub(super) unsafe fn write_request(self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= INLINE_REQUEST);
        // SAFETY: the caller owns the slot, and has checked that `bytes` fits into it.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.request, bytes.len()) };
    }

    /// Writes the reference of an object that holds the request.
    ///
    /// # Safety
    /// The caller guarantees what [`CallSlot::write_request`] asks for.
    pub(super) unsafe fn write_request_object(self, object: &ObjectRef) {
        // SAFETY: the request's first word lies inside the slot, 8-aligned; an atomic.
        let word = unsafe { &*self.request.cast::<AtomicU64>() };
        word.store(u64::from(object.reference), Ordering::Relaxed);
    }

    /// Writes a short reply. Relaxed: `ready`'s Release orders it.
    ///
    /// # Safety
    /// The caller is the thread that the claim says writes here.
    #[inline]
    pub(super) unsafe fn write(self, number: u32, bytes: &[u8]) {
        debug_assert!(bytes.len() <= INLINE);
        // SAFETY: the claim gives the caller the slot, and the caller has checked that `bytes`
        // fits.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.bytes(number), bytes.len()) };
        self.meta(number).store(bytes.len() as u64, Ordering::Relaxed);
    }

    /// Writes a reference of an object that holds the reply.
    ///
    /// # Safety
    /// The caller guarantees what [`CallSlot::write`] asks for.
    pub(super) unsafe fn write_object(self, number: u32, object: &ObjectRef, len: usize) {
        // SAFETY: the reply's first word lies inside the slot, 8-aligned; an atomic.
        let word = unsafe { &*self.bytes(number).cast::<AtomicU64>() };
        word.store(u64::from(object.reference), Ordering::Relaxed);
        self.meta(number).store(OBJECT | len as u64, Ordering::Relaxed);
    }
}
