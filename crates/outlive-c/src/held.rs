//! The locks that a thread holds and whose guards C does not have.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::LocalKey;

use outlive::sync::LockError;

use crate::code::Failure;
use crate::deadline::{in_time, outlive_deadline_t};

/// Guards by their handle's number; the last one taken is the last. The handle lives as long as its
/// file is open. A closed handle's guards are not found: its number is never used again.
pub(crate) struct HeldByThread<G>(Vec<(u64, G)>);

impl<G> HeldByThread<G> {
    pub(crate) const fn new() -> HeldByThread<G> {
        HeldByThread(Vec::new())
    }

    pub(crate) fn keep(&mut self, number: u64, guard: G) {
        self.0.push((number, guard));
    }

    pub(crate) fn take(&mut self, number: u64) -> Result<G, Failure> {
        let at = self.0.iter().rposition(|(held, _)| *held == number);
        let at = at.ok_or_else(|| {
            Failure::new(
                libc::EPERM,
                "the calling thread does not hold the lock, or took it by another opening",
            )
        })?;
        Ok(self.0.remove(at).1)
    }
}

impl<G> Drop for HeldByThread<G> {
    /// A thread that ends while it holds a lock has died with it, as far as other threads are
    /// concerned.
    fn drop(&mut self) {
        self.0.drain(..).for_each(|(_, guard)| core::mem::forget(guard));
    }
}

/// Keeps the guard of a lock that the thread has got until that deadline, also when it got
/// EOWNERDEAD with it.
pub(crate) fn settle<G>(
    held: &'static LocalKey<RefCell<HeldByThread<G>>>,
    number: u64,
    got: Result<Option<G>, LockError<G>>,
    deadline: outlive_deadline_t,
) -> Result<(), Failure> {
    let (guard, told) = match got {
        Ok(guard) => (in_time(guard, deadline, libc::EBUSY)?, Ok(())),
        Err(LockError::OwnerDied(guard)) => (guard, Err(LockError::OwnerDied(()).into())),
        Err(other) => return Err(other.into()),
    };
    held.with(|held| held.borrow_mut().keep(number, guard));
    told
}

/// Returns a new handle's number.
pub(crate) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: a count that orders nothing.
    NEXT.fetch_add(1, Ordering::Relaxed)
}
