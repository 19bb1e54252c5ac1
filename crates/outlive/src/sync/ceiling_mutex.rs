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

use super::Holder;
use super::embedded::{Embedded, InRecord, lock_in_record};
use super::guard::Guard;
use super::lock::{Lock, LockOptions};
use super::primitive::{Handle, Inspect, LockDetail, Primitive};
use super::raw::ceiling::{MOST, NotRaised, lower, raise};
use super::raw::mutex::RawMutex;
use super::raw::relock::Relock;
use super::raw::{Acquired, Refused};
use super::raw_lock::{
    CondvarLock, ExclusiveLock, Fast, Guards, Leaving, LockWords, RawLock, Refusal, Site, Taken,
    UniqueLock, taken,
};
use crate::liveness::{Me, Registry};
use crate::segment::{Segment, SharedLayout};
use crate::shim::{AtomicU32, Ordering};
use crate::sys::Errno;
use crate::wake::SpinWait;
use crate::{Deadline, Error, Kind, Plain};

/// 16 bytes.
#[repr(C)]
pub struct RawCeiling {
    raw: RawMutex,
    /// 1 to 99. The maker writes it once; each handle keeps what it read.
    ceiling: AtomicU32,
    reserved: AtomicU32,
}

const _: () = assert!(size_of::<RawCeiling>() == 16);

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl SharedLayout for RawCeiling {}

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
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::{AcquireError, CeilingMutex, LockError};
///
/// let valve = CeilingMutex::<u64>::options(40, 0).open_or_create(&domain, "valve")?;
/// match valve.lock() {
///     Ok(mut position) => *position += 1,
///     Err(LockError::OwnerDied(mut position)) => position.mark_consistent(),
///     // Without the right to run at priority 40.
///     Err(LockError::Failed(AcquireError::System(error))) => eprintln!("{error}"),
///     Err(other) => panic!("{other}"),
/// }
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// While it holds the lock: the next locker gets
/// [`LockError::OwnerDied`](super::LockError::OwnerDied), even if it slept already. Its raised
/// priority died with it. While it waits: other threads are not affected.
pub type CeilingMutex<T> = Lock<RawCeiling, T>;

/// Gives exclusive access to what a [`CeilingMutex`] guards; when dropped, it gives the lock back,
/// and then lowers the thread.
///
/// A guard stays with its thread. In a forked child, a guard of the parent's only lowers the child.
///
/// # If a process dies
/// The next locker gets [`LockError::OwnerDied`](super::LockError::OwnerDied) with a guard.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it counts as a death: see
/// [`MutexGuard`](super::MutexGuard#if-it-panics).
pub type CeilingMutexGuard<'a, T> = Guard<'a, RawCeiling, T>;

/// Embeds a [`CeilingMutex`] and its value as a field of a [`record!`](crate::record). The ceiling
/// is part of the type. It takes 16 bytes and the value.
///
/// All zeroes are an unlocked mutex around a zeroed value.
/// [`Record::handle`](super::Record::handle) returns the [`CeilingMutex`] that uses it.
pub type EmbeddedCeilingMutex<T, const CEILING: u32> = Embedded<Ceiled<CEILING>, T>;

/// The words of a mutex whose ceiling its type says.
#[repr(transparent)]
pub struct Ceiled<const CEILING: u32>(RawCeiling);

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl<const CEILING: u32> SharedLayout for Ceiled<CEILING> {}

// SAFETY: the words are at offset 0; `Guards` says the rest.
unsafe impl<T, const CEILING: u32> InRecord<T> for Ceiled<CEILING>
where
    RawCeiling: Guards<T>,
{
    const KIND: Kind = Kind::CeilingMutex;
    const NUMBER: u32 = {
        assert!(CEILING >= 1 && CEILING <= MOST, "a ceiling is a priority of 1 to 99");
        CEILING
    };
    type Handle = CeilingMutex<T>;

    fn handle(handle: Handle<Embedded<Self, T>>) -> CeilingMutex<T> {
        lock_in_record(handle, |words| &words.0, CEILING)
    }
}

