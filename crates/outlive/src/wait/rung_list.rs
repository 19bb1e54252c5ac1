//! Sources of a large set whose notifiers raise the set's doorbell (liveness/doorbell.rs). The
//! user's thread sleeps on that one word, however many sources there are, and looks at those whose
//! bits it finds.
//!
//! 1. c = the doorbell's count.
//! 2. Take the bits. Their sources are *new*; so is each source that was ready.
//! 3. Look at the new ones.
//! 4. Prepare a wait on the eventcount of each new source, with another number; one fence.
//! 5. Look at them again. What is not ready is idle from now on.
//! 6. Sleep while the count is c, and on the owners that looks have named.
//!
//! A source's registration is in its eventcount from when it is added. A recheck looks at all. A
//! source whose eventcount has another set's registration is in a section instead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Deadline;
use crate::liveness::{BITS, ClaimedDoorbell, Registry, TokenId};
use crate::sys::barrier;
use crate::sys::futex::Watch;
use crate::wake::{PreparedWait, Readiness, SourceState, WaitWords, Waited};

/// After so long all sources are looked at, at the next wake.
const ALL_AGAIN: Duration = Duration::from_secs(1);

/// See the file's head.
pub(super) struct RungList {
    registry: &'static Registry,
    doorbell: ClaimedDoorbell,
    /// By slot: its number modulo the bits is its source's bit.
    members: Vec<Option<Member>>,
    /// Slots that are not used.
    free: Vec<usize>,
    /// The slots of new sources.
    new: Vec<usize>,
    /// The slots of idle sources of which a look has named owners or a moment.
    behind: Vec<usize>,
    /// The count as of the last look.
    seen: u32,
    looked_at_all: Instant,
}

struct Member {
    key: u64,
    waited: Arc<dyn Waited>,
    prepared: PreparedWait,
    is_new: bool,
    state: SourceState,
}

impl RungList {
    /// Makes an empty one; `None` if no doorbell is free.
    pub(super) fn new(registry: &'static Registry) -> Option<RungList> {
        let process = registry.process_token().ok()?;
        let doorbell = ClaimedDoorbell::claim(registry, process)?;
        let seen = doorbell.count();
        Some(RungList {
            registry,
            doorbell,
            members: Vec::new(),
            free: Vec::new(),
            new: Vec::new(),
            behind: Vec::new(),
            seen,
            looked_at_all: Instant::now(),
        })
    }

    /// Adds a source. Returns false if its notifiers raise no doorbell, or another set's.
    pub(super) fn add(&mut self, key: u64, waited: &Arc<dyn Waited>) -> bool {
        let Some(count) = waited.rung_count() else { return false };
        let slot = self.free.last().copied().unwrap_or(self.members.len());
        if !count.register(self.registry, self.doorbell.registration(slot % BITS)) {
            return false;
        }
        let (waited, prepared) = (Arc::clone(waited), PreparedWait::default());
        let state = SourceState::Waiting;
        let member = Some(Member { key, waited, prepared, is_new: true, state });
        if self.free.pop().is_some() {
            self.members[slot] = member;
        } else {
            self.members.push(member);
        }
        self.new.push(slot);
        true
    }

    /// Removes a source; returns whether it was there.
    pub(super) fn remove(&mut self, key: u64) -> bool {
        let is_it = |one: &Option<Member>| one.as_ref().is_some_and(|one| one.key == key);
        let Some(slot) = self.members.iter().position(is_it) else { return false };
        self.new.retain(|&other| other != slot);
        self.behind.retain(|&other| other != slot);
        self.free.push(slot);
        if let Some(count) =
            self.members[slot].take().as_ref().and_then(|it| it.waited.rung_count())
        {
            count.unregister(self.doorbell.registration(slot % BITS));
        }
        true
    }

    /// Does steps 1 to 3, and returns whether a source is ready.
    pub(super) fn look(&mut self, mut found: impl FnMut(u64, Readiness)) -> bool {
        self.seen = self.doorbell.count();
        let RungList { doorbell, members, new, .. } = self;
        doorbell.take(|bit| {
            let mut slot = bit;
            while let Some(member) = members.get_mut(slot) {
                make_new(member, slot, new);
                slot += BITS;
            }
        });
        self.look_behind();
        if self.looked_at_all.elapsed() >= ALL_AGAIN {
            self.look_at_all();
        }
        let mut is_any = false;
        for &slot in &self.new {
            let Some(member) = &self.members[slot] else { continue };
            if let SourceState::Ready(what) = member.waited.look() {
                found(member.key, what);
                is_any = true;
            }
        }
        is_any
    }

