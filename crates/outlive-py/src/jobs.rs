//! `JobQueue` and `Job`: a killed worker's job goes to another.

use std::cell::RefCell;

use outlive::jobs::{Job as CoreJob, JobQueue as Core, JobQueueOptions, SetAside as CoreSetAside};
use outlive::wait::WaitSet;
use outlive::{RecvError, SendError, WaitError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::bytes::Given;
use crate::domain;
use crate::errors::{Raised, raise};
use crate::handle_mutex::{HandleMutex, process};
use crate::msgpack;
use crate::named::{GivenDomain, Named, Reduced};
use crate::open::Left;
use crate::queue_ends::End;
use crate::waiting::{Until, detached, wait};

/// A queue of jobs for several workers, with acknowledgement: the job of a killed worker goes to
/// another.
///
/// ``put`` puts bytes, ``take`` takes a job, and the job is this process's until it is done or given
/// back, or the process ends. In a ``with`` block a job is done at the end, and given back when the
/// block raises. So each job is done at least once, and more than once only if its worker died or
/// gave it back (``Job.attempts``). A job that has been taken ``max_attempts`` times is set aside. A
/// *stopped* worker keeps its job.
///
/// Pickled, or inherited by ``fork`` or ``spawn``, it is the same queue.
///
/// >>> jobs = JobQueue("thumbnails", folder, max_attempts=2)
/// >>> jobs.put(b"cat.png"), jobs.put(b"dog.png")
/// (0, 1)
/// >>> with jobs.take() as job:
/// ...     job.data, job.attempts
/// (b'cat.png', 1)
/// >>> for _ in range(2):
/// ...     try:
/// ...         with jobs.take() as job:
/// ...             raise OSError("no such picture")
/// ...     except OSError:
/// ...         pass
/// >>> [(job.id, job.attempts, job.data) for job in jobs.set_aside()]
/// [(1, 2, b'dog.png')]
/// >>> jobs.join()                                 # all are done or set aside
/// >>> len(jobs), jobs.try_take() is None
/// (0, True)
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct JobQueue {
    // They are dropped in this order.
    set: HandleMutex<End<WaitSet>>,
    pub(crate) queue: Core,
    named: Named,
}

fn options(
    max_jobs: Option<u32>,
    job_bytes: Option<u32>,
    max_attempts: Option<u32>,
) -> JobQueueOptions {
    let mut options = Core::options();
    if let Some(jobs) = max_jobs {
        options = options.max_jobs(jobs);
    }
    if let Some(bytes) = job_bytes {
        options = options.job_bytes(bytes);
    }
    if let Some(attempts) = max_attempts {
        options = options.max_attempts(attempts);
    }
    options
}

impl JobQueue {
    fn of((queue, named): (Core, Named)) -> JobQueue {
        JobQueue { set: HandleMutex::new(None), queue, named }
    }

    fn put_bytes(&self, py: Python<'_>, bytes: &[u8], until: Option<Until>) -> PyResult<u64> {
        self.named.check()?;
        let full = |error: &SendError| {
            matches!(error, SendError::Full { .. } | SendError::TimedOut { .. })
        };
        match (self.queue.try_put(bytes), until) {
            (Err(error), Some(until)) if full(&error) => {
                let put =
                    wait(py, until, |deadline| match self.queue.put_until(bytes, deadline) {
                        Err(SendError::TimedOut { .. }) => None,
                        other => Some(other),
                    })?;
                put.unwrap_or(Err(SendError::TimedOut { slowest: None })).raised(py)
            }
            (put, _) => put.raised(py),
        }
    }

    fn take_job(&self, py: Python<'_>, until: Option<Until>) -> PyResult<Option<Job>> {
        self.named.check()?;
        let taken = match (self.queue.try_take().transpose(), until) {
            (None, Some(until)) => {
                wait(py, until, |deadline| self.queue.take_until(deadline).transpose())?
            }
            (taken, _) => taken,
        };
        taken.transpose().raised(py).map(|job| job.map(|job| Job::new(py, job, &self.named)))
    }
}

#[pymethods]
impl JobQueue {
    #[new]
    #[pyo3(signature = (name, domain=None, *, max_jobs=None, job_bytes=None, max_attempts=None))]
    fn new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        max_jobs: Option<u32>,
        job_bytes: Option<u32>,
        max_attempts: Option<u32>,
    ) -> PyResult<JobQueue> {
        let options = options(max_jobs, job_bytes, max_attempts);
        Named::make(py, name, domain, |d, n| options.open_or_create(d, n)).map(JobQueue::of)
    }

    /// Opens the existing job queue of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    fn open(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<JobQueue> {
        Named::find(py, name, domain, Core::open_as_bytes).map(JobQueue::of)
    }

    /// Makes a new job queue of that name, with the constructor's options; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None, *, max_jobs=None, job_bytes=None, max_attempts=None))]
    fn create_new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        max_jobs: Option<u32>,
        job_bytes: Option<u32>,
        max_attempts: Option<u32>,
    ) -> PyResult<JobQueue> {
        let options = options(max_jobs, job_bytes, max_attempts);
        Named::make(py, name, domain, |d, n| options.create_new(d, n)).map(JobQueue::of)
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.named.name
    }

    /// The domain that it is in.
    #[getter]
    fn domain(&self) -> domain::Domain {
        self.named.domain()
    }

    /// Puts a job, and returns its number. Waits while the queue holds as many jobs as it can, and
    /// raises ``Full`` after so many seconds. Once it has returned, the job outlives this process.
    #[pyo3(signature = (data, timeout=None))]
    fn put(&self, py: Python<'_>, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<u64> {
        let until = Until::timeout(timeout)?;
        Given::of(data)?.with(py, |bytes| self.put_bytes(py, bytes, Some(until)))?
    }

    /// Puts a job if there is room, else raises ``Full`` at once.
    fn try_put(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        Given::of(data)?.with(py, |bytes| self.put_bytes(py, bytes, None))?
    }

    /// Puts a value as msgpack: None, bool, int, float, str, bytes, list, tuple and dict;
    /// ``Job.msgpack`` reads it.
    #[pyo3(signature = (value, timeout=None))]
    fn put_msgpack(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<u64> {
        let until = Until::timeout(timeout)?;
        let raised = RefCell::new(None);
        let bytes = outlive::Msgpack(&msgpack::Value::new(value, &raised)).to_vec();
        match raised.into_inner() {
            Some(raised) => Err(raised),
            None => self.put_bytes(py, &bytes.raised(py)?, Some(until)),
        }
    }

    /// Takes the next job, a dead worker's first; raises ``Empty`` when none came for so many
    /// seconds.
    #[pyo3(signature = (timeout=None))]
    fn take(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Job> {
        let job = self.take_job(py, Some(Until::timeout(timeout)?))?;
        job.ok_or_else(|| raise(py, "Empty", "no job came until the deadline passed"))
    }

    /// Takes the next job, or returns None at once.
    fn try_take(&self, py: Python<'_>) -> PyResult<Option<Job>> {
        self.take_job(py, None)
    }

    /// Waits until all jobs are done or set aside; raises ``Timeout`` after so many seconds.
    #[pyo3(signature = (timeout=None))]
    fn join(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.named.check()?;
        let until = Until::timeout(timeout)?;
        let joined = wait(py, until, |deadline| match self.queue.join_until(deadline) {
            Err(WaitError::TimedOut) => None,
            other => Some(other),
        })?;
        joined.unwrap_or(Err(WaitError::TimedOut)).raised(py)
    }

    /// Makes room for so many jobs, and brings it into this process: each process of the queue calls it.
    /// Raises ``NoSpace`` when there is no room for all of it.
    fn prefault(&self, py: Python<'_>, jobs: usize) -> PyResult<()> {
        self.named.check()?;
        detached(py, || self.queue.prefault(jobs)).raised(py)
    }

    /// Returns how many jobs are waiting, taken and set aside, being_put, and put so far.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.queue.counts();
        let dict = PyDict::new(py);
        for (name, count) in [
            ("waiting", u64::from(counts.waiting)),
            ("taken", counts.taken.into()),
            ("set_aside", counts.set_aside.into()),
            ("being_put", counts.being_put.into()),
            ("put", counts.put),
        ] {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }

    /// Returns copies of the jobs that are set aside, in the order in which they were put: those
    /// that have been taken as often as allowed, those that a worker has set aside, and damaged
    /// ones (``SetAside.is_damaged``).
    fn set_aside(&self, py: Python<'_>) -> PyResult<Vec<SetAside>> {
        let jobs = self.queue.set_aside().raised(py)?;
        let copy = |job: CoreSetAside| SetAside {
            id: job.id,
            attempts: job.attempts,
            data: PyBytes::new(py, &job.data).unbind(),
            is_damaged: job.is_damaged,
            of: self.named.clone(),
        };
        Ok(jobs.into_iter().map(copy).collect())
    }

    /// Lets the job of that number be taken again, as if it had never been, or all jobs that are
    /// set aside; returns how many there were.
    #[pyo3(signature = (id=None))]
    fn retry(&self, id: Option<u64>) -> usize {
        id.map_or_else(|| self.queue.retry_all(), |id| usize::from(self.queue.retry(id)))
    }

    /// Removes the job of that number, which is set aside, for good; returns whether it was there.
    fn discard(&self, id: u64) -> bool {
        self.queue.discard(id)
    }

    /// Returns how many jobs wait to be taken now.
    fn __len__(&self) -> usize {
        self.queue.len()
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Waits for each job; does not end.
    fn __next__(&self, py: Python<'_>) -> PyResult<Job> {
        self.take(py, None)
    }

    /// Takes the next job, for ``asyncio``.
    fn take_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let ask = slf.getattr("try_take")?;
        slf.py().import("outlive._waiting")?.call_method1("take", (slf, ask))
    }

    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        JobQueue::take_async(slf)
    }

    /// A descriptor that is readable when there is a job, for event loops; see ``is_ready``.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        use std::os::fd::AsRawFd;
        let mut set = self.set.lock(py)?;
        let set = match &mut *set {
            Some((of, set)) if *of == process() => set,
            other => {
                let mut made = WaitSet::new(&self.named.domain);
                made.add(&self.queue).raised(py)?;
                &mut other.insert((process(), made)).1
            }
        };
        Ok(set.as_fd().raised(py)?.as_raw_fd())
    }

    /// Whether a take is worth a try. The descriptor is readable until this has returned False.
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        match &mut *self.set.lock(py)? {
            Some((of, set)) if *of == process() => Ok(set.try_wait().raised(py)?.next().is_some()),
            _ => Ok(!self.queue.is_empty()),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().named.reduce(slf, &[])
    }

    fn __repr__(&self) -> String {
        let state = self.named.check().map(|()| format!("{} waiting", self.queue.len()));
        self.named.repr("JobQueue", state)
    }

    /// Closes this object: using it raises ``ValueError``. Jobs that were taken by it stay this
    /// process's.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.named.close();
        let set = self.set.close(py)?;
        drop(set);
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().named.check()?;
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
}

