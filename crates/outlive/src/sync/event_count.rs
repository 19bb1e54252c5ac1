//! An eventcount: sleeping until something changes that no single word shows.
//!
//! | words | the waiter | the notifier |
//! | --- | --- | --- |
//! | `sequence` | reads it before all else, and sleeps only while it is still so | raises it, in the kernel, in the same step that wakes |
//! | `epoch`: {number, `FENCED`, `SOMEBODY`} | takes a new number after that, with `SOMEBODY` | nobody there: nothing to do; after the wake: from that very word to the next number, nobody |
//!
//! The notifier: the change; a look at `epoch`; and if somebody may sleep, ONE `FUTEX_WAKE_OP`: `sequence` + 1 and the wake. So a notifier
//! that is killed or stopped has either woken those who sleep, or nothing can be seen of its notification: there is no half. The waiter:
//! [`prepare_wait`], **another look**, then the sleep on [`watch`], which commits it; [`cancel_wait`] where the look found something.
//!
//! | a death, or a stop | what becomes of it |
//! | --- | --- |
//! | a notifier, between its change and the step | the waiters sleep on. The next notifier wakes them; a waiter that watches the notifier's end learns of the death; every waiter looks by itself (`Net::Spread`); with a [`WakeRelay`] the kernel wakes one, who wakes the others |
//! | a notifier, after the step | `epoch` says somebody still: the next notifier wakes in vain |
//! | a waiter, anywhere | the same |
//!
//! `sequence` is read before the number is taken: the other way round, a notifier that saw the number and raised `sequence` in between would
//! clear a number whose owner then sleeps. `epoch` is cleared after the wake, or a death in between leaves them asleep; and only that very
//! word, for a later number is another waiter's.
//!
//! Notifiers make no fence: the waiter's heavy one puts it into all processes. That is a system call which interrupts all processors, and one
//! is enough for all who come until the next notification: `FENCED` says that it has been made since there was `SOMEBODY`.
//! doc/protocols/condvar.md has the argument, doc/models/eventcount.pml checks it.

use std::time::Duration;

use crate::Deadline;
use crate::shim::{AtomicU32, Ordering};
use crate::sys::barrier;
use crate::sys::futex::{self, ALL, Watch};

/// In `epoch`: somebody may sleep.
const SOMEBODY: u32 = 1;
/// In `epoch`, with `SOMEBODY`: every notifier's look from now on sees that.
const FENCED: u32 = 2;
/// Numbers count above both.
const ONE: u32 = 4;

/// How long to sleep where a notifier may overlook us, as the kernel denies the fence.
const SHORT: Duration = Duration::from_millis(10);

/// See the file's head. All zeroes: nobody sleeps.
#[repr(C)]
#[cfg_attr(loom, derive(Default))]
pub(crate) struct EventCount {
    // Written by notifiers.
    sequence: AtomicU32,
    // Written by both.
    epoch: AtomicU32,
}

/// What a waiter has found and left when it prepared its wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticket {
    sequence: u32,
    /// What it made of `epoch`.
    epoch: u32,
    /// There was nobody before it.
    is_first: bool,
    /// Every notifier from now on sees that there is somebody; else the sleep must be short.
    is_fenced: bool,
}

impl Ticket {
    /// Until when to sleep at most before looking again.
    pub(crate) fn until(self, deadline: Deadline) -> Deadline {
        if self.is_fenced { deadline } else { deadline.earlier(Deadline::after(SHORT)) }
    }

    pub(crate) fn is_fenced(self) -> bool {
        self.is_fenced
    }
}

/// The next number, without anybody.
fn next(epoch: u32) -> u32 {
    (epoch & !(SOMEBODY | FENCED)).wrapping_add(ONE)
}

impl EventCount {
    #[cfg(loom)]
    pub(crate) fn new() -> EventCount {
        EventCount::default()
    }

    /// Wakes all who wait, after something has changed.
    #[inline]
    pub(crate) fn notify_all(&self) {
        self.notify_all_if(|| true);
    }

