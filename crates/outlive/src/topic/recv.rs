//! Receiving: which message is next, whether it is copied or held, and what is skipped.
//!
//! | step | died just after |
//! | --- | --- |
//! | `ready` seen, the slot copied | |
//! | hazard pointer = the object, fence, `ready` again | held by a dead process: until it has ended |
//! | cursor = p + 1; publishers that wait are notified | publishers stop waiting for it, as soon as it is dead |
//! | the sample is dropped: hazard pointer = 0 | |

use core::ptr::NonNull;
use std::sync::atomic::Ordering as StdOrdering;
use std::time::Duration;

use super::durability::lifespan_of;
use super::liveliness::Lives;
use super::readiness::GONE;
use super::refusal::{self, Instead};
use super::sample::Sample;
use super::sample_cache::{Free, Taken};
use super::slot::{INLINE, MessageState, Metadata, Origin};
use super::subscriber::Subscriber;
use super::subscriber_slot;
use crate::shim::Ordering;
use crate::sys::clock;
use crate::sys::map::prefetch;
use crate::sys::probe::probe;
use crate::{Error, Payload, RecvError};

/// The outcome of one attempt to take a message.
pub(super) enum Took {
    /// Copied or held.
    Yes(NonNull<Taken>),
    /// It is not there (any more); the cursor has moved behind it.
    No,
    /// It has none of the subscriber's keys.
    Unwanted,
    /// It is older than the subscriber takes, or than its publisher vouches for.
    Expired,
    /// It is the first one of a session of which the subscriber wants to be told; it stays the next
    /// message.
    NewSession(u32),
    /// There is something to tell before it; it stays the next message.
    Told(Box<RecvError>),
    TooManyHeld,
    /// Its bytes are no value of the type: of a program that opened the topic as bytes.
    OtherLength,
    /// A publisher elsewhere has messages of another type: why they are none here.
    Refused(Box<str>),
    Damaged(&'static str),
    /// The system does not say whether its memory exists: it stays the next message.
    Unknown(Box<Error>),
}

impl<M: Payload + ?Sized> Subscriber<M> {
    /// Takes the next message, if there is one.
    #[inline]
    pub(super) fn take_next(&mut self) -> Result<Option<Sample<M>>, RecvError> {
        // Each round skips something; a damaged ring may make it do so for ever.
        for _ in 0..1 << 17 {
            let next = self.next_ring();
            // After the look: a publisher that came before the message that was found may have an
            // older one, and there may be one in a ring at which this subscriber did not look.
            if self.watched.has_changed(&self.inner) {
                self.meet_rings()?;
                continue;
            }
            let Some((order, ring)) = next else {
                if self.is_timed && self.tell()? {
                    continue;
                }
                return Ok(None);
            };
            let position = self.cursors[ring];
            if order == GONE {
                // It is there after all: it takes its turn by its order.
                if self.slot(ring, position).look(position) != MessageState::There {
                    self.skip(ring)?;
                }
                continue;
            }
            match self.take_there(ring, position) {
                Took::Yes(taken) => {
                    let sample = Sample::<M>::new(taken);
                    probe!(
                        topic_receive,
                        self.inner.segment.path(),
                        sample.bytes().len() as u64,
                        position
                    );
                    self.advance(ring, position + 1);
                    if let Some(expected) = &self.expected {
                        expected.taken();
                    }
                    return Ok(Some(sample));
                }
                Took::Unwanted => self.advance(ring, position + 1),
                Took::Expired => {
                    self.expired = self.expired.saturating_add(1);
                    self.advance(ring, position + 1);
                }
                Took::NewSession(session) => return Err(self.told_of(ring, session)),
                Took::Told(told) => return Err(*told),
                Took::No => self.skip(ring)?,
                Took::TooManyHeld => return Err(RecvError::TooManyHeld),
                Took::Unknown(error) => return Err((*error).into()),
                Took::OtherLength => {
                    self.advance(ring, position + 1);
                    return Err(RecvError::Encoding(M::METADATA.other_length()));
                }
                Took::Refused(why) => {
                    self.advance(ring, position + 1);
                    return Err(RecvError::Encoding(why.into_string()));
                }
                Took::Damaged(what) => {
                    self.advance(ring, position + 1);
                    return Err(RecvError::Damaged(self.inner.segment.damaged(what)));
                }
            }
        }
        Ok(None)
    }

