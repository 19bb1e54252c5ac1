//! Outlive's mutex as lock_api's raw mutex.

use std::cell::UnsafeCell;

use lock_api::GuardNoSend;
use outlive::sync::{Mutex, MutexGuard};

use crate::{tried, untold, Lazy};

pub struct RawMutex {
    mutex: Lazy<Mutex<()>>,
    /// The holder's guard. Only the thread that holds the mutex touches this.
    guard: UnsafeCell<Option<MutexGuard<'static, ()>>>,
}

// SAFETY: the mutex is Sync, and only its holder touches the guard.
unsafe impl Send for RawMutex {}
// SAFETY: only the mutex's holder touches the guard.
unsafe impl Sync for RawMutex {}

impl RawMutex {
    fn mutex(&self) -> &Mutex<()> {
        self.mutex.get(|domain, name| Mutex::options(()).create_new(domain, name))
    }

    /// Keeps the guard of the thread that has just taken the mutex.
    pub(crate) fn keep(&self, guard: MutexGuard<'_, ()>) {
        // SAFETY: a mutex that is held is borrowed by a guard of lock_api's, so it stays where it
        // is until `take` gives the guard back.
        let guard =
            unsafe { std::mem::transmute::<MutexGuard<'_, ()>, MutexGuard<'static, ()>>(guard) };
        // SAFETY: this thread holds the mutex.
        unsafe { *self.guard.get() = Some(guard) };
    }

    /// # Safety
    /// The calling thread holds the mutex.
    pub(crate) unsafe fn take(&self) -> MutexGuard<'static, ()> {
        // SAFETY: the caller holds the mutex.
        unsafe { (*self.guard.get()).take() }.expect("what is held has a guard")
    }
}

// SAFETY: Outlive's mutex excludes all other threads until its guard is dropped.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: RawMutex = RawMutex { mutex: Lazy::new(), guard: UnsafeCell::new(None) };

    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        self.keep(untold(self.mutex().lock(), MutexGuard::mark_consistent));
    }

    fn try_lock(&self) -> bool {
        let taken = tried(self.mutex().try_lock(), MutexGuard::mark_consistent);
        taken.map(|guard| self.keep(guard)).is_some()
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the mutex.
        drop(unsafe { self.take() });
    }
}

// SAFETY: Outlive's mutex stays held until its guard is dropped. It has no fairer way to unlock.
unsafe impl lock_api::RawMutexFair for RawMutex {
    unsafe fn unlock_fair(&self) {
        // SAFETY: the caller holds the mutex.
        unsafe { lock_api::RawMutex::unlock(self) };
    }
}