    /// As [`EventCount::notify_all`], if the waiter is one whom this concerns: it has said so before it prepared its wait, by
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

    /// As [`EventCount::notify_all`], but wakes at most so many; who is woken and has no use for it is not replaced.
    #[inline]
    pub(crate) fn notify_some(&self, most: u32) {
        // As above.
        barrier::light();
        let epoch = self.epoch();
        if epoch & SOMEBODY != 0 {
            self.notify_slow(epoch, &self.sequence, most);
        }
    }

    #[inline]
    fn epoch(&self) -> u32 {
        // Acquire pairs with the Release in `announce`: who sees that number raises `sequence` after its owner has read it.
        self.epoch.load(Ordering::Acquire)
    }

    #[cold]
    #[inline(never)]
    fn notify_slow(&self, epoch: u32, through: &AtomicU32, most: u32) {
        // One step: died or stopped just before, nothing has happened; just after, all is done but an empty wake by the next.
        let woken = futex::raise_and_wake(&self.sequence, through, most);
        if woken < most {
            // Nobody is left asleep, and who is about to sleep finds another `sequence`. AcqRel keeps the chain of `announce`s that a
            // later notifier's Acquire reads from.
            let _ = self.epoch.compare_exchange(epoch, next(epoch), Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// From now on whoever notifies wakes the caller, who looks once more and then sleeps on [`EventCount::watch`].
    #[cold]
    pub(crate) fn prepare_wait(&self) -> Ticket {
        let mut ticket = self.announce();
        if !ticket.is_fenced {
            self.fence_slow(&mut ticket);
        }
        ticket
    }

    /// As [`EventCount::prepare_wait`], for one who has just written something else that notifiers look at.
    #[cold]
    pub(crate) fn prepare_wait_with_fence(&self) -> Ticket {
        let mut ticket = self.announce();
        ticket.is_fenced = false;
        self.fence_slow(&mut ticket);
        ticket
    }

    /// As [`EventCount::prepare_wait`], for a caller who sees by itself to it that a notifier sees the number, or the look behind it
    /// the change: by a lock, or by a fence for several eventcounts ([`EventCount::note_fence`]).
    pub(crate) fn announce(&self) -> Ticket {
        // Acquire: what was done before a notification that we have missed is seen by the look that follows.
        let sequence = self.sequence.load(Ordering::Acquire);
        let mut seen = self.epoch.load(Ordering::Relaxed);
        loop {
            let is_first = seen & SOMEBODY == 0;
            let kept = if is_first { 0 } else { seen & FENCED };
            let epoch = next(seen) | kept | SOMEBODY;
            // Release pairs with `epoch()`. Acquire pairs with `note_fence`. Died just after: one empty wake.
            match self.epoch.compare_exchange_weak(seen, epoch, Ordering::AcqRel, Ordering::Relaxed) {
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

    /// A heavy fence has been made since that ticket was had. Others who come need make none, as long as there is somebody.
    pub(crate) fn note_fence(&self, ticket: &mut Ticket) {
        ticket.is_fenced = true;
        let seen = self.epoch.load(Ordering::Acquire);
        // Nobody has notified: there has been somebody all the while. A notifier that ends that raises `sequence` first.
        if seen & SOMEBODY != 0 && seen & FENCED == 0 && !self.is_notified(*ticket) {
            // Release pairs with `announce`: the fence. Died just before: the next one makes another.
            let noted = self.epoch.compare_exchange(seen, seen | FENCED, Ordering::Release, Ordering::Relaxed);
            if noted.is_ok() && seen == ticket.epoch {
                ticket.epoch |= FENCED;
            }
        }
    }

    /// The caller waits no longer: has nobody else come meanwhile, notifiers need not wake anybody.
    pub(crate) fn cancel_wait(&self, ticket: Ticket) {
        if ticket.is_first {
            // That very word: nobody has prepared since, and before us was nobody. Relaxed: nothing comes with it.
            let _ = self.epoch.compare_exchange(ticket.epoch, next(ticket.epoch), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether somebody has notified since the ticket was had.
    pub(crate) fn is_notified(&self, ticket: Ticket) -> bool {
        self.sequence.load(Ordering::Acquire) != ticket.sequence
    }

    /// The word to sleep on, which commits the wait.
    pub(crate) fn watch(&self, ticket: Ticket) -> Watch<'_> {
        Watch { word: &self.sequence, expected: ticket.sequence }
    }

    /// Whether somebody may be asleep, and how many notifications there have been that somebody may have needed.
    pub(crate) fn look(&self) -> (bool, u32) {
        (self.epoch.load(Ordering::Relaxed) & SOMEBODY != 0, self.sequence.load(Ordering::Relaxed))
    }
}

#[cfg(not(loom))]
// SAFETY: atomics.
unsafe impl crate::segment::Shared for EventCount {}

/// An eventcount whose wake-ups go on when whoever got one dies, or when a notifier dies before it could wake.
///
/// Waiters' `list_op_pending` points to `relay`, and so does a notifier's from before its change, where nobody watches its end. All wakes go
/// through `relay`, and waiters are queued there first: a waiter stands in two queues, and a wake through `sequence` would leave it in the
/// other, where it swallows what a dying thread passes on.
///
/// Where the waiters' `list_op_pending` is needed for the owners that they watch, a plain [`EventCount`] does.
#[repr(C)]
pub(crate) struct RelayedEventCount {
    count: EventCount,
    // Written by nobody: always 0.
    relay: AtomicU32,
    reserved: AtomicU32,
}

impl RelayedEventCount {
    #[cfg(loom)]
    pub(crate) fn new() -> RelayedEventCount {
        RelayedEventCount { count: EventCount::new(), relay: AtomicU32::new(0), reserved: AtomicU32::new(0) }
    }

    /// For all but notifying and sleeping.
    pub(crate) fn count(&self) -> &EventCount {
        &self.count
    }

    /// The word that passes a wake on: for `list_op_pending`.
    pub(crate) fn relay(&self) -> &AtomicU32 {
        &self.relay
    }

    /// As [`EventCount::notify_all`].
    #[inline]
    pub(crate) fn notify_all(&self) {
        self.notify_some(ALL);
    }

    /// Wakes one of those who wait, if any does.
    #[inline]
    pub(crate) fn notify_one(&self) {
        self.notify_some(1);
    }

    #[inline]
    fn notify_some(&self, most: u32) {
        // As in `EventCount`.
        barrier::light();
        let epoch = self.count.epoch();
        if epoch & SOMEBODY != 0 {
            self.count.notify_slow(epoch, &self.relay, most);
        }
    }

    /// The words to sleep on, in that order.
    pub(crate) fn watches(&self, ticket: Ticket) -> [Watch<'_>; 2] {
        if self.relay.load(Ordering::Relaxed) != 0 {
            // A stray write. It means nothing but 0.
            self.relay.store(0, Ordering::Relaxed);
        }
        [Watch { word: &self.relay, expected: 0 }, self.count.watch(ticket)]
    }

    /// What one who has slept owes the others: `has_come` what was waited for and nobody has notified, then whoever did it is about to, or
    /// stopped, or dead, and all are woken in its place.
    pub(crate) fn woken(&self, ticket: Ticket, has_come: impl FnOnce() -> bool) {
        if !self.count.is_notified(ticket) && has_come() {
            self.notify_all();
        }
    }

    /// Whoever was woken has no use for it, or cannot use it soon: the next one, if any.
    #[cold]
    pub(crate) fn pass_on(&self) {
        futex::wake_one(&self.relay);
    }
}

#[cfg(not(loom))]
// SAFETY: atomics.
unsafe impl crate::segment::Shared for RelayedEventCount {}

#[cfg(not(loom))]
const _: () = assert!(size_of::<EventCount>() == 8 && size_of::<RelayedEventCount>() == 16);
