//! Sources that a reactor waits for. After a wake it looks only at those of which something has
//! changed, so a wake among thousands of idle futures costs one look.
//!
//! Each source that was not ready when it was looked at keeps what its look stood on: the words with
//! their values as they were *before* the look, the owners, and the moment. As long as all words
//! have these values, all owners live and the moment has not come, sleeping on is as good as not
//! having been woken, and no look is needed. That is what the sleep itself relies on.
//!
//! | a wake | what is looked at |
//! | --- | --- |
//! | words of some sources have changed, or owners have died, or moments have come | these, and new ones |
//! | nothing of that: a wake-up that is to be relayed, a recheck | all |
//! | any, a second after all were looked at | all: the recheck of the others, where one wakes all the time |
//! | the kernel denies the fence | all: a notifier may overlook us |
//!
//! Two wake-ups may come in one, of which one changes no word: a process that dies between its
//! change and its notification wakes one sleeper by a relay word. As a rule its change is seen in the
//! words, or its end is. If not, it is found within that second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Deadline;
use crate::liveness::{Registry, TokenId};
use crate::sys::Errno;
use crate::sys::barrier;
use crate::sys::futex::Watch;
use crate::sys::robust::WakeRelay;
use crate::wake::{PreparedWait, SourceState, WaitList, WaitWords, Waited};

/// How long one sleep lasts at most where the kernel denies the fence.
const SHORT: Duration = Duration::from_millis(10);
/// After so long all sources are looked at, at the next wake.
const ALL_AGAIN: Duration = Duration::from_secs(1);

struct Member {
    key: u64,
    /// What the last look stood on, if it found nothing. Dropped before `waited`.
    idle: Option<Idle>,
    waited: Arc<dyn Waited>,
    prepared: PreparedWait,
}

/// What the look at a source stood on that found nothing.
struct Idle {
    /// They lie in what the member's `waited` keeps.
    words: WaitWords<'static>,
    owners: Vec<TokenId>,
    until: Deadline,
    needs_recheck: bool,
}

impl Idle {
    fn is_as_it_was(&self, registry: &Registry) -> bool {
        !self.words.have_changed()
            && self.owners.iter().all(|owner| registry.is_alive(*owner))
            && !self.until.has_passed()
    }
}

impl Member {
    fn is_idle(&self, registry: &Registry) -> bool {
        self.idle.as_ref().is_some_and(|idle| idle.is_as_it_was(registry))
    }
}

/// See the file's head.
pub(super) struct IdleList {
    members: Vec<Member>,
    many: WaitList,
    looked_at_all: Instant,
    /// How often a source was looked at.
    #[cfg(test)]
    pub(super) looks: u64,
}

