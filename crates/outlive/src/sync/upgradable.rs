//! Reading with the right to become the writer: one reader at a time, which no thread refuses.

use std::sync::Arc;
use std::time::Duration;

use super::guard::Guard;
use super::lock::{Locked, MaybeLocked};
use super::owned::{MaybeOwned, Owned, OwnedGuard, owned};
use super::raw::Acquired;
use super::raw::rw_lock::RawRwLock;
use super::raw_lock::{Fast, Leaving, RawLock, Refusal, Site, Taken};
use super::rw_lock::{ReadGuard, ReadHold, RwLock, WriteGuard, Writing};
use crate::Deadline;
use crate::liveness::Me;

/// Gives shared access to what an [`RwLock`] guards, with the right to [become the
/// writer](UpgradableReadGuard::upgrade), and gives the lock back when dropped:
/// [`RwLock::upgradable_read`] returns it.
///
/// A guard stays with its thread. In a forked child, a guard of the parent's has no effect.
///
/// # If a process dies
/// No locker is told: waiting writers go on at once, and so do readers that want to be upgradable.
///
/// # If it panics
/// As with a [`ReadGuard`]: no locker is told.
pub type UpgradableReadGuard<'a, T, K = ()> = Guard<'a, Upgradable, T, K>;

/// The [`OwnedGuard`] of an [`RwLock`]'s upgradable reader.
pub type OwnedUpgradableReadGuard<T> = OwnedGuard<Upgradable, T>;

/// The upgradable reader's way to hold an [`RwLock`].
pub struct Upgradable(());

// SAFETY: the upgradable reader owns the writers' word, so no thread writes beside it
// (raw/rw_lock.rs).
unsafe impl RawLock for Upgradable {
    type Words = RawRwLock;
    type Repairing = Writing;
    /// What a reader needs, or a writer, which it may become.
    type Held<'a> = &'a Site;
    const EXCLUSIVE: bool = false;

    #[inline]
    fn try_fast<'a>(words: &'a RawRwLock, (): &(), site: &'a Site, me: Me) -> Fast<&'a Site> {
        match words.enter_upgradable(me.id) {
            Some(true) => Fast::Clean(site),
            Some(false) => Fast::Look(site),
            None => Fast::Busy,
        }
    }

    fn lock_slow<'a>(
        words: &'a RawRwLock,
        (): &(),
        site: &'a Site,
        me: Me,
        seen: Fast<&'a Site>,
        wait: Option<Deadline>,
    ) -> Result<Taken<'a, Upgradable>, Refusal> {
        let entered = matches!(seen, Fast::Look(_));
        match words.upgradable_slow(me, &site.spin_wait, wait, entered) {
            Ok(Acquired::Clean) => Ok(Taken::Clean(site)),
            Ok(Acquired::OwnerDied) => Ok(Taken::OwnerDied(site)),
            Err(refused) => Err(Refusal::of(refused, me)),
        }
    }

    #[inline]
    fn unlock(words: &RawRwLock, me: Me, _: &Site, _: Leaving) {
        words.leave_upgradable(me.id);
    }
}

impl<T> RwLock<T> {
    /// Takes the lock to read, with the right to become the writer, and waits as long as a living
    /// writer or another upgradable reader holds it. Other readers enter beside it, also while a
    /// writer waits for it.
    ///
    /// It costs a compare-exchange, and so does giving back. Any reader may try to
    /// [upgrade](ReadGuard::upgrade), but is refused when a writer waits already; an upgradable
    /// reader is never refused: no writer comes before it.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-upgradable-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::RwLock;
    ///
    /// let table = RwLock::<[u32; 4]>::options([0; 4]).open_or_create(&domain, "table")?;
    /// let reading = table.upgradable_read().unwrap();
    /// assert_eq!(*table.read().unwrap(), [0; 4], "other readers read on");
    /// if reading[2] == 0 {
    ///     // It waits for other readers to leave. The 0 that we have read is still there then.
    ///     let mut writing = reading.upgrade().unwrap();
    ///     writing[2] = 7;
    ///     let reading = writing.downgrade_to_upgradable().unwrap();
    ///     assert_eq!(reading[2], 7);
    /// }
    /// assert_eq!(table.read().unwrap()[2], 7);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::OwnerDied`](super::LockError::OwnerDied) with a write guard inside: a writer
    /// died, and the caller has the lock as a writer, to repair what it left.
    /// [`LockError::Failed`](super::LockError::Failed) with
    /// [`AcquireError::NotRecoverable`](super::AcquireError::NotRecoverable);
    /// [`AcquireError::Deadlock`](super::AcquireError::Deadlock) when this thread writes or is the
    /// upgradable reader already, or reads while another thread writes, waits to, or is the
    /// upgradable reader; [`AcquireError::Damaged`](super::AcquireError::Damaged),
    /// [`AcquireError::System`](super::AcquireError::System).
    ///
    /// # If a process dies
    /// The death of the writer or of the other upgradable reader ends the wait at once.
    #[inline]
    pub fn upgradable_read(&self) -> Locked<'_, Upgradable, T> {
        self.take_for_ever()
    }

    /// Takes the lock as [`RwLock::upgradable_read`] does, but never waits; returns `None` while a
    /// living writer or another upgradable reader holds it.
    ///
    /// # Errors
    /// As [`RwLock::upgradable_read`].
    #[inline]
    pub fn try_upgradable_read(&self) -> MaybeLocked<'_, Upgradable, T> {
        self.take(|| None)
    }

    /// Takes the lock as [`RwLock::upgradable_read`] does, and waits for so long at most; returns
    /// `None` if a living writer or another upgradable reader still holds it then.
    ///
    /// # Errors
    /// As [`RwLock::upgradable_read`].
    ///
    /// # If a process dies
    /// As with [`RwLock::upgradable_read`].
    #[inline]
    pub fn upgradable_read_timeout(&self, timeout: Duration) -> MaybeLocked<'_, Upgradable, T> {
        self.take(|| Some(Deadline::after(timeout)))
    }

    /// Takes the lock as [`RwLock::upgradable_read`] does, and waits until the deadline; returns
    /// `None` if a living writer or another upgradable reader still holds it then.
    ///
    /// # Errors
    /// As [`RwLock::upgradable_read`].
    ///
    /// # If a process dies
    /// As with [`RwLock::upgradable_read`].
    #[inline]
    pub fn upgradable_read_until(&self, deadline: Deadline) -> MaybeLocked<'_, Upgradable, T> {
        self.take(|| Some(deadline))
    }
}

