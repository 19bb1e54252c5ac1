//! Domains, and the tokens of their threads and processes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use outlive::{DomainOptions, Error, TokenId, WaitError, WaitStrategy};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Raise, Raised, raise};
use crate::named::GivenDomain;
use crate::node::{DomainWatch, Node, NodeInfo, pairs};
use crate::open::{Left, closed};
use crate::waiting::{Until, detached, wait};

/// The folder in which processes find named objects: each object is opened in a domain.
///
/// ``Domain()`` is the one that ``OUTLIVE_DOMAIN`` names, else the configuration file, else
/// ``default`` below ``/dev/shm/outlive-UID``; a name without a ``/`` is one beside it, a path any folder. It is made
/// when missing; ``Domain.open`` opens one that exists, ``Domain.create_new`` makes one. With
/// ``group``, a group's name or number, the members of that group share it. Domains can be pickled,
/// inherited by ``fork``, and sent to other processes.
///
/// ``wait_strategy``: how all handles wait that this process makes in the domain from now on:
/// ``"spin"`` never sleeps, ``"block"`` sleeps at once, ``"adaptive"`` spins for a moment first. Not
/// given, it stays as it was; at first it is what the configuration file says for its domain, else
/// ``"adaptive"``.
///
/// >>> domain = Domain(folder)
/// >>> domain.path == folder
/// True
/// >>> domain.peer(domain.process_token()).alive
/// True
/// >>> lock = Lock("total", domain)
/// >>> domain.names()
/// {'total': 'mutex'}
/// >>> domain.remove("total")
#[pyclass(module = "outlive._outlive", frozen, eq)]
pub(crate) struct Domain {
    domain: outlive::Domain,
    is_closed: AtomicBool,
}

impl Domain {
    pub(crate) fn of(domain: outlive::Domain) -> Domain {
        Domain { domain, is_closed: AtomicBool::new(false) }
    }

    /// Returns the core's, unless this object was closed.
    fn get(&self) -> PyResult<&outlive::Domain> {
        if self.is_closed.load(Ordering::Relaxed) { Err(closed()) } else { Ok(&self.domain) }
    }
}

/// What unpickles a domain: a function, and its path and group.
type ReducedDomain<'py> = (Bound<'py, PyAny>, (OsString, Option<u32>));

impl PartialEq for Domain {
    fn eq(&self, other: &Domain) -> bool {
        self.domain.path() == other.domain.path()
    }
}

/// A group, as a caller names it.
#[derive(FromPyObject)]
enum Group {
    Id(u32),
    Name(String),
}

/// Returns the options of a domain: of one that the members of a group share, and of how this process
/// waits in it, as far as they are given.
fn options(
    py: Python<'_>,
    group: Option<Group>,
    wait_strategy: Option<&str>,
) -> PyResult<DomainOptions> {
    let mut options = outlive::Domain::options();
    if let Some(named) = wait_strategy {
        let known = STRATEGIES.iter().find(|(name, _)| *name == named);
        let (_, strategy) = known.ok_or_else(|| {
            PyValueError::new_err("wait_strategy is 'adaptive', 'spin' or 'block'")
        })?;
        options = options.wait_strategy(*strategy);
    }
    match group {
        None => Ok(options),
        Some(Group::Id(id)) => Ok(options.group(Some(id))),
        Some(Group::Name(name)) => options.group_named(&name).raised(py),
    }
}

const STRATEGIES: [(&str, WaitStrategy); 3] = [
    ("adaptive", WaitStrategy::Adaptive),
    ("spin", WaitStrategy::Spin),
    ("block", WaitStrategy::Block),
];

/// Returns a strategy's name.
pub(crate) fn strategy_name(strategy: WaitStrategy) -> &'static str {
    let known = STRATEGIES.iter().find(|(_, known)| *known == strategy);
    known.map_or("adaptive", |(name, _)| name)
}

