//! Guards and permits that keep the handle of their lock or semaphore by an [`Arc`] and borrow
//! nothing: for structs, for threads that outlive the place where a lock was opened, and for bindings
//! to other languages.

use std::sync::Arc;
use std::time::Duration;

use super::ceiling_mutex::RawCeiling;
use super::error::{AcquireError, LockError};
use super::guard::Guard;
use super::lock::{Lock, MaybeLocked};
use super::raw::mutex::RawMutex;
use super::raw::pi::RawPi;
use super::raw::reentrant::RawReentrant;
use super::raw_lock::{ExclusiveLock, LockWords, RawLock};
use super::rw_lock::{Reading, RwLock, Writing};
use super::semaphore::{Permit, Semaphore};
use crate::Deadline;

/// Gives access to what a lock guards as the [`Guard`] of that lock does, and keeps the handle by
/// an [`Arc`], so that it borrows nothing: [`Lock::lock_owned`] and the like return it.
///
/// Like every guard it stays with its thread, and in a forked child one of the parent's has no
/// effect.
///
/// # If a process dies
/// As with the guard that borrows the lock: the next locker is told.
pub type OwnedGuard<R, T> = Guard<'static, R, T, Arc<Lock<<R as RawLock>::Words, T>>>;

/// The [`OwnedGuard`] of a [`Mutex`](super::Mutex).
pub type OwnedMutexGuard<T> = OwnedGuard<RawMutex, T>;

/// The [`OwnedGuard`] of a [`PiMutex`](super::PiMutex).
pub type OwnedPiMutexGuard<T> = OwnedGuard<RawPi, T>;

/// The [`OwnedGuard`] of a [`CeilingMutex`](super::CeilingMutex).
pub type OwnedCeilingMutexGuard<T> = OwnedGuard<RawCeiling, T>;

/// The [`OwnedGuard`] of a [`ReentrantMutex`](super::ReentrantMutex).
pub type OwnedReentrantMutexGuard<T> = OwnedGuard<RawReentrant, T>;

/// The [`OwnedGuard`] of a reader of an [`RwLock`].
pub type OwnedReadGuard<T> = OwnedGuard<Reading, T>;

/// The [`OwnedGuard`] of a writer of an [`RwLock`].
pub type OwnedWriteGuard<T> = OwnedGuard<Writing, T>;

/// What locking returns: the guard, or why there is none, or a guard for a repair.
pub type Owned<R, T> =
    Result<OwnedGuard<R, T>, LockError<OwnedGuard<<R as RawLock>::Repairing, T>>>;

/// What locking returns that does not wait for ever: `None` while a living thread has the lock.
pub type MaybeOwned<R, T> =
    Result<Option<OwnedGuard<R, T>>, LockError<OwnedGuard<<R as RawLock>::Repairing, T>>>;

/// Takes a lock, and keeps its handle with the guard.
pub(super) fn owned<R: RawLock, T: 'static>(
    lock: &Arc<Lock<R::Words, T>>,
    take: impl FnOnce(&'static Lock<R::Words, T>) -> MaybeLocked<'static, R, T>,
) -> MaybeOwned<R, T> {
    // SAFETY: an Arc's value does not move as long as an Arc of it exists. All that borrows from
    // this is the guard that `take` returns, which gets an Arc here, and drops it after its hold.
    let borrowed: &'static Lock<R::Words, T> = unsafe { &*Arc::as_ptr(lock) };
    match take(borrowed) {
        Ok(guard) => Ok(guard.map(|guard| guard.keeping(Arc::clone(lock)))),
        Err(LockError::OwnerDied(guard)) => {
            Err(LockError::OwnerDied(guard.keeping(Arc::clone(lock))))
        }
        Err(LockError::Failed(error)) => Err(LockError::Failed(error)),
    }
}

impl<R: RawLock, T> Guard<'static, R, T, Arc<Lock<R::Words, T>>> {
    /// Returns the lock that an owned guard holds.
    pub fn lock(guard: &OwnedGuard<R, T>) -> &Arc<Lock<R::Words, T>> {
        &guard.keep
    }
}

