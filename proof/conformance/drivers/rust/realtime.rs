//! `pi.`, `ceiling.`: mutexes of a number for real-time threads; `reentrant.`: those that their
//! holder locks again.

use std::cell::Cell;
use std::collections::HashMap;

use outlive::sync::{
    AcquireError, CeilingMutex, CeilingMutexGuard, LockError, PiMutex, PiMutexGuard,
    ReentrantMutex, ReentrantMutexGuard, Woke,
};
use outlive::{Domain, Error};

use crate::answer::{self, Answer, Refusal, done, find, leak, refused, said};
use crate::sync::Sync;

/// The ceiling of them all.
const CEILING: u32 = 2;

#[derive(Default)]
pub(crate) struct RealTime {
    pi: HashMap<String, &'static PiMutex<u64>>,
    pi_guards: HashMap<String, Vec<PiMutexGuard<'static, u64>>>,
    ceiling: HashMap<String, &'static CeilingMutex<u64>>,
    ceiling_guards: HashMap<String, Vec<CeilingMutexGuard<'static, u64>>>,
    reentrant: HashMap<String, &'static ReentrantMutex<Cell<u64>>>,
    reentrant_guards: HashMap<String, Vec<ReentrantMutexGuard<'static, Cell<u64>>>>,
}

/// What all kinds do, in the same words. `$get` and `$set` use the number by a guard.
macro_rules! act {
    ($sync:expr, $mutexes:expr, $guards:expr, $verb:expr, $args:expr, $get:expr, $set:expr) => {
        match ($verb, $args) {
            ("lock", [name, patience]) => {
                let mutex = *find(&mut $mutexes, name)?;
                let patience = answer::patience(patience)?;
                let got = match patience {
                    None => mutex.try_lock(),
                    Some(span) => mutex.lock_timeout(span),
                };
                let (guard, word) = match got {
                    Ok(guard) => (answer::got(guard, patience)?, "ok"),
                    Err(LockError::OwnerDied(guard)) => (guard, "owner-died"),
                    Err(LockError::Failed(AcquireError::System(Error::NoRealTime { .. }))) => {
                        return Err(no_right());
                    }
                    Err(LockError::Failed(error)) => return Err(error.into()),
                    Err(other) => return Err(other.into()),
                };
                let said = format!("{word} {}", $get(&guard));
                $guards.entry((*name).to_owned()).or_default().push(guard);
                Ok(said)
            }
            ("set", [name, value]) => {
                $set(last(find(&mut $guards, name)?)?, answer::number(value)?);
                done()
            }
            ("consistent", [name]) => {
                last(find(&mut $guards, name)?)?.mark_consistent();
                done()
            }
            ("mark_not_recoverable", [name]) => {
                taken(find(&mut $guards, name)?)?.mark_not_recoverable();
                done()
            }
            ("unlock", [name]) => {
                taken(find(&mut $guards, name)?)?;
                done()
            }
            // With one guard.
            ("await", [name, condvar, value, span]) => {
                let wanted: u64 = answer::number(value)?;
                let deadline = outlive::Deadline::after(answer::span(span)?);
                let condvar = $sync.condvar(condvar)?;
                let guards = find(&mut $guards, name)?;
                let mut guard = taken(guards)?;
                let mut woke = Woke::Notified;
                while $get(&guard) != wanted && woke != Woke::TimedOut {
                    (guard, woke) = match condvar.wait_until(guard, deadline) {
                        Ok(ended) => ended,
                        Err(LockError::OwnerDied(guard)) => {
                            let said = format!("owner-died {}", $get(&guard));
                            guards.push(guard);
                            return Ok(said);
                        }
                        Err(LockError::Failed(error)) => return Err(error.into()),
                        Err(other) => return Err(other.into()),
                    };
                }
                let now = $get(&guard);
                guards.push(guard);
                if now == wanted { said(now) } else { refused("TimedOut", "") }
            }
            ("reset", [name, value, span]) => {
                let span = answer::span(span)?;
                let guard = find(&mut $mutexes, name)?.lock_to_reset_timeout(span)?;
                let mut guard = answer::got(guard, Some(span))?;
                $set(&mut guard, answer::number(value)?);
                guard.mark_consistent();
                done()
            }
            ("holder", [name]) => match find(&mut $mutexes, name)?.holder() {
                Some(holder) => said(holder.pid),
                None => said("nobody"),
            },
            (verb, args) => answer::unknown(verb, args),
        }
    };
}

fn last<G>(guards: &mut [G]) -> Result<&mut G, Refusal> {
    guards.last_mut().ok_or_else(|| Refusal::new("Usage", "not held"))
}

fn taken<G>(guards: &mut Vec<G>) -> Result<G, Refusal> {
    guards.pop().ok_or_else(|| Refusal::new("Usage", "not held"))
}

/// Not every machine lets every user run at a real-time priority.
fn no_right() -> Refusal {
    Refusal::new("Unsupported", "right to run at a real-time priority")
}

impl RealTime {
    pub(crate) fn act(
        &mut self,
        domain: &Domain,
        sync: &Sync,
        thing: &str,
        verb: &str,
        args: &[&str],
    ) -> Answer {
        match (thing, verb, args) {
            ("pi", "open", [name, value]) => {
                let mutex =
                    PiMutex::options(answer::number(value)?).open_or_create(domain, name)?;
                self.pi.insert((*name).to_owned(), leak(mutex));
                done()
            }
            ("ceiling", "open", [name, value]) => {
                let mutex = CeilingMutex::options(CEILING, answer::number(value)?)
                    .open_or_create(domain, name)?;
                self.ceiling.insert((*name).to_owned(), leak(mutex));
                done()
            }
            ("reentrant", "open", [name, value]) => {
                let mutex = ReentrantMutex::options(Cell::new(answer::number(value)?))
                    .open_or_create(domain, name)?;
                self.reentrant.insert((*name).to_owned(), leak(mutex));
                done()
            }
            ("reentrant", ..) => act!(
                sync,
                self.reentrant,
                self.reentrant_guards,
                verb,
                args,
                |guard: &ReentrantMutexGuard<'_, Cell<u64>>| guard.get(),
                |guard: &mut ReentrantMutexGuard<'_, Cell<u64>>, value| guard.set(value)
            ),
            ("pi", ..) => act!(
                sync,
                self.pi,
                self.pi_guards,
                verb,
                args,
                |guard: &PiMutexGuard<'_, u64>| **guard,
                |guard: &mut PiMutexGuard<'_, u64>, value| **guard = value
            ),
            _ => act!(
                sync,
                self.ceiling,
                self.ceiling_guards,
                verb,
                args,
                |guard: &CeilingMutexGuard<'_, u64>| **guard,
                |guard: &mut CeilingMutexGuard<'_, u64>, value| **guard = value
            ),
        }
    }
}
