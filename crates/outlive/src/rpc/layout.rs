//! The layout of a service's file: a queue, of which it uses the ends' words and the pool, and in
//! its annex the client slots, each with its call slots.
//!
//! ```text
//! page 0      how many client slots there are, and servers may be; from byte 128 on tickets and
//!             bits (asked.rs); from byte 2,240 on the places of servers behind the first
//! page 1, 2   by client slot: {process, thread inside} (client_slot.rs)
//! page 3..    client slots: sixteen call slots of 1,536 bytes each
//!               0     words (call.rs), and the references of eight parts of the request
//!               264   eight replies of 120 bytes: {length, form}, and 112 bytes, or the reference of an object
//!               1224  a failure's text: {length, form}, and 48 bytes, or the reference of an object
//!               1280  words of the request (asked.rs), and 232 bytes, or the reference of an object
//! ```

use super::asked::{Asked, Asks, Question};
use super::call::{After, CallWords, Ready};
use crate::Error;
use crate::claim::RoleWords;
use crate::pool::ObjectRef;
use crate::queue::{Annex, LARGEST_MESSAGE, Queue};
use crate::segment::{Segment, SharedLayout};
use crate::shim::{AtomicU32, AtomicU64, Ordering};
use crate::sys::map::prefetch_for_write;

/// Bytes of a reply, or of a copy, that need no memory outside the slot.
pub(super) const INLINE: usize = 112;
/// Bytes of a failure's text that need no memory outside the slot.
pub(super) const INLINE_FAILURE: usize = 48;
/// Replies of a stream that lie in a slot at once.
pub(super) const RING: u32 = 8;

/// Returns whether a ring has room for one more, in which so many were put and of which so many were taken,
/// modularly: replies, or parts.
#[inline]
pub(super) fn is_room(put: u32, taken: u32) -> bool {
    Ready::new(0, put, After::More).beyond(taken) < RING
}

/// Call slots of a client slot.
pub(super) const SLOTS: u32 = 16;
pub(super) const MOST_CLIENT_SLOTS: u32 = 1024;

/// Bytes of a request that need no memory outside the slot.
pub(super) const INLINE_REQUEST: usize = 232;
/// The most servers of a service at a time.
pub(super) const MOST_SERVERS: u32 = 64;
const SLOT: u64 = size_of::<Slot>() as u64;
pub(super) const CLIENT_SLOT: u64 = SLOT * SLOTS as u64;
const WORDS_AT: u64 = 4096;
const CLIENT_SLOTS_AT: u64 = WORDS_AT + MOST_CLIENT_SLOTS as u64 * 8;
pub(super) const ANNEX: Annex = Annex {
    len: CLIENT_SLOTS_AT + MOST_CLIENT_SLOTS as u64 * CLIENT_SLOT,
    first: CLIENT_SLOTS_AT,
    usual_bytes: Some(1 << 30),
    word: 0,
};

const _: () = {
    assert!(SLOT == 1536 && core::mem::offset_of!(Slot, question) == 1280);
    assert!(core::mem::offset_of!(Slot, failure) == 1224);
    assert!(
        core::mem::offset_of!(ServiceHeader, asks) == 128
            && core::mem::offset_of!(ServiceHeader, places) == 2240
            && core::mem::offset_of!(ServiceHeader, servers) as u64 == Annex::WORD_AT
            && size_of::<ServiceHeader>() as u64 <= WORDS_AT
    );
    assert!(MOST_CLIENT_SLOTS * SLOTS == 256 * 64);
    assert!(
        SLOT.is_multiple_of(64)
            && CLIENT_SLOT.is_multiple_of(4096)
            && CLIENT_SLOTS_AT.is_multiple_of(4096)
    );
};

/// In tags, the numbers of a slot's objects: its replies', and behind them its request's, its
/// failure's and its parts'.
const OBJECTS_OF_A_SLOT: u64 = 32;
const REQUEST: u64 = RING as u64;
const FAILURE: u64 = REQUEST + 1;
const PARTS: u64 = FAILURE + 1;
const _: () = assert!(PARTS + RING as u64 <= OBJECTS_OF_A_SLOT);

/// In the first word of a reply or of a failure: the bytes lie in an object.
const OBJECT: u64 = 1 << 63;

/// In the place of a part, {reference, HERE, length}: 32, 1 and 31 bits. All zero: never used.
const HERE: u64 = 1 << 31;

