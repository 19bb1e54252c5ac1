//! Orders about named reader-writer locks. What they guard is a pair of numbers that are equal
//! whenever no process writes.
//!
//! A handle is kept for as long as the survivor lives, leaked, so that a guard can be kept over
//! several orders.

use std::collections::BTreeMap;
use std::hint::black_box;

use outlive::Domain;
use outlive::sync::{AcquireError, LockError, ReadGuard, RwLock, WriteGuard};

use super::mutex::Pair;

/// Raises both numbers, with moments in between at which they differ.
pub fn raise(guard: &mut WriteGuard<'_, Pair>) {
    guard[0] += 1;
    black_box(&mut **guard);
    guard[1] += 1;
}

/// Looks whether both are equal.
pub fn look(pair: &Pair) -> Result<(), String> {
    if pair[0] == pair[1] {
        Ok(())
    } else {
        Err(format!("clean, yet the numbers differ: {pair:?}"))
    }
}

/// Makes the pair whole after a writer's death and says so.
pub fn repair(mut guard: WriteGuard<'_, Pair>) {
    guard[0] = guard[1];
    guard.mark_consistent();
}

enum Held {
    Reading(#[allow(dead_code, reason = "held")] ReadGuard<'static, Pair>),
    Writing(#[allow(dead_code, reason = "held")] WriteGuard<'static, Pair>),
}

/// The locks that a survivor has open, and the guards that it keeps.
#[derive(Default)]
pub struct RwLocks {
    open: BTreeMap<String, &'static RwLock<Pair>>,
    held: BTreeMap<String, Held>,
}

impl RwLocks {
    fn named(&mut self, domain: &Domain, name: &str) -> Result<&'static RwLock<Pair>, String> {
        if let Some(lock) = self.open.get(name) {
            return Ok(lock);
        }
        let lock = RwLock::options([0, 0])
            .open_or_create(domain, name)
            .map_err(|error| error.to_string())?;
        let lock: &'static RwLock<Pair> = Box::leak(Box::new(lock));
        self.open.insert(name.to_owned(), lock);
        Ok(lock)
    }

    /// Carries out an order; see the match for which there are.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        match order {
            ["open", name] => self.named(domain, name).map(|_| String::new()),
            // Take it, check, raise if it writes, give it back. Answers how it was got.
            ["read", name] => match self.named(domain, name)?.read() {
                Ok(guard) => look(&guard).map(|()| "clean".to_owned()),
                Err(error) => told(error),
            },
            ["write", name] => match self.named(domain, name)?.write() {
                Ok(mut guard) => {
                    look(&guard)?;
                    raise(&mut guard);
                    Ok("clean".to_owned())
                }
                Err(error) => told(error),
            },
            ["hold-read", name] => {
                let guard = self.named(domain, name)?.read().map_err(|error| error.to_string())?;
                self.held.insert((*name).to_owned(), Held::Reading(guard));
                Ok(String::new())
            }
            ["hold-write", name] => {
                let guard = self.named(domain, name)?.write().map_err(|error| error.to_string())?;
                self.held.insert((*name).to_owned(), Held::Writing(guard));
                Ok(String::new())
            }
            // Processes that hold it.
            ["holders", name] => {
                let holders = self.named(domain, name)?.holders();
                Ok(holders
                    .iter()
                    .map(|holder| holder.pid.to_string())
                    .collect::<Vec<_>>()
                    .join(" "))
            }
            ["release", name] => self
                .held
                .remove(*name)
                .map(|_| String::new())
                .ok_or_else(|| "it is not held".to_owned()),
            _ => Err("unknown order".to_owned()),
        }
    }
}

fn told(error: LockError<WriteGuard<'_, Pair>>) -> Result<String, String> {
    match error {
        LockError::OwnerDied(guard) => {
            repair(guard);
            Ok("died".to_owned())
        }
        LockError::Failed(AcquireError::NotRecoverable) => Ok("not-recoverable".to_owned()),
        other => Err(other.to_string()),
    }
}
