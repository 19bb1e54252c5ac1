//! `WaitSet`: waiting for any of several sources.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outlive::state::Watch;
use outlive::topic::{Due, Presence, Writable};
use outlive::wait::{Key, Timer, WaitSet as Core};
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::call::Call;
use crate::client_watch::ClientWatch;
use crate::domain::{self, Peer};
use crate::errors::Raised;
use crate::event::Event;
use crate::handle_mutex::HandleMutex;
use crate::jobs::JobQueue;
use crate::latch::Latch;
use crate::named::{GivenDomain, counted};
use crate::node::DomainWatch;
use crate::notifier::Listener;
use crate::open::{Left, closed};
use crate::publisher::Publisher;
use crate::queue::Queue;
use crate::request::Request;
use crate::server::Server;
use crate::stand_by::StandBy;
use crate::state::State;
use crate::stream::Stream;
use crate::subscriber::Subscriber;
use crate::topic::Topic;
use crate::waiting::{Until, one_slice};

/// Waits for any of several sources: subscribers, queues (whose receiver this process becomes), job
/// queues, listeners, servers, requests, streams, calls, events, latches, peers' ends, timers, watches
/// of a domain or of a service's clients, and roles for which this process stands by (``StandBy``).
///
/// A state is ready for its present value, for each change, and when its writer dies; a topic when
/// its publishers or subscribers differ from the last report, of which the first comes at once;
/// a publisher as long as no reliable subscriber is in its way; a request or a stream when no client
/// waits for its replies any more.
///
/// >>> queue, event = Queue("jobs", folder), Event("stop", folder)
/// >>> waiting = WaitSet(folder)
/// >>> waiting.add(queue), waiting.add(event, bits=0b10)
/// (None, None)
/// >>> waiting.wait(timeout=0.01)
/// []
/// >>> event.set(0b10)
/// >>> waiting.wait() == [event]
/// True
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct WaitSet {
    handle: HandleMutex<Core>,
    domain: outlive::Domain,
    /// Apart from the set, so that the garbage collector can look at them.
    sources: std::sync::Mutex<Vec<(Key, Py<PyAny>)>>,
}

#[pymethods]
impl WaitSet {
    #[new]
    #[pyo3(signature = (domain=None))]
    fn new(py: Python<'_>, domain: GivenDomain<'_, '_>) -> PyResult<WaitSet> {
        let domain = domain::of(py, domain, domain::open_or_create)?;
        let handle = HandleMutex::new(Core::new(&domain));
        Ok(WaitSet { handle, domain, sources: std::sync::Mutex::default() })
    }

