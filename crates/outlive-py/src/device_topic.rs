//! Topics whose payloads stay in GPU memory: `DeviceTopic`, its subscribers and samples. Arrays are
//! the blocks themselves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use outlive::Deadline;
use outlive::topic::{Header, PublisherOptions, Topic, TopicOptions};
use outlive_gpu::{Card, DeviceLoan, DevicePointer, DevicePublisher, GpuError, Stream};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::domain;
use crate::errors::{Raise, Raised};
use crate::gpu::{OnGpu, on_gpu, stream_number};
use crate::gpu_array::{GpuArray, Place};
use crate::gpu_library::{self, Where};
use crate::gpu_loan::{GpuLoan, Lent};
use crate::handle_mutex::HandleMutex;
use crate::layout::Layout;
use crate::named::{GivenDomain, Named};
use crate::open::{Left, Open, closed};
use crate::subscriber::nothing_came;
use crate::topic::{publisher_options, read_durability, subscriber_options};
use crate::waiting::{Until, detached, wait};

/// A topic whose messages stay in a GPU's memory: only a descriptor that says where goes from
/// process to process. All processes that use it use the same GPU.
///
/// What ``loan_gpu`` returns is the message itself, and so is what a sample gives by ``gpu``,
/// ``cupy`` and ``torch``: nothing is copied. A message becomes visible when its stream has got
/// there; a sample is held as long as an array of it exists, and until the streams that took it
/// have got there.
///
/// ``max_blocking``: how many seconds a reliable subscriber may be in the way of a loan; then
/// publishing goes on without it, and its ``recv`` raises ``Lagged``. None: for ever.
///
/// If a publisher's process dies, what it published stays for the processes that have its memory
/// mapped; others get ``PeerDied``. In Rust it is a ``DeviceTopic<u8>``.
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct DeviceTopic {
    end: Open<End>,
    device: u32,
    named: Named,
}

fn options(
    depth: Option<u32>,
    reliable: Option<bool>,
    durability: Option<&str>,
    as_is: bool,
) -> PyResult<TopicOptions<Card<u8>>> {
    let mut options = outlive_gpu::DeviceTopic::<u8>::options();
    if as_is {
        options = options.as_is();
    }
    if let Some(durability) = read_durability(durability)? {
        options = options.durability(durability);
    }
    if let Some(depth) = depth {
        options = options.depth(depth);
    }
    if let Some(offered) = reliable {
        options = options.reliable(offered);
    }
    Ok(options)
}

impl DeviceTopic {
    fn of((end, named): (End, Named)) -> DeviceTopic {
        DeviceTopic { device: end.on.number, end: Open::new(end), named }
    }
}

/// The topic, and the publisher of its loans.
struct End {
    on: Arc<OnGpu>,
    topic: outlive_gpu::DeviceTopic,
    /// The publisher's.
    options: PublisherOptions,
    /// Made with the first loan.
    publisher: OnceLock<DevicePublisher>,
    /// Locked by the thread that publishes.
    publishing: Arc<HandleMutex<()>>,
}

impl End {
    /// Returns the end of the topic that `open` opens or makes, in that domain.
    fn of(
        py: Python<'_>,
        on: Arc<OnGpu>,
        domain: &outlive::Domain,
        publishing: PublisherOptions,
        open: impl FnOnce() -> Result<Topic<Card<u8>>, outlive::Error> + Send,
    ) -> Result<End, GpuError> {
        let topic = detached(py, || outlive_gpu::DeviceTopic::new(&on.gpu, domain, open()?))?;
        Ok(End {
            on,
            topic,
            options: publishing,
            publisher: OnceLock::new(),
            publishing: Arc::new(HandleMutex::new(())),
        })
    }

    fn publisher(&self) -> Result<&DevicePublisher, GpuError> {
        if let Some(publisher) = self.publisher.get() {
            return Ok(publisher);
        }
        let made = self.topic.publisher_with(self.options)?;
        // Another thread was first: its publisher.
        Ok(self.publisher.get_or_init(|| made))
    }
}

