//! Sleeping until a word changes or an owner ends, whichever comes first.
//!
//! The sleeper's wait set is {X of the owner's slot, the word, the owner's robust word, its generation}:
//!
//! 1. `list_op_pending` points to X before the first sleep and until the caller has what it wants: a wake-up that a
//!    dying sleeper swallowed is passed on by the kernel to the next one on X.
//! 2. The owner's word gets its WAITERS bit, by compare-exchange.
//! 3. X is queued **first**: queued later, a pass-on that comes in between is missed.
//! 4. The generation is in the set: a sleeper who comes late would otherwise sleep on a successor in the same slot.
//! 5. On any return the one who finds the owner dead wakes all: the kernel wakes only one.
//!
//! Who sleeps on several owners at once can point to one X only, but may have swallowed the wake-up of any of them. So
//! slots that are ever watched together are *grouped*, for good: who sleeps on such a slot, alone or together with others,
//! points to the registry's one X and stands in its queue as well; and whoever wakes from such a sleep looks after all
//! grouped slots. `slot.x` says so, in bits that the kernel's look does not mind:
//!
//! | slot.x | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | watched alone: sleepers point to it | |
//! | GROUPING | somebody is waking those who still point to it | the next to sleep on the slot does that again |
//! | GROUPED | sleepers point to the registry's X | |
//!
//! Each of these has a counterexample in proof/models (mutex.pml, token.pml, several.pml) when left out. The recheck
//! (`Registry::recheck`, recheck.rs) is for sleepers that were stopped with somebody's death notice in hand, and for marks
//! that the kernel lost; what it rescues is counted, and that count must stay 0 in every test without either.

use std::time::Duration;

use super::id::TokenId;
use super::recheck::Recheck;
use super::registry::Registry;
use super::slot::{ALONE, GROUPED, Slot};
use crate::shim::Ordering;
use crate::sys::Errno;
use crate::sys::clock::Deadline;
use crate::sys::futex::{self, Wakeup, Watch};
use crate::sys::robust::WakeRelay;

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asleep {
    /// Look again: something may have changed.
    LookAgain,
    /// The caller's deadline is over.
    TimedOut,
}

