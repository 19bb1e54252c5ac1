//! `Topic`.

use std::sync::Arc;
use std::time::Duration;

use outlive::describe::Description;
use outlive::topic::{
    Durability, Header, PublisherOptions, SubscriberOptions, Topic as CoreTopic, TopicOptions,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::described::{self, Described};
use crate::domain;
use crate::errors::Raised;
use crate::gpu_library;
use crate::gpu_loan::GpuLoan;
use crate::gpu_topic::{Blocking, OnGpus};
use crate::named::{GivenDomain, Named, Reduced, counted};
use crate::open::{Left, Open};
use crate::publisher::Publisher;
use crate::subscriber::Subscriber;
use crate::waiting::Until;

/// Messages from many publishers to many subscribers, in shared memory: bytes, numpy arrays,
/// msgpack.
///
/// ``depth``: how many messages of each publisher are kept. ``max_bytes``: the most bytes that the
/// topic may take, messages included; where memory of short messages is reused for long ones, the
/// file may take up to 64 KiB more for each 2 MiB of it. ``stamps``: whether publishers stamp each
/// message with the time of day. ``reliable``: whether publishers wait for subscribers that ask for
/// it. ``durability``: what it keeps for later subscribers: nothing (``"volatile"``), messages of
/// living publishers (``"transient_local"``), or messages as long as they are not overwritten
/// (``"persistent"``). ``max_publishers``, ``max_subscribers``: how many of each there may be at a time,
/// up to 1,024; ``max_samples``: how many samples of more than 168 bytes a subscriber may hold, up to
/// 65,536. ``mode``: which members of the group that shares the domain may publish: ``0o660``, ``0o640``
/// (others than this user subscribe alone) or ``0o600`` (they cannot open it). A new topic has room for 62, 64 and 256, and 16 messages, stamps, no reliable delivery, what living
/// publishers have published, and at most a quarter of the file system; an existing one that was
/// made with another value than a given one raises ``BadOption``, which names all that differ;
/// with ``as_is`` it is taken as it is, and ``config`` says how that is.
///
/// ``payload``: what a message is, for all languages: a class with ``@outlive.payload``, a type of
/// numpy's (in a list: any number of them), or an encoding and a name, as in ``"json"`` or ``"cdr
/// geometry_msgs/msg/Pose"``; a topic whose messages are others raises ``WrongKind``, which names
/// the first field that differs.
///
/// In Rust it is a ``Topic<[u8]>``; ``Topic.open`` opens any existing topic, as bytes.
///
/// >>> topic = Topic("lidar", folder)
/// >>> subscriber = topic.subscriber()
/// >>> publisher = topic.publisher()
/// >>> with publisher.loan((2, 3), "float32") as points:   # in shared memory, published when the block ends
/// ...     points[:] = 1.5
/// >>> points = subscriber.recv(timeout=1.0).numpy()       # where it lies, read-only, never changes
/// >>> points.shape, float(points.sum())
/// ((2, 3), 9.0)
/// >>> topic                                               # doctest: +ELLIPSIS
/// <Topic 'lidar' in '...': 1 publisher, 1 subscriber>
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Topic {
    pub(crate) topic: Open<CoreTopic>,
    named: Named,
    gpus: Arc<OnGpus>,
}

/// How many of each a topic has room for.
#[derive(Clone, Copy)]
struct Most {
    publishers: Option<u32>,
    subscribers: Option<u32>,
    samples: Option<u32>,
}

impl Most {
    fn of(self, mut options: TopicOptions) -> TopicOptions {
        if let Some(publishers) = self.publishers {
            options = options.max_publishers(publishers);
        }
        if let Some(subscribers) = self.subscribers {
            options = options.max_subscribers(subscribers);
        }
        if let Some(samples) = self.samples {
            options = options.max_samples(samples);
        }
        options
    }
}

fn options(
    depth: Option<u32>,
    max_bytes: Option<u64>,
    stamps: Option<bool>,
    reliable: Option<bool>,
    durability: Option<Durability>,
    as_is: bool,
    payload: Option<Description>,
) -> TopicOptions {
    let mut options = CoreTopic::options();
    if as_is {
        options = options.as_is();
    }
    if let Some(payload) = payload {
        options = options.description(payload);
    }
    if let Some(depth) = depth {
        options = options.depth(depth);
    }
    if let Some(bytes) = max_bytes {
        options = options.max_bytes(bytes);
    }
    if let Some(stamps) = stamps {
        options = options.stamps(stamps);
    }
    if let Some(offered) = reliable {
        options = options.reliable(offered);
    }
    if let Some(durability) = durability {
        options = options.durability(durability);
    }
    options
}

/// Reads a durability.
pub(crate) fn read_durability(given: Option<&str>) -> PyResult<Option<Durability>> {
    match given {
        None => Ok(None),
        Some("volatile") => Ok(Some(Durability::Volatile)),
        Some("transient_local") => Ok(Some(Durability::TransientLocal)),
        Some("persistent") => Ok(Some(Durability::Persistent)),
        Some(other) => Err(PyValueError::new_err(format!(
            "durability is 'volatile', 'transient_local' or 'persistent', not {other:?}"
        ))),
    }
}

impl Topic {
    fn of(py: Python<'_>, (topic, named): (CoreTopic, Named)) -> PyResult<Topic> {
        let described = Described::new(topic.description().raised(py)?);
        let gpus = Arc::new(OnGpus::new(topic.clone(), named.clone(), described));
        Ok(Topic { topic: Open::new(topic), named, gpus })
    }
}

/// Reads a time in seconds; infinity is the longest.
fn span(what: &str, seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    if seconds == f64::INFINITY {
        return Ok(Some(Duration::MAX));
    }
    Duration::try_from_secs_f64(seconds)
        .map(Some)
        .map_err(|_| PyValueError::new_err(format!("{what} is a number of seconds, not negative")))
}

/// Reads the options of a publisher.
pub(crate) fn publisher_options(
    max_blocking: Option<f64>,
    period: Option<f64>,
    lifespan: Option<f64>,
) -> PyResult<PublisherOptions> {
    let mut options = PublisherOptions::default();
    if let Some(span) = span("max_blocking", max_blocking)? {
        options = options.max_blocking(span);
    }
    if let Some(period) = span("period", period)? {
        options = options.period(period);
    }
    if let Some(lifespan) = span("lifespan", lifespan)? {
        options = options.lifespan(lifespan);
    }
    Ok(options)
}

/// Reads the options of a subscriber.
#[expect(clippy::too_many_arguments, reason = "Python's keywords")]
pub(crate) fn subscriber_options(
    reliable: bool,
    history: u32,
    keep_last: Option<u32>,
    keys: Option<Vec<u64>>,
    period: Option<f64>,
    durability: Option<&str>,
    sessions: bool,
    max_age: Option<f64>,
    liveliness: Option<f64>,
) -> PyResult<SubscriberOptions> {
    let mut options =
        SubscriberOptions::default().reliable(reliable).history(history).sessions(sessions);
    if let Some(durability) = read_durability(durability)? {
        options = options.durability(durability);
    }
    if let Some(keys) = keys {
        options = options.keys(&keys);
    }
    if let Some(keep_last) = keep_last {
        options = options.keep_last(keep_last);
    }
    if let Some(period) = span("period", period)? {
        options = options.period(period);
    }
    if let Some(age) = span("max_age", max_age)? {
        options = options.max_age(age);
    }
    if let Some(lease) = span("liveliness", liveliness)? {
        options = options.liveliness(lease);
    }
    Ok(options)
}

#[pymethods]
impl Topic {
    #[new]
    #[pyo3(signature = (name, domain=None, *, depth=None, max_bytes=None, stamps=None, reliable=None, durability=None, as_is=false, payload=None, max_publishers=None, max_subscribers=None, max_samples=None, mode=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        depth: Option<u32>,
        max_bytes: Option<u64>,
        stamps: Option<bool>,
        reliable: Option<bool>,
        durability: Option<&str>,
        as_is: bool,
        payload: Option<&Bound<'_, PyAny>>,
        max_publishers: Option<u32>,
        max_subscribers: Option<u32>,
        max_samples: Option<u32>,
        mode: Option<u32>,
    ) -> PyResult<Topic> {
        let durability = read_durability(durability)?;
        let payload = described::given(payload)?;
        let options = options(depth, max_bytes, stamps, reliable, durability, as_is, payload);
        let most =
            Most { publishers: max_publishers, subscribers: max_subscribers, samples: max_samples };
        let options = most.of(options);
        let options = if let Some(mode) = mode { options.mode(mode) } else { options };
        let made = Named::make(py, name, domain, |d, n| options.open_or_create(d, n))?;
        Topic::of(py, made)
    }

    /// Opens the existing topic of that name, whatever its messages are; raises ``NotFound`` if
    /// there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    fn open(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<Topic> {
        let found = Named::find(py, name, domain, CoreTopic::open_as_bytes)?;
        Topic::of(py, found)
    }

    /// Makes a new topic of that name, with the constructor's options; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None, *, depth=None, max_bytes=None, stamps=None, reliable=None, durability=None, as_is=false, payload=None, max_publishers=None, max_subscribers=None, max_samples=None, mode=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn create_new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        depth: Option<u32>,
        max_bytes: Option<u64>,
        stamps: Option<bool>,
        reliable: Option<bool>,
        durability: Option<&str>,
        as_is: bool,
        payload: Option<&Bound<'_, PyAny>>,
        max_publishers: Option<u32>,
        max_subscribers: Option<u32>,
        max_samples: Option<u32>,
        mode: Option<u32>,
    ) -> PyResult<Topic> {
        let durability = read_durability(durability)?;
        let payload = described::given(payload)?;
        let options = options(depth, max_bytes, stamps, reliable, durability, as_is, payload);
        let most =
            Most { publishers: max_publishers, subscribers: max_subscribers, samples: max_samples };
        let options = most.of(options);
        let options = if let Some(mode) = mode { options.mode(mode) } else { options };
        let made = Named::make(py, name, domain, |d, n| options.create_new(d, n))?;
        Topic::of(py, made)
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

    /// numpy's type of a message's value, by the description that the topic has of its messages;
    /// None if it has none.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.gpus.described.dtype(py)?.map(|dtype| dtype.clone().unbind()))
    }

    /// The description that the topic has of its messages, as text; None if it has none.
    #[getter]
    fn payload(&self) -> Option<String> {
        self.gpus.described.text()
    }

    /// What it was made with: ``depth``, ``max_bytes``, ``stamps``, ``reliable``, ``durability``,
    /// ``max_publishers``, ``max_subscribers``, ``max_samples`` and ``mode``.
    #[getter]
    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.topic.get()?.config();
        let config = PyDict::new(py);
        config.set_item("depth", found.depth)?;
        config.set_item("max_bytes", found.max_bytes)?;
        config.set_item("stamps", found.stamps)?;
        config.set_item("reliable", found.reliable)?;
        config.set_item("durability", found.durability.to_string())?;
        config.set_item("max_publishers", found.max_publishers)?;
        config.set_item("max_subscribers", found.max_subscribers)?;
        config.set_item("max_samples", found.max_samples)?;
        config.set_item("mode", found.mode)?;
        Ok(config)
    }

    /// Makes a new publisher, of up to ``max_publishers``.
    ///
    /// ``max_blocking``: how many seconds a reliable subscriber may be in the way of a message; then
    /// publishing goes on without it, and its ``recv`` raises ``Lagged``. 0: not at all. None or
    /// ``math.inf``: for ever.
    ///
    /// ``period``: how often it means to publish, in seconds; each period that passes without a
    /// message is counted (``missed``), and ``WaitSet.add_due`` tells it.
    ///
    /// ``lifespan``: how many seconds a message counts, by its stamp; subscribers pass over an older
    /// one and count it (``expired``). Raises ``BadOption`` if the topic has no stamps.
    #[pyo3(signature = (*, max_blocking=None, period=None, lifespan=None))]
    fn publisher(
        &self,
        py: Python<'_>,
        max_blocking: Option<f64>,
        period: Option<f64>,
        lifespan: Option<f64>,
    ) -> PyResult<Publisher> {
        let options = publisher_options(max_blocking, period, lifespan)?;
        let publisher = self.topic.get()?.publisher_with(options).raised(py)?;
        Ok(Publisher::new(publisher, self.named.clone(), Arc::clone(&self.gpus)))
    }

    /// Makes a new subscriber, of up to ``max_subscribers``: it receives what is published from now on, and the last
    /// ``history`` messages of each publisher.
    ///
    /// ``reliable``: publishers wait for it, as long as it lives; raises ``BadOption`` if the topic
    /// does not offer that. ``keep_last``: the maximum lag,
    /// in messages. ``keys``: only messages with these keys. ``period``: receiving raises
    /// ``Missed`` when no message comes for so many seconds; each such period is counted
    /// (``missed``).
    ///
    /// ``durability``: which earlier messages to get at most; raises ``BadOption`` if the topic
    /// offers less. ``sessions``: ``recv`` raises ``NewSession`` before the first message of each
    /// start of a publisher. ``max_age``: messages older than so many seconds, by their stamps, are
    /// passed over and counted (``expired``); raises ``BadOption`` if the topic has no stamps.
    ///
    /// ``liveliness``: how many seconds a publisher may live and do nothing; then ``recv`` raises
    /// ``NotLively``, once, behind its messages, ``Lively`` when it does something again, and
    /// ``PublisherDied`` as soon as it has died.
    #[pyo3(signature = (*, reliable=false, history=0, keep_last=None, keys=None, period=None, durability=None, sessions=false, max_age=None, liveliness=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn subscriber(
        &self,
        py: Python<'_>,
        reliable: bool,
        history: u32,
        keep_last: Option<u32>,
        keys: Option<Vec<u64>>,
        period: Option<f64>,
        durability: Option<&str>,
        sessions: bool,
        max_age: Option<f64>,
        liveliness: Option<f64>,
    ) -> PyResult<Subscriber> {
        let options = subscriber_options(
            reliable, history, keep_last, keys, period, durability, sessions, max_age, liveliness,
        )?;
        let subscriber = self.topic.get()?.subscriber_with(options).raised(py)?;
        Ok(Subscriber::new(subscriber, self.named.clone(), Arc::clone(&self.gpus)))
    }

    /// Lends a GPU's memory for an array, to be written by work on the ``stream``: for ``with``,
    /// which publishes it at the end of its block, or gives it up when the block ends by an
    /// exception. The block gets a ``GpuArray``, which CuPy, PyTorch and others use as their own.
    ///
    /// No thread waits for the GPU: the message is copied into the topic, and becomes visible, when
    /// the stream has completed the work enqueued before the end of the block. It also waits for
    /// work on other streams if these took the array by DLPack. ``timeout``: how long it waits for
    /// reliable subscribers; then it raises, and the loan is still there. ``max_blocking``: how many
    /// seconds such a subscriber may be in the way, as of ``publisher``. Loans with another
    /// ``max_blocking`` are those of another publisher, which takes a place of ``max_publishers``.
    ///
    /// ``stream``: a number as CUDA has them, or an object of PyTorch's, CuPy's or another
    /// library's; None: the legacy default stream.
    ///
    /// If the process dies, or ends by itself, before the stream has got there, the message is
    /// never seen: see ``wait_gpu``.
    #[pyo3(signature = (shape, dtype=None, *, stream=None, device=0, key=0, frame=0, stamp=0, timeout=None, max_blocking=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn loan_gpu(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
        device: u32,
        key: u64,
        frame: u64,
        stamp: u64,
        timeout: Option<f64>,
        max_blocking: Option<f64>,
    ) -> PyResult<GpuLoan> {
        self.topic.get()?;
        let blocking = Blocking { max_blocking: span("max_blocking", max_blocking)?, timeout };
        let layout = gpu_library::layout(py, shape, dtype)?;
        let own = if dtype.is_some() { layout.to_own() } else { [0; 32] };
        let header = Header { key, frame, stamp, own };
        self.gpus.loan(py, layout, header, stream, device, blocking)
    }

    /// Waits until all work of this process's GPUs for this topic is done: copies completed,
    /// samples released, what was due published. Raises ``Timeout`` when that takes longer than so
    /// many seconds.
    #[pyo3(signature = (timeout=None))]
    fn wait_gpu(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.gpus.wait_over(py, Until::timeout(timeout)?)
    }

    /// Returns the living processes that publish, one entry for each publisher.
    fn publishers(&self) -> PyResult<Vec<u32>> {
        Ok(self.topic.get()?.publishers().into_iter().map(|holder| holder.pid).collect())
    }

    /// Returns the living processes that subscribe, one entry for each subscriber.
    fn subscribers(&self) -> PyResult<Vec<u32>> {
        Ok(self.topic.get()?.subscribers().into_iter().map(|holder| holder.pid).collect())
    }

    /// Closes this object: using it raises ``ValueError``. Its publishers, subscribers and samples
    /// stay open, and other processes keep the topic.
    fn close(&self) {
        self.topic.close();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().topic.get()?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(&self, exc_type: Left<'_, '_>, exc_value: Left<'_, '_>, traceback: Left<'_, '_>) {
        let _ = (exc_type, exc_value, traceback);
        self.close();
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().named.reduce(slf, &[])
    }

    fn __repr__(&self) -> String {
        let state = self.topic.get().map(|topic| {
            format!(
                "{}, {}",
                counted(topic.publishers().len() as u64, "publisher"),
                counted(topic.subscribers().len() as u64, "subscriber")
            )
        });
        self.named.repr("Topic", state)
    }
}
