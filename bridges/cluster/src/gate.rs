//! The local half: one process of a machine deals with the cluster, the others wait for it here.
//!
//! The gate is an Outlive mutex in a domain. It only saves traffic: which machine has the lock is the
//! cluster's to say, so whatever happens to the gate, no lock is held twice.
//!
//! | the process in the gate | what the next one finds | what it does |
//! | --- | --- | --- |
//! | leaves | the lease, if it may still be used | uses it: one machine has one lease for a lock |
//! | dies | `OwnerDied`, perhaps a lease | ends that lease: a request of the dead may still be on its way, and must find none |
//! | leaves, and an answer did not come | the lease, in doubt | ends it first, as that of the dead |
//! | is stopped | after the word `alive` has passed | goes past it, with a lease of its own |
//!
//! `alive` is written by the process in the gate, or by one that went past it. Killed just before it
//! is written: the others look at the old value and ask the cluster themselves.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outlive::sync::{self, EmbeddedMutex, Record};
use outlive::{Deadline, Domain};

use crate::clock::Moment;
use crate::error::Error;
use crate::etcd::Lease;
use crate::keep::store_alive;

outlive::record! {
    /// What processes of one machine share of one lock.
    pub(crate) struct Words {
        /// The lease that the last process left: its number, its end. No number: none. No end: a
        /// request with it may still be on its way.
        pub(crate) left: EmbeddedMutex<[u64; 2]>,
        /// Up to when the process in the gate is expected to deal with the cluster.
        pub(crate) alive: AtomicU64,
    }
}

pub(crate) struct Gate {
    record: Arc<Record<Words>>,
    mutex: sync::Mutex<[u64; 2]>,
}

/// A process in the gate, or one that went past it (`None`).
pub(crate) struct Inside<'a> {
    guard: Option<sync::MutexGuard<'a, [u64; 2]>>,
    gate: &'a Gate,
    /// The lease of a process that went past, which notes it nowhere else.
    past: [u64; 2],
    /// A lease with which a request may still be on its way: a dead process's, or one whose answer
    /// did not come. It is ended before anything else is asked.
    pub(crate) doubtful: Option<i64>,
    process: u32,
}

impl Gate {
    pub(crate) fn open(domain: &Domain, name: &str) -> Result<Gate, Error> {
        let record = Record::<Words>::open_or_create(domain, name)?;
        let mutex = record.handle(|words| &words.left);
        Ok(Gate { record: Arc::new(record), mutex })
    }

    /// Returns the word for a keeper's thread.
    pub(crate) fn alive(&self) -> impl Fn(Moment) + Send + 'static {
        let record = Arc::clone(&self.record);
        move |until| store_alive(&record.alive, until)
    }

    pub(crate) fn set_alive(&self, until: Moment) {
        store_alive(&self.record.alive, until);
    }

    fn is_deserted(&self) -> bool {
        // Relaxed: see `store_alive`.
        Moment(self.record.alive.load(Ordering::Relaxed)).has_passed()
    }

    /// Enters; `None`: the time was over first.
    pub(crate) fn enter(&self, until: Moment) -> Result<Option<Inside<'_>>, Error> {
        // Until the word has passed once more: a process that just entered has not written it yet.
        let mut first = true;
        loop {
            let alive = Moment(self.record.alive.load(Ordering::Relaxed)).remaining();
            let slice = if first { Duration::from_millis(200) } else { Duration::from_millis(20) };
            let slice = alive.max(slice).min(until.remaining());
            match self.mutex.lock_until(Deadline::after(slice)) {
                Ok(Some(guard)) => {
                    let [id, end] = *guard;
                    let doubtful = (id != 0 && end == 0).then_some(id as i64);
                    return Ok(Some(self.inside(Some(guard), doubtful)));
                }
                Ok(None) => {}
                Err(sync::LockError::OwnerDied(mut guard)) => {
                    // The number stays in the gate, and the gate not consistent, until that lease
                    // is no more: killed here, the next process is told again.
                    let doubtful = (guard[0] != 0).then_some(guard[0] as i64);
                    if doubtful.is_none() {
                        guard.mark_consistent();
                    }
                    return Ok(Some(self.inside(Some(guard), doubtful)));
                }
                Err(sync::LockError::Failed(error)) => return Err(error.into()),
                Err(error) => return Err(Error::Damaged(format!("the local lock: {error}"))),
            }
            let is_last = until.has_passed();
            if (is_last || !first) && self.is_deserted() {
                return Ok(Some(self.inside(None, None)));
            }
            if is_last {
                return Ok(None);
            }
            first = false;
        }
    }

    fn inside<'a>(
        &'a self,
        guard: Option<sync::MutexGuard<'a, [u64; 2]>>,
        doubtful: Option<i64>,
    ) -> Inside<'a> {
        Inside { guard, gate: self, past: [0; 2], doubtful, process: process::id() }
    }
}

impl Inside<'_> {
    /// Returns the lease that the last process left, if enough of its life is left.
    pub(crate) fn left(&self, enough: Duration) -> Option<Lease> {
        let [id, until] = self.guard.as_ref().map_or(self.past, |guard| **guard);
        let lease = Lease { id: id as i64, until: Moment(until) };
        (id != 0 && lease.until > Moment::now().after(enough)).then_some(lease)
    }

    /// Says which lease this process uses now, so that its death leaves the number.
    pub(crate) fn set_lease(&mut self, lease: Option<Lease>) {
        let [id, until] = lease.map_or([0, 0], |lease| [lease.id as u64, lease.until.0]);
        let words = self.guard.as_deref_mut().unwrap_or(&mut self.past);
        // The end first: killed between the two words, the next process is told of the death and
        // looks at the number alone.
        words[1] = until;
        words[0] = id;
    }

    /// A request with this lease may still be on its way. Killed, or out of time, before it is ended:
    /// the next process in the gate ends it.
    pub(crate) fn doubt(&mut self, lease: Lease) {
        self.set_lease(Some(Lease { id: lease.id, until: Moment(0) }));
        self.doubtful = Some(lease.id);
    }

    /// The lease in doubt is no more.
    pub(crate) fn has_ended_doubtful(&mut self) {
        self.doubtful = None;
        self.past = [0, 0];
        if let Some(guard) = &mut self.guard {
            **guard = [0, 0];
            guard.mark_consistent();
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // The next one need not wait for what this one promised. What a child by `fork` drops is its
        // parent's.
        if self.process == process::id() {
            self.gate.set_alive(Moment::now());
        }
    }
}
