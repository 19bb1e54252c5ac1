//! A mutex with a priority ceiling: whoever takes it runs at the ceiling until it is given back, so nobody who might want
//! it can keep its holder from running. Robust as well, which POSIX's is not.
//!
//! 1. Raise the calling thread to the ceiling (`raw/ceiling.rs`): its own business, nothing shared.
//! 2. Take the plain mutex (`raw/mutex.rs`), asleep at the ceiling if somebody has it.
//! 3. Give the mutex back.
//! 4. Lower the thread to the highest ceiling that it still holds, or to its own priority.
//!
//! Died between any of these: the priority died with the thread, and the mutex tells the next, as ever. So the table of
//! states is the plain mutex's.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::embedded::{Embed, Place, SharedField};
use super::guard::{LockError, MutexGuard};
use super::primitive::{Home, TypeOf};
use super::primitive::{Inspect, LockDetail};
use super::raw::ceiling::{MOST, NotRaised, Raised};
use super::raw::mutex::RawMutex;
use super::raw::{Acquired, Refused};
use super::{Holder, Plain, order};
use crate::liveness::{Me, Registry};
use crate::segment::{Segment, Shared};
use crate::shim::{AtomicU32, Ordering};
use crate::sys::Errno;
use crate::wake::SpinWait;
use crate::{Deadline, Domain, Error, Kind, WaitStrategy};

/// 16 bytes.
#[repr(C)]
pub(crate) struct RawCeiling {
    raw: RawMutex,
    /// 1 to 99. Written once, by the maker; each handle keeps what it read.
    ceiling: AtomicU32,
    reserved: AtomicU32,
}

const _: () = assert!(size_of::<RawCeiling>() == 16);

// SAFETY: atomics only.
unsafe impl Shared for RawCeiling {}

/// A lock with a value, shared by name between processes, for real-time threads: whoever holds it runs under
/// `SCHED_FIFO` at the ceiling, a priority at least as high as that of all who use it. It survives whoever holds it.
///
/// Beside [`PiMutex`](super::PiMutex): raises always, not only when somebody waits, and by three to four system calls a
/// time; in return no holder is ever interrupted by those who might want the lock, on one processor nobody ever waits
/// for it, and it works across pid namespaces. It never spins.
///
/// A thread needs the right to run at the ceiling (`CAP_SYS_NICE`, or `RLIMIT_RTPRIO` as high). While it holds the lock its
/// real-time priority is seen by others (`chrt -p`); a change that it or somebody makes meanwhile is taken for its own
/// priority from then on. Several may be held at once and given back in any order. A child forked meanwhile begins at
/// the ceiling, and leaves it when it drops the guard. Do not mix with libc's `PTHREAD_PRIO_PROTECT` mutexes in one
/// thread: each takes the other's changes for wishes.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-ceiling-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::sync::{CeilingMutex, LockError};
///
/// let valve = CeilingMutex::<u64>::open(&domain, "valve", 40, 0)?;
/// match valve.lock() {
///     Ok(mut position) => *position += 1,
///     Err(LockError::OwnerDied(mut position)) => position.mark_consistent(),
///     // Without the right to run at priority 40.
///     Err(LockError::System(error)) => eprintln!("{error}"),
///     Err(other) => panic!("{other}"),
/// }
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// Holding the lock: the next to lock is told, [`LockError::OwnerDied`], also if it was asleep already. Its raised priority
/// died with it. Waiting for it: nobody notices.
pub struct CeilingMutex<T> {
    home: Home<RawCeiling>,
    value: NonNull<UnsafeCell<T>>,
    ceiling: u32,
    spin_wait: SpinWait,
}

/// The body of a named one.
#[repr(C, align(64))]
struct Apart<T> {
    raw: RawCeiling,
    reserved: [AtomicU32; 12],
    value: UnsafeCell<T>,
}

// SAFETY: the lock is atomics; the value is Plain and reached under the lock only.
unsafe impl<T: Plain> Shared for Apart<T> {}
// SAFETY: the value is reached under the lock only.
unsafe impl<T: Send> Send for CeilingMutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for CeilingMutex<T> {}

