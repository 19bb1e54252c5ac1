//! A publisher's ring: which process owns it, and what a new owner does first.
//!
//! | `owner` | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | no process's; what was published in it stays | |
//! | P | P publishes | what was published stays. Once P has *ended*, any process may take the ring: until then a thread of P may be writing a payload |
//! | P, looking after | P frees what dead processes left in it, or is about to publish in it (`ring_choice.rs`), and is no publisher yet | the same |
//!
//! The owner alone changes the slots and frees the ring's objects; only hazard pointers hold it
//! back (`hazard.rs`).

use super::back_pressure;
use super::durability::{self, Terms};
use super::free_list::FreeList;
use super::layout::RingWords;
use super::mapping::Inner;
use super::ring_choice::{self, Rank};
use super::ring_owner::{LOOKING_AFTER, has_ended, publisher};
use super::slot::Origin;
use super::watched::Others;
use crate::claim::Holder;
use crate::liveness::{ASK_AGAIN, Ends, LONGEST_CARE, Me};
use crate::pool::{ObjectRef, RingTag};
use crate::shim::Ordering;
use crate::sys::futex::{self, Watch};
use crate::sys::probe::{self, probe};
use crate::sys::robust::WakeRelay;
use crate::wake::Sleep;
use crate::{Deadline, Error, TokenId};

/// Why a ring is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// If its rank is no worse by then.
    Publish(Rank),
    LookAfter,
}

/// Returns whether that ring may be looked after: no living process publishes in it.
pub(super) fn is_left(inner: &Inner, index: u32, ends: &Ends) -> bool {
    let words = inner.ring(index);
    is_free(words, words.owner.load(Ordering::Acquire), ends)
}

/// A ring that this process owns.
pub(super) struct Ring {
    pub(super) index: u32,
    pub(super) process: TokenId,
    /// The value that this process put into `owner`.
    claim: u32,
    /// How many messages it has published.
    pub(super) published: u64,
    pub(super) order: u64,
    pub(super) others: Others,
    /// What the ring's `session` says of this owner; 0: it publishes nothing.
    session: u64,
    /// What each of its messages says of their origin.
    pub(super) origin: Origin,
    /// By slot: its object.
    pub(super) places: Vec<Option<ObjectRef>>,
    pub(super) free_list: FreeList,
}

/// Returns whether the ring may be taken: it has no owner, or its owner has ended.
fn is_free(words: &RingWords, owner: u32, ends: &Ends) -> bool {
    TokenId::from_word(owner).is_none_or(|id| has_ended(words, id, ends))
}

/// Takes the free ring that is the best for a new publisher. If all are in use, it waits for one
/// whose publisher is dead already, or that another process is cleaning: that process is about to
/// finish, or may have died, too.
///
/// The publisher's session tells `terms`.
pub(super) fn take(inner: &Inner, me: Me, process: TokenId, terms: Terms) -> Result<Ring, Error> {
    let deadline = Deadline::after(LONGEST_CARE);
    loop {
        let ends = inner.ends();
        match take_best(inner, process, &ends)? {
            Taking::Taken(mut ring) => {
                ring.begin_session(inner, terms);
                inner.note_publisher_change();
                return Ok(*ring);
            }
            // Another process has come or gone: so it has got further.
            Taking::Changed if !deadline.has_passed() => continue,
            Taking::Changed | Taking::NoneFree => {}
        }
        if !wait_for_one(inner, me, deadline)? {
            let path = inner.segment.path().to_path_buf();
            return Err(Error::TooMany {
                what: "publishers",
                path,
                max: inner.plan.capacity.publishers,
            });
        }
    }
}

/// The outcome of one look at all rings.
enum Taking {
    Taken(Box<Ring>),
    /// The ring that was the best is not, or no longer free.
    Changed,
    NoneFree,
}

/// Takes the best of the free rings.
fn take_best(inner: &Inner, process: TokenId, ends: &Ends) -> Result<Taking, Error> {
    let mut no_memory = None;
    for (rank, index) in ring_choice::candidates(inner, |index| is_left(inner, index, ends)) {
        match take_one(inner, process, index, ends, Purpose::Publish(rank)) {
            Ok(Some(ring)) => return Ok(Taking::Taken(Box::new(ring))),
            Ok(None) => return Ok(Taking::Changed),
            // Its slots cannot be made: another one has some.
            Err(error @ Error::NoSpace { .. }) => no_memory = Some(error),
            Err(error) => return Err(error),
        }
    }
    no_memory.map_or(Ok(Taking::NoneFree), Err)
}

