//! Taking messages: which one is next, copied or held, and what is passed over.
//!
//! | step | died just after |
//! | --- | --- |
//! | `ready` seen, the slot copied | |
//! | cell = the object, fence, `ready` again | held by a dead process: until it has ended |
//! | cursor = p + 1; publishers that wait are rung | not waited for any more, as soon as it is dead |
//! | the sample is dropped: cell = 0 | |

use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::arrive;
use super::error::SubscribeError;
use super::file::Shared;
use super::inbox::GONE;
use super::layout::{LineWords, MOST_RINGS};
use super::line;
use super::message::Message;
use super::ring;
use super::sample::{Sample, unknown};
use super::slot::{Facts, INLINE, Look, Slot};
use crate::shim::{Ordering, fence};
use crate::sys::identity;
use crate::{Deadline, Error, TokenId};

/// The end of a topic that messages come out of: each subscriber gets all of them. A topic has up to 64 at a time; each may
/// move between threads.
///
/// It takes what is there, the oldest first; what was overwritten before it came to it is [counted](Subscriber::lost).
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-subscriber-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::topic::{SubscriberOptions, Topic};
/// let topic = Topic::<[f32]>::options().depth(4).open(&domain, "ranges")?;
/// let publisher = topic.publisher()?;
/// for at in 0..10 {
///     publisher.publish_copy(&[at as f32; 3])?;
/// }
/// // Who comes late may have what is still there.
/// let mut subscriber = topic.subscriber_with(SubscriberOptions { history: 4, ..SubscriberOptions::default() })?;
/// let seen: Vec<f32> = subscriber.by_ref().take(3).map(|sample| sample[0]).collect();
/// assert_eq!(seen, [6.0, 7.0, 8.0]);
/// assert_eq!(subscriber.try_recv()?.unwrap()[0], 9.0);
/// assert!(subscriber.try_recv()?.is_none());
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// A publisher's: what it had published is taken as before. The subscriber's: nobody waits for it any more, at once; the memory of the samples that it
/// held can be used again once its last thread has ended.
pub struct Subscriber<M: Message + ?Sized = [u8]> {
    pub(super) shared: Arc<Shared>,
    line: u32,
    process: TokenId,
    /// The process, by number.
    owner: u64,
    /// The thread that was last seen to be of this process.
    inside: Cell<u32>,
    /// By ring, the next message; of as many rings as have been met.
    cursors: Vec<u64>,
    /// Where to look for a free cell first.
    next_cell: usize,
    /// Its keys in order.
    options: SubscriberOptions,
    lost: u64,
    /// When a message came last.
    last: Instant,
    _message: PhantomData<*const M>,
}

// SAFETY: its words in the file are its own, whichever thread has it.
unsafe impl<M: Message + ?Sized> Send for Subscriber<M> {}

/// How to subscribe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriberOptions {
    /// Whether publishers wait until this subscriber has taken a message before they overwrite it. Default: no, the newest win.
    pub reliable: bool,
    /// How many messages of each publisher from before the joining to take, as far as they are still there; those of publishers that have ended, too.
    /// Default: 0.
    pub history: u32,
    /// The most messages of each publisher to be behind: when more are waiting, the oldest of them are passed over, and counted as lost.
    /// Default: as many as the topic keeps.
    pub keep_last: u32,
    /// Messages with these keys only ([`Header::key`](super::Header::key)); none: all messages.
    pub keys: Vec<u64>,
    /// How often there ought to be a message: receiving fails with [`SubscribeError::Missed`] when none comes for so long.
    pub period: Option<Duration>,
}

impl Default for SubscriberOptions {
    fn default() -> SubscriberOptions {
        SubscriberOptions { reliable: false, history: 0, keep_last: u32::MAX, keys: Vec::new(), period: None }
    }
}

/// Lines whose subscribers are gone, of which samples were held: each keeps its mapping until the last one is dropped.
static ORPHANS: Mutex<Vec<(Arc<Shared>, u32, u64)>> = Mutex::new(Vec::new());

