//! A thread that waits for descriptors and futures, while none of the user's threads does.
//!
//! One for each domain so used, started at the first such use, named `outlive-wait`. It sleeps like
//! a set, on everything that is registered and on a word of this process, `changes`:
//!
//! | step of a registering thread | step of the reactor |
//! | --- | --- |
//! | adds itself to the list | c = changes |
//! | changes + 1, wake | takes in what is new in the list, drops what has left it |
//! | | looks at what is new or has changed; ready → out of the list, told once; starts again |
//! | | sleeps on {changes == c, all words, all owners} |
//!
//! So the reactor looks at whatever is registered before it sleeps on. A forked child has none of
//! its parent's threads: its first use starts another.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64 as StdAtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::source_list::SourceList;
use super::waiting_thread::{self, refused};
use crate::liveness::{Me, Registry};
use crate::shim::{AtomicU32, Ordering};
use crate::sys::futex::{self, Watch};
use crate::sys::identity;
use crate::sys::robust::WakeRelay;
use crate::wake::Waited;
use crate::{Deadline, Error};

/// See the file's head. Never freed.
pub(super) struct Reactor {
    registry: &'static Registry,
    /// The process whose thread it is.
    of: u64,
    /// Counts new registrations.
    changes: AtomicU32,
    registered: Mutex<Vec<Entry>>,
    next: StdAtomicU64,
    /// How often it has looked at a source.
    #[cfg(test)]
    looks: StdAtomicU64,
}

/// Sources that a future or a descriptor waits for.
struct Entry {
    id: u64,
    sources: Vec<Arc<dyn Waited>>,
    whom: Whom,
}

/// What the reactor tells when a source is ready.
pub(super) enum Whom {
    /// A future's task.
    Task(Waker),
    /// Any thread that polls this eventfd.
    Descriptor(Arc<OwnedFd>),
}

impl Whom {
    fn tell(self) {
        match self {
            // The executor's code: its panic must not end the thread that serves the others, too.
            Whom::Task(waker) => drop(catch_unwind(AssertUnwindSafe(|| waker.wake()))),
            // Full only after 2^64 - 2 writes: it is readable then.
            Whom::Descriptor(fd) => drop(rustix::io::write(&*fd, &1u64.to_ne_bytes())),
        }
    }
}

/// An entry on a reactor's list; when dropped, it leaves the list.
pub(super) struct Registration {
    reactor: &'static Reactor,
    id: u64,
}

/// All reactors that this process and its ancestors had.
static REACTORS: Mutex<Vec<&'static Reactor>> = Mutex::new(Vec::new());

/// After an error that it can report to no thread, the reactor looks again so much later.
const AFTER_ERROR: Duration = Duration::from_millis(10);

impl Reactor {
    /// Returns this process's reactor for that domain, and starts it if there is none.
    fn of(registry: &'static Registry) -> Result<&'static Reactor, Error> {
        let of = identity::this_process().map_err(|errno| refused(registry, errno))?;
        // As with malloc: a child forked from several threads, one of them in here, must not come
        // here before exec.
        let mut reactors = REACTORS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reactor) =
            reactors.iter().find(|b| b.of == of && core::ptr::eq(b.registry, registry))
        {
            return Ok(reactor);
        }
        let reactor: &'static Reactor = Box::leak(Box::new(Reactor {
            registry,
            of,
            changes: AtomicU32::new(0),
            registered: Mutex::new(Vec::new()),
            next: StdAtomicU64::new(0),
            #[cfg(test)]
            looks: StdAtomicU64::new(0),
        }));
        waiting_thread::start(registry, |me| reactor.run(me))?;
        reactors.push(reactor);
        Ok(reactor)
    }

    fn list(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        // Release pairs with the load in `run`: the list is as we left it.
        self.changes.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.changes);
    }

    fn run(&self, me: Me) {
        let mut sources = SourceList::new();
        // The count as of the last look at the list; none before the first.
        let mut known = None;
        let mut taken_in = 0;
        loop {
            let seen = self.changes.load(Ordering::Acquire);
            let is_changed = known.replace(seen) != Some(seen);
            if is_changed {
                let gone;
                {
                    let list = self.list();
                    gone =
                        sources.retain(|key| list.binary_search_by_key(&key, |one| one.id).is_ok());
                    let new = list.partition_point(|one| one.id < taken_in);
                    for one in &list[new..] {
                        one.sources
                            .iter()
                            .for_each(|source| sources.add(one.id, Arc::clone(source)));
                    }
                    taken_in = list.last().map_or(taken_in, |last| taken_in.max(last.id + 1));
                }
                // Not under the lock.
                drop(gone);
            }
            if self.tell_the_ready(&mut sources, is_changed) {
                // They are out of the list, and leave our list in the next round.
                known = None;
                continue;
            }
            let relay = WakeRelay::begin(me.list());
            let changes = Watch { word: &self.changes, expected: seen };
            if sources.sleep(self.registry, &relay, Some(changes), Deadline::NEVER).is_err() {
                let _ = futex::wait_any(&[changes], 0, Deadline::after(AFTER_ERROR));
            }
        }
    }

    fn tell_the_ready(&self, sources: &mut SourceList, is_explained: bool) -> bool {
        let mut ready = Vec::new();
        sources.look_at_new(self.registry, is_explained, |key, _| ready.push(key));
        #[cfg(test)]
        self.looks.store(sources.looks, Ordering::Relaxed);
        if ready.is_empty() {
            return false;
        }
        ready.sort_unstable();
        let told: Vec<Entry> =
            self.list().extract_if(.., |one| ready.binary_search(&one.id).is_ok()).collect();
        told.into_iter().for_each(|one| one.whom.tell());
        true
    }
}