/// A block that is lent: its array has it until it is published.
struct Block {
    address: DevicePointer,
    is_over: AtomicBool,
    streams: Mutex<Vec<Stream>>,
    /// The memory stays as long as this.
    _end: Arc<End>,
}

impl Block {
    fn streams(&self) -> MutexGuard<'_, Vec<Stream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place for Block {
    fn address(&self) -> DevicePointer {
        self.address
    }

    fn used_on(&self, stream: &Stream) {
        self.streams().push(stream.clone());
    }

    fn over(&self) -> Option<&'static str> {
        self.is_over
            .load(Ordering::Relaxed)
            .then_some("the loan was published or given back: its memory is others' now")
    }
}

struct InPlace {
    /// Until it is published or dropped.
    loan: Option<DeviceLoan>,
    block: Arc<Block>,
    end: Arc<End>,
}

impl InPlace {
    /// Returns the loan, told of the streams that write it.
    fn take(&mut self) -> Option<DeviceLoan> {
        self.block.is_over.store(true, Ordering::Relaxed);
        let mut loan = self.loan.take()?;
        self.block.streams().iter().for_each(|stream| loan.written_on(stream));
        Some(loan)
    }
}

impl Lent for InPlace {
    fn publishing(&self) -> Arc<HandleMutex<()>> {
        Arc::clone(&self.end.publishing)
    }

    fn wait_writable(&self, deadline: Deadline) -> Result<(), GpuError> {
        self.end.publisher()?.wait_writable_until(deadline)
    }

    fn publish(mut self: Box<Self>, stream: &Stream, deadline: Deadline) -> Result<(), GpuError> {
        let Some(loan) = self.take() else { return Ok(()) };
        self.end.publisher()?.publish_on_until(loan, stream, deadline)
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[pymethods]
impl DeviceTopic {
    #[new]
    #[pyo3(signature = (name, domain=None, *, device=0, depth=None, reliable=None, durability=None, as_is=false, max_blocking=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        device: u32,
        depth: Option<u32>,
        reliable: Option<bool>,
        durability: Option<&str>,
        as_is: bool,
        max_blocking: Option<f64>,
    ) -> PyResult<DeviceTopic> {
        let on = on_gpu(py, device)?;
        let options = options(depth, reliable, durability, as_is)?;
        let publishing = publisher_options(max_blocking, None, None)?;
        let end = |d: &_, n: &_| End::of(py, on, d, publishing, || options.open_or_create(d, n));
        Named::make(py, name, domain, end).map(DeviceTopic::of)
    }

    /// Opens the existing topic of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None, device=0, max_blocking=None))]
    fn open(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        device: u32,
        max_blocking: Option<f64>,
    ) -> PyResult<DeviceTopic> {
        let on = on_gpu(py, device)?;
        let publishing = publisher_options(max_blocking, None, None)?;
        let options = outlive_gpu::DeviceTopic::<u8>::options();
        let end = |d: &_, n: &_| End::of(py, on, d, publishing, || options.open(d, n));
        Named::find(py, name, domain, end).map(DeviceTopic::of)
    }

    /// Makes a new topic of that name, with the constructor's options; raises ``AlreadyExists`` if
    /// the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None, *, device=0, depth=None, reliable=None, durability=None, as_is=false, max_blocking=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn create_new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        device: u32,
        depth: Option<u32>,
        reliable: Option<bool>,
        durability: Option<&str>,
        as_is: bool,
        max_blocking: Option<f64>,
    ) -> PyResult<DeviceTopic> {
        let on = on_gpu(py, device)?;
        let options = options(depth, reliable, durability, as_is)?;
        let publishing = publisher_options(max_blocking, None, None)?;
        let end = |d: &_, n: &_| End::of(py, on, d, publishing, || options.create_new(d, n));
        Named::make(py, name, domain, end).map(DeviceTopic::of)
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

    /// The GPU's number.
    #[getter]
    fn device(&self) -> u32 {
        self.device
    }

    /// Lends a message's memory, to be written by work on the ``stream``: as ``Topic.loan_gpu``,
    /// but the array is the message. After the block it belongs to the subscribers: arrays made of
    /// it must not be used any more.
    #[pyo3(signature = (shape, dtype=None, *, stream=None, key=0, frame=0, stamp=0, timeout=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn loan_gpu(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
        key: u64,
        frame: u64,
        stamp: u64,
        timeout: Option<f64>,
    ) -> PyResult<GpuLoan> {
        Until::timeout(timeout)?;
        let end = self.end.get()?;
        let layout = gpu_library::layout(py, shape, dtype)?;
        let own = if dtype.is_some() { layout.to_own() } else { [0; 32] };
        let (len, number) = (gpu_library::len(py, &layout)?, stream_number(stream)?);
        on_gpu(py, end.on.number)?;
        let lent = detached(py, || {
            let (stream, mut loan) = (end.on.stream(number)?, end.publisher()?.loan(len)?);
            loan.set_header(Header { key, frame, stamp, own });
            Ok::<_, GpuError>((stream, loan))
        });
        let (stream, loan) = lent.raised(py)?;
        let block = Arc::new(Block {
            address: loan.address(),
            is_over: AtomicBool::new(false),
            streams: Mutex::new(vec![stream.clone()]),
            _end: Arc::clone(&end),
        });
        let array = GpuArray::new(block.clone(), &end.on, stream.clone(), layout);
        let lent = InPlace { loan: Some(loan), block, end };
        GpuLoan::new(py, Box::new(lent), array, stream, timeout)
    }

