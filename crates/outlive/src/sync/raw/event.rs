//! One word that waiters wait for: the bits of an event, or the count of a latch. One bit of it
//! says that a thread waits.
//!
//! | `word` | which process changes it, and how | a death or a stop here |
//! | --- | --- | --- |
//! | value | a setter: compare-exchange. A waiter before it sleeps: compare-exchange → value, WAITERS | |
//! | value, WAITERS | a setter: ONE `FUTEX_WAKE_OP`: the change, and wake all waiters | threads may sleep; the next setter wakes them |
//! | new value, WAITERS | the same setter: ONE `FUTEX_WAKE_OP`: clear WAITERS, and wake all waiters | the next setter wakes in vain |
//!
//! So no process sees a value of which the sleepers have not been told, wherever the setter dies or
//! is stopped, and no waiter sleeps beside a word without WAITERS. The protocol has no fence, no
//! eventcount, no relay and no token, and no sleeper needs a recheck. The operand of the kernel's
//! step has twelve bits: see [`RawEvent::set`] for other values. See doc/protocols/event.md and
//! proof/models/event_word.pml.

use crate::Deadline;
use crate::liveness::Registry;
use crate::shim::{AtomicU32, Ordering};
use crate::sys::Errno;
use crate::sys::futex::{ALL, InOneStep, Watch};
use crate::wake::{Asleep, Sleep, SpinWait};

/// In the word: a thread may sleep.
const WAITERS: u32 = 1 << WAITERS_AT;
const WAITERS_AT: u8 = 31;
/// The rest of the word.
pub(crate) const VALUE: u32 = WAITERS - 1;

/// How often a setter of many bits wakes before it sets them beside sleepers, in two steps.
const MOST_ROUNDS: u32 = 64;

/// When a word is open: what a waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opens {
    /// When one of these bits is set, or there are none.
    WithAny(u32),
    /// When all of these bits are set.
    WithAll(u32),
    /// When the value is 0.
    AtZero,
}

impl Opens {
    /// Returns the condition for any of the bits, or for all of them.
    pub(crate) fn with(bits: u32, all: bool) -> Opens {
        if all { Opens::WithAll(bits) } else { Opens::WithAny(bits) }
    }

    pub(crate) fn at(self, value: u32) -> bool {
        match self {
            Opens::WithAny(bits) => bits == 0 || value & bits != 0,
            Opens::WithAll(bits) => value & bits == bits,
            Opens::AtZero => value == 0,
        }
    }

    /// Returns a value that is not open: this one, if it is not. For no bits at all, which are
    /// always set, there is none.
    fn closed(self, value: u32) -> u32 {
        match self {
            _ if !self.at(value) => value,
            Opens::WithAny(bits) | Opens::WithAll(bits) => value & !bits,
            Opens::AtZero => 1,
        }
    }
}

/// See the file's head.
#[repr(C)]
pub struct RawEvent {
    word: AtomicU32,
    /// Constant: the option chosen when it was made.
    pub(crate) option: AtomicU32,
    reserved: [AtomicU32; 6],
}

impl RawEvent {
    /// Prepares the event before any other process sees it: that value and that option.
    pub(crate) fn prepare(&mut self, value: u32, option: u32) {
        self.word = AtomicU32::new(value & VALUE);
        self.option = AtomicU32::new(option);
    }

    #[inline]
    pub(crate) fn value(&self) -> u32 {
        // Acquire pairs with the Release of the process that changed it.
        self.word.load(Ordering::Acquire) & VALUE
    }

    /// Sets bits, and wakes all waiters. Returns the bits that were set before; where a thread
    /// waits, those that were set just before.
    #[inline]
    pub(crate) fn set(&self, bits: u32) -> u32 {
        // Else another processor sends the line twice: for the load, and for the change.
        crate::sys::map::prefetch_for_write((&raw const self.word).cast());
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen & WAITERS == 0 {
            // Release pairs with the Acquire of the process that takes or reads the bits. Acquire:
            // they also bring what the former setters' bits brought.
            match self.word.compare_exchange_weak(
                seen,
                seen | bits,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return seen,
                Err(now) => seen = now,
            }
        }
        self.set_slow(bits)
    }

