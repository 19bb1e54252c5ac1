//! A mutex that lends its holder the priority of its waiters, as users see it: handles, guards,
//! embedded ones. `raw/pi.rs` holds the state machine.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};

use super::embedded::{Embed, Place, SharedField};
use super::guard::LockError;
use super::primitive::{Home, TypeOf};
use super::primitive::{Inspect, LockDetail};
use super::raw::mutex::{CONSISTENT, NOT_RECOVERABLE};
use super::raw::pi::RawPi;
use super::raw::{Acquired, Refused};
use super::{Holder, order};
use crate::Plain;
use crate::liveness::{Me, Registry, TokenId};
use crate::segment::Shared;
use crate::shim::Ordering;
use crate::sys::futex_call::{OWNER_DIED, TID_MASK};
use crate::sys::identity;
use crate::{Deadline, Domain, Error, Kind};

/// Guards a value, shared by name between real-time threads, and lends its holder the priority of
/// its waiters.
///
/// So a thread of middling priority cannot keep both the holder and a more urgent waiter from
/// running. It survives the death of its owner, as [`Mutex`](super::Mutex) does. The kernel does
/// the priority inheritance, and libc's mutex is inside. Hence all processes that use it belong to
/// one pid namespace and to one C library; others get [`Error::OtherNamespace`] or
/// [`Error::OtherLibc`]. It never spins. Its file stays mapped until the process ends. It costs
/// some 1.5 times as much as a [`Mutex`](super::Mutex) when no thread waits.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-pi-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::sync::{LockError, PiMutex};
///
/// let valve = PiMutex::<u64>::open(&domain, "valve", 0)?;
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
/// While it holds the lock: the next locker gets [`LockError::OwnerDied`], even if it slept
/// already. While it waits: other threads are not affected, and its priority is no longer lent.
pub struct PiMutex<T> {
    home: Home<RawPi>,
    value: NonNull<UnsafeCell<T>>,
    /// Whether this process has made sure that libc's words are prepared.
    bound: AtomicBool,
}

/// The body of a named mutex.
#[repr(C, align(64))]
struct Apart<T> {
    raw: RawPi,
    value: UnsafeCell<T>,
}

// SAFETY: the lock is atomics; the value is `Plain`, and only a guard reaches it.
unsafe impl<T: Plain> Shared for Apart<T> {}
// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock.
unsafe impl<T: Send> Send for PiMutex<T> {}
// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock.
unsafe impl<T: Send> Sync for PiMutex<T> {}

impl<T: Plain> PiMutex<T> {
    /// Opens the mutex of that name, or makes it with the given value.
    ///
    /// # Errors
    /// [`Error::OtherNamespace`] and [`Error::OtherLibc`] when it belongs to another pid namespace
    /// or C library; [`Error::OtherKind`] or [`Error::OtherType`] when the name is in use for
    /// something else, [`Error::NoSpace`], [`Error::InvalidName`], and errors of the system
    /// (`ENOTSUP` where it has no priority inheritance).
    ///
    /// # If a process dies
    /// While it makes the mutex: no trace of the mutex remains.
    pub fn open(domain: &Domain, name: &str, initial: T) -> Result<PiMutex<T>, Error> {
        let init = |cell: &mut Apart<T>| {
            // SAFETY: `T: Plain`, so a copy of `initial`'s bytes is a second, independent value.
            *cell.value.get_mut() = unsafe { core::ptr::read(&raw const initial) };
        };
        let home = Home::<Apart<T>>::open(domain, name, Kind::PiMutex, TypeOf::a::<T>(), init)?;
        // Before it is kept, so that an error leaves nothing mapped.
        let file = home.file()?;
        home.shared().raw.bind(home.me()?, home.path())?;
        let home = home.kept(Some(file));
        let value = NonNull::from(&home.shared().value);
        Ok(PiMutex { home: home.part(|cell| &cell.raw), value, bound: AtomicBool::new(true) })
    }

    fn embedded(home: Home<EmbeddedPiMutex<T>>) -> PiMutex<T> {
        let file = home.file().ok();
        let home = home.kept(file);
        let value = NonNull::from(&home.shared().value);
        PiMutex { home: home.part(|embedded| &embedded.raw), value, bound: AtomicBool::new(false) }
    }

    /// Takes the lock, and waits as long as a living owner holds it, lending that owner the
    /// caller's priority.
    ///
    /// # Errors
    /// [`LockError::OwnerDied`] with the guard inside, [`LockError::NotRecoverable`],
    /// [`LockError::Deadlock`] when this thread holds the lock (a cycle of several threads is not
    /// detected, and lasts until a deadline or a death), [`LockError::Damaged`],
    /// [`LockError::System`] (also [`Error::OtherNamespace`], [`Error::OtherLibc`]).
    ///
    /// # If a process dies
    /// The owner's death ends the wait at once.
    #[inline]
    pub fn lock(&self) -> Result<PiMutexGuard<'_, T>, LockError<PiMutexGuard<'_, T>>> {
        self.lock_until(Deadline::NEVER)
    }