/// Asleep at once: a spin at the ceiling may keep the very holder from running.
fn spin_wait() -> SpinWait {
    let spin_wait = SpinWait::new();
    spin_wait.set(WaitStrategy::Block);
    spin_wait
}

impl<T: Plain> CeilingMutex<T> {
    /// Opens the mutex of that name, or makes it with the ceiling (1 to 99) and the value given.
    ///
    /// # Errors
    /// [`Error::OtherCeiling`] when it is there with another ceiling, or when none of 1 to 99 is asked for;
    /// [`Error::OtherKind`] or [`Error::OtherType`] when the name is in use for something else, [`Error::NoSpace`],
    /// [`Error::InvalidName`], and what the system says.
    ///
    /// # If a process dies
    /// While it makes the mutex: nothing is left of it.
    pub fn open(domain: &Domain, name: &str, ceiling: u32, initial: T) -> Result<CeilingMutex<T>, Error> {
        let other = |found| Error::OtherCeiling { path: domain.path().join(name), found, wanted: ceiling };
        if !(1..=MOST).contains(&ceiling) {
            return Err(other(0));
        }
        let init = |cell: &mut Apart<T>| {
            cell.raw.ceiling.store(ceiling, Ordering::Relaxed);
            // SAFETY: T is plain, so its bytes may be copied.
            *cell.value.get_mut() = unsafe { core::ptr::read(&raw const initial) };
        };
        let home = Home::<Apart<T>>::open(domain, name, Kind::CeilingMutex, TypeOf::a::<T>(), init)?;
        let found = home.shared().raw.ceiling.load(Ordering::Relaxed);
        if found != ceiling {
            return Err(other(found));
        }
        let value = NonNull::from(&home.shared().value);
        Ok(CeilingMutex { home: home.part(|cell| &cell.raw), value, ceiling, spin_wait: spin_wait() })
    }

    /// The priority at which holders run.
    pub fn ceiling(&self) -> u32 {
        self.ceiling
    }

    /// Takes the lock, at the ceiling already while it waits as long as a living owner holds it.
    ///
    /// # Errors
    /// [`LockError::OwnerDied`] with the guard inside, [`LockError::NotRecoverable`], [`LockError::Deadlock`],
    /// [`LockError::AboveCeiling`] when the thread's own priority is higher than the ceiling, [`LockError::Damaged`], and
    /// [`LockError::System`] ([`Error::NoRealTime`] without the right to run at the ceiling).
    ///
    /// # If a process dies
    /// The owner's death ends the wait at once.
    pub fn lock(&self) -> Result<CeilingMutexGuard<'_, T>, LockError<CeilingMutexGuard<'_, T>>> {
        self.lock_until(Deadline::NEVER)
    }

    /// Takes the lock, waiting until the deadline.
    ///
    /// # Errors
    /// As [`CeilingMutex::lock`], and [`LockError::TimedOut`].
    ///
    /// # If a process dies
    /// The owner's death ends the wait at once.
    pub fn lock_until(
        &self,
        deadline: impl Into<Deadline>,
    ) -> Result<CeilingMutexGuard<'_, T>, LockError<CeilingMutexGuard<'_, T>>> {
        let deadline = deadline.into();
        self.enter(true, |me| self.raw().lock(me, &self.spin_wait, deadline))
    }

    /// Takes the lock if it is free, or its owner is dead.
    ///
    /// # Errors
    /// As [`CeilingMutex::lock`], and [`LockError::WouldBlock`].
    pub fn try_lock(&self) -> Result<CeilingMutexGuard<'_, T>, LockError<CeilingMutexGuard<'_, T>>> {
        self.enter(false, |me| self.raw().try_lock(me))
    }

    fn enter(
        &self,
        waits: bool,
        lock: impl FnOnce(Me) -> Result<Acquired, Refused>,
    ) -> Result<CeilingMutexGuard<'_, T>, LockError<CeilingMutexGuard<'_, T>>> {
        let me = self.home.me().map_err(LockError::System)?;
        let (got, raised) = self.take(me, waits, || lock(me))?;
        // SAFETY: the value beside the lock is what it guards, and the lock is ours.
        match unsafe { MutexGuard::settle(Ok(got), self.raw(), self.value.cast(), me) } {
            Ok(guard) => Ok(CeilingMutexGuard { guard, _raised: raised }),
            Err(error) => Err(error.map(|guard| CeilingMutexGuard { guard, _raised: raised })),
        }
    }

