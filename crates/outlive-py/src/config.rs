//! `Config`: what the configuration files say.

use std::path::PathBuf;
use std::time::Duration;

use outlive::config::{Config as Core, Profile};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::domain::strategy_name;
use crate::errors::Raised;
use crate::named::counted;

/// What the configuration files say: ``Config.load`` reads them. ``topic``, ``publisher`` and
/// ``subscriber`` return what the profile of a topic says, as keyword arguments.
///
/// >>> path = folder + ".toml"
/// >>> with open(path, "w") as file:
/// ...     _ = file.write('''
/// ...     [[profile]]
/// ...     name = "camera"
/// ...     topics = ["camera.*"]
/// ...     depth = 4
/// ...     keep_last = 1
/// ...     ''')
/// >>> config = Config.load(path)              # `Config.load()` reads the user's and the system's
/// >>> os.remove(path)
/// >>> config.topic("camera.front")
/// {'depth': 4}
/// >>> topic = Topic("camera.front", folder, **config.topic("camera.front"))
/// >>> subscriber = topic.subscriber(**config.subscriber("camera.front"))
/// >>> topic.config["depth"], config.profile("lidar")
/// (4, None)
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Config(Core);

/// Keyword arguments, as far as the profile says them.
struct Said<'py>(Bound<'py, PyDict>);

impl<'py> Said<'py> {
    fn add<T: IntoPyObject<'py>>(self, name: &str, value: Option<T>) -> PyResult<Said<'py>> {
        if let Some(value) = value {
            self.0.set_item(name, value)?;
        }
        Ok(self)
    }

    fn span(self, name: &str, value: Option<Duration>) -> PyResult<Said<'py>> {
        let seconds = |span: Duration| match span {
            Duration::MAX => f64::INFINITY,
            span => span.as_secs_f64(),
        };
        self.add(name, value.map(seconds))
    }
}

impl Config {
    fn said<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        tell: impl FnOnce(Said<'py>, &Profile) -> PyResult<Said<'py>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let said = Said(PyDict::new(py));
        match self.0.profile_for(topic) {
            Some(profile) => Ok(tell(said, profile)?.0),
            None => Ok(said.0),
        }
    }
}

#[pymethods]
impl Config {
    /// Reads that file alone, or without a ``path`` the files of ``$OUTLIVE_CONFIG``, of the user and
    /// of the system, as far as they exist. Raises ``BadOption``, with the file, the line and the
    /// column, when one has a fault, and ``NotFound`` when ``path`` is not there.
    #[staticmethod]
    #[pyo3(signature = (path=None))]
    fn load(py: Python<'_>, path: Option<PathBuf>) -> PyResult<Config> {
        let config = match path {
            Some(path) => Core::load_file(path),
            None => Core::load(),
        };
        config.raised(py).map(Config)
    }

    /// The files that were read, the most important first.
    #[getter]
    fn files(&self) -> Vec<PathBuf> {
        self.0.files().to_vec()
    }

    /// The default domain, a name or a path; None if no file says it.
    #[getter]
    fn domain(&self) -> Option<&str> {
        self.0.domain()
    }

    /// The group that shares the default domain, by name or number; None if no file says it.
    #[getter]
    fn group(&self) -> Option<&str> {
        self.0.group()
    }

    /// The most bytes that all things of the default domain may take together; None if no file says
    /// it.
    #[getter]
    fn budget(&self) -> Option<u64> {
        self.0.budget()
    }

    /// How all handles wait in the domain that the file names, ``"adaptive"``, ``"spin"`` or
    /// ``"block"``; None if no file says it. ``Domain()`` heeds it.
    #[getter]
    fn wait_strategy(&self) -> Option<&'static str> {
        self.0.wait_strategy().map(strategy_name)
    }

    /// Returns the name of the profile that holds for the topic of that name: of the first that has
    /// a pattern which fits; None if there is none.
    fn profile(&self, topic: &str) -> Option<&str> {
        self.0.profile_for(topic).map(|profile| &*profile.name)
    }

    /// Returns what the profile of that topic says of topics: arguments of ``Topic``.
    fn topic<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        self.said(py, name, |said, profile| {
            said.add("depth", profile.depth)?
                .add("max_bytes", profile.max_bytes)?
                .add("max_publishers", profile.max_publishers)?
                .add("max_subscribers", profile.max_subscribers)?
                .add("max_samples", profile.max_samples)?
                .add("stamps", profile.stamps)?
                // A profile is for both sides: where it wants subscribers to be reliable, the topic
                // offers it.
                .add("reliable", profile.reliable.filter(|wanted| *wanted))?
                .add("durability", profile.durability.map(|durability| durability.to_string()))?
                .add("mode", profile.mode)
        })
    }

    /// Returns what the profile of that topic says of publishers: arguments of ``Topic.publisher``.
    fn publisher<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        self.said(py, name, |said, profile| {
            said.span("max_blocking", profile.max_blocking)?
                .span("lifespan", profile.lifespan)?
                .span("period", profile.publisher_period)
        })
    }

    /// Returns what the profile of that topic says of subscribers: arguments of
    /// ``Topic.subscriber``.
    fn subscriber<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        self.said(py, name, |said, profile| {
            said.add("reliable", profile.reliable)?
                .add("history", profile.history)?
                .add("keep_last", profile.keep_last)?
                .add("keys", profile.keys.clone())?
                .span("period", profile.period)?
                .add("sessions", profile.sessions)?
                .span("max_age", profile.max_age)?
                .span("liveliness", profile.liveliness)
        })
    }

    fn __repr__(&self) -> String {
        let files = counted(self.0.files().len() as u64, "file");
        format!("<Config of {files}: {}>", counted(self.0.profiles().len() as u64, "profile"))
    }
}
