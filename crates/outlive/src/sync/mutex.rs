//! A mutex with the value it guards.

use std::ptr::NonNull;

use super::Holder;
use super::embedded::Embedded;
use super::error::LockError;
use super::guard::{Guard, KEPT, UNWINDING};
use super::lock::{Lock, LockOptions, take_slow};
use super::primitive::{Inspect, LockDetail, Primitive};
use super::raw::mutex::RawMutex;
use super::raw_lock::{
    CondvarLock, ExclusiveLock, Fast, Guards, Leaving, LockWords, RawLock, Refusal, Site, Taken,
    UniqueLock, taken,
};
use crate::liveness::{Me, Registry, TokenId};
use crate::{Deadline, Kind, Plain, WaitStrategy};

/// Guards a value, shared by name between processes, and survives the death of its owner.
///
/// It costs as much as a plain mutex: one compare-exchange to lock, one swap to unlock, and no
/// system call unless a thread waits. It is not fair: a running thread may take the lock before a
/// woken one. A named mutex takes 8 KiB of memory, which includes a value of up to 4,032 bytes.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-mutex-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::{LockError, Mutex};
///
/// let total = Mutex::<u64>::options(0).open_or_create(&domain, "total")?;
/// match total.lock() {
///     Ok(mut value) => *value += 1,
///     Err(LockError::OwnerDied(mut value)) => {
///         // A process was killed while it held the lock. A number is whole in any case.
///         *value += 1;
///         value.mark_consistent();
///     }
///     Err(other) => panic!("{other}"),
/// }
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// While it holds the lock: the next locker gets [`LockError::OwnerDied`], even if it slept
/// already; and so does each after it, until one [marks the value
/// consistent](MutexGuard::mark_consistent), [marks the lock not
/// recoverable](MutexGuard::mark_not_recoverable) or resets it. While it waits: other threads are
/// not affected. While it holds several locks: each of them reports the death. A panic counts as a
/// death: see [`MutexGuard`](MutexGuard#if-it-panics).
pub type Mutex<T> = Lock<RawMutex, T>;

/// Gives exclusive access to what a [`Mutex`] guards, and unlocks the mutex when dropped.
///
/// A guard stays with its thread, because the lock names the thread as its owner. In a forked
/// child, a guard of the parent's has no effect.
///
/// # If a process dies
/// The next locker gets [`LockError::OwnerDied`] with a guard.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it counts as a death, because it
/// may leave the value half-written: the next locker gets [`LockError::OwnerDied`]. A guard that a
/// destructor takes while its thread is already unwinding unlocks as usual.
pub type MutexGuard<'a, T, K = ()> = Guard<'a, RawMutex, T, K>;

/// Embeds a mutex and its value as a field of a [`record!`](crate::record). It takes 8 bytes and
/// the value.
///
/// All zeroes are an unlocked mutex around a zeroed value.
/// [`Record::handle`](super::Record::handle) returns the [`Mutex`] that uses it.
pub type EmbeddedMutex<T> = Embedded<RawMutex, T>;

const _: () = assert!(size_of::<EmbeddedMutex<u64>>() == 16);

impl Primitive for RawMutex {
    const KINDS: &[Kind] = &[Kind::Mutex];
}

impl LockWords for RawMutex {
    type Local = ();
}

// SAFETY: `Plain`: any bytes are a value, and a guard is the only one.
unsafe impl<T: Plain> Guards<T> for RawMutex {}

// SAFETY: one thread at a time has its token in the word (claim/word.rs), from the moment that it
// takes the word to the moment that it leaves it.
unsafe impl RawLock for RawMutex {
    type Words = RawMutex;
    type Repairing = RawMutex;
    type Held<'a> = ();
    const EXCLUSIVE: bool = true;

    #[inline]
    fn try_fast(words: &RawMutex, (): &(), _: &Site, me: Me) -> Fast<()> {
        match words.acquire(me.id) {
            false => Fast::Busy,
            true if words.is_consistent() => Fast::Clean(()),
            true => Fast::Look(()),
        }
    }

