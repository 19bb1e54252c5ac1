//! `pi.`, `ceiling.`: mutexes of a number for real-time threads.

use std::collections::HashMap;

use outlive::sync::{CeilingMutex, CeilingMutexGuard, LockError, PiMutex, PiMutexGuard};
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
                let got = match answer::patience(patience)? {
                    None => mutex.try_lock(),
                    Some(span) => mutex.lock_until(span),
                };
                let (guard, word) = match got {
                    Ok(guard) => (guard, "ok"),
                    Err(LockError::OwnerDied(guard)) => (guard, "owner-died"),
                    Err(LockError::System(Error::NoRealTime { .. })) => return Err(no_right()),
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
            ("give_up", [name]) => {
                $guards.remove(*name).ok_or_else(|| Refusal::new("Usage", "not held"))?.give_up();
                done()
            }
            ("unlock", [name]) => {
                $guards.remove(*name).ok_or_else(|| Refusal::new("Usage", "not held"))?;
                done()
            }
            ("reset", [name, value, span]) => {
                find(&mut $mutexes, name)?.reset(answer::number(value)?, answer::span(span)?)?;
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
