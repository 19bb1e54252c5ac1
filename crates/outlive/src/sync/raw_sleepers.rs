//! A place to sleep at, whose wake-ups go on when whoever got one dies.
//!
//! | words | the sleeper | the waker |
//! | --- | --- | --- |
//! | `sequence` | reads it first of all; does not sleep once it has changed | raises it before the wake |
//! | `epoch`: {number, `FENCED`, `SOMEBODY`} | takes a new number after that, with `SOMEBODY` | nobody: nothing to do; after a wake that left nobody: from that very word to the next number, nobody |
//! | `may_lose`: not 0, for good | now and then he looks by himself | a wait set that cannot pass a wake on is about to sleep here, or has; 2: all who slept without a net have been called |
//! | `x`, always 0 | `list_op_pending` points to it; queued on **first** | all wakes go through it |
//!
//! | a death | what becomes of it |
//! | --- | --- |
//! | asleep | nothing; the kernel wakes one of the others for nothing |
//! | woken, before it could use it | the kernel wakes the next on `x` |
//! | a waker, before its wake | `epoch` says somebody still: the next waker wakes |
//! | a waker, after it | an empty wake by the next |
//!
//! `sequence` is read before the number is taken: the other way round, a waker that saw the number and raised `sequence`
//! in between would clear a number whose owner then sleeps. Nothing ever wakes through `sequence`: a sleeper stands in
//! both queues, and a wake through one could be swallowed by somebody whom the other has woken already.
//! doc/protocols/condvar.md has the argument, doc/models/condvar.pml checks it.
//!
//! A condition variable's user has the mutex to see that a waker sees the number. Others need a fence between that and the look at what
//! they wait for, and wakers none: `fence`. It is a system call that stops all processors, and one is enough for all who come until the
//! next wake: `FENCED` says that it has been made since there was `SOMEBODY`. doc/models/one_fence.pml has the argument.
//!
//! Where all are woken and `list_op_pending` is needed for somebody else, `bell.rs` does with less.

use crate::liveness::Net;
use crate::shim::{AtomicU32, Ordering};
use crate::sys::barrier;
use crate::sys::futex::{self, Watch};

/// See the file's head. All zero: nobody sleeps.
#[repr(C)]
pub(crate) struct Sleepers {
    // Written by wakers.
    sequence: AtomicU32,
    // Written by both.
    epoch: AtomicU32,
    // Written by nobody.
    x: AtomicU32,
    // Written by wait sets, two steps for good.
    may_lose: AtomicU32,
}

/// In `may_lose`.
#[cfg(not(loom))]
const MAY_LOSE: u32 = 1;
#[cfg(not(loom))]
const ALL_CALLED: u32 = 2;

/// In `epoch`: somebody may sleep.
const SOMEBODY: u32 = 1;
/// In `epoch`, with `SOMEBODY`: every waker's look from now on sees that.
const FENCED: u32 = 2;
/// Numbers count above both.
const ONE: u32 = 4;

/// What a sleeper found when it enlisted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticket {
    sequence: u32,
    is_fenced: bool,
}

/// The next number, without anybody.
fn next(epoch: u32) -> u32 {
    (epoch & !(SOMEBODY | FENCED)).wrapping_add(ONE)
}

impl Sleepers {
    #[cfg(loom)]
    pub(crate) fn new() -> Sleepers {
        let zero = || AtomicU32::new(0);
        Sleepers { sequence: zero(), epoch: zero(), x: zero(), may_lose: zero() }
    }

    /// Somebody is going to sleep. From now on wakers wake.
    pub(crate) fn enlist(&self) -> Ticket {
        let sequence = self.sequence.load(Ordering::Relaxed);
        let mut seen = self.epoch.load(Ordering::Relaxed);
        loop {
            let kept = if seen & SOMEBODY == 0 { 0 } else { seen & FENCED };
            let number = next(seen) | kept | SOMEBODY;
            // Release pairs with the Acquire in `epoch`: who sees this number, or a later sleeper's, raises `sequence`
            // after we have read it. Acquire pairs with `fence`. Died just after: one empty wake.
            match self.epoch.compare_exchange_weak(seen, number, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ticket { sequence, is_fenced: kept != 0 },
                Err(now) => seen = now,
            }
        }
    }

