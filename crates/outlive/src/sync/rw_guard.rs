//! What readers and writers get.

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::guard::{LockError, UNWINDING};
use super::order;
use super::raw::Acquired;
use super::raw::rw_lock::RawRwLock;
use super::rw_lock::RwLock;
use crate::Deadline;
use crate::liveness::{Me, TokenId};
use crate::shim::AtomicU32;

/// A lock that is held, with all that its guard needs to do with it.
pub(super) struct Held<'a, T> {
    pub(super) raw: &'a RawRwLock,
    pub(super) value: NonNull<T>,
    pub(super) handle: &'a RwLock<T>,
    pub(super) me: Me,
    /// Neither Send nor Sync by itself.
    pub(super) _thread: PhantomData<*mut T>,
}

impl<T> Clone for Held<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Held<'_, T> {}

impl<T> Held<'_, T> {
    /// A forked child has no token, or another one: the lock is its parent's.
    fn is_ours(&self) -> bool {
        self.me.registry.current_bits() == self.me.id.as_u32()
    }

    /// The same, unless the process watches the order of locks: what is given back fast.
    #[inline]
    fn is_ours_unwatched(&self) -> bool {
        self.me.registry.fast_bits() == self.me.id.as_u32()
    }
}

/// The token's own id: without UNWINDING, which a write guard's copy may carry.
fn without_unwinding(me: Me) -> Me {
    Me { id: TokenId::from_own(me.id.as_u32() & !UNWINDING), ..me }
}

/// Gives the lock back by `how`, in a process that may watch the order of locks, or be a forked child.
#[cold]
#[inline(never)]
fn give_back(raw: &RawRwLock, me: Me, how: impl FnOnce(&RawRwLock, TokenId)) {
    let me = without_unwinding(me);
    if me.registry.current_bits() == me.id.as_u32() {
        order::gives_back(raw);
        how(raw, me.id);
    }
}

/// The same for a writer, whose thread may also unwind.
#[cold]
#[inline(never)]
fn give_back_writing(raw: &RawRwLock, me: Me) {
    let unfinished = std::thread::panicking() && me.id.as_u32() & UNWINDING == 0;
    give_back(raw, me, if unfinished { RawRwLock::unlock_unfinished } else { RawRwLock::unlock });
}

/// Shared access to what a lock guards; gives it back when dropped.
///
/// Stays with its thread. In a forked child a guard of the parent's does nothing.
///
/// # If a process dies
/// Nobody notices: writers that wait go on at once.
///
/// # If it panics
/// Nobody is told: a reader has written nothing that the panic could have cut in half.
pub struct ReadGuard<'a, T> {
    held: Held<'a, T>,
    /// What says that we read: a reader's word, or the writers' when there was none left.
    word: &'a AtomicU32,
}

/// Exclusive access to what a lock guards; gives it back when dropped.
///
/// Stays with its thread. In a forked child a guard of the parent's does nothing.
///
/// # If a process dies
/// The next to come, to read or to write, gets [`LockError::OwnerDied`] with a guard like this.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it counts as a death: see
/// [`MutexGuard`](super::MutexGuard#if-it-panics).
pub struct WriteGuard<'a, T> {
    /// If the thread was unwinding already when it took the lock, its id here carries UNWINDING. A field of its own would make
    /// the guard too large for registers, and its copies cost more than the lock.
    held: Held<'a, T>,
}

// SAFETY: sharing a guard shares `&T` only.
unsafe impl<T: Sync> Sync for ReadGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for WriteGuard<'_, T> {}

impl<'a, T> ReadGuard<'a, T> {
    /// The guard of a reader that `word` names.
    ///
    /// # Safety
    /// The value is what the lock guards: valid for `'a`, written to by its holders only.
    #[inline]
    pub(super) unsafe fn new(held: Held<'a, T>, word: &'a AtomicU32) -> ReadGuard<'a, T> {
        ReadGuard { held, word }
    }

    /// Becomes a writer, if no other reader is inside: nobody writes in between, so what was read still holds.
    ///
    /// # Errors
    /// [`UpgradeError`], with this guard inside: see [`ReadGuard::upgrade_until`].
    pub fn try_upgrade(self) -> Result<WriteGuard<'a, T>, UpgradeError<'a, T>> {
        self.upgrade(None)
    }

    /// Becomes a writer once the other readers have left, waiting for them until the deadline. Nobody writes in between,
    /// so what was read still holds. New readers wait meanwhile.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-upgrade-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::sync::RwLock;
    /// use std::time::Duration;
    ///
    /// let table = RwLock::<[u32; 4]>::open(&domain, "table", [0; 4])?;
    /// let reading = table.read().unwrap();
    /// if reading[2] == 0 {
    ///     match reading.upgrade_until(Duration::from_secs(1)) {
    ///         Ok(mut writing) => writing[2] = 7,
    ///         // Somebody else wants to write, and waits for us to leave.
    ///         Err(refused) => drop(refused.guard),
    ///     }
    /// }
    /// assert_eq!(table.read().unwrap()[2], 7);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`UpgradeError`], with this guard inside and a reason: [`LockError::WouldBlock`] when a writer waits already (two
    /// who upgrade would wait for each other), [`LockError::Deadlock`] when this thread reads a second time,
    /// [`LockError::TimedOut`], [`LockError::Damaged`], [`LockError::System`]. Never `OwnerDied`.
    ///
    /// # If a process dies
    /// A reader's death lets us go on at once; so does that of a writer that was waiting.
    pub fn upgrade_until(self, deadline: impl Into<Deadline>) -> Result<WriteGuard<'a, T>, UpgradeError<'a, T>> {
        self.upgrade(Some(deadline.into()))
    }

    fn upgrade(self, wait: Option<Deadline>) -> Result<WriteGuard<'a, T>, UpgradeError<'a, T>> {
        let held = self.held;
        if !held.is_ours() {
            return Err(UpgradeError { guard: self, reason: LockError::WouldBlock });
        }
        if wait.is_some() {
            order::wants_more(held.me, held.handle.segment(), held.raw);
        }
        match held.raw.upgrade(self.word, held.me, held.handle.spin_wait(), wait) {
            Ok(()) => {
                core::mem::forget(self);
                // SAFETY: as for this guard, and we are alone inside now.
                Ok(unsafe { WriteGuard::new(held) })
            }
            Err(refused) => Err(UpgradeError { guard: self, reason: LockError::from_refused(refused, held.me) }),
        }
    }
}

