//! Sleeping until a word changes or an owner ends, whichever comes first: [`Sleep`].
//!
//! A sleeper behind an owner sleeps on {the owner's relay word, its own words, the owner's robust
//! word, its generation}:
//!
//! 1. `list_op_pending` points to the relay word before the first sleep and until the caller has
//!    what it wants. If the sleeper dies with a wake-up in hand, the kernel wakes the next sleeper
//!    on that word.
//! 2. The owner's robust word gets its WAITERS bit, by compare-exchange.
//! 3. The relay word is queued **first**: a sleeper that queues it later misses a wake-up that is
//!    relayed in between.
//! 4. The generation is in the set: a late sleeper would otherwise sleep on a successor in the same
//!    slot.
//! 5. On any return, a sleeper that finds the owner dead wakes all others: the kernel wakes only
//!    one.
//!
//! A thread's `list_op_pending` points to one relay word only, but a sleeper on several owners may
//! have in hand the wake-up of any of them. So slots that are ever watched together use the *shared
//! relay* from then on: their sleepers point to the registry's relay word, are in its queue as
//! well, and on any return look after all slots that use it. `slot.relay` says so, in bits that the
//! kernel ignores:
//!
//! | slot.relay | meaning | a death here |
//! | --- | --- | --- |
//! | OWN | watched alone: sleepers point to this word | |
//! | MOVING | a sleeper is waking those that still point to this word | the next to sleep on the slot does that again |
//! | SHARED | sleepers point to the registry's relay word | |
//!
//! Not all slots use the shared relay from the start, because each sleep behind a single owner,
//! such as a contended lock's, would then end with a walk over all slots of the domain.
//!
//! proof/models has a counterexample for leaving out any of these (mutex.pml, token.pml,
//! several.pml). The recheck (recheck.rs) helps when a sleeper was stopped with a death notice in
//! hand, and when the kernel lost a mark. Each rescue by it is counted, and the count must stay 0
//! in every test without either.

use std::time::Duration;

use super::recheck;
use super::record::{self, WaitRecord};
use crate::liveness::{OWN_RELAY, Registry, SHARED_RELAY, Slot, TokenId};
use crate::shim::Ordering;
use crate::sys::Errno;
use crate::sys::clock::Deadline;
use crate::sys::futex::{self, Wakeup, Watch};
use crate::sys::robust::WakeRelay;

/// Says how a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asleep {
    /// Look again: something may have changed.
    LookAgain,
    /// The caller's deadline has passed.
    TimedOut,
}

/// The most owners of which one sleep watches all words: relay word, robust word, generation.
pub(crate) const MOST_OWNERS: usize = 30;
/// The most owners that one sleep watches at all: by one word each, beside the shared relay and
/// four words.
const MOST_WATCHED: usize = futex::MOST_WATCHES - 5;
/// A sleep that does not watch all words of its owners ends after so long, even with the recheck
/// off.
const BRIEF_LOOK: Duration = Duration::from_secs(1);

/// One sleep on a few words, and behind any number of owners. After any return but an error the
/// caller looks at everything again.
#[derive(Clone, Copy)]
pub(crate) struct Sleep<'a> {
    registry: &'a Registry,
    /// At most four. Of more than two, only the kernel reads the last: it may be half of a larger word.
    words: &'a [Watch<'a>],
    principal: usize,
    owners: &'a [TokenId],
    start: usize,
    relay: Option<&'a WakeRelay>,
    recheck: bool,
}

impl<'a> Sleep<'a> {
    /// Begins the description of a sleep that lasts while all of `words` have the expected values.
    pub(crate) fn on(registry: &'a Registry, words: &'a [Watch<'a>]) -> Sleep<'a> {
        Sleep { registry, words, principal: 0, owners: &[], start: 0, relay: None, recheck: true }
    }

    /// Names the word that the sleep is about, if it is not the first: the record (record.rs) names
    /// it, and a kernel without `futex_waitv` sleeps on it.
    pub(crate) fn about(self, principal: usize) -> Sleep<'a> {
        Sleep { principal, ..self }
    }

    /// Makes the sleep last only while all of `owners` live.
    ///
    /// More than [`MOST_OWNERS`] are watched by one word each; of more than [`MOST_WATCHED`], that
    /// many from the `start`th on. The sleeper finds what this leaves out (doc/protocols/token.md,
    /// "More than 30 owners") by a look at all owners once a second.
    pub(crate) fn behind(self, relay: &'a WakeRelay, owners: &'a [TokenId]) -> Sleep<'a> {
        Sleep { relay: Some(relay), owners, ..self }
    }

