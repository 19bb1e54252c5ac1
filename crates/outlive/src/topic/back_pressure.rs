//! Waiting for reliable subscribers.
//!
//! The publisher needs every reliable subscriber's cursor beyond the message that it is about to
//! overwrite. It sleeps on its ring's `space` and on the end of the slowest subscriber, whose death
//! wakes it as a taken message would. `awaited` names the slowest subscriber's slot, and the others
//! do not notify the publisher: of many subscribers only one wakes it, until the publisher names
//! the next one in the way.
//!
//! A named subscriber that has no living owner is in the way as one that is stopped (kept.rs): the
//! publisher sleeps on `space` alone, and marks it when it has waited for the subscriber's patience.
//!
//! A publisher that has waited for as long as it may (`max_blocking`) marks the slowest subscriber: a
//! compare-exchange of its claim, from reliable to lagging. Publishers do not wait for that one any
//! more. The subscriber finds the mark after its next take, and is reliable again; what it has not
//! got until then it is told.
//!
//! | a publisher dies, or is stopped | what becomes of the marked subscriber |
//! | --- | --- |
//! | just after the mark | nothing was overwritten; after its next take it is reliable again. Other publishers that sleep behind it look again at their next recheck |
//! | later | it is told how many messages were overwritten before it took them |
//!
//! A wait set sleeps on the same words and the same end: room.rs.

use core::cell::Cell;

use super::claim::{Claim, Kept, State};
use super::kept;
use super::mapping::Inner;
use super::slot::MessageState;
use super::subscriber_words::SubscriberWords;
use crate::claim::Holder;
use crate::liveness::Me;
use crate::shim::{Ordering, fence};
use crate::sys::probe::{self, AtEnd, probe};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep};
use crate::{Deadline, Error, SendError, TokenId};

/// A reliable subscriber whose next message is in the way of a publisher.
#[derive(Clone, Copy)]
pub(super) struct InTheWay {
    slot: u32,
    pub(super) owner: Owner,
    /// The first message that it has still to take.
    pub(super) cursor: u64,
}

/// Whose the slot in the way is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A living process.
    Living(TokenId),
    /// None, or a dead process: it is kept for a successor.
    Kept(Kept),
}

impl InTheWay {
    /// Returns the process, as far as its name is there.
    pub(super) fn holder(&self, inner: &Inner) -> Option<Holder> {
        let id = match self.owner {
            Owner::Living(id) => Some(id),
            Owner::Kept(kept) => kept.owner,
        };
        id.map(|id| Holder::of(inner.registry, id))
    }

    /// Returns when a publisher marks it that would mark a living one at that moment.
    pub(super) fn mark_at(&self, inner: &Inner, limit: Option<Deadline>) -> Option<Deadline> {
        let Owner::Kept(kept) = self.owner else { return limit };
        let Ok(words) = inner.subscriber_slot(self.slot) else { return limit };
        let until = kept::wait_until(inner, words, kept);
        Some(limit.map_or(until, |limit| limit.earlier(until)))
    }
}

/// How many of the slowest subscribers a publisher remembers.
const FEW: usize = 8;

/// The subscribers that were the slowest when a publisher looked at all of them. As long as no other
/// one can be in its way, it looks at these alone: where one of a thousand subscribers is slow, each
/// message costs a look at that one.
#[derive(Clone, Copy, Default)]
pub(super) struct Slow {
    /// The slots of the first `len`.
    slots: [u32; FEW],
    len: usize,
    /// Up to which message no other subscriber is in the way: those that were there had taken what
    /// it overwrites, and one that joins, or is reliable again, later is owed only what was
    /// published after that look.
    others_until: u64,
}

/// Returns up to which message ring `index`, whose next message is `position`, has room. `Err`: the
/// slowest of the subscribers that leave none.
pub(super) fn look(inner: &Inner, index: u32, position: u64) -> Result<u64, InTheWay> {
    look_and_note(inner, index, position, &Cell::default())
}

/// Does the same, and notes which subscribers are the slowest, for the next such look of this
/// publisher.
pub(super) fn look_and_note(
    inner: &Inner,
    index: u32,
    position: u64,
    slow: &Cell<Slow>,
) -> Result<u64, InTheWay> {
    let depth = u64::from(inner.plan.depth);
    if inner.control.joined().reliable.load(Ordering::Acquire) == 0 {
        // A subscriber that joins from now on begins at this position or later.
        return Ok(position + depth);
    }
    // Orders what was published before, and then the look at which subscribers have joined: pairs
    // with the fence in `Subscriber::new`.
    fence(Ordering::SeqCst);
    let mut noted = slow.get();
    let slowest = match position < noted.others_until {
        true => {
            let some = noted.slots[..noted.len].iter();
            some.filter_map(|&slot| counts(inner, index, inner.subscriber_slot(slot).ok()?, slot))
                .min_by_key(|one| one.cursor)
        }
        false => {
            let (slowest, all) = note_slowest(inner, index, position);
            slow.set(all);
            noted = all;
            slowest
        }
    };
    let until = |subscriber: InTheWay| subscriber.cursor.saturating_add(depth);
    match slowest {
        Some(subscriber) if until(subscriber) <= position => Err(subscriber),
        Some(subscriber) => Ok(until(subscriber).min(noted.others_until).min(position + depth)),
        None => Ok(noted.others_until.min(position + depth)),
    }
}