    /// Adds a source to the set. ``bits``: of an event, any of which makes it ready.
    #[pyo3(signature = (source, *, bits=None))]
    fn add(&self, py: Python<'_>, source: &Bound<'_, PyAny>, bits: Option<u32>) -> PyResult<()> {
        let mut set = self.handle.lock(py)?;
        if bits.is_some() && !source.is_instance_of::<Event>() {
            return Err(PyTypeError::new_err("'bits' are an event's"));
        }
        let key = if let Ok(subscriber) = source.cast::<Subscriber>() {
            set.add(&*subscriber.get().handle.lock(py)?).raised(py)?
        } else if let Ok(queue) = source.cast::<Queue>() {
            queue.get().watch(py, &mut set)?
        } else if let Ok(jobs) = source.cast::<JobQueue>() {
            set.add(&jobs.get().queue).raised(py)?
        } else if let Ok(listener) = source.cast::<Listener>() {
            set.add(&*listener.get().handle.lock(py)?).raised(py)?
        } else if let Ok(event) = source.cast::<Event>() {
            set.add(&event.get().event.any_of(bits.unwrap_or(u32::MAX))).raised(py)?
        } else if let Ok(peer) = source.cast::<Peer>() {
            set.add(&peer.get().peer()).raised(py)?
        } else if let Ok(latch) = source.cast::<Latch>() {
            set.add(&*latch.get().latch.get()?).raised(py)?
        } else if let Ok(watch) = source.cast::<DomainWatch>() {
            set.add(&*watch.get().handle.lock(py)?).raised(py)?
        } else if let Ok(watch) = source.cast::<ClientWatch>() {
            set.add(&*watch.get().handle.lock(py)?).raised(py)?
        } else if let Ok(call) = source.cast::<Call>() {
            call.get().watch(py, &mut set)?
        } else if let Ok(request) = source.cast::<Request>() {
            let key = request.get().watch(py, &mut set)?;
            key.ok_or_else(|| PyRuntimeError::new_err("the request was answered already"))?
        } else if let Ok(server) = source.cast::<Server>() {
            set.add(&*server.get().handle.lock(py)?).raised(py)?
        } else if let Ok(free) = source.cast::<StandBy>() {
            set.add(&free.get().role).raised(py)?
        } else if let Ok(stream) = source.cast::<Stream>() {
            let key = stream.get().replies.watch(py, &mut set)?;
            key.ok_or_else(|| PyRuntimeError::new_err("the stream has been finished already"))?
        } else if let Ok(publisher) = source.cast::<Publisher>() {
            let room = publisher.get().writable(py)?;
            let key = set.add(&room).raised(py)?;
            let of = publisher.clone().unbind();
            self.push(key, Py::new(py, Room { room, of })?.into_any());
            return Ok(());
        } else if let Ok(state) = source.cast::<State>() {
            let watch = state.get().state.get()?.watch();
            let key = set.add(&watch).raised(py)?;
            self.push(key, News::of(py, Followed::State(watch), source)?);
            return Ok(());
        } else if let Ok(topic) = source.cast::<Topic>() {
            let presence = topic.get().topic.get()?.watch();
            let key = set.add(&presence).raised(py)?;
            self.push(key, News::of(py, Followed::Topic(presence), source)?);
            return Ok(());
        } else {
            let what = "a set waits for subscribers, publishers, topics, states, queues, job queues, servers, requests, streams, calls, events, latches, listeners, peers, roles to stand by for and watches of a domain or of a service's clients";
            return Err(PyTypeError::new_err(what));
        };
        self.push(key, source.clone().unbind());
        Ok(())
    }

    /// Adds a publisher's period: makes the publisher ready when it has published nothing for its
    /// period, once for each that passes. Another thread that waits so learns that the publisher's
    /// thread hangs. A publisher without a period is never ready.
    fn add_due(&self, py: Python<'_>, publisher: &Bound<'_, Publisher>) -> PyResult<()> {
        let due = publisher.get().due(py)?;
        let key = self.handle.lock(py)?.add(&due).raised(py)?;
        let of = publisher.clone().unbind();
        self.push(key, Py::new(py, Periods { due, of })?.into_any());
        Ok(())
    }

    /// Returns for which process the set waits, of a publisher that was added: the pid of the reliable
    /// subscriber that is furthest behind, and how many messages it has still to take. None without
    /// one that is waited for. The publisher's thread may be waiting meanwhile.
    fn slowest(
        &self,
        py: Python<'_>,
        publisher: &Bound<'_, Publisher>,
    ) -> PyResult<Option<(u32, u64)>> {
        let room = self.with(|sources| {
            let mut rooms = sources.iter().filter_map(|(_, one)| one.bind(py).cast::<Room>().ok());
            rooms.find(|room| room.get().of.is(publisher)).map(|room| room.get().room.clone())
        });
        let room = room.ok_or_else(|| PyKeyError::new_err("that publisher is not in the set"))?;
        Ok(room.slowest().map(|slowest| (slowest.who.pid, slowest.lag)))
    }

