//! A reader-writer lock with the value it guards, and its guards: from reading to writing and back.

use std::time::Duration;

use super::Holder;
use super::embedded::Embedded;
use super::error::AcquireError;
use super::guard::Guard;
use super::lock::{Lock, LockOptions, Locked, MaybeLocked};
use super::primitive::{Inspect, LockDetail, Primitive};
use super::raw::rw_lock::{Entered, RawRwLock};
use super::raw_lock::{
    ExclusiveLock, Fast, Guards, Leaving, LockWords, RawLock, Refusal, Site, Taken, UniqueLock,
    taken,
};
use crate::liveness::{Me, Registry};
use crate::shim::AtomicU32;
use crate::{Deadline, Kind, Shareable, WaitStrategy};

/// Guards a value for many readers at once or one writer, shared by name between processes, and
/// survives the death of its holders.
///
/// A reader writes to a cache line of its own, so readers on different processors do not slow each
/// other down: up to 64 at once; more share lines, and from 1,025 on they take turns. Reading costs
/// one compare-exchange, giving back one store, with no system call unless a thread waits. A
/// waiting writer keeps new readers out, so readers do not starve writers; a reader that keeps
/// finding writers queues as one of them. Beyond that the lock is not fair. A thread may read
/// several times at once, unless a writer waits: then it gets [`AcquireError::Deadlock`]. One
/// reader at a time may be the [upgradable](RwLock::upgradable_read) one, which no process refuses
/// to become the writer. A named lock takes 12 KiB of memory, which includes a value of up to 4,032
/// bytes.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-rwlock-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::{LockError, RwLock};
///
/// let limits = RwLock::<[f64; 2]>::options([0.0, 1.0]).open_or_create(&domain, "limits")?;
/// match limits.read() {
///     Ok(value) => assert!(value[0] <= value[1]),
///     Err(LockError::OwnerDied(mut value)) => {
///         // A writer was killed in here: we have the lock as a writer, to repair what it left.
///         *value = [0.0, 1.0];
///         value.mark_consistent();
///     }
///     Err(other) => panic!("{other}"),
/// }
/// limits.write().unwrap()[1] = 2.0;
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// While it reads, upgradable or not: no locker is told, and writers go on at once. While it
/// writes: the next locker, reader or writer, gets
/// [`LockError::OwnerDied`](super::LockError::OwnerDied) with a [`WriteGuard`], even if it slept
/// already. Exactly one locker is told; if it does not [mark the value
/// consistent](WriteGuard::mark_consistent), the next one is told, too. While it waits: other
/// threads are not affected. A writer's panic counts as a death, a reader's does not.
pub type RwLock<T> = Lock<RawRwLock, T>;

/// Gives shared access to what a lock guards, and gives the lock back when dropped.
///
/// A guard stays with its thread. In a forked child, a guard of the parent's has no effect.
///
/// # If a process dies
/// No locker is told: waiting writers go on at once.
///
/// # If it panics
/// No locker is told: a reader has changed nothing that the panic could leave half-written.
pub type ReadGuard<'a, T, K = ()> = Guard<'a, Reading, T, K>;

/// Gives exclusive access to what a lock guards, and gives the lock back when dropped.
///
/// A guard stays with its thread. In a forked child, a guard of the parent's has no effect.
///
/// # If a process dies
/// The next locker, reader or writer, gets [`LockError::OwnerDied`](super::LockError::OwnerDied)
/// with a guard like this.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it counts as a death: see
/// [`MutexGuard`](super::MutexGuard#if-it-panics).
pub type WriteGuard<'a, T, K = ()> = Guard<'a, Writing, T, K>;

/// Embeds a reader-writer lock and its value as a field of a [`record!`](crate::record). The value
/// has its own cache line. It takes 4,160 bytes and the value.
///
/// All zeroes are an unlocked lock around a zeroed value. [`Record::handle`](super::Record::handle)
/// returns the [`RwLock`] that uses it.
pub type EmbeddedRwLock<T> = Embedded<RawRwLock, T>;

const _: () = assert!(size_of::<EmbeddedRwLock<u64>>() == 64 + 4096 + 64);

impl Primitive for RawRwLock {
    const KINDS: &[Kind] = &[Kind::RwLock];
}

impl LockWords for RawRwLock {
    type Local = ();
}

// SAFETY: `Shareable`: any bytes are a value, and it is `Sync`, which readers need.
unsafe impl<T: Shareable> Guards<T> for RawRwLock {}

/// A reader's way to hold an [`RwLock`].
pub struct Reading(());

