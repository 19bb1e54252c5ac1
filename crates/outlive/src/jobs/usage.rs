//! A job queue as seen from outside: its figures, its workers, and the sweep.

use super::inner::Inner;
use super::queue::JobQueue;
use super::table::States;
use crate::claim::Holder;
use crate::liveness::Me;
use crate::segment::Segment;
use crate::shim::Ordering;
use crate::{Error, Payload};

/// Counts the jobs of a queue. The figures are exact when the queue is quiet; while it is in use,
/// each is true of some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobCounts {
    /// Jobs to be taken, those of dead workers included.
    pub waiting: u32,
    /// Jobs that living workers have.
    pub taken: u32,
    /// Jobs that are set aside.
    pub set_aside: u32,
    /// Jobs that are being put.
    pub being_put: u32,
    /// Jobs that have ever been put. A put that was cut short may count as well.
    pub put: u64,
}

/// Describes a job that a worker has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakenJob {
    /// The worker's process.
    pub worker: Holder,
    /// The job's number.
    pub id: u64,
    /// How often it has been taken, this time included.
    pub attempts: u32,
}

impl<M: Payload + ?Sized> JobQueue<M> {
    /// Returns how many jobs are waiting, taken and set aside.
    pub fn counts(&self) -> JobCounts {
        self.inner.counts()
    }

    /// Returns which jobs workers have, in the order in which they were put. A dead worker's job
    /// goes to the next process that takes one.
    pub fn taken(&self) -> Vec<TakenJob> {
        self.inner.taken()
    }
}

impl Inner {
    fn counts(&self) -> JobCounts {
        let is_alive = |owner| self.registry.is_alive(owner);
        let States { writing, waiting, taken, aside } = self.table().states(is_alive);
        JobCounts {
            waiting,
            taken,
            set_aside: aside,
            being_put: writing,
            put: self.head().tickets.load(Ordering::Relaxed),
        }
    }

    fn taken(&self) -> Vec<TakenJob> {
        let jobs = self.table().taken().into_iter();
        jobs.map(|(owner, held)| TakenJob {
            worker: Holder::of(self.registry, owner),
            id: held.id,
            attempts: held.word.attempts(),
        })
        .collect()
    }
}

/// Holds what the inspection shows of a job queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobsUsage {
    /// Its jobs.
    pub counts: JobCounts,
    /// The most jobs that it holds.
    pub max_jobs: u32,
    /// The most bytes of a job.
    pub job_bytes: u32,
    /// How often a job is taken before it is set aside; 0: there is no limit.
    pub max_attempts: u32,
    /// The jobs that workers have.
    pub taken: Vec<TakenJob>,
    /// Of the jobs that are set aside, those whose length a stray write has damaged.
    pub damaged: u32,
}

pub(crate) fn usage(segment: Segment, me: Me) -> Result<(JobsUsage, u32), Error> {
    let queue = JobQueue::<[u8]>::finish(segment, me.registry)?;
    let config = queue.config();
    let usage = JobsUsage {
        counts: queue.counts(),
        max_jobs: config.max_jobs,
        job_bytes: config.job_bytes,
        max_attempts: config.max_attempts,
        taken: queue.taken(),
        damaged: queue.damaged(),
    };
    Ok((usage, queue.inner.table().sweep(me, true)))
}

/// Takes the names of the dead out of the queue; returns how many there were.
pub(crate) fn sweep(segment: Segment, me: Me, dry_run: bool) -> Result<u32, Error> {
    let queue = JobQueue::<[u8]>::finish(segment, me.registry)?;
    Ok(queue.inner.table().sweep(me, dry_run))
}