/// A job that this process has, returned by ``JobQueue.take``: until ``done``, ``release`` or the
/// end of a ``with`` block. One that is forgotten is given back when it is collected.
///
/// >>> jobs = JobQueue("weld", folder)
/// >>> jobs.put_msgpack({"seam": 7})
/// 0
/// >>> job = jobs.take()
/// >>> job.msgpack(), job.id, len(job)
/// ({'seam': 7}, 0, 7)
/// >>> job.done()
/// >>> job.done()
/// Traceback (most recent call last):
/// RuntimeError: the job has been done, or given back
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct Job {
    job: HandleMutex<Option<CoreJob>>,
    data: Py<PyBytes>,
    id: u64,
    attempts: u32,
    of: Named,
}

impl Job {
    fn new(py: Python<'_>, job: CoreJob, of: &Named) -> Job {
        let data = PyBytes::new(py, &job).unbind();
        let (id, attempts) = (job.id(), job.attempts());
        Job { job: HandleMutex::new(Some(job)), data, id, attempts, of: of.clone() }
    }

    fn leave(
        &self,
        py: Python<'_>,
        how: impl FnOnce(CoreJob) -> Result<(), RecvError>,
    ) -> PyResult<()> {
        match self.job.lock(py)?.take() {
            Some(job) => how(job).raised(py),
            None => Err(PyRuntimeError::new_err("the job has been done, or given back")),
        }
    }
}

