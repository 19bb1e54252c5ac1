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
//! source whose eventcount has another set's registration is in a section instead. If the recheck
//! finds that the registration has gone (a stray write), it registers again, and the source begins
//! as a new one; if it finds another set's there, the source stays new, and step 6 sleeps on its
//! sequence as well.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Deadline;
use crate::liveness::{BITS, ClaimedDoorbell, Registry, TokenId};
use crate::sys::barrier;
use crate::sys::futex::Watch;
use crate::wake::{PreparedWait, Readiness, Registered, SourceState, WaitWords, Waited};

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
    /// Another set's registration has replaced ours: no notifier raises our doorbell.
    is_anothers: bool,
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
        let ours = self.doorbell.registration(slot % BITS);
        if count.register(self.registry, ours) == Registered::Another {
            return false;
        }
        let (waited, prepared) = (Arc::clone(waited), PreparedWait::default());
        let state = SourceState::Waiting;
        let (is_new, is_anothers) = (true, false);
        let member = Some(Member { key, waited, prepared, is_new, is_anothers, state });
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
        if self.looked_at_all.elapsed() >= ALL_AGAIN {
            self.look_at_all();
        }
        // After all that makes sources new: those are in `behind` no more then, and step 5 may put
        // them there.
        self.look_behind();
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
            let Some(it) = member else { continue };
            let ours = doorbell.registration(slot % BITS);
            let registered = it.waited.rung_count().map(|count| count.register(registry, ours));
            it.is_anothers = registered == Some(Registered::Another);
            let is_as_it_was = match registered {
                Some(Registered::Before) | None => it.waited.look() == it.state,
                Some(Registered::Now | Registered::Another) => {
                    // A notifier that found no registration has cleared our number, or is about to:
                    // the wait is prepared as at first, with a fence behind the registration.
                    it.prepared = PreparedWait::default();
                    false
                }
            };
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
                    member.prepared.note_fence(count);
                }
            }
        }
        let mut is_any_ready = false;
        new.retain(|&slot| {
            let Some(member) = &mut members[slot] else { return false };
            member.state = member.waited.look();
            let is_ready = matches!(member.state, SourceState::Ready(_));
            is_any_ready |= is_ready;
            member.is_new = is_ready || !is_fenced || member.is_anothers;
            if !member.is_new && member.state != SourceState::Waiting {
                behind.push(slot);
            }
            member.is_new
        });
        (is_any_ready, is_fenced)
    }

    /// Adds what step 6 sleeps on, and returns until when.
    pub(super) fn add_words<'a>(
        &'a self,
        words: &mut WaitWords<'a>,
        owners: &mut Vec<TokenId>,
    ) -> Deadline {
        words.add(&[Watch { word: self.doorbell.word(), expected: self.seen }]);
        let mut until = Deadline::NEVER;
        let behind = self.behind.iter().filter_map(|&slot| self.members[slot].as_ref());
        let new = self.new.iter().filter_map(|&slot| self.members[slot].as_ref());
        for member in behind.chain(new.filter(|it| it.is_anothers)) {
            if member.is_anothers
                && let Some(count) = member.waited.event_count()
            {
                words.add(&[count.watch(member.prepared.ticket)]);
            }
            owners.extend_from_slice(member.state.owners());
            until = until.earlier(member.state.until());
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Domain;
    use crate::queue::Queue;
    use crate::wake::Source;

    #[test]
    fn a_source_whose_registration_has_gone_begins_anew() {
        let name = format!("outlive-unit-rung-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("opens");
        let receiver = queue.receiver().expect("free");
        let waited = receiver.watched().expect("a source").waited;
        let count = waited.rung_count().expect("its notifiers raise doorbells");
        let mut list = RungList::new(domain.registry()).expect("a doorbell");
        let mut other = RungList::new(domain.registry()).expect("a doorbell");
        assert!(list.add(1, &waited));
        assert!(!list.look(|_, _| {}));
        assert_eq!(list.prepare(), (false, true));
        assert!(list.new.is_empty());

        // A stray write; then a notifier finds the number and no doorbell, and clears the number.
        let ours = list.doorbell.registration(0);
        count.unregister(ours);
        count.notify_all(|| domain.registry());
        assert!(!list.is_raised() && !count.count().look().0);
        list.look_at_all();
        assert_eq!(list.new, [0]);
        assert_eq!(list.prepare(), (false, true));
        assert!(count.count().look().0, "it has a number again");
        count.notify_all(|| domain.registry());
        assert!(list.is_raised());

        // Another set has registered meanwhile: it sleeps on the queue's own word besides.
        count.unregister(ours);
        assert!(other.add(1, &waited));
        list.look_at_all();
        assert!(!list.look(|_, _| {}));
        assert_eq!(list.prepare(), (false, true));
        let mut words = WaitWords::new();
        list.add_words(&mut words, &mut Vec::new());
        assert!(!words.have_changed());
        count.notify_all(|| domain.registry());
        assert!(words.have_changed() && !list.is_raised());
        drop(words);
        other.end();
        list.look_at_all();
        assert_eq!(list.prepare(), (false, true));
        assert!(list.new.is_empty(), "it has its own again");
        list.end();
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
