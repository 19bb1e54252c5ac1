//! A thread that waits for descriptors and futures, while none of the user's threads does.
//!
//! One for each domain so used, started at the first such use, named `outlive-wait`. It sleeps like
//! a set, on everything that is registered and on a word of this process, `changes`:
//!
//! | step of a registering thread | step of the reactor |
//! | --- | --- |
//! | adds itself to the list | c = changes |
//! | changes + 1, wake | takes in what is new in the list, drops what has left it |
//! | | looks at all; ready → out of the list, told once; starts again |
//! | | sleeps on {changes == c, all words, all owners} |
//!
//! So the reactor looks at whatever is registered before it sleeps on. A forked child has none of
//! its parent's threads: its first use starts another.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64 as StdAtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::Waker;
use std::time::Duration;

use super::source_list::SourceList;
use crate::liveness::Registry;
use crate::shim::{AtomicU32, Ordering};
use crate::sys::futex::{self, Watch};
use crate::sys::robust::WakeRelay;
use crate::sys::{Errno, identity, start_thread};
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
        let refused =
            |errno| Error::from_errno("start a thread that waits in", registry.path(), errno);
        let of = identity::this_process().map_err(refused)?;
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
        }));
        let (tell, hear) = mpsc::channel();
        start_thread::start_thread(move || reactor.run(&tell)).map_err(refused)?;
        // The thread claims a token, as every sleeper on owners does.
        hear.recv().map_err(|_| refused(Errno::AGAIN))??;
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

    fn run(&self, ready: &mpsc::Sender<Result<(), Error>>) {
        let me = match self.registry.me() {
            Ok(me) => me,
            Err(error) => return drop(ready.send(Err(error))),
        };
        if ready.send(Ok(())).is_err() {
            return;
        }
        let mut source_list = SourceList::default();
        let mut taken_in = 0;
        loop {
            let seen = self.changes.load(Ordering::Acquire);
            let mut let_go = Vec::new();
            {
                let list = self.list();
                source_list.retain(
                    |key| list.binary_search_by_key(&key, |one| one.id).is_ok(),
                    &mut let_go,
                );
                for one in list.iter().filter(|one| one.id >= taken_in) {
                    one.sources
                        .iter()
                        .for_each(|source| source_list.add(one.id, Arc::clone(source)));
                }
                taken_in = list.last().map_or(taken_in, |last| taken_in.max(last.id + 1));
            }
            // Not under the lock: dropping the last source of a mapping unmaps it.
            drop(let_go);
            if self.tell_the_ready(&mut source_list) {
                continue;
            }
            let relay = WakeRelay::begin(me.list());
            let changes = Watch { word: &self.changes, expected: seen };
            if source_list.sleep(self.registry, &relay, Some(changes), Deadline::NEVER).is_err() {
                let _ = futex::wait_any(&[changes], 0, Deadline::after(AFTER_ERROR));
            }
        }
    }

    fn tell_the_ready(&self, source_list: &mut SourceList) -> bool {
        let mut ready = Vec::new();
        source_list.look(|key, _| ready.push(key));
        if ready.is_empty() {
            return false;
        }
        ready.sort_unstable();
        let told: Vec<Entry> =
            self.list().extract_if(.., |one| ready.binary_search(&one.id).is_ok()).collect();
        told.into_iter().for_each(|one| one.whom.tell());
        // The next round takes them out of the source list, as they are out of the list.
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