/// Opens the domain in that folder, or that of that name, if it has no `/`; makes it if it does not
/// exist.
pub(crate) fn open_or_create(
    options: DomainOptions,
    place: &Path,
) -> Result<outlive::Domain, Error> {
    match place.to_str() {
        Some(name) if !name.contains('/') => options.open_or_create(name),
        _ => options.open_or_create_at(place),
    }
}

/// Opens the domain as [`open_or_create`] does, but it must exist.
pub(crate) fn open(options: DomainOptions, place: &Path) -> Result<outlive::Domain, Error> {
    match place.to_str() {
        Some(name) if !name.contains('/') => options.open(name),
        _ => options.open_at(place),
    }
}

/// Makes the domain, which must not exist.
fn create_new(options: DomainOptions, place: &Path) -> Result<outlive::Domain, Error> {
    match place.to_str() {
        Some(name) if !name.contains('/') => options.create_new(name),
        _ => options.create_new_at(place),
    }
}

/// Returns the domain that a caller names, opened by `open`.
pub(crate) fn of(
    py: Python<'_>,
    given: GivenDomain<'_, '_>,
    open: fn(DomainOptions, &Path) -> Result<outlive::Domain, Error>,
) -> PyResult<outlive::Domain> {
    let Some(given) = given.filter(|given| !given.is_none()) else {
        return outlive::Domain::open_default().raised(py);
    };
    if let Ok(domain) = given.cast::<Domain>() {
        return domain.get().get().cloned();
    }
    open(outlive::Domain::options(), &given.extract::<PathBuf>()?).raised(py)
}