    /// After this, between `enlist` and a sleep, a look at what is waited for finds it, or whoever changed it finds somebody to
    /// wake. False: the kernel denies it, and a waker may overlook us.
    pub(crate) fn fence(&self, ticket: Ticket) -> bool {
        ticket.is_fenced || self.fence_slow(ticket)
    }

    #[cold]
    fn fence_slow(&self, ticket: Ticket) -> bool {
        if !barrier::heavy() {
            return false;
        }
        let seen = self.epoch.load(Ordering::Acquire);
        // Nobody has rung: there has been somebody all the while. A waker that ends that raises `sequence` first.
        if seen & SOMEBODY != 0 && !self.has_rung(ticket) {
            // Release pairs with `enlist`: the fence. Died just before: the next one makes another.
            let _ = self.epoch.compare_exchange(seen, seen | FENCED, Ordering::Release, Ordering::Relaxed);
        }
        true
    }

    /// The words to sleep on, in that order.
    pub(crate) fn watches(&self, ticket: Ticket) -> [Watch<'_>; 2] {
        if self.x.load(Ordering::Relaxed) != 0 {
            // A stray write. It means nothing but 0.
            self.x.store(0, Ordering::Relaxed);
        }
        [Watch { word: &self.x, expected: 0 }, Watch { word: &self.sequence, expected: ticket.sequence }]
    }

    /// Whether the sleeper looks by himself now and then. After the ticket, behind the caller's fence.
    pub(crate) fn net(&self) -> Net {
        // Relaxed: set before a ring that the ticket would not have outlived, or that it is of.
        if self.may_lose.load(Ordering::Relaxed) == 0 { Net::Needless } else { Net::Spread }
    }

    /// The same to a wait set that has enlisted; `alone`: it watches nobody's end.
    #[cfg(not(loom))]
    pub(crate) fn net_in_set(&self, passes_on: bool, alone: bool) -> Net {
        if !(alone && passes_on) {
            self.spread_net();
        }
        self.net()
    }

    /// A wait set sleeps here whose `list_op_pending` points elsewhere: a wake that it swallows as it dies is not passed on. Those who
    /// sleep here already come back, and sleep on with a net.
    #[cfg(not(loom))]
    fn spread_net(&self) {
        // Acquire pairs with the last store: those whom that ring woke have a net.
        if self.may_lose.load(Ordering::Acquire) == ALL_CALLED {
            return;
        }
        let _ = self.may_lose.compare_exchange(0, MAY_LOSE, Ordering::AcqRel, Ordering::Relaxed);
        let ringing = self.begin_ring();
        futex::wake_all(&self.x);
        let _ = self.sequence.compare_exchange(ringing, ringing.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed);
        // Died before: the next set calls them.
        self.may_lose.store(ALL_CALLED, Ordering::Release);
    }

    /// Whether there has been a wake since the ticket was had.
    pub(crate) fn has_rung(&self, ticket: Ticket) -> bool {
        self.sequence.load(Ordering::Relaxed) != ticket.sequence
    }

    /// The word that passes a wake on: for `list_op_pending`.
    pub(crate) fn x(&self) -> &AtomicU32 {
        &self.x
    }

    /// Wakes one who sleeps, if there may be any.
    #[inline]
    pub(crate) fn wake_one(&self) {
        let epoch = self.epoch();
        if epoch & SOMEBODY != 0 {
            self.wake_one_slow(epoch);
        }
    }

