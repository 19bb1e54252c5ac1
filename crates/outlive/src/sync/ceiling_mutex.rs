//! A mutex with a priority ceiling: its holder runs at the ceiling until it unlocks, so no thread
//! that might want the lock can keep the holder from running. Unlike POSIX's, it is robust as well.
//!
//! 1. Raise the calling thread to the ceiling (`raw/ceiling.rs`). This changes nothing shared.
//! 2. Take the plain mutex (`raw/mutex.rs`); if another thread has it, sleep at the ceiling.
//! 3. Give the mutex back.
//! 4. Lower the thread to the highest ceiling that it still holds, or to its own priority.
//!
//! Died between any of these: the priority died with the thread, and the mutex tells the next
//! locker, as ever. So the table of states is the plain mutex's.

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
use super::{Holder, order};
use crate::Plain;
use crate::domain::agree;
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
    /// 1 to 99. The maker writes it once; each handle keeps what it read.
    ceiling: AtomicU32,
    reserved: AtomicU32,
}

const _: () = assert!(size_of::<RawCeiling>() == 16);

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl Shared for RawCeiling {}

/// Guards a value, shared by name between real-time threads; its holder runs under `SCHED_FIFO` at
/// the ceiling.
///
/// The ceiling is a priority at least as high as that of every thread that uses the lock. It
/// survives the death of its owner, as [`Mutex`](super::Mutex) does. Unlike
/// [`PiMutex`](super::PiMutex), it raises the holder always, not only when a thread waits, and by
/// three to four system calls each time. In return, no thread that might want the lock ever
/// interrupts its holder, on one processor no thread ever waits for it, and it works across pid
/// namespaces. It never spins.
///
/// A thread needs the right to run at the ceiling (`CAP_SYS_NICE`, or an `RLIMIT_RTPRIO` as high).
/// While it holds the lock, others see its real-time priority (`chrt -p`); if it or another process
/// changes that meanwhile, the new value counts as the thread's own priority from then on. A thread
/// may hold several and unlock them in any order. A child forked meanwhile begins at the ceiling,
/// and leaves it when it drops the guard. Do not mix it with libc's `PTHREAD_PRIO_PROTECT` mutexes
/// in one thread: each takes the other's changes for the thread's own.
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
/// While it holds the lock: the next locker gets [`LockError::OwnerDied`], even if it slept
/// already. Its raised priority died with it. While it waits: other threads are not affected.
pub struct CeilingMutex<T> {
    home: Home<RawCeiling>,
    value: NonNull<UnsafeCell<T>>,
    ceiling: u32,
    spin_wait: SpinWait,
}

/// The body of a named mutex.
#[repr(C, align(64))]
struct Apart<T> {
    raw: RawCeiling,
    reserved: [AtomicU32; 12],
    value: UnsafeCell<T>,
}

// SAFETY: the lock is atomics; the value is `Plain`, and only a guard reaches it.
unsafe impl<T: Plain> Shared for Apart<T> {}
// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock.
unsafe impl<T: Send> Send for CeilingMutex<T> {}
// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock.
unsafe impl<T: Send> Sync for CeilingMutex<T> {}

/// Sleeps at once: a spin at the ceiling may keep the holder itself from running.
fn spin_wait() -> SpinWait {
    let spin_wait = SpinWait::new();
    spin_wait.set(WaitStrategy::Block);
    spin_wait
}

impl<T: Plain> CeilingMutex<T> {
    /// Opens the mutex of that name, or makes it with the given ceiling (1 to 99) and value.
    ///
    /// # Errors
    /// [`Error::OtherOptions`] when it exists with another ceiling, [`Error::InvalidOption`] when the ceiling is not one
    /// of 1 to 99; [`Error::OtherKind`] or [`Error::OtherType`] when the name is in use for
    /// something else, [`Error::NoSpace`], [`Error::InvalidName`], and errors of the system.
    ///
    /// # If a process dies
    /// While it makes the mutex: no trace of the mutex remains.
    pub fn open(
        domain: &Domain,
        name: &str,
        ceiling: u32,
        initial: T,
    ) -> Result<CeilingMutex<T>, Error> {
        check_ceiling(ceiling)?;
        let init = |cell: &mut Apart<T>| {
            cell.raw.ceiling.store(ceiling, Ordering::Relaxed);
            // SAFETY: `T: Plain`, so a copy of `initial`'s bytes is a second, independent value.
            *cell.value.get_mut() = unsafe { core::ptr::read(&raw const initial) };
        };
        let home =
            Home::<Apart<T>>::open(domain, name, Kind::CeilingMutex, TypeOf::a::<T>(), init)?;
        let found = home.shared().raw.ceiling.load(Ordering::Relaxed);
        agree(home.segment(), "ceiling", found, Some(ceiling))?;
        let value = NonNull::from(&home.shared().value);
        Ok(CeilingMutex {
            home: home.part(|cell| &cell.raw),
            value,
            ceiling,
            spin_wait: spin_wait(),
        })
    }

