//! parking_lot's names over Outlive's locks: what its tests need of them.
//!
//! parking_lot's mutex and reader-writer lock are guards of the crate lock_api around a raw lock.
//! Here the raw locks are Outlive's, and mutex.rs and rwlock.rs are parking_lot's own files. The
//! value that a lock guards is the process's own: these tests lock values of any type between the
//! threads of one process. All else is Outlive's: which thread gets the lock, waits, and is woken.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use outlive::sync::{AcquireError, LockError};
use outlive::Domain;

mod condvar;
mod mutex;
mod once;
mod raw_mutex;
mod raw_rwlock;
mod remutex;
mod rwlock;

pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{const_mutex, MappedMutexGuard, Mutex, MutexGuard};
pub use once::{Once, OnceState};
pub use remutex::{ReentrantMutex, ReentrantMutexGuard};
pub use rwlock::{
    const_rwlock, MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard,
};

/// Returns a domain of this process's own. `cargo xtask suites` names its folder, and removes it.
fn domain() -> &'static Domain {
    static DOMAIN: OnceLock<Domain> = OnceLock::new();
    DOMAIN.get_or_init(|| Domain::open_default().expect("OUTLIVE_DOMAIN can be opened"))
}

/// An object of Outlive's, made when it is first used: parking_lot's can be constants.
struct Lazy<T>(OnceLock<(String, T)>);

impl<T> Lazy<T> {
    const fn new() -> Lazy<T> {
        Lazy(OnceLock::new())
    }

    /// Returns the object, and makes it by `make` if it is not there, by a name of its own.
    fn get(&self, make: fn(&Domain, &str) -> Result<T, outlive::Error>) -> &T {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (_, object) = self.0.get_or_init(|| {
            let name = format!("object.{}", NEXT.fetch_add(1, Ordering::Relaxed));
            let object = make(domain(), &name).expect("a name that no other object has");
            (name, object)
        });
        object
    }

    /// Returns the object if it has been used.
    fn there(&self) -> Option<&T> {
        self.0.get().map(|(_, object)| object)
    }
}

impl<T> Drop for Lazy<T> {
    fn drop(&mut self) {
        if let Some((name, object)) = self.0.take() {
            drop(object);
            let _ = domain().remove(&name);
        }
    }
}

/// Returns the guard, and calls `repair` for one of a lock whose holder panicked: parking_lot's
/// locks do not tell of that.
fn untold<G>(locked: Result<G, LockError<G>>, repair: impl FnOnce(&mut G)) -> G {
    match locked {
        Ok(guard) => guard,
        Err(LockError::OwnerDied(mut guard)) => {
            repair(&mut guard);
            guard
        }
        Err(other) => panic!("{}", AcquireError::from(other)),
    }
}

/// Returns the guard of a lock that was free. Outlive tells a thread that has the lock itself of it;
/// to parking_lot's the lock is taken, also by the thread itself.
fn tried<G>(tried: Result<Option<G>, LockError<G>>, repair: impl FnOnce(&mut G)) -> Option<G> {
    match tried {
        Ok(taken) => taken,
        Err(LockError::Failed(AcquireError::Deadlock)) => None,
        Err(error) => Some(untold(Err(error), repair)),
    }
}
