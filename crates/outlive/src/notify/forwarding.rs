//! What a gateway asks for, which carries notices to another machine and tells listeners here what
//! notifiers elsewhere have notified. Hidden: its users are the bridges of this repository.
//!
//! | a gateway dies, or is stopped | what others see | repaired by |
//! | --- | --- | --- |
//! | while it joins | a slot of a dead process, joining, which counts for nothing | the next one that takes a slot |
//! | with a kept slot | notifiers go on counting there | its successor takes the slot over |
//! | in the middle of `add` | some listeners have the notices | its successor, which knows that by its journal |
//! | before `wake` | listeners that sleep find the notices at their recheck | |

use super::ids::IDS;
use super::inner::Inner;
use super::listener_slot::ListenerSlot;
use crate::liveness::TokenId;
use crate::shim::{Ordering, fence};
use crate::wake::{Look, wait_for};
use crate::{Deadline, Domain, Error, Kind};

fn open(domain: &Domain, name: &str) -> Result<Inner, Error> {
    let segment = domain.open_segment(name)?;
    segment.expect(Kind::Notifier)?;
    Inner::new(segment, domain.registry())
}

/// Counts what all notifiers of a name have notified, over the deaths of its process.
#[doc(hidden)]
pub struct Keeper {
    inner: Inner,
    index: u32,
    process: TokenId,
}

impl Keeper {
    /// Goes on with the counts of that gateway, or begins to count, under the number `fresh`. No other
    /// process does the same for that gateway at that time.
    ///
    /// # Errors
    /// The errors of [`Listener::open`](super::Listener::open).
    #[doc(hidden)]
    pub fn open(domain: &Domain, name: &str, gateway: u64, fresh: u64) -> Result<Keeper, Error> {
        let inner = open(domain, name)?;
        let process = inner.registry.process_token()?;
        for index in 0..inner.listener_count() {
            let slot = inner.listener(index)?;
            let is_its = slot.is_kept() && slot.keeper.load(Ordering::Relaxed) == gateway;
            if is_its && slot.take_over(process) {
                return Ok(Keeper { inner, index, process });
            }
        }
        let index = inner.take_listener_slot(process)?;
        let slot = inner.listener(index)?;
        // Relaxed: the claim's Release comes behind them. Died before that: no process reads them.
        slot.keeper.store(gateway, Ordering::Relaxed);
        slot.tenure.store(fresh, Ordering::Relaxed);
        slot.deaths_before.store(deaths(&inner), Ordering::Relaxed);
        slot.keep(process);
        Ok(Keeper { inner, index, process })
    }

    fn slot(&self) -> Result<&ListenerSlot, Error> {
        self.inner.listener(self.index)
    }

    /// Returns the number under which it counts.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    #[doc(hidden)]
    pub fn tenure(&self) -> Result<u64, Error> {
        Ok(self.slot()?.tenure.load(Ordering::Relaxed))
    }

    /// Whether the slot is this process's still.
    #[doc(hidden)]
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.slot().is_ok_and(|slot| slot.is_kept() && slot.owner() == Some(self.process))
    }

    /// Whether the name has been removed.
    #[doc(hidden)]
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.inner.segment.header().is_removed()
    }

    /// Returns the numbers of the notices of a notifier's coming, leaving and death.
    #[doc(hidden)]
    #[must_use]
    pub fn config(&self) -> super::NotifierConfig {
        self.inner.config()
    }

    /// Returns how many notices of each number there were since it began to count.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    #[doc(hidden)]
    pub fn totals(&self) -> Result<[u64; IDS], Error> {
        let slot = self.slot()?;
        // Deaths first: what the dead had notified comes with them or before.
        let died = Inner::made_with(&self.inner.head().on_died);
        let deaths = died.map_or(0, |_| deaths(&self.inner));
        let mut totals = slot.look_at_totals();
        if let Some(of) = died.and_then(|id| totals.get_mut(id as usize)) {
            let before = slot.deaths_before.load(Ordering::Relaxed);
            *of = of.wrapping_add(deaths.wrapping_sub(before));
        }
        Ok(totals)
    }

    /// Waits until the totals are others than those, or the deadline has passed; returns them.
    ///
    /// # Errors
    /// [`Error::NoToken`], [`Error::Damaged`], errors of the system.
    #[doc(hidden)]
    pub fn totals_other_than(
        &self,
        seen: &[u64; IDS],
        deadline: Deadline,
    ) -> Result<[u64; IDS], Error> {
        let me = self.inner.registry.me()?;
        let notifications = &self.slot()?.notifications;
        let look = || {
            // Before the look: one that dies in between ends the sleep.
            let living = self.inner.seen().filter_map(|seen| seen.owner);
            let owners = living.filter(|owner| *owner != self.process).collect();
            let now = self.totals()?;
            Ok::<_, Error>(if now == *seen { Look::Nothing(owners) } else { Look::Got(now) })
        };
        let found = wait_for(me, None, notifications, deadline, || false, look)?;
        Ok(found.unwrap_or(*seen))
    }
}

