//! What a locker gets: the guard, or the reason why not.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::raw_mutex::{Acquired, RawMutex, Refused};
use crate::Error;
use crate::liveness::Me;

/// Exclusive access to what a lock guards; gives the lock back when dropped.
///
/// Stays with its thread: the lock names the thread as owner. In a forked child a guard of the parent's does nothing.
///
/// # If a process dies
/// The next to lock gets [`LockError::OwnerDied`] with a guard.
pub struct Guard<'a, T> {
    raw: &'a RawMutex,
    value: NonNull<T>,
    me: Me,
    /// Neither Send nor Sync by itself.
    _thread: PhantomData<*mut T>,
}

// SAFETY: sharing a guard shares `&T` only.
unsafe impl<T: Sync> Sync for Guard<'_, T> {}

impl<'a, T> Guard<'a, T> {
    /// The guard of a lock that has just been taken and is consistent.
    ///
    /// # Safety
    /// As for [`Guard::settle`]; `me` holds `raw`.
    #[inline]
    pub(super) unsafe fn new(raw: &'a RawMutex, value: NonNull<T>, me: Me) -> Guard<'a, T> {
        Guard { raw, value, me, _thread: PhantomData }
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
    ) -> Result<Guard<'a, T>, LockError<Guard<'a, T>>> {
        let guard = || Guard { raw, value, me, _thread: PhantomData };
        match result {
            Ok(Acquired::Clean) => Ok(guard()),
            Ok(Acquired::OwnerDied) => Err(LockError::OwnerDied(guard())),
            Err(refused) => Err(LockError::from_refused(refused, me)),
        }
    }

    /// Declares that what the lock guards is whole again, after [`LockError::OwnerDied`]. Dropping the guard without it
    /// gives the lock up: every later locker gets [`LockError::NotRecoverable`].
    pub fn mark_consistent(&mut self) {
        self.raw.mark_consistent();
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we hold the lock; `settle`'s caller vouched for the pointer.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we hold the lock, so nobody else touches it; `&mut self` keeps this process from doing so twice.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // A forked child has no token, or another one: the lock is its parent's.
        if self.me.registry.current_bits() == self.me.id.as_u32() {
            self.raw.unlock();
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Guard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Why a lock was not got, or got with a warning.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError<G> {
    /// The lock is yours, but its last owner died holding it: what it guards may be half-written. Repair it and call
    /// [`Guard::mark_consistent`] (of the guard inside); dropped without, the lock is given up.
    OwnerDied(G),
    /// Somebody who was told that the owner died gave up without repairing. [`Mutex::reset`](super::Mutex::reset)
    /// starts anew.
    NotRecoverable,
    /// This thread holds it already.
    Deadlock,
    /// A living owner holds it (only from `try_` forms).
    WouldBlock,
    /// The deadline passed while a living owner held it.
    TimedOut,
    /// The lock's bytes make no sense: a stray write, or somebody hostile.
    Damaged,
    /// The calling thread could not get a token, or the system refused to wait.
    System(Error),
}

impl<G> LockError<G> {
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
                f.write_str("the last owner died holding the lock; check what it guards, then mark it consistent")
            }
            LockError::NotRecoverable => {
                f.write_str("the lock was given up after its owner died; reset it once what it guards is whole")
            }
            LockError::Deadlock => f.write_str("this thread holds the lock already; give it back first"),
            LockError::WouldBlock => f.write_str("somebody holds the lock; wait for it, or try later"),
            LockError::TimedOut => f.write_str("somebody still held the lock when the deadline passed"),
            LockError::Damaged => {
                f.write_str("the lock's bytes make no sense; somebody wrote over it: look for the stray write")
            }
            LockError::System(error) => error.fmt(f),
        }
    }
}

impl<G: fmt::Debug> std::error::Error for LockError<G> {}