    /// No message was there: returns whether one has come since, which goes before all that is to
    /// be told.
    ///
    /// # Errors
    /// What is to be told: a publisher's death or lapse, a period without a message.
    #[cold]
    pub(super) fn tell(&self) -> Result<bool, RecvError> {
        // Before the looks: a thread that is stopped between them misses no period by that.
        let now = clock::monotonic_nanos();
        let is_late = self.expected.as_ref().is_some_and(|expected| expected.is_late(now));
        let has_news = self.lives.as_ref().is_some_and(|lives| lives.has_news(&self.inner));
        if !is_late && !has_news {
            return Ok(false);
        }
        // Behind the look at the publishers: what one published before it died is there.
        if self.is_ready() {
            return Ok(true);
        }
        if let Some(told) = self.lives.as_ref().and_then(Lives::next_news) {
            return Err(told);
        }
        match &self.expected {
            Some(expected) if is_late && expected.take_until(now) > 0 => Err(RecvError::Missed),
            _ => Ok(false),
        }
    }

    /// Returns whether there is something for this subscriber, as far as can be seen without taking
    /// it.
    pub(super) fn is_ready(&self) -> bool {
        self.watched.has_changed(&self.inner)
            || self.watched.rings.iter().any(|&ring| self.peek(ring as usize).is_some())
    }

    #[inline]
    pub(super) fn peek(&self, ring: usize) -> Option<u64> {
        let position = self.cursors[ring];
        self.inner.peek(ring as u32, self.slot(ring, position), position)
    }

    /// Returns the ring whose next message has the lowest order, or is gone.
    #[inline]
    fn next_ring(&mut self) -> Option<(u64, usize)> {
        if let Some(most) = self.options.keep_last {
            self.keep_last(most);
        }
        let &[ring] = &self.watched.rings[..] else { return self.next_of_several() };
        let (ring, position) = (ring as usize, self.cursors[ring as usize]);
        if self.slot(ring, position).look(position) == MessageState::There {
            // Its order does not matter.
            return Some((GONE + 1, ring));
        }
        self.peek(ring).map(|order| (order, ring))
    }

    #[cold]
    #[inline(never)]
    fn next_of_several(&mut self) -> Option<(u64, usize)> {
        if self.watched.is_old() {
            self.choose_rings();
        }
        let found = self.lowest();
        self.watched.note_look(found.map(|(_, _, at)| at));
        found.map(|(order, ring, _)| (order, ring))
    }

    /// Returns what has the lowest order among several rings, or is gone, and its ring's place among
    /// those watched.
    #[inline]
    fn lowest(&self) -> Option<(u64, usize, usize)> {
        let rings = &self.watched.rings;
        let look = |at: usize| {
            let ring = rings[at] as usize;
            Some((self.peek(ring)?, ring, at))
        };
        let behind = |at: usize| if at + 1 < rings.len() { at + 1 } else { 0 };
        // From where something was last: its publisher is likely to have published again.
        let first = self.watched.found_at();
        let mut at = first;
        let mut lowest = loop {
            match rings.get(at).and_then(|_| look(at)) {
                Some(found) => break found,
                None => at = behind(at),
            }
            if at == first {
                return None;
            }
        };
        // This message has been seen: what was published before it is in sight from here on, and so
        // is what was published before any message of the same order or a lower one, whose publisher
        // began before it could see this one's. So the other rings are looked at once more, and only
        // those that were looked at before are looked at twice. What is gone is passed over in any
        // case.
        let mut other = behind(at);
        while other != at && lowest.0 != GONE {
            if let Some(found) = look(other) {
                lowest = lowest.min(found);
            }
            other = behind(other);
        }
        Some(lowest)
    }