impl<P, T: 'static> Lock<P, T>
where
    P: LockWords + ExclusiveLock<Words = P>,
{
    /// Takes the lock as [`Lock::lock`] does, for a guard that keeps this handle.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-owned-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::{AcquireError, Mutex, OwnedMutexGuard};
    /// use std::sync::Arc;
    ///
    /// /// Holds the arm as long as it exists.
    /// struct Motion {
    ///     position: OwnedMutexGuard<[f64; 3]>,
    /// }
    /// fn begin(arm: &Arc<Mutex<[f64; 3]>>) -> Result<Motion, AcquireError> {
    ///     let position = arm.lock_owned().or_else(|error| error.repair(|at| *at = [0.0; 3]))?;
    ///     Ok(Motion { position })
    /// }
    /// let mut motion = {
    ///     let arm = Mutex::options([0.0; 3]).open_or_create(&domain, "arm")?;
    ///     begin(&Arc::new(arm))?
    /// };
    /// motion.position[2] = 0.5;
    /// # drop(motion);
    /// # assert_eq!(*Mutex::<[f64; 3]>::open(&domain, "arm")?.lock().unwrap(), [0.0, 0.0, 0.5]);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Lock::lock`].
    ///
    /// # If a process dies
    /// As with [`Lock::lock`].
    pub fn lock_owned(self: &Arc<Self>) -> Owned<P, T> {
        Deadline::never(|deadline| self.lock_owned_until(deadline))
    }

    /// Takes the lock as [`Lock::try_lock`] does, for a guard that keeps this handle.
    ///
    /// # Errors
    /// As [`Lock::lock`].
    pub fn try_lock_owned(self: &Arc<Self>) -> MaybeOwned<P, T> {
        owned(self, |lock| lock.try_lock())
    }

    /// Takes the lock as [`Lock::lock_timeout`] does, for a guard that keeps this handle.
    ///
    /// # Errors
    /// As [`Lock::lock`].
    ///
    /// # If a process dies
    /// As with [`Lock::lock`].
    pub fn lock_owned_timeout(self: &Arc<Self>, timeout: Duration) -> MaybeOwned<P, T> {
        self.lock_owned_until(Deadline::after(timeout))
    }

    /// Takes the lock as [`Lock::lock_until`] does, for a guard that keeps this handle.
    ///
    /// # Errors
    /// As [`Lock::lock`].
    ///
    /// # If a process dies
    /// As with [`Lock::lock`].
    pub fn lock_owned_until(self: &Arc<Self>, deadline: Deadline) -> MaybeOwned<P, T> {
        owned(self, |lock| lock.lock_until(deadline))
    }
}

impl<T: 'static> RwLock<T> {
    /// Takes the lock to read as [`RwLock::read`] does, for a guard that keeps this handle.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    ///
    /// # If a process dies
    /// As with [`RwLock::read`].
    pub fn read_owned(self: &Arc<Self>) -> Owned<Reading, T> {
        Deadline::never(|deadline| self.read_owned_until(deadline))
    }

    /// Takes the lock to read as [`RwLock::try_read`] does, for a guard that keeps this handle.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    pub fn try_read_owned(self: &Arc<Self>) -> MaybeOwned<Reading, T> {
        owned(self, |lock| lock.try_read())
    }

    /// Takes the lock to read as [`RwLock::read_timeout`] does, for a guard that keeps this handle.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    ///
    /// # If a process dies
    /// As with [`RwLock::read`].
    pub fn read_owned_timeout(self: &Arc<Self>, timeout: Duration) -> MaybeOwned<Reading, T> {
        self.read_owned_until(Deadline::after(timeout))
    }

    /// Takes the lock to read as [`RwLock::read_until`] does, for a guard that keeps this handle.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    ///
    /// # If a process dies
    /// As with [`RwLock::read`].
    pub fn read_owned_until(self: &Arc<Self>, deadline: Deadline) -> MaybeOwned<Reading, T> {
        owned(self, |lock| lock.read_until(deadline))
    }

    /// Takes the lock to write as [`RwLock::write`] does, for a guard that keeps this handle.
    ///
    /// # Errors
    /// As [`RwLock::write`].
    ///
    /// # If a process dies
    /// As with [`RwLock::write`].
    pub fn write_owned(self: &Arc<Self>) -> Owned<Writing, T> {
        Deadline::never(|deadline| self.write_owned_until(deadline))
    }

    /// Takes the lock to write as [`RwLock::try_write`] does, for a guard that keeps this handle.
    ///
    /// # Errors
    /// As [`RwLock::write`].
    pub fn try_write_owned(self: &Arc<Self>) -> MaybeOwned<Writing, T> {
        owned(self, |lock| lock.try_write())
    }

    /// Takes the lock to write as [`RwLock::write_timeout`] does, for a guard that keeps this
    /// handle.
    ///
    /// # Errors
    /// As [`RwLock::write`].
    ///
    /// # If a process dies
    /// As with [`RwLock::write`].
    pub fn write_owned_timeout(self: &Arc<Self>, timeout: Duration) -> MaybeOwned<Writing, T> {
        self.write_owned_until(Deadline::after(timeout))
    }

    /// Takes the lock to write as [`RwLock::write_until`] does, for a guard that keeps this handle.
    ///
    /// # Errors
    /// As [`RwLock::write`].
    ///
    /// # If a process dies
    /// As with [`RwLock::write`].
    pub fn write_owned_until(self: &Arc<Self>, deadline: Deadline) -> MaybeOwned<Writing, T> {
        owned(self, |lock| lock.write_until(deadline))
    }
}