    /// How often its loans have stopped waiting for a reliable subscriber, which was in their way for
    /// longer than ``max_blocking``.
    #[getter]
    fn stopped_waiting(&self) -> PyResult<u64> {
        let end = self.end.get()?;
        Ok(end.publisher.get().map_or(0, DevicePublisher::stopped_waiting))
    }

    /// Makes a new subscriber, as ``Topic.subscriber``.
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
    ) -> PyResult<DeviceSubscriber> {
        let options = subscriber_options(
            reliable, history, keep_last, keys, period, durability, sessions, max_age, liveliness,
        )?;
        let end = self.end.get()?;
        on_gpu(py, end.on.number)?;
        let subscriber = end.topic.subscriber_with(options).raised(py)?;
        Ok(DeviceSubscriber {
            handle: HandleMutex::new(subscriber),
            on: Arc::clone(&end.on),
            of: self.named.clone(),
        })
    }

    /// Waits until all that this process has enqueued on streams is published and released. Raises
    /// ``Timeout`` when that takes longer than so many seconds.
    #[pyo3(signature = (timeout=None))]
    fn wait_gpu(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let end = self.end.get()?;
        let over = wait(py, Until::timeout(timeout)?, |deadline| {
            match end.topic.wait_over_until(deadline) {
                Err(GpuError::TimedOut) => None,
                other => Some(other),
            }
        })?;
        over.unwrap_or(Err(GpuError::TimedOut)).raised(py)?;
        // Reports what became of them.
        end.publisher
            .get()
            .map_or(Ok(()), |publisher| publisher.wait_published_timeout(Duration::ZERO))
            .raised(py)
    }

    /// Returns the living processes that publish, one entry for each publisher.
    fn publishers(&self) -> PyResult<Vec<u32>> {
        let end = self.end.get()?;
        Ok(end.topic.topic().publishers().into_iter().map(|holder| holder.pid).collect())
    }

    /// Returns the living processes that subscribe, one entry for each subscriber.
    fn subscribers(&self) -> PyResult<Vec<u32>> {
        let end = self.end.get()?;
        Ok(end.topic.topic().subscribers().into_iter().map(|holder| holder.pid).collect())
    }

    /// Closes this object: using it raises ``ValueError``. Its subscribers, samples and arrays stay.
    fn close(&self) {
        self.end.close();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().end.get()?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(&self, exc_type: Left<'_, '_>, exc_value: Left<'_, '_>, traceback: Left<'_, '_>) {
        let _ = (exc_type, exc_value, traceback);
        self.close();
    }

    fn __repr__(&self) -> String {
        self.named.repr("DeviceTopic", self.end.get().map(|_| format!("GPU {}", self.device)))
    }
}

