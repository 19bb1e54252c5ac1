//! parking_lot's condition variable over Outlive's.

use std::fmt;
use std::time::{Duration, Instant};

use outlive::sync::{LockError, MutexGuard as Held, Woke};
use outlive::Deadline;

use crate::mutex::MutexGuard;
use crate::Lazy;

#[derive(Debug, PartialEq, Eq, Copy, Clone)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub fn timed_out(self) -> bool {
        self.0
    }
}

/// Outlive's condition variable. Its notifications do not say how many waiters there were.
pub struct Condvar(Lazy<outlive::sync::Condvar>);

type Ended<'a> = Result<(Held<'a, ()>, Woke), LockError<Held<'a, ()>>>;

impl Condvar {
    pub const fn new() -> Condvar {
        Condvar(Lazy::new())
    }

    fn condvar(&self) -> &outlive::sync::Condvar {
        self.0.get(|domain, name| outlive::sync::Condvar::options().create_new(domain, name))
    }

    pub fn notify_one(&self) -> bool {
        self.condvar().notify_one();
        false
    }

    pub fn notify_all(&self) -> usize {
        self.condvar().notify_all();
        0
    }

    /// Waits by `how` with Outlive's guard, which is inside parking_lot's.
    fn wait_by<'a, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'a, T>,
        how: impl for<'b> FnOnce(&outlive::sync::Condvar, Held<'b, ()>, &mut T) -> Ended<'b>,
    ) -> WaitTimeoutResult {
        let mutex = MutexGuard::mutex(guard);
        // SAFETY: nothing but a condition variable needs the raw mutex, and this is one.
        let raw = unsafe { mutex.raw() };
        // SAFETY: the guard holds the mutex.
        let held = unsafe { raw.take() };
        let (held, woke) = match how(self.condvar(), held, &mut **guard) {
            Ok(ended) => ended,
            Err(LockError::OwnerDied(mut held)) => {
                held.mark_consistent();
                (held, Woke::Notified)
            }
            Err(other) => panic!("{}", outlive::sync::AcquireError::from(other)),
        };
        raw.keep(held);
        WaitTimeoutResult(woke == Woke::TimedOut)
    }

    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_by(guard, |condvar, held, _| condvar.wait_until(held, Deadline::NEVER));
    }

    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Instant,
    ) -> WaitTimeoutResult {
        self.wait_by(guard, |condvar, held, _| condvar.wait_until(held, deadline(timeout)))
    }

    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_by(guard, |condvar, held, _| condvar.wait_timeout(held, timeout))
    }

    /// What parking_lot's `wait_while` and its bounded forms call; its tests call it, too.
    #[cfg(test)]
    fn wait_while_until_internal<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        timeout: Option<Instant>,
    ) -> WaitTimeoutResult {
        let deadline = timeout.map_or(Deadline::NEVER, deadline);
        self.wait_by(guard, |condvar, held, value| {
            condvar.wait_while_until(held, deadline, |()| condition(value))
        })
    }
}

fn deadline(moment: Instant) -> Deadline {
    Deadline::after(moment.saturating_duration_since(Instant::now()))
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Condvar { .. }")
    }
}

// The tests of parking_lot's own condvar.rs.
include!("condvar_tests.rs");