#[pymethods]
impl Domain {
    #[new]
    #[pyo3(signature = (path=None, *, group=None, wait_strategy=None))]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        group: Option<Group>,
        wait_strategy: Option<&str>,
    ) -> PyResult<Domain> {
        let options = options(py, group, wait_strategy)?;
        let domain = match path {
            None => options.open_default(),
            Some(path) => open_or_create(options, &path),
        };
        domain.raised(py).map(Domain::of)
    }

    /// Opens an existing domain; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (path, *, group=None, wait_strategy=None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        group: Option<Group>,
        wait_strategy: Option<&str>,
    ) -> PyResult<Domain> {
        open(options(py, group, wait_strategy)?, &path).raised(py).map(Domain::of)
    }

    /// Makes a new domain; raises ``AlreadyExists`` if there is one.
    #[staticmethod]
    #[pyo3(signature = (path, *, group=None, wait_strategy=None))]
    fn create_new(
        py: Python<'_>,
        path: PathBuf,
        group: Option<Group>,
        wait_strategy: Option<&str>,
    ) -> PyResult<Domain> {
        create_new(options(py, group, wait_strategy)?, &path).raised(py).map(Domain::of)
    }

    /// The domain's folder.
    #[getter]
    fn path(&self) -> String {
        self.domain.path().to_string_lossy().into_owned()
    }

    /// How all handles wait that this process makes in the domain, unless an option of their own says
    /// otherwise: ``"adaptive"``, ``"spin"`` or ``"block"``.
    #[getter]
    fn wait_strategy(&self) -> &'static str {
        strategy_name(self.domain.wait_strategy())
    }

    /// Returns the calling thread's token: a number that names it to other threads, until it ends.
    fn token(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.get()?.token().raised(py)?.as_u32())
    }

    /// Returns this process's token.
    fn process_token(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.get()?.process_token().raised(py)?.as_u32())
    }

    /// Returns the owner of that token: to check whether it is alive, and to wait for its end.
    fn peer(&self, py: Python<'_>, token: u32) -> PyResult<Peer> {
        let domain = self.get()?;
        let known = domain.tokens().into_iter().find(|info| info.id.as_u32() == token);
        match known {
            Some(info) => Ok(Peer { domain: domain.clone(), token: info.id }),
            None => Err(raise(py, "BadName", format!("{token:#x} is no token of this domain"))),
        }
    }

    /// Returns what is in the domain: the kind of each name, as the program's ``list`` has it; None
    /// where that cannot be told (a damaged file, or one of another version).
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let domain = self.get()?;
        let entries = detached(py, || domain.entries()).raised(py)?;
        let names = PyDict::new(py);
        for entry in entries {
            names.set_item(entry.name, entry.kind.ok().map(|kind| kind.to_string()))?;
        }
        Ok(names)
    }

    /// Names this process in the domain, until the returned object is closed or the process ends.
    /// Raises ``AlreadyExists`` if it has a name there. A forked child has none until it takes one.
    #[pyo3(signature = (name, *, version="", attributes=None))]
    fn node(
        &self,
        py: Python<'_>,
        name: &str,
        version: &str,
        attributes: Option<BTreeMap<String, String>>,
    ) -> PyResult<Node> {
        Node::register(py, self.get()?, name, version, attributes)
    }

    /// Returns the living processes that have a name in the domain, sorted by it.
    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<NodeInfo>> {
        let domain = self.get()?;
        let nodes = detached(py, || domain.nodes()).raised(py)?;
        Ok(nodes.into_iter().map(NodeInfo).collect())
    }

    /// Returns the node of the process that a token belongs to; None if it has no name.
    fn node_of(&self, py: Python<'_>, token: u32) -> PyResult<Option<NodeInfo>> {
        let Some(token) = TokenId::from_u32(token) else { return Ok(None) };
        Ok(self.get()?.node_of(token).raised(py)?.map(NodeInfo))
    }

    /// Follows what appears in the domain and what vanishes from it: things and nodes.
    fn watch(&self) -> PyResult<DomainWatch> {
        Ok(DomainWatch::of(self.get()?))
    }

    /// Returns the attributes with which a thing was made.
    fn attributes(&self, py: Python<'_>, name: &str) -> PyResult<BTreeMap<String, String>> {
        Ok(pairs(&self.get()?.attributes(name).raised(py)?))
    }

    /// Returns what the payloads of a thing are, as its maker has described them:
    /// ``"Pose { x: f64 }"``; None if it has not.
    fn payload(&self, py: Python<'_>, name: &str) -> PyResult<Option<String>> {
        Ok(self.get()?.description(name).raised(py)?.map(|one| one.to_string()))
    }

    /// Returns this domain as an object by which things are made that carry those attributes, 4,080
    /// bytes in all, four for each pair counted. One that is there already must have them, or opening
    /// it raises ``BadOption``; so does opening anything by it when a key is empty, or all are too
    /// long.
    ///
    /// >>> domain = Domain(folder)
    /// >>> lock = Lock("speed", domain.with_attributes({"unit": "m/s"}))
    /// >>> domain.attributes("speed")
    /// {'unit': 'm/s'}
    fn with_attributes(&self, attributes: BTreeMap<String, String>) -> PyResult<Domain> {
        let pairs = attributes.iter().map(|(key, value)| (&**key, &**value));
        Ok(Domain::of(self.get()?.with_attributes(pairs)))
    }

    /// Removes a name. Processes that have the thing open go on using it together; a process that
    /// opens the name from now on makes a new one. Its memory is free when the last of the former
    /// has closed it. Raises ``NotFound`` if there is none, unless ``missing_ok``.
    #[pyo3(signature = (name, *, missing_ok=false))]
    fn remove(&self, py: Python<'_>, name: &str, missing_ok: bool) -> PyResult<()> {
        match self.get()?.remove(name) {
            Err(Error::NotFound { .. }) if missing_ok => Ok(()),
            removed => removed.raised(py),
        }
    }

    /// Brings into memory what this process has open in the domain, so many bytes of the calling
    /// thread's stack, and this package's code, so that the thread's later operations on shared
    /// memory are no page faults. What Python itself allocates is Python's.
    #[pyo3(signature = (stack_bytes=65536))]
    fn prefault(&self, py: Python<'_>, stack_bytes: usize) -> PyResult<()> {
        self.get()?.prefault(stack_bytes).raised(py)
    }

    /// Does the same as ``prefault``, and locks the memory, all but the code, so that the kernel does
    /// not take it away; raises an ``OSError`` that names ``RLIMIT_MEMLOCK`` when the kernel does not
    /// lock that much.
    #[pyo3(signature = (stack_bytes=65536))]
    fn lock_memory(&self, py: Python<'_>, stack_bytes: usize) -> PyResult<()> {
        self.get()?.lock_memory(stack_bytes).raised(py)
    }

    /// Cleans up after dead processes: their claims, objects and tokens. No process needs that to
    /// go on; it frees what no process happens to meet. The next holder of a dead process's lock is
    /// still told. With ``dry_run`` it only looks.
    ///
    /// Returns how many of what it found: claims, objects, tokens, quarantined (numbers of tokens
    /// that may be used again), ending (things of a process that is still ending), failed (things
    /// that could not be swept), and how many bytes went back to the system.
    #[pyo3(signature = (*, dry_run=false))]
    fn sweep<'py>(&self, py: Python<'py>, dry_run: bool) -> PyResult<Bound<'py, PyDict>> {
        let domain = self.get()?;
        let report = detached(py, || domain.sweep(dry_run)).raised(py)?;
        let found = PyDict::new(py);
        for (name, count) in [
            ("claims", u64::from(report.claims)),
            ("objects", u64::from(report.objects)),
            ("tokens", u64::from(report.tokens)),
            ("quarantined", u64::from(report.quarantined)),
            ("ending", u64::from(report.ending)),
            ("failed", report.failed.len() as u64),
            ("bytes", report.bytes),
        ] {
            found.set_item(name, count)?;
        }
        Ok(found)
    }

    /// Closes this object: using it raises ``ValueError``. What was opened by it stays open.
    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().get()?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(&self, exc_type: Left<'_, '_>, exc_value: Left<'_, '_>, traceback: Left<'_, '_>) {
        let _ = (exc_type, exc_value, traceback);
        self.close();
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<ReducedDomain<'py>> {
        let reopen = slf.py().import("outlive._reopen")?.getattr("reopen_domain")?;
        let domain = &slf.get().domain;
        // With its group: a member that did not make the folder is refused without it.
        Ok((reopen, (domain.path().as_os_str().to_owned(), domain.group_id())))
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.domain.path().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let closed = if self.get().is_err() { ": closed" } else { "" };
        format!("<Domain '{}'{closed}>", self.path())
    }
}

