//! `record.`: a struct with primitives inside, which are found by `NAME.FIELD`. `once.`: what is
//! done once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use outlive::Domain;
use outlive::sync::{
    EmbeddedBarrier, EmbeddedCondvar, EmbeddedEvent, EmbeddedLatch, EmbeddedMutex,
    EmbeddedOnceLock, EmbeddedPiMutex, EmbeddedSemaphore, LockError, OnceLock, OnceState, PiMutex,
    PiMutexGuard, Record, WhenOneDies,
};

use crate::answer::{self, Answer, Refusal, done, find, leak, said};
use crate::locks::Locks;
use crate::sync::Sync;

outlive::record! {
    pub(crate) struct Line {
        lock: EmbeddedMutex<u64>,
        moved: EmbeddedEvent,
        ready: EmbeddedLatch,
        made: EmbeddedOnceLock<()>,
        changed: EmbeddedCondvar,
        count: AtomicU64,
        slots: EmbeddedSemaphore<3>,
        parts: EmbeddedSemaphore<2>,
        step: EmbeddedBarrier<2>,
        tour: EmbeddedBarrier<2>,
        spindle: EmbeddedPiMutex<()>,
    }
}

outlive::record! {
    struct Other {
        lock: EmbeddedMutex<u64>,
        moved: EmbeddedEvent,
        ready: EmbeddedLatch,
        made: EmbeddedOnceLock<()>,
        changed: EmbeddedCondvar,
        count: AtomicU64,
        slots: EmbeddedSemaphore<3>,
        parts: EmbeddedSemaphore<3>,
        step: EmbeddedBarrier<2>,
        tour: EmbeddedBarrier<2>,
        spindle: EmbeddedPiMutex<()>,
    }
}

#[derive(Default)]
pub(crate) struct Records {
    records: HashMap<String, Record<Line>>,
    spindles: HashMap<String, &'static PiMutex<()>>,
    spinning: Vec<PiMutexGuard<'static, ()>>,
    onces: HashMap<String, &'static OnceLock<()>>,
}

/// Returns what `once.` says of how it was done.
pub(crate) fn how(state: OnceState) -> &'static str {
    if state.previous_died() { "again" } else { "fresh" }
}

impl Records {
    pub(crate) fn act(
        &mut self,
        domain: &Domain,
        locks: &mut Locks,
        sync: &mut Sync,
        verb: &str,
        args: &[&str],
    ) -> Answer {
        match (verb, args) {
            ("open", [name, value]) => {
                let value = answer::number(value)?;
                let line = Record::<Line>::options()
                    .init(|line| {
                        *line.lock.get_mut() = value;
                        line.ready.expect_arrivals(2);
                        line.parts.set_permits(0);
                        line.tour.set_policy(WhenOneDies::CountOut);
                    })
                    .open_or_create(domain, name)?;
                let field = |field: &str| format!("{name}.{field}");
                locks.add(field("lock"), line.handle(|line| &line.lock));
                sync.add_event(field("moved"), line.handle(|line| &line.moved));
                sync.add_latch(field("ready"), line.handle(|line| &line.ready));
                sync.add_condvar(field("changed"), line.handle(|line| &line.changed));
                sync.add_semaphore(field("slots"), line.handle(|line| &line.slots));
                sync.add_semaphore(field("parts"), line.handle(|line| &line.parts));
                sync.add_barrier(field("step"), line.handle(|line| &line.step));
                sync.add_barrier(field("tour"), line.handle(|line| &line.tour));
                self.onces.insert(field("made"), leak(line.handle(|line| &line.made)));
                self.spindles.insert((*name).to_owned(), leak(line.handle(|line| &line.spindle)));
                self.records.insert((*name).to_owned(), line);
                done()
            }
            ("other", [name]) => {
                Record::<Other>::open_or_create(domain, name)?;
                done()
            }
            ("count", [name]) => {
                said(find(&mut self.records, name)?.count.fetch_add(1, Ordering::Relaxed) + 1)
            }
            ("spin_up", [name, patience]) => {
                let spindle = *find(&mut self.spindles, name)?;
                let patience = answer::patience(patience)?;
                let got = match patience {
                    None => spindle.try_lock(),
                    Some(span) => spindle.lock_timeout(span),
                };
                let (guard, said) = match got {
                    Ok(guard) => (answer::got(guard, patience)?, "ok"),
                    Err(LockError::OwnerDied(guard)) => (guard, "owner-died"),
                    Err(LockError::Failed(error)) => return Err(error.into()),
                    Err(other) => return Err(other.into()),
                };
                self.spinning.push(guard);
                Ok(said.to_owned())
            }
            _ => answer::unknown(verb, args),
        }
    }

    pub(crate) fn once(&mut self, domain: &Domain, verb: &str, args: &[&str]) -> Answer {
        match (verb, args) {
            ("open", [name]) => {
                self.onces
                    .insert((*name).to_owned(), leak(OnceLock::open_or_create(domain, name)?));
                done()
            }
            ("do", [name, patience]) => {
                let mut done_so = "done";
                self.make(name, patience, |state| done_so = how(state))?;
                said(done_so)
            }
            ("is_done", [name]) => {
                said(if self.once_of(name)?.get().is_some() { "yes" } else { "no" })
            }
            _ => answer::unknown(verb, args),
        }
    }

    pub(crate) fn once_of(&mut self, name: &str) -> Result<&'static OnceLock<()>, Refusal> {
        find(&mut self.onces, name).map(|once| *once)
    }

    fn make(
        &mut self,
        name: &str,
        patience: &str,
        make: impl FnOnce(OnceState),
    ) -> Result<(), Refusal> {
        let once = self.once_of(name)?;
        let patience = answer::patience(patience)?;
        let made = match patience {
            None => once.try_get_or_init(make),
            Some(span) => once.get_or_init_timeout(span, make),
        }?;
        answer::got(made, patience).copied()
    }
}
