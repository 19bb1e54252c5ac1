//! The recheck: when a sleeper looks again without having been woken, and when it asks `/proc`.
//!
//! | the sleeper waits | what may be lost | it looks again |
//! | --- | --- | --- |
//! | for the end of another thread or process | the kernel tells one sleeper; that one may be stopped before it tells the others | after `recheck` (a second), each time |
//! | for a message, for a permit to be added, for another process to come | the process that brings it may be stopped before it notifies (event_count.md) | the same |
//! | on a condition variable | its notifier may be dead or stopped (condvar.md) | the same |
//! | for an event or a latch alone | nothing: the change and the wake are one step (event.md) | never |
//!
//! A look loads the words and the tokens, makes no system call of its own, and costs one sleep
//! more. So a process that waits for an owner wakes once a second, and a stopped process that holds
//! a death notice delays no sleeper longer than that.
//!
//! *Asking* is more: the kernel loses the mark itself when it reaps memory before it walks the
//! robust list (token.md), and only `/proc` shows that. A waiter asks after the owners that it
//! watches after one recheck, then after two more, four more, up to 64 (`Asked`), counted from its
//! first fruitless sleep on that word behind those owners. The distances double because a question
//! makes several system calls for each owner, and nearly all waits that are longer than a recheck
//! wait for an owner that lives: so a waiter asks nine times in its first five minutes instead of
//! 300 times, and a lost mark is found in the time that the wait has taken already, or in 64
//! rechecks. Sleeps that the caller's own short
//! deadlines end count as well, and so do sleeps that signals end.

use std::cell::Cell;
use std::time::Duration;

use crate::liveness::{Registry, TokenId};
use crate::shim::AtomicU32;
use crate::sys::clock::{self, Deadline};

/// Returns until when to sleep at most: the deadline, or one recheck from now if the sleeper
/// `looks` by itself.
pub(super) fn until(registry: &Registry, looks: bool, deadline: Deadline) -> Deadline {
    match registry.recheck() {
        Some(span) if looks => deadline.earlier(Deadline::after(span)),
        _ => deadline,
    }
}

/// How many times the distance between two questions doubles.
const MOST_DOUBLINGS: u32 = 6;
/// How many words each thread remembers: a thread that waits for more words in turn asks later.
const MOST_WORDS: usize = 8;

/// What a thread remembers of its fruitless sleeps on one word.
#[derive(Clone, Copy)]
struct Asked {
    /// The word's address; 0: none.
    word: usize,
    /// A hash of the owners that were watched.
    owners: u32,
    doublings: u32,
    /// When it asked last; before the first question, when its first fruitless sleep began or
    /// ended. Nanoseconds.
    at: u64,
}

const NONE: Asked = Asked { word: 0, owners: 0, doublings: 0, at: 0 };

thread_local! {
    static ASKED: Cell<[Asked; MOST_WORDS]> = const { Cell::new([NONE; MOST_WORDS]) };
}

/// Returns whether to ask `/proc` now, after a sleep on `word` behind those owners ended without
/// what it waits for. `whole`: the sleep lasted for a whole recheck.
#[cold]
pub(super) fn is_time_to_ask(
    registry: &Registry,
    word: &AtomicU32,
    owners: &[TokenId],
    whole: bool,
) -> bool {
    let Some(span) = registry.recheck() else { return false };
    let owners = owners
        .iter()
        .fold(0u32, |sum, owner| sum.wrapping_add(owner.as_u32().wrapping_mul(0x9e37_79b1)));
    let mut all = ASKED.get();
    let due = is_due(
        &mut all,
        core::ptr::from_ref(word).addr(),
        owners,
        clock::monotonic_nanos(),
        span,
        whole,
    );
    ASKED.set(all);
    due
}

fn is_due(
    all: &mut [Asked; MOST_WORDS],
    word: usize,
    owners: u32,
    now: u64,
    span: Duration,
    whole: bool,
) -> bool {
    let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let at = match all.iter().position(|asked| asked.word == word && asked.owners == owners) {
        Some(at) => at,
        None => {
            // In place of the same word behind other owners, or else of the oldest entry.
            let same = all.iter().position(|asked| asked.word == word);
            let at = same.or_else(|| (0..MOST_WORDS).min_by_key(|&at| all[at].at)).unwrap_or(0);
            let begun = if whole { now.saturating_sub(span) } else { now };
            all[at] = Asked { word, owners, doublings: 0, at: begun };
            at
        }
    };
    let asked = &mut all[at];
    if now.saturating_sub(asked.at) < span.saturating_mul(1 << asked.doublings) {
        return false;
    }
    asked.at = now;
    asked.doublings = (asked.doublings + 1).min(MOST_DOUBLINGS);
    true
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const SPAN: Duration = Duration::from_secs(1);

    /// Returns in which of the sleeps, each that many nanoseconds long, it asks.
    fn asks(length: u64, sleeps: u64, whole: bool) -> Vec<u64> {
        let mut all = [NONE; MOST_WORDS];
        let start = 1000 * SECOND;
        (1..=sleeps).filter(|n| is_due(&mut all, 64, 7, start + n * length, SPAN, whole)).collect()
    }

    #[test]
    fn who_sleeps_long_asks_at_growing_distances() {
        assert_eq!(asks(SECOND, 300, true), [1, 3, 7, 15, 31, 63, 127, 191, 255]);
    }

    #[test]
    fn who_comes_back_with_short_deadlines_asks_too() {
        // Half a second each: the first to end is the first that counts.
        assert_eq!(asks(SECOND / 2, 40, false), [3, 7, 15, 31]);
        assert_eq!(asks(SECOND / 1000, 4000, false), [1001, 3001]);
    }

    #[test]
    fn other_owners_and_other_words_have_a_count_of_their_own() {
        let mut all = [NONE; MOST_WORDS];
        let mut due = |word, owners, seconds: u64, whole| {
            is_due(&mut all, word, owners, (1000 + seconds) * SECOND, SPAN, whole)
        };
        assert!(due(64, 1, 1, true));
        assert!(due(128, 1, 1, true), "another word");
        assert!(!due(64, 1, 2, true));
        assert!(due(64, 2, 2, true), "another owner");
        assert!(due(64, 2, 4, true));
        assert!(due(128, 1, 4, true));
        // Signals end sleeps, too, and hide nothing.
        assert!(!due(192, 3, 5, false));
        assert!(due(192, 3, 6, false));
    }
}
