//! The survivor of all outlive scenarios: a process that uses a domain as any program would, on
//! orders.
//!
//! Orders are grouped by what they concern: `mutex …`, `condvar …`, `queue …`, `domain …` and so
//! on; each group is a file. The domain is opened by the first order, so that a survivor can be
//! there before it.

pub(super) mod barrier;
pub(super) mod condvar;
mod domain;
pub(super) mod event;
pub(super) mod jobs;
pub(super) mod mutex;
pub(super) mod notifier;
pub(super) mod once;
pub(super) mod pool;
mod presence;
pub(super) mod queue;
pub(super) mod reader;
pub(super) mod realtime;
pub(super) mod record;
pub(super) mod rpc;
pub(super) mod rw_lock;
pub(super) mod semaphore;
pub(super) mod state;
mod token;
pub(super) mod topic;
mod watches;

use std::path::PathBuf;

use outlive::Domain;

use super::Place;
use crate::world::Recheck;
use crate::world::survivor::Obeys;

/// A survivor's state between orders.
pub struct Member {
    folder: PathBuf,
    recheck: Recheck,
    domain: Option<Domain>,
    mutexes: mutex::Mutexes,
    realtime: realtime::Mutexes,
    rw_locks: rw_lock::RwLocks,
    shelves: condvar::Shelves,
    semaphores: semaphore::Semaphores,
    barriers: barrier::Barriers,
    threads: token::Threads,
    pools: pool::Pools,
    queues: queue::Queues,
    jobs: jobs::JobQueues,
    notifiers: notifier::Notifiers,
    states: state::States,
    services: rpc::Services,
    topics: topic::Topics,
    followers: presence::Followers,
    readers: reader::Readers,
    watches: watches::Watches,
    recorders: record::Recorders,
}

impl Member {
    /// A survivor in the domain of that place.
    #[must_use]
    pub fn new(place: &Place<'_>) -> Member {
        Member {
            folder: place.domain.to_owned(),
            recheck: place.recheck,
            domain: None,
            mutexes: mutex::Mutexes::default(),
            realtime: realtime::Mutexes::default(),
            rw_locks: rw_lock::RwLocks::default(),
            shelves: condvar::Shelves::default(),
            semaphores: semaphore::Semaphores::default(),
            barriers: barrier::Barriers::default(),
            threads: token::Threads::default(),
            pools: pool::Pools::default(),
            queues: queue::Queues::default(),
            jobs: jobs::JobQueues::default(),
            notifiers: notifier::Notifiers::default(),
            states: state::States::default(),
            services: rpc::Services::default(),
            topics: topic::Topics::default(),
            followers: presence::Followers::default(),
            readers: reader::Readers::default(),
            watches: watches::Watches::default(),
            recorders: record::Recorders::default(),
        }
    }

    fn domain(&mut self) -> Result<Domain, String> {
        if let Some(domain) = &self.domain {
            return Ok(domain.clone());
        }
        let domain = self.recheck.open(&self.folder).map_err(|error| error.to_string())?;
        Ok(self.domain.insert(domain).clone())
    }
}

impl Obeys for Member {
    fn obey(&mut self, order: &[&str]) -> Result<String, String> {
        let domain = self.domain()?;
        match order {
            ["mutex", order @ ..] => self.mutexes.obey(&domain, order),
            ["pi", order @ ..] => self.realtime.obey(realtime::Kind::Pi, &domain, order),
            ["ceiling", order @ ..] => self.realtime.obey(realtime::Kind::Ceiling, &domain, order),
            ["reentrant", order @ ..] => {
                self.realtime.obey(realtime::Kind::Reentrant, &domain, order)
            }
            ["rwlock", order @ ..] => self.rw_locks.obey(&domain, order),
            ["condvar", order @ ..] => self.shelves.obey(&domain, order),
            ["event", order @ ..] => event::obey(&domain, order),
            ["latch", order @ ..] => event::obey_latch(&domain, order),
            ["once", order @ ..] => once::obey(&domain, order),
            ["jobs", order @ ..] => self.jobs.obey(&domain, order),
            ["notifier", order @ ..] => self.notifiers.obey(&domain, order),
            ["semaphore", order @ ..] => self.semaphores.obey(&domain, order),
            ["barrier", order @ ..] => self.barriers.obey(&domain, order),
            ["pool", order @ ..] => self.pools.obey(&domain, order),
            ["queue", order @ ..] => self.queues.obey(&domain, order),
            ["state", order @ ..] => self.states.obey(&domain, order),
            ["rpc", order @ ..] => self.services.obey(&domain, order),
            ["topic", order @ ..] => self.topics.obey(&domain, order),
            ["presence", order @ ..] => self.followers.obey(&domain, order),
            ["reader", order @ ..] => self.readers.obey(&domain, order),
            ["watches", order @ ..] => self.watches.obey(&domain, order),
            ["token", order @ ..] => self.threads.obey(&domain, order),
            ["record", order @ ..] => self.recorders.obey(&domain, &self.folder, order),
            ["domain", order @ ..] => domain::obey(&domain, order),
            _ => Err("unknown order".to_owned()),
        }
    }
}

/// A number among an order's words.
fn number<N: std::str::FromStr>(word: &str) -> Result<N, String> {
    word.parse().map_err(|_| format!("`{word}` is no number"))
}
