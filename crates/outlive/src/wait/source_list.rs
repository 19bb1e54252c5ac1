//! Sources that a set, a section of one, or a reactor looks at and sleeps on together.
//!
//! 1. Look at all.
//! 2. Prepare a wait on the eventcount of each that has one and is *new* (below).
//! 3. One fence, unless an earlier one covers all of them.
//! 4. Read the words of each new source, then look at it. If it is not ready, it is *idle* from now
//!    on. Its list keeps what this look stood on: the words with their values, the owners, the
//!    moment.
//! 5. Sleep on the words and the owners of all, until the earliest moment.
//! 6. Compare. A source of which a word has another value, or an owner has died, or the moment has
//!    come, is new again. Do for each of these what its protocol asks of a woken sleeper.
//! 7. Look at those that are new. Go on at 2.
//!
//! As long as nothing has changed of what its look stood on, an idle source is as safe asleep as if
//! there had been no wake: that is what the sleep itself relies on. So a wake among thousands of idle
//! futures costs one look.
//!
//! | a wake | what is new then |
//! | --- | --- |
//! | something has changed | what has changed |
//! | nothing has, and the caller's own word has not: a wake-up that is to be relayed, a recheck | all |
//! | any, a second after all were looked at | all: the recheck of the others, where one wakes all the time |
//! | any, in a list of at most 100 | also each source with a relay word, which no wake-up by it changes |
//! | the kernel denies the fence | all: a notifier may overlook us |
//!
//! Two wake-ups may come in one, of which one changes no word: a process that dies between its
//! change and its notification wakes one sleeper by a relay word. As a rule its change is seen in the
//! words, or its end is. If not, a longer list (a reactor's) finds it within that second.
//!
//! The index that the kernel returns is ignored. Nothing here is kept in shared memory: a death
//! here leaves at most a wake-up for an owner's end, which `wake/wait_list.rs` relays. See
//! doc/protocols/wait_set.md.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Deadline;
use crate::liveness::Registry;
use crate::sys::Errno;
use crate::sys::barrier;
use crate::sys::futex::Watch;
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, PreparedWait, Readiness, SourceState, WaitList, WaitWords, Waited};

/// How long one sleep lasts at most where the kernel denies the fence, because a sender may then
/// overlook us.
const SHORT: Duration = Duration::from_millis(10);
/// After so long all sources are looked at, at the next wake.
const ALL_AGAIN: Duration = Duration::from_secs(1);
/// A list of so many sources looks after every wake at those with a relay word.
const FEW: usize = 100;

/// A source in the list.
struct Member {
    key: u64,
    /// What the last look stood on, if it found nothing; else the source is new. Dropped before
    /// `waited`.
    idle: Option<Idle>,
    waited: Arc<dyn Waited>,
    prepared: PreparedWait,
}

/// What the look at a source stood on that found nothing.
struct Idle {
    /// They lie in what the member's `waited` keeps.
    words: WaitWords<'static>,
    state: SourceState,
    needs_recheck: bool,
}

impl Idle {
    fn is_as_it_was(&self, registry: &Registry) -> bool {
        !self.words.have_changed()
            && self.state.owners().iter().all(|owner| registry.is_alive(*owner))
            && !self.state.until().has_passed()
    }

    /// Returns whether a later look that found `state` stood on the same.
    fn stands_for(&self, state: &SourceState, registry: &Registry) -> bool {
        self.state == *state && self.is_as_it_was(registry)
    }
}

/// See the file's head.
pub(super) struct SourceList {
    members: Vec<Member>,
    many: WaitList,
    /// Where the next look begins: the source that is reported first changes from one look to the
    /// next.
    turn: usize,
    /// When all were looked at last; `None`: since the last sleep.
    looked_at_all: Option<Instant>,
    /// A source is new because of what the last sleep has found.
    has_changed: bool,
    /// How often a source was looked at.
    #[cfg(test)]
    pub(super) looks: u64,
}

/// Sources that have left the list. To be dropped where no lock is held: the last source of a
/// mapping unmaps it.
#[must_use]
pub(super) struct Gone(Vec<Member>);

impl Gone {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl SourceList {
    pub(super) fn new() -> SourceList {
        SourceList {
            members: Vec::new(),
            many: WaitList::default(),
            turn: 0,
            looked_at_all: None,
            has_changed: true,
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

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns all sources with their keys, in the order in which they were added.
    pub(super) fn members(&self) -> impl Iterator<Item = (u64, Arc<dyn Waited>)> + '_ {
        self.members.iter().map(|member| (member.key, Arc::clone(&member.waited)))
    }

    /// Returns all sources, for a reactor.
    pub(super) fn sources(&self) -> impl Iterator<Item = Arc<dyn Waited>> + '_ {
        self.members().map(|(_, waited)| waited)
    }

    /// Returns whether one is ready, for a spin.
    pub(super) fn is_any_ready(&self) -> bool {
        self.members.iter().any(|member| member.waited.is_ready())
    }

    /// Does step 1: looks at all, and reports the ready ones. A source stays idle if this look
    /// stands on the same as the one before.
    pub(super) fn look_at_all(&mut self, registry: &Registry, found: impl FnMut(u64, Readiness)) {
        // The next sleep notes when.
        self.looked_at_all = None;
        self.look(registry, true, found);
    }