impl<'a, T> WriteGuard<'a, T> {
    /// The guard of a writer.
    ///
    /// # Safety
    /// The value is what the lock guards: valid for `'a`, touched by its holders only; `held.me` holds it alone.
    #[inline]
    pub(super) unsafe fn new(mut held: Held<'a, T>) -> WriteGuard<'a, T> {
        if std::thread::panicking() {
            held.me.id = TokenId::from_own(held.me.id.as_u32() | UNWINDING);
        }
        WriteGuard { held }
    }

    /// The guard, with the word whether the last owner died.
    ///
    /// # Safety
    /// As for [`WriteGuard::new`].
    #[inline]
    pub(super) unsafe fn settle(
        got: Acquired,
        held: Held<'a, T>,
    ) -> Result<WriteGuard<'a, T>, LockError<WriteGuard<'a, T>>> {
        // SAFETY: the caller's promise.
        let guard = unsafe { WriteGuard::new(held) };
        if got == Acquired::OwnerDied { Err(LockError::OwnerDied(guard)) } else { Ok(guard) }
    }

    /// Whether a writer died or panicked with it, and nothing has been marked consistent since: what
    /// [`LockError::OwnerDied`] said.
    #[must_use]
    pub fn owner_died(&self) -> bool {
        !self.held.raw.is_consistent()
    }

    /// Declares that what the lock guards is whole again, after [`LockError::OwnerDied`]. If the guard is dropped without it,
    /// the next to come, to read or to write, is told again.
    pub fn mark_consistent(&mut self) {
        self.held.raw.mark_consistent();
    }

    /// Gives the lock back, and gives it up: what it guards cannot be made whole. All who come later, to read or to write,
    /// get [`LockError::NotRecoverable`], until somebody calls [`RwLock::reset`]. In a forked child it does nothing.
    ///
    /// # If a process dies
    /// In here: the lock is given up, or the next to come is told that a writer died.
    pub fn give_up(self) {
        let held = self.held;
        core::mem::forget(self);
        give_back(held.raw, held.me, RawRwLock::give_up);
    }

    /// Becomes a reader; nobody writes in between. Other readers may come in at once.
    ///
    /// # Errors
    /// This guard, if it came with [`LockError::OwnerDied`] and nothing was marked consistent: readers may not see that.
    ///
    /// # If a process dies
    /// In the middle of this: as a reader, so nobody is told.
    pub fn downgrade(self) -> Result<ReadGuard<'a, T>, WriteGuard<'a, T>> {
        let held = Held { me: without_unwinding(self.held.me), ..self.held };
        if !held.is_ours() || !held.raw.is_consistent() {
            return Err(self);
        }
        core::mem::forget(self);
        let word = held.raw.downgrade(held.me);
        Ok(ReadGuard { held, word })
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we read; `new`'s caller vouched for the pointer.
        unsafe { self.held.value.as_ref() }
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we hold the lock; `new`'s caller vouched for the pointer.
        unsafe { self.held.value.as_ref() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we hold the lock alone, so nobody else touches it; `&mut self` keeps this process from doing so twice.
        unsafe { self.held.value.as_mut() }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.held.is_ours_unwatched() {
            self.held.raw.leave(self.word, self.held.me.id);
        } else {
            // Not `self`: see `Guard`.
            let word = self.word;
            give_back(self.held.raw, self.held.me, |raw, id| raw.leave(word, id));
        }
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.held.is_ours_unwatched() && !std::thread::panicking() {
            self.held.raw.unlock(self.held.me.id);
        } else {
            // Not `self`: see `Guard`.
            give_back_writing(self.held.raw, self.held.me);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for ReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: fmt::Debug> fmt::Debug for WriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// A reader that could not become a writer, and why. It reads on.
#[derive(Debug)]
#[non_exhaustive]
pub struct UpgradeError<'a, T> {
    /// The guard as it was.
    pub guard: ReadGuard<'a, T>,
    /// Why: see [`ReadGuard::upgrade_until`].
    pub reason: LockError<Infallible>,
}

impl<T> fmt::Display for UpgradeError<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            LockError::WouldBlock => {
                f.write_str("somebody else reads, or waits to write: give the lock back and take it as a writer")
            }
            LockError::Deadlock => f.write_str("this thread reads a second time; give that back first"),
            other => other.fmt(f),
        }
    }
}

impl<T: fmt::Debug> std::error::Error for UpgradeError<'_, T> {}
