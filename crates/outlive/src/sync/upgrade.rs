//! From reading to writing: how readers of both kinds become the writer, at once or by waiting, in
//! one wait or in parts.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use super::error::{AcquireError, UpgradeError};
use super::guard::Guard;
use super::order;
use super::raw::Refused;
use super::raw::rw_lock::RawRwLock;
use super::raw_lock::{RawLock, Site};
use super::rw_lock::{ReadHold, Reading, RwLock, WriteGuard, Writing};
use super::upgradable::Upgradable;
use crate::Deadline;
use crate::liveness::Me;

/// A reader's way to hold an [`RwLock`](super::RwLock), from which it may become the writer.
///
/// # Safety
/// If `finish` returns `Ok`, the caller is the writer, and no thread has written since it has held
/// the lock. If it returns an error, the caller reads as before, after `end`.
pub unsafe trait Upgrades: RawLock<Words = RawRwLock, Repairing = Writing> {
    /// Returns the place of the lock.
    fn site<'a>(_: &'a RawRwLock, held: Self::Held<'a>) -> &'a Site;

    /// Keeps new readers out. `waits`: the caller waits for those that are inside.
    ///
    /// # Errors
    /// The reason why the caller may not become the writer: it reads as before.
    fn begin(words: &RawRwLock, me: Me, held: Self::Held<'_>, waits: bool) -> Result<(), Refused>;

    /// Waits until no other reader is inside, and becomes the writer.
    ///
    /// # Errors
    /// The reason why it is not the writer. New readers stay out: the caller goes on by another
    /// `finish`, or calls `end`.
    fn finish(
        words: &RawRwLock,
        me: Me,
        held: Self::Held<'_>,
        wait: Option<Deadline>,
    ) -> Result<(), Refused>;

    /// Lets new readers in again.
    fn end(words: &RawRwLock, me: Me, held: Self::Held<'_>);
}

// SAFETY: the reader's word names it until it is the writer, and it takes `writer` before it looks
// at the others' words (raw/rw_lock_slow.rs).
unsafe impl Upgrades for Reading {
    fn site<'a>(_: &'a RawRwLock, held: ReadHold<'a>) -> &'a Site {
        held.site
    }

    fn begin(words: &RawRwLock, me: Me, held: ReadHold<'_>, waits: bool) -> Result<(), Refused> {
        words.begin_upgrade(held.word, me, waits)
    }

    fn finish(
        words: &RawRwLock,
        me: Me,
        held: ReadHold<'_>,
        wait: Option<Deadline>,
    ) -> Result<(), Refused> {
        words.finish_upgrade(held.word, me, &held.site.spin_wait, wait)
    }

    fn end(words: &RawRwLock, me: Me, held: ReadHold<'_>) {
        words.end_upgrade(held.word, me);
    }
}

// SAFETY: the upgradable reader owns `writer` all the time, and takes the mark out before it looks
// at the readers' words (raw/rw_lock_slow.rs).
unsafe impl Upgrades for Upgradable {
    fn site<'a>(_: &'a RawRwLock, held: &'a Site) -> &'a Site {
        held
    }

    fn begin(words: &RawRwLock, me: Me, _: &Site, waits: bool) -> Result<(), Refused> {
        words.begin_upgrade_upgradable(me, waits)
    }

    fn finish(
        words: &RawRwLock,
        me: Me,
        site: &Site,
        wait: Option<Deadline>,
    ) -> Result<(), Refused> {
        words.finish_upgrade_upgradable(me, &site.spin_wait, wait)
    }

    fn end(words: &RawRwLock, me: Me, _: &Site) {
        words.share(me);
    }
}

/// What upgrading returns: the writer's guard, or the reader's again and the reason.
pub type Upgraded<'a, R, T, K> = Result<WriteGuard<'a, T, K>, UpgradeError<Guard<'a, R, T, K>>>;

impl<'a, R: Upgrades, T, K> Guard<'a, R, T, K> {
    /// Becomes the writer once the other readers have left, and waits for them as long as they live.
    /// No thread writes in between, so what was read still holds. New readers wait meanwhile. A
    /// reader that must not be refused because another thread waits to write reads by
    /// [`RwLock::upgradable_read`].
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-upgrade-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::RwLock;
    /// use std::time::Duration;
    ///
    /// let table = RwLock::<[u32; 4]>::options([0; 4]).open_or_create(&domain, "table")?;
    /// let reading = table.read().unwrap();
    /// if reading[2] == 0 {
    ///     match reading.upgrade_timeout(Duration::from_secs(1)) {
    ///         Ok(mut writing) => writing[2] = 7,
    ///         // Another thread wants to write, and waits for us to leave.
    ///         Err(refused) => drop(refused),
    ///     }
    /// }
    /// assert_eq!(table.read().unwrap()[2], 7);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`UpgradeError`], with this guard inside, and why: [`UpgradeError::InUse`] when a writer
    /// waits already (two upgrading readers would wait for each other), or another reader is the
    /// upgradable one: an upgradable reader does not get this; or [`UpgradeError::Failed`] with
    /// [`AcquireError::Deadlock`] when this thread reads by another guard as well,
    /// [`AcquireError::NotHeld`] in a forked child, [`AcquireError::Damaged`], or
    /// [`AcquireError::System`].
    ///
    /// # If a process dies
    /// The death of another reader lets the caller go on at once; so does that of a waiting writer.
    /// If the caller dies before it is the writer, no locker is told; afterwards, the next one.
    pub fn upgrade(self) -> Upgraded<'a, R, T, K> {
        self.upgrade_by(Some(Deadline::NEVER))
    }

    /// Becomes the writer if no other reader is inside, as [`upgrade`](super::ReadGuard::upgrade)
    /// does. Never waits.
    ///
    /// # Errors
    /// As [`upgrade`](super::ReadGuard::upgrade); [`UpgradeError::InUse`] also when another thread
    /// reads.
    pub fn try_upgrade(self) -> Upgraded<'a, R, T, K> {
        self.upgrade_by(None)
    }