    /// Does step 7: looks at those that are new, or at all, and reports the ready ones.
    /// `is_explained`: the caller itself was the reason of the wake.
    pub(super) fn look_at_new(
        &mut self,
        registry: &Registry,
        is_explained: bool,
        found: impl FnMut(u64, Readiness),
    ) {
        let is_over = self.looked_at_all.is_some_and(|at| at.elapsed() >= ALL_AGAIN);
        if is_over || !(is_explained || self.has_changed) {
            self.look_at_all(registry, found);
        } else {
            self.look(registry, false, found);
        }
    }

    fn look(&mut self, registry: &Registry, all: bool, mut found: impl FnMut(u64, Readiness)) {
        self.turn = (self.turn + 1) % self.members.len().max(1);
        let (last, first) = self.members.split_at_mut(self.turn);
        for member in first.iter_mut().chain(last) {
            if !all && !member.is_new() {
                continue;
            }
            #[cfg(test)]
            {
                self.looks += 1;
            }
            let state = member.waited.look();
            member.idle = member.idle.take().filter(|idle| idle.stands_for(&state, registry));
            if let SourceState::Ready(what) = state {
                found(member.key, what);
            }
        }
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
        self.looked_at_all.get_or_insert_with(Instant::now);
        let is_fenced = self.prepare();
        if !self.look_again() {
            self.has_changed = true;
            self.forget_unless(is_fenced);
            return Ok(Asleep::LookAgain);
        }
        let mut until = if is_fenced { deadline } else { deadline.earlier(Deadline::after(SHORT)) };
        let mut words = WaitWords::new();
        let mut owners = Vec::new();
        let mut needs_recheck = false;
        extra.into_iter().for_each(|watch| words.add(&[watch]));
        for idle in self.members.iter().filter_map(|member| member.idle.as_ref()) {
            words.add_all(&idle.words);
            owners.extend_from_slice(idle.state.owners());
            until = until.earlier(idle.state.until());
            needs_recheck |= idle.needs_recheck;
        }
        owners.sort_unstable_by_key(|owner| owner.as_u32());
        owners.dedup();
        let slept = self.many.sleep(registry, relay, words, &owners, needs_recheck, until);
        self.compare(registry);
        self.forget_unless(is_fenced);
        match slept? {
            Asleep::TimedOut if !deadline.has_passed() => Ok(Asleep::LookAgain),
            ended => Ok(ended),
        }
    }

    /// Does steps 2 and 3. Returns false if the kernel denies the fence: then a notifier may
    /// overlook us.
    fn prepare(&mut self) -> bool {
        let mut needs_fence = false;
        for Member { waited, prepared, .. } in self.members.iter_mut().filter(|one| one.is_new()) {
            // Prepared before the look of step 4: pairs with the notifiers' `light`.
            needs_fence |= waited.event_count().is_some_and(|count| prepared.prepare(count));
        }
        if !needs_fence {
            return true;
        }
        if !barrier::heavy() {
            return false;
        }
        for Member { waited, prepared, .. } in self.members.iter_mut().filter(|one| one.is_new()) {
            if let Some(count) = waited.event_count() {
                prepared.note_fence(count);
            }
        }
        true
    }

    /// Does step 4. Returns false if a source is ready.
    fn look_again(&mut self) -> bool {
        for member in self.members.iter_mut().filter(|one| one.is_new()) {
            let mut words = WaitWords::new();
            // The words first: the look behind them decides whether to sleep on them.
            member.waited.add_words(&mut member.prepared, &mut words);
            #[cfg(test)]
            {
                self.looks += 1;
            }
            let state = member.waited.look();
            if let SourceState::Ready(_) = state {
                return false;
            }
            let needs_recheck = member.waited.needs_recheck(&member.prepared);
            // SAFETY: the words are borrowed from `waited`, which this member keeps where it is, and
            // drops after them; it is never borrowed mutably, since it is in an `Arc`.
            let words = unsafe { core::mem::transmute::<WaitWords<'_>, WaitWords<'static>>(words) };
            member.idle = Some(Idle { words, state, needs_recheck });
        }
        true
    }

    /// Does step 6. Where nothing says why the sleep ended, each source may be owed something.
    fn compare(&mut self, registry: &Registry) {
        let is_few = self.members.len() <= FEW;
        self.has_changed = false;
        for member in &mut self.members {
            let has_changed = member.idle.as_ref().is_none_or(|idle| !idle.is_as_it_was(registry));
            if has_changed || (is_few && member.has_relay()) {
                member.waited.woken(&member.prepared);
                member.idle = None;
            }
            self.has_changed |= has_changed;
        }
        if !self.has_changed {
            let idle = self.members.iter().filter(|member| !member.is_new());
            idle.for_each(|member| member.waited.woken(&member.prepared));
        }
    }

    /// Where a notifier may overlook the prepared waits, no source is left out of the next look.
    fn forget_unless(&mut self, is_fenced: bool) {
        if !is_fenced {
            self.members.iter_mut().for_each(|member| member.idle = None);
        }
    }
}

impl Member {
    fn is_new(&self) -> bool {
        self.idle.is_none()
    }

