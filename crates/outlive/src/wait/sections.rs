//! A large set: what it costs to be woken depends on one source or one section, not on the set.
//!
//! The user's thread sleeps on the set's doorbell for the sources that have one (rung_list.rs). The
//! others are cut into sections. Each section has a thread of its own, started at the set's first
//! wait and named `outlive-wait`. The thread waits for its section as a small set waits
//! (source_list.rs), and repairs what such a sleeper must repair, also while the user's thread does
//! something else. The user's thread sleeps on one word for them, `bell`, and looks at the sources of
//! those sections alone that have rung it.
//!
//! | words of this process | |
//! | --- | --- |
//! | `armed`, one for each section | 1 from when the user's thread has found nothing there until the section's thread has found something, and has left its sleep |
//! | `bell`, one for each set | raised behind `armed` = 0; the user's thread sleeps on it |
//! | `control`, one for each section | raised when the section is armed, or its sources change; its thread sleeps on it beside its sources' words |
//!
//! | the user's thread | the section's thread |
//! | --- | --- |
//! | b = `bell` | sleeps, while the section is armed |
//! | looks at each section that is not armed; finds something → done | looks at its sources; finds nothing → sleeps again |
//! | `armed` = 1, `control` + 1, wake | finds something: `armed` = 0 |
//! | sleeps while `bell` == b | `bell` + 1, wake |
//!
//! A source that is ready stays in a section that is not armed, where each wait looks at it. In an
//! armed section a source that becomes ready wakes the section's thread by the source's own words,
//! so to leave it out is what a sleeper does. A thread that gets no processor delays what is told
//! of its section, and nothing else.
//!
//! Nothing here is shared memory: a death here leaves what a sleeper in a small set leaves. A
//! forked child has none of its parent's threads: its first wait starts others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::rung_list::RungList;
use super::source_list::SourceList;
use super::waiting_thread::{self, refused};
use crate::liveness::{Me, Registry};
use crate::shim::{AtomicU32, Ordering};
use crate::sys::futex::{self, Watch};
use crate::sys::robust::WakeRelay;
use crate::sys::{Errno, identity};
use crate::wake::{Readiness, SourceState, WaitList, WaitWords, Waited};
use crate::{Deadline, Error};

/// The most sources of a section: most kinds have one word, and the kernel watches 128.
pub(super) const MOST_IN_SECTION: usize = 100;

/// How long one sleep lasts at most where the kernel denies the fence.
const SHORT: Duration = Duration::from_millis(10);

/// See the file's head.
pub(super) struct Sections {
    registry: &'static Registry,
    /// The process whose threads they are.
    of: u64,
    bell: Arc<AtomicU32>,
    /// The sources that need no section.
    rung: Option<RungList>,
    /// It has asked for a doorbell. If none was free, it has sections for good; if it had no use for
    /// it, and gave it back, it asks again.
    has_asked: bool,
    many: WaitList,
    sections: Vec<Section>,
    /// Where the next look begins: the section that is reported first changes from one look to the
    /// next.
    turn: usize,
}

/// A section, as the user's thread sees it.
struct Section {
    /// In the order of their keys.
    sources: Vec<(u64, Arc<dyn Waited>)>,
    waiter: Arc<Waiter>,
}

/// What a section's thread and the user's share.
struct Waiter {
    registry: &'static Registry,
    bell: Arc<AtomicU32>,
    control: AtomicU32,
    armed: AtomicU32,
    orders: Mutex<Orders>,
}

#[derive(Default)]
struct Orders {
    /// New sources, in the order of their keys.
    added: Vec<(u64, Arc<dyn Waited>)>,
    removed: Vec<u64>,
    /// The thread has to end.
    ends: bool,
    /// How its sleep failed.
    failed: Option<Errno>,
}

impl Sections {
    /// Makes sections of these sources, in the order of their keys, and starts their threads.
    pub(super) fn of(
        registry: &'static Registry,
        sources: impl Iterator<Item = (u64, Arc<dyn Waited>)>,
    ) -> Result<Sections, Error> {
        let of = identity::this_process().map_err(|errno| refused(registry, errno))?;
        let bell = Arc::new(AtomicU32::new(0));
        let mut sections = Sections {
            registry,
            of,
            bell,
            rung: None,
            has_asked: false,
            many: WaitList::default(),
            sections: Vec::new(),
            turn: 0,
        };
        for (key, waited) in sources {
            sections.add(key, waited)?;
        }
        Ok(sections)
    }