    /// Takes the lock, and waits until the deadline.
    ///
    /// On the holder's own processor the waiter may notice its deadline late: the holder then runs
    /// with the waiter's priority, and goes on until it unlocks (the caller then has the lock) or
    /// sleeps. With glibc before 2.35, Linux before 5.14, and musl, waits know the time of day
    /// only: there a clock that is set back lengthens a wait to a monotonic deadline.
    ///
    /// # Errors
    /// As [`PiMutex::lock`], and [`LockError::TimedOut`].
    ///
    /// # If a process dies
    /// The owner's death ends the wait at once.
    #[inline]
    pub fn lock_until(
        &self,
        deadline: impl Into<Deadline>,
    ) -> Result<PiMutexGuard<'_, T>, LockError<PiMutexGuard<'_, T>>> {
        match self.enter_fast() {
            Some(me) => self.settle(me, self.raw().lock(me, Some(deadline.into()))),
            None => self.lock_slow(Some(deadline.into())),
        }
    }

    /// Takes the lock if it is free, or its owner is dead.
    ///
    /// # Errors
    /// As [`PiMutex::lock`], and [`LockError::WouldBlock`].
    #[inline]
    pub fn try_lock(&self) -> Result<PiMutexGuard<'_, T>, LockError<PiMutexGuard<'_, T>>> {
        match self.enter_fast() {
            Some(me) => self.settle(me, self.raw().lock(me, None)),
            None => self.lock_slow(None),
        }
    }

    /// For a thread without a token, a process that has not used the mutex yet, or one that records
    /// the order of locks.
    #[cold]
    #[inline(never)]
    fn lock_slow(
        &self,
        wait: Option<Deadline>,
    ) -> Result<PiMutexGuard<'_, T>, LockError<PiMutexGuard<'_, T>>> {
        let me = self.enter().map_err(LockError::System)?;
        let raw = self.raw();
        self.settle(
            me,
            order::watched(me, self.home.segment(), raw, wait.is_some(), || raw.lock(me, wait)),
        )
    }

    /// Makes a mutex that was given up ([`LockError::NotRecoverable`]) usable again, with this
    /// value.
    ///
    /// # Errors
    /// [`LockError::TimedOut`] when a living owner holds it until the deadline,
    /// [`LockError::Deadlock`], [`LockError::Damaged`], [`LockError::System`].
    ///
    /// # If a process dies
    /// During this call: the mutex stays given up, or the next locker gets
    /// [`LockError::OwnerDied`].
    pub fn reset(&self, value: T, deadline: impl Into<Deadline>) -> Result<(), LockError<()>> {
        let me = self.enter().map_err(LockError::System)?;
        let raw = self.raw();
        let take = || raw.acquire(me, Some(deadline.into()));
        let taken = order::watched(me, self.home.segment(), raw, true, take);
        taken.map_err(|refused| LockError::from_refused(refused, me))?;
        raw.owner.store(me.id.as_u32(), Ordering::Relaxed);
        let mut guard = self.guard(me);
        // Died in here: the kernel marks it, and libc tells the next locker.
        *guard = value;
        guard.mark_consistent();
        Ok(())
    }

    /// Returns the thread that holds the lock just now, dead or alive.
    pub fn holder(&self) -> Option<Holder> {
        self.raw().holder(self.home.registry())
    }

    /// Returns the calling thread, if it may take fast paths and is known to belong to the lock's
    /// namespace: a forked child may not.
    #[inline]
    fn enter_fast(&self) -> Option<Me> {
        let registry = self.home.registry();
        let bits = registry.fast_bits();
        // Acquire pairs with the Release below: libc's words are prepared.
        if bits == 0
            || !self.bound.load(StdOrdering::Acquire)
            || !self.raw().is_bound_to(identity::known_pid_namespace())
        {
            return None;
        }
        Some(Me { registry, id: TokenId::from_own(bits) })
    }

    #[cold]
    fn enter(&self) -> Result<Me, Error> {
        let me = self.home.me()?;
        self.raw().bind(me, self.home.path())?;
        self.bound.store(true, StdOrdering::Release);
        Ok(me)
    }

    #[inline]
    fn settle(
        &self,
        me: Me,
        locked: Result<Acquired, Refused>,
    ) -> Result<PiMutexGuard<'_, T>, LockError<PiMutexGuard<'_, T>>> {
        match locked {
            Ok(Acquired::Clean) => Ok(self.guard(me)),
            Ok(Acquired::OwnerDied) => Err(LockError::OwnerDied(self.guard(me))),
            Err(refused) => Err(LockError::from_refused(refused, me)),
        }
    }

    /// Makes the guard of the lock, which `me` has just taken.
    #[inline]
    fn guard(&self, me: Me) -> PiMutexGuard<'_, T> {
        let unwinding = std::thread::panicking();
        PiMutexGuard {
            raw: self.raw(),
            value: self.value.cast(),
            me,
            unwinding,
            _thread: PhantomData,
        }
    }

    #[inline]
    fn raw(&self) -> &RawPi {
        self.home.shared()
    }
}

