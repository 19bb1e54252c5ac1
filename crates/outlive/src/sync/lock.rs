//! Locks of every kind with the value they guard: the words of one lie at the head of a file of
//! their own, or in a record (`embedded.rs`), and the value behind them.
//!
//! A kind of lock adds its words (`raw/`), what its handles keep, and how a thread takes and leaves
//! them (`raw_lock.rs`): see `mutex.rs`.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::time::Duration;

use super::embedded::InRecord;
use super::error::{AcquireError, LockError};
use super::guard::Guard;
use super::primitive::{Handle, Sited, TypeOf};
use super::raw_lock::{
    ExclusiveLock, Fast, Guards, LockWords, RawLock, Refusal, Site, Taken, UniqueLock,
};
use super::wait_probes::{note_taken, note_wait};
use super::{Holder, order};
use crate::domain::{agree, three_openings};
use crate::liveness::{Me, TokenId};
use crate::segment::{Header, Opening, Segment, SharedLayout};
use crate::shim::AtomicU32;
use crate::{Deadline, Domain, Error, WaitStrategy};

/// What locking returns: the guard, or why there is none, or a guard for a repair.
pub type Locked<'a, R, T> =
    Result<Guard<'a, R, T>, LockError<Guard<'a, <R as RawLock>::Repairing, T>>>;

/// What locking returns that does not wait for ever: `None` while a living thread has the lock.
pub type MaybeLocked<'a, R, T> =
    Result<Option<Guard<'a, R, T>>, LockError<Guard<'a, <R as RawLock>::Repairing, T>>>;

/// The body of a named primitive with a value, which begins in the next cache line.
#[repr(C)]
pub(super) struct Named<P, T> {
    pub(super) words: Line<P>,
    pub(super) value: UnsafeCell<T>,
}

#[repr(C, align(64))]
pub(super) struct Line<P>(pub(super) P);

// SAFETY: the words are `SharedLayout`; the value is of any bytes, and reached as the primitive
// allows: `InRecord` says that of a primitive with a name, too.
unsafe impl<P: InRecord<T>, T> SharedLayout for Named<P, T> {}

/// Guards a value, shared by name between processes: a [`Mutex`](super::Mutex), a
/// [`PiMutex`](super::PiMutex), a [`CeilingMutex`](super::CeilingMutex), a
/// [`ReentrantMutex`](super::ReentrantMutex), or an [`RwLock`](super::RwLock), which say more.
pub struct Lock<P: LockWords, T> {
    pub(super) handle: Handle<P>,
    pub(super) local: P::Local,
    value: NonNull<UnsafeCell<T>>,
}

// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock; `Guards`
// says that such a value may be shared so.
unsafe impl<P: Guards<T>, T> Send for Lock<P, T> {}
// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock; `Guards`
// says that such a value may be shared so.
unsafe impl<P: Guards<T>, T> Sync for Lock<P, T> {}

/// Says how to open a lock, or make one with a value: see [`Mutex::options`](super::Mutex::options)
/// and the like.
#[derive(Clone, Debug)]
#[must_use]
pub struct LockOptions<P, T> {
    /// The value that the maker puts there; `None`: the lock must exist.
    initial: Option<T>,
    /// The ceiling of a mutex that has one; `None`: any.
    number: Option<u32>,
    wait: Option<WaitStrategy>,
    words: PhantomData<fn() -> P>,
}

impl<P: Guards<T>, T> LockOptions<P, T> {
    pub(super) fn new(initial: Option<T>, number: Option<u32>) -> LockOptions<P, T> {
        LockOptions { initial, number, wait: None, words: PhantomData }
    }

    /// Sets how this handle waits. A [`PiMutex`](super::PiMutex) and a
    /// [`CeilingMutex`](super::CeilingMutex) never spin, whatever is set.
    pub fn wait_strategy(mut self, wait: WaitStrategy) -> LockOptions<P, T> {
        self.wait = Some(wait);
        self
    }