    /// Returns the priority at which holders run.
    pub fn ceiling(&self) -> u32 {
        self.ceiling
    }

    /// Takes the lock, and waits as long as a living owner holds it; it waits at the ceiling
    /// already.
    ///
    /// # Errors
    /// [`LockError::OwnerDied`] with the guard inside, [`LockError::NotRecoverable`],
    /// [`LockError::Deadlock`], [`LockError::AboveCeiling`] when the thread's own priority is
    /// higher than the ceiling, [`LockError::Damaged`], and [`LockError::System`]
    /// ([`Error::NoRealTime`] without the right to run at the ceiling).
    ///
    /// # If a process dies
    /// The owner's death ends the wait at once.
    pub fn lock(&self) -> Result<CeilingMutexGuard<'_, T>, LockError<CeilingMutexGuard<'_, T>>> {
        self.lock_until(Deadline::NEVER)
    }

    /// Takes the lock, and waits until the deadline.
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
    pub fn try_lock(
        &self,
    ) -> Result<CeilingMutexGuard<'_, T>, LockError<CeilingMutexGuard<'_, T>>> {
        self.enter(false, |me| self.raw().try_lock(me))
    }

    fn enter(
        &self,
        waits: bool,
        lock: impl FnOnce(Me) -> Result<Acquired, Refused>,
    ) -> Result<CeilingMutexGuard<'_, T>, LockError<CeilingMutexGuard<'_, T>>> {
        let me = self.home.me().map_err(LockError::System)?;
        let (got, raised) = self.take(me, waits, || lock(me))?;
        // SAFETY: the lock guards the value beside it, the handle keeps both mapped, and this
        // thread holds the lock.
        match unsafe { MutexGuard::settle(Ok(got), self.raw(), self.value.cast(), me) } {
            Ok(guard) => Ok(CeilingMutexGuard { guard, _raised: raised }),
            Err(error) => Err(error.map(|guard| CeilingMutexGuard { guard, _raised: raised })),
        }
    }

    /// Raises the thread, then takes the lock; if that fails, lowers the thread again.
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
            NotRaised::System(errno) => LockError::System(Error::from_errno(
                "run at the ceiling of",
                self.home.path(),
                errno,
            )),
        })
    }

    /// Makes a mutex that was given up ([`LockError::NotRecoverable`]) usable again, with this
    /// value. No thread gets the lock before the value is in place.
    ///
    /// # Errors
    /// [`LockError::TimedOut`] when a living owner holds it until the deadline,
    /// [`LockError::Deadlock`], [`LockError::AboveCeiling`], [`LockError::Damaged`],
    /// [`LockError::System`].
    ///
    /// # If a process dies
    /// During this call: the mutex stays given up, or the next locker gets
    /// [`LockError::OwnerDied`].
    pub fn reset(&self, value: T, deadline: impl Into<Deadline>) -> Result<(), LockError<()>> {
        let me = self.home.me().map_err(LockError::System)?;
        let take = || self.raw().take_to_reset(me, &self.spin_wait, deadline.into());
        let ((), _raised) = self.take(me, true, take)?;
        // SAFETY: the lock guards the value beside it, `home` keeps both mapped, and this thread
        // holds the lock. It unlocks before the thread is lowered.
        unsafe { MutexGuard::new(self.raw(), self.value.cast::<T>(), me) }.reset(value);
        Ok(())
    }

    /// Returns the thread that holds the lock just now, dead or alive.
    pub fn holder(&self) -> Option<Holder> {
        self.raw().owner().map(|token| Holder::of(self.home.registry(), token))
    }

    fn raw(&self) -> &RawMutex {
        &self.home.shared().raw
    }
}