/// Waits a moment for a ring that will be free soon. Returns `false` if there is none, or the
/// deadline has passed.
#[cold]
fn wait_for_one(inner: &Inner, me: Me, deadline: Deadline) -> Result<bool, Error> {
    let owners = || {
        (0..inner.plan.capacity.publishers)
            .map(|index| (index, inner.ring(index).owner.load(Ordering::Acquire)))
    };
    let is_soon_free = |owner: u32| {
        owner & LOOKING_AFTER != 0
            || TokenId::from_word(owner).is_none_or(|id| !inner.registry.is_alive(id))
    };
    let Some((index, expected)) = owners().find(|(_, owner)| is_soon_free(*owner)) else {
        return Ok(false);
    };
    if deadline.has_passed() {
        return Ok(false);
    }
    let word = Watch { word: &inner.ring(index).owner, expected };
    let relay = WakeRelay::begin(me.list());
    let living = TokenId::from_word(expected).filter(|&id| inner.registry.is_alive(id));
    // If it is given back between the look and the sleep, the word has another value. If the
    // process that cleans it is dead, it is polled from then on.
    let until =
        if living.is_some() { deadline } else { deadline.earlier(Deadline::after(ASK_AGAIN)) };
    Sleep::on(inner.registry, &[word])
        .behind(&relay, living.as_slice())
        .until(until)
        .map_err(|errno| Error::from_errno("wait for a ring of", inner.segment.path(), errno))?;
    Ok(true)
}

/// Takes that ring, if it is free, and good enough for the purpose.
fn take_one(
    inner: &Inner,
    process: TokenId,
    index: u32,
    ends: &Ends,
    purpose: Purpose,
) -> Result<Option<Ring>, Error> {
    let words = inner.ring(index);
    let seen = words.owner.load(Ordering::Acquire);
    if !is_free(words, seen, ends) {
        return Ok(None);
    }
    let claim = process.as_u32() | LOOKING_AFTER;
    // Acquire pairs with `leave`: what its last owner did in it. If this thread died just after,
    // the ring has a dead owner, as before.
    if words.owner.compare_exchange(seen, claim, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return Ok(None);
    }
    if let Some(dead) = TokenId::from_word(seen) {
        let pid = || Holder::of(inner.registry, dead).pid;
        probe!(took_over, inner.segment.path(), pid().into(), probe::OF_A_PUBLISHER);
    }
    if let Purpose::Publish(rank) = purpose
        && ring_choice::rank(inner, index) > rank
    {
        // Between the look and the claim another publisher had it, or a subscriber has joined. If
        // this process died just before, the ring has a dead owner.
        release(words, claim);
        return Ok(None);
    }
    // Relaxed: this process owns the ring. If it died just before, no device of its own has
    // written, and the last owner's is assumed to write until this process is gone.
    words.device.store(0, Ordering::Relaxed);
    // The last owner's name goes here, too. If this process died just before, a dead one vouches.
    // Release: a subscriber that sees it sees whether the last owner has left in order.
    words.session.store(0, Ordering::Release);
    if index >= inner.rings() {
        // The slots of the rings before it, too: their first owners have claimed them, and may be
        // stopped, or dead, before they have made them. The count promises that the slots of all
        // rings below it have pages.
        for ring in inner.rings()..=index {
            if let Err(error) = inner.make_ring(ring) {
                release(words, claim);
                return Err(error);
            }
        }
        // Release pairs with `Inner::rings`: their slots exist. If this thread died just before,
        // they exist, and no process looks at them.
        inner.head().rings.fetch_max(index + 1, Ordering::Release);
    }
    // The publisher that waited for it was the last owner.
    words.await_any();
    match recover(inner, process, index, claim) {
        Ok(ring) if purpose == Purpose::LookAfter => Ok(Some(ring)),
        Ok(ring) => {
            // Release: what it has recovered. If this process died just before, it was no publisher.
            words.owner.store(process.as_u32(), Ordering::Release);
            // A process that waits until nothing looks after the ring.
            futex::wake_all(&words.owner);
            Ok(Some(Ring { claim: process.as_u32(), ..ring }))
        }
        Err(error) => {
            release(words, claim);
            Err(error)
        }
    }
}

/// Takes a ring that was chosen, unless its rank is worse by now.
#[cfg(test)]
pub(super) fn take_chosen(
    inner: &Inner,
    process: TokenId,
    (rank, index): (Rank, u32),
) -> Result<Option<Ring>, Error> {
    take_one(inner, process, index, &inner.ends(), Purpose::Publish(rank))
}

