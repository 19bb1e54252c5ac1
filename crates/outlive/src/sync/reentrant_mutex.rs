//! A mutex that its holder may lock again, as users see it. `raw/reentrant.rs` holds the state
//! machine.

use super::Holder;
use super::embedded::Embedded;
use super::guard::Guard;
use super::lock::{Lock, LockOptions};
use super::mapped::MappedGuard;
use super::primitive::{Inspect, LockDetail, Primitive};
use super::raw::mutex::RawMutex;
use super::raw::reentrant::{AllLevels, RawReentrant};
use super::raw_lock::{
    CondvarLock, ExclusiveLock, Fast, Guards, Leaving, LockWords, RawLock, Refusal, Site, Taken,
    taken,
};
use crate::liveness::{Me, Registry};
use crate::{Deadline, Kind, WaitStrategy};

/// Guards a value, shared by name between processes; the thread that holds it may lock it again.
///
/// It unlocks when as many guards are dropped as were taken, in whatever order. Since a thread can
/// have several guards, a guard gives `&T` alone: what is to be changed is in a
/// [`Cell`](std::cell::Cell), or an atomic. It survives the death of its owner, as
/// [`Mutex`](super::Mutex) does, and costs one store more. How often it has been locked lies in
/// shared memory, so it does not matter by which handle of a process the thread locks it.
///
/// Prefer a [`Mutex`](super::Mutex) where functions that need the lock can take its guard: a
/// function that locks again may find a change of its caller's half-made.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-reentrant-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::{AcquireError, LockError, ReentrantMutex};
/// use std::cell::Cell;
///
/// fn add(total: &ReentrantMutex<Cell<u64>>, more: u64) -> Result<(), AcquireError> {
///     let held = match total.lock() {
///         Ok(held) => held,
///         Err(LockError::OwnerDied(mut held)) => {
///             // A process was killed while it held the lock. A number is whole in any case.
///             held.mark_consistent();
///             held
///         }
///         Err(LockError::Failed(error)) => return Err(error),
///         Err(other) => panic!("{other}"),
///     };
///     held.set(held.get() + more);
///     Ok(())
/// }
/// let total = ReentrantMutex::options(Cell::new(0)).open_or_create(&domain, "total")?;
/// let held = total.lock().unwrap();
/// add(&total, 1)?;
/// add(&total, 2)?;
/// assert_eq!(held.get(), 3);
/// # drop(held);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// While it holds the lock, however often it has locked it: the next locker gets
/// [`LockError::OwnerDied`](super::LockError::OwnerDied) with one guard, even if it slept already.
/// When that thread locks again, it is not told again; when it unlocks without marking the value
/// consistent, the next locker is. While it waits: other threads are not affected.
pub type ReentrantMutex<T> = Lock<RawReentrant, T>;

/// Gives shared access to what a [`ReentrantMutex`] guards; the last guard of its thread to be
/// dropped unlocks the mutex.
///
/// A guard stays with its thread. In a forked child, a guard of the parent's has no effect.
/// A thread waits on a condition variable only with its one guard.
/// [`mark_not_recoverable`](Guard::mark_not_recoverable) refuses the lock to all lockers from then
/// on, also to this thread, which keeps it by its other guards. Their
/// [`mark_consistent`](Guard::mark_consistent) has no effect then: only a guard of
/// [`lock_to_reset`](ReentrantMutex::lock_to_reset) makes the lock usable again.
///
/// # If a process dies
/// The next locker gets [`LockError::OwnerDied`](super::LockError::OwnerDied) with a guard.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it counts as a death: see
/// [`MutexGuard`](super::MutexGuard#if-it-panics). If the thread catches the panic, an outer guard's
/// [`owner_died`](Guard::owner_died) is true from then on.
pub type ReentrantMutexGuard<'a, T, K = ()> = Guard<'a, RawReentrant, T, K>;

/// Embeds a [`ReentrantMutex`] and its value as a field of a [`record!`](crate::record). It takes 16
/// bytes and the value.
///
/// All zeroes are an unlocked mutex around a zeroed value.
/// [`Record::handle`](super::Record::handle) returns the [`ReentrantMutex`] that uses it.
pub type EmbeddedReentrantMutex<T> = Embedded<RawReentrant, T>;

const _: () = assert!(size_of::<EmbeddedReentrantMutex<u64>>() == 24);

impl Primitive for RawReentrant {
    const KINDS: &[Kind] = &[Kind::ReentrantMutex];
}

impl LockWords for RawReentrant {
    type Local = ();
}

// SAFETY: any bytes are a value (`FromBytes`), and a copy of a value's bytes is another value, since
// nothing that is `IntoBytes` owns memory. One thread at a time gets `&T`, so `Send` is enough.
unsafe impl<T: zerocopy::FromBytes + zerocopy::IntoBytes + Send + 'static> Guards<T>
    for RawReentrant
{
}

