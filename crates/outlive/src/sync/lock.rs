//! Locks of every kind with the value they guard: the words of one lie at the head of a file of
//! their own, or in a record (`embedded.rs`), and the value behind them.
//!
//! A kind of lock adds its words (`raw/`), what its handles keep ([`LockWords`]), and how a thread
//! takes and leaves them ([`RawLock`]): see `mutex.rs`.

use std::cell::UnsafeCell;
use std::convert::Infallible;
use std::ptr::NonNull;
use std::sync::Arc;

use super::guard::{Guard, LockError};
use super::primitive::{Home, Primitive, TypeOf};
use super::raw::Acquired;
use super::{Holder, order};
use crate::liveness::{Me, Registry, TokenId};
use crate::segment::{Segment, Shared};
use crate::wake::SpinWait;
use crate::{Deadline, Domain, Error};

/// Why a thread did not take a lock.
pub type Refusal = LockError<Infallible>;

/// Where a handle's words lie, whose tokens they name, and how the handle waits.
pub struct Site {
    pub(super) registry: &'static Registry,
    pub(super) segment: Arc<Segment>,
    pub(super) spin_wait: SpinWait,
}

/// The words of a lock, kept mapped, and what one handle has of its own.
pub(super) struct Handle<P: LockWords> {
    words: NonNull<P>,
    local: P::Local,
    site: Site,
}

// SAFETY: a handle gives no more than `&P`, and `P: Sync`.
unsafe impl<P: LockWords> Send for Handle<P> {}
// SAFETY: a handle gives no more than `&P`, and `P: Sync`.
unsafe impl<P: LockWords> Sync for Handle<P> {}

impl<P: LockWords> Handle<P> {
    pub(super) fn new(home: Home<P>, local: P::Local) -> Handle<P> {
        let (words, registry, segment) = home.into_parts();
        Handle { words, local, site: Site { registry, segment, spin_wait: P::spin_wait() } }
    }

    #[inline]
    pub(super) fn words(&self) -> &P {
        // SAFETY: `Home` got a checked place, and `segment` keeps it mapped.
        unsafe { self.words.as_ref() }
    }

    #[inline]
    pub(super) fn local(&self) -> &P::Local {
        &self.local
    }

    #[inline]
    pub(super) fn site(&self) -> &Site {
        &self.site
    }
}

/// The words of a lock that guards a value.
pub trait LockWords: Primitive + Sync {
    /// What each handle keeps besides, in its process's own memory.
    type Local: Send + Sync;

    /// Returns how a new handle waits.
    fn spin_wait() -> SpinWait {
        SpinWait::new()
    }

    /// Makes the handle's own part for a named lock.
    ///
    /// # Errors
    /// The error that keeps this process from using the lock.
    fn local(&self, registry: &'static Registry, segment: &Segment) -> Result<Self::Local, Error>;

    /// Makes the handle's own part for a lock inside a record, whose type says that number.
    fn embedded_local(&self, number: u32) -> Self::Local;

    /// Keeps the file mapped as long as the lock needs it: as long as a handle exists.
    fn keep<S>(home: Home<S>) -> Home<S> {
        home
    }
}

/// Says that threads of any process may share a `T` under such a lock.
///
/// # Safety
/// Every bit pattern of as many bytes is a `T`, whose copy is a second, independent value; and what
/// the lock's guards give to several threads at once is `Sync`.
pub unsafe trait Guards<T>: LockWords {}

/// What a thread found on the fast path of a lock.
pub enum Fast<H> {
    /// The thread has the lock, and what it guards is whole.
    Clean(H),
    /// The thread has the lock, and next looks at its state, or waits for others to leave it.
    Look(H),
    /// The lock is taken, or the fast path does not know.
    Busy,
}

/// How a thread took a lock.
pub enum Taken<'a, R: RawLock> {
    /// What the lock guards is whole.
    Clean(R::Held<'a>),
    /// The last owner died or panicked, and the caller has the lock to repair what it left.
    OwnerDied(<R::Repairing as RawLock>::Held<'a>),
}

/// How a thread leaves a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// In good order.
    Finished,
    /// A panic has interrupted the holder's change: the next locker is told, as of a death.
    Unfinished,
    /// Every later locker is refused, until a process resets the lock.
    GivenUp,
}

/// A way to hold a lock's words. The readers' and the writers' way are two of these for the same
/// words.
///
/// # Safety
/// As long as a thread holds the words, from `try_fast` or `lock_slow` to `unlock`, no other thread
/// writes what they guard; and if the way is exclusive, no other thread reads it.
pub unsafe trait RawLock: Sized + 'static {
    /// The words.
    type Words: LockWords;
    /// The way in which a thread holds the lock that is told of a death: as the only one.
    type Repairing: RawLock<Words = Self::Words>;
    /// What unlocking needs to know.
    type Held<'a>: Copy;
    /// Whether the holder may change what the lock guards: then its panic counts as a death.
    const EXCLUSIVE: bool;