    three_openings!(
        Lock<P, T>,
        "lock",
        "[`Error::OtherType`](crate::Error::OtherType) when it guards a value of another type;
        [`Error::OtherEnvironment`](crate::Error::OtherEnvironment) for a [`PiMutex`](crate::sync::PiMutex) of
        another pid namespace or C library;
        [`Error::InvalidOption`](crate::Error::InvalidOption) for a ceiling that is no priority."
    );

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<Lock<P, T>, Error> {
        if let Some(number) = self.number {
            P::check(number)?;
        }
        let init = |named: &mut Named<P, T>, _: &Header, _: &[AtomicU32]| {
            named.words.0.note(self.number.unwrap_or(0));
            if let Some(initial) = &self.initial {
                // SAFETY: `Guards` says that a copy of `initial`'s bytes is a second, independent
                // value.
                *named.value.get_mut() = unsafe { core::ptr::read(initial) };
            }
        };
        let kind = P::KINDS[0];
        let of = (kind, TypeOf::a::<T>());
        // Before it is kept, so that an error leaves nothing mapped.
        let prepare = |named: &Named<P, T>, segment: &Segment| {
            let words = &named.words.0;
            agree(segment, "ceiling", words.noted(), self.number)?;
            words.local(domain.registry(), segment)
        };
        let (handle, local) = Handle::open_prepared(domain, name, opening, of, 0, init, prepare)?;
        let handle = P::keep(handle);
        let value = NonNull::from(&handle.shared().value);
        // SAFETY: the value lies behind the words in the same file.
        let lock = unsafe { Lock::of(handle.part(|named| &named.words.0), value, local) };
        if let Some(wait) = self.wait.filter(|_| P::SPINS) {
            lock.handle.site().spin_wait.set(wait);
        }
        Ok(lock)
    }
}

impl<P: Guards<T>, T> Lock<P, T> {
    /// Opens the existing lock of that name.
    ///
    /// # Errors
    /// As [`LockOptions::open`].
    pub fn open(domain: &Domain, name: &str) -> Result<Lock<P, T>, Error> {
        LockOptions::new(None, None).open(domain, name)
    }

    /// Makes a handle of words and the value that they guard.
    ///
    /// # Safety
    /// `value` lies in the same mapping as the words and is what they guard, or `T` has no bytes.
    pub(super) unsafe fn of(
        handle: Handle<P>,
        value: NonNull<UnsafeCell<T>>,
        local: P::Local,
    ) -> Lock<P, T> {
        if !P::SPINS {
            handle.site().spin_wait.set(WaitStrategy::Block);
        }
        Lock { handle, local, value }
    }
}

impl<P: LockWords, T> Sited for Lock<P, T> {
    fn site(&self) -> &Site {
        self.handle.site()
    }
}

impl<P: LockWords, T> Lock<P, T> {
    /// Takes the lock in one of its ways.
    #[inline]
    pub(super) fn take<R: RawLock<Words = P>>(
        &self,
        wait: impl FnOnce() -> Option<Deadline>,
    ) -> MaybeLocked<'_, R, T> {
        let (local, site) = (&self.local, self.handle.site());
        // SAFETY: the lock guards the value beside it, and the handle keeps both mapped.
        unsafe { take(self.handle.shared(), local, site, self.value.cast(), wait) }
    }

    /// Takes the lock in one of its ways without the fast path, and never waits.
    pub(super) fn take_looking<R: RawLock<Words = P>>(&self) -> MaybeLocked<'_, R, T> {
        let (local, site) = (&self.local, self.handle.site());
        // SAFETY: the lock guards the value beside it, and the handle keeps both mapped.
        unsafe { take_slow(self.handle.shared(), local, site, self.value.cast(), Fast::Busy, None) }
    }

    /// Takes the lock in one of its ways, and waits for ever.
    #[inline]
    pub(super) fn take_for_ever<R: RawLock<Words = P>>(&self) -> Locked<'_, R, T> {
        let (local, site) = (&self.local, self.handle.site());
        // SAFETY: the lock guards the value beside it, and the handle keeps both mapped.
        unsafe { take_for_ever(self.handle.shared(), local, site, self.value.cast()) }
    }

    /// Takes the lock in whatever state it is.
    pub(super) fn take_to_reset<R: ExclusiveLock<Words = P>>(
        &self,
        wait: Option<Deadline>,
    ) -> Result<Option<Guard<'_, R, T>>, AcquireError> {
        let (local, site) = (&self.local, self.handle.site());
        let words = self.handle.shared();
        let me = site.registry.me().map_err(AcquireError::System)?;
        let wait = wait.filter(|deadline| !deadline.has_passed());
        let take = || R::take_to_reset(words, local, site, me, wait);
        match order::watched(me, &site.segment, words, wait.is_some(), take) {
            // SAFETY: the lock guards the value beside it, the handle keeps both mapped, and this
            // thread holds the lock.
            Ok(held) => Ok(Some(unsafe { Guard::new(words, self.value.cast(), me, held) })),
            Err(Refusal::Busy) => Ok(None),
            Err(Refusal::Failed(error)) => Err(error),
        }
    }

    /// Returns where the value lies.
    pub(super) fn value(&self) -> NonNull<T> {
        // `UnsafeCell<T>` has the layout of `T`.
        self.value.cast()
    }
}