/// Sleeps while all of `words` (at most three) have the values expected and `owner` lives. Where the kernel lacks
/// `futex_waitv`, it sleeps on the first of them, in slices. The third is for the kernel's eyes alone: it may be half of
/// a larger word.
///
/// The caller looks at everything again after any return but an error.
#[cold]
pub(crate) fn sleep(
    registry: &Registry,
    pass: &WakeRelay,
    words: &[Watch<'_>],
    owner: Option<TokenId>,
    deadline: Deadline,
) -> Result<Asleep, Errno> {
    let has_come = || has_changed(&words[..words.len().min(2)]);
    sleep_behind(registry, pass, words, owner, deadline, has_come)
}

/// As [`sleep`], for a caller that says by `has_come` whether what it waits for is there. A recheck
/// counts as a rescue if it finds that, or that the owner has ended.
fn sleep_behind(
    registry: &Registry,
    pass: &WakeRelay,
    words: &[Watch<'_>],
    owner: Option<TokenId>,
    deadline: Deadline,
    has_come: impl Fn() -> bool,
) -> Result<Asleep, Errno> {
    let Some(owner) = owner else {
        // The process that is to change the words may be stopped before it wakes this one, and has no owner to watch.
        return sleep_on_nobody(registry, words, 0, Recheck::Spread, deadline, has_come);
    };
    // An id whose slot does not exist is a dead owner's.
    let Some(slot) = registry.slot(owner) else {
        return look_again(deadline);
    };
    let grouped = slot.is_grouped();
    pass.to(if grouped { registry.x() } else { &slot.x });
    let mut set = WaitSet::<8>::new(registry, grouped);
    if !set.watch(slot, owner, grouped) {
        return look_again(deadline);
    }
    let principal = set.add_words(words);
    let is_rescue = || !slot.is_alive(owner) || has_come();
    let (end, by_recheck) = sleep_set(registry, set.watches(), principal, Recheck::Spread, deadline, is_rescue);
    if !is_rescue() {
        ask_when_due(registry, set.watches()[principal], &[owner], by_recheck);
    }
    if !slot.is_alive(owner) {
        slot.wake_watchers();
    }
    if grouped {
        registry.wake_grouped();
    }
    end
}

/// A sleep behind owners has ended without a reason: by the recheck, by the caller's deadline, by a signal. Now and then
/// that is the moment to ask `/proc` whether the kernel has lost a mark (recheck.rs).
#[cold]
pub(super) fn ask_when_due(registry: &Registry, principal: Watch<'_>, owners: &[TokenId], by_recheck: bool) {
    if !super::recheck::is_time_to_ask(registry, principal.word, owners, by_recheck) {
        return;
    }
    for &owner in owners {
        let lived = registry.is_alive(owner);
        registry.confirm(owner);
        if lived && !registry.is_alive(owner) {
            registry.count_rescue();
        }
    }
}

/// The most owners whose ends one sleep watches with all that belongs to it: X, word, generation.
pub(crate) const MOST_OWNERS: usize = 30;
/// The most owners whose ends one sleep watches at all: by one word each, beside the registry's X and three words.
const MOST_WATCHED: usize = futex::MOST_WATCHES - 4;
/// A sleep that does not watch all that belongs to its owners looks by itself after so long, also with the recheck off.
const BRIEF_LOOK: Duration = Duration::from_secs(1);

/// As [`sleep`], until any of several owners has ended.
///
/// More than [`MOST_OWNERS`] are watched by one word each, of more than [`MOST_WATCHED`] that many from the `start`th on. What is
/// left out then (doc/protocols/token.md, "More than 30 owners") is found by a look at all of them once a second.
#[cold]
pub(crate) fn sleep_on_several(
    registry: &Registry,
    pass: &WakeRelay,
    words: &[Watch<'_>],
    owners: &[TokenId],
    start: usize,
    deadline: Deadline,
) -> Result<Asleep, Errno> {
    sleep_until_it_comes(registry, pass, words, owners, start, deadline, || has_changed(words))
}

/// As [`sleep_on_several`], for words of which one wake wakes only some sleepers. A sleeper that a wake
/// passes over finds a changed word at its next recheck: that is no rescue. It is one if `has_come`
/// says that what the sleeper waits for is there.
#[cold]
pub(crate) fn sleep_until_it_comes(
    registry: &Registry,
    pass: &WakeRelay,
    words: &[Watch<'_>],
    owners: &[TokenId],
    start: usize,
    deadline: Deadline,
    has_come: impl Fn() -> bool,
) -> Result<Asleep, Errno> {
    if owners.len() <= 1 {
        return sleep_behind(registry, pass, words, owners.first().copied(), deadline, has_come);
    }
    let watched = || owners.iter().cycle().skip(start % owners.len()).take(owners.len().min(MOST_WATCHED)).copied();
    let brief = owners.len() > MOST_OWNERS;
    for owner in watched() {
        let Some(slot) = registry.slot(owner) else { return look_again(deadline) };
        slot.group();
    }
    pass.to(registry.x());
    let mut set = WaitSet::<{ futex::MOST_WATCHES }>::new(registry, true);
    for owner in watched() {
        let add = |slot| if brief { set.watch_briefly(slot, owner) } else { set.watch(slot, owner, true) };
        if !registry.slot(owner).is_some_and(add) {
            return look_again(deadline);
        }
    }
    let principal = set.add_words(words);
    let until = if brief { deadline.earlier(Deadline::after(BRIEF_LOOK)) } else { deadline };
    let any_dead = || owners.iter().any(|owner| !registry.is_alive(*owner));
    // The end of a brief look is no rescue.
    let is_rescue = || !brief && (any_dead() || has_come());
    let (end, by_recheck) = sleep_set(registry, set.watches(), principal, Recheck::Spread, until, is_rescue);
    if !any_dead() && !has_come() {
        ask_when_due(registry, set.watches()[principal], owners, by_recheck);
    }
    for &owner in owners {
        if let Some(slot) = registry.slot(owner).filter(|slot| !slot.is_alive(owner)) {
            slot.wake_watchers();
        }
    }
    registry.wake_grouped();
    match end? {
        Asleep::TimedOut if !deadline.has_passed() => Ok(Asleep::LookAgain),
        end => Ok(end),
    }
}

/// Damaged words may say for ever that there is something to look at.
pub(super) fn look_again(deadline: Deadline) -> Result<Asleep, Errno> {
    Ok(if deadline.has_passed() { Asleep::TimedOut } else { Asleep::LookAgain })
}

/// The words of one sleep, in the order in which the kernel queues the sleeper.
struct WaitSet<'a, const N: usize> {
    set: [Watch<'a>; N],
    len: usize,
    /// Where the first owner's word stands, behind the X words.
    first_owner: usize,
}

impl<'a, const N: usize> WaitSet<'a, N> {
    fn new(registry: &'a Registry, grouped: bool) -> WaitSet<'a, N> {
        // The group's X before all else.
        let len = usize::from(grouped);
        WaitSet { set: [Watch { word: registry.x(), expected: 0 }; N], len, first_owner: len + 1 }
    }

    fn add(&mut self, watch: Watch<'a>) {
        self.set[self.len] = watch;
        self.len += 1;
    }

    /// Adds an owner's words, its X first; false when it is dead.
    fn watch(&mut self, slot: &'a Slot, owner: TokenId, grouped: bool) -> bool {
        self.add(Watch { word: &slot.x, expected: if grouped { GROUPED } else { ALONE } });
        let Some(watched) = slot.watch(owner) else {
            slot.wake_watchers();
            return false;
        };
        watched.word.into_iter().for_each(|expected| self.add(Watch { word: slot.word(), expected }));
        watched.keeper.into_iter().for_each(|expected| self.add(Watch { word: &slot.keeper, expected }));
        self.add(Watch { word: slot.generation(), expected: watched.generation });
        true
    }

    /// Adds of an owner's words the one by which the kernel tells its end; false when it is dead.
    fn watch_briefly(&mut self, slot: &'a Slot, owner: TokenId) -> bool {
        let Some(watched) = slot.watch(owner) else {
            slot.wake_watchers();
            return false;
        };
        // Main's word where main has the token. Main may hand over to a keeper: then the kernel marks main's word and wakes one
        // of us; the others find the keeper's word by their next brief look.
        let first = watched.word.map(|expected| Watch { word: slot.word(), expected });
        let kept = watched.keeper.map(|expected| Watch { word: &slot.keeper, expected });
        first.or(kept).into_iter().for_each(|watch| self.add(watch));
        true
    }

    /// Adds what is waited for, and says where the first of it stands.
    fn add_words(&mut self, words: &[Watch<'a>]) -> usize {
        // Without words, the first owner's.
        let principal = if words.is_empty() { self.first_owner } else { self.len };
        words.iter().take(3).for_each(|word| self.add(*word));
        principal
    }

    fn watches(&self) -> &[Watch<'a>] {
        &self.set[..self.len]
    }
}

/// Sleeps while the words have the values expected, whoever lives.
#[cold]
pub(crate) fn sleep_on(
    registry: &Registry,
    words: &[Watch<'_>],
    principal: usize,
    net: Recheck,
    deadline: Deadline,
) -> Result<Asleep, Errno> {
    sleep_on_nobody(registry, words, principal, net, deadline, || has_changed(words))
}

/// As [`sleep_on`]; `has_come` decides what counts as a rescue.
fn sleep_on_nobody(
    registry: &Registry,
    words: &[Watch<'_>],
    principal: usize,
    net: Recheck,
    deadline: Deadline,
    has_come: impl Fn() -> bool,
) -> Result<Asleep, Errno> {
    let (end, _) = sleep_set(registry, words, principal, net, deadline, has_come);
    super::wait_record::forget_if_woken();
    end
}

/// Sleeps on the first of the words, through which all wakes come, while all of them have the values expected.
///
/// That another has changed and nobody woke us is no rescue: a wake of one passes others over.
#[cold]
pub(crate) fn sleep_among(
    registry: &Registry,
    words: &[Watch<'_>],
    net: Recheck,
    deadline: Deadline,
) -> Result<Asleep, Errno> {
    sleep_set(registry, words, 0, net, deadline, || false).0
}

pub(super) fn has_changed(words: &[Watch<'_>]) -> bool {
    words.iter().any(|watch| watch.word.load(Ordering::Acquire) != watch.expected)
}

/// One sleep, cut short by the recheck where that is on and of use. Says also whether it lasted for a whole recheck.
fn sleep_set(
    registry: &Registry,
    set: &[Watch<'_>],
    principal: usize,
    net: Recheck,
    deadline: Deadline,
    has_come: impl Fn() -> bool,
) -> (Result<Asleep, Errno>, bool) {
    let until = net.until(registry, deadline);
    let note = super::wait_record::WaitRecord::begin(registry, set.get(principal));
    let woken = futex::wait_any(set, principal, until);
    super::wait_record::WaitRecord::end(note, woken == Ok(Wakeup::TimedOut));
    let end = match woken {
        Err(errno) => return (Err(errno), false),
        // Also when woken: words that are damaged may wake us for ever.
        Ok(_) if deadline.has_passed() => return (Ok(Asleep::TimedOut), false),
        Ok(end) => end,
    };
    let by_recheck = end == Wakeup::TimedOut;
    if by_recheck && has_come() {
        // It has come, and nobody woke us before we looked by ourselves.
        registry.count_rescue();
    }
    (Ok(Asleep::LookAgain), by_recheck)
}
