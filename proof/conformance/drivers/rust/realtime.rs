//! `pi.`, `ceiling.`: mutexes of a number for real-time threads.

use std::collections::HashMap;

use outlive::sync::{
    AcquireError, CeilingMutex, CeilingMutexGuard, LockError, PiMutex, PiMutexGuard,
};
use outlive::{Domain, Error};

use crate::answer::{self, Answer, Refusal, done, find, leak, said};

/// The ceiling of them all.
const CEILING: u32 = 2;

#[derive(Default)]
pub(crate) struct RealTime {
    pi: HashMap<String, &'static PiMutex<u64>>,
    pi_guards: HashMap<String, PiMutexGuard<'static, u64>>,
    ceiling: HashMap<String, &'static CeilingMutex<u64>>,
    ceiling_guards: HashMap<String, CeilingMutexGuard<'static, u64>>,
}

/// What both kinds do, in the same words.
macro_rules! act {
    ($mutexes:expr, $guards:expr, $verb:expr, $args:expr) => {
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
                let said = format!("{word} {}", *guard);
                $guards.insert((*name).to_owned(), guard);
                Ok(said)
            }
            ("set", [name, value]) => {
                **find(&mut $guards, name)? = answer::number(value)?;
                done()
            }
            ("consistent", [name]) => {
                find(&mut $guards, name)?.mark_consistent();
                done()
            }
            ("mark_not_recoverable", [name]) => {
                $guards
                    .remove(*name)
                    .ok_or_else(|| Refusal::new("Usage", "not held"))?
                    .mark_not_recoverable();
                done()
            }
            ("unlock", [name]) => {
                $guards.remove(*name).ok_or_else(|| Refusal::new("Usage", "not held"))?;
                done()
            }
            ("reset", [name, value, span]) => {
                let span = answer::span(span)?;
                let guard = find(&mut $mutexes, name)?.lock_to_reset_timeout(span)?;
                let mut guard = answer::got(guard, Some(span))?;
                *guard = answer::number(value)?;
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

/// Not every machine lets every user run at a real-time priority.
fn no_right() -> Refusal {
    Refusal::new("Unsupported", "right to run at a real-time priority")
}

impl RealTime {
    pub(crate) fn act(
        &mut self,
        domain: &Domain,
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
            ("pi", ..) => act!(self.pi, self.pi_guards, verb, args),
            _ => act!(self.ceiling, self.ceiling_guards, verb, args),
        }
    }
}
