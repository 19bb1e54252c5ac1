//! Sleeping until a word changes or its owner ends, whichever comes first.
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
//! Each of these has a counterexample in doc/models when left out. The coarse re-check (`Registry::recheck`) is for
//! marks that the kernel lost; what it rescues is counted, and that count must stay 0 in every test without such a loss.

use super::id::TokenId;
use super::registry::Registry;
use crate::shim::Ordering;
use crate::sys::Errno;
use crate::sys::clock::Deadline;
use crate::sys::futex::{self, Wakeup, Watch};
use crate::sys::robust::PassOn;

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asleep {
    /// Look again: something may have changed.
    LookAgain,
    /// The caller's deadline is over.
    TimedOut,
}

/// Sleeps while all of `words` (at most two) have the values expected and `owner` lives. Where the kernel lacks
/// `futex_waitv`, it sleeps on the first of them, in slices.
///
/// The caller looks at everything again after any return but an error.
#[cold]
pub(crate) fn sleep(
    registry: &Registry,
    pass: &PassOn,
    words: &[Watch<'_>],
    owner: Option<TokenId>,
    deadline: Deadline,
) -> Result<Asleep, Errno> {
    let Some(owner) = owner else {
        return sleep_on(registry, words, 0, deadline);
    };
    // Damaged words may say for ever that there is something to look at.
    let look_again = || Ok(if deadline.has_passed() { Asleep::TimedOut } else { Asleep::LookAgain });
    // An id whose slot does not exist is a dead owner's.
    let Some(slot) = registry.slot(owner) else {
        return look_again();
    };
    pass.to(&slot.x);
    if slot.x.load(Ordering::Relaxed) != 0 {
        // A stray write. It means nothing but 0.
        slot.x.store(0, Ordering::Relaxed);
    }
    let Some(watched) = slot.watch(owner) else {
        futex::wake_all(slot.word());
        futex::wake_all(&slot.keeper);
        return look_again();
    };
    let mut set = [Watch { word: &slot.x, expected: 0 }; 6];
    let mut len = 1;
    let own = [
        watched.word.map(|expected| Watch { word: slot.word(), expected }),
        watched.keeper.map(|expected| Watch { word: &slot.keeper, expected }),
        Some(Watch { word: slot.generation(), expected: watched.generation }),
    ];
    for watch in words.iter().take(2).copied().chain(own.into_iter().flatten()) {
        set[len] = watch;
        len += 1;
    }
    let end = sleep_set(registry, &set[..len], 1, deadline, || {
        registry.confirm(owner);
        !slot.is_alive(owner) || has_changed(words)
    });
    if !slot.is_alive(owner) {
        // The kernel wakes one of all who sleep on the mark; died we here, X passes that wake on.
        futex::wake_all(slot.word());
        futex::wake_all(&slot.keeper);
    }
    end
}

/// Sleeps while the words have the values expected, whoever lives.
#[cold]
pub(crate) fn sleep_on(
    registry: &Registry,
    words: &[Watch<'_>],
    principal: usize,
    deadline: Deadline,
) -> Result<Asleep, Errno> {
    let end = sleep_set(registry, words, principal, deadline, || has_changed(words));
    #[cfg(not(loom))]
    super::note::forget_if_woken();
    end
}

fn has_changed(words: &[Watch<'_>]) -> bool {
    words.iter().any(|watch| watch.word.load(Ordering::Acquire) != watch.expected)
}

/// One sleep, cut short by the coarse re-check where that is on.
fn sleep_set(
    registry: &Registry,
    set: &[Watch<'_>],
    principal: usize,
    deadline: Deadline,
    has_come: impl Fn() -> bool,
) -> Result<Asleep, Errno> {
    let until = registry.recheck().map_or(deadline, |span| deadline.earlier(Deadline::after(span)));
    #[cfg(not(loom))]
    let note = super::note::Note::begin(registry, set.get(principal));
    let woken = futex::wait_any(set, principal, until);
    #[cfg(not(loom))]
    super::note::Note::end(note, woken == Ok(Wakeup::TimedOut));
    match woken? {
        // Also when woken: words that are damaged may wake us for ever.
        _ if deadline.has_passed() => Ok(Asleep::TimedOut),
        Wakeup::LookAgain => Ok(Asleep::LookAgain),
        Wakeup::TimedOut => {
            if has_come() {
                // It has come, and nobody woke us before we looked by ourselves.
                registry.count_rescue();
            }
            Ok(Asleep::LookAgain)
        }
    }
}
