//! A subscriber's line: who has it, and how it changes hands.
//!
//! | `claim` | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | nobody's | |
//! | (P, joining) | its cursors are being written | counts for nothing; its cells are empty |
//! | (P, subscribed), (P, reliable) | P takes messages | it is not waited for any more, at once; its cells count until P has ended |
//! | (P, leaving) | P holds samples still | the same |
//! | (T, sweeping) | its owner had ended, and T clears it | the next one, from (T dead, sweeping) |

use super::file::Shared;
use super::layout::{Claim, LineWords, MOST_LINES, State};
use super::ring::{ASK_AGAIN, LONGEST_CARE};
use crate::liveness::{Ends, Me, sleep};
use crate::shim::Ordering;
use crate::sys::futex::{self, Watch};
use crate::sys::robust::WakeRelay;
use crate::{Deadline, Error, TokenId};

/// Takes a line for a process: joining. With all in use it waits for one whose subscriber is dead already, until he has ended, or that somebody
/// clears.
pub(super) fn take(shared: &Shared, me: Me, process: TokenId) -> Result<u32, Error> {
    let deadline = Deadline::after(LONGEST_CARE);
    let changes = &shared.head().changes;
    loop {
        let news = Watch { word: changes, expected: changes.load(Ordering::Acquire) };
        if let Some(line) = take_one(shared, process)? {
            return Ok(line);
        }
        if deadline.has_passed() || !is_one_soon_free(shared) {
            return Err(Error::TooManySubscribers {
                path: shared.segment.path().to_path_buf(),
                most: MOST_LINES as u32,
            });
        }
        // Nobody tells that somebody has ended, and who clears a line is about to be done.
        let pass = WakeRelay::begin(me.list());
        sleep(shared.registry, &pass, &[news], None, deadline.earlier(Deadline::after(ASK_AGAIN)))
            .map_err(|errno| Error::from_errno("wait for a line of", shared.segment.path(), errno))?;
    }
}

/// Whether a line will be nobody's soon: its owner is dead, or somebody clears it.
#[cold]
fn is_one_soon_free(shared: &Shared) -> bool {
    shared.lines().any(|words| {
        Claim::of(words.claim.load(Ordering::Acquire))
            .is_none_or(|claim| claim.state == State::Sweeping || !shared.registry.is_alive(claim.process))
    })
}

/// Takes a line that is nobody's, if there is one.
fn take_one(shared: &Shared, process: TokenId) -> Result<Option<u32>, Error> {
    let ends = shared.ends();
    let joining = Claim { process, state: State::Joining }.word();
    for line in 0..MOST_LINES as u32 {
        if line >= shared.line_count() {
            // Idempotent: two may do it. Died in between: the next one finds its pages there.
            shared.make_line(line)?;
        }
        let words = shared.line(line)?;
        let seen = words.claim.load(Ordering::Acquire);
        if Claim::of(seen).is_some_and(|claim| !ends.has_ended(claim.process)) {
            continue;
        }
        // Acquire: after all that its owner before did with it. Died just after: a dead one's, without anything.
        if words.claim.compare_exchange(seen, joining, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            continue;
        }
        words.cells().reset();
        words.taken.store(0, Ordering::Relaxed);
        words.lost.store(0, Ordering::Relaxed);
        // Release pairs with `line_count`: its pages are there.
        shared.head().lines.fetch_max(line + 1, Ordering::Release);
        return Ok(Some(line));
    }
    Ok(None)
}

/// From joining to what was asked for, once the cursors are written.
pub(super) fn join(shared: &Shared, words: &LineWords, process: TokenId, is_reliable: bool) {
    let state = if is_reliable { State::Reliable } else { State::Subscribed };
    if is_reliable {
        // Before the claim: whoever sees that one looks at lines.
        shared.head().reliable.store(1, Ordering::Relaxed);
    }
    // Release pairs with `slowest`: the cursors. Died just after: a dead one's.
    words.claim.store(Claim { process, state }.word(), Ordering::Release);
    note_change(shared);
}

/// The subscriber is gone; the line stays with the process while samples of it are held. Says whether it is nobody's now.
pub(super) fn leave(shared: &Shared, words: &LineWords, process: TokenId) -> bool {
    words.claim.store(Claim { process, state: State::Leaving }.word(), Ordering::Release);
    ring_all(shared);
    note_change(shared);
    let_go_if_unused(words)
}

/// Of a line that its owner leaves: nobody's once nothing of it is held.
pub(super) fn let_go_if_unused(words: &LineWords) -> bool {
    let unused = !words.cells().any();
    if unused {
        // Release pairs with `take`.
        words.claim.store(0, Ordering::Release);
    }
    unused
}

/// Publishers that wait for this subscriber need not any more.
fn ring_all(shared: &Shared) {
    (0..shared.rings()).for_each(|ring| shared.ring(ring).space.notify_all());
}

/// Somebody has come or gone.
pub(super) fn note_change(shared: &Shared) {
    let changes = &shared.head().changes;
    changes.fetch_add(1, Ordering::AcqRel);
    // Died just before: whoever watches the comings and goings watches our end, too, or has not seen us.
    futex::wake_all(changes);
}

/// Clears the lines of those who have ended; how many. `dry_run` only counts.
pub(super) fn sweep(shared: &Shared, me: Me, ends: &Ends, dry_run: bool) -> (u32, bool) {
    let (mut swept, mut left) = (0, false);
    for words in shared.lines() {
        let seen = words.claim.load(Ordering::Acquire);
        let Some(claim) = Claim::of(seen) else { continue };
        if shared.registry.is_alive(claim.process) {
            continue;
        }
        if !ends.has_ended(claim.process) {
            left = true;
            continue;
        }
        swept += 1;
        if dry_run {
            continue;
        }
        let mine = Claim { process: me.id, state: State::Sweeping }.word();
        // Died just after: from (dead, sweeping) the same once more.
        if words.claim.compare_exchange(seen, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            words.cells().reset();
            words.claim.store(0, Ordering::Release);
        }
    }
    (swept, left)
}

/// How many subscribers there are that live.
pub(super) fn count(shared: &Shared) -> u32 {
    living(shared).count() as u32
}

/// Who subscribes and lives.
pub(super) fn living(shared: &Shared) -> impl Iterator<Item = TokenId> {
    shared.lines().filter_map(|words| {
        let claim = Claim::of(words.claim.load(Ordering::Acquire))?;
        (claim.is_subscribed() && shared.registry.is_alive(claim.process)).then_some(claim.process)
    })
}