/// A writer's way to hold an [`RwLock`].
pub struct Writing(());

/// What a reader needs to leave, or to become a writer.
#[derive(Clone, Copy)]
pub struct ReadHold<'a> {
    /// The word that says that it reads: a reader's word, or the writers' if no reader's word was
    /// free.
    pub(super) word: &'a AtomicU32,
    pub(super) site: &'a Site,
}

impl<'a> ReadHold<'a> {
    pub(super) fn new(word: &'a AtomicU32, site: &'a Site) -> ReadHold<'a> {
        ReadHold { word, site }
    }
}

// SAFETY: as long as the reader's word names it, a writer that holds the lock waits
// (raw/rw_lock.rs).
unsafe impl RawLock for Reading {
    type Words = RawRwLock;
    type Repairing = Writing;
    type Held<'a> = ReadHold<'a>;
    const EXCLUSIVE: bool = false;

    #[inline]
    fn try_fast<'a>(words: &'a RawRwLock, (): &(), site: &'a Site, me: Me) -> Fast<ReadHold<'a>> {
        match words.enter(me.id) {
            Some(word) => Fast::Clean(ReadHold { word, site }),
            None => Fast::Busy,
        }
    }

    fn lock_slow<'a>(
        words: &'a RawRwLock,
        (): &(),
        site: &'a Site,
        me: Me,
        _: Fast<ReadHold<'a>>,
        wait: Option<Deadline>,
    ) -> Result<Taken<'a, Reading>, Refusal> {
        match words.read_slow(me, &site.spin_wait, wait) {
            Ok(Entered::Reading(word)) => Ok(Taken::Clean(ReadHold { word, site })),
            Ok(Entered::Repairing) => Ok(Taken::OwnerDied(site)),
            Err(refused) => Err(Refusal::of(refused, me)),
        }
    }

    #[inline]
    fn unlock(words: &RawRwLock, me: Me, held: ReadHold<'_>, _: Leaving) {
        words.leave(held.word, me.id);
    }
}

// SAFETY: a writer holds the writers' word alone, and no reader's word names a living reader
// (raw/rw_lock.rs).
unsafe impl RawLock for Writing {
    type Words = RawRwLock;
    type Repairing = Writing;
    /// What a reader needs, which the writer may become.
    type Held<'a> = &'a Site;
    const EXCLUSIVE: bool = true;

    #[inline]
    fn try_fast<'a>(words: &'a RawRwLock, (): &(), site: &'a Site, me: Me) -> Fast<&'a Site> {
        match words.acquire(me.id) {
            false => Fast::Busy,
            true if words.begin_if_ready() => Fast::Clean(site),
            true => Fast::Look(site),
        }
    }

    fn lock_slow<'a>(
        words: &'a RawRwLock,
        (): &(),
        site: &'a Site,
        me: Me,
        seen: Fast<&'a Site>,
        wait: Option<Deadline>,
    ) -> Result<Taken<'a, Writing>, Refusal> {
        match words.write_slow(me, &site.spin_wait, wait, matches!(seen, Fast::Look(_))) {
            Ok(got) => Ok(taken(got, site)),
            Err(refused) => Err(Refusal::of(refused, me)),
        }
    }

    #[inline]
    fn unlock(words: &RawRwLock, me: Me, _: &Site, how: Leaving) {
        match how {
            Leaving::Finished => words.unlock(me.id),
            Leaving::Unfinished => words.unlock_unfinished(me.id),
            Leaving::NotRecoverable => words.mark_not_recoverable(me.id),
        }
    }
}

// SAFETY: as for `RawLock`.
unsafe impl ExclusiveLock for Writing {
    fn is_consistent(words: &RawRwLock) -> bool {
        words.is_consistent()
    }

    fn mark_consistent(words: &RawRwLock) {
        words.mark_consistent();
    }

    fn take_to_reset<'a>(
        words: &'a RawRwLock,
        (): &(),
        site: &'a Site,
        me: Me,
        wait: Option<Deadline>,
    ) -> Result<&'a Site, Refusal> {
        match words.take_to_reset(me, &site.spin_wait, wait) {
            Ok(()) => Ok(site),
            Err(refused) => Err(Refusal::of(refused, me)),
        }
    }

    fn holder(words: &RawRwLock, registry: &'static Registry) -> Option<Holder> {
        words.writer().map(|token| Holder::of(registry, token))
    }
}

// SAFETY: as for `RawLock`; a second lock by the same thread is refused (`Deadlock`).
unsafe impl UniqueLock for Writing {}