/// Lets go of those whose samples have been dropped.
fn look_after_orphans() {
    // As with malloc: a child forked from several threads, one of them in here, must not come here before exec.
    let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
    let me = identity::this_process();
    orphans.retain(|(shared, at, owner)| {
        // In a forked child they are its parent's, and copies of those samples may still be read.
        me != Ok(*owner) || !shared.line(*at).is_ok_and(line::let_go_if_unused)
    });
}

/// What became of one message.
enum Took {
    /// Copied or held.
    Yes,
    /// It is not there (any more); the cursor stands behind it.
    No,
    /// Not one of the keys.
    Unwanted,
    TooManyHeld,
    Damaged(&'static str),
}

impl<M: Message + ?Sized> Subscriber<M> {
    pub(super) fn new(shared: Arc<Shared>, mut options: SubscriberOptions) -> Result<Subscriber<M>, Error> {
        look_after_orphans();
        let me = shared.registry.me()?;
        let process = shared.registry.process_token()?;
        let owner = identity::this_process()
            .map_err(|errno| Error::from_errno("subscribe to", shared.segment.path(), errno))?;
        let line = line::take(&shared, process)?;
        let words = shared.line(line)?;
        let depth = u64::from(shared.plan.depth);
        let history = u64::from(options.history).min(depth);
        let mut cursors = Vec::with_capacity(MOST_RINGS);
        for ring in 0..shared.rings() {
            shared.slots(ring)?;
            let published = shared.published(ring);
            cursors.push(published.saturating_sub(history));
        }
        for (ring, cursor) in words.cursors.iter().enumerate() {
            cursor.store(cursors.get(ring).copied().unwrap_or(0), Ordering::Relaxed);
        }
        line::join(&shared, words, process, options.reliable);
        // Joined, and then what is published: pairs with the fence in `reliable::slowest`. A publisher that has not seen us has
        // published all that it may overwrite before we are waited for, and what comes after that is ours.
        fence(Ordering::SeqCst);
        options.keys.sort_unstable();
        Ok(Subscriber {
            line,
            process,
            owner,
            inside: Cell::new(me.id.as_u32()),
            cursors,
            next_cell: 0,
            options,
            lost: 0,
            last: Instant::now(),
            shared,
            _message: PhantomData,
        })
    }

    /// The calling thread is of the subscriber's process.
    #[inline]
    pub(super) fn enter(&self) -> Result<crate::liveness::Me, SubscribeError> {
        let me = self.shared.registry.me()?;
        if me.id.as_u32() != self.inside.get() {
            self.enter_slow(me)?;
        }
        Ok(me)
    }

    #[cold]
    fn enter_slow(&self, me: crate::liveness::Me) -> Result<(), SubscribeError> {
        if self.shared.registry.process_token_if_any() != Some(self.process) {
            return Err(SubscribeError::NotSubscriber);
        }
        self.inside.set(me.id.as_u32());
        Ok(())
    }

    #[inline]
    pub(super) fn words(&self) -> &LineWords {
        // SAFETY: `new` has looked at it through `Segment::at`, and mappings do not shrink.
        unsafe { &*self.shared.segment.address(self.shared.plan.line_at(self.line)).cast() }
    }

    /// The slot of a message.
    #[inline]
    pub(super) fn slot(&self, ring: usize, position: u64) -> &Slot {
        let depth = u64::from(self.shared.plan.depth);
        let at = self.shared.plan.slots_at(ring as u32) + (position & (depth - 1)) * size_of::<Slot>() as u64;
        // SAFETY: `meet_rings` has seen that this ring's slots exist; mappings do not shrink.
        unsafe { &*self.shared.segment.address(at).cast() }
    }

    /// What is next, if anything is there.
    ///
    /// # Errors
    /// [`SubscribeError::TooManyHeld`], [`SubscribeError::NotSubscriber`], [`SubscribeError::Damaged`], [`SubscribeError::System`].
    ///
    /// # If a process dies
    /// In here: the message counts as taken, or not; other subscribers get it in any case.
    #[inline]
    pub fn try_recv(&mut self) -> Result<Option<Sample<M>>, SubscribeError> {
        self.enter()?;
        self.take_next()
    }

    /// What is next; waits for it.
    ///
    /// # Errors
    /// As [`Subscriber::try_recv`], and [`SubscribeError::Missed`].
    ///
    /// # If a process dies
    /// As with [`Subscriber::try_recv`].
    #[inline]
    pub fn recv(&mut self) -> Result<Sample<M>, SubscribeError> {
        self.recv_until(Deadline::NEVER)
    }

