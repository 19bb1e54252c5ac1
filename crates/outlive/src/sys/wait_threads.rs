//! Threads as a way to sleep on more words than one `futex_waitv` takes, where io_uring is not to be had: one for each group
//! after the first. Started when they are needed, named `outlive-wait`, and asleep in between.
//!
//! | words of this process | |
//! | --- | --- |
//! | `control`, one for each helper | raised when its order changes; it sleeps on that beside its group |
//! | `bell`, one for all | raised by a helper that has been woken; the caller sleeps on that beside the first group |
//!
//! A helper never reads a word of its group: the kernel does, and answers `EFAULT` for one that has been unmapped since. Its
//! own `list_op_pending` points where the caller's does, as long as it has an order: the caller's end may wake a helper of the
//! same process, which is about to end, too.

use std::sync::atomic::Ordering as StdOrdering;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::thread::futex::{self as rx, ClockId, Wait, WaitFlags, WaitPtr, WaitvFlags};

use super::clock::Deadline;
use super::futex::{self, MOST_WATCHES, Wakeup, Watch};
use super::robust::{self, PassOn};
use super::{Errno, identity};
use crate::shim::AtomicU32;

/// What the threads are called.
pub(crate) const NAME: &str = "outlive-wait";

/// See the file's head.
pub(crate) struct WaitThreads {
    bell: Arc<AtomicU32>,
    helpers: Vec<Arc<Helper>>,
    /// The process that they are threads of.
    of: u64,
}

struct Helper {
    control: AtomicU32,
    order: Mutex<Order>,
    bell: Arc<AtomicU32>,
}

enum Order {
    Rest,
    Sleep { words: Vec<(usize, u32)>, passes_to: usize },
    End,
}

impl WaitThreads {
    /// None yet.
    pub(crate) fn new() -> Result<WaitThreads, Errno> {
        Ok(WaitThreads { bell: Arc::new(AtomicU32::new(0)), helpers: Vec::new(), of: identity::this_process()? })
    }

    /// Whether they are this process's: a forked child has none.
    pub(crate) fn serve(&self) -> bool {
        identity::this_process() == Ok(self.of)
    }

    /// Sees to it that there are so many.
    ///
    /// # Errors
    /// Why one cannot be started; those that there are stay.
    pub(crate) fn have(&mut self, many: usize) -> Result<(), Errno> {
        while self.helpers.len() < many {
            self.helpers.push(Helper::start(&self.bell)?);
        }
        Ok(())
    }

    /// Sleeps until a word of one of the groups is woken or the deadline passes; returns at once when a word is not as
    /// expected. There is a helper for each group but the first. In each group the words are queued in the order given.
    /// Each group must leave room for one word more. `passes_to` is where the caller's `list_op_pending` points.
    pub(crate) fn wait(
        &self,
        groups: &[Vec<Watch<'_>>],
        passes_to: Option<&AtomicU32>,
        deadline: Deadline,
    ) -> Result<Wakeup, Errno> {
        let Some((first, others)) = groups.split_first() else { return Err(Errno::INVAL) };
        debug_assert!(groups.iter().all(|group| group.len() < MOST_WATCHES) && others.len() <= self.helpers.len());
        // Acquire pairs with the helpers' bump.
        let heard = self.bell.load(StdOrdering::Acquire);
        for (helper, group) in self.helpers.iter().zip(others) {
            let words = group.iter().map(|watch| (watch.word.as_ptr().expose_provenance(), watch.expected)).collect();
            let passes_to = passes_to.map_or(0, |word| word.as_ptr().expose_provenance());
            helper.give(Order::Sleep { words, passes_to });
        }
        let mut own: Vec<Watch<'_>> = first.clone();
        own.push(Watch { word: &self.bell, expected: heard });
        let slept = futex::wait_any(&own, 0, deadline);
        for helper in self.helpers.iter().take(others.len()) {
            helper.give(Order::Rest);
        }
        slept
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
    fn start(bell: &Arc<AtomicU32>) -> Result<Arc<Helper>, Errno> {
        let helper =
            Arc::new(Helper { control: AtomicU32::new(0), order: Mutex::new(Order::Rest), bell: Arc::clone(bell) });
        let its = Arc::clone(&helper);
        start_thread(move || its.run())?;
        Ok(helper)
    }

    fn give(&self, order: Order) {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = order;
        self.control.fetch_add(1, StdOrdering::Release);
        futex::wake_all(&self.control);
    }

    fn run(&self) {
        // Where libc has registered no list (musl, before the thread's first robust lock) there is nothing to borrow.
        let list = robust::list_head().unwrap_or(core::ptr::null_mut());
        loop {
            // Acquire pairs with `give`. Before the order: given another meanwhile, the sleep ends at once.
            let control = self.control.load(StdOrdering::Acquire);
            let own = Watch { word: &self.control, expected: control };
            let (words, passes_to) = match &*self.order.lock().unwrap_or_else(PoisonError::into_inner) {
                Order::End => return,
                Order::Rest => (None, 0),
                Order::Sleep { words, passes_to } => (Some(words.clone()), *passes_to),
            };
            let Some(words) = words else {
                // An error here would be one of the word's, which is ours.
                let _ = futex::wait_any(&[own], 0, Deadline::NEVER);
                continue;
            };
            let pass = PassOn::begin(list);
            if passes_to != 0 {
                // SAFETY: a registry's X, which is never unmapped.
                pass.to(unsafe { &*core::ptr::with_exposed_provenance::<AtomicU32>(passes_to) });
            }
            // Whatever came of it, an unmapped word included: the caller looks at everything.
            let _ = sleep_at(&words, own);
            self.bell.fetch_add(1, StdOrdering::Release);
            futex::wake_all(&self.bell);
            // Until it has looked, or has died: `list_op_pending` stays as it is.
            while self.control.load(StdOrdering::Acquire) == control {
                let _ = futex::wait_any(&[own], 0, Deadline::NEVER);
            }
            drop(pass);
        }
    }
}

/// Sleeps on words that may be unmapped meanwhile, in that order, and on one of ours.
fn sleep_at(words: &[(usize, u32)], own: Watch<'_>) -> Result<(), Errno> {
    let mut waits = [Wait::new(); MOST_WATCHES];
    let own = (own.word.as_ptr().expose_provenance(), own.expected);
    let mut len = 0;
    for (wait, &(address, expected)) in waits.iter_mut().zip(words.iter().chain([&own])) {
        wait.val = u64::from(expected);
        wait.uaddr = WaitPtr::new(core::ptr::with_exposed_provenance_mut(address));
        // Shared always: no PRIVATE among the flags.
        wait.flags = WaitFlags::SIZE_U32;
        len += 1;
    }
    rx::waitv(&waits[..len], WaitvFlags::empty(), None, ClockId::Monotonic).map(drop)
}

/// Starts a thread that is ours, in which the user's signal handlers do not run.
pub(crate) fn start_thread(body: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    // SAFETY: both sets are written before they are read; a mask of the calling thread's own.
    let before = unsafe {
        let (mut all, mut before) = (core::mem::zeroed(), core::mem::zeroed());
        libc::sigfillset(&raw mut all);
        super::check_pthread(libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before))?;
        before
    };
    let started = std::thread::Builder::new().name(NAME.to_owned()).stack_size(256 * 1024).spawn(body);
    // SAFETY: as above.
    super::check_pthread(unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut())
    })?;
    started.map(drop).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
}