    /// Raises the thread, then takes the lock; when that fails, the thread is lowered again.
    fn take<R, G>(
        &self,
        me: Me,
        waits: bool,
        lock: impl FnOnce() -> Result<R, Refused>,
    ) -> Result<(R, Raised), LockError<G>> {
        order::watched(me, self.home.segment(), self.raw(), waits, || {
            let raised = self.raise()?;
            let got = lock().map_err(|refused| LockError::from_refused(refused, me))?;
            Ok((got, raised))
        })
    }

    fn raise<G>(&self) -> Result<Raised, LockError<G>> {
        Raised::to(self.ceiling).map_err(|refused| match refused {
            NotRaised::Above => LockError::AboveCeiling,
            NotRaised::System(Errno::PERM | Errno::ACCESS) => {
                LockError::System(Error::NoRealTime { priority: self.ceiling })
            }
            NotRaised::System(errno) => {
                LockError::System(Error::from_errno("run at the ceiling of", self.home.path(), errno))
            }
        })
    }

    /// Makes a mutex that was given up ([`LockError::NotRecoverable`]) usable again, with this value. Nobody comes in
    /// before the value is there.
    ///
    /// # Errors
    /// [`LockError::TimedOut`] when a living owner holds it until the deadline, [`LockError::Deadlock`],
    /// [`LockError::AboveCeiling`], [`LockError::Damaged`], [`LockError::System`].
    ///
    /// # If a process dies
    /// In the middle of this: the mutex stays given up, or the next to lock is told that an owner died.
    pub fn reset(&self, value: T, deadline: impl Into<Deadline>) -> Result<(), LockError<()>> {
        let me = self.home.me().map_err(LockError::System)?;
        let take = || self.raw().take_to_reset(me, &self.spin_wait, deadline.into());
        let ((), _raised) = self.take(me, true, take)?;
        // SAFETY: the value beside the lock is what it guards, and the lock is ours. Given back before the thread is
        // lowered.
        unsafe { MutexGuard::new(self.raw(), self.value.cast::<T>(), me) }.reset(value);
        Ok(())
    }

    /// Who holds it just now.
    pub fn holder(&self) -> Option<Holder> {
        self.raw().owner().map(|token| Holder::of(self.home.registry(), token))
    }

    fn raw(&self) -> &RawMutex {
        &self.home.shared().raw
    }
}

/// Exclusive access to what a [`CeilingMutex`] guards. When dropped it gives the lock back, and then lowers the thread.
///
/// Stays with its thread. In a forked child a guard of the parent's only lowers the child.
///
/// # If a process dies
/// The next to lock gets [`LockError::OwnerDied`] with a guard.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it counts as a death: see
/// [`MutexGuard`](super::MutexGuard#if-it-panics).
pub struct CeilingMutexGuard<'a, T> {
    // In this order they are dropped.
    guard: MutexGuard<'a, T>,
    _raised: Raised,
}

// SAFETY: sharing a guard shares `&T` only.
unsafe impl<T: Sync> Sync for CeilingMutexGuard<'_, T> {}

impl<T> CeilingMutexGuard<'_, T> {
    /// Whether an owner died or panicked with it, and nothing has been marked consistent since: what
    /// [`LockError::OwnerDied`] said.
    #[must_use]
    pub fn owner_died(&self) -> bool {
        self.guard.owner_died()
    }

    /// Declares that what the lock guards is whole again, after [`LockError::OwnerDied`]. If the guard is dropped without it,
    /// the next to lock is told again.
    pub fn mark_consistent(&mut self) {
        self.guard.mark_consistent();
    }

    /// Gives the lock back, and gives it up, then lowers the thread: what the lock guards cannot be made whole. Every later
    /// locker gets [`LockError::NotRecoverable`], until somebody calls [`CeilingMutex::reset`]. In a forked child it only
    /// lowers the child.
    ///
    /// # If a process dies
    /// In here: the lock is given up, or the next to lock is told that an owner died.
    pub fn give_up(self) {
        let CeilingMutexGuard { guard, _raised } = self;
        guard.give_up();
    }
}