    /// Takes the lock if that needs no call. `me` need not have been asked for by a system call.
    fn try_fast<'a>(
        words: &'a Self::Words,
        local: &'a <Self::Words as LockWords>::Local,
        site: &'a Site,
        me: Me,
    ) -> Fast<Self::Held<'a>>;

    /// Goes on from what `try_fast` found, and waits until the deadline; with `None` it never
    /// waits.
    ///
    /// # Errors
    /// The reason why the caller does not have the lock.
    fn lock_slow<'a>(
        words: &'a Self::Words,
        local: &'a <Self::Words as LockWords>::Local,
        site: &'a Site,
        me: Me,
        seen: Fast<Self::Held<'a>>,
        wait: Option<Deadline>,
    ) -> Result<Taken<'a, Self>, Refusal>;

    /// Unlocks. The caller, which is `me`, holds the lock.
    fn unlock(words: &Self::Words, me: Me, held: Self::Held<'_>, how: Leaving);

    /// Ends what a forked child has of its parent's hold: not the lock, which is the parent's.
    fn forget(_: Self::Held<'_>) {}
}

/// A way to hold a lock's words alone.
///
/// # Safety
/// As for [`RawLock`], and `EXCLUSIVE` is true.
pub unsafe trait ExclusiveLock: RawLock<Repairing = Self> {
    /// Returns whether what the lock guards is whole. The caller holds the lock.
    fn is_consistent(words: &Self::Words) -> bool;

    /// Notes that the holder has repaired what the lock guards.
    fn mark_consistent(words: &Self::Words);

    /// Takes the lock in whatever state it is, and waits until the deadline. The caller repairs
    /// what it guards, marks it consistent and unlocks.
    ///
    /// # Errors
    /// The reason why the caller does not have the lock.
    fn take_to_reset<'a>(
        words: &'a Self::Words,
        local: &'a <Self::Words as LockWords>::Local,
        site: &'a Site,
        me: Me,
        deadline: Deadline,
    ) -> Result<Self::Held<'a>, Refusal>;

    /// Returns the thread that holds the lock alone just now, dead or alive.
    fn holder(words: &Self::Words, registry: &'static Registry) -> Option<Holder>;
}

/// What locking returns: the guard, or why there is none, or a guard for a repair.
pub(super) type Locked<'a, R, T> =
    Result<Guard<'a, R, T>, LockError<Guard<'a, <R as RawLock>::Repairing, T>>>;

/// Turns how a thread took words, which need nothing to unlock, into what [`RawLock`] returns.
pub(super) fn taken<'a, R>(got: Acquired, held: R::Held<'a>) -> Taken<'a, R>
where
    R: RawLock<Repairing = R>,
{
    match got {
        Acquired::Clean => Taken::Clean(held),
        Acquired::OwnerDied => Taken::OwnerDied(held),
    }
}

/// The body of a named lock: the value begins in the next cache line.
#[repr(C)]
struct Named<P, T> {
    words: Line<P>,
    value: UnsafeCell<T>,
}

#[repr(C, align(64))]
struct Line<P>(P);

// SAFETY: the words are `Shared`; the value is of any bytes, and only a guard reaches it.
unsafe impl<P: Guards<T>, T> Shared for Named<P, T> {}

/// Guards a value, shared by name between processes: a [`Mutex`](super::Mutex), a
/// [`PiMutex`](super::PiMutex), a [`CeilingMutex`](super::CeilingMutex), or an
/// [`RwLock`](super::RwLock), which say more.
pub struct Lock<P: LockWords, T> {
    pub(super) handle: Handle<P>,
    value: NonNull<UnsafeCell<T>>,
}

// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock; `Guards`
// says that such a value may be shared so.
unsafe impl<P: Guards<T>, T> Send for Lock<P, T> {}
// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock; `Guards`
// says that such a value may be shared so.
unsafe impl<P: Guards<T>, T> Sync for Lock<P, T> {}

impl<P: Guards<T>, T> Lock<P, T> {
    /// Opens the lock of that name, or makes it with that number and value.
    pub(super) fn make(
        domain: &Domain,
        name: &str,
        number: u32,
        initial: T,
    ) -> Result<Lock<P, T>, Error> {
        let init = |named: &mut Named<P, T>| {
            named.words.0.note(number);
            // SAFETY: `Guards` says that a copy of `initial`'s bytes is a second, independent
            // value.
            *named.value.get_mut() = unsafe { core::ptr::read(&raw const initial) };
        };
        let home = Home::<Named<P, T>>::open(domain, name, P::KINDS[0], TypeOf::a::<T>(), init)?;
        // Before it is kept, so that an error leaves nothing mapped.
        let local = home.shared().words.0.local(home.registry(), home.segment())?;
        let home = P::keep(home);
        let value = NonNull::from(&home.shared().value);
        // SAFETY: the value lies behind the words in the same file.
        Ok(unsafe { Lock::of(home.part(|named| &named.words.0), value, local) })
    }

    /// Makes a handle of words and the value that they guard.
    ///
    /// # Safety
    /// `value` lies in the same mapping as the words and is what they guard, or `T` has no bytes.
    pub(super) unsafe fn of(
        home: Home<P>,
        value: NonNull<UnsafeCell<T>>,
        local: P::Local,
    ) -> Lock<P, T> {
        Lock { handle: Handle::new(home, local), value }
    }
}

impl<P: LockWords, T> Lock<P, T> {
    /// Takes the lock in one of its ways.
    #[inline]
    pub(super) fn take<R: RawLock<Words = P>>(
        &self,
        wait: impl FnOnce() -> Option<Deadline>,
    ) -> Locked<'_, R, T> {
        let Handle { local, site, .. } = &self.handle;
        // SAFETY: the lock guards the value beside it, and the handle keeps both mapped.
        unsafe { take(self.handle.words(), local, site, self.value.cast(), wait) }
    }

    /// Takes the lock in one of its ways without the fast path, and never waits.
    pub(super) fn take_looking<R: RawLock<Words = P>>(&self) -> Locked<'_, R, T> {
        let Handle { local, site, .. } = &self.handle;
        // SAFETY: the lock guards the value beside it, and the handle keeps both mapped.
        unsafe { take_slow(self.handle.words(), local, site, self.value.cast(), Fast::Busy, None) }
    }

    /// Takes the lock in whatever state it is.
    pub(super) fn take_to_reset<R: ExclusiveLock<Words = P>>(
        &self,
        deadline: Deadline,
    ) -> Result<Guard<'_, R, T>, LockError<()>> {
        let Handle { local, site, .. } = &self.handle;
        let words = self.handle.words();
        let me = site.registry.me().map_err(LockError::System)?;
        let take = || R::take_to_reset(words, local, site, me, deadline);
        let taken = order::watched(me, &site.segment, words, true, take);
        let held = taken.map_err(LockError::without_guard)?;
        // SAFETY: the lock guards the value beside it, the handle keeps both mapped, and this
        // thread holds the lock.
        Ok(unsafe { Guard::new(words, self.value.cast(), me, held) })
    }

    /// Returns where the value lies.
    pub(super) fn value(&self) -> NonNull<T> {
        // `UnsafeCell<T>` has the layout of `T`.
        self.value.cast()
    }
}

