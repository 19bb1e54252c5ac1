//! An eventcount whose notifiers also raise a doorbell: that of a large wait set, which sleeps on
//! that one word for all of its sources (liveness/doorbell.rs).
//!
//! | step of a notifier that finds waiters | died or stopped just after it |
//! | --- | --- |
//! | reads `doorbell` | nothing has happened |
//! | sets its bit of the doorbell | the set sleeps on. The waiters' number is there still, so the next notifier does all of this again; else the set finds the change at its recheck |
//! | raises the doorbell's count | the same, if the set sleeps already |
//! | in one step: `sequence` + 1, wakes its sleepers and the doorbell's | all are woken |
//! | clears `epoch` from what it saw | |
//!
//! The set writes `doorbell` before it takes its number, so a notifier that sees the number sees the
//! doorbell. It takes another number for each source whose bit it has found: the notifier may be
//! about to clear the one before.

use super::event_count::EventCount;
use crate::liveness::{Registration, Registry};
use crate::shim::{AtomicU32, Ordering};
use crate::sys::futex;

/// See the file's head. All zeroes: no waiter, no doorbell.
#[repr(C)]
#[derive(Default)]
pub(crate) struct RungEventCount {
    count: EventCount,
    // Written by wait sets.
    doorbell: AtomicU32,
    reserved: AtomicU32,
}

/// What a set's registration has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    /// It was there.
    Before,
    /// It has been written now: notifiers have not raised the set's doorbell so far.
    Now,
    /// A living process's set has registered another one: this set sleeps on the words.
    Another,
}

impl RungEventCount {
    pub(crate) fn count(&self) -> &EventCount {
        &self.count
    }

    /// Wakes all waiters, after a change.
    #[inline]
    pub(crate) fn notify_all<'r>(&self, registry: impl FnOnce() -> &'r Registry) {
        if let Some(epoch) = self.count.waiters() {
            self.notify_slow(epoch, registry());
        }
    }

    #[cold]
    #[inline(never)]
    fn notify_slow(&self, epoch: u32, registry: &Registry) {
        // Acquire pairs with `register`. Behind the load of `epoch`, which sees the number of each set
        // that is registered and whose look was before our change.
        let word = self.doorbell.load(Ordering::Acquire);
        let raised = Registration::from_word(word).and_then(|it| it.raise(registry));
        self.count.notify_by(epoch, futex::ALL, |sequence| match raised {
            Some(doorbell) => futex::raise_and_wake_both(sequence, doorbell),
            None => futex::raise_and_wake(sequence, sequence, futex::ALL),
        });
    }

    /// Registers a set's doorbell, before the set prepares its wait.
    pub(crate) fn register(&self, registry: &Registry, ours: Registration) -> Registered {
        let mut seen = self.doorbell.load(Ordering::Acquire);
        loop {
            if seen == ours.as_word() {
                return Registered::Before;
            }
            if Registration::from_word(seen).is_some_and(|other| other.is_of_living(registry)) {
                return Registered::Another;
            }
            // Release pairs with `notify_slow`: the doorbell is claimed. Died just after: the
            // doorbell is a dead process's.
            match self.doorbell.compare_exchange(
                seen,
                ours.as_word(),
                Ordering::Release,
                Ordering::Acquire,
            ) {
                Ok(_) => return Registered::Now,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the registration back.
    pub(crate) fn unregister(&self, ours: Registration) {
        // Relaxed: a notifier that sees it still makes one look in vain.
        let _ =
            self.doorbell.compare_exchange(ours.as_word(), 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl crate::segment::SharedLayout for RungEventCount {}

crate::shim::assert_layout!(size_of::<RungEventCount>() == 16);