/// The owner of a token: a thread or a process.
///
/// >>> domain = Domain(folder)
/// >>> me = domain.peer(domain.token())
/// >>> me.alive, me.pid == os.getpid()
/// (True, True)
/// >>> me.wait_dead(timeout=0)
/// False
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Peer {
    domain: outlive::Domain,
    token: TokenId,
}

impl Peer {
    pub(crate) fn peer(&self) -> outlive::Peer {
        self.domain.peer(self.token)
    }
}

#[pymethods]
impl Peer {
    /// The token: a number, the same in all processes of the domain.
    #[getter]
    fn token(&self) -> u32 {
        self.token.as_u32()
    }

    /// Whether it is alive: loads of one cache line, and correct at once after its death.
    #[getter]
    fn alive(&self) -> bool {
        self.peer().is_alive()
    }

    /// Its process, in its own pid namespace; None when that is not known any more.
    #[getter]
    fn pid(&self) -> Option<u32> {
        self.peer().info().map(|info| info.pid)
    }

    /// Waits for its end; returns False when the timeout passed first.
    #[pyo3(signature = (timeout=None))]
    fn wait_dead(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let peer = self.peer();
        let ended =
            wait(py, Until::timeout(timeout)?, |deadline| match peer.wait_dead_until(deadline) {
                Err(WaitError::TimedOut) => None,
                other => Some(other),
            })?;
        match ended {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(WaitError::System(error))) => Err(error.raise(py)),
            Some(Err(other)) => Err(raise(py, "OutliveError", other)),
        }
    }

    fn __repr__(&self) -> String {
        let life = if self.alive() { "alive" } else { "dead" };
        let pid = self.pid().map_or_else(String::new, |pid| format!("process {pid}, "));
        format!(
            "<Peer {:#x} in '{}': {pid}{life}>",
            self.token.as_u32(),
            self.domain.path().display()
        )
    }
}