#[pymethods]
impl Job {
    /// The job's bytes.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.data.bind(py).clone()
    }

    /// The job's number, which no other job of this queue has.
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    /// How often the job has been taken, this time included. More than 1: a worker before has died
    /// or given it back, and may have done a part of it.
    #[getter]
    fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Deserializes the job from msgpack.
    fn msgpack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        msgpack::read(py, self.data.bind(py).as_bytes())
    }

    /// Acknowledges the job: it is done, and gone. Raises ``NotYours`` if another worker may have it
    /// (this is a forked child, or the process was taken for dead).
    fn done(&self, py: Python<'_>) -> PyResult<()> {
        self.leave(py, CoreJob::done)
    }

    /// Gives the job back: it is taken again, before all that were put after it; or set aside, if
    /// it has been taken as often as allowed.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.leave(py, CoreJob::release)
    }

    /// Sets the job aside, however often it has been taken.
    fn set_aside(&self, py: Python<'_>) -> PyResult<()> {
        self.leave(py, CoreJob::set_aside)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.data.bind(py).as_bytes().len()
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Left<'_, '_>,
        exc_value: Left<'_, '_>,
        traceback: Left<'_, '_>,
    ) -> PyResult<()> {
        let _ = (exc_value, traceback);
        // The block may have said itself what becomes of it.
        match self.job.lock(py)?.take() {
            Some(job) if exc_type.is_none() => job.done().raised(py),
            Some(job) => job.release().raised(py),
            None => Ok(()),
        }
    }

    fn __repr__(&self) -> String {
        self.of.repr("Job", Ok(format!("number {}, attempt {}", self.id, self.attempts)))
    }
}