    /// Decides anew at which of the rings that it has met it looks.
    #[cold]
    fn choose_rings(&mut self) {
        let seen = self.inner.publisher_changes();
        // One that it has not met: its publisher changes the count before it publishes, and may
        // have done so before `seen`.
        if self.inner.rings() as usize == self.cursors.len() {
            self.choose_by(seen);
        }
    }

    fn choose_by(&mut self, seen: u32) {
        let mut watched = core::mem::take(&mut self.watched);
        let has_something = |ring: u32| self.peek(ring as usize).is_some();
        watched.choose(&self.inner, seen, self.cursors.len() as u32, has_something);
        self.watched = watched;
        // A publisher that comes has told its lifespan before it is counted, and is counted before
        // its first message.
        self.is_selective = self.asks || self.inner.has_lifespans(self.cursors.len() as u32);
    }

    #[cold]
    fn keep_last(&mut self, most: u32) {
        for at in 0..self.watched.rings.len() {
            let ring = self.watched.rings[at] as usize;
            let published = self.inner.published(ring as u32);
            let from = published.saturating_sub(u64::from(most));
            if self.cursors[ring] < from {
                self.lose(from - self.cursors[ring]);
                self.advance(ring, from);
            }
        }
    }

    /// The message at the ring's cursor is gone: moves on to the oldest that may be there.
    ///
    /// # Errors
    /// [`RecvError::Lagged`], when it had been promised to a reliable subscriber.
    #[cold]
    fn skip(&mut self, ring: usize) -> Result<(), RecvError> {
        let published = self.inner.published(ring as u32);
        let oldest = published.saturating_sub(u64::from(self.inner.plan.depth));
        let mut next = oldest.max(self.cursors[ring] + 1);
        // Those that were given up for memory as well: the subscriber is told of them at once.
        while next < published && self.slot(ring, next).look(next) != MessageState::There {
            next += 1;
        }
        self.lose(next - self.cursors[ring]);
        let promised = self.joined_at.get(ring).copied().unwrap_or(0).max(self.cursors[ring]);
        self.advance(ring, next);
        match next.saturating_sub(promised) {
            lost @ 1.. if self.options.reliable => {
                // Relaxed: a count that only this subscriber writes, and no process relies on.
                let count = &self.words().lagged;
                count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
                Err(RecvError::Lagged { lost })
            }
            _ => Ok(()),
        }
    }