    /// Sets `start`: see [`Sleep::behind`].
    pub(crate) fn beginning_at(self, start: usize) -> Sleep<'a> {
        Sleep { start, ..self }
    }

    /// Turns the recheck off: nothing can be lost, because the change and the wake are one step.
    pub(crate) fn without_recheck(self) -> Sleep<'a> {
        Sleep { recheck: false, ..self }
    }

    /// Sleeps until the deadline at most.
    #[cold]
    pub(crate) fn until(self, deadline: Deadline) -> Result<Asleep, Errno> {
        // Not the last of many: see `words`.
        let seen = &self.words[..self.words.len() - usize::from(self.words.len() > 2)];
        self.until_it_comes(deadline, || has_changed(seen))
    }

    /// Sleeps likewise, on words of which one wake wakes only some sleepers. A sleeper that a wake
    /// passes over finds a changed word at its next recheck, which is no rescue. It is a rescue if
    /// `has_come` says that what the sleeper waits for is there.
    #[cold]
    pub(crate) fn until_it_comes(
        self,
        deadline: Deadline,
        has_come: impl Fn() -> bool,
    ) -> Result<Asleep, Errno> {
        match (self.owners, self.relay) {
            (&[], _) | (_, None) => {
                let (end, _) = self.in_kernel(self.words, self.principal, deadline, has_come);
                record::forget_if_woken();
                end
            }
            (&[owner], Some(relay)) => self.behind_one(relay, owner, deadline, has_come),
            (_, Some(relay)) => self.behind_several(relay, deadline, has_come),
        }
    }

    /// Sleeps likewise, on words whose every wake may be meant for another sleeper: no recheck is a
    /// rescue, and a sleep that was woken continues its record. Without owners.
    #[cold]
    pub(crate) fn among_others_until(self, deadline: Deadline) -> Result<Asleep, Errno> {
        debug_assert!(self.owners.is_empty());
        self.in_kernel(self.words, self.principal, deadline, || false).0
    }

    fn behind_one(
        self,
        relay: &WakeRelay,
        owner: TokenId,
        deadline: Deadline,
        has_come: impl Fn() -> bool,
    ) -> Result<Asleep, Errno> {
        let registry = self.registry;
        // An id whose slot does not exist names a dead owner.
        let Some(slot) = registry.slot(owner) else {
            return look_again(deadline);
        };
        let shared = slot.uses_shared_relay();
        relay.to(if shared { registry.relay() } else { &slot.relay });
        let mut set = WaitSet::<9>::new(registry, shared);
        if !set.watch(slot, owner, shared) {
            return look_again(deadline);
        }
        let principal = set.add_words(self.words);
        let is_rescue = || !slot.is_alive(owner) || has_come();
        let (end, by_recheck) = self.in_kernel(set.watches(), principal, deadline, is_rescue);
        if !is_rescue() {
            ask_when_due(registry, set.watches()[principal], &[owner], by_recheck);
        }
        if !slot.is_alive(owner) {
            slot.wake_watchers();
        }
        if shared {
            registry.wake_behind_shared_relay();
        }
        end
    }

    #[cold]
    fn behind_several(
        self,
        relay: &WakeRelay,
        deadline: Deadline,
        has_come: impl Fn() -> bool,
    ) -> Result<Asleep, Errno> {
        let Sleep { registry, owners, start, .. } = self;
        let watched = || {
            owners
                .iter()
                .cycle()
                .skip(start % owners.len())
                .take(owners.len().min(MOST_WATCHED))
                .copied()
        };
        let brief = owners.len() > MOST_OWNERS;
        for owner in watched() {
            let Some(slot) = registry.slot(owner) else { return look_again(deadline) };
            slot.share_relay();
        }
        relay.to(registry.relay());
        let mut set = WaitSet::<{ futex::MOST_WATCHES }>::new(registry, true);
        for owner in watched() {
            let add = |slot| {
                if brief { set.watch_briefly(slot, owner) } else { set.watch(slot, owner, true) }
            };
            if !registry.slot(owner).is_some_and(add) {
                return look_again(deadline);
            }
        }
        let principal = set.add_words(self.words);
        let until = if brief { deadline.earlier(Deadline::after(BRIEF_LOOK)) } else { deadline };
        let any_dead = || owners.iter().any(|owner| !registry.is_alive(*owner));
        // The end of a short sleep is no rescue.
        let is_rescue = || !brief && (any_dead() || has_come());
        let (end, by_recheck) = self.in_kernel(set.watches(), principal, until, is_rescue);
        if !any_dead() && !has_come() {
            ask_when_due(registry, set.watches()[principal], owners, by_recheck);
        }
        for &owner in owners {
            if let Some(slot) = registry.slot(owner).filter(|slot| !slot.is_alive(owner)) {
                slot.wake_watchers();
            }
        }
        registry.wake_behind_shared_relay();
        match end? {
            Asleep::TimedOut if !deadline.has_passed() => Ok(Asleep::LookAgain),
            end => Ok(end),
        }
    }

    /// Sleeps once in the kernel, until the recheck at most, where that is on and useful. Returns
    /// also whether the sleep lasted for a whole recheck.
    fn in_kernel(
        self,
        set: &[Watch<'_>],
        principal: usize,
        deadline: Deadline,
        has_come: impl Fn() -> bool,
    ) -> (Result<Asleep, Errno>, bool) {
        // As after a sleep that ends at once. The caller has looked, and looks again.
        if deadline.has_passed() {
            return (Ok(Asleep::TimedOut), false);
        }
        let until = recheck::until(self.registry, self.recheck, deadline);
        let record = WaitRecord::begin(self.registry, set.get(principal));
        let woken = futex::wait_any(set, principal, until);
        WaitRecord::end(record, woken == Ok(Wakeup::TimedOut));
        let end = match woken {
            Err(errno) => return (Err(errno), false),
            // Also when woken: damaged words may wake us for ever.
            Ok(_) if deadline.has_passed() => return (Ok(Asleep::TimedOut), false),
            Ok(end) => end,
        };
        let by_recheck = end == Wakeup::TimedOut;
        if by_recheck && has_come() {
            // It has come, and no process woke us before our own recheck.
            self.registry.count_rescue();
        }
        (Ok(Asleep::LookAgain), by_recheck)
    }
}