/// Sources that have left the list. To be dropped where no lock is held: the last source of a
/// mapping unmaps it.
#[must_use]
pub(super) struct Gone(#[expect(dead_code, reason = "to be dropped")] Vec<Member>);

impl IdleList {
    pub(super) fn new() -> IdleList {
        let (members, many) = (Vec::new(), WaitList::default());
        IdleList {
            members,
            many,
            looked_at_all: Instant::now(),
            #[cfg(test)]
            looks: 0,
        }
    }

    pub(super) fn add(&mut self, key: u64, waited: Arc<dyn Waited>) {
        let prepared = PreparedWait::default();
        self.members.push(Member { key, idle: None, waited, prepared });
    }

    /// Removes those whose key is no longer wanted.
    pub(super) fn retain(&mut self, wanted: impl Fn(u64) -> bool) -> Gone {
        Gone(self.members.extract_if(.., |member| !wanted(member.key)).collect())
    }

    /// Looks at those of which something has changed, or at all, and reports the ready ones.
    /// `is_explained`: the caller itself was the reason of the wake.
    pub(super) fn look(
        &mut self,
        registry: &Registry,
        is_explained: bool,
        mut found: impl FnMut(u64),
    ) {
        let is_any = |members: &[Member]| members.iter().any(|member| !member.is_idle(registry));
        let all =
            self.looked_at_all.elapsed() >= ALL_AGAIN || !(is_explained || is_any(&self.members));
        if all {
            self.looked_at_all = Instant::now();
        }
        for member in &mut self.members {
            if !all && member.is_idle(registry) {
                continue;
            }
            member.idle = None;
            #[cfg(test)]
            {
                self.looks += 1;
            }
            if let SourceState::Ready(_) = member.waited.look() {
                found(member.key);
            }
        }
    }

    /// Sleeps until something changes, or a source is found ready: the caller looks after any return
    /// but an error. `extra` is a word of the caller's own.
    pub(super) fn sleep(
        &mut self,
        registry: &'static Registry,
        relay: &WakeRelay,
        extra: Watch<'_>,
    ) -> Result<(), Errno> {
        let mut needs_fence = false;
        for Member { waited, prepared, .. } in self.members.iter_mut().filter(is_new) {
            // Prepared before the look below: pairs with the notifiers' `light`.
            needs_fence |= waited.event_count().is_some_and(|count| prepared.prepare(count));
        }
        let is_fenced = !needs_fence || barrier::heavy();
        if needs_fence && is_fenced {
            for Member { waited, prepared, .. } in self.members.iter_mut().filter(is_new) {
                if let Some(count) = waited.event_count() {
                    count.note_fence(&mut prepared.ticket);
                }
            }
        }
        for member in self.members.iter_mut().filter(is_new) {
            let mut words = WaitWords::new();
            // The words first: the look behind them decides whether to sleep on them.
            member.waited.add_words(&mut member.prepared, &mut words);
            #[cfg(test)]
            {
                self.looks += 1;
            }
            let (mut owners, mut until) = (Vec::new(), Deadline::NEVER);
            match member.waited.look() {
                SourceState::Ready(_) => {
                    self.forget_unless(is_fenced);
                    return Ok(());
                }
                SourceState::Waiting => {}
                SourceState::BehindOwner(owner) => owners.push(owner),
                SourceState::BehindOwners => member.waited.owners(&mut owners),
                SourceState::NotBefore(moment) => until = moment,
                SourceState::BehindOwnersUntil(moment) => {
                    member.waited.owners(&mut owners);
                    until = moment;
                }
            }
            let needs_recheck = member.waited.needs_recheck(&member.prepared);
            // SAFETY: the words are borrowed from `waited`, which this member keeps where it is, and
            // drops after them; it is never borrowed mutably, since it is in an `Arc`.
            let words = unsafe { core::mem::transmute::<WaitWords<'_>, WaitWords<'static>>(words) };
            member.idle = Some(Idle { words, owners, until, needs_recheck });
        }
        let mut words = WaitWords::new();
        words.add(&[extra]);
        let mut owners = Vec::new();
        let mut until = if is_fenced { Deadline::NEVER } else { Deadline::after(SHORT) };
        let mut needs_recheck = false;
        for idle in self.members.iter().filter_map(|member| member.idle.as_ref()) {
            words.add_all(&idle.words);
            owners.extend_from_slice(&idle.owners);
            until = until.earlier(idle.until);
            needs_recheck |= idle.needs_recheck;
        }
        owners.sort_unstable_by_key(|owner| owner.as_u32());
        owners.dedup();
        let slept = self.many.sleep(registry, relay, words, &owners, needs_recheck, until);
        // A woken sleeper owes the others something where a word of its own has changed, or where
        // nothing says why it was woken.
        let is_any = self.members.iter().any(|member| !member.is_idle(registry));
        for member in self.members.iter().filter(|one| !is_any || !one.is_idle(registry)) {
            member.waited.woken(&member.prepared);
        }
        self.forget_unless(is_fenced);
        slept.map(drop)
    }

    /// Where a notifier may overlook the prepared waits, no source is left out of the next look.
    fn forget_unless(&mut self, is_fenced: bool) {
        if !is_fenced {
            self.members.iter_mut().for_each(|member| member.idle = None);
        }
    }
}

fn is_new(member: &&mut Member) -> bool {
    member.idle.is_none()
}
