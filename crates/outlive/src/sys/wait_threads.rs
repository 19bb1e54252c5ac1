//! Threads that sleep on more words than one `futex_waitv` takes: one for each group after the
//! first. They are started when needed, named `outlive-wait`, and otherwise asleep.
//!
//! | words of this process | |
//! | --- | --- |
//! | `control`, one for each helper | raised when its order changes; the helper sleeps on it beside its group |
//! | `notifications`, one for all | raised by a helper that was woken; the caller sleeps on it beside the first group |
//! | `inside`, one for each helper | not 0 from when the helper takes an order until it has left its group |
//!
//! The caller looks for the last time when all helpers are outside: a helper that were still queued
//! could take the kernel's one wake-up for an end at which this process does not look any more. A
//! helper whose order is withdrawn is woken on `control`, but stays queued on all its other words
//! until it gets a processor. No process test can keep it from one there without privileges
//! (stopping a thread takes it out of the queue), so loom covers that window: see the test below.
//!
//! A helper never reads a word of its group: the kernel does, and answers `EFAULT` for one that has
//! been unmapped since. While it has an order, its own `list_op_pending` points where the caller's
//! does: the caller's end may wake a helper of the same process, which is about to end, too.

use std::sync::atomic::{AtomicI32, Ordering as StdOrdering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::clock::Deadline;
use super::futex::{self, MOST_WATCHES, Wakeup, Watch};
use super::robust::{self, WakeRelay};
use super::start_thread::start_thread;
use super::{Errno, identity};
use crate::shim::{AtomicU32, Mutex, MutexGuard};

/// How long the caller waits for its helpers to leave, for which they need only a processor. A
/// helper that gets none for so long may take a wake-up; another waiter then learns of the end by
/// its recheck, which comes no later.
const MOST_PATIENT: Duration = Duration::from_secs(1);

/// See the file's head.
pub(crate) struct WaitThreads {
    notifications: Arc<AtomicU32>,
    helpers: Vec<Arc<Helper>>,
    /// The process whose threads they are.
    of: u64,
}

struct Helper {
    control: AtomicU32,
    order: Mutex<Order>,
    inside: AtomicU32,
    /// How its sleep failed while the order stood; 0: it did not fail.
    failed: AtomicI32,
    notifications: Arc<AtomicU32>,
}

#[derive(Clone)]
enum Order {
    Rest,
    Sleep { words: Vec<(usize, u32)>, passes_to: usize },
    End,
}

impl WaitThreads {
    /// Makes it without helpers.
    pub(crate) fn new() -> Result<WaitThreads, Errno> {
        Ok(WaitThreads {
            notifications: Arc::new(AtomicU32::new(0)),
            helpers: Vec::new(),
            of: identity::this_process()?,
        })
    }

    /// Returns whether the helpers are this process's: a forked child has none.
    pub(crate) fn serve(&self) -> bool {
        identity::this_process() == Ok(self.of)
    }

    /// Makes sure that there are so many helpers.
    ///
    /// # Errors
    /// The error of starting one; existing helpers stay.
    pub(crate) fn have(&mut self, many: usize) -> Result<(), Errno> {
        while self.helpers.len() < many {
            self.helpers.push(Helper::start(&self.notifications)?);
        }
        Ok(())
    }

    /// Sleeps until a word of one of the groups is woken or the deadline passes; returns at once
    /// when a word does not have the expected value. There is a helper for each group but the
    /// first. The words of each group are queued in the order given. Each group must leave room for
    /// one more word. `passes_to` is where the caller's `list_op_pending` points.
    pub(crate) fn wait(
        &self,
        groups: &[Vec<Watch<'_>>],
        passes_to: Option<&AtomicU32>,
        deadline: Deadline,
    ) -> Result<Wakeup, Errno> {
        let Some((first, others)) = groups.split_first() else { return Err(Errno::INVAL) };
        debug_assert!(
            groups.iter().all(|group| group.len() < MOST_WATCHES)
                && others.len() <= self.helpers.len()
        );
        // Acquire pairs with the helpers' change of the word.
        let seen = self.notifications.load(StdOrdering::Acquire);
        for (helper, group) in self.helpers.iter().zip(others) {
            let address = |word: &AtomicU32| core::ptr::from_ref(word).expose_provenance();
            let words = group.iter().map(|watch| (address(watch.word), watch.expected)).collect();
            let passes_to = passes_to.map_or(0, address);
            helper.give(Order::Sleep { words, passes_to });
        }
        let mut own: Vec<Watch<'_>> = first.clone();
        own.push(Watch { word: &self.notifications, expected: seen });
        let slept = futex::wait_any(&own, 0, deadline);
        let helpers = &self.helpers[..others.len()];
        helpers.iter().for_each(|helper| helper.give(Order::Rest));
        self.wait_left(helpers);
        let failed =
            helpers.iter().filter_map(|helper| helper.failure()).reduce(|one, other| match one {
                Errno::FAULT => one,
                _ => other,
            });
        match failed {
            Some(errno) => Err(errno),
            None => slept,
        }
    }

    /// Waits until these helpers are outside, or until `MOST_PATIENT` has passed.
    fn wait_left(&self, helpers: &[Arc<Helper>]) {
        // Under loom nothing takes time, and each helper gets a processor.
        let deadline = if cfg!(loom) { Deadline::NEVER } else { Deadline::after(MOST_PATIENT) };
        for helper in helpers {
            loop {
                // Before the look: a helper that leaves meanwhile ends the sleep at once.
                let seen = self.notifications.load(StdOrdering::Acquire);
                // Acquire pairs with the helper's Release: how its sleep ended.
                if helper.inside.load(StdOrdering::Acquire) == 0 || deadline.has_passed() {
                    break;
                }
                let _ = futex::wait_any(
                    &[Watch { word: &self.notifications, expected: seen }],
                    0,
                    deadline,
                );
            }
        }
    }
}

impl Drop for WaitThreads {
    fn drop(&mut self) {
        if self.serve() {
            self.helpers.iter().for_each(|helper| helper.give(Order::End));
        }
    }
}

impl Helper {
    fn start(notifications: &Arc<AtomicU32>) -> Result<Arc<Helper>, Errno> {
        let helper = Arc::new(Helper {
            control: AtomicU32::new(0),
            order: Mutex::new(Order::Rest),
            inside: AtomicU32::new(0),
            failed: AtomicI32::new(0),
            notifications: Arc::clone(notifications),
        });
        let its = Arc::clone(&helper);
        start_thread(move || its.run())?;
        Ok(helper)
    }

    fn give(&self, order: Order) {
        let mut at = self.order();
        if matches!(order, Order::Sleep { .. }) {
            self.failed.store(0, StdOrdering::Relaxed);
        }
        *at = order;
        self.control.fetch_add(1, StdOrdering::Release);
        drop(at);
        futex::wake_all(&self.control);
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> Option<Errno> {
        match self.failed.load(StdOrdering::Relaxed) {
            0 => None,
            errno => Some(Errno::from_raw_os_error(errno)),
        }
    }

    /// Takes the order. The helper is inside from here on: it does not begin a withdrawn order.
    fn take_order(&self) -> Order {
        let order = self.order();
        if matches!(*order, Order::Sleep { .. }) {
            self.inside.store(1, StdOrdering::Relaxed);
        }
        order.clone()
    }

    /// Notes that the helper has left its group.
    fn leave(&self, control: u32, slept: Result<(), Errno>) {
        if let Err(errno) = slept
            && !matches!(errno, Errno::AGAIN | Errno::INTR)
        {
            let _order = self.order();
            // The words of a withdrawn order may be unmapped by now, which is no error.
            if self.control.load(StdOrdering::Relaxed) == control {
                self.failed.store(errno.raw_os_error(), StdOrdering::Relaxed);
            }
        }
        self.inside.store(0, StdOrdering::Release);
        self.notifications.fetch_add(1, StdOrdering::Release);
        futex::wake_all(&self.notifications);
    }

    fn run(&self) {
        // Where libc has registered no list (musl, before the thread's first robust lock) there is
        // nothing to borrow.
        let list = robust::list_head().unwrap_or(core::ptr::null_mut());
        loop {
            // Acquire pairs with `give`. Before the order: if it changes meanwhile, the sleep ends
            // at once.
            let control = self.control.load(StdOrdering::Acquire);
            let own = Watch { word: &self.control, expected: control };
            let (words, passes_to) = match self.take_order() {
                Order::End => return,
                Order::Sleep { words, passes_to } => (words, passes_to),
                Order::Rest => {
                    // An error here could only concern this process's own word.
                    let _ = futex::wait_any(&[own], 0, Deadline::NEVER);
                    continue;
                }
            };
            let pass = WakeRelay::begin(list);
            if passes_to != 0 {
                // SAFETY: the address is of a registry's relay word, which is never unmapped
                // (registry.rs).
                pass.to(unsafe { &*core::ptr::with_exposed_provenance::<AtomicU32>(passes_to) });
            }
            // However the sleep ended: the caller looks at everything.
            self.leave(control, futex::wait_any_at(&words, own));
            // Until the caller has looked, or has died: `list_op_pending` stays as it is.
            while self.control.load(StdOrdering::Acquire) == control {
                let _ = futex::wait_any(&[own], 0, Deadline::NEVER);
            }
            drop(pass);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::thread;

    use super::*;
    use crate::sys::start_thread::join_started;

    const HELD: u32 = 7;
    const DEAD: u32 = 8;

    struct World {
        /// In the caller's own group.
        event: AtomicU32,
        /// In the helper's group: an owner's word, on which the kernel wakes one sleeper when the
        /// owner ends.
        owner: AtomicU32,
    }

    fn explore(test: impl Fn(Arc<World>) + Sync + Send + 'static) {
        crate::shim::explore(2, move || {
            test(Arc::new(World { event: AtomicU32::new(0), owner: AtomicU32::new(HELD) }))
        });
    }

    /// The caller's sleep ends for another reason, and then the owner ends, for which others may
    /// wait behind the caller's helper. If the helper takes the kernel's one wake-up, the caller
    /// must find the end, and wake them.
    #[test]
    fn loom_wait_threads_no_helper_takes_a_wake_up_after_the_last_look() {
        explore(|world| {
            let ends = Arc::clone(&world);
            let ends = thread::spawn(move || {
                ends.event.store(1, StdOrdering::Release);
                futex::wake_all(&ends.event);
                ends.owner.store(DEAD, StdOrdering::Release);
                futex::wake_one(&ends.owner)
            });
            let mut helpers = WaitThreads::new().unwrap();
            helpers.have(1).unwrap();
            let event = Watch { word: &world.event, expected: 0 };
            let owner = Watch { word: &world.owner, expected: HELD };
            let slept = helpers.wait(&[vec![event], vec![owner]], None, Deadline::NEVER);
            assert_eq!(slept, Ok(Wakeup::LookAgain));
            // Looks as `WaitList` does, which wakes the others if it finds an owner dead.
            let is_found = world.owner.load(StdOrdering::Acquire) == DEAD;
            let taken = ends.join().unwrap();
            assert!(is_found || taken == 0, "a wake-up that others need is lost");
            drop(helpers);
            join_started();
        });
    }
}