/// Asks `/proc` now and then whether the kernel has lost a mark (recheck.rs), after a sleep behind
/// owners that ended without a reason: by the recheck, by the caller's deadline, by a signal.
#[cold]
pub(super) fn ask_when_due(
    registry: &Registry,
    principal: Watch<'_>,
    owners: &[TokenId],
    by_recheck: bool,
) {
    if !recheck::is_time_to_ask(registry, principal.word, owners, by_recheck) {
        return;
    }
    for &owner in owners {
        let lived = registry.is_alive(owner);
        registry.retire_if_gone(owner);
        if lived && !registry.is_alive(owner) {
            registry.count_rescue();
        }
    }
}

/// Returns at once, as damaged words may demand for ever.
pub(crate) fn look_again(deadline: Deadline) -> Result<Asleep, Errno> {
    Ok(if deadline.has_passed() { Asleep::TimedOut } else { Asleep::LookAgain })
}

pub(crate) fn has_changed(words: &[Watch<'_>]) -> bool {
    words.iter().any(|watch| watch.word.load(Ordering::Acquire) != watch.expected)
}

/// The words of one sleep, in the order in which the kernel queues the sleeper.
struct WaitSet<'a, const N: usize> {
    set: [Watch<'a>; N],
    len: usize,
    /// The place of the first owner's word, behind the relay words.
    first_owner: usize,
}

impl<'a, const N: usize> WaitSet<'a, N> {
    fn new(registry: &'a Registry, shared: bool) -> WaitSet<'a, N> {
        // The shared relay comes before all else.
        let len = usize::from(shared);
        WaitSet {
            set: [Watch { word: registry.relay(), expected: 0 }; N],
            len,
            first_owner: len + 1,
        }
    }

    fn add(&mut self, watch: Watch<'a>) {
        self.set[self.len] = watch;
        self.len += 1;
    }

    /// Adds an owner's words, its relay word first; returns false when the owner is dead.
    fn watch(&mut self, slot: &'a Slot, owner: TokenId, shared: bool) -> bool {
        self.add(Watch {
            word: &slot.relay,
            expected: if shared { SHARED_RELAY } else { OWN_RELAY },
        });
        let Some(watched) = slot.watch(owner) else {
            slot.wake_watchers();
            return false;
        };
        watched.all().for_each(|watch| self.add(watch));
        true
    }

    /// Adds only the word on which the kernel tells the owner's end; returns false when the owner
    /// is dead.
    fn watch_briefly(&mut self, slot: &'a Slot, owner: TokenId) -> bool {
        let Some(watched) = slot.watch(owner) else {
            slot.wake_watchers();
            return false;
        };
        watched.first().into_iter().for_each(|watch| self.add(watch));
        true
    }

    /// Adds the caller's words, and returns the place of the first.
    fn add_words(&mut self, words: &[Watch<'a>]) -> usize {
        // Without words, the first owner's.
        let principal = if words.is_empty() { self.first_owner } else { self.len };
        words.iter().take(4).for_each(|word| self.add(*word));
        principal
    }

    fn watches(&self) -> &[Watch<'a>] {
        &self.set[..self.len]
    }
}