/// The first words of the annex.
#[repr(C)]
pub(super) struct ServiceHeader {
    /// Client slots that exist; the number only grows.
    pub(super) client_slots: AtomicU32,
    /// The most servers, written by the creator; constant. 0: one.
    pub(super) servers: AtomicU32,
    /// Changes whenever a server leaves, or, of several, comes.
    pub(super) serving: AtomicU32,
    /// Changes whenever a client takes a client slot: what a watcher of clients sleeps on.
    pub(super) clients: AtomicU32,
    /// The process that stands for a server elsewhere, and gives its place to any other (forwarding.rs);
    /// 0: none.
    pub(super) stand_in: AtomicU32,
    reserved: [AtomicU32; 27],
    asks: Asks,
    reserved_2: [AtomicU32; 14],
    /// The places of servers behind the first (places.rs), whose role is the queue's receiver's.
    pub(super) places: [RoleWords; MOST_SERVERS as usize - 1],
}

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for ServiceHeader {}

/// A service's file, open in this process.
#[derive(Clone)]
pub(super) struct ServiceFile {
    pub(super) queue: Queue,
    at: u64,
}

/// What a service's ends have of their types: neither is kept in them.
pub(super) type Types<Q, R> = (fn(&Q), fn(&R));

/// A call slot.
#[repr(C)]
struct Slot {
    words: CallWords,
    replies: [Answer<{ INLINE / 8 }>; RING as usize],
    /// In a place of its own: the server writes it also while the client has taken none of eight
    /// replies.
    failure: Answer<{ INLINE_FAILURE / 8 }>,
    question: Question,
    request: Bytes<{ INLINE_REQUEST / 8 }>,
}

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for Slot {}

/// The place of one reply in a slot's ring, or of a failure's text.
#[repr(C)]
struct Answer<const WORDS: usize> {
    /// Its length, with `OBJECT` when its bytes lie in an object.
    meta: AtomicU64,
    bytes: Bytes<WORDS>,
}

impl<const WORDS: usize> Answer<WORDS> {
    /// Writes short bytes.
    ///
    /// # Safety
    /// The caller is the thread that the claim says writes here, and has checked that they fit.
    #[inline]
    unsafe fn write(&self, bytes: &[u8]) {
        // SAFETY: the claim gives the caller the slot, and it has checked that they fit.
        unsafe { self.bytes.write(bytes) };
        self.meta.store(bytes.len() as u64, Ordering::Relaxed);
    }

    /// Writes the reference of an object, for the thread that the claim says writes here.
    fn write_object(&self, object: &ObjectRef, len: usize) {
        self.bytes.refer_to(object);
        self.meta.store(OBJECT | len as u64, Ordering::Relaxed);
    }

    /// Returns whether its words name an object.
    fn is_long(&self) -> bool {
        self.meta.load(Ordering::Relaxed) & OBJECT != 0
    }
}

/// The bytes of a request, a reply or a failure in the slot itself; or in the first word the reference of the
/// object that holds them. The reference may be no reference at all, and the object be elsewhere by
/// now: its tag says where.
#[repr(C)]
struct Bytes<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Bytes<WORDS> {
    fn at(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut().cast()
    }

    /// Writes short bytes. Relaxed: the Release of `asked`, or of `ready`, orders it.
    ///
    /// # Safety
    /// The caller has checked that they fit, and no other thread writes or reads here.
    #[inline]
    unsafe fn write(&self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= 8 * WORDS);
        // SAFETY: the caller has checked that they fit; the place is the caller's.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(), bytes.len()) };
    }

    fn refer_to(&self, object: &ObjectRef) {
        self.0[0].store(u64::from(object.reference), Ordering::Relaxed);
    }

    fn reference(&self) -> Option<u32> {
        u32::try_from(self.0[0].load(Ordering::Relaxed)).ok()
    }
}