    /// Adds the parts of a request, or of the request to which a stream replies: makes it ready when
    /// ``next_part`` has a part, or returns None, or raises ``Cancelled``. Once that has returned None,
    /// only the last of these makes it ready; once it is answered, nothing does.
    fn add_parts(&self, py: Python<'_>, source: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut set = self.handle.lock(py)?;
        let key = if let Ok(request) = source.cast::<Request>() {
            request.get().watch_parts(py, &mut set)?
        } else if let Ok(stream) = source.cast::<Stream>() {
            stream.get().replies.watch_parts(py, &mut set)?
        } else {
            return Err(PyTypeError::new_err("parts are a request's, or a stream's"));
        };
        let over = || PyRuntimeError::new_err("the request was answered already");
        self.push(key.ok_or_else(over)?, source.clone().unbind());
        Ok(())
    }

    /// Adds a timer that makes ``name`` ready every so many seconds.
    #[pyo3(signature = (seconds, name=None))]
    fn every(&self, py: Python<'_>, seconds: f64, name: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let span = Duration::try_from_secs_f64(seconds).ok().filter(|span| !span.is_zero());
        let span = span.ok_or_else(|| PyValueError::new_err("a number of seconds, more than 0"))?;
        let timer = Py::new(
            py,
            Ticks { timer: Timer::every(span), name: name.map(|name| name.clone().unbind()) },
        )?;
        let key = self.handle.lock(py)?.add(&timer.get().timer).raised(py)?;
        self.push(key, timer.into_any());
        Ok(())
    }

    /// Removes a source from the set.
    fn remove(&self, py: Python<'_>, source: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut set = self.handle.lock(py)?;
        let mut gone = Vec::new();
        self.with(|sources| {
            while let Some(at) = sources.iter().position(|(_, known)| {
                known.is(source) || of(py, known).is_some_and(|of| of.is(source))
            }) {
                gone.push(sources.swap_remove(at));
            }
        });
        for (key, _) in &gone {
            set.remove(*key);
        }
        if gone.is_empty() { Err(PyKeyError::new_err("that is not in the set")) } else { Ok(()) }
    }

    /// Waits until a source is ready, and returns all that are, as they were added; a timer by its
    /// name; an empty list when the timeout passed.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<Py<PyAny>>> {
        let until = Until::timeout(timeout)?;
        let Some(mut inside) = self.handle.lock_until(py, until)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let ready = inside.wait(py, until, |set, deadline| match set.wait_until(deadline) {
            Err(error) => Some(Err(error)),
            Ok(ready) if ready.len() == 0 => None,
            Ok(ready) => {
                found.extend(ready.map(|(key, _)| key));
                Some(Ok(()))
            }
        })?;
        ready.unwrap_or(Ok(())).raised(py)?;
        self.names(py, &found)
    }

    /// Returns how many sources there are.
    fn __len__(&self) -> usize {
        self.with(|sources| sources.len())
    }

    /// A descriptor that is readable when a source is ready, until ``try_wait`` has found none.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        use std::os::fd::AsRawFd;
        Ok(self.handle.lock(py)?.as_fd().raised(py)?.as_raw_fd())
    }

    /// Returns all sources that are ready now.
    fn try_wait(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let found: Vec<Key> =
            self.handle.lock(py)?.try_wait().raised(py)?.map(|(key, _)| key).collect();
        self.names(py, &found)
    }

    /// Waits as ``wait``, for ``asyncio``.
    #[pyo3(signature = (timeout=None))]
    fn wait_async<'py>(
        slf: &Bound<'py, Self>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("outlive._waiting")?.call_method1("ready_of", (slf, timeout))
    }

    /// Closes the set: it forgets its sources, which stay open, and using it raises ``ValueError``.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let set = self.handle.close(py)?;
        drop(set);
        self.__clear__();
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        if slf.get().handle.is_closing() {
            return Err(closed());
        }
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Left<'_, '_>,
        exc_value: Left<'_, '_>,
        traceback: Left<'_, '_>,
    ) -> PyResult<()> {
        let _ = (exc_type, exc_value, traceback);
        self.close(py)
    }

    fn __repr__(&self) -> String {
        let state = match self.handle.is_closing() {
            true => "closed".to_owned(),
            false => counted(self.__len__() as u64, "source"),
        };
        format!("<WaitSet in '{}': {state}>", self.domain.path().display())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.sources.try_lock() {
            Ok(sources) => sources.iter().try_for_each(|(_, source)| visit.call(source)),
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        let gone = self.with(std::mem::take);
        drop(gone);
    }
}