/// Returns how many notifiers have died.
fn deaths(inner: &Inner) -> u64 {
    inner.seen().map(|seen| u64::from(seen.deaths)).sum()
}

/// Tells listeners here what notifiers elsewhere have notified.
#[doc(hidden)]
pub struct Foreign(Inner);

impl Foreign {
    /// Opens the existing notifier of that name. No listener is told that a notifier has come.
    ///
    /// # Errors
    /// The errors of [`Notifier::open`](super::Notifier::open).
    #[doc(hidden)]
    pub fn open(domain: &Domain, name: &str) -> Result<Foreign, Error> {
        open(domain, name).map(Foreign)
    }

    /// Adds so many notices of that number to the counts of each listener that is no gateway, which would
    /// send them on; none for a number above 63. It wakes no listener: [`Foreign::wake`] does.
    #[doc(hidden)]
    pub fn add(&self, id: u32, notices: u64) {
        if id as usize >= IDS || notices == 0 {
            return;
        }
        let Inner { registry, .. } = &self.0;
        // As in `Inner::tell`.
        fence(Ordering::SeqCst);
        for slot in self.0.listeners() {
            if slot.listening().is_some_and(|process| registry.is_alive(process)) {
                slot.count(id, notices);
            }
        }
    }

    /// Wakes the listeners that sleep. If this process died before, they find the notices at their recheck,
    /// a second later.
    #[doc(hidden)]
    pub fn wake(&self) {
        self.0.tell(None);
    }

    /// Whether the name has been removed.
    #[doc(hidden)]
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.0.segment.header().is_removed()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::notify::{Listener, Notifier};

    fn with_domain(name: &str, test: impl FnOnce(&Domain)) {
        let folder = std::env::temp_dir().join(format!("outlive-{name}-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        test(&domain);
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn totals_grow_and_a_successor_goes_on_with_them() {
        with_domain("kept-totals", |domain| {
            let notifier = Notifier::open_or_create(domain, "n").expect("made");
            let keeper = Keeper::open(domain, "n", 7, 100).expect("a slot");
            // It is no listener.
            assert_eq!(notifier.notify(3), Ok(0));
            let first = keeper.totals().expect("read");
            assert_eq!((first[3], keeper.tenure()), (1, Ok(100)));
            drop(keeper);
            notifier.notify(3).expect("told");
            notifier.notify(5).expect("told");
            // Another gateway's begins anew.
            let other = Keeper::open(domain, "n", 8, 200).expect("a slot");
            assert_eq!((other.totals().expect("read")[3], other.tenure()), (0, Ok(200)));
            let keeper = Keeper::open(domain, "n", 7, 300).expect("taken over");
            let totals = keeper.totals().expect("read");
            assert_eq!((totals[3], totals[5], keeper.tenure()), (2, 1, Ok(100)));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(50));
                    notifier.notify(63).expect("told");
                });
                let soon = Deadline::after(Duration::from_secs(60));
                let totals = keeper.totals_other_than(&totals, soon).expect("told");
                assert_eq!(totals[63], 1);
            });
        });
    }

    #[test]
    fn notices_from_elsewhere_are_for_listeners_alone() {
        with_domain("foreign-notices", |domain| {
            let options = Listener::options().on_created(61).on_left(62).on_died(63);
            let mut listener = options.create_new(domain, "n").expect("made");
            let keeper = Keeper::open(domain, "n", 7, 1).expect("a slot");
            let foreign = Foreign::open(domain, "n").expect("there");
            foreign.add(2, 5);
            foreign.add(64, 5);
            foreign.wake();
            drop(foreign);
            let notices = listener.try_wait().expect("looks").expect("told");
            assert_eq!((notices.bits(), notices.count(2)), (1 << 2, 5));
            assert_eq!(keeper.totals(), Ok([0; IDS]));
            drop(Notifier::open(domain, "n").expect("there"));
            let totals = keeper.totals().expect("read");
            assert_eq!((totals[61], totals[62], totals[63]), (1, 1, 0));
        });
    }

    #[test]
    fn a_listener_that_finds_no_other_slot_takes_a_dead_gateway_s() {
        with_domain("kept-full", |domain| {
            let notifier = Notifier::open_or_create(domain, "n").expect("made");
            let keeper = Keeper::open(domain, "n", 7, 1).expect("a slot");
            let all: Vec<Listener> =
                (0..63).map(|_| notifier.listener().expect("a slot")).collect();
            assert!(notifier.listener().is_err(), "its process lives");
            // As a sweep does when that has ended.
            keeper.slot().expect("there").clear(keeper.process);
            assert!(!keeper.is_kept() && keeper.slot().expect("there").is_kept());
            let last = notifier.listener().expect("the gateway's");
            assert!(!keeper.slot().expect("there").is_kept());
            drop((all, last));
        });
    }
}
