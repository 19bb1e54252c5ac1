//! `StandBy`: a role as a wait set sees it that stands by for it.

use outlive::wait::StandBy as Core;
use pyo3::prelude::*;

use crate::named::Named;

/// A role for which a process stands by in a ``WaitSet``: a queue's receiver (``Queue.stand_by``), a
/// state's writer (``State.stand_by``) or a service's server (``Server.stand_by``). It is ready while no living process has the role; then ``wait_to_receive``,
/// ``wait_to_write`` or ``Server`` with a timeout of 0 takes it, unless another process was faster.
///
/// >>> server = Server("orders", folder)       # in another process, as a rule
/// >>> free, waiting = Server.stand_by("orders", folder), WaitSet(folder)
/// >>> waiting.add(free)
/// >>> waiting.wait(timeout=0)
/// []
/// >>> server.close()
/// >>> waiting.wait() == [free]
/// True
/// >>> successor = Server("orders", folder)
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct StandBy {
    pub(crate) role: Core,
    of: Named,
}

impl StandBy {
    pub(crate) fn new(role: Core, of: &Named) -> StandBy {
        StandBy { role, of: of.clone() }
    }
}

#[pymethods]
impl StandBy {
    /// The name of the queue, state or service.
    #[getter]
    fn name(&self) -> &str {
        &self.of.name
    }

    fn __repr__(&self) -> String {
        self.of.repr("StandBy", Ok(String::new()))
    }
}