    /// Returns whether the threads are this process's: a forked child has none.
    pub(super) fn serve(&self) -> bool {
        identity::this_process() == Ok(self.of)
    }

    /// Adds a source, whose key is greater than all before.
    pub(super) fn add(&mut self, key: u64, waited: Arc<dyn Waited>) -> Result<(), Error> {
        if waited.rung_count().is_some() && !core::mem::replace(&mut self.has_asked, true) {
            self.rung = RungList::new(self.registry);
        }
        if self.rung.as_mut().is_some_and(|rung| rung.add(key, &waited)) {
            return Ok(());
        }
        let with_room = |section: &&mut Section| section.sources.len() < MOST_IN_SECTION;
        let section = match self.sections.iter_mut().rev().find(with_room) {
            Some(section) => section,
            None => {
                let waiter = Waiter::start(self.registry, &self.bell)?;
                self.sections.push(Section { sources: Vec::new(), waiter });
                self.sections.last_mut().ok_or_else(|| refused(self.registry, Errno::AGAIN))?
            }
        };
        section.sources.push((key, Arc::clone(&waited)));
        section.waiter.order(|orders| orders.added.push((key, waited)));
        // The user's thread looks at the new source first.
        section.waiter.disarm();
        Ok(())
    }

    /// Removes a source.
    pub(super) fn remove(&mut self, key: u64) {
        if self.rung.as_mut().is_some_and(|rung| rung.remove(key)) {
            return;
        }
        for section in &mut self.sections {
            if let Ok(at) = section.sources.binary_search_by_key(&key, |(known, _)| *known) {
                section.sources.remove(at);
                section.waiter.order(|orders| orders.removed.push(key));
                return;
            }
        }
    }

    /// Reports what is ready in sections that are not armed, and arms those in which nothing is;
    /// with nothing ready, sleeps until the bell or the deadline. Returns whether something was.
    pub(super) fn wait(
        &mut self,
        deadline: Deadline,
        mut found: impl FnMut(u64, Readiness),
    ) -> Result<bool, Errno> {
        // Other sets have the doorbells of all its queues, or the queues were removed: it leaves its
        // own to a set that has use for it.
        if let Some(rung) = self.rung.take_if(|rung| rung.is_empty()) {
            rung.end();
            self.has_asked = false;
        }
        loop {
            // Acquire pairs with `ring`: a section that has rung by now is seen unarmed.
            let seen = self.bell.load(Ordering::Acquire);
            let mut is_any_ready = self.rung.as_mut().is_some_and(|rung| rung.look(&mut found));
            self.turn = (self.turn + 1) % self.sections.len().max(1);
            for section in self.sections[self.turn..].iter().chain(&self.sections[..self.turn]) {
                if section.waiter.is_armed() {
                    continue;
                }
                if section.look(&mut found) {
                    is_any_ready = true;
                } else {
                    section.waiter.arm()?;
                }
            }
            if is_any_ready || deadline.has_passed() {
                return Ok(is_any_ready);
            }
            self.sleep(seen, deadline)?;
        }
    }

    /// Sleeps until a section rings, or a notifier raises the doorbell.
    fn sleep(&mut self, seen: u32, deadline: Deadline) -> Result<(), Errno> {
        let bell = Watch { word: &self.bell, expected: seen };
        let Some(rung) = self.rung.as_mut().filter(|rung| !rung.is_empty()) else {
            return futex::wait_any(&[bell], 0, deadline).map(drop);
        };
        let (is_any_ready, is_fenced) = rung.prepare();
        if is_any_ready {
            return Ok(());
        }
        let (mut words, mut owners) = (WaitWords::new(), Vec::new());
        let mut until = rung.add_words(&mut words, &mut owners).earlier(deadline);
        if !is_fenced {
            until = until.earlier(Deadline::after(SHORT));
        }
        words.add(&[bell]);
        owners.sort_unstable_by_key(|owner| owner.as_u32());
        owners.dedup();
        let me = self.registry.me().map_err(|_| Errno::AGAIN)?;
        let relay = WakeRelay::begin(me.list());
        let slept = self.many.sleep(self.registry, &relay, words, &owners, true, until);
        // Relaxed: a hint.
        if !rung.is_raised() && self.bell.load(Ordering::Relaxed) == seen {
            // A recheck, or a signal.
            rung.look_at_all();
        }
        slept.map(drop)
    }
}

