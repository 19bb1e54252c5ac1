//! A role as a wait set, or a task, sees it that stands by: is it free?
//!
//! It is ready while no living process has the role, and no thread of a dead one acts in it: a try
//! to take the role is worth its while then. Else a set sleeps on `holder` as it was and on the end
//! of the holder, as `wait_to_take` does (role.rs). A holder that leaves and is stopped before its
//! wake is found at the recheck.

use super::role::{Role, RoleState};
use crate::Error;
use crate::liveness::Registry;
use crate::sys::futex::Watch;
use crate::wake::{PreparedWait, Readiness, Source, SourceState, WaitWords, Waited, Watched};

/// Waits for a role to be free: [`Queue::stand_by`](crate::queue::Queue::stand_by),
/// [`State::stand_by`](crate::state::State::stand_by) and
/// [`Service::stand_by`](crate::rpc::Service::stand_by) make it.
///
/// It is ready ([`Readiness::Ended`](crate::wait::Readiness::Ended)) while no living process has
/// the role. Then `try_wait_to_receive`, `try_wait_to_write` or `try_wait_to_serve` takes it,
/// unless another process was faster.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-stand-by-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::queue::Queue;
/// use outlive::wait::{Readiness, WaitSet};
///
/// let log = Queue::<[u8]>::open_or_create(&domain, "log")?;
/// let receiver = log.receiver()?;                     // in another process, as a rule
/// let mut set = WaitSet::new(&domain);
/// let free = set.add(&log.stand_by())?;
/// assert_eq!(set.try_wait()?.count(), 0);
/// drop(receiver);
/// assert_eq!(set.wait()?.collect::<Vec<_>>(), [(free, Readiness::Ended)]);
/// assert!(log.try_wait_to_receive()?.is_some());
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If the process that has the role dies, this is ready once its last thread has ended.
#[derive(Clone)]
pub struct StandBy(Watched);

/// What has a role in its memory, and keeps that mapped.
pub(crate) trait HasRole: Send + Sync + 'static {
    fn role(&self) -> Role<'_>;
}

struct FreeRole<H>(H);

impl StandBy {
    pub(crate) fn of_role(owner: impl HasRole) -> StandBy {
        let registry = owner.role().registry;
        StandBy::of(FreeRole(owner), registry)
    }

    pub(crate) fn of(free: impl Waited + 'static, registry: &'static Registry) -> StandBy {
        StandBy(Watched::of(free, registry))
    }
}

impl Source for StandBy {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(self.0.clone())
    }
}

impl<H: HasRole> Waited for FreeRole<H> {
    fn look(&self) -> SourceState {
        match self.0.role().standing().state {
            RoleState::Living(owner) => SourceState::BehindOwner(owner),
            RoleState::Nobody | RoleState::Dead => SourceState::Ready(Readiness::Ended),
        }
    }

    fn add_words<'a>(&'a self, _: &mut PreparedWait, words: &mut WaitWords<'a>) {
        // The set looks again behind this: a holder that left before is not slept behind, and one
        // that leaves after changes the word.
        let role = self.0.role();
        words.add(&[Watch { word: role.holder, expected: role.word() }]);
    }
}
