//! One word that waiters wait for, and all who wait are woken when it is changed: the bits of an event, the count of a
//! latch.
//!
//! | words | who writes | |
//! | --- | --- | --- |
//! | `word` | setters, and waiters who take something | looked at by waiters |
//! | `sleepers` | see `raw_sleepers.rs` | all are woken at once, by a *ring* |
//!
//! | a setter dies | what becomes of it |
//! | --- | --- |
//! | before it changed `word` | one sleeper wakes for nothing |
//! | between that and its ring | the kernel wakes one sleeper, who finds `word` changed and nobody rung: it rings |
//! | in its ring | the kernel wakes one sleeper, who finds `sequence` odd: it finishes the ring |
//!
//! For that the setter's `list_op_pending` points to `x` before it changes `word`, and the sleeper's, too: killed before
//! it has rung, the next one is woken. So a change that has been made wakes all, whoever dies. Setters make no system
//! call when nobody sleeps, and need no fence: the sleepers' `fence` puts it into them.

use super::raw_sleepers::{Sleepers, Ticket};
use crate::Deadline;
use crate::liveness::{Asleep, Me, Net, Patience, Registry, sleep_among};
use crate::shim::{AtomicU32, Ordering};
use crate::sys::Errno;
use crate::sys::barrier;
use crate::sys::futex::Watch;
use crate::sys::robust::PassOn;

/// How long one sleep lasts at most where the kernel denies the fence: a setter may overlook us.
#[cfg(not(loom))]
const SLICE: std::time::Duration = std::time::Duration::from_millis(10);

/// See the file's head.
#[repr(C)]
pub(crate) struct RawEvent {
    pub(crate) word: AtomicU32,
    /// Constant: what was asked for when it was made.
    pub(crate) option: AtomicU32,
    reserved: [AtomicU32; 2],
    sleepers: Sleepers,
}

impl RawEvent {
    #[cfg(loom)]
    pub(crate) fn new(word: u32) -> RawEvent {
        let of = |value| AtomicU32::new(value);
        RawEvent { word: of(word), option: of(0), reserved: [of(0), of(0)], sleepers: Sleepers::new() }
    }

    /// Changes the word by `change` and wakes all who wait, if that says so. Without a token (`me`) a death in between wakes nobody.
    #[inline]
    pub(crate) fn change<R>(&self, me: Option<Me>, change: impl FnOnce(&AtomicU32) -> (R, bool)) -> R {
        let pass = me.map(|me| PassOn::begin(me.list()));
        if let Some(pass) = &pass {
            pass.to(self.sleepers.x());
        }
        let (result, rings) = change(&self.word);
        if rings {
            // The change before the look at who sleeps: pairs with `heavy` in `wait`.
            barrier::light();
            self.sleepers.ring();
        }
        drop(pass);
        result
    }

    /// Waits until `take` takes something from the word. `None`: the deadline passed.
    pub(crate) fn wait<R>(
        &self,
        registry: &Registry,
        me: Me,
        patience: &Patience,
        deadline: Deadline,
        take: impl Fn(&AtomicU32) -> Option<R>,
    ) -> Result<Option<R>, Errno> {
        let mut got = None;
        let mut look = || {
            got = take(&self.word);
            got.is_some()
        };
        if look() || patience.spin(look) {
            return Ok(got);
        }
        let pass = PassOn::begin(me.list());
        pass.to(self.sleepers.x());
        let mut last_try = false;
        loop {
            let ticket = self.sleepers.enlist_for_ring();
            // Enlisted before the look: pairs with `light` in `change`.
            let fenced = self.sleepers.fence(ticket);
            let seen = self.word.load(Ordering::Acquire);
            if let Some(got) = take(&self.word) {
                return Ok(Some(got));
            }
            if last_try {
                return Ok(None);
            }
            // The word, too: whoever changed it after our look may be dead by now, with nobody asleep to be told.
            let [x, sequence] = self.sleepers.watches(ticket);
            let watches = [x, sequence, Watch { word: &self.word, expected: seen }];
            match self.sleep(registry, &watches, fenced, deadline) {
                Ok(Asleep::LookAgain) => {}
                Ok(Asleep::TimedOut) => last_try = true,
                Err(errno) => return Err(errno),
            }
            self.woken(ticket, seen);
        }
    }

    /// What who has slept owes the others.
    pub(super) fn woken(&self, ticket: Ticket, seen: u32) {
        self.sleepers.woken(ticket, || self.word.load(Ordering::Acquire) != seen);
    }