/// Gives exclusive access to what a [`CeilingMutex`] guards; when dropped, it gives the lock back,
/// and then lowers the thread.
///
/// A guard stays with its thread. In a forked child, a guard of the parent's only lowers the child.
///
/// # If a process dies
/// The next locker gets [`LockError::OwnerDied`] with a guard.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it counts as a death: see
/// [`MutexGuard`](super::MutexGuard#if-it-panics).
pub struct CeilingMutexGuard<'a, T> {
    // Dropped in this order.
    guard: MutexGuard<'a, T>,
    _raised: Raised,
}

// SAFETY: a shared guard gives no more than `&T`, and `T: Sync`.
unsafe impl<T: Sync> Sync for CeilingMutexGuard<'_, T> {}

impl<T> CeilingMutexGuard<'_, T> {
    /// Returns whether an owner died or panicked holding the lock and no holder has marked the
    /// value consistent since. [`LockError::OwnerDied`] reported it.
    #[must_use]
    pub fn owner_died(&self) -> bool {
        self.guard.owner_died()
    }

    /// Declares that what the lock guards is whole again, after [`LockError::OwnerDied`]. If the
    /// guard is dropped without this, the next locker gets `OwnerDied` again.
    pub fn mark_consistent(&mut self) {
        self.guard.mark_consistent();
    }

    /// Unlocks, gives the lock up, and lowers the thread, because what the lock guards cannot be
    /// repaired. Every later locker gets [`LockError::NotRecoverable`], until a process calls
    /// [`CeilingMutex::reset`]. In a forked child it only lowers the child.
    ///
    /// # If a process dies
    /// During this call: the lock is given up, or the next locker gets [`LockError::OwnerDied`].
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

/// Embeds a [`CeilingMutex`] and its value as a field of a [`record!`](crate::record). The ceiling
/// is part of the type. It takes 16 bytes and the value.
///
/// All zeroes are an unlocked mutex around a zeroed value.
/// [`Record::handle`](super::Record::handle) returns the [`CeilingMutex`] that uses it.
#[repr(C)]
pub struct EmbeddedCeilingMutex<T, const CEILING: u32> {
    raw: RawCeiling,
    value: UnsafeCell<T>,
}

// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock.
unsafe impl<T: Send, const CEILING: u32> Sync for EmbeddedCeilingMutex<T, CEILING> {}
// SAFETY: the lock is atomics; the value is `Plain`, and only a guard reaches it.
unsafe impl<T: Plain, const CEILING: u32> Shared for EmbeddedCeilingMutex<T, CEILING> {}
// SAFETY: the lock is at offset 0, as `primitive` says; the value is `Plain`, and only a guard
// reaches it.
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
        // A record that an older build made has no ceiling here; every process writes the same.
        home.shared().raw.ceiling.store(CEILING, Ordering::Relaxed);
        let value = NonNull::from(&home.shared().value);
        CeilingMutex {
            home: home.part(|embedded| &embedded.raw),
            value,
            ceiling: CEILING,
            spin_wait: spin_wait(),
        }
    }
}

impl<T: Plain, const CEILING: u32> EmbeddedCeilingMutex<T, CEILING> {
    /// Returns the value while no other process can reach it: in
    /// [`Record::open`](super::Record::open)'s initialiser.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// Notes the ceiling of a mutex in a record.
pub(super) fn note_ceiling(segment: &Segment, offset: u64, ceiling: u32) -> Result<(), Error> {
    segment.at::<RawCeiling>(offset)?.ceiling.store(ceiling, Ordering::Relaxed);
    Ok(())
}

/// Returns the ceiling that [`note_ceiling`] noted; 0: none yet.
pub(super) fn noted_ceiling(segment: &Segment, offset: u64) -> Result<u32, Error> {
    Ok(segment.at::<RawCeiling>(offset)?.ceiling.load(Ordering::Relaxed))
}

impl CeilingMutex<()> {
    /// Returns the mutex at `offset` of a file, without its value: in a record with that `ceiling`,
    /// elsewhere with the one that its own words hold.
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

/// Refuses what is no priority.
pub(super) fn check_ceiling(ceiling: u32) -> Result<(), Error> {
    if (1..=MOST).contains(&ceiling) {
        return Ok(());
    }
    let why = "a priority from 1 to 99";
    Err(Error::InvalidOption { what: "a ceiling", wanted: ceiling.to_string().into(), why })
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
