//! What a locker gets: the guard, or the reason why not.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::order;
use super::raw::mutex::RawMutex;
use super::raw::{Acquired, Refused};
use crate::Error;
use crate::liveness::{Me, Registry, TokenId, WAITERS};
use crate::sys::robust::WakeRelay;

/// In a guard's own copy of the token: `list_op_pending` is borrowed until the guard is dropped. So a guard without it
/// pays nothing for the possibility.
const KEPT: u32 = WAITERS;
/// The same of a holder that was unwinding already when it took the lock: its panic has cut nothing in half in here. No
/// token's id has this bit.
pub(super) const UNWINDING: u32 = 1 << 30;

/// Exclusive access to what a lock guards; gives the lock back when dropped.
///
/// Stays with its thread: the lock names the thread as owner. In a forked child a guard of the parent's does nothing.
///
/// # If a process dies
/// The next to lock gets [`LockError::OwnerDied`] with a guard.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it leaves what it guards as a death would, and counts
/// as one: the next to lock gets [`LockError::OwnerDied`]. A guard that was taken by a destructor while its thread unwinds already
/// gives the lock back as usual.
pub struct MutexGuard<'a, T> {
    raw: &'a RawMutex,
    value: NonNull<T>,
    me: Me,
    /// Neither Send nor Sync by itself.
    _thread: PhantomData<*mut T>,
}