    /// Sets bits where a thread waits. The kernel cannot set some bits in one step (more than one
    /// bit above the 11th); those are set while no waiter sleeps: the setter wakes all, and then
    /// changes the word before any waiter has come back to sleep. Where waiters keep coming back,
    /// it sets the bits beside them and wakes them in a second step. If it is stopped between these
    /// two, they sleep until another process sets anything.
    #[cold]
    #[inline(never)]
    fn set_slow(&self, bits: u32) -> u32 {
        for _ in 0..MOST_ROUNDS {
            let seen = self.word.load(Ordering::Acquire);
            if seen & WAITERS == 0 {
                if self
                    .word
                    .compare_exchange(seen, seen | bits, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
                {
                    return seen;
                }
                continue;
            }
            if let Some(step) = InOneStep::or(bits) {
                step.and_wake(&self.word, ALL);
                self.wake();
                return seen & VALUE;
            }
            self.wake();
        }
        let seen = self.word.fetch_or(bits, Ordering::AcqRel);
        self.wake();
        seen & VALUE
    }

    /// Clears WAITERS and wakes all sleepers, in one step.
    fn wake(&self) {
        InOneStep::ClearBit(WAITERS_AT).and_wake(&self.word, ALL);
    }

    /// Clears bits, for which no waiter waits. Returns the bits that were set before.
    #[inline]
    pub(crate) fn clear(&self, bits: u32) -> u32 {
        self.word.fetch_and(!(bits & VALUE), Ordering::AcqRel) & VALUE
    }

    /// Counts down by `by`, to 0 at most; at 0, wakes all waiters. Returns how many arrivals are
    /// missing.
    pub(crate) fn count_down(&self, by: u32) -> u32 {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let left = (seen & VALUE).saturating_sub(by);
            if left == 0 && seen & WAITERS != 0 {
                // The count only goes down: whatever it has become meanwhile, it is 0 now. The
                // kernel's step is a full fence.
                InOneStep::Set(0).and_wake(&self.word, ALL);
                return 0;
            }
            // Release: the waiters see what was done before the arrival. Acquire: the last arrival
            // passes on what happened before the others.
            let to = left | seen & WAITERS;
            match self.word.compare_exchange_weak(seen, to, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return left,
                Err(now) => seen = now,
            }
        }
    }

    /// Returns the wanted bits that are set, if any is, or `all` are; with `automatic` reset it
    /// clears them.
    #[inline]
    pub(crate) fn take(&self, wanted: u32, all: bool, automatic: bool) -> Option<u32> {
        // Acquire pairs with the Release in `set`.
        let mut seen = self.word.load(Ordering::Acquire);
        loop {
            let hit = seen & wanted & VALUE;
            let satisfied = wanted == 0 || if all { hit == wanted } else { hit != 0 };
            if !satisfied {
                return None;
            }
            if hit == 0 || !automatic {
                return Some(hit);
            }
            match self.word.compare_exchange_weak(
                seen,
                seen & !hit,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(hit),
                Err(now) => seen = now,
            }
        }
    }

    /// Waits until `take` returns something, which it can while the word is open. `None`: the
    /// deadline passed.
    pub(crate) fn wait<R>(
        &self,
        registry: &Registry,
        spin_wait: &SpinWait,
        deadline: Deadline,
        opens: Opens,
        take: impl Fn(&RawEvent) -> Option<R>,
    ) -> Result<Option<R>, Errno> {
        let mut got = None;
        let mut look = || {
            got = take(self);
            got.is_some()
        };
        if look() || spin_wait.spin(look) {
            return Ok(got);
        }
        // All sleeps of one wait have one number.
        crate::sys::robust::begin_acquisition();
        let mut last_try = false;
        loop {
            let watch = self.watch(opens);
            if let Some(got) = take(self) {
                return Ok(Some(got));
            }
            if last_try {
                return Ok(None);
            }
            match Sleep::on(registry, &[watch]).without_recheck().among_others_until(deadline)? {
                Asleep::LookAgain => {}
                Asleep::TimedOut => last_try = true,
            }
        }
    }

    /// Returns the word to sleep on, with WAITERS and a value that is not open: a process that
    /// opens it from now on wakes the caller. The caller looks at it once more.
    ///
    /// An open value that was read will not do: it may close before the caller looks, and be there
    /// again when the caller falls asleep, then with the bits of a setter whose wake-up has passed,
    /// or that was killed before its second wake-up.
    pub(crate) fn watch(&self, opens: Opens) -> Watch<'_> {
        let mut seen = self.word.load(Ordering::Relaxed);
        // By compare-exchange: the caller sleeps on a word that had this bit. Died just after: one
        // wake in vain.
        while seen & WAITERS == 0 && !opens.at(seen) {
            match self.word.compare_exchange_weak(
                seen,
                seen | WAITERS,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => seen |= WAITERS,
                Err(now) => seen = now,
            }
        }
        Watch { word: &self.word, expected: opens.closed(seen & VALUE) | WAITERS }
    }

    /// Returns whether a thread may be asleep.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WAITERS != 0
    }
}

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl crate::segment::SharedLayout for RawEvent {}

