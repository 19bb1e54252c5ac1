//! A subscriber's slot: which process has it, and how it changes hands.
//!
//! | `claim` | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | free | |
//! | (P, joining) | its cursors are being written | counts for nothing; its hazard pointers are empty |
//! | (P, subscribed), (P, reliable), (P, lagging) | P takes messages | publishers stop waiting for it at once; its hazard pointers count until P has ended |
//! | (P, leaving) | P holds samples still | the same |
//! | (T, sweeping) | its owner had ended, and T clears it | the next one, from (T dead, sweeping) |
//! | (P or 0, a state of these, kept) | P has a name: kept.rs | a successor of that name goes on |

use std::sync::Arc;

use super::claim::{Claim, Kept, State};
use super::control::OwnSlot;
use super::hazard::HazardPointers;
use super::mapping::Inner;
use super::subscriber_words::{SubscriberSlot, SubscriberWords};
use crate::claim::Holder;
use crate::liveness::{ASK_AGAIN, Ends, LONGEST_CARE, Me};
use crate::shim::{Ordering, fence};
use crate::sys::futex::Watch;
use crate::sys::probe::{self, probe};
use crate::sys::robust::WakeRelay;
use crate::wake::Sleep;
use crate::{Deadline, Error, TokenId};

/// Takes a slot for a process that joins. With all in use it waits for one whose subscriber is dead
/// already, until that one has ended, or for one that a process clears.
pub(super) fn take(
    inner: &Inner,
    me: Me,
    process: TokenId,
    is_reliable: bool,
) -> Result<Arc<OwnSlot>, Error> {
    let deadline = Deadline::after(LONGEST_CARE);
    let changes = &inner.shared().changes;
    loop {
        let news = Watch { word: changes, expected: changes.load(Ordering::Acquire) };
        if let Some(slot) = take_one(inner, process, is_reliable)? {
            return Ok(slot);
        }
        if deadline.has_passed() || !is_one_soon_free(inner) {
            return Err(Error::TooMany {
                what: "subscribers",
                path: inner.segment.path().to_path_buf(),
                max: inner.plan.capacity.subscribers,
            });
        }
        wait_for_change(inner, me, news, deadline)?;
    }
}

/// Sleeps until a participant comes or goes, and not for long: no wake announces that a process has ended,
/// and a process that clears a slot is about to finish.
pub(super) fn wait_for_change(
    inner: &Inner,
    me: Me,
    news: Watch<'_>,
    deadline: Deadline,
) -> Result<(), Error> {
    let _relay = WakeRelay::begin(me.list());
    let until = deadline.earlier(Deadline::after(ASK_AGAIN));
    let slept = Sleep::on(inner.registry, &[news]).until(until);
    slept.map(drop).map_err(|errno| {
        Error::from_errno("wait for a subscriber's slot of", inner.segment.path(), errno)
    })
}

/// Returns whether a slot will be free soon: its owner is dead, or a process clears it.
#[cold]
pub(super) fn is_one_soon_free(inner: &Inner) -> bool {
    inner.subscriber_slots().any(|words| {
        let word = words.claim.load(Ordering::Acquire);
        // One that is kept stays so until its successor comes.
        Kept::of(word).is_none()
            && Claim::of(word).is_none_or(|claim| {
                claim.state == State::Sweeping || !inner.registry.is_alive(claim.process)
            })
    })
}

/// Returns the hazard pointers that count: not those of slots that are kept and have no token any more,
/// whose owners had exited. To be called behind the fence of `hazard::names`: a successor that
/// this look does not see takes the slot later, and finds that the messages are overwritten about
/// whose objects the caller asks.
pub(super) fn holding(inner: &Inner) -> impl Iterator<Item = HazardPointers<'_>> {
    let slots = inner.subscriber_slots().filter(|words| {
        // Acquire pairs with the successor's exchange, behind which its own pointers are set.
        let kept = Kept::of(words.claim.load(Ordering::Acquire));
        kept.is_none_or(|kept| kept.owner.is_some())
    });
    slots.map(SubscriberWords::hazard_pointers)
}

/// Takes a free slot, if there is one.
fn take_one(
    inner: &Inner,
    process: TokenId,
    is_reliable: bool,
) -> Result<Option<Arc<OwnSlot>>, Error> {
    let joiner = inner.control.joiner()?;
    let ends = inner.ends();
    let joining = Claim { process, state: State::Joining, turn: None }.word();
    for index in 0..inner.plan.capacity.subscribers {
        if index >= inner.subscriber_slot_count() {
            // Idempotent: two processes may do it. After a death in between the next one finds the
            // pages there.
            joiner.make(index, &inner.plan)?;
        }
        let seen = inner.subscriber_slot(index)?.claim.load(Ordering::Acquire);
        if Kept::of(seen).is_some()
            || Claim::of(seen).is_some_and(|claim| !ends.has_ended(claim.process))
        {
            continue;
        }
        // Before the claim, which may not be taken in vain.
        let slot = joiner.map(index, &inner.plan)?;
        let words = inner.own_words(&slot);
        // Acquire: after all that its last owner did with it. If this process died just after, the
        // slot has a dead owner and holds nothing.
        if words.claim.compare_exchange(seen, joining, Ordering::AcqRel, Ordering::Relaxed).is_err()
        {
            continue;
        }
        note_death(inner, seen);
        words.hazard_pointers().reset();
        words.taken.store(0, Ordering::Relaxed);
        words.lost.store(0, Ordering::Relaxed);
        words.lagged.store(0, Ordering::Relaxed);
        // Release pairs with `Inner::subscriber_slot_count`: its pages are there.
        joiner.words().subscriber_slots.fetch_max(index + 1, Ordering::Release);
        if is_reliable {
            // Before the claim says so: a publisher that sees that looks at all slots. If this process
            // died just after, publishers look in vain.
            joiner.words().reliable.store(1, Ordering::Relaxed);
        }
        return Ok(Some(slot));
    }
    Ok(None)
}