impl Primitive for RawCeiling {
    const KINDS: &[Kind] = &[Kind::CeilingMutex];

    fn shape(ceiling: u32) -> Option<(usize, usize)> {
        let shape = (size_of::<RawCeiling>(), align_of::<RawCeiling>());
        (1..=MOST).contains(&ceiling).then_some(shape)
    }

    fn note(&self, ceiling: u32) {
        self.ceiling.store(ceiling, Ordering::Relaxed);
    }

    fn noted(&self) -> u32 {
        self.ceiling.load(Ordering::Relaxed)
    }
}

impl LockWords for RawCeiling {
    /// The ceiling, as the handle read it.
    type Local = u32;

    /// A spin at the ceiling may keep the holder itself from running.
    const SPINS: bool = false;

    fn check(ceiling: u32) -> Result<(), Error> {
        check_ceiling(ceiling)
    }

    fn local(&self, _: &'static Registry, segment: &Segment) -> Result<u32, Error> {
        let ceiling = self.noted();
        if (1..=MOST).contains(&ceiling) { Ok(ceiling) } else { Err(segment.damaged("a ceiling")) }
    }

    fn embedded_local(&self, ceiling: u32) -> u32 {
        // A record that an older build made has no ceiling here; every process writes the same.
        self.note(ceiling);
        ceiling
    }
}

// SAFETY: `Plain`: any bytes are a value, and a guard is the only one.
unsafe impl<T: Plain> Guards<T> for RawCeiling {}

/// Raises the calling thread; dropping it lowers the thread again.
struct Raised(u32);

impl Raised {
    fn to(ceiling: u32) -> Result<Raised, Refused> {
        match raise(ceiling) {
            Ok(()) => Ok(Raised(ceiling)),
            Err(NotRaised::Above) => Err(Refused::AboveCeiling),
            Err(NotRaised::System(Errno::PERM | Errno::ACCESS)) => {
                Err(Refused::NoRealTime(ceiling))
            }
            Err(NotRaised::System(errno)) => Err(Refused::System(errno)),
        }
    }

    /// Leaves the lowering to the guard, and returns what that needs to know.
    fn keep(self) -> u32 {
        core::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        lower(self.0);
    }
}

// SAFETY: the words exclude by the plain mutex in them, whose impl says why; the ceiling only
// changes a priority.
unsafe impl RawLock for RawCeiling {
    type Words = RawCeiling;
    type Repairing = RawCeiling;
    /// The ceiling from which to lower the thread.
    type Held<'a> = u32;
    const EXCLUSIVE: bool = true;

    /// Raising is a system call.
    #[inline]
    fn try_fast(_: &RawCeiling, _: &u32, _: &Site, _: Me) -> Fast<u32> {
        Fast::Busy
    }

    fn lock_slow<'a>(
        words: &'a RawCeiling,
        ceiling: &u32,
        site: &'a Site,
        me: Me,
        _: Fast<u32>,
        wait: Option<Deadline>,
    ) -> Result<Taken<'a, RawCeiling>, Refusal> {
        let raised = Raised::to(*ceiling).map_err(|refused| Refusal::of(refused, me))?;
        let got = match wait {
            Some(deadline) => words.raw.lock(me, &site.spin_wait, deadline),
            None => words.raw.try_lock(me),
        };
        match got {
            Ok(got) => Ok(taken(got, raised.keep())),
            Err(refused) => Err(Refusal::of(refused, me)),
        }
    }

    /// Unlocks, and only then lowers the thread.
    fn unlock(words: &RawCeiling, me: Me, raised: u32, how: Leaving) {
        RawMutex::unlock(&words.raw, me, (), how);
        lower(raised);
    }

    /// Lowers a forked child, which began at the ceiling.
    fn forget(raised: u32) {
        lower(raised);
    }
}