// SAFETY: sharing a guard shares `&T` only.
unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T> MutexGuard<'a, T> {
    /// The guard of a lock that has just been taken.
    ///
    /// # Safety
    /// As for [`MutexGuard::settle`]; `me` holds `raw`.
    #[inline]
    pub(super) unsafe fn new(raw: &'a RawMutex, value: NonNull<T>, mut me: Me) -> MutexGuard<'a, T> {
        if std::thread::panicking() {
            me.id = TokenId::from_own(me.id.as_u32() | UNWINDING);
        }
        MutexGuard { raw, value, me, _thread: PhantomData }
    }

    /// A guard that was given up by [`MutexGuard::into_raw`], if it is of the calling thread.
    ///
    /// # Safety
    /// As for [`MutexGuard::settle`]; `bits` came from a guard of this lock, and no guard was made of them since.
    #[inline]
    pub(super) unsafe fn resumed(
        raw: &'a RawMutex,
        value: NonNull<T>,
        registry: &'static Registry,
        bits: u32,
    ) -> Option<MutexGuard<'a, T>> {
        let mine = bits != 0 && bits & !(KEPT | UNWINDING) == registry.current_bits();
        let me = Me { registry, id: TokenId::from_own(bits & !UNWINDING) };
        // Lazily: one that was made and dropped here would give back the lock for a thread without a token, whose number is 0 as well.
        // SAFETY: the caller's promise. As one taken just now: a panic before was none of a guard's.
        mine.then(|| unsafe { MutexGuard::new(raw, value, me) })
    }

    /// Lets the guard go, but not the lock: for bindings to languages without guards. The number is never 0.
    /// [`Mutex::guard_from_raw`](super::Mutex::guard_from_raw) makes a guard of it again. A panic meanwhile is not told.
    ///
    /// # If a process dies
    /// As with a guard.
    #[inline]
    pub fn into_raw(self) -> u32 {
        let bits = self.me.id.as_u32();
        core::mem::forget(self);
        bits
    }

    /// Turns the raw result into what the user sees.
    ///
    /// # Safety
    /// `value` is what `raw` guards: valid for `'a`, and touched by lock holders only.
    #[inline]
    pub(super) unsafe fn settle(
        result: Result<Acquired, Refused>,
        raw: &'a RawMutex,
        value: NonNull<T>,
        me: Me,
    ) -> Result<MutexGuard<'a, T>, LockError<MutexGuard<'a, T>>> {
        match result {
            // SAFETY: the caller's promise.
            Ok(Acquired::Clean) => Ok(unsafe { MutexGuard::new(raw, value, me) }),
            // SAFETY: the caller's promise.
            Ok(Acquired::OwnerDied) => Err(LockError::OwnerDied(unsafe { MutexGuard::new(raw, value, me) })),
            Err(refused) => Err(LockError::from_refused(refused, me)),
        }
    }

    /// Gives the lock back for the time of `meanwhile`, which takes it again. What that wants to have passed on if we
    /// die, is passed on until the new guard is dropped, too.
    pub(super) fn give_back_during(
        self,
        meanwhile: impl FnOnce(&'a RawMutex, Me, WakeRelay) -> (Result<Acquired, Refused>, Option<WakeRelay>),
    ) -> Result<MutexGuard<'a, T>, LockError<MutexGuard<'a, T>>> {
        let (raw, value) = (self.raw, self.value);
        let bits = self.me.id.as_u32();
        let me = Me { id: TokenId::from_own(bits & !(KEPT | UNWINDING)), ..self.me };
        if me.registry.current_bits() != me.id.as_u32() {
            return Err(LockError::NotHeld);
        }
        core::mem::forget(self);
        let relay = if bits & KEPT == 0 { WakeRelay::begin(me.list()) } else { WakeRelay::resume(me.list()) };
        let (result, relay) = meanwhile(raw, me, relay);
        if result.is_err() {
            order::gives_back(raw);
        }
        let kept = relay.is_some_and(WakeRelay::keep);
        let holder = if kept { Me { id: TokenId::from_own(me.id.as_u32() | KEPT), ..me } } else { me };
        // SAFETY: what was true of this guard is true of the new one.
        unsafe { MutexGuard::settle(result, raw, value, holder) }
    }

    /// The end of a reset: a lock in whatever state has been taken, and is given back whole.
    pub(super) fn reset(mut self, value: T) {
        // Died from here on: the lock names us still, so the next is told, or it stays given up.
        *self = value;
        self.mark_consistent();
    }

    /// Whether an owner died or panicked with it, and nothing has been marked consistent since: what
    /// [`LockError::OwnerDied`] said.
    #[must_use]
    pub fn owner_died(&self) -> bool {
        !self.raw.is_consistent()
    }

    /// Declares that what the lock guards is whole again, after [`LockError::OwnerDied`]. If the guard is dropped without it,
    /// the next to lock is told again.
    pub fn mark_consistent(&mut self) {
        self.raw.mark_consistent();
    }

    /// Gives the lock back, and gives it up: what it guards cannot be made whole. Every later locker gets
    /// [`LockError::NotRecoverable`], until somebody calls [`Mutex::reset`](super::Mutex::reset) or
    /// [`Mutex::lock_to_reset`](super::Mutex::lock_to_reset). In a forked child it does nothing.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-give-up-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::sync::{LockError, Mutex};
    ///
    /// let total = Mutex::<u64>::open(&domain, "total", 0)?;
    /// total.lock().unwrap().give_up();
    /// assert!(matches!(total.lock(), Err(LockError::NotRecoverable)));
    /// total.reset(5, outlive::Deadline::NEVER).unwrap();
    /// assert_eq!(*total.lock().unwrap(), 5);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # If a process dies
    /// In here: the lock is given up, or the next to lock is told that an owner died.
    pub fn give_up(self) {
        let (raw, me) = (self.raw, self.me);
        core::mem::forget(self);
        give_back(raw, me, RawMutex::give_up);
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we hold the lock; `settle`'s caller vouched for the pointer.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we hold the lock, so nobody else touches it; `&mut self` keeps this process from doing so twice.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // A forked child has no token, or another one: the lock is its parent's.
        if self.me.registry.fast_bits() == self.me.id.as_u32() && !std::thread::panicking() {
            self.raw.release(self.me.id);
        } else {
            // Not `self`: a guard whose address is taken lives in memory, and its fast path pays for that.
            drop_slow(self.raw, self.me);
        }
    }
}

/// In a process that watches the order of locks, in a forked child, in a thread that unwinds, or with something to be
/// passed on if we die.
#[cold]
#[inline(never)]
fn drop_slow(raw: &RawMutex, me: Me) {
    let unfinished = std::thread::panicking() && me.id.as_u32() & UNWINDING == 0;
    give_back(raw, me, if unfinished { RawMutex::release_unfinished } else { RawMutex::release });
}

