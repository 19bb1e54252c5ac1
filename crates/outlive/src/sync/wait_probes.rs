//! The probes of waits (`sys/probe.rs`): for locks of all kinds, which come by here on their slow path, for
//! permits, and for condition variables.

use super::Holder;
use super::raw::Refused;
use super::raw::condvar::{RawCondvar, Waited};
use super::raw_lock::{LockWords, RawLock, Refusal, Site, Taken};
use crate::liveness::Me;
use crate::sys::probe::{self, probe};

/// What a lock was like before this thread took it.
pub(super) struct Before {
    /// Another thread that had it; of several readers one.
    holder: Option<Holder>,
    waits: bool,
}

/// Looks who has the lock, and notes that this thread is about to wait; where no tool watches, it
/// does nothing.
pub(super) fn note_wait<P: LockWords>(
    words: &P,
    site: &Site,
    me: Me,
    waits: bool,
) -> Option<Before> {
    let is_watched = probe::lock_wait::is_watched()
        || probe::lock_waited::is_watched()
        || probe::owner_died::is_watched();
    is_watched.then(|| {
        // A writer that waits for readers has its own name in the lock.
        let mut holders = words.look(site.registry).holders.into_iter();
        let holder = holders.find(|holder| holder.token != me.id);
        let waits = waits && holder.as_ref().is_some_and(|holder| holder.alive);
        if let Some(holder) = holder.as_ref().filter(|_| waits) {
            let (pid, tid) = (holder.pid.into(), holder.tid.into());
            probe!(lock_wait, site.segment.path(), offset_of(words, site), pid, tid);
        }
        Before { holder, waits }
    })
}

/// Notes the end of a wait, and a dead owner.
pub(super) fn note_taken<R: RawLock>(
    words: &R::Words,
    site: &Site,
    before: Option<Before>,
    taken: &Result<Taken<'_, R>, Refusal>,
) {
    let Some(Before { holder, waits }) = before else { return };
    let path = site.segment.path();
    if waits {
        let outcome = match taken {
            Ok(Taken::Clean(_)) => probe::TAKEN,
            Ok(Taken::OwnerDied(_)) => probe::TAKEN_OVER,
            Err(Refusal::Busy) => probe::TIMED_OUT,
            Err(Refusal::Failed(_)) => probe::REFUSED,
        };
        probe!(lock_waited, path, offset_of(words, site), outcome);
    }
    if let Ok(Taken::OwnerDied(_)) = taken {
        let (pid, tid) = holder.map_or((0, 0), |holder| (holder.pid.into(), holder.tid.into()));
        probe!(owner_died, path, offset_of(words, site), pid, tid);
    }
}

/// Waits for so many permits of a semaphore of which `free` returns how many are free. Where no tool
/// watches, it does nothing else.
pub(super) fn wait_for_permits<P, T>(
    words: &P,
    site: &Site,
    permits: usize,
    free: impl FnOnce() -> usize,
    wait: impl FnOnce() -> Result<T, Refused>,
) -> Result<T, Refused> {
    let is_watched = probe::semaphore_wait::is_watched() || probe::semaphore_waited::is_watched();
    if !is_watched || free() >= permits {
        return wait();
    }
    let (path, offset) = (site.segment.path(), offset_of(words, site));
    probe!(semaphore_wait, path, offset, permits as u64);
    let got = wait();
    let outcome = match &got {
        Ok(_) => probe::TAKEN,
        Err(refused) => outcome_of(refused),
    };
    probe!(semaphore_waited, path, offset, outcome);
    got
}

/// Waits for a condition variable.
#[inline]
pub(super) fn wait_for_notification(
    condvar: &RawCondvar,
    site: &Site,
    wait: impl FnOnce() -> Waited,
) -> Waited {
    probe!(condvar_wait, site.segment.path(), offset_of(condvar, site));
    let waited = wait();
    probe!(condvar_waited, site.segment.path(), offset_of(condvar, site), {
        match &waited.lock {
            Ok(_) if waited.timed_out => probe::TIMED_OUT,
            Ok(_) => probe::TAKEN,
            Err(refused) => outcome_of(refused),
        }
    });
    waited
}

fn outcome_of(refused: &Refused) -> u64 {
    match refused {
        Refused::TimedOut => probe::TIMED_OUT,
        _ => probe::REFUSED,
    }
}

/// Returns where the lock's words lie in their file.
fn offset_of<P>(words: &P, site: &Site) -> u64 {
    site.segment.offset_of(core::ptr::from_ref(words) as usize).unwrap_or(0)
}