    /// Becomes the writer as [`upgrade`](super::ReadGuard::upgrade) does, and waits for so long at
    /// most.
    ///
    /// # Errors
    /// As [`upgrade`](super::ReadGuard::upgrade), and [`UpgradeError::TimedOut`]: new readers enter
    /// again.
    ///
    /// # If a process dies
    /// As with [`upgrade`](super::ReadGuard::upgrade).
    pub fn upgrade_timeout(self, timeout: Duration) -> Upgraded<'a, R, T, K> {
        self.upgrade_by(Some(Deadline::after(timeout)))
    }

    /// Becomes the writer as [`upgrade`](super::ReadGuard::upgrade) does, and waits until the
    /// deadline.
    ///
    /// # Errors
    /// As [`upgrade_timeout`](super::ReadGuard::upgrade_timeout).
    ///
    /// # If a process dies
    /// As with [`upgrade`](super::ReadGuard::upgrade).
    pub fn upgrade_until(self, deadline: Deadline) -> Upgraded<'a, R, T, K> {
        self.upgrade_by(Some(deadline))
    }

    fn upgrade_by(self, wait: Option<Deadline>) -> Upgraded<'a, R, T, K> {
        let begun = self.begin(wait.is_some())?;
        begun.finish(wait).map_err(|refused| refused.map(BegunUpgrade::end))
    }

    /// Begins an upgrade that waits by parts, for bindings that look for signals in between.
    ///
    /// # Errors
    /// As [`upgrade`](super::ReadGuard::upgrade).
    #[doc(hidden)]
    pub fn begin_upgrade(self) -> Result<BegunUpgrade<'a, R, T, K>, UpgradeError<Self>> {
        self.begin(true)
    }

    fn begin(self, waits: bool) -> Result<BegunUpgrade<'a, R, T, K>, UpgradeError<Self>> {
        let Some(me) = self.hold.owner() else {
            return Err(UpgradeError::Failed(self, AcquireError::NotHeld));
        };
        let (words, held) = (self.hold.words, self.hold.held);
        if waits {
            order::wants_more(me, &R::site(words, held).segment, words);
        }
        match R::begin(words, me, held, waits) {
            Ok(()) => Ok(BegunUpgrade { guard: ManuallyDrop::new(self) }),
            Err(refused) => Err(UpgradeError::of(self, refused, me)),
        }
    }
}