impl<T> Deref for CeilingMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for CeilingMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: fmt::Debug> fmt::Debug for CeilingMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// A [`CeilingMutex`] and its value, for use as a field of a [`record!`](crate::record). The ceiling is part of the type.
/// 16 bytes and the value.
///
/// All zeroes are an unlocked one around a zeroed value. [`Record::handle`](super::Record::handle) gives the
/// [`CeilingMutex`] to use it by.
#[repr(C)]
pub struct EmbeddedCeilingMutex<T, const CEILING: u32> {
    raw: RawCeiling,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached under the lock only.
unsafe impl<T: Send, const CEILING: u32> Sync for EmbeddedCeilingMutex<T, CEILING> {}
// SAFETY: the lock is atomics; the value is Plain and reached under the lock only.
unsafe impl<T: Plain, const CEILING: u32> Shared for EmbeddedCeilingMutex<T, CEILING> {}
// SAFETY: the lock is at the start; the value is Plain and under it.
unsafe impl<T: Plain, const CEILING: u32> SharedField for EmbeddedCeilingMutex<T, CEILING> {
    const PRIMITIVES: usize = 1;
    fn primitive(_: usize) -> Place {
        Place {
            offset: core::mem::offset_of!(EmbeddedCeilingMutex<T, CEILING>, raw),
            kind: Kind::CeilingMutex,
            number: CEILING,
        }
    }
}

impl<T: Plain, const CEILING: u32> Embed for EmbeddedCeilingMutex<T, CEILING> {
    type Handle = CeilingMutex<T>;
    fn handle(home: Home<EmbeddedCeilingMutex<T, CEILING>>) -> CeilingMutex<T> {
        const { assert!(CEILING >= 1 && CEILING <= MOST, "a ceiling is a priority of 1 to 99") };
        // As in a record that was made today; the same value whoever writes it.
        home.shared().raw.ceiling.store(CEILING, Ordering::Relaxed);
        let value = NonNull::from(&home.shared().value);
        CeilingMutex { home: home.part(|embedded| &embedded.raw), value, ceiling: CEILING, spin_wait: spin_wait() }
    }
}

impl<T: Plain, const CEILING: u32> EmbeddedCeilingMutex<T, CEILING> {
    /// The value, where nobody else can reach it: in [`Record::open`](super::Record::open)'s initialiser.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// In a record.
pub(super) fn note_ceiling(segment: &Segment, offset: u64, ceiling: u32) -> Result<(), Error> {
    segment.at::<RawCeiling>(offset)?.ceiling.store(ceiling, Ordering::Relaxed);
    Ok(())
}

/// The same, as it has been noted; 0: not yet.
pub(super) fn noted_ceiling(segment: &Segment, offset: u64) -> Result<u32, Error> {
    Ok(segment.at::<RawCeiling>(offset)?.ceiling.load(Ordering::Relaxed))
}

impl CeilingMutex<()> {
    /// What lies at `offset` of a file, without its value: in a record with that `ceiling`, else it says its own.
    pub(super) fn inside(
        segment: &Arc<Segment>,
        registry: &'static Registry,
        offset: u64,
        ceiling: Option<u32>,
    ) -> Result<CeilingMutex<()>, Error> {
        let raw = segment.at::<RawCeiling>(offset)?;
        if let Some(ceiling) = ceiling {
            raw.ceiling.store(ceiling, Ordering::Relaxed);
        }
        let ceiling = ceiling.unwrap_or_else(|| raw.ceiling.load(Ordering::Relaxed));
        if !(1..=MOST).contains(&ceiling) {
            return Err(segment.damaged("a ceiling"));
        }
        Ok(CeilingMutex {
            home: Home::inside(raw, registry, segment),
            value: NonNull::dangling(),
            ceiling,
            spin_wait: spin_wait(),
        })
    }
}

impl Inspect for RawCeiling {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        let ceiling = u64::from(self.ceiling.load(Ordering::Relaxed));
        LockDetail { figures: vec![("ceiling", ceiling)], ..Inspect::look(&self.raw, registry) }
    }

    fn sweep(&self, me: Me, dry_run: bool) -> u32 {
        Inspect::sweep(&self.raw, me, dry_run)
    }
}