impl WaitSet {
    fn push(&self, key: Key, source: Py<PyAny>) {
        self.with(|sources| sources.push((key, source)));
    }

    fn with<R>(&self, with: impl FnOnce(&mut Vec<(Key, Py<PyAny>)>) -> R) -> R {
        with(&mut self.sources.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Returns what was added under those keys; for a timer, its name.
    fn names(&self, py: Python<'_>, keys: &[Key]) -> PyResult<Vec<Py<PyAny>>> {
        let sources: Vec<Py<PyAny>> = self.with(|sources| {
            let find = |key: &Key| sources.iter().find(|(known, _)| known == key);
            keys.iter().filter_map(find).map(|(_, source)| source.clone_ref(py)).collect()
        });
        let name = |source: Py<PyAny>| {
            if let Ok(ticks) = source.bind(py).cast::<Ticks>() {
                ticks.get().timer.take();
                ticks.get().name.as_ref().map_or_else(|| py.None(), |name| name.clone_ref(py))
            } else if let Ok(periods) = source.bind(py).cast::<Periods>() {
                periods.get().due.take();
                periods.get().of.clone_ref(py).into_any()
            } else if let Ok(room) = source.bind(py).cast::<Room>() {
                room.get().of.clone_ref(py).into_any()
            } else if let Ok(news) = source.bind(py).cast::<News>() {
                news.get().tell();
                news.get().of.clone_ref(py)
            } else {
                source
            }
        };
        Ok(sources.into_iter().map(name).collect())
    }
}

/// One source that a task waits for, as `_waiting.py` does: made for one wait.
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Awaited {
    set: HandleMutex<Option<Core>>,
    domain: outlive::Domain,
}

impl Awaited {
    pub(crate) fn of(
        py: Python<'_>,
        domain: &outlive::Domain,
        source: &impl outlive::wait::Source,
    ) -> PyResult<Awaited> {
        let set = HandleMutex::new(Some(set_of(py, domain, source)?));
        Ok(Awaited { set, domain: domain.clone() })
    }
}

fn set_of(
    py: Python<'_>,
    domain: &outlive::Domain,
    source: &impl outlive::wait::Source,
) -> PyResult<Core> {
    let mut set = Core::new(domain);
    set.add(source).raised(py)?;
    Ok(set)
}

/// A thread's wait for one source of an object that others use meanwhile, as may a signal's handler:
/// it asks inside of the object, which never waits, and waits outside.
#[derive(Default)]
pub(crate) struct Outside(Option<Core>);

impl Outside {
    /// Makes the source of a wait, unless there is one: inside of its object, after the thread has
    /// asked in vain. What changes from now on makes it ready, so the thread asks once more before it
    /// waits. Returns whether it has done so.
    pub(crate) fn is_ready_to_wait<S: outlive::wait::Source>(
        &mut self,
        py: Python<'_>,
        domain: &outlive::Domain,
        source: impl FnOnce() -> S,
    ) -> PyResult<bool> {
        if self.0.is_some() {
            return Ok(true);
        }
        self.0 = Some(set_of(py, domain, &source())?);
        Ok(false)
    }

    /// Waits until asking is worth it, for one slice: an object that another thread has ended, or closed,
    /// makes no source ready.
    pub(crate) fn wait(&mut self, py: Python<'_>, until: Until) -> PyResult<()> {
        let Some(mut set) = self.0.take() else { return Ok(()) };
        one_slice(py, until, |deadline| set.wait_until(deadline).map(drop))?.raised(py)
    }
}

/// Waits in the set of an object that all its threads share, made by the first that has to wait, until a
/// look is worth it, for one slice. Of two threads that wait, the first may take what the second waits
/// for, an end too, after which nothing makes the set ready: so each looks again after a slice, and after
/// it has waited for the set.
pub(crate) fn wait_in(
    py: Python<'_>,
    place: &HandleMutex<Option<Core>>,
    until: Until,
    domain: &outlive::Domain,
    watch: impl FnOnce(&mut Core) -> PyResult<()>,
) -> PyResult<()> {
    let Some(mut set) = place.try_lock() else {
        return place.lock_until(py, until).map(drop);
    };
    let set = match &mut *set {
        Some(set) => set,
        none => {
            let mut made = Core::new(domain);
            watch(&mut made)?;
            none.insert(made)
        }
    };
    one_slice(py, until, |deadline| set.wait_until(deadline).map(drop))?.raised(py)
}

#[pymethods]
impl Awaited {
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        let none = |_: &mut Core| Err(closed());
        descriptor(py, &mut *self.set.lock(py)?, &self.domain, none)
    }

    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        has_news(py, &mut *self.set.lock(py)?)
    }
}

