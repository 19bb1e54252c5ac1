//! Sleeping on any number of words and owners, as a wait set does.
//!
//! [`Sleep`](super::Sleep), which every lock and queue uses, lies on the stack and makes one system
//! call, whatever it waits for. A list of any length needs memory, and threads for more than 128
//! words; so it has a file of its own. Both use the same rules for owners, the recheck and the relay.
//!
//! If all words fit into one `futex_waitv`, this is the call that
//! [`Sleep::behind`](super::Sleep::behind) makes for several owners. More words are cut into
//! groups; where there are owners, each group begins with the registry's relay word:
//!
//! | | which threads sleep on the groups |
//! | --- | --- |
//! | `futex_waitv` works | the caller on the first group, a helper thread on each other group |
//! | it does not, or no thread can be started | the caller, in slices, as everywhere |
//!
//! A *bundle* is a source's words, whose order matters (its relay word first): a bundle is never
//! split. See doc/protocols/wait_set.md.

use super::recheck;
use super::record::WaitRecord;
use super::sleep::{Asleep, ask_when_due, has_changed, look_again};
use crate::liveness::{Registry, SHARED_RELAY, TokenId};
use crate::shim::AtomicU32;
use crate::sys::Errno;
use crate::sys::clock::Deadline;
use crate::sys::futex::{self, MOST_WATCHES, Wakeup, Watch};
use crate::sys::robust::WakeRelay;
use crate::sys::wait_threads::WaitThreads;

/// The most words of a group: beside them a helper has one word of its own.
const MOST_IN_GROUP: usize = MOST_WATCHES - 1;

/// Words to sleep on, in bundles.
pub(crate) struct WaitWords<'a> {
    words: Vec<Watch<'a>>,
    /// Where each bundle ends.
    ends: Vec<usize>,
    relay: Option<&'a AtomicU32>,
}

