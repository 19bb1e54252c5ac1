//! Orders about named mutexes. What they guard is a pair of numbers that are equal whenever no
//! process is inside.
//!
//! A handle is kept for as long as the survivor lives, leaked, so that a guard can be kept over
//! several orders.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use outlive::sync::{AcquireError, LockError, Mutex, MutexGuard};
use outlive::{Deadline, Domain};

/// What a mutex of the scenarios guards.
pub type Pair = [u64; 2];

/// Raises both numbers, with moments in between at which they differ.
pub fn raise(guard: &mut MutexGuard<'_, Pair>) {
    guard[0] += 1;
    black_box(&mut **guard);
    guard[1] += 1;
}

/// Makes the pair whole after an owner's death and says so.
pub fn repair(guard: &mut MutexGuard<'_, Pair>) {
    guard[0] = guard[1];
    guard.mark_consistent();
}

/// The mutexes that a survivor has open, and the guards that it keeps.
#[derive(Default)]
pub struct Mutexes {
    open: BTreeMap<String, &'static Mutex<Pair>>,
    held: BTreeMap<String, MutexGuard<'static, Pair>>,
}

impl Mutexes {
    fn named(&mut self, domain: &Domain, name: &str) -> Result<&'static Mutex<Pair>, String> {
        if let Some(mutex) = self.open.get(name) {
            return Ok(mutex);
        }
        let mutex = Mutex::options([0, 0])
            .open_or_create(domain, name)
            .map_err(|error| error.to_string())?;
        let mutex: &'static Mutex<Pair> = Box::leak(Box::new(mutex));
        self.open.insert(name.to_owned(), mutex);
        Ok(mutex)
    }

    /// Carries out an order; see the match for which there are.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        match order {
            ["open", name] => self.named(domain, name).map(|_| String::new()),
            // Lock, check, raise, unlock. Answers how it was got.
            ["use", name] => use_once(self.named(domain, name)?, Deadline::NEVER),
            ["use", name, "within", millis] => {
                let within = Duration::from_millis(super::number(millis)?);
                use_once(self.named(domain, name)?, Deadline::after(within))
            }
            ["hold", name] => {
                let guard = match self.named(domain, name)?.lock() {
                    Ok(guard) => guard,
                    Err(LockError::OwnerDied(mut guard)) => {
                        repair(&mut guard);
                        guard
                    }
                    Err(other) => return Err(other.to_string()),
                };
                self.held.insert((*name).to_owned(), guard);
                Ok(String::new())
            }
            ["release", name] => self
                .held
                .remove(*name)
                .map(|_| String::new())
                .ok_or_else(|| "it is not held".to_owned()),
            // Marked not recoverable by a holder that was told, with numbers that differ inside.
            ["spoil", name] => match self.named(domain, name)?.lock() {
                Err(LockError::OwnerDied(mut guard)) => {
                    guard[0] = guard[1] + 1;
                    guard.mark_not_recoverable();
                    Ok(String::new())
                }
                _ => Err("was not told that the owner died".to_owned()),
            },
            // Takes both, one inside the other, and says what the record of orders has come to.
            ["order", first, then] => {
                let text = |error: outlive::Error| error.to_string();
                let watched = Domain::options()
                    .lock_order(true)
                    .open_or_create_at(domain.path())
                    .map_err(text)?;
                watched.on_lock_order(|_| ());
                let (first, then) = (self.named(&watched, first)?, self.named(&watched, then)?);
                let held = first.lock().map_err(|error| error.to_string())?;
                drop(then.lock().map_err(|error| error.to_string())?);
                drop(held);
                let orders = watched.lock_orders().map_err(text)?;
                Ok(if orders.is_empty() { "silent" } else { "told" }.to_owned())
            }
            ["forget"] => domain
                .forget_lock_orders()
                .map(|()| String::new())
                .map_err(|error| error.to_string()),
            ["reset", name] => {
                let within = Deadline::after(Duration::from_secs(4));
                let guard = self.named(domain, name)?.lock_to_reset_until(within);
                let guard = guard.map_err(|error| error.to_string())?;
                let mut guard = guard.ok_or("somebody still holds the lock")?;
                *guard = [0, 0];
                guard.mark_consistent();
                Ok(String::new())
            }
            ["holder", name] => {
                let holder = self.named(domain, name)?.holder();
                Ok(holder.map_or_else(
                    || "nobody".to_owned(),
                    |holder| format!("{} {}", holder.pid, holder.alive),
                ))
            }
            _ => Err("unknown order".to_owned()),
        }
    }
}

fn use_once(mutex: &Mutex<Pair>, deadline: Deadline) -> Result<String, String> {
    match mutex.lock_until(deadline) {
        Ok(Some(mut guard)) => {
            if guard[0] != guard[1] {
                return Err(format!("clean, yet the numbers differ: {:?}", *guard));
            }
            raise(&mut guard);
            Ok("clean".to_owned())
        }
        Err(LockError::OwnerDied(mut guard)) => {
            repair(&mut guard);
            Ok("died".to_owned())
        }
        Err(LockError::Failed(AcquireError::NotRecoverable)) => Ok("not-recoverable".to_owned()),
        Ok(None) => Ok("timed-out".to_owned()),
        Err(other) => Err(other.to_string()),
    }
}
