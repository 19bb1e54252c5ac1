//! One word that waiters wait for: the bits of an event, or the count of a latch. One bit of it
//! says that a thread waits. Beside it, an event notes which bits were cleared, and when, for the
//! waiters that have not seen them.
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
//! step has twelve bits: see [`EventWord::set`] for other values.
//!
//! A bit may be gone when a woken waiter looks. So the upper half of the word counts clearings, and
//! a process that clears a bit first notes the next number beside that bit (`cleared`). A waiter
//! knows the number with which its wait began: a bit with a later one was set meanwhile. See
//! doc/protocols/event.md and proof/models/event_word.pml, event_cleared.pml.

pub(crate) use super::event_word::VALUE;
use super::event_word::{Both, WAITERS, WAITERS_AT, Word};
use crate::Deadline;
use crate::liveness::Registry;
use crate::shim::{AtomicU32, Ordering};
use crate::sys::Errno;
use crate::sys::futex::{ALL, InOneStep, Watch};
use crate::wake::{Asleep, Sleep, SpinWait};

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

    /// Returns the bits that a wait names.
    fn bits(self) -> u32 {
        match self {
            Opens::WithAny(bits) | Opens::WithAll(bits) => bits & VALUE,
            Opens::AtZero => 0,
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

/// The word of an event or a latch: see the file's head.
#[repr(C)]
pub struct EventWord {
    word: Word,
    /// Constant: the option chosen when it was made.
    pub(crate) option: AtomicU32,
    reserved: [AtomicU32; 5],
}

/// An event: its word, and beside each bit the number of its last clearing.
#[repr(C)]
pub struct RawEvent {
    pub(crate) head: EventWord,
    // Written by processes that clear bits. The 32nd is unused.
    cleared: [AtomicU32; 32],
}

/// The point at which a wait began: the number of clearings until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun(u32);

/// A process that clears bits looks after so many clearings whether old numbers must be renewed.
const RENEW_EVERY: u32 = 1 << 20;
/// A number that is older than this is renewed: numbers are compared modulo 2^32.
const OLD: u32 = 1 << 30;

impl RawEvent {
    /// Clears bits, and returns the bits that were set before. A waiter that has waited since
    /// before this call is told that they were set.
    pub(crate) fn clear(&self, bits: u32) -> u32 {
        // Acquire pairs with the Release of the setter, whose work the note passes on.
        let mut seen = self.head.word.load(Ordering::Acquire);
        loop {
            let hit = seen.low() & bits & VALUE;
            if hit == 0 {
                return seen.low() & VALUE;
            }
            let cleared = seen.clearing(hit);
            // Before the bits are gone. Died or stopped just after: they are still set, so waiters
            // that find the note return as they would at the bits. If the exchange fails, the note
            // is true all the same: its bits were set when that many clearings had been made.
            bits_of(hit).for_each(|bit| raise(&self.cleared[bit], cleared.clearings()));
            // Release: a waiter that misses the bits finds the notes.
            match self.head.word.compare_exchange(
                seen,
                cleared,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    if cleared.clearings().is_multiple_of(RENEW_EVERY) {
                        self.renew(cleared.clearings());
                    }
                    return seen.low() & VALUE;
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Makes numbers that are so old that they would soon look new a little younger. Died in here:
    /// the next renewal does the rest; there are thousands before it would matter.
    #[cold]
    fn renew(&self, now: u32) {
        for word in &self.cleared {
            let seen = word.load(Ordering::Relaxed);
            // Signed: another process may have noted a later number by now.
            if now.wrapping_sub(seen).cast_signed() > OLD.cast_signed() {
                // Relaxed: it is not for any waiter. Only that very number: another may be new.
                let _ = word.compare_exchange(
                    seen,
                    now.wrapping_sub(OLD),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
            }
        }
    }

    /// Returns the point at which a wait begins that begins now.
    #[inline]
    pub(crate) fn begin(&self) -> Begun {
        // Acquire: what a wait for a later number returns for comes after this.
        Begun(self.head.word.load(Ordering::Acquire).clearings())
    }

    /// Returns which of the wanted bits were set and cleared again since a wait began, if that
    /// opens it: any of them, or all of them at once.
    fn cleared_since(&self, begun: Begun, now: Both, opens: Opens) -> Option<u32> {
        let (wanted, all) = match opens {
            Opens::WithAny(bits) => (bits & VALUE, false),
            // A bit that no event has is never set.
            Opens::WithAll(bits) => (if bits & !VALUE == 0 { bits } else { 0 }, true),
            Opens::AtZero => (0, false),
        };
        // One more than the clearings that are over: another process may be about to clear.
        let since = now.clearings().wrapping_sub(begun.0);
        if since == 0 || wanted == 0 {
            return None;
        }
        let is_since = |number: u32| (1..=since.saturating_add(1)).contains(&number);
        // Acquire pairs with the Release in `raise`: what the setter of the bit did comes before.
        let number = |bit: usize| self.cleared[bit].load(Ordering::Acquire).wrapping_sub(begun.0);
        if all {
            // With the same number, all were set when so many clearings had been made; as bits are
            // only added between two clearings, there was a moment at which all were set.
            let first = bits_of(wanted).next().map(number)?;
            return (is_since(first) && bits_of(wanted).all(|bit| number(bit) == first))
                .then_some(wanted);
        }
        let hit =
            bits_of(wanted).filter(|&bit| is_since(number(bit))).fold(0, |hit, bit| hit | 1 << bit);
        (hit != 0).then_some(hit)
    }

    /// Waits until the word opens, or has opened since the wait began. Returns the bits; with
    /// `None`, the deadline passed. Moves `begun`: see there.
    pub(crate) fn wait(
        &self,
        registry: &Registry,
        spin_wait: &SpinWait,
        deadline: Deadline,
        opens: Opens,
        begun: &mut Begun,
    ) -> Result<Option<u32>, Errno> {
        let mut got = None;
        let look = || {
            got = self.look(*begun, opens);
            got.is_some()
        };
        if spin_wait.spin_until(deadline, look) {
            return Ok(got);
        }
        crate::sys::robust::begin_acquisition();
        let mut last_try = false;
        loop {
            let (seen, low) = self.head.announce(opens);
            if let Some(got) = self.look(*begun, opens) {
                return Ok(Some(got));
            }
            if last_try || deadline.has_passed() {
                return Ok(None);
            }
            // Nothing until `seen`, so the wait may as well begin there: numbers are compared over
            // short distances. Also for the caller, whose wait may have many parts.
            *begun = Begun(seen.clearings());
            // The upper half as well: bits that come and go before the caller is asleep leave the
            // lower one as it was. No process wakes its sleepers: one that is asleep is woken by
            // the setter.
            let words = [low, self.head.word.watch_clearings(seen)];
            match Sleep::on(registry, &words).without_recheck().among_others_until(deadline)? {
                Asleep::LookAgain => {}
                Asleep::TimedOut => last_try = true,
            }
        }
    }

    /// Returns the bits that open the word, or have opened it since the wait began.
    fn look(&self, begun: Begun, opens: Opens) -> Option<u32> {
        let mut now = self.head.word.load(Ordering::Acquire);
        if opens.at(now.low() & VALUE) {
            return Some(now.low() & opens.bits());
        }
        // A bit that is set and cleared again after `now` has a number that is too late for it, in
        // the place of one that was not. The wait may be about to end by its deadline, so the caller
        // looks at the later word, but once only: bits may come and go for ever.
        let mut last = false;
        loop {
            let hit = self.cleared_since(begun, now, opens);
            let later = self.head.word.load(Ordering::Acquire);
            if hit.is_some() || last || later.clearings() == now.clearings() {
                return hit;
            }
            (now, last) = (later, true);
        }
    }
}

/// Raises a number, which others may raise at the same time.
fn raise(word: &AtomicU32, to: u32) {
    let mut seen = word.load(Ordering::Relaxed);
    // Not by a store: a process that was stopped before it would put an old number back.
    while to.wrapping_sub(seen).cast_signed() > 0 {
        // Release pairs with the Acquire in `cleared_since`; AcqRel, so that a later number brings
        // what an earlier one brought.
        match word.compare_exchange_weak(seen, to, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => seen = now,
        }
    }
}

/// Returns the places of the bits.
fn bits_of(bits: u32) -> impl Iterator<Item = usize> {
    (0..WAITERS_AT as usize).filter(move |bit| bits >> bit & 1 != 0)
}

impl EventWord {
    /// Prepares the event before any other process sees it: that value and that option.
    pub(crate) fn prepare(&mut self, value: u32, option: u32) {
        self.word = Word::new(value & VALUE);
        self.option = AtomicU32::new(option);
    }

    #[inline]
    pub(crate) fn value(&self) -> u32 {
        // Acquire pairs with the Release of the process that changed it.
        self.word.load(Ordering::Acquire).low() & VALUE
    }

    /// Sets bits, and wakes all waiters. Returns the bits that were set before; where a thread
    /// waits, those that were set just before.
    #[inline]
    pub(crate) fn set(&self, bits: u32) -> u32 {
        // Else another processor sends the line twice: for the load, and for the change.
        crate::sys::map::prefetch_for_write((&raw const self.word).cast());
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen.low() & WAITERS == 0 {
            // Release pairs with the Acquire of the process that takes or reads the bits. Acquire:
            // they also bring what the former setters' bits brought.
            let to = seen.with(seen.low() | bits);
            match self.word.compare_exchange(seen, to, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return seen.low(),
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
            if seen.low() & WAITERS == 0 {
                let to = seen.with(seen.low() | bits);
                let set = self.word.compare_exchange(seen, to, Ordering::AcqRel, Ordering::Relaxed);
                if set.is_ok() {
                    return seen.low();
                }
                continue;
            }
            if let Some(step) = InOneStep::or(bits) {
                step.and_wake(self.word.low(), ALL);
                self.wake();
                return seen.low() & VALUE;
            }
            self.wake();
        }
        let seen = self.word.set_bits(bits);
        self.wake();
        seen.low() & VALUE
    }

    /// Clears WAITERS and wakes all sleepers, in one step.
    fn wake(&self) {
        InOneStep::ClearBit(WAITERS_AT).and_wake(self.word.low(), ALL);
    }

    /// Clears bits, and tells no waiter: with automatic reset, a set bit is for one waiter at most.
    /// Returns the bits that were set before.
    pub(crate) fn clear_untold(&self, bits: u32) -> u32 {
        self.word.clear_bits(bits & VALUE).low() & VALUE
    }

    /// Counts down by `by`, to 0 at most; at 0, wakes all waiters. Returns how many arrivals are
    /// missing.
    pub(crate) fn count_down(&self, by: u32) -> u32 {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let left = (seen.low() & VALUE).saturating_sub(by);
            if left == 0 && seen.low() & WAITERS != 0 {
                // The count only goes down: whatever it has become meanwhile, it is 0 now. The
                // kernel's step is a full fence.
                InOneStep::Set(0).and_wake(self.word.low(), ALL);
                return 0;
            }
            // Release: the waiters see what was done before the arrival. Acquire: the last arrival
            // passes on what happened before the others.
            let to = seen.with(left | seen.low() & WAITERS);
            match self.word.compare_exchange(seen, to, Ordering::AcqRel, Ordering::Relaxed) {
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
            let hit = seen.low() & wanted & VALUE;
            let satisfied = wanted == 0 || if all { hit == wanted } else { hit != 0 };
            if !satisfied {
                return None;
            }
            if hit == 0 || !automatic {
                return Some(hit);
            }
            let to = seen.with(seen.low() & !hit);
            match self.word.compare_exchange(seen, to, Ordering::AcqRel, Ordering::Acquire) {
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
        take: impl Fn(&EventWord) -> Option<R>,
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
        self.announce(opens).1
    }

    /// Returns the word to sleep on, as [`EventWord::watch`] does, and the word as it was then.
    fn announce(&self, opens: Opens) -> (Both, Watch<'_>) {
        let mut seen = self.word.load(Ordering::Relaxed);
        // By compare-exchange: the caller sleeps on a word that had this bit. Died just after: one
        // wake in vain.
        while seen.low() & WAITERS == 0 && !opens.at(seen.low()) {
            let to = seen.with(seen.low() | WAITERS);
            match self.word.compare_exchange(seen, to, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => seen = to,
                Err(now) => seen = now,
            }
        }
        let expected = opens.closed(seen.low() & VALUE) | WAITERS;
        (seen, Watch { word: self.word.low(), expected })
    }

    /// Returns whether a thread may be asleep.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.word.load(Ordering::Relaxed).low() & WAITERS != 0
    }
}

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl crate::segment::SharedLayout for EventWord {}
// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl crate::segment::SharedLayout for RawEvent {}

crate::shim::assert_layout!(size_of::<EventWord>() == 32, size_of::<RawEvent>() == 160);

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
        let mut event: EventWord = unsafe { core::mem::zeroed() };
        event.prepare(0b01, 0);
        for opens in [Opens::WithAny(0b01), Opens::WithAll(0b01)] {
            // Others wait for another bit, now and after each change.
            let _ = event.watch(Opens::WithAny(0b10));
            let watch = event.watch(opens);
            event.clear_untold(0b01);
            assert_eq!(event.take(0b01, false, false), None);
            event.set(0b01);
            let other = event.watch(Opens::WithAny(0b10));
            assert!(!sleeps(watch) && sleeps(other));
        }
    }

    fn event(clearings: u32) -> RawEvent {
        // SAFETY: all fields are atomics, for which zero is a value.
        let event: RawEvent = unsafe { core::mem::zeroed() };
        let from = event.head.word.load(Ordering::Relaxed);
        let to = from.at_clearings(clearings);
        event.head.word.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).unwrap();
        for word in &event.cleared {
            word.store(clearings, Ordering::Relaxed);
        }
        event
    }

    #[test]
    fn a_bit_that_was_set_and_cleared_opens_waits_that_began_before() {
        // Also where the numbers wrap.
        for start in [0, u32::MAX - 1, i32::MAX as u32] {
            let event = event(start);
            let before = event.begin();
            event.head.set(0b01);
            assert_eq!(event.clear(0b11), 0b01);
            let after = event.begin();
            event.head.set(0b10);
            assert_eq!(event.clear(0b10), 0b10);
            assert_eq!(event.clear(0b10), 0);
            assert_eq!(event.look(before, Opens::WithAny(0b111)), Some(0b11));
            assert_eq!(event.look(before, Opens::WithAny(0b101)), Some(0b01));
            assert_eq!(event.look(before, Opens::WithAny(0b100)), None);
            assert_eq!(event.look(after, Opens::WithAny(0b01)), None);
            assert_eq!(event.look(after, Opens::WithAny(0b11)), Some(0b10));
            assert_eq!(event.look(before, Opens::WithAll(0b01)), Some(0b01));
            assert_eq!(event.look(before, Opens::WithAll(0b11)), None, "never at once");
            event.head.set(0b11);
            event.clear(0b11);
            assert_eq!(event.look(after, Opens::WithAll(0b11)), Some(0b11));
            assert_eq!(event.look(after, Opens::WithAll(0b11 | 1 << 31)), None);
            assert_eq!(event.look(event.begin(), Opens::WithAny(0b11)), None);
        }
    }

    /// A process is stopped between its note and its exchange, and others go on.
    #[test]
    fn a_late_note_takes_no_newer_one_back() {
        let event = event(0);
        event.head.set(0b1);
        let late = event.begin().0 + 1;
        for _ in 0..3 {
            event.head.set(0b1);
            event.clear(0b1);
        }
        let begun = Begun(event.begin().0 - 1);
        raise(&event.cleared[0], late);
        assert_eq!(event.look(begun, Opens::WithAny(0b1)), Some(0b1));
        assert_eq!(event.look(event.begin(), Opens::WithAny(0b1)), None);
    }

    #[test]
    fn old_numbers_are_renewed_before_they_would_look_new() {
        let event = event(7);
        let step = |clearings: u32| {
            let seen = event.head.word.load(Ordering::Relaxed);
            let to = seen.at_clearings(clearings).with(0b10);
            let order = Ordering::Relaxed;
            event.head.word.compare_exchange(seen, to, order, order).unwrap();
            event.clear(0b10);
        };
        // Bit 0 was last cleared at 7; now it is 2^32 clearings later, by leaps that end at renewals.
        for leap in 1..=16u32 {
            step((leap << 28).wrapping_sub(1));
        }
        step(5);
        let begun = event.begin();
        step(7);
        assert_eq!(event.look(begun, Opens::WithAny(0b01)), None);
        assert_eq!(event.look(begun, Opens::WithAny(0b10)), Some(0b10));
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
#[path = "event_tests.rs"]
mod loom_tests;
