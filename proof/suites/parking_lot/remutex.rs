//! parking_lot's reentrant mutex over Outlive's.

use std::fmt;
use std::ops::Deref;

use outlive::sync::{ReentrantMutex as Mutex, ReentrantMutexGuard as Held};

use crate::{tried, untold, Lazy};

pub struct ReentrantMutex<T: ?Sized> {
    mutex: Lazy<Mutex<()>>,
    value: T,
}

// SAFETY: one thread at a time has a guard, and guards give references.
unsafe impl<T: ?Sized + Send> Sync for ReentrantMutex<T> {}

pub struct ReentrantMutexGuard<'a, T: ?Sized> {
    mutex: &'a ReentrantMutex<T>,
    held: Option<Held<'a, ()>>,
}

impl<T> ReentrantMutex<T> {
    pub const fn new(value: T) -> ReentrantMutex<T> {
        ReentrantMutex { mutex: Lazy::new(), value }
    }
}

impl<T: ?Sized> ReentrantMutex<T> {
    fn mutex(&self) -> &Mutex<()> {
        self.mutex.get(|domain, name| Mutex::options(()).create_new(domain, name))
    }

    pub fn lock(&self) -> ReentrantMutexGuard<'_, T> {
        let held = untold(self.mutex().lock(), Held::mark_consistent);
        ReentrantMutexGuard { mutex: self, held: Some(held) }
    }

    pub fn try_lock(&self) -> Option<ReentrantMutexGuard<'_, T>> {
        let held = tried(self.mutex().try_lock(), Held::mark_consistent);
        held.map(|held| ReentrantMutexGuard { mutex: self, held: Some(held) })
    }
}

impl<T: ?Sized> ReentrantMutexGuard<'_, T> {
    /// Unlocks for a moment. Outlive's mutex has no fairer way.
    pub fn bump(guard: &mut Self) {
        guard.held = None;
        guard.held = guard.mutex.lock().held.take();
    }
}

impl<T: ?Sized> Deref for ReentrantMutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.mutex.value
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for ReentrantMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => f.debug_struct("ReentrantMutex").field("data", &&*guard).finish(),
            None => f.debug_struct("ReentrantMutex").field("data", &"<locked>").finish(),
        }
    }
}

// The tests of parking_lot's own remutex.rs.
include!("remutex_tests.rs");