    fn lose(&mut self, count: u64) {
        self.lost = self.lost.saturating_add(count);
        probe!(topic_lost, self.inner.segment.path(), count);
        self.words().lost.store(self.lost, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn advance(&mut self, ring: usize, to: u64) {
        self.cursors[ring] = to;
        match &self.received {
            None => self.tell_cursor(ring, to),
            // Publishers are told when it acknowledges. Relaxed: only this process reads it.
            Some(received) => received[ring].store(to, StdOrdering::Relaxed),
        }
    }

    /// Counts all messages that it has received as done: publishers that wait for this subscriber go on, and
    /// a successor of its name begins behind them. For one that
    /// [acknowledges](super::SubscriberOptions::acknowledging); of others each receive does this.
    ///
    /// # Errors
    /// [`RecvError::NotOwner`], [`RecvError::System`].
    #[doc(hidden)]
    pub fn acknowledge(&mut self) -> Result<(), RecvError> {
        self.enter()?;
        for ring in 0..self.cursors.len() {
            let (to, words) = (self.cursors[ring], self.words());
            // Relaxed: only this subscriber writes it.
            if words.cursors[ring].load(Ordering::Relaxed) != to {
                self.tell_cursor(ring, to);
            }
        }
        Ok(())
    }

    /// Leaves its place to a successor of its name, as if its process had died: publishers wait for
    /// that one. One without a name leaves. The place of one whose samples are still held stays this
    /// process's as long as it lives.
    #[doc(hidden)]
    pub fn abandon(mut self) {
        self.is_abandoned = self.options.kept.is_some();
    }

    /// Returns, by ring, the number of the next message: all before it were received, refused, or counted as
    /// lost. Rings that have come since the last look are not among them.
    #[doc(hidden)]
    #[must_use]
    pub fn next_numbers(&self) -> &[u64] {
        &self.cursors
    }

    /// Passes over the messages of a ring before that number, as if they had been received. Does nothing where
    /// it is further on, or has not met the ring; what is not published yet is not passed over.
    #[doc(hidden)]
    pub fn pass_over(&mut self, ring: u32, number: u64) {
        if self.cursors.get(ring as usize).is_some_and(|&next| next < number) {
            // Counted by the publisher's successor, or by this look.
            let number = number.min(self.inner.all_published(ring));
            self.advance(ring as usize, number.max(self.cursors[ring as usize]));
        }
    }

    /// Returns how many messages of a ring are done.
    #[doc(hidden)]
    #[must_use]
    pub fn acknowledged(&self, ring: u32) -> u64 {
        let cursor =
            self.words().cursors.get(ring as usize).map(|word| word.load(Ordering::Relaxed));
        cursor.unwrap_or(0)
    }

    /// Tells publishers that this subscriber has done with all messages before that one.
    #[inline]
    pub(super) fn tell_cursor(&self, ring: usize, to: u64) {
        // Release pairs with `back_pressure::slowest`: this subscriber has finished with the slots
        // before it.
        self.words().cursors[ring].store(to, Ordering::Release);
        if self.options.reliable {
            // If this process died just before, a sleeping publisher is woken by its end.
            let words = self.inner.ring(ring as u32);
            let space = self.inner.space(ring as u32);
            space.notify_all_if(|| words.is_awaited(self.subscriber_slot));
            // After the cursor: publishers that wait for it again see how far it is. Relaxed: a
            // mark that comes just after is found at the next take.
            if self.words().claim.load(Ordering::Relaxed) != self.waited_for {
                subscriber_slot::return_from_lagging(&self.words(), self.waited_for);
            }
        }
    }

    /// Adds rings that have come into use: all messages in them were published after this
    /// subscriber joined. Then decides at which rings it looks.
    #[cold]
    #[inline(never)]
    pub(super) fn meet_rings(&mut self) -> Result<(), RecvError> {
        // First: a ring that comes later changes it.
        let seen = self.inner.publisher_changes();
        if (self.inner.rings() as usize) < self.cursors.len() {
            return Err(RecvError::Damaged(
                self.inner.segment.damaged("the number of its publishers"),
            ));
        }
        for ring in self.cursors.len() as u32..self.inner.rings() {
            self.inner.slots(ring)?;
            self.cursors.push(0);
        }
        self.choose_by(seen);
        Ok(())
    }

    /// Takes a message, if it is there.
    pub(super) fn take(&mut self, ring: usize, position: u64) -> Took {
        match self.slot(ring, position).look(position) {
            MessageState::There => self.take_there(ring, position),
            _ => Took::No,
        }
    }

    /// Takes a message that the caller has found there.
    #[inline]
    fn take_there(&mut self, ring: usize, position: u64) -> Took {
        let slot = self.slot(ring, position);
        let metadata = slot.metadata();
        let mut free = self.sample_cache.free();
        let taken = free.as_mut();
        taken.begin(ring, position, metadata);
        if metadata.has_header {
            slot.read_header(&mut taken.header);
        }
        if metadata.object.is_none() && taken.len <= INLINE {
            slot.read(taken.len, &mut taken.inline);
            if !slot.is_still(position) {
                return Took::No;
            }
        }
        if self.is_selective {
            // A copy is whole, as was asked above; the header of an object's message may not be.
            let is_copied = metadata.object.is_none() && taken.len <= INLINE;
            if !is_copied && !slot.is_still(position) {
                return Took::No;
            }
            if let Some(instead) = self.select(ring, taken, metadata.origin) {
                return instead;
            }
        }
        match metadata.object {
            // The length of a message and the object of the next one, which a publisher has written
            // between the two loads.
            None if taken.len > INLINE && !slot.is_still(position) => Took::No,
            None if taken.len > INLINE => match refusal::read(slot, position, metadata) {
                Instead::Why(why) => Took::Refused(why),
                Instead::Gone => Took::No,
                Instead::Damaged => Took::Damaged("a message's length"),
            },
            // Asked first: no reference may be made to a value that is not aligned.
            None if M::METADATA.align > 8 && taken.len > 0 => Took::OtherLength,
            // SAFETY: `Taken` has as many bytes as were copied, aligned to 8; types with a larger
            // alignment do not come here but for a slice of none.
            None if unsafe { M::at(taken.data(), taken.len) }.is_none() => Took::OtherLength,
            None => Took::Yes(free.keep()),
            Some(reference) => self.hold(ring, position, metadata, reference, free),
        }
    }

    /// Returns what becomes of a message, if it is not received.
    #[inline(never)]
    fn select(&self, ring: usize, taken: &Taken, origin: Origin) -> Option<Took> {
        if let Some(lives) = &self.lives
            && let Some(told) = lives.before(&self.inner, ring, &self.cursors)
        {
            return Some(Took::Told(Box::new(told)));
        }
        let keys = &self.options.keys;
        if !keys.is_empty() && keys.binary_search(&taken.header().key).is_err() {
            return Some(Took::Unwanted);
        }
        let lifespan = origin.has_lifespan().then(|| {
            let words = self.inner.ring(ring as u32);
            Duration::from_nanos(lifespan_of(words, taken.position))
        });
        // A damaged word.
        let lifespan = lifespan.filter(|span| !span.is_zero());
        if let Some(most) = self.options.max_age.into_iter().chain(lifespan).min()
            && taken.age().is_some_and(|age| age > most)
        {
            return Some(Took::Expired);
        }
        (self.options.sessions && self.sessions[ring] != taken.session)
            .then_some(Took::NewSession(taken.session))
    }

    /// The subscriber is told of a session, once.
    #[cold]
    pub(super) fn told_of(&mut self, ring: usize, session: u32) -> RecvError {
        self.sessions[ring] = session;
        RecvError::NewSession { session }
    }

    /// Holds the object of a message by a hazard pointer.
    #[inline]
    fn hold(
        &mut self,
        ring: usize,
        position: u64,
        metadata: Metadata,
        reference: u32,
        mut free: Free,
    ) -> Took {
        let pointers = self.words().hazard_pointers();
        let Some(at) = pointers.find(free.near, &self.next_pointer) else {
            return Took::TooManyHeld;
        };
        // Finds the object before it is held: if the slot still names it below, it was there all
        // the while. So the load of its first line overlaps the fence.
        let block = match self.inner.heap.find_object(&self.inner.segment, reference) {
            Ok(block) => block,
            Err(error) => return Took::Unknown(Box::new(error)),
        };
        if let Some(block) = &block {
            prefetch(self.inner.payload(block));
        }
        if !self.slot(ring, position).hold(position, reference, &pointers, at) {
            return Took::No;
        }
        // The object is this message's, and stays so while the pointer names it.
        let Some(block) = block.filter(|block| block.capacity >= u64::from(metadata.len)) else {
            pointers.clear(at);
            return Took::Damaged("a message's object");
        };
        let data = self.inner.payload(&block);
        // SAFETY: the object has `len` readable bytes in a mapping that stays; objects are aligned
        // to 64.
        if unsafe { M::at(data, metadata.len as usize) }.is_none() {
            pointers.clear(at);
            return Took::OtherLength;
        }
        free.as_mut().lies_at(data, self.words().hazard_pointer(at));
        Took::Yes(free.keep())
    }
}
