//! The guards of readers and writers.

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

/// A held lock, with all that its guard needs to use it.
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
    /// Returns whether this process took the lock. A forked child has another token or none: the
    /// lock is its parent's.
    fn is_ours(&self) -> bool {
        self.me.registry.current_bits() == self.me.id.as_u32()
    }

    /// Returns the same, and false in a process that records the order of locks: such a guard takes
    /// the slow path.
    #[inline]
    fn is_ours_unwatched(&self) -> bool {
        self.me.registry.fast_bits() == self.me.id.as_u32()
    }
}

/// Returns the token's own id, without UNWINDING, which a write guard's copy may carry.
fn without_unwinding(me: Me) -> Me {
    Me { id: TokenId::from_own(me.id.as_u32() & !UNWINDING), ..me }
}

/// Unlocks by `how`, in a process that may record the order of locks, or be a forked child.
#[cold]
#[inline(never)]
fn give_back(raw: &RawRwLock, me: Me, how: impl FnOnce(&RawRwLock, TokenId)) {
    let me = without_unwinding(me);
    if me.registry.current_bits() == me.id.as_u32() {
        order::gives_back(raw);
        how(raw, me.id);
    }
}

/// Unlocks by `how` for a writer, whose thread may also unwind.
#[cold]
#[inline(never)]
fn give_back_writing(raw: &RawRwLock, me: Me) {
    let unfinished = std::thread::panicking() && me.id.as_u32() & UNWINDING == 0;
    give_back(raw, me, if unfinished { RawRwLock::unlock_unfinished } else { RawRwLock::unlock });
}

/// Gives shared access to what a lock guards, and gives the lock back when dropped.
///
/// A guard stays with its thread. In a forked child, a guard of the parent's has no effect.
///
/// # If a process dies
/// No locker is told: waiting writers go on at once.
///
/// # If it panics
/// No locker is told: a reader has changed nothing that the panic could leave half-written.
pub struct ReadGuard<'a, T> {
    held: Held<'a, T>,
    /// The word that says that we read: a reader's word, or the writers' if no reader's word was
    /// free.
    word: &'a AtomicU32,
}

/// Gives exclusive access to what a lock guards, and gives the lock back when dropped.
///
/// A guard stays with its thread. In a forked child, a guard of the parent's has no effect.
///
/// # If a process dies
/// The next locker, reader or writer, gets [`LockError::OwnerDied`] with a guard like this.
///
/// # If it panics
/// A panic that begins while the guard is held and unwinds through it counts as a death: see
/// [`MutexGuard`](super::MutexGuard#if-it-panics).
pub struct WriteGuard<'a, T> {
    /// If the thread was unwinding already when it took the lock, its id here carries UNWINDING. A
    /// field for that would make the guard too large for registers, and copying it would cost more
    /// than the lock.
    held: Held<'a, T>,
}

// SAFETY: a shared guard gives no more than `&T`, and `T: Sync`.
unsafe impl<T: Sync> Sync for ReadGuard<'_, T> {}
// SAFETY: a shared guard gives no more than `&T`, and `T: Sync`.
unsafe impl<T: Sync> Sync for WriteGuard<'_, T> {}

impl<'a, T> ReadGuard<'a, T> {
    /// Makes the guard of a reader that `word` names.
    ///
    /// # Safety
    /// The lock guards the value: it is valid for `'a`, and only the lock's holders write to it.
    #[inline]
    pub(super) unsafe fn new(held: Held<'a, T>, word: &'a AtomicU32) -> ReadGuard<'a, T> {
        ReadGuard { held, word }
    }

    /// Becomes a writer if no other reader is inside. No thread writes in between, so what was read
    /// still holds.
    ///
    /// # Errors
    /// [`UpgradeError`], with this guard inside: see [`ReadGuard::upgrade_until`].
    pub fn try_upgrade(self) -> Result<WriteGuard<'a, T>, UpgradeError<'a, T>> {
        self.upgrade(None)
    }

    /// Becomes a writer once the other readers have left, and waits for them until the deadline. No
    /// thread writes in between, so what was read still holds. New readers wait meanwhile.
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
    ///         // Another thread wants to write, and waits for us to leave.
    ///         Err(refused) => drop(refused.guard),
    ///     }
    /// }
    /// assert_eq!(table.read().unwrap()[2], 7);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`UpgradeError`], with this guard inside and a reason: [`LockError::WouldBlock`] when a
    /// writer waits already (two upgrading readers would wait for each other),
    /// [`LockError::Deadlock`] when this thread reads a second time, [`LockError::TimedOut`],
    /// [`LockError::Damaged`], [`LockError::System`]. Never `OwnerDied`.
    ///
    /// # If a process dies
    /// The death of another reader lets the caller go on at once; so does that of a waiting writer.
    pub fn upgrade_until(
        self,
        deadline: impl Into<Deadline>,
    ) -> Result<WriteGuard<'a, T>, UpgradeError<'a, T>> {
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
                // SAFETY: this guard's promise holds for the new one, and the upgrade has made this
                // thread the only holder.
                Ok(unsafe { WriteGuard::new(held) })
            }
            Err(refused) => {
                Err(UpgradeError { guard: self, reason: LockError::from_refused(refused, held.me) })
            }
        }
    }
}