/// Gives the ring back: no process owns it.
fn release(words: &RingWords, claim: u32) {
    // Release pairs with `take_one`. The exchange expects this process's own claim, so a forked
    // child, or an owner that was taken for dead, changes nothing.
    let _ = words.owner.compare_exchange(claim, 0, Ordering::Release, Ordering::Relaxed);
    if claim & LOOKING_AFTER != 0 {
        // A process may wait to publish. If this one died just before, the waiter is woken by its
        // end.
        futex::wake_all(&words.owner);
    }
}

/// Takes over what the ring's earlier owners have left.
fn recover(inner: &Inner, process: TokenId, index: u32, claim: u32) -> Result<Ring, Error> {
    let words = inner.ring(index);
    let slots = inner.slots(index)?;
    let published = inner.all_published(index);
    if published != inner.published(index) {
        // The last one's publisher died before it could count it.
        words.published.store(published, Ordering::Release);
    }
    let mut ring = Ring {
        index,
        process,
        claim,
        published,
        order: words.order.load(Ordering::Relaxed),
        others: Others::with_room_for(inner.plan.capacity.publishers),
        session: 0,
        origin: Origin::default(),
        places: vec![None; slots.len()],
        free_list: FreeList::default(),
    };
    for (slot, place) in slots.iter().zip(&mut ring.places) {
        if slot.position().is_some_and(|position| position < published)
            && let Some(reference) = slot.metadata().object
            && let Some(block) = inner.heap.find_object(&inner.segment, reference)?
            && inner.heap.tag_of(&inner.segment, &block)? == RingTag::of(index).tag()
        {
            *place = Some(block);
        }
    }
    let mut in_place: Vec<u32> =
        ring.places.iter().flatten().map(|block| block.reference).collect();
    in_place.sort_unstable();
    let free_list = &mut ring.free_list;
    inner.heap.queued_in(&inner.segment, RingTag::of(index), |block| {
        if in_place.binary_search(&block.reference).is_err() {
            free_list.retire(block);
        }
    })?;
    Ok(ring)
}

impl Ring {
    /// Returns what the ring's `session` says of this owner.
    pub(super) fn session_word(&self) -> u64 {
        self.session
    }

    /// Returns what its objects say.
    #[inline]
    pub(super) fn tag(&self) -> RingTag {
        RingTag::of(self.index)
    }

    /// Begins a session: from here on the ring's messages are this publisher's.
    fn begin_session(&mut self, inner: &Inner, terms: Terms) {
        let words = inner.ring(self.index);
        let (number, word) = durability::begin(inner, words, self.process, self.published, terms);
        (self.session, self.origin) = (
            word,
            Origin::new(self.process.as_u32(), number, terms.lifespan != 0, terms.is_foreign),
        );
    }