/// Receives the messages of a device topic: an iterator that waits for each and does not end. Any
/// thread may use it, one at a time.
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct DeviceSubscriber {
    handle: HandleMutex<outlive_gpu::DeviceSubscriber>,
    on: Arc<OnGpu>,
    of: Named,
}

impl DeviceSubscriber {
    fn sample(&self, sample: outlive_gpu::DeviceSample) -> DeviceSample {
        let (len, header) = (sample.len(), sample.header());
        let array = Layout::of_own(&header.own, len);
        let is_array = array.is_some();
        let layout = array.unwrap_or_else(|| Layout::bytes(len));
        DeviceSample { sample, layout, is_array, header, on: Arc::clone(&self.on) }
    }

    fn take(&self, py: Python<'_>, until: Until) -> PyResult<DeviceSample> {
        on_gpu(py, self.on.number)?;
        let Some(mut inside) = self.handle.lock_until(py, until)? else {
            return Err(nothing_came(py));
        };
        // A message is there, and its publisher has not answered.
        let mut unanswered = false;
        let taken = inside.wait(py, until, |subscriber, deadline| {
            match subscriber.recv_until(deadline) {
                Ok(None) => {
                    unanswered = false;
                    None
                }
                Err(GpuError::TimedOut) => {
                    unanswered = true;
                    None
                }
                other => Some(other.map(|sample| sample.map(|sample| self.sample(sample)))),
            }
        })?;
        match taken {
            Some(taken) => taken.raised(py)?.ok_or_else(|| nothing_came(py)),
            None if unanswered => Err(GpuError::TimedOut.raise(py)),
            None => Err(nothing_came(py)),
        }
    }
}

#[pymethods]
impl DeviceSubscriber {
    /// Receives the next message, the oldest first, waiting for one; raises ``Timeout`` when none
    /// came for so many seconds. ``PeerDied``: its publisher's process died before its memory was
    /// mapped here; the message is skipped.
    #[pyo3(signature = (timeout=None))]
    fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<DeviceSample> {
        self.take(py, Until::timeout(timeout)?)
    }

    /// Receives the next message, or returns None at once.
    fn try_recv(&self, py: Python<'_>) -> PyResult<Option<DeviceSample>> {
        on_gpu(py, self.on.number)?;
        let mut inside = self.handle.lock(py)?;
        let subscriber = &mut *inside;
        Ok(detached(py, || subscriber.try_recv()).raised(py)?.map(|sample| self.sample(sample)))
    }

    /// Returns the newest message, taken before or not; None when there is none.
    fn latest(&self, py: Python<'_>) -> PyResult<Option<DeviceSample>> {
        on_gpu(py, self.on.number)?;
        let mut inside = self.handle.lock(py)?;
        let subscriber = &mut *inside;
        Ok(detached(py, || subscriber.latest()).raised(py)?.map(|sample| self.sample(sample)))
    }

    /// Messages that were overwritten or skipped before they were taken.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.handle.lock(py)?.lost())
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<DeviceSample> {
        self.take(py, Until::NEVER)
    }

    fn __repr__(&self) -> String {
        let state = if self.handle.is_closing() { Err(closed()) } else { Ok(String::new()) };
        self.of.repr("DeviceSubscriber", state)
    }

    /// Closes the subscriber: it gets no more messages, and using it raises ``ValueError``. Samples
    /// that it returned stay.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.close(py).map(drop)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        if slf.get().handle.is_closing() { Err(closed()) } else { Ok(slf) }
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

/// A message in a GPU's memory, where its publisher wrote it. It stays as it is as long as this or
/// an array of it exists.
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct DeviceSample {
    sample: outlive_gpu::DeviceSample,
    layout: Layout,
    is_array: bool,
    header: Header,
    on: Arc<OnGpu>,
}

/// An array's share of a sample.
struct Held {
    /// Until it is dropped.
    sample: outlive_gpu::DeviceSample,
    streams: Mutex<Vec<Stream>>,
    on: Arc<OnGpu>,
}

impl Place for Held {
    fn address(&self) -> DevicePointer {
        self.sample.address()
    }

