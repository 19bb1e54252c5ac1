//! A tap: it reads the messages that were sent, takes none, and leaves no trace. Hidden: its user is the
//! recorder of this repository.
//!
//! A slot that was given back keeps its bytes until the next sender claims it: a message can be read for a
//! while after it was received. A sender claims the slot before it writes there.
//!
//! | the slot at the tap's place, of lap L | is |
//! | --- | --- |
//! | `ready` says L | a message. Copied; then the claim still says L, or EMPTY(L + 1): the copy is whole. Else overtaken |
//! | `ready` is ahead of L | overtaken |
//! | `ready` is behind, the region closed at or before it | no message's: on to the next region |
//! | `ready` is behind, the claim ahead of L, or ABANDONED(L), or WRITING by a dead thread | no message: the receiver gets past it, too |
//! | `ready` is behind, else | nothing yet |
//!
//! A message in an object is freed when it is received. Its object's tag names the message's place from before
//! READY until then, and another name before anything else is written there. So the tag is looked at before
//! and after the copy, and a message that was received before it was read is lost.
//!
//! *Numbers.* The tap counts the messages before its place. Overtaken, it goes on near the receiver's head,
//! whose words say how many messages were received before that: the difference is lost. From the head it goes
//! back over slots that are given back and not claimed again, as far as half of the ring, since the oldest are
//! overwritten first.
//!
//! *The order of what is read.* A sender's stores come after its claim on its processor, as written; but
//! there is no fence for others between them, and a tap must not ask senders for one. Where processors show
//! stores in their order (x86-64), a tap that has copied one byte of a later message sees its claim. Elsewhere
//! the tap makes all processors pass a barrier after each copy (`membarrier`), to the same effect.
//!
//! The tap makes no store, and never waits. If it dies or is stopped, no process notices. Model:
//! queue_tap.pml.

use std::sync::Arc;

use super::Inner;
use super::batch;
use super::layout::{
    CLOSED, LARGEST_MESSAGE, MOST_REGIONS, Meta, SEALED, SlotWord, State, published,
};
use super::queue::Queue;
use super::ring::{Position, Slot};
use super::sweep::{self, Fate};
use crate::Error;
use crate::pool::{ObjectRef, Tag};
use crate::segment::copy_out;
use crate::shim::{AtomicU64, Ordering, fence};
use crate::sys::barrier;

/// How many slots one look may pass.
const MOST_STEPS: u32 = 4096;
/// How often the receiver may move while its words are read.
const MOST_LOOKS: u32 = 1000;
/// A copy that is longer gives its memory back.
const KEPT: usize = 1 << 20;

/// A place in a queue, and how many messages come before it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The region.
    pub region: u32,
    /// The position there.
    pub position: u64,
    /// How many messages have been sent before it.
    pub number: u64,
}

impl Place {
    /// The place of a queue's first message.
    pub const FIRST: Place = Place { region: 0, position: 0, number: 0 };
}

/// What a tap has found.
#[doc(hidden)]
pub enum Tapped<'a> {
    /// One message, or a batch.
    Messages(Messages<'a>),
    /// So many messages were overwritten before they were read.
    Lost(u64),
    /// The words of a slot are damaged; it is passed over.
    Damaged,
}

/// A message, or the messages of a batch.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Messages<'a> {
    /// The number of the first one.
    pub first: u64,
    meta: Meta,
    bytes: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Returns the bytes of all of them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether they have no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns them one by one.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (bytes, is_batch) = (self.bytes, self.meta.batch > 0);
        let (mut at, mut left) = (0, self.meta.messages());
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            if !is_batch {
                return Some(bytes);
            }
            let (range, next) = batch::next(bytes, at)?;
            at = next;
            bytes.get(range)
        })
    }
}

/// See the head of this file.
#[doc(hidden)]
pub struct Tap {
    queue: Queue<[u8]>,
    /// `None`: where the receiver is.
    place: Option<Place>,
    /// The last messages that were found.
    found: Option<(u64, Meta)>,
    bytes: Vec<u8>,
}

/// What is at a place.
enum Look {
    Nothing,
    /// No message.
    Past,
    NextRegion,
    Copied(Meta),
    /// It was received, and its memory is another's by now.
    Gone(Meta),
    Damaged,
    Overtaken,
}

impl Queue<[u8]> {
    /// Returns a tap that begins at that place; `None`: with the first unread message.
    #[doc(hidden)]
    #[must_use]
    pub fn tap(&self, from: Option<Place>) -> Tap {
        let place = from.filter(|place| place.region < self.inner().ring.regions());
        Tap { queue: self.clone(), place, found: None, bytes: Vec::new() }
    }
}

impl Tap {
    /// Begins where the receiver is, unless it has begun: each message that is sent from now on is found, or
    /// counted as lost. Returns whether it has begun; else the receiver moved during each of many looks.
    ///
    /// # Errors
    /// [`Error::Damaged`], and errors of the system.
    pub fn begin(&mut self) -> Result<bool, Error> {
        if self.place.is_none() {
            self.place = self.near_head(None)?;
        }
        Ok(self.place.is_some())
    }