/// A reader that waits to become the writer: it still reads, and new readers stay out, also between
/// the parts of its wait. Dropping it gives the lock back.
///
/// # If a process dies
/// As with [`upgrade`](super::ReadGuard::upgrade): no locker is told.
#[doc(hidden)]
pub struct BegunUpgrade<'a, R: Upgrades, T, K = ()> {
    guard: ManuallyDrop<Guard<'a, R, T, K>>,
}

/// The [`BegunUpgrade`] of a reader whose guard keeps the lock's handle.
#[doc(hidden)]
pub type OwnedBegunUpgrade<R, T> = BegunUpgrade<'static, R, T, Arc<RwLock<T>>>;

/// That of an ordinary reader.
#[doc(hidden)]
pub type BegunReadUpgrade<T> = OwnedBegunUpgrade<Reading, T>;

/// That of an upgradable reader.
#[doc(hidden)]
pub type BegunUpgradableUpgrade<T> = OwnedBegunUpgrade<Upgradable, T>;

impl<'a, R: Upgrades, T, K> BegunUpgrade<'a, R, T, K> {
    /// Waits for the other readers until the deadline.
    ///
    /// # Errors
    /// As [`upgrade_until`](super::ReadGuard::upgrade_until), with this wait inside.
    pub fn upgrade_until(
        self,
        deadline: Deadline,
    ) -> Result<WriteGuard<'a, T, K>, UpgradeError<Self>> {
        self.finish(Some(deadline))
    }

    fn finish(self, wait: Option<Deadline>) -> Result<WriteGuard<'a, T, K>, UpgradeError<Self>> {
        let Some(me) = self.guard.hold.owner() else {
            return Err(UpgradeError::Failed(self, AcquireError::NotHeld));
        };
        let (words, held) = (self.guard.hold.words, self.guard.hold.held);
        match R::finish(words, me, held, wait) {
            Ok(()) => {
                let Guard { value, hold, keep, .. } = self.into_guard();
                hold.forget();
                // SAFETY: the reader's promise holds for the writer, and the upgrade has made this
                // thread the only holder.
                Ok(unsafe { WriteGuard::new(words, value, me, R::site(words, held)) }.keeping(keep))
            }
            Err(refused) => Err(UpgradeError::of(self, refused, me)),
        }
    }

    /// Returns the reader's guard.
    pub fn guard(&self) -> &Guard<'a, R, T, K> {
        &self.guard
    }

    /// Lets new readers in again, and returns the reader's guard.
    pub fn end(self) -> Guard<'a, R, T, K> {
        self.let_readers_in();
        self.into_guard()
    }

    fn let_readers_in(&self) {
        // In a forked child the lock is its parent's.
        if let Some(me) = self.guard.hold.owner() {
            R::end(self.guard.hold.words, me, self.guard.hold.held);
        }
    }

    /// Returns the guard, whatever becomes of new readers.
    fn into_guard(self) -> Guard<'a, R, T, K> {
        let mut begun = ManuallyDrop::new(self);
        // SAFETY: `begun` is not dropped, so the guard is taken once.
        unsafe { ManuallyDrop::take(&mut begun.guard) }
    }
}

impl<R: Upgrades, T, K> Drop for BegunUpgrade<'_, R, T, K> {
    fn drop(&mut self) {
        self.let_readers_in();
        // SAFETY: `into_guard` takes the guard only of what is not dropped.
        unsafe { ManuallyDrop::drop(&mut self.guard) };
    }
}