/// Tries the fast path: returns the calling thread as far as it is known, and what it found.
#[inline]
fn try_fast<'a, R: RawLock>(
    words: &'a R::Words,
    local: &'a <R::Words as LockWords>::Local,
    site: &'a Site,
) -> (Me, Fast<R::Held<'a>>) {
    let registry = site.registry;
    let bits = registry.fast_bits();
    let me = Me { registry, id: TokenId::from_own(bits) };
    (me, if bits == 0 { Fast::Busy } else { R::try_fast(words, local, site, me) })
}

/// Takes the lock, and makes the guard of the value; waits until the deadline, or never.
///
/// # Safety
/// `value` is what `words` guard: valid for `'a`, and touched by lock holders only.
#[inline]
pub(super) unsafe fn take<'a, R: RawLock, T>(
    words: &'a R::Words,
    local: &'a <R::Words as LockWords>::Local,
    site: &'a Site,
    value: NonNull<T>,
    wait: impl FnOnce() -> Option<Deadline>,
) -> MaybeLocked<'a, R, T> {
    let (me, seen) = try_fast::<R>(words, local, site);
    if let Fast::Clean(held) = seen {
        // SAFETY: the caller promises that `words` guard `value`, and this thread has just taken
        // the lock.
        return Ok(Some(unsafe { Guard::new(words, value, me, held) }));
    }
    // SAFETY: the caller's promise.
    unsafe { take_slow(words, local, site, value, seen, wait()) }
}

/// Takes the lock, and makes the guard of the value; waits for ever.
///
/// It repeats the first half of [`take`]: with one half for both, whose guard the callers wrap
/// again, a read lock took 80 instructions in place of 51.
///
/// # Safety
/// As for [`take`].
#[inline]
pub(super) unsafe fn take_for_ever<'a, R: RawLock, T>(
    words: &'a R::Words,
    local: &'a <R::Words as LockWords>::Local,
    site: &'a Site,
    value: NonNull<T>,
) -> Locked<'a, R, T> {
    let (me, seen) = try_fast::<R>(words, local, site);
    if let Fast::Clean(held) = seen {
        // SAFETY: the caller promises that `words` guard `value`, and this thread has just taken
        // the lock.
        return Ok(unsafe { Guard::new(words, value, me, held) });
    }
    // SAFETY: the caller's promise.
    unsafe { take_for_ever_slow(words, local, site, value, seen) }
}

/// Takes the lock as [`take_slow`] does, without a deadline.
///
/// # Safety
/// As for [`take`].
#[cold]
#[inline(never)]
unsafe fn take_for_ever_slow<'a, R: RawLock, T>(
    words: &'a R::Words,
    local: &'a <R::Words as LockWords>::Local,
    site: &'a Site,
    value: NonNull<T>,
    mut seen: Fast<R::Held<'a>>,
) -> Locked<'a, R, T> {
    Deadline::never(|deadline| {
        let seen = core::mem::replace(&mut seen, Fast::Busy);
        // SAFETY: the caller's promise.
        unsafe { take_slow(words, local, site, value, seen, Some(deadline)) }
    })
}

/// Takes the lock after the fast path: for a thread without a token, a lock that is taken or whose
/// state has to be reported, and a process that records the order of locks.
///
/// # Safety
/// As for [`take`].
#[cold]
#[inline(never)]
pub(super) unsafe fn take_slow<'a, R: RawLock, T>(
    words: &'a R::Words,
    local: &'a <R::Words as LockWords>::Local,
    site: &'a Site,
    value: NonNull<T>,
    seen: Fast<R::Held<'a>>,
    wait: Option<Deadline>,
) -> MaybeLocked<'a, R, T> {
    let me = site.registry.me().map_err(AcquireError::System)?;
    // A moment that has passed: one look, as `try_lock` takes.
    let wait = wait.filter(|deadline| !deadline.has_passed());
    let take = || R::lock_slow(words, local, site, me, seen, wait);
    let waits = wait.is_some() && !R::is_held_again(words, me);
    let before = note_wait(words, site, me, waits);
    let taken = order::watched(me, &site.segment, words, waits, take);
    note_taken(words, site, before, &taken);
    match taken {
        // SAFETY: the caller promises that `words` guard `value`, and this thread has just taken
        // the lock.
        Ok(Taken::Clean(held)) => Ok(Some(unsafe { Guard::new(words, value, me, held) })),
        Ok(Taken::OwnerDied(held)) => {
            // SAFETY: the caller's promise, and this thread has taken the lock from a dead owner.
            Err(LockError::OwnerDied(unsafe { Guard::new(words, value, me, held) }))
        }
        Err(Refusal::Busy) => Ok(None),
        Err(Refusal::Failed(error)) => Err(LockError::Failed(error)),
    }
}