/// A timer in a set.
#[pyclass(module = "outlive._outlive", frozen)]
struct Ticks {
    timer: Timer,
    name: Option<Py<PyAny>>,
}

/// A publisher's period in a set.
#[pyclass(module = "outlive._outlive", frozen)]
struct Periods {
    due: Due,
    of: Py<Publisher>,
}

/// A publisher in a set.
#[pyclass(module = "outlive._outlive", frozen)]
struct Room {
    room: Writable,
    of: Py<Publisher>,
}

/// A state or a topic in a set, with what was reported of it.
#[pyclass(module = "outlive._outlive", frozen)]
struct News {
    /// Locked for a moment.
    followed: Mutex<Followed>,
    of: Py<PyAny>,
}

enum Followed {
    State(Watch),
    Topic(Presence),
}

impl News {
    fn of(py: Python<'_>, followed: Followed, source: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let news = News { followed: Mutex::new(followed), of: source.clone().unbind() };
        Ok(Py::new(py, news)?.into_any())
    }

    /// Takes what is new as reported: it is ready again at the next change.
    fn tell(&self) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        // An error is one of the object's own calls, too.
        match &mut *followed {
            Followed::State(watch) => drop(watch.try_changed()),
            Followed::Topic(presence) => drop(presence.try_changed()),
        }
    }
}

/// Returns the object that was added, where the set has another one in its place.
fn of<'py>(py: Python<'py>, source: &Py<PyAny>) -> Option<Bound<'py, PyAny>> {
    let source = source.bind(py);
    if let Ok(periods) = source.cast::<Periods>() {
        return Some(periods.get().of.bind(py).clone().into_any());
    }
    if let Ok(room) = source.cast::<Room>() {
        return Some(room.get().of.bind(py).clone().into_any());
    }
    Some(source.cast::<News>().ok()?.get().of.bind(py).clone())
}

/// Returns whether a look at an object is worth it, by its own set; without one a look finds out.
pub(crate) fn has_news(py: Python<'_>, set: &mut Option<outlive::wait::WaitSet>) -> PyResult<bool> {
    match set {
        Some(set) => Ok(set.try_wait().raised(py)?.next().is_some()),
        None => Ok(true),
    }
}

/// Returns the descriptor of an object's own set, which is made when first used.
pub(crate) fn descriptor(
    py: Python<'_>,
    set: &mut Option<outlive::wait::WaitSet>,
    domain: &outlive::Domain,
    add: impl FnOnce(&mut outlive::wait::WaitSet) -> PyResult<outlive::wait::Key>,
) -> PyResult<i32> {
    use std::os::fd::AsRawFd;
    let set = match set {
        Some(set) => set,
        none => {
            let mut made = outlive::wait::WaitSet::new(domain);
            add(&mut made)?;
            none.insert(made)
        }
    };
    Ok(set.as_fd().raised(py)?.as_raw_fd())
}