impl<T: 'static> RwLock<T> {
    /// Takes the lock as [`RwLock::upgradable_read`] does, for a guard that keeps this handle.
    ///
    /// # Errors
    /// As [`RwLock::upgradable_read`].
    ///
    /// # If a process dies
    /// As with [`RwLock::upgradable_read`].
    pub fn upgradable_read_owned(self: &Arc<Self>) -> Owned<Upgradable, T> {
        Deadline::never(|deadline| self.upgradable_read_owned_until(deadline))
    }

    /// Takes the lock as [`RwLock::try_upgradable_read`] does, for a guard that keeps this handle.
    ///
    /// # Errors
    /// As [`RwLock::upgradable_read`].
    pub fn try_upgradable_read_owned(self: &Arc<Self>) -> MaybeOwned<Upgradable, T> {
        owned(self, |lock| lock.try_upgradable_read())
    }

    /// Takes the lock as [`RwLock::upgradable_read_timeout`] does, for a guard that keeps this
    /// handle.
    ///
    /// # Errors
    /// As [`RwLock::upgradable_read`].
    ///
    /// # If a process dies
    /// As with [`RwLock::upgradable_read`].
    pub fn upgradable_read_owned_timeout(
        self: &Arc<Self>,
        timeout: Duration,
    ) -> MaybeOwned<Upgradable, T> {
        self.upgradable_read_owned_until(Deadline::after(timeout))
    }

    /// Takes the lock as [`RwLock::upgradable_read_until`] does, for a guard that keeps this handle.
    ///
    /// # Errors
    /// As [`RwLock::upgradable_read`].
    ///
    /// # If a process dies
    /// As with [`RwLock::upgradable_read`].
    pub fn upgradable_read_owned_until(
        self: &Arc<Self>,
        deadline: Deadline,
    ) -> MaybeOwned<Upgradable, T> {
        owned(self, |lock| lock.upgradable_read_until(deadline))
    }
}

impl<'a, T, K> UpgradableReadGuard<'a, T, K> {
    /// Becomes an ordinary reader: another reader may be the upgradable one then, or a writer wait
    /// for this one to leave. No thread writes in between.
    ///
    /// # Errors
    /// This guard, in a forked child.
    ///
    /// # If a process dies
    /// During this call: as for a reader, so no locker is told.
    pub fn downgrade(self) -> Result<ReadGuard<'a, T, K>, UpgradableReadGuard<'a, T, K>> {
        let Some(me) = self.hold.owner() else {
            return Err(self);
        };
        let Guard { value, hold, keep, .. } = self;
        let (words, site) = (hold.words, hold.held);
        hold.forget();
        let word = words.downgrade_upgradable(me);
        // SAFETY: this guard's promise holds for the new one, and this thread reads.
        Ok(unsafe { ReadGuard::new(words, value, me, ReadHold::new(word, site)) }.keeping(keep))
    }
}

impl<'a, T, K> WriteGuard<'a, T, K> {
    /// Becomes the upgradable reader. No thread writes in between; other readers may enter at once.
    ///
    /// # Errors
    /// This guard, if it came with [`LockError::OwnerDied`](super::LockError::OwnerDied) and was
    /// not marked consistent: readers may not see that value. Also in a forked child.
    ///
    /// # If a process dies
    /// During this call: as for a reader, so no locker is told.
    pub fn downgrade_to_upgradable(
        self,
    ) -> Result<UpgradableReadGuard<'a, T, K>, WriteGuard<'a, T, K>> {
        let Some(me) = self.may_downgrade() else {
            return Err(self);
        };
        let Guard { value, hold, keep, .. } = self;
        let (words, site) = (hold.words, hold.held);
        hold.forget();
        words.downgrade_to_upgradable(me);
        // SAFETY: this guard's promise holds for the new one, and this thread is the upgradable
        // reader.
        Ok(unsafe { UpgradableReadGuard::new(words, value, me, site) }.keeping(keep))
    }
}