/// Gives the lock back by `how`, and what a guard may have had besides it.
#[cold]
fn give_back(raw: &RawMutex, me: Me, how: fn(&RawMutex, TokenId)) {
    let bits = me.id.as_u32();
    if me.registry.current_bits() != bits & !(KEPT | UNWINDING) {
        return;
    }
    if me.registry.watches_order() {
        // Once a process watches it goes on: what was taken before that was not noted.
        order::gives_back(raw);
    }
    how(raw, TokenId::from_own(bits & !(KEPT | UNWINDING)));
    if bits & KEPT != 0 {
        // Died just before: somebody is woken for nothing.
        drop(WakeRelay::resume(me.list()));
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Why a lock was not got, or got with a warning.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError<G> {
    /// The lock is yours, but an owner died or panicked holding it: what it guards may be half-written. Repair it and call
    /// [`MutexGuard::mark_consistent`] (of the guard inside); if the guard is dropped without, the next to lock is told again.
    OwnerDied(G),
    /// A holder gave it up ([`MutexGuard::give_up`]). [`Mutex::reset`](super::Mutex::reset) starts anew.
    NotRecoverable,
    /// This thread holds it already.
    Deadlock,
    /// The guard came with a `fork`: its lock is the parent's.
    NotHeld,
    /// A living owner holds it (only from `try_` forms).
    WouldBlock,
    /// The deadline passed while a living owner held it.
    TimedOut,
    /// The thread's own priority is higher than the lock's ceiling (only from a [`CeilingMutex`](super::CeilingMutex)).
    AboveCeiling,
    /// The lock's bytes make no sense: a stray write, or somebody hostile.
    Damaged,
    /// The calling thread could not get a token, or the system refused to wait.
    System(Error),
}

impl<G> LockError<G> {
    /// The same with another guard in the guard's place.
    pub(super) fn map<H>(self, guard: impl FnOnce(G) -> H) -> LockError<H> {
        match self {
            LockError::OwnerDied(g) => LockError::OwnerDied(guard(g)),
            LockError::NotRecoverable => LockError::NotRecoverable,
            LockError::Deadlock => LockError::Deadlock,
            LockError::NotHeld => LockError::NotHeld,
            LockError::WouldBlock => LockError::WouldBlock,
            LockError::TimedOut => LockError::TimedOut,
            LockError::AboveCeiling => LockError::AboveCeiling,
            LockError::Damaged => LockError::Damaged,
            LockError::System(error) => LockError::System(error),
        }
    }

    #[cold]
    pub(super) fn from_refused(refused: Refused, me: Me) -> LockError<G> {
        match refused {
            Refused::NotRecoverable => LockError::NotRecoverable,
            Refused::Deadlock => LockError::Deadlock,
            Refused::WouldBlock => LockError::WouldBlock,
            Refused::TimedOut => LockError::TimedOut,
            Refused::Damaged => LockError::Damaged,
            Refused::System(errno) => {
                LockError::System(Error::from_errno("wait for a lock in", me.registry.path(), errno))
            }
        }
    }
}

impl<G> fmt::Display for LockError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::OwnerDied(_) => {
                f.write_str("an owner died or panicked holding the lock; check what it guards, then mark it consistent")
            }
            LockError::NotRecoverable => {
                f.write_str("the lock was given up by a holder; reset it once what it guards is whole")
            }
            LockError::Deadlock => f.write_str("this thread holds the lock already; give it back first"),
            LockError::NotHeld => f.write_str("the guard is of the process that forked this one; lock anew"),
            LockError::WouldBlock => f.write_str("somebody holds the lock; wait for it, or try later"),
            LockError::TimedOut => f.write_str("somebody still held the lock when the deadline passed"),
            LockError::AboveCeiling => {
                f.write_str("this thread's priority is above the lock's ceiling; give the lock a higher one")
            }
            LockError::Damaged => {
                f.write_str("the lock's bytes make no sense; somebody wrote over it: look for the stray write")
            }
            LockError::System(error) => error.fmt(f),
        }
    }
}

impl<G: fmt::Debug> std::error::Error for LockError<G> {}