impl<'a, T> WriteGuard<'a, T> {
    /// Makes the guard of a writer.
    ///
    /// # Safety
    /// The lock guards the value: it is valid for `'a`, only the lock's holders touch it, and
    /// `held.me` is the only holder.
    #[inline]
    pub(super) unsafe fn new(mut held: Held<'a, T>) -> WriteGuard<'a, T> {
        if std::thread::panicking() {
            held.me.id = TokenId::from_own(held.me.id.as_u32() | UNWINDING);
        }
        WriteGuard { held }
    }

    /// Makes the guard, and says whether the last owner died.
    ///
    /// # Safety
    /// As for [`WriteGuard::new`].
    #[inline]
    pub(super) unsafe fn settle(
        got: Acquired,
        held: Held<'a, T>,
    ) -> Result<WriteGuard<'a, T>, LockError<WriteGuard<'a, T>>> {
        // SAFETY: the caller promises that the lock guards `held`'s value and that `held.me` is its
        // only holder.
        let guard = unsafe { WriteGuard::new(held) };
        if got == Acquired::OwnerDied { Err(LockError::OwnerDied(guard)) } else { Ok(guard) }
    }

    /// Returns whether a writer died or panicked holding the lock and no writer has marked the
    /// value consistent since. [`LockError::OwnerDied`] reported it.
    #[must_use]
    pub fn owner_died(&self) -> bool {
        !self.held.raw.is_consistent()
    }

    /// Declares that what the lock guards is whole again, after [`LockError::OwnerDied`]. If the
    /// guard is dropped without this, the next locker, reader or writer, gets `OwnerDied` again.
    pub fn mark_consistent(&mut self) {
        self.held.raw.mark_consistent();
    }

    /// Unlocks, and gives the lock up, because what it guards cannot be repaired. Every later
    /// locker, reader or writer, gets [`LockError::NotRecoverable`], until a process calls
    /// [`RwLock::reset`]. In a forked child it has no effect.
    ///
    /// # If a process dies
    /// During this call: the lock is given up, or the next locker gets [`LockError::OwnerDied`].
    pub fn give_up(self) {
        let held = self.held;
        core::mem::forget(self);
        give_back(held.raw, held.me, RawRwLock::give_up);
    }

    /// Becomes a reader. No thread writes in between; other readers may enter at once.
    ///
    /// # Errors
    /// This guard, if it came with [`LockError::OwnerDied`] and was not marked consistent: readers
    /// may not see that value.
    ///
    /// # If a process dies
    /// During this call: as for a reader, so no locker is told.
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
        // SAFETY: this thread reads; `new`'s caller promised that the pointer is valid.
        unsafe { self.held.value.as_ref() }
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock; `new`'s caller promised that the pointer is valid.
        unsafe { self.held.value.as_ref() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread alone holds the lock; `&mut self` excludes a second borrow here.
        unsafe { self.held.value.as_mut() }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.held.is_ours_unwatched() {
            self.held.raw.leave(self.word, self.held.me.id);
        } else {
            // Not `self`: see `MutexGuard`.
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
            // Not `self`: see `MutexGuard`.
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

/// Says why a reader could not become a writer. It still reads.
#[derive(Debug)]
#[non_exhaustive]
pub struct UpgradeError<'a, T> {
    /// The guard as it was.
    pub guard: ReadGuard<'a, T>,
    /// The reason: see [`ReadGuard::upgrade_until`].
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
