//! Sources that a set or a reactor looks at and sleeps on together.
//!
//! 1. Look at all.
//! 2. Prepare a wait on the eventcount of each that has one, unless the last one still stands.
//! 3. One fence, unless an earlier one covers all of them.
//! 4. Look at all again.
//! 5. Sleep on all their words, and on all owners whose end matters, until the earliest moment.
//! 6. Do what each source's protocol asks of a woken sleeper. Go on at 1.
//!
//! The index that the kernel returns is ignored. Nothing here is kept in shared memory: a death
//! here leaves at most a wake-up for an owner's end, which `wake/wait_list.rs` relays. See
//! doc/protocols/wait_set.md.

use std::sync::Arc;
use std::time::Duration;

use crate::Deadline;
use crate::liveness::{Registry, TokenId};
use crate::sys::Errno;
use crate::sys::barrier;
use crate::sys::futex::Watch;
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, PreparedWait, Readiness, SourceState, WaitList, WaitWords, Waited};

/// How long one sleep lasts at most where the kernel denies the fence, because a sender may then
/// overlook us.
const SHORT: Duration = Duration::from_millis(10);

/// A source in the list.
pub(super) struct Member {
    pub(super) key: u64,
    pub(super) waited: Arc<dyn Waited>,
    prepared: PreparedWait,
}

/// See the file's head.
#[derive(Default)]
pub(super) struct SourceList {
    members: Vec<Member>,
    many: WaitList,
    /// Where the next look begins: the source that is reported first changes from one look to the
    /// next.
    turn: usize,
}

impl SourceList {
    pub(super) fn add(&mut self, key: u64, waited: Arc<dyn Waited>) {
        self.members.push(Member { key, waited, prepared: PreparedWait::default() });
    }

    pub(super) fn remove(&mut self, key: u64) -> bool {
        let before = self.members.len();
        self.members.retain(|member| member.key != key);
        self.members.len() < before
    }

    /// Moves those whose key is no longer wanted into `gone`.
    pub(super) fn retain(&mut self, wanted: impl Fn(u64) -> bool, gone: &mut Vec<Member>) {
        gone.extend(self.members.extract_if(.., |member| !wanted(member.key)));
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns all sources with their keys, in the order in which they were added.
    pub(super) fn members(&self) -> impl Iterator<Item = (u64, Arc<dyn Waited>)> + '_ {
        self.members.iter().map(|member| (member.key, Arc::clone(&member.waited)))
    }

    /// Returns all sources, for a reactor.
    pub(super) fn sources(&self) -> Vec<Arc<dyn Waited>> {
        self.members.iter().map(|member| Arc::clone(&member.waited)).collect()
    }

    /// Does step 1: reports all that are ready.
    pub(super) fn look(&mut self, mut found: impl FnMut(u64, Readiness)) {
        let len = self.members.len();
        if len == 0 {
            return;
        }
        self.turn = (self.turn + 1) % len;
        for member in self.members[self.turn..].iter().chain(&self.members[..self.turn]) {
            if let SourceState::Ready(what) = member.waited.look() {
                found(member.key, what);
            }
        }
    }

    /// Returns whether one is ready, for a spin.
    pub(super) fn is_any_ready(&self) -> bool {
        self.members.iter().any(|member| matches!(member.waited.look(), SourceState::Ready(_)))
    }

    /// Does step 2, and returns whether a fence must follow.
    fn prepare(&mut self) -> bool {
        self.members.iter_mut().fold(false, |needed, Member { waited, prepared, .. }| {
            waited.event_count().is_some_and(|count| prepared.prepare(count)) | needed
        })
    }

    /// Does step 3. Returns false if the kernel denies the fence: then a notifier may overlook us.
    fn fence(&mut self) -> bool {
        let made = barrier::heavy();
        for Member { waited, prepared, .. } in self.members.iter_mut().filter(|_| made) {
            if let Some(count) = waited.event_count() {
                count.note_fence(&mut prepared.ticket);
            }
        }
        made
    }

    /// Does steps 2 to 6. The caller looks again after any return but an error; `extra` is a word
    /// of the caller's own.
    pub(super) fn sleep(
        &mut self,
        registry: &'static Registry,
        relay: &WakeRelay,
        extra: Option<Watch<'_>>,
        deadline: Deadline,
    ) -> Result<Asleep, Errno> {
        // Prepared before the looks: pairs with the notifiers' `light`.
        let is_fenced = !self.prepare() || self.fence();
        let mut until = if is_fenced { deadline } else { deadline.earlier(Deadline::after(SHORT)) };
        let mut words = WaitWords::new();
        let mut owners: Vec<TokenId> = Vec::new();
        let mut asleep = Vec::with_capacity(self.members.len());
        extra.into_iter().for_each(|watch| words.add(&[watch]));
        for Member { waited, prepared, .. } in &mut self.members {
            let waited: &Arc<dyn Waited> = waited;
            // The words first: the look behind them decides whether to sleep on them.
            waited.add_words(prepared, &mut words);
            let prepared: &PreparedWait = prepared;
            asleep.push((waited, prepared));
            match waited.look() {
                SourceState::Ready(_) => return Ok(Asleep::LookAgain),
                SourceState::Waiting => {}
                SourceState::BehindOwner(owner) => owners.push(owner),
                SourceState::BehindOwners => waited.owners(&mut owners),
                SourceState::NotBefore(moment) => until = until.earlier(moment),
            }
        }
        owners.sort_unstable_by_key(|owner| owner.as_u32());
        owners.dedup();
        let looks = asleep.iter().any(|(waited, prepared)| waited.needs_recheck(prepared));
        let slept = self.many.sleep(registry, relay, words, &owners, looks, until);
        for member in &self.members {
            member.waited.woken(&member.prepared);
        }
        match slept? {
            Asleep::TimedOut if !deadline.has_passed() => Ok(Asleep::LookAgain),
            ended => Ok(ended),
        }
    }
}