/// Holds a permit as a [`Permit`] does, and keeps the semaphore's handle by an [`Arc`], so that it
/// borrows nothing: [`Semaphore::acquire_owned`] returns it.
///
/// # If a process dies
/// As with [`Permit`].
pub type OwnedPermit = Permit<'static, Arc<Semaphore>>;

impl OwnedPermit {
    /// Returns the semaphore to which it belongs.
    #[must_use]
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }
}

impl Semaphore {
    /// Acquires a permit as [`Semaphore::acquire`] does, which keeps this handle.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-permit-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::{OwnedPermit, Semaphore};
    /// use std::sync::Arc;
    ///
    /// /// May run as long as it exists.
    /// struct Encoder {
    ///     permit: OwnedPermit,
    /// }
    /// let encoders = Arc::new(Semaphore::options(2).open_or_create(&domain, "encoders")?);
    /// let encoder = Encoder { permit: encoders.acquire_owned()? };
    /// assert_eq!(encoders.available_permits(), 1);
    /// drop(encoder);
    /// assert_eq!(encoders.available_permits(), 2);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    ///
    /// # If a process dies
    /// As with [`Semaphore::acquire`].
    pub fn acquire_owned(self: &Arc<Self>) -> Result<OwnedPermit, AcquireError> {
        Deadline::never(|deadline| self.acquire_owned_until(deadline))
    }

    /// Acquires a permit as [`Semaphore::try_acquire`] does, which keeps this handle.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire`].
    pub fn try_acquire_owned(self: &Arc<Self>) -> Result<Option<OwnedPermit>, AcquireError> {
        Ok(self.try_acquire()?.map(|permit| self.own(permit)))
    }

    /// Acquires a permit as [`Semaphore::acquire_timeout`] does, which keeps this handle.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_timeout`].
    ///
    /// # If a process dies
    /// As with [`Semaphore::acquire`].
    pub fn acquire_owned_timeout(
        self: &Arc<Self>,
        timeout: Duration,
    ) -> Result<Option<OwnedPermit>, AcquireError> {
        self.acquire_owned_until(Deadline::after(timeout))
    }

    /// Acquires a permit as [`Semaphore::acquire_until`] does, which keeps this handle.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_until`].
    ///
    /// # If a process dies
    /// As with [`Semaphore::acquire`].
    pub fn acquire_owned_until(
        self: &Arc<Self>,
        deadline: Deadline,
    ) -> Result<Option<OwnedPermit>, AcquireError> {
        Ok(self.acquire_until(deadline)?.map(|permit| self.own(permit)))
    }

    /// Takes up a permit as [`Semaphore::take_up`] does, which keeps this handle.
    ///
    /// # Errors
    /// As [`Semaphore::take_up`].
    ///
    /// # If a process dies
    /// As with [`Semaphore::take_up`].
    pub fn take_up_owned(self: &Arc<Self>) -> Result<OwnedPermit, AcquireError> {
        Deadline::never(|deadline| self.take_up_owned_until(deadline))
    }

    /// Takes up a permit as [`Semaphore::try_take_up`] does, which keeps this handle.
    ///
    /// # Errors
    /// As [`Semaphore::try_take_up`].
    pub fn try_take_up_owned(self: &Arc<Self>) -> Result<Option<OwnedPermit>, AcquireError> {
        Ok(self.try_take_up()?.map(|permit| self.own(permit)))
    }

    /// Takes up a permit as [`Semaphore::take_up_timeout`] does, which keeps this handle.
    ///
    /// # Errors
    /// As [`Semaphore::take_up_timeout`].
    ///
    /// # If a process dies
    /// As with [`Semaphore::take_up`].
    pub fn take_up_owned_timeout(
        self: &Arc<Self>,
        timeout: Duration,
    ) -> Result<Option<OwnedPermit>, AcquireError> {
        self.take_up_owned_until(Deadline::after(timeout))
    }

    /// Takes up a permit as [`Semaphore::take_up_until`] does, which keeps this handle.
    ///
    /// # Errors
    /// As [`Semaphore::take_up_until`].
    ///
    /// # If a process dies
    /// As with [`Semaphore::take_up`].
    pub fn take_up_owned_until(
        self: &Arc<Self>,
        deadline: Deadline,
    ) -> Result<Option<OwnedPermit>, AcquireError> {
        Ok(self.take_up_until(deadline)?.map(|permit| self.own(permit)))
    }

    /// Makes a permit of this semaphore keep the handle.
    pub(super) fn own(self: &Arc<Self>, permit: Permit<'_>) -> OwnedPermit {
        permit.by(Arc::clone(self))
    }
}
