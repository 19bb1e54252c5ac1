//! `lock.`: mutexes of a number.

use std::collections::HashMap;

use outlive::Domain;
use outlive::sync::{AcquireError, LockError, Mutex, MutexGuard};

use crate::answer::{self, Answer, Refusal, done, find, leak, said};

pub(crate) type Given = MutexGuard<'static, u64>;

#[derive(Default)]
pub(crate) struct Locks {
    mutexes: HashMap<String, &'static Mutex<u64>>,
    guards: HashMap<String, Given>,
}

/// A lock in a scope: its guard is lent to the commands meanwhile.
pub(crate) struct Scope {
    guard: Option<Given>,
    said: String,
}

impl Scope {
    pub(crate) fn said(&self) -> String {
        self.said.clone()
    }
}

/// Returns the guard, and the answer; a death is an answer like any other.
fn settle(got: Result<Given, LockError<Given>>) -> Result<(Given, String), Refusal> {
    match got {
        Ok(guard) => {
            let said = format!("ok {}", *guard);
            Ok((guard, said))
        }
        Err(LockError::OwnerDied(guard)) => {
            let said = format!("owner-died {}", *guard);
            Ok((guard, said))
        }
        Err(LockError::Failed(error)) => Err(error.into()),
        Err(other) => Err(other.into()),
    }
}

impl Locks {
    pub(crate) fn act(&mut self, domain: &Domain, verb: &str, args: &[&str]) -> Answer {
        match (verb, args) {
            ("open", [name, value]) => {
                let mutex = Mutex::options(answer::number(value)?).open_or_create(domain, name)?;
                self.mutexes.insert((*name).to_owned(), leak(mutex));
                done()
            }
            ("lock", [name, patience]) => {
                let mutex = self.mutex(name)?;
                let patience = answer::patience(patience)?;
                let got = match patience {
                    None => mutex.try_lock(),
                    Some(span) => mutex.lock_timeout(span),
                };
                match got {
                    Ok(guard) => self.keep(name, Ok(answer::got(guard, patience)?)),
                    Err(error) => self.keep(name, Err(error)),
                }
            }
            ("set", [name, value]) => {
                **find(&mut self.guards, name)? = answer::number(value)?;
                done()
            }
            ("consistent", [name]) => {
                find(&mut self.guards, name)?.mark_consistent();
                done()
            }
            ("mark_not_recoverable", [name]) => {
                self.take_guard(name)?.mark_not_recoverable();
                done()
            }
            ("unlock", [name]) => {
                self.take_guard(name)?;
                done()
            }
            ("reset", [name, value, span]) => {
                let span = answer::span(span)?;
                let guard = self.mutex(name)?.lock_to_reset_timeout(span)?;
                let mut guard = answer::got(guard, Some(span))?;
                *guard = answer::number(value)?;
                guard.mark_consistent();
                done()
            }
            ("holder", [name]) => match self.mutex(name)?.holder() {
                Some(holder) => said(holder.pid),
                None => said("nobody"),
            },
            ("churn", [name, span]) => {
                let mutex = self.mutex(name)?;
                let end = answer::until(span)?;
                while std::time::Instant::now() < end {
                    let mut guard = mutex.lock().map_err(AcquireError::from)?;
                    *guard += 1;
                }
                done()
            }
            ("awaits", [name, value, span]) => {
                let (mutex, value, end) =
                    (self.mutex(name)?, answer::number(value)?, answer::until(span)?);
                let end = outlive::Deadline::at(end);
                loop {
                    match mutex.lock_until(end).map_err(AcquireError::from)? {
                        Some(guard) if *guard < value => {}
                        Some(_) => break,
                        None => return answer::refused("TimedOut", "somebody else held the lock"),
                    }
                }
                done()
            }
            _ => answer::unknown(verb, args),
        }
    }

    /// One of a record.
    pub(crate) fn add(&mut self, name: String, mutex: Mutex<u64>) {
        self.mutexes.insert(name, leak(mutex));
    }

    fn mutex(&mut self, name: &str) -> Result<&'static Mutex<u64>, Refusal> {
        find(&mut self.mutexes, name).map(|mutex| *mutex)
    }

    pub(crate) fn keep(&mut self, name: &str, got: Result<Given, LockError<Given>>) -> Answer {
        let (guard, said) = settle(got)?;
        self.guards.insert(name.to_owned(), guard);
        Ok(said)
    }

    pub(crate) fn take_guard(&mut self, name: &str) -> Result<Given, Refusal> {
        self.guards.remove(name).ok_or_else(|| Refusal::new("Usage", format!("{name} is not held")))
    }

    pub(crate) fn enter(&mut self, name: &str) -> Result<Scope, Refusal> {
        let (guard, said) = settle(self.mutex(name)?.lock())?;
        Ok(Scope { guard: Some(guard), said })
    }

    pub(crate) fn put(&mut self, name: &str, scope: &mut Scope) {
        self.guards.extend(scope.guard.take().map(|guard| (name.to_owned(), guard)));
    }

    pub(crate) fn take(&mut self, name: &str, scope: &mut Scope) {
        scope.guard = self.guards.remove(name);
    }
}
