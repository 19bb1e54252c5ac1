//! Nodes: processes that have a name in a domain; and what comes and goes there.

use std::collections::BTreeMap;

use outlive::node::{DomainContents, DomainWatch as Core, Node as CoreNode, NodeInfo as CoreInfo};
use outlive::wait::WaitSet;
use pyo3::prelude::*;

use crate::errors::Raised;
use crate::handle_mutex::HandleMutex;
use crate::open::{Left, Open};
use crate::wait_set::{descriptor, has_news};
use crate::waiting::Until;

/// The name that this process has in a domain, until it is closed or the process ends:
/// ``Domain.node`` makes it.
///
/// >>> domain = Domain(folder)
/// >>> with domain.node("planner", version="1.4", attributes={"host": "arm-7"}):
/// ...     [(node.name, node.version, node.attributes) for node in domain.nodes()]
/// [('planner', '1.4', {'host': 'arm-7'})]
/// >>> domain.nodes()
/// []
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Node {
    node: Open<CoreNode>,
    name: String,
    place: String,
}

impl Node {
    pub(crate) fn register(
        py: Python<'_>,
        domain: &outlive::Domain,
        name: &str,
        version: &str,
        attributes: Option<BTreeMap<String, String>>,
    ) -> PyResult<Node> {
        let mut options = domain.node(name).version(version);
        for (key, value) in attributes.iter().flatten() {
            options = options.attribute(key, value);
        }
        let node = Open::new(options.register().raised(py)?);
        let place = domain.path().display().to_string();
        Ok(Node { node, name: name.to_owned(), place })
    }
}

#[pymethods]
impl Node {
    /// This process's token.
    #[getter]
    fn token(&self) -> PyResult<u32> {
        Ok(self.node.get()?.token().as_u32())
    }

    /// Returns what other processes see of it.
    fn info(&self, py: Python<'_>) -> PyResult<NodeInfo> {
        self.node.get()?.info().raised(py).map(NodeInfo)
    }

    /// Gives the name up.
    fn close(&self) {
        self.node.close();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().node.get()?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(&self, exc_type: Left<'_, '_>, exc_value: Left<'_, '_>, traceback: Left<'_, '_>) {
        let _ = (exc_type, exc_value, traceback);
        self.close();
    }

    fn __repr__(&self) -> String {
        let Node { node, name, place } = self;
        let state = if node.get().is_ok() { "" } else { ": closed" };
        format!("<Node '{name}' in '{place}'{state}>")
    }
}

/// A process that has a name in a domain, as ``Domain.nodes`` found it.
#[pyclass(module = "outlive._outlive", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct NodeInfo(pub(crate) CoreInfo);

#[pymethods]
impl NodeInfo {
    /// Its name; empty if a process wrote over its file.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The version of its program, as the process gave it.
    #[getter]
    fn version(&self) -> &str {
        &self.0.version
    }

    /// Its attributes.
    #[getter]
    fn attributes(&self) -> BTreeMap<String, String> {
        pairs(&self.0.attributes)
    }

    /// Its process's token.
    #[getter]
    fn token(&self) -> u32 {
        self.0.token.as_u32()
    }

    /// Its process, in that process's pid namespace.
    #[getter]
    fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Its program's short name.
    #[getter]
    fn program(&self) -> &str {
        &self.0.program
    }

    fn __repr__(&self) -> String {
        format!("<NodeInfo {:?}: process {}>", self.0.name, self.0.pid)
    }
}

/// Returns attributes as a dictionary.
pub(crate) fn pairs(attributes: &outlive::Attributes) -> BTreeMap<String, String> {
    attributes.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Follows what appears in a domain and what vanishes from it: ``Domain.watch`` makes it. A
/// ``WaitSet`` waits for it among others. The death of a process that has a name is a change.
///
/// >>> domain = Domain(folder)
/// >>> watch = domain.watch()
/// >>> watch.changed()
/// ([], [])
/// >>> lock = Lock("total", domain)
/// >>> watch.changed()
/// (['total'], [])
/// >>> watch.changed(timeout=0) is None
/// True
/// >>> import asyncio
/// >>> async def follow():
/// ...     async for names, nodes in domain.watch():
/// ...         return names
/// >>> asyncio.run(follow())
/// ['total']
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct DomainWatch {
    pub(crate) handle: HandleMutex<Core>,
    set: HandleMutex<Option<WaitSet>>,
    domain: outlive::Domain,
}

/// What is in a domain: the names of all things, and the nodes.
type Contents = (Vec<String>, Vec<NodeInfo>);

impl DomainWatch {
    pub(crate) fn of(domain: &outlive::Domain) -> DomainWatch {
        let handle = HandleMutex::new(domain.watch());
        DomainWatch { handle, set: HandleMutex::new(None), domain: domain.clone() }
    }
}

#[pymethods]
impl DomainWatch {
    /// Waits until the contents differ from those returned last, and returns them: the names of all
    /// things, and the nodes; the first call returns at once. None when the timeout passed first.
    #[pyo3(signature = (timeout=None))]
    fn changed(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Contents>> {
        let until = Until::timeout(timeout)?;
        let Some(mut watch) = self.handle.lock_until(py, until)? else { return Ok(None) };
        let changed =
            watch.wait(py, until, |watch, deadline| watch.changed_until(deadline).transpose())?;
        let contents: Option<DomainContents> = changed.transpose().raised(py)?;
        Ok(contents.map(|now| (now.names, now.nodes.into_iter().map(NodeInfo).collect())))
    }

    /// Returns the next contents that differ, for ``asyncio``: as ``async for names, nodes in watch``.
    fn changed_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let ask = slf.getattr("_try_changed")?;
        slf.py().import("outlive._waiting")?.call_method1("take", (slf, ask))
    }

    fn _try_changed(&self, py: Python<'_>) -> PyResult<Option<Contents>> {
        self.changed(py, Some(0.0))
    }

    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        DomainWatch::changed_async(slf)
    }

    /// A descriptor that is readable when there may be a change, for event loops; see ``is_ready``.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        descriptor(py, &mut *self.set.lock(py)?, &self.domain, |set| {
            set.add(&*self.handle.lock(py)?).raised(py)
        })
    }

    /// Whether a look for a change is worth it. The descriptor is readable until this has returned
    /// False.
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        has_news(py, &mut *self.set.lock(py)?)
    }

    fn __repr__(&self) -> String {
        format!("<DomainWatch in '{}'>", self.domain.path().display())
    }
}