/// A call slot in use.
#[derive(Clone, Copy)]
pub(super) struct CallSlot<'s> {
    pub(super) words: &'s CallWords,
    pub(super) question: &'s Question,
    place: &'s Slot,
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
        queue.set_annex_bytes(|segment, at| {
            let head = segment.at::<ServiceHeader>(at);
            // Acquire pairs with `add_client_slot`: the pages exist.
            let slots = head.map_or(0, |head| head.client_slots.load(Ordering::Acquire));
            CLIENT_SLOTS_AT + u64::from(slots.min(MOST_CLIENT_SLOTS)) * CLIENT_SLOT
        });
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
            let path = self.segment().path().to_path_buf();
            return Err(Error::TooMany { what: "clients", path, max: MOST_CLIENT_SLOTS });
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
        // found; 64-aligned; all atomics; mappings do not shrink.
        let place = unsafe { &*self.segment().address(at).cast::<Slot>() };
        Ok(CallSlot { words: &place.words, question: &place.question, place, slot })
    }

    /// Returns the reply of that number in a call's ring; `None` when its words are damaged. Fails
    /// when the system does not say whether its memory exists.
    #[inline]
    pub(super) fn found(
        &self,
        call: CallSlot<'_>,
        number: u32,
    ) -> Result<Option<SlotBytes>, Error> {
        self.found_at(call.reply(number))
    }

    /// Returns a failure's text; `None` when its words are damaged. Fails as [`ServiceFile::found`].
    #[cold]
    pub(super) fn found_failure(&self, call: CallSlot<'_>) -> Result<Option<SlotBytes>, Error> {
        self.found_at(&call.place.failure)
    }

    #[inline]
    fn found_at<const WORDS: usize>(
        &self,
        answer: &Answer<WORDS>,
    ) -> Result<Option<SlotBytes>, Error> {
        let meta = answer.meta.load(Ordering::Relaxed);
        let Ok(len) = usize::try_from(meta & !OBJECT) else { return Ok(None) };
        if meta & OBJECT == 0 {
            let lies = SlotBytes { bytes: answer.bytes.at(), len, object: None };
            return Ok((len <= 8 * WORDS).then_some(lies));
        }
        self.found_in(answer.bytes.reference(), len)
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
            let bytes = call.place.request.at();
            return Ok(Some(SlotBytes { bytes, len, object: None }));
        }
        self.found_in(call.place.request.reference(), len)
    }

    /// Returns the part of that number in a call's ring; `None` when its words are damaged. Fails as
    /// [`ServiceFile::found`].
    pub(super) fn found_part(
        &self,
        call: CallSlot<'_>,
        number: u32,
    ) -> Result<Option<SlotBytes>, Error> {
        let word = call.part(number).load(Ordering::Relaxed);
        self.found_in(reference_of_part(word), (word & (HERE - 1)) as usize)
    }

    fn found_in(&self, reference: Option<u32>, len: usize) -> Result<Option<SlotBytes>, Error> {
        let Some(reference) = reference else { return Ok(None) };
        let object = self.queue.object(reference)?;
        Ok(object.filter(|object| len as u64 <= object.capacity.min(LARGEST_MESSAGE)).map(
            |object| {
                // SAFETY: `Heap::find_object` has checked the object's range against the file and
                // the mapping.
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
        let mut freed = self.free_request(call).and(self.free_failure(call));
        // A client that comes looks at all replies of its sixteen slots.
        for (number, reply) in (0..).zip(&call.place.replies) {
            if reply.is_long() {
                freed =
                    freed.and(self.free_at(reply.bytes.reference(), call.reply_position(number)));
            }
        }
        freed.and(self.free_parts(call))
    }

    /// Frees the objects of parts that still lie in a slot. Fails as [`ServiceFile::free_objects`].
    #[cold]
    pub(super) fn free_parts(&self, call: CallSlot<'_>) -> Result<(), Error> {
        let mut freed = Ok(());
        for number in 0..RING {
            let word = call.part(number).load(Ordering::Relaxed);
            let part = self.free_at(reference_of_part(word), call.part_position(number));
            freed = freed.and(part);
        }
        freed
    }

    /// Returns whether an object lies in a slot. Fails as [`Service::free_objects`].
    #[cold]
    pub(super) fn has_objects(&self, call: CallSlot<'_>) -> Result<bool, Error> {
        if self.is_at(call.place.request.reference(), call.request_position())? {
            return Ok(true);
        }
        let failure = &call.place.failure;
        if failure.is_long() && self.is_at(failure.bytes.reference(), call.failure_position())? {
            return Ok(true);
        }
        for (number, reply) in (0..).zip(&call.place.replies) {
            if reply.is_long()
                && self.is_at(reply.bytes.reference(), call.reply_position(number))?
            {
                return Ok(true);
            }
        }
        for number in 0..RING {
            let word = call.part(number).load(Ordering::Relaxed);
            if self.is_at(reference_of_part(word), call.part_position(number))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Frees a request's object, if it still lies in the slot, for the process that has the slot.
    /// The word may be no reference at all: the tag tells. Fails as [`Service::free_objects`].
    #[cold]
    pub(super) fn free_request(&self, call: CallSlot<'_>) -> Result<(), Error> {
        self.free_at(call.place.request.reference(), call.request_position())
    }

    /// Frees a failure's object, if it still lies in the slot. Fails as [`Service::free_objects`].
    #[cold]
    fn free_failure(&self, call: CallSlot<'_>) -> Result<(), Error> {
        let failure = &call.place.failure;
        if !failure.is_long() {
            return Ok(());
        }
        self.free_at(failure.bytes.reference(), call.failure_position())
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

/// Returns the reference in a part's place. It may be an old one: the object's tag says where it is.
fn reference_of_part(word: u64) -> Option<u32> {
    (word & HERE != 0).then_some((word >> 32) as u32)
}

impl<'s> CallSlot<'s> {
    fn part(self, number: u32) -> &'s AtomicU64 {
        &self.words.places[(number % RING) as usize]
    }

    /// Writes the reference of an object that holds a part, for the client in its turn.
    pub(super) fn write_part(self, number: u32, object: &ObjectRef, len: usize) {
        let word = u64::from(object.reference) << 32 | HERE | len as u64;
        // Relaxed: the Release of `parts` orders it.
        self.part(number).store(word, Ordering::Relaxed);
    }

    /// Returns the position of an object that belongs to that part, as its tag has it.
    pub(super) fn part_position(self, number: u32) -> u64 {
        u64::from(self.slot) * OBJECTS_OF_A_SLOT + PARTS + u64::from(number % RING)
    }

    /// Fetches the first two lines of the slot's request for writing.
    #[inline]
    pub(super) fn fetch_request(self) {
        let first: *const u8 = (&raw const *self.question).cast();
        prefetch_for_write(first);
        prefetch_for_write(first.wrapping_add(64));
    }

    #[inline]
    fn reply(self, number: u32) -> &'s Answer<{ INLINE / 8 }> {
        &self.place.replies[(number % RING) as usize]
    }

    /// Returns the position of an object that belongs to that reply, as its tag has it.
    pub(super) fn reply_position(self, number: u32) -> u64 {
        u64::from(self.slot) * OBJECTS_OF_A_SLOT + u64::from(number % RING)
    }

    /// Returns the position of the request's object, as its tag has it.
    pub(super) fn request_position(self) -> u64 {
        u64::from(self.slot) * OBJECTS_OF_A_SLOT + REQUEST
    }

    /// Returns the position of the object of a failure's text, as its tag has it.
    pub(super) fn failure_position(self) -> u64 {
        u64::from(self.slot) * OBJECTS_OF_A_SLOT + FAILURE
    }

    /// Writes a short request.
    ///
    /// # Safety
    /// The caller owns the slot: no call is in it, and no thread of a server is inside.
    #[inline]
    pub(super) unsafe fn write_request(self, bytes: &[u8]) {
        // SAFETY: the caller owns the slot, and has checked that the request is short.
        unsafe { self.place.request.write(bytes) };
    }

    /// Writes the reference of an object that holds the request, for the owner of the slot.
    pub(super) fn write_request_object(self, object: &ObjectRef) {
        self.place.request.refer_to(object);
    }

    /// Writes a short reply.
    ///
    /// # Safety
    /// The caller is the thread that the claim says writes here.
    #[inline]
    pub(super) unsafe fn write(self, number: u32, bytes: &[u8]) {
        // SAFETY: the claim gives the caller the slot, and the caller has checked that the reply is
        // short.
        unsafe { self.reply(number).write(bytes) };
    }

    /// Writes a reference of an object that holds the reply, for the thread that the claim says
    /// writes here.
    pub(super) fn write_object(self, number: u32, object: &ObjectRef, len: usize) {
        self.reply(number).write_object(object, len);
    }

    /// Writes a short text of a failure.
    ///
    /// # Safety
    /// The caller is the thread that the claim says writes here.
    #[cold]
    pub(super) unsafe fn write_failure(self, text: &[u8]) {
        // SAFETY: the claim gives the caller the slot, and the caller has checked that the text is
        // short.
        unsafe { self.place.failure.write(text) };
    }

    /// Writes a reference of an object that holds a failure's text, for the thread that the claim
    /// says writes here.
    #[cold]
    pub(super) fn write_failure_object(self, object: &ObjectRef, len: usize) {
        self.place.failure.write_object(object, len);
    }
}
