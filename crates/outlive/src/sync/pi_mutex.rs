//! A mutex that lends its holder the priority of its waiters, as users see it. `raw/pi.rs` holds
//! the state machine.

use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};

use super::Holder;
use super::embedded::Embedded;
use super::guard::Guard;
use super::lock::{Lock, LockOptions};
use super::primitive::{Handle, Inspect, LockDetail, Primitive};
use super::raw::mutex::{CONSISTENT, NOT_RECOVERABLE};
use super::raw::pi::RawPi;
use super::raw_lock::{
    CondvarLock, ExclusiveLock, Fast, Guards, Leaving, LockWords, RawLock, Refusal, Site, Taken,
    UniqueLock, taken,
};
use crate::liveness::{Me, Registry};
use crate::segment::Segment;
use crate::shim::Ordering;
use crate::sys::futex_call::{OWNER_DIED, TID_MASK};
use crate::sys::identity;
use crate::{Deadline, Error, Kind, Plain};

/// Guards a value, shared by name between real-time threads, and lends its holder the priority of
/// its waiters.
///
/// So a thread of middling priority cannot keep both the holder and a more urgent waiter from
/// running. It survives the death of its owner, as [`Mutex`](super::Mutex) does. The kernel does
/// the priority inheritance, and libc's mutex is inside. Hence all processes that use it belong to
/// one pid namespace and to one C library; others get [`Error::OtherEnvironment`]. It never spins.
/// Its file stays mapped until the process ends. It costs some 1.5 times as much as a
/// [`Mutex`](super::Mutex) when no thread waits.
///
/// It finds a thread that locks it twice, but not a cycle of several threads, which lasts until a
/// deadline or a death. On the holder's own processor a waiter may notice its deadline late: the
/// holder then runs with the waiter's priority, and goes on until it unlocks (the waiter then has
/// the lock) or sleeps. With glibc before 2.35, Linux before 5.14, and musl, waits know the time of
/// day only: there a clock that is set back lengthens a wait to a monotonic deadline.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-pi-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::{LockError, PiMutex};
///
/// let valve = PiMutex::<u64>::options(0).open_or_create(&domain, "valve")?;
/// match valve.lock() {
///     Ok(mut position) => *position += 1,
///     Err(LockError::OwnerDied(mut position)) => {
///         // A process was killed while it held the lock. A number is whole in any case.
///         position.mark_consistent();
///     }
///     Err(other) => panic!("{other}"),
/// }
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// While it holds the lock: the next locker gets
/// [`LockError::OwnerDied`](super::LockError::OwnerDied), even if it slept already. While it waits:
/// other threads are not affected, and its priority is no longer lent.
pub type PiMutex<T> = Lock<RawPi, T>;

/// Gives exclusive access to what a [`PiMutex`] guards, and gives the lock back when dropped.
///
/// A guard stays with its thread, which runs with the priority of its most urgent waiter. In a
/// forked child, a guard of the parent's has no effect.
///
/// # If a process dies
/// The next locker gets [`LockError::OwnerDied`](super::LockError::OwnerDied) with a guard.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it counts as a death: see
/// [`MutexGuard`](super::MutexGuard#if-it-panics).
pub type PiMutexGuard<'a, T> = Guard<'a, RawPi, T>;

/// Embeds a [`PiMutex`] and its value as a field of a [`record!`](crate::record). It takes 64 bytes
/// and the value.
///
/// All zeroes are an unlocked mutex around a zeroed value.
/// [`Record::handle`](super::Record::handle) returns the [`PiMutex`] that uses it; the record's
/// file then stays mapped until the process ends.
pub type EmbeddedPiMutex<T> = Embedded<RawPi, T>;

impl Primitive for RawPi {
    const KINDS: &[Kind] = &[Kind::PiMutex];
}

impl LockWords for RawPi {
    /// Whether this process has made sure that libc's words are prepared.
    type Local = AtomicBool;
    const SPINS: bool = false;

    fn local(&self, registry: &'static Registry, segment: &Segment) -> Result<AtomicBool, Error> {
        self.bind(registry.me()?, segment.path())?;
        Ok(AtomicBool::new(true))
    }

    fn keep<S>(handle: Handle<S>) -> Handle<S> {
        let file = handle.file().ok();
        handle.kept(file)
    }
}

// SAFETY: `Plain`: any bytes are a value, and a guard is the only one.
unsafe impl<T: Plain> Guards<T> for RawPi {}