/// Gives exclusive access to what a [`PiMutex`] guards, and gives the lock back when dropped.
///
/// A guard stays with its thread, which runs with the priority of its most urgent waiter. In a
/// forked child, a guard of the parent's has no effect.
///
/// # If a process dies
/// The next locker gets [`LockError::OwnerDied`] with a guard.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it counts as a death: see
/// [`MutexGuard`](super::MutexGuard#if-it-panics).
pub struct PiMutexGuard<'a, T> {
    raw: &'a RawPi,
    value: NonNull<T>,
    me: Me,
    /// Whether the thread was unwinding already when it took the lock.
    unwinding: bool,
    /// Neither Send nor Sync by itself.
    _thread: PhantomData<*mut T>,
}

// SAFETY: a shared guard gives no more than `&T`, and `T: Sync`.
unsafe impl<T: Sync> Sync for PiMutexGuard<'_, T> {}

impl<T> PiMutexGuard<'_, T> {
    /// Returns whether an owner died or panicked holding the lock and no holder has marked the
    /// value consistent since. [`LockError::OwnerDied`] reported it.
    #[must_use]
    pub fn owner_died(&self) -> bool {
        // Relaxed: only holders write it.
        self.raw.state.load(Ordering::Relaxed) != CONSISTENT
    }

    /// Declares that what the lock guards is whole again, after [`LockError::OwnerDied`]. If the
    /// guard is dropped without this, the next locker gets `OwnerDied` again.
    pub fn mark_consistent(&mut self) {
        self.raw.state.store(CONSISTENT, Ordering::Relaxed);
    }

    /// Unlocks, and gives the lock up, because what it guards cannot be repaired. Every later
    /// locker gets [`LockError::NotRecoverable`], until a process calls [`PiMutex::reset`]. In a
    /// forked child it has no effect.
    ///
    /// # If a process dies
    /// During this call: the lock is given up, or the next locker gets [`LockError::OwnerDied`].
    pub fn give_up(self) {
        let (raw, me) = (self.raw, self.me);
        core::mem::forget(self);
        give_back(raw, me, RawPi::give_up);
    }
}

impl<T> Deref for PiMutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock, which guards `value`; the handle, borrowed for `'a`,
        // keeps it mapped.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for PiMutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, so no other reaches the value; `&mut self` excludes a
        // second borrow here.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for PiMutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // A forked child has another token or none: the lock is its parent's.
        if self.me.registry.fast_bits() == self.me.id.as_u32() && !std::thread::panicking() {
            self.raw.release(self.me);
        } else {
            let unfinished = std::thread::panicking() && !self.unwinding;
            // Not `self`: see `MutexGuard`.
            give_back(
                self.raw,
                self.me,
                if unfinished { RawPi::release_unfinished } else { RawPi::release },
            );
        }
    }
}

/// Unlocks by `how`, in a process that may record the order of locks, or be a forked child.
#[cold]
#[inline(never)]
fn give_back(raw: &RawPi, me: Me, how: fn(&RawPi, Me)) {
    if me.registry.current_bits() == me.id.as_u32() {
        order::gives_back(raw);
        how(raw, me);
    }
}

impl<T: fmt::Debug> fmt::Debug for PiMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Embeds a [`PiMutex`] and its value as a field of a [`record!`](crate::record). It takes 64 bytes
/// and the value.
///
/// All zeroes are an unlocked mutex around a zeroed value.
/// [`Record::handle`](super::Record::handle) returns the [`PiMutex`] that uses it; the record's
/// file then stays mapped until the process ends.
#[repr(C)]
pub struct EmbeddedPiMutex<T> {
    raw: RawPi,
    value: UnsafeCell<T>,
}

// SAFETY: safe code reaches the value only through a guard, whose thread holds the lock.
unsafe impl<T: Send> Sync for EmbeddedPiMutex<T> {}
// SAFETY: the lock is atomics; the value is `Plain`, and only a guard reaches it.
unsafe impl<T: Plain> Shared for EmbeddedPiMutex<T> {}
// SAFETY: the lock is at offset 0, as `primitive` says; the value is `Plain`, and only a guard
// reaches it.
unsafe impl<T: Plain> SharedField for EmbeddedPiMutex<T> {
    const PRIMITIVES: usize = 1;
    fn primitive(_: usize) -> Place {
        Place {
            offset: core::mem::offset_of!(EmbeddedPiMutex<T>, raw),
            kind: Kind::PiMutex,
            number: 0,
        }
    }
}

impl<T: Plain> Embed for EmbeddedPiMutex<T> {
    type Handle = PiMutex<T>;
    fn handle(home: Home<EmbeddedPiMutex<T>>) -> PiMutex<T> {
        PiMutex::embedded(home)
    }
}

impl<T: Plain> EmbeddedPiMutex<T> {
    /// Returns the value while no other process can reach it: in
    /// [`Record::open`](super::Record::open)'s initialiser.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
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
