//! A job queue as a wait set sees it: is there a job to be taken? It reads shared words alone, from
//! any thread.

use std::sync::Arc;

use super::inner::Inner;
use super::queue::JobQueue;
use crate::liveness::TokenId;
use crate::wake::{
    EventCount, PreparedWait, Readiness, Source, SourceState, WaitWords, Waited, Watched,
};
use crate::{Error, Payload};

pub(crate) struct JobsReadiness(Arc<Inner>);

impl Waited for JobsReadiness {
    fn look(&self) -> SourceState {
        let states = self.0.table().states(|owner| self.0.registry.is_alive(owner));
        match states.waiting {
            0 if states.taken == 0 => SourceState::Waiting,
            0 => SourceState::BehindOwners,
            _ => SourceState::Ready(Readiness::Readable),
        }
    }

    fn owners(&self, into: &mut Vec<TokenId>) {
        let table = self.0.table();
        for (owner, held) in table.taken() {
            // At its limit a dead worker's job comes to no worker; and a sleep on an end that is
            // past would end at once. Below the limit, an owner that died after `look` must end it.
            let matters = !table.is_at_limit(held.word) || self.0.registry.is_alive(owner);
            if matters && !into.contains(&owner) {
                into.push(owner);
            }
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        Some(&self.0.head().jobs)
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        words.add(&[self.0.head().jobs.watch(prepared.ticket)]);
    }

    fn needs_recheck(&self, _: &PreparedWait) -> bool {
        // A producer may be stopped between its job and the notification; and of several sleepers
        // one notification wakes two.
        true
    }
}

/// Ready when there is a job to be taken ([`Readiness::Readable`]), a dead worker's included:
/// [`JobQueue::try_take`] takes it, if no other worker was quicker. A job wakes two waiters, wait
/// sets among them; if the woken sets take no job, workers that sleep find it by their recheck,
/// within a second.
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