crate::shim::assert_layout!(size_of::<RawEvent>() == 32);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sys::futex::{Wakeup, wait_any};

    fn sleeps(watch: Watch<'_>) -> bool {
        wait_any(&[watch], 0, Deadline::after(std::time::Duration::from_millis(50)))
            == Ok(Wakeup::TimedOut)
    }

    /// The bit is set when a waiter reads the word, clear at its look, and set again when it falls
    /// asleep, by a process whose wake-ups have passed.
    #[test]
    fn a_waiter_does_not_sleep_on_a_bit_that_has_come_back() {
        // SAFETY: all fields are atomics, for which zero is a value.
        let mut event: RawEvent = unsafe { core::mem::zeroed() };
        event.prepare(0b01, 0);
        for opens in [Opens::WithAny(0b01), Opens::WithAll(0b01)] {
            // Others wait for another bit, now and after each change.
            let _ = event.watch(Opens::WithAny(0b10));
            let watch = event.watch(opens);
            event.clear(0b01);
            assert_eq!(event.take(0b01, false, false), None);
            event.set(0b01);
            let other = event.watch(Opens::WithAny(0b10));
            assert!(!sleeps(watch) && sleeps(other));
        }
    }

    #[test]
    fn what_is_slept_on_is_not_open() {
        for value in 0..8 {
            for bits in 1..8 {
                assert!(!Opens::WithAny(bits).at(Opens::WithAny(bits).closed(value)));
                assert!(!Opens::WithAll(bits).at(Opens::WithAll(bits).closed(value)));
            }
            assert!(!Opens::AtZero.at(Opens::AtZero.closed(value)));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    impl RawEvent {
        pub(crate) fn new(word: u32) -> RawEvent {
            let of = |value| AtomicU32::new(value);
            RawEvent { word: of(word), option: of(0), reserved: std::array::from_fn(|_| of(0)) }
        }
    }

    struct World {
        registry: Registry,
        event: RawEvent,
    }

    fn world() -> Arc<World> {
        Arc::new(World { registry: Registry::new(Vec::new()), event: RawEvent::new(0) })
    }

    /// Waits until one of the bits is set.
    fn wait(world: &World, mask: u32, automatic: bool) {
        let take = |event: &RawEvent| event.take(mask, false, automatic);
        world
            .event
            .wait(&world.registry, &SpinWait::new(), Deadline::NEVER, Opens::WithAny(mask), take)
            .unwrap()
            .unwrap();
    }

    fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.check(test);
    }

    fn waiters<const N: usize>(world: &Arc<World>, automatic: bool) -> [thread::JoinHandle<()>; N] {
        std::array::from_fn(|_| {
            let world = Arc::clone(world);
            thread::spawn(move || wait(&world, 1, automatic))
        })
    }

    #[test]
    fn loom_event_all_who_wait_are_woken() {
        explore(3, || {
            let world = world();
            let waiters = waiters::<2>(&world, false);
            world.event.set(1);
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        });
    }

    #[test]
    fn loom_event_bits_that_one_step_cannot_set_wake_all() {
        explore(2, || {
            let world = world();
            let waiters = waiters::<2>(&world, false);
            assert_eq!(world.event.set(1 | 3 << 20), 0);
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        });
    }

    #[test]
    fn loom_event_each_of_two_sets_lets_one_through() {
        explore(2, || {
            let world = world();
            let waiters = waiters::<2>(&world, true);
            let mut set = 0;
            while set < 2 {
                if world.event.value() == 0 {
                    world.event.set(1);
                    set += 1;
                } else {
                    thread::yield_now();
                }
            }
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        });
    }

    #[test]
    fn loom_event_two_setters_and_who_waits_for_the_second() {
        explore(3, || {
            let world = world();
            let waiter = thread::spawn({
                let world = Arc::clone(&world);
                move || wait(&world, 2, false)
            });
            let setter = thread::spawn({
                let world = Arc::clone(&world);
                move || world.event.set(1)
            });
            world.event.set(2);
            setter.join().unwrap();
            waiter.join().unwrap();
        });
    }

    #[test]
    fn loom_latch_the_last_of_two_arrivals_wakes() {
        explore(3, || {
            let world =
                Arc::new(World { registry: Registry::new(Vec::new()), event: RawEvent::new(2) });
            let arrivals = [1, 1].map(|by| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.event.count_down(by))
            });
            let open = |latch: &RawEvent| (latch.value() == 0).then_some(());
            world
                .event
                .wait(&world.registry, &SpinWait::new(), Deadline::NEVER, Opens::AtZero, open)
                .unwrap()
                .unwrap();
            let left = arrivals.map(|arrival| arrival.join().unwrap());
            assert_eq!(left.iter().min(), Some(&0));
        });
    }
}