    /// Wakes all who sleep.
    #[inline]
    pub(crate) fn wake_all(&self) {
        let epoch = self.epoch();
        if epoch & SOMEBODY != 0 {
            self.wake_all_slow(epoch);
        }
    }

    /// As `enlist`, for those who are woken by `ring`: a ticket from between two rings.
    pub(crate) fn enlist_for_ring(&self) -> Ticket {
        loop {
            // A ring under way, or cut short by a death. Not more than one for each waker.
            self.finish_ring();
            let ticket = self.enlist();
            if ticket.sequence & 1 == 0 {
                return ticket;
            }
        }
    }

    /// Wakes all who sleep; cut short by a death, it is finished by whoever wakes next: `sequence` is odd meanwhile.
    ///
    /// The caller's `list_op_pending` points to `x`, so if it dies the kernel wakes one, who calls `finish_ring`.
    #[inline]
    pub(crate) fn ring(&self) {
        let epoch = self.epoch();
        if epoch & SOMEBODY != 0 {
            self.ring_slow(epoch);
        }
    }

    #[cold]
    fn ring_slow(&self, epoch: u32) {
        let ringing = self.begin_ring();
        // Died from here on: whoever wakes finds it odd.
        futex::wake_all(&self.x);
        self.clear(epoch);
        let _ = self.sequence.compare_exchange(ringing, ringing.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The next odd number.
    pub(super) fn begin_ring(&self) -> u32 {
        let mut seen = self.sequence.load(Ordering::Relaxed);
        loop {
            let next = if seen & 1 == 1 { seen.wrapping_add(2) } else { seen.wrapping_add(1) };
            match self.sequence.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return next,
                Err(now) => seen = now,
            }
        }
    }

    /// Somebody wakes, or comes to sleep: a ring that was cut short is finished.
    pub(crate) fn finish_ring(&self) {
        let seen = self.sequence.load(Ordering::Acquire);
        if seen & 1 == 1 {
            futex::wake_all(&self.x);
            let _ = self.sequence.compare_exchange(seen, seen.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// What one who has slept for a ring owes the others: one that was cut short is finished; `has_come` what was waited for and nobody
    /// rang, then whoever did it is about to, or dead, and it is rung for.
    pub(crate) fn woken(&self, ticket: Ticket, has_come: impl FnOnce() -> bool) {
        self.finish_ring();
        if !self.has_rung(ticket) && has_come() {
            self.ring();
        }
    }

    #[inline]
    fn epoch(&self) -> u32 {
        // Acquire pairs with the Release in `enlist`.
        self.epoch.load(Ordering::Acquire)
    }

    #[cold]
    fn wake_one_slow(&self, epoch: u32) {
        // Died before this, or before the wake: there is somebody still.
        self.sequence.fetch_add(1, Ordering::Release);
        if futex::wake_one(&self.x) == 0 {
            self.clear(epoch);
        }
    }

    #[cold]
    fn wake_all_slow(&self, epoch: u32) {
        self.sequence.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.x);
        self.clear(epoch);
    }

    /// Only after the wake, or a death in between leaves them asleep; and only that very number, for a later one is
    /// another sleeper's.
    fn clear(&self, epoch: u32) {
        // AcqRel keeps the chain of `enlist`s that a later waker's Acquire reads from.
        let _ = self.epoch.compare_exchange(epoch, next(epoch), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whoever was woken has no use for it, or cannot use it soon: the next one, if any.
    #[cold]
    pub(crate) fn pass_on(&self) {
        futex::wake_one(&self.x);
    }

    /// Whether somebody may be asleep, and how many wakes there have been that somebody may have needed.
    pub(crate) fn look(&self) -> (bool, u32) {
        (self.epoch.load(Ordering::Relaxed) & SOMEBODY != 0, self.sequence.load(Ordering::Relaxed))
    }
}

#[cfg(not(loom))]
// SAFETY: atomics.
unsafe impl crate::segment::Shared for Sleepers {}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Sleepers>() == 16);
