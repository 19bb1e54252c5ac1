//! An eventcount lets a waiter sleep until something changes that no single word shows.
//!
//! | words | the waiter | the notifier |
//! | --- | --- | --- |
//! | `sequence` | reads it before all else, and sleeps only while it is unchanged | raises it, in the kernel, in the same step that wakes |
//! | `epoch`: {number, `FENCED`, `SOMEBODY`} | then writes a new number there, with `SOMEBODY` | without `SOMEBODY`: done; after the wake: from the very word that it saw to the next number, without `SOMEBODY` |
//!
//! The notifier makes its change, looks at `epoch`, and if a waiter may sleep makes ONE
//! `FUTEX_WAKE_OP`: `sequence` + 1 and the wake. So a notifier that is killed or stopped has either
//! woken the sleepers, or its notification has no effect at all: there is no half. The waiter calls
//! `prepare_wait`, **looks again**, and then sleeps on `watch`, which commits the wait; where the
//! look finds something, it calls `cancel_wait`.
//!
//! | a death or a stop of | consequence |
//! | --- | --- |
//! | a notifier, between its change and the step | the waiters sleep on. The next notifier wakes them; a waiter that watches the notifier's end learns of the death; every other waiter finds the change at its recheck (recheck.rs); with a relay ([`RelayedEventCount`]) the kernel wakes one waiter, which notifies all |
//! | a notifier, after the step | `epoch` still has `SOMEBODY`: the next notifier wakes in vain |
//! | a waiter, anywhere | the same: the next notifier wakes in vain |
//!
//! The waiter reads `sequence` before it takes the number. In the other order, a notifier that saw
//! the number and raised `sequence` in between would clear a number whose owner then sleeps. The
//! notifier clears `epoch` after the wake, or a death in between would leave the waiters asleep;
//! and it clears only the very word that it saw, because a later number belongs to another waiter.
//!
//! Notifiers make no fence: the waiter's heavy fence acts in all processes. It is a system call
//! that interrupts all processors, and one is enough for all waiters that come until the next
//! notification: `FENCED` says that one has been made since `SOMEBODY` was set.
//! doc/protocols/event_count.md has the argument; proof/models/eventcount.pml checks it.

use std::time::Duration;

use crate::Deadline;
use crate::shim::{AtomicU32, Ordering, fence};
use crate::sys::barrier;
use crate::sys::futex::{self, ALL, Watch};

/// In `epoch`: a waiter may sleep.
const SOMEBODY: u32 = 1;
/// In `epoch`, with `SOMEBODY`: every notifier's look from now on sees `SOMEBODY`.
const FENCED: u32 = 2;
/// Numbers count above both.
const ONE: u32 = 4;

/// How long to sleep where a notifier may overlook us because the kernel denies the fence.
const SHORT: Duration = Duration::from_millis(10);

/// See the file's head. All zeroes: no waiter.
#[repr(C)]
#[derive(Default)]
pub(crate) struct EventCount {
    // Written by notifiers.
    sequence: AtomicU32,
    // Written by both.
    epoch: AtomicU32,
}

/// What a waiter has read and written when it prepared its wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticket {
    sequence: u32,
    /// The value that it wrote to `epoch`.
    epoch: u32,
    /// No waiter was there before this one.
    is_first: bool,
    /// Every notifier from now on sees `SOMEBODY`; else the sleep must be short.
    is_fenced: bool,
}

impl Ticket {
    /// Returns until when the waiter sleeps at most before it looks again.
    pub(crate) fn until(self, deadline: Deadline) -> Deadline {
        if self.is_fenced { deadline } else { deadline.earlier(Deadline::after(SHORT)) }
    }

    pub(crate) fn is_fenced(self) -> bool {
        self.is_fenced
    }
}

/// Returns the next number, without `SOMEBODY`.
fn next(epoch: u32) -> u32 {
    (epoch & !(SOMEBODY | FENCED)).wrapping_add(ONE)
}

impl EventCount {
    /// Wakes all waiters, after a change.
    #[inline]
    pub(crate) fn notify_all(&self) {
        self.notify_all_if(|| true);
    }

    /// Wakes all waiters as [`EventCount::notify_all`] does, if the change concerns the waiter. The
    /// waiter has written what concerns it before it called
    /// [`EventCount::prepare_wait_with_fence`].
    #[inline]
    pub(crate) fn notify_all_if(&self, concerns: impl FnOnce() -> bool) {
        // The change before the look: pairs with `heavy` in `fence_slow`.
        barrier::light();
        let epoch = self.epoch();
        if epoch & SOMEBODY != 0 && concerns() {
            self.notify_slow(epoch, &self.sequence, ALL);
        }
    }

    /// Wakes as [`EventCount::notify_all`] does, but at most `most` waiters. If a woken waiter
    /// cannot use the change, none is woken in its place.
    #[inline]
    pub(crate) fn notify_some(&self, most: u32) {
        // The change before the look: pairs with `heavy` in `fence_slow`.
        barrier::light();
        let epoch = self.epoch();
        if epoch & SOMEBODY != 0 {
            self.notify_slow(epoch, &self.sequence, most);
        }
    }