/// Looks at all reliable subscribers: returns the slowest one, and what is to be noted.
#[cold]
fn note_slowest(inner: &Inner, index: u32, position: u64) -> (Option<InTheWay>, Slow) {
    let depth = u64::from(inner.plan.depth);
    // The slowest comes first.
    let mut few: [Option<InTheWay>; FEW] = [None; FEW];
    let mut others = position;
    for mut one in reliable(inner, index) {
        if few[FEW - 1].is_some_and(|last| one.cursor >= last.cursor) {
            others = others.min(one.cursor);
            continue;
        }
        for place in &mut few {
            match place {
                None => {
                    *place = Some(one);
                    one.cursor = u64::MAX;
                    break;
                }
                Some(there) if one.cursor < there.cursor => core::mem::swap(there, &mut one),
                Some(_) => {}
            }
        }
        others = others.min(one.cursor);
    }
    let mut slow = Slow { others_until: others.saturating_add(depth), ..Slow::default() };
    for one in few.iter().flatten() {
        slow.slots[slow.len] = one.slot;
        slow.len += 1;
    }
    (few[0], slow)
}

/// Returns the reliable subscribers, living or kept, each with its cursor in that ring.
fn reliable(inner: &Inner, index: u32) -> impl Iterator<Item = InTheWay> {
    let all = inner.subscriber_slots().zip(0..);
    all.filter_map(move |(words, slot)| counts(inner, index, words, slot))
}

/// Returns the subscriber in that slot, if publishers wait for it.
fn counts(inner: &Inner, index: u32, words: SubscriberWords<'_>, slot: u32) -> Option<InTheWay> {
    // Acquire pairs with `subscriber_slot::join`: its cursors are written.
    let word = words.claim.load(Ordering::Acquire);
    let owner = match Claim::of(word) {
        Some(Claim { process, state: State::Reliable, .. }) if inner.registry.is_alive(process) => {
            Owner::Living(process)
        }
        Some(Claim { turn: None, .. }) => return None,
        _ => Owner::Kept(Kept::of(word).filter(|kept| kept.state == State::Reliable)?),
    };
    // Acquire: the subscriber has finished with the slot.
    Some(InTheWay { slot, owner, cursor: words.cursors[index as usize].load(Ordering::Acquire) })
}

/// Returns the reliable subscriber, living or kept, that is furthest behind in that ring; of several
/// the first.
pub(super) fn slowest(inner: &Inner, index: u32) -> Option<InTheWay> {
    // As in `look_and_note`.
    fence(Ordering::SeqCst);
    reliable(inner, index).min_by_key(|subscriber| subscriber.cursor)
}

/// Returns the living one that is furthest behind, and its process.
pub(super) fn slowest_living(inner: &Inner, index: u32) -> Option<(InTheWay, TokenId)> {
    // As in `look_and_note`.
    fence(Ordering::SeqCst);
    let living = reliable(inner, index).filter_map(|one| match one.owner {
        Owner::Living(process) => Some((one, process)),
        Owner::Kept(_) => None,
    });
    living.min_by_key(|(one, _)| one.cursor)
}

/// Returns a reliable subscriber that keeps a publisher from giving up messages, and their memory: of
/// its own ring, or of one that it may look after (`left`). The last message of its own ring is never
/// given up, nor that of the last of the others.
pub(super) fn keeps_memory(
    inner: &Inner,
    own: u32,
    left: &[u32],
) -> Result<Option<InTheWay>, Error> {
    let newest = left.last().copied();
    for index in left.iter().copied().filter(|&ring| ring != own).chain([own]).rev() {
        let Some(subscriber) = slowest(inner, index) else { continue };
        let (slots, published) = (inner.slots(index)?, inner.published(index));
        let depth = slots.len() as u64;
        let from = published.saturating_sub(depth).max(subscriber.cursor);
        let kept = u64::from(index == own || Some(index) == newest);
        let has_object = |position: u64| {
            let slot = &slots[(position & (depth - 1)) as usize];
            slot.look(position) == MessageState::There && slot.metadata().object.is_some()
        };
        if (from..published.saturating_sub(kept)).any(has_object) {
            return Ok(Some(subscriber));
        }
    }
    Ok(None)
}

/// Returns the first message that a reliable subscriber has still to take.
pub(super) fn needed_from(inner: &Inner, index: u32) -> u64 {
    slowest(inner, index).map_or(u64::MAX, |subscriber| subscriber.cursor)
}

