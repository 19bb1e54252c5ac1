//! Outlive's reader-writer lock as lock_api's raw one.

use std::cell::UnsafeCell;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use lock_api::GuardNoSend;
use outlive::sync::{
    AcquireError, LockError, ReadGuard, RwLock, UpgradableReadGuard, UpgradeError, WriteGuard,
};

use crate::{tried, untold, Lazy};

type Reading = ReadGuard<'static, ()>;
type Upgradable = UpgradableReadGuard<'static, ()>;
type Writing = WriteGuard<'static, ()>;

pub struct RawRwLock {
    lock: Lazy<RwLock<()>>,
    /// The writer's guard. Only the thread that writes touches this.
    writer: UnsafeCell<Option<Writing>>,
    /// The upgradable reader's guard. Only the thread that is this reader touches this.
    upgradable: UnsafeCell<Option<Upgradable>>,
    /// The readers' guards, and whose they are. A thread touches only its own.
    readers: Mutex<Vec<(ThreadId, Reading)>>,
}

// SAFETY: the lock is Sync, and each guard is touched by the thread that took it.
unsafe impl Send for RawRwLock {}
// SAFETY: the list of readers has a lock of its own, and the other cells their one holder.
unsafe impl Sync for RawRwLock {}

impl RawRwLock {
    fn lock(&self) -> &RwLock<()> {
        self.lock.get(|domain, name| RwLock::options(()).create_new(domain, name))
    }

    fn keep_reading(&self, guard: ReadGuard<'_, ()>) {
        // SAFETY: a lock that is held is borrowed by a guard of lock_api's, so it stays where it is
        // until this guard is taken out again.
        let guard = unsafe { std::mem::transmute::<ReadGuard<'_, ()>, Reading>(guard) };
        self.readers().push((thread::current().id(), guard));
    }

    fn keep_writing(&self, guard: WriteGuard<'_, ()>) {
        // SAFETY: the guard of lock_api's borrows the lock until this guard is taken out again.
        let guard = unsafe { std::mem::transmute::<WriteGuard<'_, ()>, Writing>(guard) };
        // SAFETY: this thread writes.
        unsafe { *self.writer.get() = Some(guard) };
    }

    fn keep_upgradable(&self, guard: UpgradableReadGuard<'_, ()>) {
        // SAFETY: the guard of lock_api's borrows the lock until this guard is taken out again.
        let guard =
            unsafe { std::mem::transmute::<UpgradableReadGuard<'_, ()>, Upgradable>(guard) };
        // SAFETY: this thread is the upgradable reader.
        unsafe { *self.upgradable.get() = Some(guard) };
    }

    fn readers(&self) -> std::sync::MutexGuard<'_, Vec<(ThreadId, Reading)>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out a guard of this thread, which reads.
    fn take_reading(&self) -> Reading {
        let mut readers = self.readers();
        let mine = readers.iter().rposition(|(thread, _)| *thread == thread::current().id());
        readers.swap_remove(mine.expect("a thread that reads has a guard")).1
    }

    /// # Safety
    /// The calling thread writes.
    unsafe fn take_writing(&self) -> Writing {
        // SAFETY: the caller writes.
        unsafe { (*self.writer.get()).take() }.expect("the thread that writes has a guard")
    }

    /// # Safety
    /// The calling thread is the upgradable reader.
    unsafe fn take_upgradable(&self) -> Upgradable {
        // SAFETY: the caller is the upgradable reader.
        unsafe { (*self.upgradable.get()).take() }.expect("the upgradable reader has a guard")
    }

    /// Keeps what an upgradable reader got, likewise.
    fn keep_upgradable_read<'a>(
        &self,
        got: Result<Option<UpgradableReadGuard<'a, ()>>, LockError<WriteGuard<'a, ()>>>,
    ) -> bool {
        let guard = match got {
            Ok(guard) => guard,
            Err(error) => {
                let writing = untold(Err(error), WriteGuard::mark_consistent);
                let reading = writing.downgrade_to_upgradable();
                Some(reading.ok().expect("a lock marked consistent can be read"))
            }
        };
        guard.map(|guard| self.keep_upgradable(guard)).is_some()
    }

    /// Keeps what a reader got: a writer's guard, where the last writer panicked.
    fn keep_read<'a>(
        &self,
        got: Result<Option<ReadGuard<'a, ()>>, LockError<WriteGuard<'a, ()>>>,
    ) -> bool {
        let guard = match got {
            Ok(guard) => guard,
            Err(error) => {
                let writing = untold(Err(error), WriteGuard::mark_consistent);
                Some(writing.downgrade().ok().expect("a lock marked consistent can be read"))
            }
        };
        guard.map(|guard| self.keep_reading(guard)).is_some()
    }
}

// SAFETY: Outlive's lock lets in one writer alone or any number of readers, until their guards are
// dropped.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: RawRwLock = RawRwLock {
        lock: Lazy::new(),
        writer: UnsafeCell::new(None),
        upgradable: UnsafeCell::new(None),
        readers: Mutex::new(Vec::new()),
    };

    type GuardMarker = GuardNoSend;

    fn lock_shared(&self) {
        self.keep_read(self.lock().read().map(Some));
    }

    fn try_lock_shared(&self) -> bool {
        match self.lock().try_read() {
            // As in `tried`.
            Err(LockError::Failed(AcquireError::Deadlock)) => false,
            got => self.keep_read(got),
        }
    }

    unsafe fn unlock_shared(&self) {
        drop(self.take_reading());
    }

    fn lock_exclusive(&self) {
        self.keep_writing(untold(self.lock().write(), WriteGuard::mark_consistent));
    }

    fn try_lock_exclusive(&self) -> bool {
        let taken = tried(self.lock().try_write(), WriteGuard::mark_consistent);
        taken.map(|guard| self.keep_writing(guard)).is_some()
    }

    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller writes.
        drop(unsafe { self.take_writing() });
    }
}