    #[inline]
    fn epoch(&self) -> u32 {
        // Acquire pairs with the Release in `announce`: a notifier that sees that number raises
        // `sequence` after the number's owner has read it.
        self.epoch.load(Ordering::Acquire)
    }

    /// Does a notifier's look, after its change: returns what [`EventCount::notify_by`] needs if a
    /// waiter may sleep.
    #[inline]
    pub(super) fn waiters(&self) -> Option<u32> {
        // The change before the look: pairs with `heavy` in `fence_slow`.
        barrier::light();
        let epoch = self.epoch();
        (epoch & SOMEBODY != 0).then_some(epoch)
    }

    #[cold]
    #[inline(never)]
    fn notify_slow(&self, epoch: u32, through: &AtomicU32, most: u32) {
        self.notify_by(epoch, most, |sequence| futex::raise_and_wake(sequence, through, most));
    }

    /// Notifies by a step that raises `sequence`, wakes at most so many and returns how many.
    #[inline]
    pub(super) fn notify_by(&self, epoch: u32, most: u32, step: impl FnOnce(&AtomicU32) -> u32) {
        // One step. A notifier that dies or is stopped just before it has done nothing; just after
        // it, the next notifier makes an empty wake, and that is all.
        let woken = step(&self.sequence);
        if woken < most {
            // No waiter is left asleep, and a waiter that is about to sleep finds another
            // `sequence`. AcqRel keeps the chain of `announce`s that a later notifier's Acquire
            // reads from.
            let _ = self.epoch.compare_exchange(
                epoch,
                next(epoch),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    /// Prepares a wait: from now on every notifier wakes the caller. The caller looks once more and
    /// then sleeps on [`EventCount::watch`].
    #[cold]
    pub(crate) fn prepare_wait(&self) -> Ticket {
        let mut ticket = self.announce();
        if !ticket.is_fenced {
            self.fence_slow(&mut ticket);
        }
        ticket
    }

    /// Prepares a wait as [`EventCount::prepare_wait`] does, for a waiter that has just written
    /// something else that notifiers read.
    #[cold]
    pub(crate) fn prepare_wait_with_fence(&self) -> Ticket {
        let mut ticket = self.announce();
        ticket.is_fenced = false;
        self.fence_slow(&mut ticket);
        ticket
    }

    /// Prepares a wait as [`EventCount::prepare_wait`] does, but without the fence. The caller
    /// itself makes sure that either a notifier sees the number or the caller's next look sees the
    /// change: by a lock, or by one fence for several eventcounts ([`EventCount::note_fence`]).
    pub(crate) fn announce(&self) -> Ticket {
        // Acquire: if we missed a notification, the look that follows sees what was done before it.
        let sequence = self.sequence.load(Ordering::Acquire);
        let mut seen = self.epoch.load(Ordering::Relaxed);
        loop {
            let is_first = seen & SOMEBODY == 0;
            let kept = if is_first { 0 } else { seen & FENCED };
            let epoch = next(seen) | kept | SOMEBODY;
            // Release pairs with `epoch()`. Acquire pairs with `note_fence`. Died just after: one
            // empty wake.
            match self.epoch.compare_exchange_weak(seen, epoch, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return Ticket { sequence, epoch, is_first, is_fenced: kept != 0 },
                Err(now) => seen = now,
            }
        }
    }

    #[cold]
    fn fence_slow(&self, ticket: &mut Ticket) {
        // The number before the look: pairs with `light` in the notifiers.
        if barrier::heavy() {
            self.note_fence(ticket);
        }
    }

    /// Notes that the caller has made a heavy fence since it got that ticket. Waiters that come
    /// later make none, as long as `SOMEBODY` stays set.
    pub(crate) fn note_fence(&self, ticket: &mut Ticket) {
        ticket.is_fenced = true;
        let seen = self.epoch.load(Ordering::Acquire);
        // No notification since: `SOMEBODY` has been set all the while. A notifier that clears it
        // raises `sequence` first.
        if seen & SOMEBODY != 0 && seen & FENCED == 0 && !self.is_notified(*ticket) {
            // Release pairs with `announce`: the fence. Died just before: the next one makes
            // another.
            let noted = self.epoch.compare_exchange(
                seen,
                seen | FENCED,
                Ordering::Release,
                Ordering::Relaxed,
            );
            if noted.is_ok() && seen == ticket.epoch {
                ticket.epoch |= FENCED;
            }
        }
    }

    /// Cancels a wait: if no other waiter has come meanwhile, notifiers need not wake anything.
    pub(crate) fn cancel_wait(&self, ticket: Ticket) {
        if ticket.is_first {
            // That very word: no waiter has prepared since, and none was there before. Relaxed:
            // nothing comes with it.
            let _ = self.epoch.compare_exchange(
                ticket.epoch,
                next(ticket.epoch),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// Returns whether a notifier has notified since the waiter got the ticket.
    pub(crate) fn is_notified(&self, ticket: Ticket) -> bool {
        self.sequence.load(Ordering::Acquire) != ticket.sequence
    }

    /// Returns the word to sleep on, which commits the wait.
    pub(crate) fn watch(&self, ticket: Ticket) -> Watch<'_> {
        Watch { word: &self.sequence, expected: ticket.sequence }
    }

    /// Returns whether a waiter may be asleep, and how many notifications there have been that a
    /// waiter may have needed.
    pub(crate) fn look(&self) -> (bool, u32) {
        (self.epoch.load(Ordering::Relaxed) & SOMEBODY != 0, self.sequence.load(Ordering::Relaxed))
    }
}

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl crate::segment::SharedLayout for EventCount {}

/// An eventcount that gives a wake-up to the next waiter when the waiter that got it dies, or when
/// a notifier dies before its wake.
///
/// The waiters' `list_op_pending` points to `relay`. So does the notifier's, from before its
/// change, where no waiter watches its end. All wakes go through `relay`, and waiters are queued
/// there first: each waiter is in two queues, and a wake through `sequence` would leave it in the
/// other one, where it would swallow the wake-up of a dying thread.
///
/// Where the waiters need `list_op_pending` for the owners that they watch, a plain [`EventCount`]
/// must do.
#[derive(Default)]
#[repr(C)]
pub(crate) struct RelayedEventCount {
    count: EventCount,
    // No process writes it: always 0.
    relay: AtomicU32,
    reserved: AtomicU32,
}

impl RelayedEventCount {
    /// Returns the plain eventcount, for everything but notifying and sleeping.
    pub(crate) fn count(&self) -> &EventCount {
        &self.count
    }

    /// Returns the relay word, for `list_op_pending`.
    pub(crate) fn relay(&self) -> &AtomicU32 {
        &self.relay
    }

    /// Wakes all waiters: see [`EventCount::notify_all`].
    #[inline]
    pub(crate) fn notify_all(&self) {
        // See `EventCount::notify_some`.
        barrier::light();
        let epoch = self.count.epoch();
        if epoch & SOMEBODY != 0 {
            self.count.notify_slow(epoch, &self.relay, ALL);
        }
    }

    /// Wakes one waiter, or all, for notifiers that note something for waiters, before the wake: if a
    /// waiter may sleep, or may be about to, as `is_any_waiting` says.
    #[inline]
    pub(crate) fn notify_noting(
        &self,
        all: bool,
        is_any_waiting: impl FnOnce() -> bool,
        note: impl FnOnce(),
    ) {
        barrier::light();
        if self.count.epoch() & SOMEBODY != 0 || is_any_waiting() {
            self.notify_noting_slow(if all { ALL } else { 1 }, note);
        }
    }

    #[cold]
    #[inline(never)]
    fn notify_noting_slow(&self, most: u32, note: impl FnOnce()) {
        note();
        // The note before the look: pairs with the fence in `announce_before_looking`. So a waiter
        // that is about to sleep finds the note, or this finds the waiter.
        fence(Ordering::SeqCst);
        let epoch = self.count.epoch();
        if epoch & SOMEBODY != 0 {
            self.count.notify_slow(epoch, &self.relay, most);
        }
    }

    /// Prepares a wait as [`EventCount::announce`] does, for a caller that next looks for a note.
    pub(crate) fn announce_before_looking(&self) -> Ticket {
        let ticket = self.count.announce();
        // See `notify_noting_slow`.
        fence(Ordering::SeqCst);
        ticket
    }

    /// Returns the words to sleep on, in that order.
    pub(crate) fn watches(&self, ticket: Ticket) -> [Watch<'_>; 2] {
        if self.relay.load(Ordering::Relaxed) != 0 {
            // A stray write: the word never means anything but 0.
            self.relay.store(0, Ordering::Relaxed);
        }
        [Watch { word: &self.relay, expected: 0 }, self.count.watch(ticket)]
    }

    /// Wakes all waiters in a notifier's place, where a waiter that slept must: if what it waits
    /// for `has_come`, and no process has notified, the process that made the change is about to
    /// notify, or is stopped, or is dead.
    pub(crate) fn woken(&self, ticket: Ticket, has_come: impl FnOnce() -> bool) {
        if !self.count.is_notified(ticket) && has_come() {
            self.notify_all();
        }
    }

    /// Wakes the next waiter, if any: the caller was woken, but cannot use that, or not soon.
    #[cold]
    pub(crate) fn relay_wake(&self) {
        futex::wake_one(&self.relay);
    }
}

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl crate::segment::SharedLayout for RelayedEventCount {}

crate::shim::assert_layout!(size_of::<EventCount>() == 8 && size_of::<RelayedEventCount>() == 16);