// SAFETY: libc and the kernel give the mutex to one thread at a time.
unsafe impl RawLock for RawPi {
    type Words = RawPi;
    type Repairing = RawPi;
    type Held<'a> = ();
    const EXCLUSIVE: bool = true;

    #[inline]
    fn try_fast(words: &RawPi, bound: &AtomicBool, _: &Site, me: Me) -> Fast<()> {
        // A forked child may not belong to the lock's namespace. Acquire pairs with the Release in
        // `lock_slow`: libc's words are prepared.
        if !bound.load(StdOrdering::Acquire)
            || !words.is_bound_to(identity::known_pid_namespace())
            || !words.try_acquire(me)
        {
            return Fast::Busy;
        }
        if words.note_owner(me) { Fast::Clean(()) } else { Fast::Look(()) }
    }

    fn lock_slow<'a>(
        words: &'a RawPi,
        bound: &AtomicBool,
        site: &'a Site,
        me: Me,
        seen: Fast<()>,
        wait: Option<Deadline>,
    ) -> Result<Taken<'a, RawPi>, Refusal> {
        let got = match seen {
            Fast::Busy => {
                words.bind(me, site.segment.path()).map_err(Refusal::system)?;
                bound.store(true, StdOrdering::Release);
                words.lock(me, wait)
            }
            _ => words.entered(me),
        };
        match got {
            Ok(got) => Ok(taken(got, ())),
            Err(refused) => Err(Refusal::of(refused, me)),
        }
    }

    #[inline]
    fn unlock(words: &RawPi, me: Me, (): (), how: Leaving) {
        match how {
            Leaving::Finished => words.release(me),
            Leaving::Unfinished => words.release_unfinished(me),
            Leaving::NotRecoverable => words.mark_not_recoverable(me),
        }
    }
}

// SAFETY: as for `RawLock`.
unsafe impl ExclusiveLock for RawPi {
    fn is_consistent(words: &RawPi) -> bool {
        // Relaxed: only holders write it.
        words.state.load(Ordering::Relaxed) == CONSISTENT
    }

    fn mark_consistent(words: &RawPi) {
        words.state.store(CONSISTENT, Ordering::Relaxed);
    }

    fn take_to_reset(
        words: &RawPi,
        bound: &AtomicBool,
        site: &Site,
        me: Me,
        wait: Option<Deadline>,
    ) -> Result<(), Refusal> {
        words.bind(me, site.segment.path()).map_err(Refusal::system)?;
        bound.store(true, StdOrdering::Release);
        words.acquire(me, wait).map_err(|refused| Refusal::of(refused, me))?;
        words.note_owner(me);
        Ok(())
    }

    fn holder(words: &RawPi, registry: &'static Registry) -> Option<Holder> {
        words.holder(registry)
    }
}

// SAFETY: as for `RawLock`; libc's mutex is not taken twice (`Deadlock`).
unsafe impl UniqueLock for RawPi {}

impl CondvarLock for RawPi {
    const TAKES_LIST: bool = true;
    type Relock<'a> = &'a RawPi;

    fn relock<'a>(words: &'a RawPi, (): ()) -> &'a RawPi {
        words
    }
}

impl<T: Plain> PiMutex<T> {
    /// Returns the options for opening a mutex, or making one that guards this value. An opening
    /// returns the system's `ENOTSUP` where it has no priority inheritance.
    pub fn options(initial: T) -> LockOptions<RawPi, T> {
        LockOptions::new(Some(initial), None)
    }
}

impl Inspect for RawPi {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        let holder = self.holder(registry);
        let word = self.word().load(Ordering::Relaxed);
        // A thread took the lock and has not left its name yet, or died before it could.
        let state = match word & TID_MASK {
            0 if word & OWNER_DIED != 0 => {
                Some("its owner died; the next to lock is told".to_owned())
            }
            tid if tid != 0 && holder.is_none() => Some(format!("held by thread {tid}")),
            _ => None,
        };
        LockDetail {
            holders: holder.into_iter().collect(),
            not_recoverable: self.state.load(Ordering::Relaxed) == NOT_RECOVERABLE,
            state,
            ..LockDetail::default()
        }
    }

    /// Takes nothing: the kernel has taken the dead owner's number out of the word, and left its
    /// mark for the next locker. The token beside it is no claim.
    fn sweep(&self, _: Me, _: bool) -> u32 {
        0
    }
}