    #[cfg(not(loom))]
    fn sleep(
        &self,
        registry: &Registry,
        watches: &[Watch<'_>],
        fenced: bool,
        deadline: Deadline,
    ) -> Result<Asleep, Errno> {
        if fenced {
            return sleep_among(registry, watches, self.sleepers.net(), deadline);
        }
        let ended = sleep_among(registry, watches, Net::Needless, deadline.earlier(Deadline::after(SLICE)))?;
        let passed = ended == Asleep::TimedOut && deadline.has_passed();
        Ok(if passed { Asleep::TimedOut } else { Asleep::LookAgain })
    }

    #[cfg(loom)]
    fn sleep(
        &self,
        registry: &Registry,
        watches: &[Watch<'_>],
        _fenced: bool,
        deadline: Deadline,
    ) -> Result<Asleep, Errno> {
        sleep_among(registry, watches, Net::Needless, deadline)
    }

    /// For a wait set, which looks at the word by itself, behind a fence: from now on changes ring for it.
    pub(super) fn enlist(&self) -> Ticket {
        self.sleepers.enlist_for_ring()
    }

    /// Whether there has been a ring since.
    pub(super) fn has_rung(&self, ticket: Ticket) -> bool {
        self.sleepers.has_rung(ticket)
    }

    /// The words to sleep on, in that order, and what the word is.
    pub(super) fn watches(&self, ticket: Ticket) -> ([Watch<'_>; 3], u32) {
        let seen = self.word.load(Ordering::Acquire);
        let [x, sequence] = self.sleepers.watches(ticket);
        ([x, sequence, Watch { word: &self.word, expected: seen }], seen)
    }

    /// Where it sleeps.
    pub(super) fn sleepers(&self) -> &Sleepers {
        &self.sleepers
    }

    /// Whether somebody may be asleep.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.sleepers.look().0
    }
}

#[cfg(not(loom))]
// SAFETY: atomics.
unsafe impl crate::segment::Shared for RawEvent {}

#[cfg(not(loom))]
const _: () = assert!(size_of::<RawEvent>() == 32);

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::liveness::{Slot, TokenId};
    use crate::sys::robust::{ListHead, end_thread};

    struct World {
        registry: Registry,
        event: RawEvent,
    }

    fn world(threads: u32) -> Arc<World> {
        let slots = (0..threads).map(|n| Slot::held_by(n + 100)).collect();
        Arc::new(World { registry: Registry::new(slots), event: RawEvent::new(0) })
    }

    fn me<'r>(world: &'r World, thread: u32, list: &mut ListHead) -> Me<'r> {
        Me { registry: &world.registry, id: TokenId::new(thread, 0), list }
    }

    /// Waits until one of the bits is set, and leaves them.
    fn wait(world: &World, thread: u32, mask: u32) {
        let mut list = ListHead::new();
        let me = me(world, thread, &mut list);
        let seen = |word: &AtomicU32| (word.load(Ordering::Acquire) & mask != 0).then_some(());
        world.event.wait(&world.registry, me, &Patience::new(), Deadline::NEVER, seen).unwrap().unwrap();
    }

    fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.check(test);
    }

    #[test]
    fn loom_event_all_who_wait_are_woken() {
        explore(2, || {
            let world = world(3);
            let waiters = [1, 2].map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || wait(&world, n, 1))
            });
            let mut list = ListHead::new();
            world.event.change(Some(me(&world, 0, &mut list)), |word| (word.fetch_or(1, Ordering::Release), true));
            for waiter in waiters {
                waiter.join().unwrap();
            }
        });
    }

    #[test]
    fn loom_event_two_setters_and_who_waits_for_the_second() {
        explore(2, || {
            let world = world(3);
            let waiter = thread::spawn({
                let world = Arc::clone(&world);
                move || wait(&world, 1, 2)
            });
            let setter = thread::spawn({
                let world = Arc::clone(&world);
                move || {
                    let mut list = ListHead::new();
                    let me = me(&world, 2, &mut list);
                    world.event.change(Some(me), |word| (word.fetch_or(1, Ordering::Release), true));
                }
            });
            let mut list = ListHead::new();
            world.event.change(Some(me(&world, 0, &mut list)), |word| (word.fetch_or(2, Ordering::Release), true));
            setter.join().unwrap();
            waiter.join().unwrap();
        });
    }

    /// A setter that dies after its change: `steps` of its ring are done.
    fn set_and_die(steps: u32) {
        explore(2, move || {
            let world = world(3);
            let waiters = [1, 2].map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || wait(&world, n, 1))
            });
            let mut list = ListHead::new();
            let me = me(&world, 0, &mut list);
            let pass = PassOn::begin(me.list());
            pass.to(world.event.sleepers.x());
            world.event.word.fetch_or(1, Ordering::Release);
            barrier::light();
            if steps == 1 {
                world.event.sleepers.begin_ring();
            }
            end_thread(&world.registry.slots[0], &list);
            std::mem::forget(pass);
            for waiter in waiters {
                waiter.join().unwrap();
            }
        });
    }

    #[test]
    fn loom_event_a_setter_that_dies_before_its_ring_wakes_all() {
        set_and_die(0);
    }

    #[test]
    fn loom_event_a_setter_that_dies_in_its_ring_wakes_all() {
        set_and_die(1);
    }
}
