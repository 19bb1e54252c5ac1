//! `rw.`: reader-writer locks of a number.

use std::collections::HashMap;

use outlive::Domain;
use outlive::sync::{LockError, ReadGuard, RwLock, UpgradableReadGuard, UpgradeError, WriteGuard};

use crate::answer::{self, Answer, Refusal, done, find, leak, refused};

#[derive(Default)]
pub(crate) struct RwLocks {
    rw_locks: HashMap<String, &'static RwLock<u64>>,
    held: HashMap<String, Held>,
}

enum Held {
    Read(ReadGuard<'static, u64>),
    Upgradable(UpgradableReadGuard<'static, u64>),
    Write(WriteGuard<'static, u64>),
}

/// Returns what is held after an upgrade, and what is said of it.
fn upgraded<G>(
    got: Result<WriteGuard<'static, u64>, UpgradeError<G>>,
    as_before: impl FnOnce(G) -> Held,
) -> (Held, Answer) {
    match got {
        Ok(guard) => (Held::Write(guard), done()),
        Err(error) => {
            let (guard, reason) = error.split();
            let message = reason.to_string();
            let told = match reason {
                UpgradeError::InUse(()) => refused("InUse", &message),
                UpgradeError::TimedOut(()) => refused("TimedOut", &message),
                UpgradeError::Failed((), error) => Err(error.into()),
                _ => refused("Usage", &message),
            };
            (as_before(guard), told)
        }
    }
}

impl RwLocks {
    pub(crate) fn act(&mut self, domain: &Domain, verb: &str, args: &[&str]) -> Answer {
        match (verb, args) {
            ("open", [name, value]) => {
                let lock = RwLock::options(answer::number(value)?).open_or_create(domain, name)?;
                self.rw_locks.insert((*name).to_owned(), leak(lock));
                done()
            }
            ("read", [name, patience]) => {
                let lock = *find(&mut self.rw_locks, name)?;
                let patience = answer::patience(patience)?;
                let got = match patience {
                    None => lock.try_read(),
                    Some(span) => lock.read_timeout(span),
                };
                match got {
                    Ok(guard) => self.keep(name, Ok(Held::Read(answer::got(guard, patience)?))),
                    Err(error) => self.keep(name, Err(error)),
                }
            }
            ("upgradable", [name, patience]) => {
                let lock = *find(&mut self.rw_locks, name)?;
                let patience = answer::patience(patience)?;
                let got = match patience {
                    None => lock.try_upgradable_read(),
                    Some(span) => lock.upgradable_read_timeout(span),
                };
                match got {
                    Ok(guard) => {
                        self.keep(name, Ok(Held::Upgradable(answer::got(guard, patience)?)))
                    }
                    Err(error) => self.keep(name, Err(error)),
                }
            }
            ("upgrade", [name, span]) => {
                let span = answer::span(span)?;
                let (held, told) = match self.held.remove(*name) {
                    Some(Held::Read(guard)) => upgraded(guard.upgrade_timeout(span), Held::Read),
                    Some(Held::Upgradable(guard)) => {
                        upgraded(guard.upgrade_timeout(span), Held::Upgradable)
                    }
                    _ => return refused("Usage", "not held to read"),
                };
                self.held.insert((*name).to_owned(), held);
                told
            }
            ("downgrade" | "downgrade_to_upgradable", [name]) => {
                let held = match self.held.remove(*name) {
                    Some(Held::Write(guard)) if verb == "downgrade" => {
                        guard.downgrade().map(Held::Read).map_err(|_| ())
                    }
                    Some(Held::Write(guard)) => {
                        guard.downgrade_to_upgradable().map(Held::Upgradable).map_err(|_| ())
                    }
                    Some(Held::Upgradable(guard)) if verb == "downgrade" => {
                        guard.downgrade().map(Held::Read).map_err(|_| ())
                    }
                    _ => return refused("Usage", "not held so"),
                };
                let held = held.map_err(|()| Refusal::new("Usage", "not whole"))?;
                self.held.insert((*name).to_owned(), held);
                done()
            }
            ("write", [name, patience]) => {
                let lock = *find(&mut self.rw_locks, name)?;
                let patience = answer::patience(patience)?;
                let got = match patience {
                    None => lock.try_write(),
                    Some(span) => lock.write_timeout(span),
                };
                match got {
                    Ok(guard) => self.keep(name, Ok(Held::Write(answer::got(guard, patience)?))),
                    Err(error) => self.keep(name, Err(error)),
                }
            }
            ("set" | "consistent", [name, value @ ..]) => {
                let Held::Write(guard) = find(&mut self.held, name)? else {
                    return refused("Usage", "held to read");
                };
                match value {
                    [value] => **guard = answer::number(value)?,
                    _ => guard.mark_consistent(),
                }
                done()
            }
            ("mark_not_recoverable", [name]) => match self.held.remove(*name) {
                Some(Held::Write(guard)) => {
                    guard.mark_not_recoverable();
                    done()
                }
                _ => refused("Usage", "not held to write"),
            },
            ("unlock", [name]) => {
                self.held.remove(*name).ok_or_else(|| Refusal::new("Usage", "not held"))?;
                done()
            }
            ("reset", [name, value, span]) => {
                let span = answer::span(span)?;
                let guard = find(&mut self.rw_locks, name)?.write_to_reset_timeout(span)?;
                let mut guard = answer::got(guard, Some(span))?;
                *guard = answer::number(value)?;
                guard.mark_consistent();
                done()
            }
            _ => answer::unknown(verb, args),
        }
    }

    fn keep(
        &mut self,
        name: &str,
        got: Result<Held, LockError<WriteGuard<'static, u64>>>,
    ) -> Answer {
        let (held, word) = match got {
            Ok(held) => (held, "ok"),
            Err(LockError::OwnerDied(guard)) => (Held::Write(guard), "owner-died"),
            Err(LockError::Failed(error)) => return Err(error.into()),
            Err(other) => return Err(other.into()),
        };
        let value = match &held {
            Held::Read(guard) => **guard,
            Held::Upgradable(guard) => **guard,
            Held::Write(guard) => **guard,
        };
        self.held.insert(name.to_owned(), held);
        Ok(format!("{word} {value}"))
    }
}
