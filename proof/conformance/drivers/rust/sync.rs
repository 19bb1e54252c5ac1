//! `sem.`, `event.`, `cond.`, `barrier.`, `latch.`

use std::collections::HashMap;

use outlive::Domain;
use outlive::sync::{
    Barrier, Condvar, Event, Latch, LockError, Permit, Reset, Seat, Semaphore, WhenOneDies, Woke,
};

use crate::answer::{self, Answer, Refusal, done, find, leak, refused, said};
use crate::locks::Locks;

#[derive(Default)]
pub(crate) struct Sync {
    semaphores: HashMap<String, &'static Semaphore>,
    permits: HashMap<String, Vec<Permit<'static>>>,
    events: HashMap<String, Event>,
    condvars: HashMap<String, &'static Condvar>,
    barriers: HashMap<String, &'static Barrier>,
    seats: HashMap<String, Seat<'static>>,
    latches: HashMap<String, Latch>,
}

impl Sync {
    pub(crate) fn act(
        &mut self,
        domain: &Domain,
        locks: &mut Locks,
        command: &str,
        args: &[&str],
    ) -> Answer {
        let (thing, verb) = command.split_once('.').unwrap_or((command, ""));
        match thing {
            "sem" => self.semaphore(domain, verb, args),
            "event" => self.event(domain, verb, args),
            "cond" => self.condition(domain, locks, verb, args),
            "barrier" => self.barrier(domain, verb, args),
            _ => self.latch(domain, verb, args),
        }
    }

    pub(crate) fn event_of(&mut self, name: &str) -> Result<&Event, Refusal> {
        find(&mut self.events, name).map(|event| &*event)
    }

    /// One of a record.
    pub(crate) fn add_semaphore(&mut self, name: String, semaphore: Semaphore) {
        self.semaphores.insert(name, leak(semaphore));
    }

    pub(crate) fn add_barrier(&mut self, name: String, barrier: Barrier) {
        self.barriers.insert(name, leak(barrier));
    }

    pub(crate) fn add_event(&mut self, name: String, event: Event) {
        self.events.insert(name, event);
    }

    pub(crate) fn add_latch(&mut self, name: String, latch: Latch) {
        self.latches.insert(name, latch);
    }