    /// Returns where the next message will lie; `None`: it has not looked yet.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// Returns what `next` has found last, if that were messages.
    #[must_use]
    pub fn last(&self) -> Option<Messages<'_>> {
        self.found.map(|(first, meta)| Messages { first, meta, bytes: &self.bytes })
    }

    /// Returns what comes next; `None`: nothing yet, or the receiver or the senders are faster than each of so
    /// many looks.
    ///
    /// # Errors
    /// [`Error::Damaged`], and errors of the system.
    // No iterator: what it lends is its own.
    #[expect(clippy::should_implement_trait, reason = "it lends, and fails")]
    pub fn next(&mut self) -> Result<Option<Tapped<'_>>, Error> {
        self.found = None;
        for _ in 0..MOST_STEPS {
            let Some(at) = self.place else {
                self.place = self.near_head(None)?;
                if self.place.is_none() {
                    return Ok(None);
                }
                continue;
            };
            let behind = |messages| Place {
                position: at.position.wrapping_add(1),
                number: at.number.saturating_add(messages),
                ..at
            };
            match self.look(at)? {
                Look::Nothing => return Ok(None),
                Look::Past => self.place = Some(behind(0)),
                Look::NextRegion => {
                    self.place = Some(Place { region: at.region + 1, position: 0, ..at });
                }
                Look::Copied(meta) => {
                    self.place = Some(behind(meta.messages()));
                    self.found = Some((at.number, meta));
                    return Ok(self.last().map(Tapped::Messages));
                }
                Look::Gone(meta) => {
                    self.place = Some(behind(meta.messages()));
                    return Ok(Some(Tapped::Lost(meta.messages())));
                }
                Look::Damaged => {
                    self.place = Some(behind(0));
                    return Ok(Some(Tapped::Damaged));
                }
                Look::Overtaken => {
                    let Some(to) = self.near_head(Some(at))? else { return Ok(None) };
                    self.place = Some(to);
                    if to.number > at.number {
                        return Ok(Some(Tapped::Lost(to.number - at.number)));
                    }
                }
            }
        }
        Ok(None)
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.queue.inner
    }

    /// Finds out what is at a place, and copies it.
    fn look(&mut self, at: Place) -> Result<Look, Error> {
        let inner = Arc::clone(self.inner());
        let ring = &inner.ring;
        // Acquire pairs with `full`: a closed region's limit, and the next region, are there.
        let tail = ring.head().regions_words[at.region as usize % MOST_REGIONS]
            .tail
            .load(Ordering::Acquire);
        let is_closed = tail & CLOSED != 0 && tail & !CLOSED <= at.position;
        if is_closed {
            // No message will ever be here: also a void claim is none.
            return match at.region + 1 < ring.regions() && ring.limit(at.region + 1)? != 0 {
                true => Ok(Look::NextRegion),
                false => Err(ring.segment.damaged("a closed last region")),
            };
        }
        let limit = ring.limit(at.region)?;
        let Some(place) = ring.place(at.region, limit, at.position) else {
            return Ok(Look::Nothing);
        };
        let slot = ring.slot(at.region, place.index);
        // The claim first. Acquire, as the receiver's: if it is ahead, `ready` says what the slot was.
        let claim = SlotWord(slot.claim.load(Ordering::Acquire));
        // Acquire pairs with the sender's READY.
        let ready = slot.head.ready.load(Ordering::Acquire);
        if ready == published(place.lap) {
            return self.copy(&inner, at, place, slot);
        }
        if (ready.wrapping_sub(published(place.lap)) as i64) > 0 {
            return Ok(Look::Overtaken);
        }
        let ahead = claim.laps_ahead(place.lap);
        Ok(match claim.state() {
            _ if ahead > 0 => Look::Past,
            _ if ahead < 0 => Look::Nothing,
            State::Empty => Look::Nothing,
            State::Abandoned => Look::Past,
            State::Writing => match sweep::fate(inner.registry.me()?, slot, claim, place.lap) {
                Fate::Abandoned => Look::Past,
                // The next look sees what it is.
                Fate::BeingWritten(_) | Fate::Settled => Look::Nothing,
            },
        })
    }

    /// Copies the message of a slot that was READY.
    fn copy(
        &mut self,
        inner: &Inner,
        at: Place,
        place: Position,
        slot: Slot<'_>,
    ) -> Result<Look, Error> {
        let ring = &inner.ring;
        let meta = Meta::decode(slot.head.meta.load(Ordering::Relaxed));
        let len = meta.len as usize;
        let own = Tag::Queued { region: at.region, position: at.position };
        let tag = |object: &ObjectRef| ring.pool.tag_of(&ring.segment, object);
        let mut object = None;
        let payload = if meta.object {
            // SAFETY: slots hold at least 48 bytes of payload, 8-aligned; `Ring` checks the slot's size.
            let reference = unsafe { &*slot.payload.cast::<AtomicU64>() }.load(Ordering::Relaxed);
            if let Ok(reference) = u32::try_from(reference) {
                object = ring.pool.find_object(&ring.segment, reference)?;
            }
            object = object.filter(|object| len as u64 <= object.capacity.min(LARGEST_MESSAGE));
            // SAFETY: `find_object` has checked the object's range against the file and the mapping.
            object.as_ref().map(|object| unsafe { ring.segment.address(object.offset) })
        } else {
            (len <= ring.inline_bytes()).then_some(slot.payload)
        };
        let is_own = match &object {
            Some(object) => tag(object).is_ok_and(|tag| tag == own),
            None => payload.is_some(),
        };
        self.bytes.clear();
        if self.bytes.capacity() > KEPT.max(len) {
            self.bytes = Vec::new();
        }
        if let (true, Some(payload)) = (is_own, payload) {
            let path = || ring.segment.path().to_path_buf();
            let no_room = |_| Error::NoSpace { path: path(), wanted: len as u64 };
            self.bytes.try_reserve(len).map_err(no_room)?;
            let words = payload.cast_const().cast::<AtomicU64>();
            // SAFETY: that many bytes lie in the slot's payload, which is a whole number of words, or in
            // the object, whose range `find_object` has checked and whose room is a whole number of
            // words; both are 8-aligned, and mapped as long as the queue is. A sender may write there
            // meanwhile, perhaps by other stores than atomic ones: what was read then is thrown away.
            // There was room made for `len` bytes.
            unsafe {
                let words = core::slice::from_raw_parts(words, len.div_ceil(8));
                copy_out(words, self.bytes.as_mut_ptr(), len);
            }
        }
        // A sender's claim, or an object's new tag, comes before its bytes: see the file's head.
        let is_ordered = settle_reads();
        let now = SlotWord(slot.claim.load(Ordering::Relaxed));
        if now != SlotWord::empty(place.lap + 1) && now.laps_ahead(place.lap) != 0 {
            return Ok(Look::Overtaken);
        }
        // The slot's words are the message's: it is known how many messages these are.
        let is_still = object.as_ref().is_none_or(|object| {
            let found = ring.pool.find_object(&ring.segment, object.reference);
            found.is_ok_and(|found| found.as_ref() == Some(object))
                && tag(object).is_ok_and(|tag| tag == own)
        });
        if meta.object && !(is_own && is_still) || !is_ordered {
            return Ok(Look::Gone(meta));
        }
        if payload.is_none() {
            return Ok(Look::Damaged);
        }
        // SAFETY: `copy_out` has written `len` bytes.
        unsafe { self.bytes.set_len(len) };
        let messages = Messages { first: at.number, meta, bytes: &self.bytes };
        if messages.iter().count() as u64 != meta.messages() {
            return Ok(Look::Damaged);
        }
        Ok(Look::Copied(meta))
    }

    /// Returns a place near the receiver's head, behind `after` and as far back as messages are likely to stay
    /// whole; without `after`, the head itself. `None`: the receiver moves too fast.
    #[cold]
    fn near_head(&self, after: Option<Place>) -> Result<Option<Place>, Error> {
        let ring = &self.inner().ring;
        let mut last = self.queue.look_at_progress()?;
        let mut looks = 0;
        // Each word only grows: what two looks in a row agree upon was there together.
        let progress = loop {
            let now = self.queue.look_at_progress()?;
            if now == last {
                break now;
            }
            last = now;
            looks += 1;
            if looks == MOST_LOOKS {
                return Ok(None);
            }
        };
        let (region, head) = progress.place();
        let (mut number, _) = progress.settled();
        let Some(after) = after else {
            return Ok(Some(Place { region, position: head, number }));
        };
        let damaged = || Err(ring.segment.damaged("the receiver's words"));
        if (region, head) <= (after.region, after.position) || number < after.number {
            return damaged();
        }
        let limit = ring.limit(region)?;
        let first = if region == after.region { after.position.saturating_add(1) } else { 0 };
        let first = first.max(head.saturating_sub((limit & !SEALED) / 2));
        let mut position = head;
        while position > first {
            let Some(place) = ring.place(region, limit, position - 1) else { break };
            let slot = ring.slot(region, place.index);
            let ready = slot.head.ready.load(Ordering::Acquire);
            let meta = Meta::decode(slot.head.meta.load(Ordering::Relaxed));
            let is_ordered = settle_reads();
            // Still given back, and not claimed again: both words are that lap's.
            let now = SlotWord(slot.claim.load(Ordering::Relaxed));
            if !is_ordered || now != SlotWord::empty(place.lap + 1) {
                break;
            }
            let messages = if ready == published(place.lap) { meta.messages() } else { 0 };
            match number.checked_sub(messages) {
                Some(before) if before >= after.number => number = before,
                _ => break,
            }
            position -= 1;
        }
        Ok(Some(Place { region, position, number }))
    }
}

/// Orders what was read before it against the claims, and tags, that are read behind it. `false`: the system
/// denies that.
fn settle_reads() -> bool {
    // Keeps the compiler, and processors that show stores in their order, from reading the claim first.
    fence(Ordering::Acquire);
    cfg!(target_arch = "x86_64") || barrier::heavy()
}

#[cfg(test)]
#[path = "tap_tests.rs"]
mod tests;