    /// What is next; waits for it until the deadline.
    ///
    /// # Errors
    /// As [`Subscriber::try_recv`], [`SubscribeError::TimedOut`], and [`SubscribeError::Missed`].
    ///
    /// # If a process dies
    /// As with [`Subscriber::try_recv`].
    #[inline]
    pub fn recv_until(&mut self, deadline: impl Into<Deadline>) -> Result<Sample<M>, SubscribeError> {
        self.enter()?;
        if let Some(sample) = self.take_next()? {
            return Ok(sample);
        }
        self.recv_slow(deadline.into())
    }

    #[cold]
    #[inline(never)]
    fn recv_slow(&mut self, deadline: Deadline) -> Result<Sample<M>, SubscribeError> {
        let me = self.enter()?;
        let due = self.options.period.map(|period| Deadline::at(self.last + period));
        loop {
            let until = due.map_or(deadline, |due| deadline.earlier(due));
            arrive::wait(self, me, until)?;
            if let Some(sample) = self.take_next()? {
                return Ok(sample);
            }
            // Nothing came, or nothing for us.
            if due.is_some_and(Deadline::has_passed) {
                self.last = Instant::now();
                return Err(SubscribeError::Missed);
            }
            if deadline.has_passed() {
                return Err(SubscribeError::TimedOut);
            }
        }
    }

    /// The newest message that there is, taken before or not; those before it are passed over, without counting as lost. `None`: nobody has
    /// ever published.
    ///
    /// # Errors
    /// As [`Subscriber::try_recv`].
    ///
    /// # If a process dies
    /// As with [`Subscriber::try_recv`].
    pub fn latest(&mut self) -> Result<Option<Sample<M>>, SubscribeError> {
        self.enter()?;
        self.meet_rings()?;
        let mut sample = MaybeUninit::uninit();
        // Overwritten while it is looked at, there is a newer one: bounded, since what is damaged may be so for ever.
        for _ in 0..1000 {
            let mut newest = None;
            for ring in 0..self.cursors.len() {
                let published = self.shared.published(ring as u32);
                self.cursors[ring] = self.cursors[ring].max(published.saturating_sub(1));
                if published > 0 && self.slot(ring, published - 1).look(published - 1) == Look::There {
                    let order = self.slot(ring, published - 1).facts().order;
                    newest = newest.max(Some((order, ring, published - 1)));
                }
            }
            let Some((_, newest, position)) = newest else { return Ok(None) };
            let took = self.take(newest, position, &mut sample);
            if let Took::Yes | Took::Unwanted = took {
                for ring in 0..self.cursors.len() {
                    let next = if ring == newest { position + 1 } else { self.cursors[ring] + 1 };
                    let published = self.shared.published(ring as u32);
                    self.advance(ring, next.min(published).max(self.cursors[ring]));
                }
            }
            match took {
                // SAFETY: it has been written.
                Took::Yes => return Ok(Some(unsafe { sample.assume_init() })),
                Took::Unwanted => return Ok(None),
                Took::No => {}
                Took::TooManyHeld => return Err(SubscribeError::TooManyHeld),
                Took::Damaged(what) => return Err(SubscribeError::Damaged(self.shared.segment.damaged(what))),
            }
        }
        Err(SubscribeError::Damaged(self.shared.segment.damaged("a ring's last message")))
    }