// SAFETY: as for `RawLock`.
unsafe impl ExclusiveLock for RawCeiling {
    fn is_consistent(words: &RawCeiling) -> bool {
        words.raw.is_consistent()
    }

    fn mark_consistent(words: &RawCeiling) {
        words.raw.mark_consistent();
    }

    fn take_to_reset(
        words: &RawCeiling,
        ceiling: &u32,
        site: &Site,
        me: Me,
        wait: Option<Deadline>,
    ) -> Result<u32, Refusal> {
        let raised = Raised::to(*ceiling).map_err(|refused| Refusal::of(refused, me))?;
        <RawMutex as ExclusiveLock>::take_to_reset(&words.raw, &(), site, me, wait)?;
        Ok(raised.keep())
    }

    fn holder(words: &RawCeiling, registry: &'static Registry) -> Option<Holder> {
        <RawMutex as ExclusiveLock>::holder(&words.raw, registry)
    }
}

// SAFETY: as for `RawLock`; the plain mutex is not taken twice (`Deadlock`).
unsafe impl UniqueLock for RawCeiling {}

/// A mutex with a ceiling under a wait: the waiter sleeps with its own priority, and is raised again
/// before it takes the mutex.
pub struct Lowered<'a> {
    raw: &'a RawMutex,
    ceiling: u32,
}

impl Lowered<'_> {
    /// Takes the mutex at the ceiling. A thread that does not get it is lowered again.
    fn raised(
        &self,
        take: impl FnOnce() -> Result<Acquired, Refused>,
    ) -> Result<Acquired, Refused> {
        let raised = Raised::to(self.ceiling)?;
        let got = take()?;
        raised.keep();
        Ok(got)
    }
}

impl Relock for Lowered<'_> {
    /// A spin could keep a less urgent holder or notifier from running.
    const SPINS: bool = false;

    fn is_consistent(&self) -> bool {
        self.raw.is_consistent()
    }

    fn release(&self, me: Me) {
        self.raw.release(me.id);
        lower(self.ceiling);
    }

    fn try_lock(&self, me: Me) -> Result<Acquired, Refused> {
        self.raised(|| self.raw.try_lock(me))
    }

    fn lock(&self, me: Me, spin_wait: &SpinWait, deadline: Deadline) -> Result<Acquired, Refused> {
        self.raised(|| self.raw.lock(me, spin_wait, deadline))
    }

    fn is_free(&self) -> bool {
        self.raw.owner().is_none()
    }
}

impl CondvarLock for RawCeiling {
    const TAKES_LIST: bool = false;
    type Relock<'a> = Lowered<'a>;

    fn relock<'a>(words: &'a RawCeiling, ceiling: u32) -> Lowered<'a> {
        Lowered { raw: &words.raw, ceiling }
    }
}

impl<T: Plain> CeilingMutex<T> {
    /// Returns the options for opening a mutex with that ceiling (1 to 99), or making one that
    /// guards this value.
    pub fn options(ceiling: u32, initial: T) -> LockOptions<RawCeiling, T> {
        LockOptions::new(Some(initial), Some(ceiling))
    }
}

impl<T> CeilingMutex<T> {
    /// Returns the priority at which holders run.
    pub fn ceiling(&self) -> u32 {
        self.local
    }
}

impl CeilingMutex<()> {
    /// Returns the mutex without its value: in a record with that `ceiling`, elsewhere with the one
    /// that its own words hold.
    pub(super) fn inside(
        handle: Handle<RawCeiling>,
        ceiling: Option<u32>,
    ) -> Result<CeilingMutex<()>, Error> {
        let words = handle.shared();
        let local = match ceiling {
            Some(ceiling) => words.embedded_local(ceiling),
            None => words.local(handle.registry(), handle.segment())?,
        };
        // SAFETY: `()` has no bytes.
        Ok(unsafe { Lock::of(handle, core::ptr::NonNull::dangling(), local) })
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