impl Section {
    /// Reports what is ready; returns whether something is.
    fn look(&self, found: &mut impl FnMut(u64, Readiness)) -> bool {
        self.sources.iter().fold(false, |is_any, (key, waited)| match waited.look() {
            SourceState::Ready(what) => {
                found(*key, what);
                true
            }
            _ => is_any,
        })
    }
}

impl Drop for Sections {
    fn drop(&mut self) {
        if self.serve() {
            if let Some(rung) = self.rung.take() {
                rung.end();
            }
            for section in &self.sections {
                section.waiter.order(|orders| orders.ends = true);
            }
        }
    }
}

impl Waiter {
    fn start(registry: &'static Registry, bell: &Arc<AtomicU32>) -> Result<Arc<Waiter>, Error> {
        let waiter = Arc::new(Waiter {
            registry,
            bell: Arc::clone(bell),
            control: AtomicU32::new(0),
            armed: AtomicU32::new(0),
            orders: Mutex::default(),
        });
        let its = Arc::clone(&waiter);
        waiting_thread::start(registry, move |me| its.run(me))?;
        Ok(waiter)
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders());
        self.wake();
    }

    fn wake(&self) {
        // Release pairs with the load in `run`: the orders, or `armed`, are as we left them.
        self.control.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.control);
    }

    fn is_armed(&self) -> bool {
        // Acquire pairs with `disarm`: what the section's thread saw is seen by our look.
        self.armed.load(Ordering::Acquire) != 0
    }

    /// Lets the section's thread wait for its sources; the user's thread has found nothing there.
    fn arm(&self) -> Result<(), Errno> {
        if let Some(errno) = self.orders().failed.take() {
            return Err(errno);
        }
        self.armed.store(1, Ordering::Relaxed);
        self.wake();
        Ok(())
    }

    fn disarm(&self) {
        // Release pairs with the user's thread, which looks at the sources behind it.
        self.armed.store(0, Ordering::Release);
    }

    /// Leaves the section to the user's thread.
    fn ring(&self) {
        self.disarm();
        // Release: behind `armed` = 0.
        self.bell.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.bell);
    }

    fn run(&self, me: Me) {
        let mut sources = SourceList::new();
        loop {
            // Before the orders: if they change meanwhile, the sleep ends at once.
            let seen = self.control.load(Ordering::Acquire);
            let own = Watch { word: &self.control, expected: seen };
            let (added, removed) = {
                let mut orders = self.orders();
                if orders.ends {
                    return;
                }
                (core::mem::take(&mut orders.added), core::mem::take(&mut orders.removed))
            };
            added.into_iter().for_each(|(key, waited)| sources.add(key, waited));
            drop(sources.retain(|key| !removed.contains(&key)));
            if self.armed.load(Ordering::Relaxed) == 0 {
                // An error here could only concern this process's own word.
                let _ = futex::wait_any(&[own], 0, Deadline::NEVER);
                continue;
            }
            let relay = WakeRelay::begin(me.list());
            let slept = sources.sleep(self.registry, &relay, Some(own), Deadline::NEVER);
            if let Err(errno) = slept {
                self.orders().failed = Some(errno);
            }
            // Relaxed: a hint. The order that has changed it is taken in the next round.
            let is_explained = self.control.load(Ordering::Relaxed) != seen;
            let mut is_any_ready = false;
            sources.look_at_new(self.registry, is_explained, |_, _| is_any_ready = true);
            if slept.is_err() || is_any_ready {
                self.ring();
            }
        }
    }
}