    // A sample is large: inlined all the way, it is written where it is wanted.
    #[inline(always)]
    fn take_next(&mut self) -> Result<Option<Sample<M>>, SubscribeError> {
        if self.shared.rings() as usize != self.cursors.len() {
            self.meet_rings()?;
        }
        let mut sample = MaybeUninit::uninit();
        // Each round passes something over; what is damaged may make us do so for ever.
        for _ in 0..1 << 17 {
            let Some((order, ring)) = self.next_ring() else { return Ok(None) };
            let position = self.cursors[ring];
            if order == GONE {
                // There after all, it takes its turn by its order.
                if self.slot(ring, position).look(position) != Look::There {
                    self.skip(ring);
                }
                continue;
            }
            match self.take(ring, position, &mut sample) {
                Took::Yes => {
                    self.advance(ring, position + 1);
                    if self.options.period.is_some() {
                        self.last = Instant::now();
                    }
                    // SAFETY: it has been written.
                    return Ok(Some(unsafe { sample.assume_init() }));
                }
                Took::Unwanted => self.advance(ring, position + 1),
                Took::No => self.skip(ring),
                Took::TooManyHeld => return Err(SubscribeError::TooManyHeld),
                Took::Damaged(what) => {
                    self.advance(ring, position + 1);
                    return Err(SubscribeError::Damaged(self.shared.segment.damaged(what)));
                }
            }
        }
        Ok(None)
    }

    /// Whether something is there for this subscriber, as far as can be seen without taking it.
    pub(super) fn is_ready(&self) -> bool {
        if self.shared.rings() as usize != self.cursors.len() {
            return true;
        }
        (0..self.cursors.len()).any(|ring| self.peek(ring).is_some())
    }

    #[inline]
    fn peek(&self, ring: usize) -> Option<u64> {
        let position = self.cursors[ring];
        self.shared.peek(ring as u32, self.slot(ring, position), position)
    }

    /// The ring whose next message has the lowest order, or is gone.
    #[inline]
    fn next_ring(&mut self) -> Option<(u64, usize)> {
        if self.options.keep_last != u32::MAX {
            self.keep_last();
        }
        if self.cursors.len() == 1 { self.peek(0).map(|order| (order, 0)) } else { self.next_of_several() }
    }

    #[cold]
    #[inline(never)]
    fn next_of_several(&self) -> Option<(u64, usize)> {
        let look = || (0..self.cursors.len()).filter_map(|ring| Some((self.peek(ring)?, ring))).min();
        // Once more when there is one: what was published before it is in sight now.
        look().and_then(|_| look())
    }

    #[cold]
    fn keep_last(&mut self) {
        for ring in 0..self.cursors.len() {
            let published = self.shared.published(ring as u32);
            let from = published.saturating_sub(u64::from(self.options.keep_last));
            if self.cursors[ring] < from {
                self.lose(from - self.cursors[ring]);
                self.advance(ring, from);
            }
        }
    }

    /// What was at the ring's cursor is gone: on to the oldest that may be there.
    #[cold]
    fn skip(&mut self, ring: usize) {
        let published = self.shared.published(ring as u32);
        let oldest = published.saturating_sub(u64::from(self.shared.plan.depth));
        let next = oldest.max(self.cursors[ring] + 1);
        self.lose(next - self.cursors[ring]);
        self.advance(ring, next);
    }

    fn lose(&mut self, count: u64) {
        self.lost = self.lost.saturating_add(count);
        self.words().lost.store(self.lost, Ordering::Relaxed);
    }

    #[inline]
    fn advance(&mut self, ring: usize, to: u64) {
        self.cursors[ring] = to;
        // Release pairs with `reliable::slowest`: we have done with the slots before it.
        self.words().cursors[ring].store(to, Ordering::Release);
        if self.options.reliable {
            // Died just before: its publisher watches our end, if it sleeps.
            self.shared.ring(ring as u32).space.ring();
        }
    }

    /// Rings that have come to be in use: all that is in those was published after we joined.
    #[cold]
    #[inline(never)]
    fn meet_rings(&mut self) -> Result<(), SubscribeError> {
        if (self.shared.rings() as usize) < self.cursors.len() {
            return Err(SubscribeError::Damaged(self.shared.segment.damaged("the number of its publishers")));
        }
        for ring in self.cursors.len() as u32..self.shared.rings() {
            self.shared.slots(ring)?;
            self.cursors.push(0);
        }
        Ok(())
    }