impl<T: Shareable> RwLock<T> {
    /// Returns the options for opening a lock, or making one that guards this value.
    pub fn options(initial: T) -> LockOptions<RawRwLock, T> {
        LockOptions::new(Some(initial), None)
    }
}

impl<T> RwLock<T> {
    /// Sets how this handle waits.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.handle.site().spin_wait.set(wait);
    }

    /// Takes the lock to read, and waits as long as a living writer holds it or waits for it.
    ///
    /// # Errors
    /// [`LockError::OwnerDied`](super::LockError::OwnerDied) with a write guard inside: a writer
    /// died, and the caller has the lock as a writer, to repair what it left.
    /// [`LockError::Failed`](super::LockError::Failed) with [`AcquireError::NotRecoverable`];
    /// [`AcquireError::Deadlock`] when this thread writes, or reads already while a writer waits
    /// for that; [`AcquireError::Damaged`], [`AcquireError::System`].
    ///
    /// # If a process dies
    /// The writer's death ends the wait at once.
    #[inline]
    pub fn read(&self) -> Locked<'_, Reading, T> {
        self.take_for_ever()
    }

    /// Takes the lock to read; returns `None` while a living writer holds it or waits for it. Never
    /// waits.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    #[inline]
    pub fn try_read(&self) -> MaybeLocked<'_, Reading, T> {
        self.take(|| None)
    }

    /// Takes the lock to read, and waits for so long at most; returns `None` if a living writer
    /// still holds it then, or waits for it.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    ///
    /// # If a process dies
    /// The writer's death ends the wait at once.
    #[inline]
    pub fn read_timeout(&self, timeout: Duration) -> MaybeLocked<'_, Reading, T> {
        self.take(|| Some(Deadline::after(timeout)))
    }

    /// Takes the lock to read, and waits until the deadline; returns `None` if a living writer
    /// still holds it then, or waits for it.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    ///
    /// # If a process dies
    /// The writer's death ends the wait at once.
    #[inline]
    pub fn read_until(&self, deadline: Deadline) -> MaybeLocked<'_, Reading, T> {
        self.take(|| Some(deadline))
    }

    /// Takes the lock to write, and waits until no living thread reads or writes. New readers wait
    /// meanwhile.
    ///
    /// # Errors
    /// [`LockError::OwnerDied`](super::LockError::OwnerDied) with the guard inside;
    /// [`LockError::Failed`](super::LockError::Failed) with [`AcquireError::NotRecoverable`],
    /// [`AcquireError::Deadlock`] when this thread reads or writes already,
    /// [`AcquireError::Damaged`], or [`AcquireError::System`].
    ///
    /// # If a process dies
    /// A holder's death ends the wait at once.
    #[inline]
    pub fn write(&self) -> Locked<'_, Writing, T> {
        self.take_for_ever()
    }

    /// Takes the lock to write; returns `None` while a living thread reads or writes. Never waits.
    /// While it looks, it keeps new readers out: a `try_read` just then may return `None`.
    ///
    /// # Errors
    /// As [`RwLock::write`].
    pub fn try_write(&self) -> MaybeLocked<'_, Writing, T> {
        // Looked at first, so that a try which must fail keeps no reader out.
        self.take_looking()
    }

    /// Takes the lock to write, and waits for so long at most; returns `None` if a living thread
    /// still reads or writes then.
    ///
    /// # Errors
    /// As [`RwLock::write`].
    ///
    /// # If a process dies
    /// A holder's death ends the wait at once.
    #[inline]
    pub fn write_timeout(&self, timeout: Duration) -> MaybeLocked<'_, Writing, T> {
        self.take(|| Some(Deadline::after(timeout)))
    }

    /// Takes the lock to write, and waits until the deadline; returns `None` if a living thread
    /// still reads or writes then.
    ///
    /// # Errors
    /// As [`RwLock::write`].
    ///
    /// # If a process dies
    /// A holder's death ends the wait at once.
    #[inline]
    pub fn write_until(&self, deadline: Deadline) -> MaybeLocked<'_, Writing, T> {
        self.take(|| Some(deadline))
    }

    /// Makes a lock usable again that was marked not recoverable
    /// ([`AcquireError::NotRecoverable`]), with this value. No thread gets the lock before the
    /// value is in place. It waits as long as a living thread holds the lock.
    ///
    /// # Errors
    /// As [`RwLock::write_to_reset`].
    ///
    /// # If a process dies
    /// During this call: the lock is as it was, or the next locker gets
    /// [`LockError::OwnerDied`](super::LockError::OwnerDied).
    pub fn reset(&self, value: T) -> Result<(), AcquireError> {
        self.write_to_reset()?.reset(value);
        Ok(())
    }

    /// Takes the lock to write in whatever state it is, recoverable or not, as if its writer had
    /// just died. The caller repairs the value and [marks it
    /// consistent](super::WriteGuard::mark_consistent).
    ///
    /// # Errors
    /// Those of [`RwLock::write`] that keep the caller from having the lock, but for
    /// [`AcquireError::NotRecoverable`].
    ///
    /// # If a process dies
    /// As with [`RwLock::reset`].
    pub fn write_to_reset(&self) -> Result<WriteGuard<'_, T>, AcquireError> {
        Deadline::never(|deadline| self.write_to_reset_until(deadline))
    }

    /// Takes the lock as [`RwLock::write_to_reset`] does, but never waits; returns `None` while a
    /// living thread reads or writes.
    ///
    /// # Errors
    /// As [`RwLock::write_to_reset`].
    pub fn try_write_to_reset(&self) -> Result<Option<WriteGuard<'_, T>>, AcquireError> {
        self.take_to_reset(None)
    }

    /// Takes the lock as [`RwLock::write_to_reset`] does, and waits for so long at most; returns
    /// `None` if a living thread still reads or writes then.
    ///
    /// # Errors
    /// As [`RwLock::write_to_reset`].
    pub fn write_to_reset_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Option<WriteGuard<'_, T>>, AcquireError> {
        self.take_to_reset(Some(Deadline::after(timeout)))
    }

    /// Takes the lock as [`RwLock::write_to_reset`] does, and waits until the deadline; returns
    /// `None` if a living thread still reads or writes then.
    ///
    /// # Errors
    /// As [`RwLock::write_to_reset`].
    pub fn write_to_reset_until(
        &self,
        deadline: Deadline,
    ) -> Result<Option<WriteGuard<'_, T>>, AcquireError> {
        self.take_to_reset(Some(deadline))
    }

    /// Returns the threads that hold the lock just now: one writer, or any number of readers, the
    /// upgradable one first. A writer beside readers waits for them.
    pub fn holders(&self) -> Vec<Holder> {
        holders(self.handle.shared(), self.handle.site().registry)
    }
}