    fn used_on(&self, stream: &Stream) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(stream.clone());
    }

    fn is_read_only(&self) -> bool {
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.on.is_ours() {
            for stream in self.streams.get_mut().unwrap_or_else(PoisonError::into_inner) {
                // On failure it is held as long as this process lives; or the stream is captured,
                // and its work is not ours.
                let _ = self.sample.hold_on(stream);
            }
        }
    }
}

#[pymethods]
impl DeviceSample {
    /// Returns the message, where it lies, for work on the ``stream``: read-only, though only
    /// DLPack of version 1 can say so. It is held as long as the array or what was made of it
    /// exists, and until the streams that took it have got there.
    #[pyo3(signature = (*, stream=None))]
    fn gpu(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<GpuArray> {
        on_gpu(py, self.on.number)?;
        let number = stream_number(stream)?;
        let stream = detached(py, || self.on.stream(number)).raised(py)?;
        let (sample, on) = (self.sample.clone(), Arc::clone(&self.on));
        let held = Held { sample, streams: Mutex::new(vec![stream.clone()]), on };
        Ok(GpuArray::new(Arc::new(held), &self.on, stream, self.layout.clone()))
    }

    /// Returns the message as a CuPy array, where it lies: do not write to it. ``stream``: None is
    /// CuPy's current one.
    #[pyo3(signature = (*, stream=None))]
    fn cupy<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        gpu_library::cupy(slf.as_any(), stream, Where::There(slf.get().on.number))
    }

    /// Returns the message as a PyTorch tensor, where it lies: do not write to it. ``stream``: None
    /// is PyTorch's current one.
    #[pyo3(signature = (*, stream=None))]
    fn torch<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        gpu_library::torch(slf.as_any(), stream, Where::There(slf.get().on.number))
    }

    /// The array's shape; of bytes: how many.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.layout.shape())
    }

    /// The array's type in numpy's short form; None of bytes.
    #[getter]
    fn dtype(&self) -> Option<String> {
        self.is_array.then(|| self.layout.numpy())
    }

    /// The GPU's number.
    #[getter]
    fn device(&self) -> u32 {
        self.on.number
    }

    /// As ``Sample.sequence``.
    #[getter]
    fn sequence(&self) -> u64 {
        self.sample.sequence()
    }

    /// As ``Sample.order``.
    #[getter]
    fn order(&self) -> u64 {
        self.sample.order()
    }

    /// The token of the process that published it: for ``Domain.peer``.
    #[getter]
    fn publisher(&self) -> Option<u32> {
        self.sample.publisher().map(|token| token.as_u32())
    }

    /// As ``Sample.session``.
    #[getter]
    fn session(&self) -> u32 {
        self.sample.session()
    }

    /// As ``Sample.publisher_alive``.
    #[getter]
    fn publisher_alive(&self) -> bool {
        self.sample.publisher_alive()
    }

    /// As ``Sample.age``.
    #[getter]
    fn age(&self) -> Option<f64> {
        self.sample.age().map(|age| age.as_secs_f64())
    }

    /// When it was published, in nanoseconds since 1970; 0 if that was not given.
    #[getter]
    fn stamp(&self) -> u64 {
        self.header.stamp
    }

    /// As ``Sample.frame``.
    #[getter]
    fn frame(&self) -> u64 {
        self.header.frame
    }

    /// The key by which subscribers may select messages.
    #[getter]
    fn key(&self) -> u64 {
        self.header.key
    }

    fn __len__(&self) -> usize {
        self.sample.len()
    }

    fn __repr__(&self) -> String {
        format!(
            "<DeviceSample {}, {} bytes on GPU {}>",
            self.sample.sequence(),
            self.sample.len(),
            self.on.number
        )
    }
}