impl<'a> WaitWords<'a> {
    pub(crate) fn new() -> WaitWords<'a> {
        WaitWords { words: Vec::new(), ends: Vec::new(), relay: None }
    }

    /// Adds words that stay together, in this order.
    pub(crate) fn add(&mut self, bundle: &[Watch<'a>]) {
        debug_assert!(bundle.len() < MOST_IN_GROUP);
        self.words.extend_from_slice(bundle);
        self.ends.push(self.words.len());
    }

    /// Adds all words of others, and their relay word unless there is one.
    pub(crate) fn add_all(&mut self, others: &WaitWords<'a>) {
        let before = self.words.len();
        self.words.extend_from_slice(&others.words);
        self.ends.extend(others.ends.iter().map(|end| before + end));
        self.relay = self.relay.or(others.relay);
    }

    /// Returns whether a word has another value than expected.
    pub(crate) fn have_changed(&self) -> bool {
        has_changed(&self.words)
    }

    /// Sets the word by which a wake-up that dies with this thread is relayed, if there are no
    /// owners. Returns false if another word was set first.
    pub(crate) fn relay_by(&mut self, word: &'a AtomicU32) -> bool {
        core::ptr::eq(*self.relay.get_or_insert(word), word)
    }

    /// Returns whether a wake-up may be relayed by a word of theirs.
    pub(crate) fn have_relay(&self) -> bool {
        self.relay.is_some()
    }

    fn groups(&self, head: Option<Watch<'a>>) -> Vec<Vec<Watch<'a>>> {
        let begin = || head.into_iter().collect::<Vec<_>>();
        let mut groups = vec![begin()];
        let mut from = 0;
        for &end in &self.ends {
            let bundle = &self.words[from..end];
            from = end;
            if groups.last().is_none_or(|group| group.len() + bundle.len() > MOST_IN_GROUP) {
                groups.push(begin());
            }
            if let Some(group) = groups.last_mut() {
                group.extend_from_slice(bundle);
            }
        }
        groups
    }
}

/// What a thread that sleeps on many words keeps from one sleep to the next.
#[derive(Default)]
pub(crate) struct WaitList {
    helpers: Option<WaitThreads>,
}

impl WaitList {
    /// Sleeps while all words have the expected values and all owners live.
    ///
    /// After any return but an error the caller looks at everything again. Behind owners it
    /// rechecks by itself in any case (recheck.rs).
    #[cold]
    pub(crate) fn sleep<'a>(
        &mut self,
        registry: &'static Registry,
        relay: &WakeRelay,
        mut words: WaitWords<'a>,
        owners: &[TokenId],
        looks: bool,
        deadline: Deadline,
    ) -> Result<Asleep, Errno> {
        let principal = words.words.first().copied();
        let mut head = None;
        if owners.is_empty() {
            words.relay.into_iter().for_each(|word| relay.to(word));
        } else {
            for owner in owners {
                let Some(slot) = registry.slot(*owner) else { return look_again(deadline) };
                slot.share_relay();
            }
            let word = registry.relay();
            relay.to(word);
            head = Some(Watch { word, expected: 0 });
            words.relay = Some(word);
            for owner in owners {
                if !add_owner(registry, *owner, &mut words) {
                    return look_again(deadline);
                }
            }
        }
        // Nothing to wait for but the deadline.
        if words.words.is_empty() {
            words.add(&[Watch { word: registry.relay(), expected: 0 }]);
        }
        let principal = principal.or(words.words.get(1).copied()).unwrap_or(words.words[0]);
        let looks = looks || !owners.is_empty();
        let record = WaitRecord::begin(registry, Some(&principal));
        let woken = self
            .sleep_in_groups(&words, head, principal, || recheck::until(registry, looks, deadline));
        WaitRecord::end(record, woken == Ok(Wakeup::TimedOut));
        let dead = |owner: &&TokenId| !registry.is_alive(**owner);
        let by_recheck = woken == Ok(Wakeup::TimedOut) && !deadline.has_passed();
        if owners.iter().any(|owner| dead(&owner)) {
            if by_recheck {
                // It has come, and no process woke us before our own recheck.
                registry.count_rescue();
            }
        } else if !owners.is_empty() && !has_changed(&words.words) {
            ask_when_due(registry, principal, owners, by_recheck);
        }
        for owner in owners.iter().filter(dead) {
            if let Some(slot) = registry.slot(*owner) {
                slot.wake_watchers();
            }
        }
        if !owners.is_empty() {
            registry.wake_behind_shared_relay();
        }
        woken?;
        look_again(deadline)
    }

    /// Sleeps on several groups. `until` is asked once the helper threads are there: starting them
    /// takes time, which must not count as part of the recheck's second.
    fn sleep_in_groups(
        &mut self,
        words: &WaitWords<'_>,
        head: Option<Watch<'_>>,
        principal: Watch<'_>,
        until: impl Fn() -> Deadline,
    ) -> Result<Wakeup, Errno> {
        let for_a_slice = || match has_changed(&words.words) {
            true => Ok(Wakeup::LookAgain),
            false => futex::wait_in_slices(&[principal], 0, until()),
        };
        // A group that the kernel refuses must not make the caller look in a loop.
        let instead_of_error = |errno| match errno {
            // The memory is gone: a slice would find the same.
            Errno::FAULT => Err(errno),
            _ => for_a_slice(),
        };
        if !futex::has_waitv() {
            return for_a_slice();
        }
        let groups = words.groups(head);
        if let [group] = &groups[..] {
            return futex::wait_any(group, 0, until());
        }
        match self.helpers(groups.len() - 1) {
            Ok(helpers) => match helpers.wait(&groups, words.relay, until()) {
                Err(errno) => instead_of_error(errno),
                woken => woken,
            },
            // No thread can be started just now. The next sleep may be whole.
            Err(_) => for_a_slice(),
        }
    }

    fn helpers(&mut self, many: usize) -> Result<&WaitThreads, Errno> {
        if !self.helpers.as_ref().is_some_and(WaitThreads::serve) {
            self.helpers = Some(WaitThreads::new()?);
        }
        let helpers = self.helpers.as_mut().ok_or(Errno::AGAIN)?;
        helpers.have(many)?;
        Ok(helpers)
    }
}

/// Adds an owner's words, its relay word first; returns false when the owner is dead.
fn add_owner(registry: &'static Registry, owner: TokenId, words: &mut WaitWords<'_>) -> bool {
    let Some(slot) = registry.slot(owner) else { return false };
    let Some(watched) = slot.watch(owner) else {
        slot.wake_watchers();
        return false;
    };
    let mut bundle = [Watch { word: &slot.relay, expected: SHARED_RELAY }; 4];
    let mut len = 1;
    for watch in watched.all() {
        bundle[len] = watch;
        len += 1;
    }
    words.add(&bundle[..len]);
    true
}