/// Marks a subscriber as lagging: publishers do not wait for it until it has taken a message. Returns
/// whether it was reliable until now; the caller looks again in any case.
pub(super) fn mark(inner: &Inner, index: u32, subscriber: InTheWay) -> bool {
    let Ok(words) = inner.subscriber_slot(subscriber.slot) else { return false };
    // The word as it is, not as it should be: bits that mean nothing would let each exchange fail,
    // and the publisher would look again for ever.
    let reliable = words.claim.load(Ordering::Relaxed);
    let lagging = match subscriber.owner {
        Owner::Living(process) => match Claim::of(reliable) {
            Some(claim) if (claim.process, claim.state) == (process, State::Reliable) => {
                Claim { state: State::Lagging, ..claim }.word()
            }
            _ => return false,
        },
        Owner::Kept(kept) if Kept::of(reliable) == Some(kept) => {
            Kept { state: State::Lagging, ..kept }.word()
        }
        // A successor has it, or a sweep has taken the owner's token out.
        Owner::Kept(_) => return false,
    };
    // A compare-exchange: the subscriber may have left meanwhile, or another publisher have marked
    // it. If a later subscriber of the same process has the slot by now, it is marked in place of
    // the former one, and is reliable again after its next take.
    // The fence of the look that comes next orders it before what this publisher overwrites: a
    // subscriber that finds a message overwritten finds the mark. If this process died just after,
    // the subscriber has lost nothing, and is reliable again after its next take.
    let marked =
        words.claim.compare_exchange(reliable, lagging, Ordering::AcqRel, Ordering::Relaxed);
    if marked.is_ok() {
        // Relaxed: a count that only this publisher writes, and no process relies on.
        let count = &inner.ring(index).marked;
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        // Other publishers need not wait for it either. If this process died or was stopped just
        // before, each of them sleeps on until its next recheck.
        for ring in 0..inner.rings() {
            let words = inner.ring(ring);
            inner.space(ring).notify_all_if(|| words.is_awaited(subscriber.slot));
        }
    }
    marked.is_ok()
}

/// How a publisher waits.
#[derive(Clone, Copy)]
pub(super) struct Limits<'p> {
    /// What the publisher knows of the slowest.
    pub(super) slow: &'p Cell<Slow>,
    /// Wait sets may wait for room in another thread, so that no subscriber is named.
    pub(super) has_sets: bool,
    /// When the call ends.
    pub(super) deadline: Deadline,
    /// When living subscribers that are in the way are marked.
    pub(super) mark_at: Option<Deadline>,
}

/// Waits until there is room; returns up to which message.
pub(super) fn wait(
    inner: &Inner,
    me: Me,
    index: u32,
    position: u64,
    limits: Limits<'_>,
) -> Result<u64, SendError> {
    let Limits { slow, has_sets, deadline, mark_at } = limits;
    let look = || look_and_note(inner, index, position, slow);
    let path = inner.segment.path();
    probe!(topic_wait, path, probe::FOR_ROOM);
    let _end = AtEnd(|| probe!(topic_waited, path, probe::FOR_ROOM));
    let mut until = 0;
    let mut is_clear = || look().map(|clear| until = clear).is_ok();
    let spin_until = mark_at.map_or(deadline, |moment| deadline.earlier(moment));
    if is_clear() || inner.spin_wait.spin_until(spin_until, &mut is_clear) {
        return Ok(until);
    }
    let (words, space) = (inner.ring(index), inner.space(index));
    let relay = WakeRelay::begin(me.list());
    let mut slowest = match look() {
        Ok(until) => return Ok(until),
        Err(slowest) => slowest,
    };
    loop {
        // Named before the fence, as the number is: a subscriber that takes after that fence finds
        // itself named, and the look below finds the cursor of one that took before. The fence is
        // this thread's own: another thread's came before the name.
        if !has_sets {
            words.await_only(slowest.slot);
        }
        let ticket = space.prepare_wait_with_fence();
        let named = slowest;
        slowest = match look() {
            Ok(until) => return Ok(until),
            Err(slowest) => slowest,
        };
        let mark_at = slowest.mark_at(inner, mark_at);
        if mark_at.is_some_and(Deadline::has_passed) {
            mark(inner, index, slowest);
            // Others may be in the way, too.
            slowest = match look() {
                Ok(until) => return Ok(until),
                Err(slowest) => slowest,
            };
            continue;
        }
        if deadline.has_passed() {
            return Err(SendError::TimedOut { slowest: slowest.holder(inner) });
        }
        if (slowest.slot, slowest.owner) != (named.slot, named.owner) {
            // It took a message, or died: no subscriber notifies for the one that is the slowest
            // now.
            continue;
        }
        // Without a living owner the sleep ends by a successor that takes, or by the mark.
        let end = match slowest.owner {
            Owner::Living(process) => Some(process),
            Owner::Kept(_) => None,
        };
        let ends = mark_at.map_or(deadline, |moment| deadline.earlier(moment));
        let slept = Sleep::on(inner.registry, &[space.watch(ticket)])
            .behind(&relay, end.as_slice())
            .until(ticket.until(ends));
        // Timed out: looks once more.
        let (Asleep::LookAgain | Asleep::TimedOut) = slept.map_err(|errno| {
            SendError::System(Error::from_errno("wait in", inner.segment.path(), errno))
        })?;
    }
}