    /// Gives up its oldest messages, one after the other, until `wanted` succeeds: never one that a
    /// reliable subscriber has still to take, nor the last `kept` ones. A death in between leaves
    /// them as if overwritten.
    pub(super) fn give_up_oldest<T>(
        &mut self,
        inner: &Inner,
        kept: u64,
        wanted: impl Fn() -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        let slots = inner.slots(self.index)?;
        let depth = slots.len() as u64;
        let needed = back_pressure::needed_from(inner, self.index);
        for position in
            self.published.saturating_sub(depth)..self.published.saturating_sub(kept).min(needed)
        {
            let at = (position & (depth - 1)) as usize;
            if self.places[at].is_none() {
                continue;
            }
            slots[at].begin();
            self.retire(at);
            self.free_list.give_back(inner, self.index);
            if let Some(found) = wanted()? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The slot has been overwritten: puts its previous object into limbo.
    #[inline]
    pub(super) fn retire(&mut self, at: usize) {
        if let Some(block) = self.places[at].take() {
            self.free_list.retire(block);
        }
    }

    /// Takes the ring out of a publisher that is dropped, which uses it no more.
    pub(super) fn take(&mut self) -> Ring {
        let (places, free_list) =
            (core::mem::take(&mut self.places), core::mem::take(&mut self.free_list));
        Ring { places, free_list, others: Others::default(), ..*self }
    }

    /// Ends the session: no process vouches for the ring's messages any more. Without effect in a
    /// forked child, whose parent goes on.
    pub(super) fn end_session(&self, inner: &Inner) {
        if inner.registry.process_token_if_any() == Some(self.process) {
            durability::end(inner.ring(self.index), self.session);
        }
    }

    /// Gives the ring back: objects that no subscriber holds are freed, messages in its slots stay.
    pub(super) fn leave(&mut self, inner: &Inner) {
        self.free_list.give_back(inner, self.index);
        release(inner.ring(self.index), self.claim);
    }
}

/// Does the same with the rings that have no owner: first with all messages but the last one of each,
/// then with these, too, from the oldest on, but for the newest of all.
pub(super) fn give_up_left<T>(
    inner: &Inner,
    process: TokenId,
    ends: &Ends,
    wanted: impl Fn() -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let left = left_rings(inner, ends);
    let (newest, others) = left
        .split_last()
        .map_or((&[][..], &[][..]), |(newest, others)| (core::slice::from_ref(newest), others));
    for (indices, kept) in [(others, 1), (newest, 1), (others, 0)] {
        for &index in indices {
            let taken = take_one(inner, process, index, ends, Purpose::LookAfter)?;
            let Some(mut ring) = taken else { continue };
            let found = ring.give_up_oldest(inner, kept, &wanted);
            ring.leave(inner);
            if let Some(found) = found? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Returns the rings in which no living process publishes: the one with the newest message comes
/// last.
pub(super) fn left_rings(inner: &Inner, ends: &Ends) -> Vec<u32> {
    let mut left: Vec<u32> =
        (0..inner.rings()).filter(|&index| is_left(inner, index, ends)).collect();
    // Relaxed: a hint; a ring that a publisher takes meanwhile is that publisher's.
    left.sort_by_key(|&index| inner.ring(index).order.load(Ordering::Relaxed));
    left
}

/// Cleans rings that have no owner: frees their objects that no subscriber holds. Returns how many.
pub(super) fn sweep(
    inner: &Inner,
    process: TokenId,
    ends: &Ends,
    dry_run: bool,
) -> Result<(u32, u32), Error> {
    let (mut claims, mut objects) = (0, 0);
    for index in 0..inner.rings() {
        let words = inner.ring(index);
        let owner = words.owner.load(Ordering::Acquire);
        let is_dead = TokenId::from_word(owner).is_some_and(|id| has_ended(words, id, ends));
        claims += u32::from(is_dead);
        if dry_run {
            continue;
        }
        if let Some(mut ring) = take_one(inner, process, index, ends, Purpose::LookAfter)? {
            objects += ring.free_list.give_back(inner, index);
            ring.leave(inner);
            if is_dead {
                // Subscribers need not look there any more.
                inner.note_publisher_change();
            }
        }
    }
    Ok((claims, objects))
}

/// Returns the living publishers.
pub(super) fn living(inner: &Inner) -> impl Iterator<Item = TokenId> {
    (0..inner.rings()).filter_map(|ring| {
        let owner = publisher(inner.ring(ring).owner.load(Ordering::Acquire))?;
        inner.registry.is_alive(owner).then_some(owner)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Domain;
    use crate::sys::futex_call::{FutexError, wait_for};
    use crate::topic::Topic;

    /// A process that waits for a ring in the care of another sleeps on the ring's owner.
    #[test]
    fn a_ring_that_cannot_be_looked_after_is_given_back_with_a_wake() {
        let folder = std::env::temp_dir().join(format!("outlive-care-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let topic = Topic::<[u8]>::open_or_create(&domain, "topic").expect("made");
        let inner = &**topic.inner.publishing().expect("mapped");
        let process = inner.registry.process_token().expect("a token");
        // There is a ring, as its count says, and the file ends before its slots.
        inner.head().rings.store(1, Ordering::Relaxed);
        let owner = &inner.ring(0).owner;
        let mut is_nobodys = true;
        let was_woken = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                loop {
                    match wait_for(owner, 0, Duration::from_secs(10)) {
                        Ok(()) => return true,
                        Err(FutexError::TimedOut) => return false,
                        // The other thread's name is there: not asleep yet.
                        Err(_) => {}
                    }
                }
            });
            while !waiting.is_finished() {
                let taken = take_one(inner, process, 0, &inner.ends(), Purpose::LookAfter);
                is_nobodys &= matches!(taken, Err(Error::Damaged { .. }))
                    && owner.load(Ordering::Relaxed) == 0;
                std::thread::yield_now();
            }
            waiting.join().expect("no panic")
        });
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!(is_nobodys && was_woken);
    }
}