impl<P, T> Lock<P, T>
where
    P: LockWords + ExclusiveLock<Words = P>,
{
    /// Takes the lock, waiting as long as a living owner holds it.
    ///
    /// # Errors
    /// [`LockError::OwnerDied`] with the guard inside; [`LockError::Failed`] with
    /// [`AcquireError::NotRecoverable`], [`AcquireError::Deadlock`] when this thread holds the lock
    /// already (it takes a [`ReentrantMutex`](super::ReentrantMutex) once more, at most
    /// 4,294,967,295 times: [`AcquireError::Full`]), [`AcquireError::AboveCeiling`] when its own
    /// priority is higher than a [`CeilingMutex`](super::CeilingMutex)'s ceiling,
    /// [`AcquireError::Damaged`], or [`AcquireError::System`].
    ///
    /// # If a process dies
    /// The owner's death ends the wait at once.
    #[inline]
    pub fn lock(&self) -> Locked<'_, P, T> {
        self.take_for_ever()
    }

    /// Takes the lock if it is free, or its owner is dead; returns `None` while a living thread
    /// holds it. Never waits.
    ///
    /// # Errors
    /// As [`Lock::lock`].
    #[inline]
    pub fn try_lock(&self) -> MaybeLocked<'_, P, T> {
        self.take(|| None)
    }

    /// Takes the lock, and waits for so long at most; returns `None` if a living thread still holds
    /// it then.
    ///
    /// # Errors
    /// As [`Lock::lock`].
    ///
    /// # If a process dies
    /// The owner's death ends the wait at once.
    #[inline]
    pub fn lock_timeout(&self, timeout: Duration) -> MaybeLocked<'_, P, T> {
        self.take(|| Some(Deadline::after(timeout)))
    }

    /// Takes the lock, and waits until the deadline; returns `None` if a living thread still holds
    /// it then.
    ///
    /// # Errors
    /// As [`Lock::lock`].
    ///
    /// # If a process dies
    /// The owner's death ends the wait at once.
    #[inline]
    pub fn lock_until(&self, deadline: Deadline) -> MaybeLocked<'_, P, T> {
        self.take(|| Some(deadline))
    }

    /// Makes a lock usable again that was marked not recoverable
    /// ([`AcquireError::NotRecoverable`]), with this value. No thread gets the lock before the
    /// value is in place. It waits as long as a living owner holds the lock.
    ///
    /// # Errors
    /// As [`Lock::lock_to_reset`].
    ///
    /// # If a process dies
    /// During this call: the lock stays not recoverable, or the next locker gets
    /// [`LockError::OwnerDied`].
    pub fn reset(&self, value: T) -> Result<(), AcquireError>
    where
        P: UniqueLock,
    {
        self.lock_to_reset()?.reset(value);
        Ok(())
    }

    /// Takes the lock in whatever state it is, recoverable or not, as if its owner had just died.
    /// The caller repairs the value and [marks it consistent](super::MutexGuard::mark_consistent).
    /// If it drops the guard without that, a lock that was not recoverable stays so.
    ///
    /// # Errors
    /// Those of [`Lock::lock`] that keep the caller from having the lock, but for
    /// [`AcquireError::NotRecoverable`].
    ///
    /// # If a process dies
    /// As with [`Lock::reset`].
    pub fn lock_to_reset(&self) -> Result<Guard<'_, P, T>, AcquireError> {
        Deadline::never(|deadline| self.lock_to_reset_until(deadline))
    }

    /// Takes the lock as [`Lock::lock_to_reset`] does, but never waits; returns `None` while a
    /// living thread holds it.
    ///
    /// # Errors
    /// As [`Lock::lock_to_reset`].
    pub fn try_lock_to_reset(&self) -> Result<Option<Guard<'_, P, T>>, AcquireError> {
        self.take_to_reset(None)
    }

    /// Takes the lock as [`Lock::lock_to_reset`] does, and waits for so long at most; returns
    /// `None` if a living thread still holds it then.
    ///
    /// # Errors
    /// As [`Lock::lock_to_reset`].
    pub fn lock_to_reset_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Option<Guard<'_, P, T>>, AcquireError> {
        self.take_to_reset(Some(Deadline::after(timeout)))
    }

    /// Takes the lock as [`Lock::lock_to_reset`] does, and waits until the deadline; returns `None`
    /// if a living thread still holds it then.
    ///
    /// # Errors
    /// As [`Lock::lock_to_reset`].
    pub fn lock_to_reset_until(
        &self,
        deadline: Deadline,
    ) -> Result<Option<Guard<'_, P, T>>, AcquireError> {
        self.take_to_reset(Some(deadline))
    }

    /// Returns the thread that holds the lock just now, dead or alive.
    pub fn holder(&self) -> Option<Holder> {
        P::holder(self.handle.shared(), self.handle.site().registry)
    }
}