    pub(crate) fn condvar(&self, name: &str) -> Result<&'static Condvar, Refusal> {
        let found = self.condvars.get(name).copied();
        found.ok_or_else(|| Refusal::new("Usage", format!("{name} is not open")))
    }

    pub(crate) fn add_condvar(&mut self, name: String, condvar: Condvar) {
        self.condvars.insert(name, leak(condvar));
    }

    fn semaphore(&mut self, domain: &Domain, verb: &str, args: &[&str]) -> Answer {
        match (verb, args) {
            ("open", [name, permits]) => {
                let semaphore =
                    Semaphore::options(answer::number(permits)?).open_or_create(domain, name)?;
                self.semaphores.insert((*name).to_owned(), leak(semaphore));
                done()
            }
            ("acquire", [name, patience]) => {
                let semaphore = *find(&mut self.semaphores, name)?;
                let patience = answer::patience(patience)?;
                let permit = match patience {
                    None => semaphore.try_acquire(),
                    Some(span) => semaphore.acquire_timeout(span),
                }?;
                let permit = answer::got(permit, patience)?;
                self.permits.entry((*name).to_owned()).or_default().push(permit);
                done()
            }
            ("acquire_many", [name, permits, patience]) => {
                let semaphore = *find(&mut self.semaphores, name)?;
                let permits = answer::number(permits)?;
                let patience = answer::patience(patience)?;
                let got = match patience {
                    None => semaphore.try_acquire_many(permits),
                    Some(span) => semaphore.acquire_many_timeout(permits, span),
                }?;
                let got = answer::got(got, patience)?;
                self.permits.entry((*name).to_owned()).or_default().extend(got);
                done()
            }
            ("release_many", [name, permits]) => {
                let held = find(&mut self.permits, name)?;
                let left = held.len().checked_sub(answer::number(permits)?);
                drop(held.split_off(left.ok_or_else(|| Refusal::new("Usage", "too few"))?));
                done()
            }
            ("release", [name]) => {
                drop(
                    find(&mut self.permits, name)?
                        .pop()
                        .ok_or_else(|| Refusal::new("Usage", "no permit"))?,
                );
                done()
            }
            ("add", [name]) => {
                find(&mut self.semaphores, name)?.add_permit()?;
                done()
            }
            ("available", [name]) => said(find(&mut self.semaphores, name)?.available_permits()),
            _ => answer::unknown(verb, args),
        }
    }

    fn event(&mut self, domain: &Domain, verb: &str, args: &[&str]) -> Answer {
        match (verb, args) {
            ("open", [name, reset]) => {
                let reset = if *reset == "automatic" { Reset::Automatic } else { Reset::Manual };
                self.events.insert(
                    (*name).to_owned(),
                    Event::options().reset(reset).open_or_create(domain, name)?,
                );
                done()
            }
            ("set", [name, bits]) => {
                self.event_of(name)?.set(answer::number(bits)?);
                done()
            }
            ("clear", [name, bits]) => {
                self.event_of(name)?.clear(answer::number(bits)?);
                done()
            }
            ("bits", [name]) => said(self.event_of(name)?.bits()),
            ("any" | "all", [name, bits, patience]) => {
                let (event, bits) = (self.event_of(name)?, answer::number(bits)?);
                let (all, patience) = (verb == "all", answer::patience(patience)?);
                let seen = match patience {
                    None if all => event.try_wait_all(bits),
                    None => event.try_wait_any(bits),
                    Some(span) if all => event.wait_all_timeout(bits, span),
                    Some(span) => event.wait_any_timeout(bits, span),
                }?;
                said(match patience {
                    None => seen.ok_or_else(|| Refusal::new("None", ""))?,
                    patience => answer::got(seen, patience)?,
                })
            }
            _ => answer::unknown(verb, args),
        }
    }

    fn condition(
        &mut self,
        domain: &Domain,
        locks: &mut Locks,
        verb: &str,
        args: &[&str],
    ) -> Answer {
        match (verb, args) {
            ("open", [name, _lock]) => {
                self.condvars
                    .insert((*name).to_owned(), leak(Condvar::open_or_create(domain, name)?));
                done()
            }
            ("await", [name, lock, value, span]) => {
                let (condvar, wanted) =
                    (*find(&mut self.condvars, name)?, answer::number::<u64>(value)?);
                let guard = locks.take_guard(lock)?;
                match condvar
                    .wait_while_timeout(guard, answer::span(span)?, |value| *value != wanted)
                {
                    Ok((guard, Woke::TimedOut)) => {
                        locks.keep(lock, Ok(guard))?;
                        refused("TimedOut", "")
                    }
                    Ok((guard, _)) => locks.keep(lock, Ok(guard)),
                    Err(error @ LockError::OwnerDied(_)) => locks.keep(lock, Err(error)),
                    Err(other) => Err(other.into()),
                }
            }
            ("notify", [name]) => {
                find(&mut self.condvars, name)?.notify_one();
                done()
            }
            ("notify_all", [name]) => {
                find(&mut self.condvars, name)?.notify_all();
                done()
            }
            _ => answer::unknown(verb, args),
        }
    }

    fn barrier(&mut self, domain: &Domain, verb: &str, args: &[&str]) -> Answer {
        match (verb, args) {
            ("open", [name, parties, when]) => {
                let when =
                    if *when == "count_out" { WhenOneDies::CountOut } else { WhenOneDies::Break };
                let barrier = Barrier::options(answer::number(parties)?)
                    .when_one_dies(when)
                    .open_or_create(domain, name)?;
                self.barriers.insert((*name).to_owned(), leak(barrier));
                done()
            }
            ("wait", [name, span]) => {
                if !self.seats.contains_key(*name) {
                    let seat = find(&mut self.barriers, name)?.join()?;
                    self.seats.insert((*name).to_owned(), seat);
                }
                let span = answer::span(span)?;
                let turn = find(&mut self.seats, name)?.wait_timeout(span)?;
                let turn = answer::got(turn, Some(span))?;
                said(turn.index())
            }
            ("abort_wait", [name]) => said(find(&mut self.seats, name)?.abort()?.index()),
            ("abort", [name]) => {
                find(&mut self.barriers, name)?.abort();
                done()
            }
            ("reset", [name, span]) => {
                find(&mut self.barriers, name)?.reset_timeout(answer::span(span)?)?;
                done()
            }
            ("state", [name]) => {
                let barrier = find(&mut self.barriers, name)?;
                let broken = if barrier.is_broken() { " broken" } else { "" };
                said(format!("{} of {}{broken}", barrier.arrived(), barrier.parties()))
            }
            ("repair", [name, span]) => {
                find(&mut self.barriers, name)?.repair_timeout(answer::span(span)?)?;
                done()
            }
            _ => answer::unknown(verb, args),
        }
    }

    fn latch(&mut self, domain: &Domain, verb: &str, args: &[&str]) -> Answer {
        match (verb, args) {
            ("open", [name, arrivals]) => {
                self.latches.insert(
                    (*name).to_owned(),
                    Latch::options(answer::number(arrivals)?).open_or_create(domain, name)?,
                );
                done()
            }
            ("arrive", [name, arrivals]) => {
                said(find(&mut self.latches, name)?.arrive(answer::number(arrivals)?))
            }
            ("wait", [name, "try"]) => {
                if find(&mut self.latches, name)?.is_open() {
                    done()
                } else {
                    refused("None", "")
                }
            }
            ("wait", [name, span]) => {
                find(&mut self.latches, name)?.wait_timeout(answer::span(span)?)?;
                done()
            }
            _ => answer::unknown(verb, args),
        }
    }
}