    fn lock_slow<'a>(
        words: &'a RawMutex,
        (): &(),
        site: &'a Site,
        me: Me,
        seen: Fast<()>,
        wait: Option<Deadline>,
    ) -> Result<Taken<'a, RawMutex>, Refusal> {
        let got = match (seen, wait) {
            (Fast::Busy, Some(deadline)) => words.lock(me, &site.spin_wait, deadline),
            (Fast::Busy, None) => words.try_lock(me),
            _ => words.entered(me),
        };
        match got {
            Ok(got) => Ok(taken(got, ())),
            Err(refused) => Err(Refusal::of(refused, me)),
        }
    }

    #[inline]
    fn unlock(words: &RawMutex, me: Me, (): (), how: Leaving) {
        match how {
            Leaving::Finished => words.release(me.id),
            Leaving::Unfinished => words.release_unfinished(me.id),
            Leaving::NotRecoverable => words.mark_not_recoverable(me.id),
        }
    }
}

// SAFETY: as for `RawLock`.
unsafe impl ExclusiveLock for RawMutex {
    fn is_consistent(words: &RawMutex) -> bool {
        words.is_consistent()
    }

    fn mark_consistent(words: &RawMutex) {
        words.mark_consistent();
    }

    fn take_to_reset(
        words: &RawMutex,
        (): &(),
        site: &Site,
        me: Me,
        wait: Option<Deadline>,
    ) -> Result<(), Refusal> {
        words.take_to_reset(me, &site.spin_wait, wait).map_err(|refused| Refusal::of(refused, me))
    }

    fn holder(words: &RawMutex, registry: &'static Registry) -> Option<Holder> {
        words.owner().map(|token| Holder::of(registry, token))
    }
}

// SAFETY: as for `RawLock`; a second lock by the same thread is refused (`Deadlock`).
unsafe impl UniqueLock for RawMutex {}

impl CondvarLock for RawMutex {
    const TAKES_LIST: bool = false;
    type Relock<'a> = &'a RawMutex;

    fn relock<'a>(words: &'a RawMutex, (): ()) -> &'a RawMutex {
        words
    }
}

impl<T: Plain> Mutex<T> {
    /// Returns the options for opening a mutex, or making one that guards this value.
    pub fn options(initial: T) -> LockOptions<RawMutex, T> {
        LockOptions::new(Some(initial), None)
    }
}