    fn has_relay(&self) -> bool {
        self.idle.as_ref().is_some_and(|idle| idle.words.have_relay())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Domain;
    use crate::shim::{AtomicU32, Ordering};
    use crate::sys::futex;

    /// Ready when `is_ready` is not 0; `word` is what it says to sleep on, with its relay word.
    #[derive(Default)]
    struct Told {
        is_ready: AtomicU32,
        word: AtomicU32,
        relay: Option<AtomicU32>,
        until: Option<Deadline>,
        woken: AtomicU32,
    }

    impl Waited for Told {
        fn look(&self) -> SourceState {
            match (self.is_ready.load(Ordering::Relaxed), self.until) {
                (0, None) => SourceState::Waiting,
                (0, Some(moment)) if !moment.has_passed() => SourceState::NotBefore(moment),
                _ => SourceState::Ready(Readiness::Set),
            }
        }

        fn add_words<'a>(&'a self, _: &mut PreparedWait, words: &mut WaitWords<'a>) {
            let expected = self.word.load(Ordering::Relaxed);
            words.add(&[Watch { word: &self.word, expected }]);
            self.relay.iter().for_each(|relay| assert!(words.relay_by(relay)));
        }

        fn woken(&self, _: &PreparedWait) {
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct World {
        registry: &'static Registry,
        list: SourceList,
        sources: Vec<Arc<Told>>,
    }

    impl World {
        fn of(name: &str, sources: Vec<Told>) -> World {
            let folder = format!("outlive-list-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            let domain = Domain::open_or_create_at(&folder).expect("opens");
            let registry = domain.registry();
            std::fs::remove_dir_all(&folder).expect("removed");
            let sources: Vec<Arc<Told>> = sources.into_iter().map(Arc::new).collect();
            let mut list = SourceList::new();
            for (key, source) in sources.iter().enumerate() {
                list.add(key as u64, Arc::<Told>::clone(source));
            }
            World { registry, list, sources }
        }

        /// Makes all idle, sleeps until `change` has been made, and returns what a look at the new
        /// ones finds, and how many looks it makes.
        fn wake(&mut self, change: impl Fn(&[Arc<Told>]) + Sync) -> (Vec<u64>, u64) {
            let me = self.registry.me().expect("a token");
            let relay = WakeRelay::begin(me.list());
            let sleep = |list: &mut SourceList, span| {
                let deadline = Deadline::after(Duration::from_millis(span));
                list.sleep(self.registry, &relay, None, deadline).expect("sleeps");
            };
            sleep(&mut self.list, 0);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(10));
                    change(&self.sources);
                    self.sources.iter().for_each(|one| futex::wake_all(&one.word));
                });
                sleep(&mut self.list, 1000);
            });
            let (before, mut found) = (self.list.looks, Vec::new());
            self.list.look_at_new(self.registry, false, |key, _| found.push(key));
            (found, self.list.looks - before)
        }
    }

    #[test]
    fn a_wake_looks_at_what_has_changed() {
        let mut world = World::of("changed", (0..50).map(|_| Told::default()).collect());
        let (found, looks) = world.wake(|all| {
            all[7].is_ready.store(1, Ordering::Relaxed);
            all[7].word.store(1, Ordering::Relaxed);
        });
        assert_eq!((found, looks), (vec![7], 1));
        let woken = |n: usize| world.sources[n].woken.load(Ordering::Relaxed);
        assert!(woken(7) == woken(8) + 1);
    }

    #[test]
    fn a_wake_that_nothing_explains_looks_at_all() {
        let mut world = World::of("unexplained", (0..50).map(|_| Told::default()).collect());
        let (found, looks) = world.wake(|all| all[7].is_ready.store(1, Ordering::Relaxed));
        assert_eq!((found, looks), (vec![7], 50));
    }

    #[test]
    fn a_moment_that_comes_is_a_change() {
        let mut sources: Vec<Told> = (0..50).map(|_| Told::default()).collect();
        sources[7].until = Some(Deadline::after(Duration::from_millis(9)));
        let mut world = World::of("moment", sources);
        let (found, looks) = world.wake(|_| ());
        assert_eq!((found, looks), (vec![7], 1));
    }

    #[test]
    fn a_source_with_a_relay_word_is_looked_at_after_every_wake_of_a_short_list() {
        let relayed = || Told { relay: Some(AtomicU32::new(0)), ..Told::default() };
        for (many, seen) in [(FEW, vec![0, 7]), (FEW + 1, vec![7])] {
            let mut sources = vec![relayed()];
            sources.resize_with(many, Told::default);
            let mut world = World::of("relay", sources);
            let (found, _) = world.wake(|all| {
                all[0].is_ready.store(1, Ordering::Relaxed);
                all[7].is_ready.store(1, Ordering::Relaxed);
                all[7].word.store(1, Ordering::Relaxed);
            });
            assert_eq!(found.len(), seen.len());
            assert!(seen.iter().all(|key| found.contains(key)));
        }
    }
}