/// A copy of a job that is set aside, returned by ``JobQueue.set_aside``.
///
/// >>> jobs = JobQueue("paint", folder)
/// >>> jobs.put_msgpack({"door": 3})
/// 0
/// >>> jobs.take().set_aside()
/// >>> job = jobs.set_aside()[0]
/// >>> job.msgpack(), job.id, job.attempts, job.is_damaged
/// ({'door': 3}, 0, 1, False)
/// >>> jobs.retry(job.id)
/// 1
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct SetAside {
    id: u64,
    attempts: u32,
    data: Py<PyBytes>,
    is_damaged: bool,
    of: Named,
}

#[pymethods]
impl SetAside {
    /// The job's number, for ``JobQueue.retry`` and ``JobQueue.discard``.
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    /// How often the job was taken.
    #[getter]
    fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The job's bytes.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.data.bind(py).clone()
    }

    /// Whether a stray write has damaged the job's length: ``data`` is then what lies in its place.
    /// Such a job can be discarded; each worker that takes it gets ``Damaged``.
    #[getter]
    fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Deserializes the job from msgpack.
    fn msgpack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        msgpack::read(py, self.data.bind(py).as_bytes())
    }

    fn __repr__(&self) -> String {
        let damaged = if self.is_damaged { ", damaged" } else { "" };
        let state = format!("number {}, taken {} times{damaged}", self.id, self.attempts);
        self.of.repr("SetAside", Ok(state))
    }
}