impl<T> Mutex<T> {
    /// Sets how this handle waits.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.handle.site().spin_wait.set(wait);
    }

    /// Makes a guard of the number that [`MutexGuard::into_raw`] returned. Returns `None`, and does
    /// nothing, when the number is 0 or another thread's.
    ///
    /// # Safety
    /// `raw` is 0, or came from a guard of this mutex, and the thread that it names has made no
    /// guard of it since.
    #[inline]
    pub unsafe fn guard_from_raw(&self, raw: u32) -> Option<MutexGuard<'_, T>> {
        // SAFETY: the lock guards the value beside it, the handle keeps both mapped; the caller
        // promises the rest.
        unsafe {
            let (words, registry) = (self.handle.shared(), self.handle.site().registry);
            MutexGuard::resumed(words, self.value(), registry, raw)
        }
    }

    /// Does the first half of [`Mutex::lock`], which makes no call; bindings use it to keep their
    /// functions short. On `Err`, call [`Mutex::lock_rest`] at once: the lock may be taken already.
    #[doc(hidden)]
    #[inline]
    pub fn lock_fast(&self) -> Result<MutexGuard<'_, T>, Halfway> {
        let (words, site) = (self.handle.shared(), self.handle.site());
        let bits = site.registry.fast_bits();
        let me = Me { registry: site.registry, id: TokenId::from_own(bits) };
        let seen = if bits == 0 { Fast::Busy } else { RawMutex::try_fast(words, &(), site, me) };
        match seen {
            // SAFETY: the lock guards the value beside it, the handle keeps both mapped, and this
            // thread holds the lock.
            Fast::Clean(()) => Ok(unsafe { MutexGuard::new(words, self.value(), me, ()) }),
            seen => Err(Halfway(matches!(seen, Fast::Look(())))),
        }
    }

    /// Does the second half of [`Mutex::lock`].
    #[doc(hidden)]
    pub fn lock_rest(
        &self,
        halfway: Halfway,
        deadline: Deadline,
    ) -> Result<Option<MutexGuard<'_, T>>, LockError<MutexGuard<'_, T>>> {
        let seen = if halfway.0 { Fast::Look(()) } else { Fast::Busy };
        let (words, site) = (self.handle.shared(), self.handle.site());
        // SAFETY: the lock guards the value beside it, and the handle keeps both mapped.
        unsafe { take_slow::<RawMutex, T>(words, &(), site, self.value(), seen, Some(deadline)) }
    }

    /// Gives the lock back whose guard's raw form is in `held`, as [`Mutex::guard_from_raw`] and a
    /// drop do, if that takes no call. Returns false, and does nothing, if it would take one.
    ///
    /// # Safety
    /// As for [`Mutex::guard_from_raw`].
    #[doc(hidden)]
    #[inline]
    pub unsafe fn unlock_fast(&self, held: &core::sync::atomic::AtomicU32) -> bool {
        // Relaxed, both: only the lock's holder writes there, and no other thread's number is ours.
        let raw = held.load(core::sync::atomic::Ordering::Relaxed);
        let is_ours = raw != 0 && raw == self.handle.site().registry.fast_bits();
        if is_ours {
            held.store(0, core::sync::atomic::Ordering::Relaxed);
            // Whatever the lock's state: the next locker is told of it.
            self.handle.shared().release(TokenId::from_own(raw));
        }
        is_ours
    }
}

/// Says whether the first half has taken the lock, with the death of its last owner still to be
/// reported.
#[doc(hidden)]
#[derive(Debug)]
#[must_use = "the lock may be taken"]
pub struct Halfway(bool);

impl<'a, T> MutexGuard<'a, T> {
    /// Makes the guard again that [`MutexGuard::into_raw`] gave up, if it is of the calling thread.
    ///
    /// # Safety
    /// As for [`Guard::new`]; `bits` came from a guard of this lock, and no guard was made of them
    /// since.
    #[inline]
    unsafe fn resumed(
        raw: &'a RawMutex,
        value: NonNull<T>,
        registry: &'static Registry,
        bits: u32,
    ) -> Option<MutexGuard<'a, T>> {
        let mine = bits != 0 && bits & !(KEPT | UNWINDING) == registry.current_bits();
        let me = Me { registry, id: TokenId::from_own(bits & !UNWINDING) };
        // Lazily: a guard made and dropped here would give the lock back for a thread without a
        // token, whose number is 0 as well.
        // SAFETY: the caller promises that `bits` came from a guard of this lock and `raw` guards
        // `value`. A panic before this does not count, as with a guard taken just now.
        mine.then(|| unsafe { MutexGuard::new(raw, value, me, ()) })
    }
}

impl<'a, T, K> MutexGuard<'a, T, K> {
    /// Gives the guard up without unlocking, for bindings to languages without guards.
    /// [`Mutex::guard_from_raw`](super::Mutex::guard_from_raw) makes a guard again of the number
    /// returned, which is never 0. A panic in between is not reported.
    ///
    /// # If a process dies
    /// As while a guard is held.
    #[inline]
    pub fn into_raw(self) -> u32 {
        let bits = self.hold.me.id.as_u32();
        self.hold.forget();
        bits
    }
}

impl Inspect for RawMutex {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        LockDetail {
            holders: RawMutex::holder(self, registry).into_iter().collect(),
            not_recoverable: self.is_not_recoverable(),
            ..LockDetail::default()
        }
    }

    fn sweep(&self, me: Me, dry_run: bool) -> u32 {
        u32::from(RawMutex::sweep(self, me, dry_run))
    }
}