/// Takes the lock, and makes the guard of the value.
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
) -> Locked<'a, R, T> {
    let registry = site.registry;
    let bits = registry.fast_bits();
    let me = Me { registry, id: TokenId::from_own(bits) };
    let seen = if bits == 0 { Fast::Busy } else { R::try_fast(words, local, site, me) };
    if let Fast::Clean(held) = seen {
        // SAFETY: the caller promises that `words` guard `value`, and this thread has just taken
        // the lock.
        return Ok(unsafe { Guard::new(words, value, me, held) });
    }
    // SAFETY: the caller's promise.
    unsafe { take_slow(words, local, site, value, seen, wait()) }
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
) -> Locked<'a, R, T> {
    let me = site.registry.me().map_err(LockError::System)?;
    let take = || R::lock_slow(words, local, site, me, seen, wait);
    match order::watched(me, &site.segment, words, wait.is_some(), take) {
        // SAFETY: the caller promises that `words` guard `value`, and this thread has just taken
        // the lock.
        Ok(Taken::Clean(held)) => Ok(unsafe { Guard::new(words, value, me, held) }),
        Ok(Taken::OwnerDied(held)) => {
            // SAFETY: as in the first arm.
            Err(LockError::OwnerDied(unsafe { Guard::new(words, value, me, held) }))
        }
        Err(refusal) => Err(refusal.without_guard()),
    }
}

impl<P, T> Lock<P, T>
where
    P: LockWords + ExclusiveLock<Words = P>,
{
    /// Takes the lock, waiting as long as a living owner holds it.
    ///
    /// # Errors
    /// [`LockError::OwnerDied`] with the guard inside; [`LockError::NotRecoverable`];
    /// [`LockError::Deadlock`] when this thread holds the lock already; [`LockError::AboveCeiling`]
    /// when its own priority is higher than a [`CeilingMutex`](super::CeilingMutex)'s ceiling;
    /// [`LockError::Damaged`]; [`LockError::System`].
    ///
    /// # If a process dies
    /// The owner's death ends the wait at once.
    #[inline]
    pub fn lock(&self) -> Result<Guard<'_, P, T>, LockError<Guard<'_, P, T>>> {
        self.take(|| Some(Deadline::NEVER))
    }

    /// Takes the lock, waiting until the deadline.
    ///
    /// # Errors
    /// As [`Lock::lock`], and [`LockError::TimedOut`].
    ///
    /// # If a process dies
    /// The owner's death ends the wait at once.
    #[inline]
    pub fn lock_until(
        &self,
        deadline: impl Into<Deadline>,
    ) -> Result<Guard<'_, P, T>, LockError<Guard<'_, P, T>>> {
        self.take(|| Some(deadline.into()))
    }

    /// Takes the lock if it is free, or its owner is dead.
    ///
    /// # Errors
    /// As [`Lock::lock`], and [`LockError::WouldBlock`].
    #[inline]
    pub fn try_lock(&self) -> Result<Guard<'_, P, T>, LockError<Guard<'_, P, T>>> {
        self.take(|| None)
    }

    /// Makes a lock that was given up ([`LockError::NotRecoverable`]) usable again, with this
    /// value. No thread gets the lock before the value is in place.
    ///
    /// # Errors
    /// [`LockError::TimedOut`] when a living owner holds it until the deadline, and the other
    /// errors of [`Lock::lock_until`], but never `OwnerDied` or `NotRecoverable`.
    ///
    /// # If a process dies
    /// During this call: the lock stays given up, or the next locker gets
    /// [`LockError::OwnerDied`].
    pub fn reset(&self, value: T, deadline: impl Into<Deadline>) -> Result<(), LockError<()>> {
        self.take_to_reset::<P>(deadline.into())?.reset(value);
        Ok(())
    }

    /// Takes the lock in whatever state it is, given up or not, as if its owner had just died. The
    /// caller repairs the value and [marks it consistent](super::MutexGuard::mark_consistent). If
    /// it drops the guard without that, a lock that was given up stays so.
    ///
    /// # Errors
    /// As [`Lock::reset`].
    ///
    /// # If a process dies
    /// As with [`Lock::reset`].
    pub fn lock_to_reset(
        &self,
        deadline: impl Into<Deadline>,
    ) -> Result<Guard<'_, P, T>, LockError<()>> {
        self.take_to_reset(deadline.into())
    }

    /// Returns the thread that holds the lock just now, dead or alive.
    pub fn holder(&self) -> Option<Holder> {
        P::holder(self.handle.words(), self.handle.site().registry)
    }
}