// SAFETY: each of a thread's reads has a guard of Outlive's. A thread that reads already may read
// again while no writer waits; Outlive's lock has no way past a writer that waits.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    fn lock_shared_recursive(&self) {
        lock_api::RawRwLock::lock_shared(self);
    }

    fn try_lock_shared_recursive(&self) -> bool {
        lock_api::RawRwLock::try_lock_shared(self)
    }
}

// SAFETY: Outlive's `downgrade` lets no writer in between.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    unsafe fn downgrade(&self) {
        // SAFETY: the caller writes.
        let writing = unsafe { self.take_writing() };
        self.keep_reading(writing.downgrade().ok().expect("no writer before it died"));
    }
}

// SAFETY: Outlive's `upgrade` lets no writer in between. Its upgradable reader is the only one, and
// no thread writes before it does.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLock {
    fn lock_upgradable(&self) {
        self.keep_upgradable_read(self.lock().upgradable_read().map(Some));
    }

    fn try_lock_upgradable(&self) -> bool {
        match self.lock().try_upgradable_read() {
            // As in `tried`.
            Err(LockError::Failed(AcquireError::Deadlock)) => false,
            got => self.keep_upgradable_read(got),
        }
    }

    unsafe fn unlock_upgradable(&self) {
        // SAFETY: the caller is the upgradable reader.
        drop(unsafe { self.take_upgradable() });
    }

    unsafe fn upgrade(&self) {
        // SAFETY: the caller is the upgradable reader.
        let reading = unsafe { self.take_upgradable() };
        match reading.upgrade() {
            Ok(guard) => self.keep_writing(guard),
            Err(refused) => panic!("{refused}"),
        }
    }

    unsafe fn try_upgrade(&self) -> bool {
        // SAFETY: the caller is the upgradable reader.
        let reading = unsafe { self.take_upgradable() };
        match reading.try_upgrade() {
            Ok(guard) => {
                self.keep_writing(guard);
                true
            }
            Err(UpgradeError::InUse(guard)) => {
                self.keep_upgradable(guard);
                false
            }
            Err(other) => panic!("{other}"),
        }
    }
}

// SAFETY: Outlive's downgrades let no writer in between.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLock {
    unsafe fn downgrade_upgradable(&self) {
        // SAFETY: the caller is the upgradable reader.
        let reading = unsafe { self.take_upgradable() };
        self.keep_reading(reading.downgrade().ok().expect("it is this thread's"));
    }

    unsafe fn downgrade_to_upgradable(&self) {
        // SAFETY: the caller writes.
        let writing = unsafe { self.take_writing() };
        let reading = writing.downgrade_to_upgradable();
        self.keep_upgradable(reading.ok().expect("no writer before it died"));
    }
}