impl Registration {
    /// Registers these sources: the reactor waits until one is ready, then tells `whom` once, and
    /// they leave the list.
    pub(super) fn take(
        registry: &'static Registry,
        sources: Vec<Arc<dyn Waited>>,
        whom: Whom,
    ) -> Result<Registration, Error> {
        let reactor = Reactor::of(registry)?;
        let id = {
            let mut list = reactor.list();
            // Relaxed: under the lock. So the list is in the order of its ids.
            let id = reactor.next.fetch_add(1, Ordering::Relaxed);
            list.push(Entry { id, sources, whom });
            id
        };
        reactor.notify();
        Ok(Registration { reactor, id })
    }

    /// Returns whether it is still on the list, and the reactor is this process's.
    pub(super) fn is_there(&self) -> bool {
        self.is_of_this_process()
            && self.reactor.list().binary_search_by_key(&self.id, |one| one.id).is_ok()
    }

    /// Makes the reactor tell another task. Returns false if it is no longer on the list.
    pub(super) fn tell_instead(&self, waker: &Waker) -> bool {
        if !self.is_of_this_process() {
            return false;
        }
        let mut list = self.reactor.list();
        let Ok(at) = list.binary_search_by_key(&self.id, |one| one.id) else { return false };
        if let Whom::Task(known) = &mut list[at].whom {
            known.clone_from(waker);
        }
        true
    }

    fn is_of_this_process(&self) -> bool {
        identity::this_process() == Ok(self.reactor.of)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.is_of_this_process() {
            return;
        }
        let left = {
            let mut list = self.reactor.list();
            list.binary_search_by_key(&self.id, |one| one.id).ok().map(|at| list.remove(at))
        };
        if left.is_some() {
            // So that the reactor drops the sources.
            self.reactor.notify();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Wake};
    use std::thread::Thread;
    use std::time::Instant;

    use super::*;
    use crate::Domain;
    use crate::sync::Event;

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    impl Reactor {
        /// How often it has looked, once it sleeps.
        fn looks(&self) -> u64 {
            let mut looks = self.looks.load(Ordering::Relaxed);
            let mut since = Instant::now();
            while since.elapsed() < Duration::from_millis(2) {
                std::thread::yield_now();
                let now = self.looks.load(Ordering::Relaxed);
                if now != looks {
                    (looks, since) = (now, Instant::now());
                }
            }
            looks
        }
    }

    /// The fewest looks of a wake, among futures that wait for other events.
    fn fewest_looks(domain: &Domain, idle: usize) -> u64 {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let events: Vec<Event> = (0..=idle)
            .map(|at| Event::open_or_create(domain, &format!("{idle}-{at}")).expect("made"))
            .collect();
        let mut waiting: Vec<_> =
            events[1..].iter().map(|event| Box::pin(event.wait_any_async(1))).collect();
        for future in &mut waiting {
            assert!(future.as_mut().poll(&mut context).is_pending());
        }
        let reactor = Reactor::of(domain.registry()).expect("there");
        let wakes = (0..10).map(|_| {
            let mut future = pin!(events[0].wait_any_async(1));
            assert!(future.as_mut().poll(&mut context).is_pending());
            let before = reactor.looks();
            events[0].set(1);
            while future.as_mut().poll(&mut context).is_pending() {
                std::thread::park_timeout(Duration::from_millis(1));
            }
            let looks = reactor.looks() - before;
            events[0].clear(1);
            looks
        });
        // A future that found its event before the reactor looked says nothing of that.
        wakes.filter(|looks| *looks > 0).min().expect("some")
    }

    #[test]
    fn a_wake_looks_at_what_was_woken_alone() {
        let folder = std::env::temp_dir().join(format!("outlive-looks-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let (few, many) = (fewest_looks(&domain, 2), fewest_looks(&domain, 200));
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!((1..=2).contains(&few) && many <= 2, "{few} and {many}");
    }
}