impl<'a, T, K> WriteGuard<'a, T, K> {
    /// Returns the thread, if what the lock guards is whole, so that readers may see it.
    pub(super) fn may_downgrade(&self) -> Option<Me> {
        self.hold.owner().filter(|_| !self.owner_died())
    }

    /// Becomes a reader. No thread writes in between; other readers may enter at once.
    ///
    /// # Errors
    /// This guard, if it came with [`LockError::OwnerDied`](super::LockError::OwnerDied) and was
    /// not marked consistent: readers may not see that value.
    ///
    /// # If a process dies
    /// During this call: as for a reader, so no locker is told.
    pub fn downgrade(self) -> Result<ReadGuard<'a, T, K>, WriteGuard<'a, T, K>> {
        let Some(me) = self.may_downgrade() else {
            return Err(self);
        };
        let Guard { value, hold, keep, .. } = self;
        let (words, site) = (hold.words, hold.held);
        hold.forget();
        let word = words.downgrade(me);
        // SAFETY: this guard's promise holds for the new one, and this thread reads.
        Ok(unsafe { ReadGuard::new(words, value, me, ReadHold { word, site }) }.keeping(keep))
    }
}

fn holders(raw: &RawRwLock, registry: &'static Registry) -> Vec<Holder> {
    raw.writer().into_iter().chain(raw.readers()).map(|token| Holder::of(registry, token)).collect()
}

impl Inspect for RawRwLock {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        let upgradable = u64::from(self.is_shared());
        let readers = self.readers().len() as u64 + upgradable;
        let writes = upgradable == 0 && self.writer().is_some();
        let plural = if readers == 1 { "" } else { "s" };
        LockDetail {
            state: match (readers, writes) {
                (0, _) => None,
                _ if upgradable != 0 => {
                    Some(format!("held by {readers} reader{plural}, one of them upgradable"))
                }
                (_, false) => Some(format!("held by {readers} reader{plural}")),
                (_, true) => Some(format!("held by {readers} reader{plural}, a writer waits")),
            },
            holders: holders(self, registry),
            not_recoverable: self.is_not_recoverable(),
            figures: vec![("readers", readers), ("depth", u64::from(self.depth()))],
        }
    }

    fn sweep(&self, me: Me, dry_run: bool) -> u32 {
        RawRwLock::sweep(self, me, dry_run)
    }
}