    /// Makes those new whose owner has died or whose moment has come.
    fn look_behind(&mut self) {
        let RungList { members, new, behind, .. } = self;
        behind.retain(|&slot| {
            let member = &mut members[slot];
            let is_behind = member.as_ref().is_some_and(|it| !it.is_new);
            let is_idle =
                is_behind && member.as_ref().is_some_and(|it| it.state == it.waited.look());
            if is_behind && !is_idle {
                make_new(member, slot, new);
            }
            is_idle
        });
    }

    /// The recheck: makes those new that are not as they were, though no notifier has said so.
    pub(super) fn look_at_all(&mut self) {
        self.looked_at_all = Instant::now();
        let RungList { registry, doorbell, members, new, .. } = self;
        for (slot, member) in members.iter_mut().enumerate() {
            let is_as_it_was = member.as_ref().is_none_or(|it| {
                let ours = doorbell.registration(slot % BITS);
                let is_ours = it.waited.rung_count().is_none_or(|it| it.register(registry, ours));
                is_ours && it.waited.look() == it.state
            });
            if !is_as_it_was {
                make_new(member, slot, new);
            }
        }
    }

    /// Does steps 4 and 5. Returns whether a source is ready, and whether the kernel has made the
    /// fence: without it, a notifier may overlook us.
    pub(super) fn prepare(&mut self) -> (bool, bool) {
        let RungList { members, new, behind, .. } = self;
        let mut needs_fence = false;
        for &slot in new.iter() {
            let Some(member) = &mut members[slot] else { continue };
            // Prepared before the look below: pairs with the notifiers' `light`.
            if let Some(count) = member.waited.event_count() {
                needs_fence |= member.prepared.prepare_anew(count);
            }
        }
        let is_fenced = !needs_fence || barrier::heavy();
        if needs_fence && is_fenced {
            for &slot in new.iter() {
                let Some(member) = &mut members[slot] else { continue };
                if let Some(count) = member.waited.event_count() {
                    count.note_fence(&mut member.prepared.ticket);
                }
            }
        }
        let mut is_any_ready = false;
        new.retain(|&slot| {
            let Some(member) = &mut members[slot] else { return false };
            member.state = member.waited.look();
            let is_ready = matches!(member.state, SourceState::Ready(_));
            is_any_ready |= is_ready;
            member.is_new = is_ready || !is_fenced;
            if !member.is_new && member.state != SourceState::Waiting {
                behind.push(slot);
            }
            member.is_new
        });
        (is_any_ready, is_fenced)
    }

    /// Adds what step 6 sleeps on, and returns until when.
    pub(super) fn add_words(
        &self,
        words: &mut WaitWords<'_>,
        owners: &mut Vec<TokenId>,
    ) -> Deadline {
        words.add(&[Watch { word: self.doorbell.word(), expected: self.seen }]);
        let mut until = Deadline::NEVER;
        for member in self.behind.iter().filter_map(|&slot| self.members[slot].as_ref()) {
            match member.state {
                SourceState::Ready(_) | SourceState::Waiting => {}
                SourceState::BehindOwner(owner) => owners.push(owner),
                SourceState::BehindOwners => member.waited.owners(owners),
                SourceState::NotBefore(moment) => until = until.earlier(moment),
                SourceState::BehindOwnersUntil(moment) => {
                    member.waited.owners(owners);
                    until = until.earlier(moment);
                }
            }
        }
        until
    }

    /// Returns whether the doorbell has been raised since the last look.
    pub(super) fn is_raised(&self) -> bool {
        self.doorbell.count() != self.seen
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.len() == self.free.len()
    }

    /// Gives the doorbell back.
    pub(super) fn end(self) {
        for (slot, member) in self.members.iter().enumerate() {
            if let Some(count) = member.as_ref().and_then(|it| it.waited.rung_count()) {
                count.unregister(self.doorbell.registration(slot % BITS));
            }
        }
        self.doorbell.free();
    }
}

fn make_new(member: &mut Option<Member>, slot: usize, new: &mut Vec<usize>) {
    if let Some(member) = member
        && !core::mem::replace(&mut member.is_new, true)
    {
        new.push(slot);
    }
}
