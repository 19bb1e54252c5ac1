//! Things with a name: the three ways to open one, and pickling.
//!
//! | in Python | the name exists | it does not |
//! | --- | --- | --- |
//! | `Lock(name, ...)` | opened, if the options agree | made |
//! | `Lock.open(name)` | opened | `NotFound` |
//! | `Lock.create_new(name, ...)` | `AlreadyExists` | made |
//!
//! Each class says which call of the core's each of the three is, and nothing else.

use std::sync::atomic::{AtomicBool, Ordering};

use outlive::Domain;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::domain;
use crate::errors::{Raise, Raised};
use crate::open::closed;

/// The domain that a caller names: a `Domain`, a path, a name; `None` is the default one.
pub(crate) type GivenDomain<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Under which name a thing is open, and in which domain.
pub(crate) struct Named {
    pub(crate) domain: Domain,
    pub(crate) name: String,
    /// Of objects that stay mapped until they are collected: whether `close` was called.
    is_closed: AtomicBool,
}

impl Clone for Named {
    fn clone(&self) -> Named {
        Named::of(self.domain.clone(), self.name.clone())
    }
}

/// What unpickles a thing: a function, and its class, name, domain and options.
pub(crate) type Reduced<'py> =
    (Bound<'py, PyAny>, (Bound<'py, PyAny>, String, domain::Domain, Bound<'py, PyDict>));

impl Named {
    pub(crate) fn of(domain: Domain, name: String) -> Named {
        Named { domain, name, is_closed: AtomicBool::new(false) }
    }

    /// Raises `ValueError` once the object that has this name was closed by [`Named::close`].
    pub(crate) fn check(&self) -> PyResult<()> {
        if self.is_closed.load(Ordering::Relaxed) { Err(closed()) } else { Ok(()) }
    }

    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Opens or makes what has that name, by `make`; the domain too is made if it is missing.
    pub(crate) fn make<T, E: Raise>(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        make: impl FnOnce(&Domain, &str) -> Result<T, E>,
    ) -> PyResult<(T, Named)> {
        let domain = domain::of(py, domain, domain::open_or_create)?;
        Ok((make(&domain, &name).raised(py)?, Named::of(domain, name)))
    }

    /// Opens what has that name, by `open`; nothing is made.
    pub(crate) fn find<T, E: Raise>(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        open: impl FnOnce(&Domain, &str) -> Result<T, E>,
    ) -> PyResult<(T, Named)> {
        let domain = domain::of(py, domain, domain::open)?;
        Ok((open(&domain, &name).raised(py)?, Named::of(domain, name)))
    }

    pub(crate) fn domain(&self) -> domain::Domain {
        domain::Domain::of(self.domain.clone())
    }

    /// Returns how Python shows a thing of that class: with its name, its domain, and its state, of
    /// which an error says that it is closed.
    pub(crate) fn repr(&self, class: &str, state: PyResult<String>) -> String {
        let (name, path) = (&self.name, self.domain.path().display());
        match state {
            Ok(state) if state.is_empty() => format!("<{class} '{name}' in '{path}'>"),
            Ok(state) => format!("<{class} '{name}' in '{path}': {state}>"),
            Err(_) => format!("<{class} '{name}' in '{path}': closed>"),
        }
    }

    /// Returns the pickle of `thing`, which has this name: unpickled, it is opened with those
    /// options of its class's `open`, and never made.
    pub(crate) fn reduce<'py>(
        &self,
        thing: &Bound<'py, PyAny>,
        options: &[(&str, bool)],
    ) -> PyResult<Reduced<'py>> {
        let py = thing.py();
        let reopen = py.import("outlive._reopen")?.getattr("reopen")?;
        let class = thing.get_type().into_any();
        Ok((reopen, (class, self.name.clone(), self.domain(), options.into_py_dict(py)?)))
    }
}

/// Returns so many of them, in words.
pub(crate) fn counted(count: impl Into<u64>, one: &str) -> String {
    let count = count.into();
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}