// SAFETY: one thread at a time has its token in the mutex's word, from the first lock to the last
// unlock; its guards give `&T` alone (no `UniqueLock`), and do not leave the thread.
unsafe impl RawLock for RawReentrant {
    type Words = RawReentrant;
    type Repairing = RawReentrant;
    type Held<'a> = ();
    const EXCLUSIVE: bool = true;

    #[inline]
    fn try_fast(words: &RawReentrant, (): &(), _: &Site, me: Me) -> Fast<()> {
        if words.acquire(me.id) {
            if words.mutex.is_consistent() { Fast::Clean(()) } else { Fast::Look(()) }
        } else if words.acquire_again(me.id) == Some(Ok(())) {
            Fast::Clean(())
        } else {
            Fast::Busy
        }
    }

    fn lock_slow<'a>(
        words: &'a RawReentrant,
        (): &(),
        site: &'a Site,
        me: Me,
        seen: Fast<()>,
        wait: Option<Deadline>,
    ) -> Result<Taken<'a, RawReentrant>, Refusal> {
        let got = match seen {
            Fast::Busy => words.lock(me, &site.spin_wait, wait),
            _ => words.mutex.entered(me),
        };
        match got {
            Ok(got) => Ok(taken(got, ())),
            Err(refused) => Err(Refusal::of(refused, me)),
        }
    }

    #[inline]
    fn unlock(words: &RawReentrant, me: Me, (): (), how: Leaving) {
        match how {
            Leaving::Finished => words.release(me.id),
            Leaving::Unfinished => words.release_unfinished(me.id),
            Leaving::NotRecoverable => words.mark_not_recoverable(me.id),
        }
    }

    fn is_held_again(words: &RawReentrant, me: Me) -> bool {
        words.mutex.is_held_by(me.id)
    }
}

// SAFETY: as for `RawLock`.
unsafe impl ExclusiveLock for RawReentrant {
    fn is_consistent(words: &RawReentrant) -> bool {
        words.mutex.is_consistent()
    }

    fn mark_consistent(words: &RawReentrant) {
        words.mutex.mark_consistent();
    }

    fn take_to_reset(
        words: &RawReentrant,
        (): &(),
        site: &Site,
        me: Me,
        wait: Option<Deadline>,
    ) -> Result<(), Refusal> {
        words.take_to_reset(me, &site.spin_wait, wait).map_err(|refused| Refusal::of(refused, me))
    }

    fn holder(words: &RawReentrant, registry: &'static Registry) -> Option<Holder> {
        <RawMutex as ExclusiveLock>::holder(&words.mutex, registry)
    }
}

impl CondvarLock for RawReentrant {
    const TAKES_LIST: bool = false;
    type Relock<'a> = AllLevels<'a>;

    fn has_outer_guards(words: &RawReentrant) -> bool {
        words.depth() > 1
    }

    fn relock<'a>(words: &'a RawReentrant, (): ()) -> AllLevels<'a> {
        AllLevels::of(words)
    }
}

impl<T: zerocopy::FromBytes + zerocopy::IntoBytes + Send + 'static> ReentrantMutex<T> {
    /// Returns the options for opening a mutex, or making one that guards this value.
    pub fn options(initial: T) -> LockOptions<RawReentrant, T> {
        LockOptions::new(Some(initial), None)
    }
}

impl<T> ReentrantMutex<T> {
    /// Sets how this handle waits.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.handle.site().spin_wait.set(wait);
    }

    /// Returns how often the calling thread has locked it and not unlocked it yet; 0 if it does not
    /// hold it.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-depth-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::ReentrantMutex;
    ///
    /// let tree = ReentrantMutex::options(()).open_or_create(&domain, "tree")?;
    /// let (outer, inner) = (tree.lock().unwrap(), tree.lock().unwrap());
    /// assert_eq!(tree.depth(), 2);
    /// drop((outer, inner));
    /// assert_eq!(tree.depth(), 0);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    pub fn depth(&self) -> u32 {
        let words = self.handle.shared();
        let is_mine = self.handle.me().is_ok_and(|me| words.mutex.is_held_by(me.id));
        if is_mine { words.depth() } else { 0 }
    }
}

impl<'a, T, K> ReentrantMutexGuard<'a, T, K> {
    /// Makes a guard of a part of the value, as [`MutexGuard::map`](super::MutexGuard::map) does.
    pub fn map<U: ?Sized>(
        guard: ReentrantMutexGuard<'a, T, K>,
        part: impl FnOnce(&T) -> &U,
    ) -> MappedGuard<'a, RawReentrant, U, K> {
        guard.mapped(part)
    }
}

impl Inspect for RawReentrant {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        let found = Inspect::look(&self.mutex, registry);
        let depth = if found.holders.is_empty() { 0 } else { self.depth() };
        LockDetail { figures: vec![("depth", u64::from(depth))], ..found }
    }

    fn sweep(&self, me: Me, dry_run: bool) -> u32 {
        Inspect::sweep(&self.mutex, me, dry_run)
    }
}