/// Notes that this process has the slot now in which that claim stood.
#[cold]
fn note_death(inner: &Inner, claim: u64) {
    if let Some(claim) = Claim::of(claim) {
        let pid = || Holder::of(inner.registry, claim.process).pid;
        probe!(took_over, inner.segment.path(), pid().into(), probe::OF_A_SUBSCRIBER);
    }
}

/// Goes from joining to the state that was asked for, once the cursors are written.
pub(super) fn join(inner: &Inner, words: &SubscriberSlot, process: TokenId, is_reliable: bool) {
    let state = if is_reliable { State::Reliable } else { State::Subscribed };
    // Relaxed: this process has written it.
    let turn = Claim::of(words.claim.load(Ordering::Relaxed)).and_then(|claim| claim.turn);
    // Release pairs with `slowest`: the cursors. If this process died just after, the slot has a
    // dead owner.
    words.claim.store(Claim { process, state, turn }.word(), Ordering::Release);
    inner.note_change();
}

/// A subscriber that a publisher has marked as lagging has taken a message, or finds one overwritten:
/// publishers wait for it again, by that claim.
#[cold]
pub(super) fn return_from_lagging(words: &SubscriberSlot, waited_for: u64) {
    // Only its owner changes a claim that says lagging. Release pairs with `slowest`: the cursors.
    // If this process died just after, the slot has a dead owner.
    words.claim.store(waited_for, Ordering::Release);
    // What is published before a publisher sees the claim may be overwritten: pairs with the fence
    // in `slowest`, as when a subscriber joins.
    fence(Ordering::SeqCst);
}

/// The subscriber leaves; the slot stays with the process while samples of it are held. Returns
/// whether the slot is free now.
pub(super) fn leave(inner: &Inner, words: SubscriberWords<'_>, process: TokenId) -> bool {
    let leaving = Claim { process, state: State::Leaving, turn: None };
    words.claim.store(leaving.word(), Ordering::Release);
    notify_publishers(inner);
    inner.note_change();
    let_go_if_unused(words)
}

/// Frees a slot that its owner leaves, once nothing of it is held.
pub(super) fn let_go_if_unused(words: SubscriberWords<'_>) -> bool {
    let unused = !words.hazard_pointers().any();
    if unused {
        // Release pairs with `take`.
        words.claim.store(0, Ordering::Release);
    }
    unused
}

/// Notifies publishers that wait for this subscriber: they look again.
pub(super) fn notify_publishers(inner: &Inner) {
    (0..inner.rings()).for_each(|ring| inner.space(ring).notify_all());
}

/// Clears the slots of processes that have ended; returns how many. `dry_run` only counts.
pub(super) fn sweep(inner: &Inner, me: Me, ends: &Ends, dry_run: bool) -> (u32, bool) {
    let (mut swept, mut left) = (0, false);
    for words in inner.subscriber_slots() {
        let seen = words.claim.load(Ordering::Acquire);
        let Some(claim) = Claim::of(seen) else { continue };
        if inner.registry.is_alive(claim.process) {
            continue;
        }
        if !ends.has_ended(claim.process) {
            left = true;
            continue;
        }
        swept += 1;
        if dry_run || vacate(words, seen) {
            continue;
        }
        let mine = Claim { process: me.id, state: State::Sweeping, turn: None }.word();
        // If this process died just after, the next one does the same from (dead, sweeping).
        if words.claim.compare_exchange(seen, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            note_death(inner, seen);
            words.hazard_pointers().reset();
            words.claim.store(0, Ordering::Release);
        }
    }
    (swept, left)
}

/// Takes the tokens of processes that have exited out of kept slots; they stay for a successor. Returns
/// whether the slot was one.
fn vacate(words: SubscriberWords<'_>, seen: u64) -> bool {
    let Some(kept) = Kept::of(seen) else { return false };
    // A successor may have taken it. If this process died just before, the next sweep does it.
    let vacant = Kept { owner: None, ..kept }.word();
    let _ = words.claim.compare_exchange(seen, vacant, Ordering::AcqRel, Ordering::Relaxed);
    true
}

/// Returns how many living subscribers there are.
pub(super) fn count(inner: &Inner) -> u32 {
    living(inner).count() as u32
}

/// Returns the living subscribers.
pub(super) fn living(inner: &Inner) -> impl Iterator<Item = TokenId> {
    inner.subscriber_slots().filter_map(|words| {
        let claim = Claim::of(words.claim.load(Ordering::Acquire))?;
        (claim.is_subscribed() && inner.registry.is_alive(claim.process)).then_some(claim.process)
    })
}
