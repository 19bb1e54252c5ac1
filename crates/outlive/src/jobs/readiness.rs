//! A job queue as a wait set sees it: is there a job to be taken? It reads shared words alone, from
//! any thread.

use std::sync::Arc;

use super::inner::Inner;
use super::queue::JobQueue;
use crate::wake::{
    EventCount, PreparedWait, Readiness, Source, SourceState, WaitWords, Waited, Watched,
};
use crate::{Deadline, Error, Payload};

pub(crate) struct JobsReadiness(Arc<Inner>);

impl Waited for JobsReadiness {
    fn look(&self) -> SourceState {
        match self.0.table().workers_unless_waiting(|owner| self.0.registry.is_alive(owner)) {
            None => SourceState::Ready(Readiness::Readable),
            Some(none) if none.is_empty() => SourceState::Waiting,
            Some(workers) => SourceState::BehindOwners(workers, Deadline::NEVER),
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        Some(&self.0.head().jobs)
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        words.add(&[self.0.head().jobs.watch(prepared.ticket)]);
    }

    /// A notification wakes two sleepers, and a set takes no job: it wakes one more in its place, as
    /// long as a job waits. Died or stopped before that: a worker that sleeps finds the job
    /// at its recheck.
    fn woken(&self, prepared: &PreparedWait) {
        let jobs = &self.0.head().jobs;
        if jobs.is_notified(prepared.ticket) && self.0.table().has_waiting() {
            jobs.notify_some(1);
        }
    }

    fn needs_recheck(&self, _: &PreparedWait) -> bool {
        // A producer may be stopped between its job and the notification; and of the two sleepers
        // that a notification wakes, both may be stopped.
        true
    }
}

/// Ready when there is a job to be taken ([`Readiness::Readable`]), a dead worker's included:
/// [`JobQueue::try_take`] takes it, if no other worker was quicker. A job wakes two waiters, wait
/// sets among them. A set that was woken wakes another waiter in its place, so a job reaches a
/// worker though the sets beside it take none.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-set-jobs-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::jobs::JobQueue;
/// use outlive::wait::{Readiness, WaitSet};
///
/// let (urgent, usual) = (
///     JobQueue::<[u8]>::open_or_create(&domain, "urgent")?,
///     JobQueue::<[u8]>::open_or_create(&domain, "usual")?,
/// );
/// let mut set = WaitSet::new(&domain);
/// let (an_urgent, _a_usual) = (set.add(&urgent)?, set.add(&usual)?);
/// urgent.put(b"now")?;
/// assert_eq!(set.wait()?.collect::<Vec<_>>(), [(an_urgent, Readiness::Readable)]);
/// urgent.try_take()?.expect("a job").done()?;
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<M: Payload + ?Sized> Source for JobQueue<M> {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched::of(JobsReadiness(Arc::clone(&self.inner)), self.inner.registry))
    }
}