    /// Takes a message into `into`.
    #[inline(always)]
    fn take(&mut self, ring: usize, position: u64, into: &mut MaybeUninit<Sample<M>>) -> Took {
        let slot = self.slot(ring, position);
        if slot.look(position) != Look::There {
            return Took::No;
        }
        let facts = slot.facts();
        let sample = into.write(Sample {
            data: core::ptr::null(),
            len: facts.len as usize,
            cell: core::ptr::null(),
            owner: self.owner,
            order: facts.order,
            position,
            publisher: facts.publisher,
            has_header: facts.has_header,
            header: unknown(),
            inline: unknown(),
            _message: PhantomData,
        });
        if facts.has_header {
            slot.read_header(&mut sample.header);
        }
        if facts.object.is_none() && sample.len <= INLINE {
            slot.read(sample.len, &mut sample.inline);
            if !slot.is_still(position) {
                return Took::No;
            }
        }
        let keys = &self.options.keys;
        if !keys.is_empty() && slot.is_still(position) && keys.binary_search(&sample.header().key).is_err() {
            return Took::Unwanted;
        }
        match facts.object {
            None if sample.len > INLINE => Took::Damaged("a message's length"),
            // SAFETY: as many bytes as were copied, aligned to 8.
            None if unsafe { M::at(sample.inline.as_ptr().cast(), sample.len) }.is_none()
                || M::FACTS.align > 8 && sample.len > 0 =>
            {
                Took::Damaged("a value of another size")
            }
            None => Took::Yes,
            Some(_) => self.hold(ring, position, facts, into),
        }
    }

    /// Holds the object of a message.
    #[inline]
    fn hold(&mut self, ring: usize, position: u64, facts: Facts, into: &mut MaybeUninit<Sample<M>>) -> Took {
        let Some(reference) = facts.object else { return Took::No };
        let cells = self.words().cells();
        let Some(at) = cells.find(self.next_cell) else { return Took::TooManyHeld };
        if !self.slot(ring, position).hold(position, reference, &cells, at) {
            return Took::No;
        }
        // It is this message's, and stays so while the cell names it.
        let block = self.shared.heap.object(&self.shared.segment, reference);
        let Some(block) = block.filter(|block| block.capacity >= u64::from(facts.len)) else {
            cells.clear(at);
            return Took::Damaged("a message's object");
        };
        let data = self.shared.payload(&block);
        // SAFETY: as many bytes can be read there, in a mapping that stays; objects are aligned to 64.
        if unsafe { M::at(data, facts.len as usize) }.is_none() {
            cells.clear(at);
            return Took::Damaged("a value of another size");
        }
        // SAFETY: `take` has written it.
        let sample = unsafe { into.assume_init_mut() };
        sample.data = data;
        sample.cell = self.words().cell(at);
        self.next_cell = if at + 1 < super::hold::CELLS && at < 8 { at + 1 } else { 0 };
        Took::Yes
    }

    /// How many messages were overwritten or passed over before this subscriber had taken them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How many messages wait to be taken, as far as they are still there.
    #[must_use]
    pub fn lag(&self) -> u64 {
        let behind = |ring: usize| {
            let published = self.shared.published(ring as u32);
            published.saturating_sub(self.cursors[ring]).min(u64::from(self.shared.plan.depth))
        };
        (0..self.cursors.len()).map(behind).sum()
    }

    /// How many publishers there are that live: right at once after any of them was killed.
    #[must_use]
    pub fn publisher_count(&self) -> u32 {
        ring::living(&self.shared).count() as u32
    }

    pub(super) fn line(&self) -> u32 {
        self.line
    }

    pub(super) fn cursor(&self, ring: usize) -> u64 {
        self.cursors[ring]
    }

    pub(super) fn ring_count(&self) -> usize {
        self.cursors.len()
    }
}

/// Waits for each; ends at an error other than a missed period.
impl<M: Message + ?Sized> Iterator for Subscriber<M> {
    type Item = Sample<M>;

    fn next(&mut self) -> Option<Sample<M>> {
        loop {
            match self.recv() {
                Err(SubscribeError::Missed) => {}
                other => return other.ok(),
            }
        }
    }
}

impl<M: Message + ?Sized> Drop for Subscriber<M> {
    fn drop(&mut self) {
        // In a forked child it is its parent's, and copies of its samples may still be read.
        if identity::this_process() != Ok(self.owner) {
            core::mem::forget(Arc::clone(&self.shared));
            return;
        }
        if !line::leave(&self.shared, self.words(), self.process) {
            let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
            orphans.push((Arc::clone(&self.shared), self.line, self.owner));
        }
        look_after_orphans();
    }
}
