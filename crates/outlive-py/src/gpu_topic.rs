//! A topic's GPUs: none, until the program uses one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use outlive::Deadline;
use outlive::topic::{Header, Sample, Topic};
use outlive_gpu::{GpuError, PinnedLoan, PinnedPublisher, PinnedTopic, Stream};
use pyo3::prelude::*;

use crate::described::Described;
use crate::errors::Raised;
use crate::gpu::{Buffer, OnGpu, on_gpu, stream_number};
use crate::gpu_array::GpuArray;
use crate::gpu_loan::{GpuLoan, Lent};
use crate::handle_mutex::HandleMutex;
use crate::layout::Layout;
use crate::named::Named;
use crate::waiting::{Until, detached, wait};

/// The state of one open topic for each GPU's number.
pub(crate) struct OnGpus {
    topic: Topic,
    pub(crate) named: Named,
    /// What the topic says of its messages: for its samples and publishers.
    pub(crate) described: Described,
    ends: Mutex<HashMap<u32, Arc<End>>>,
}

/// A topic as one GPU has it.
struct End {
    on: Arc<OnGpu>,
    topic: PinnedTopic,
    /// Made with the first loan.
    publisher: OnceLock<PinnedPublisher>,
    /// Locked by the thread that publishes.
    publishing: Arc<HandleMutex<()>>,
}

impl End {
    /// Returns the publisher of this topic's loans.
    fn publisher(&self) -> Result<&PinnedPublisher, GpuError> {
        if let Some(publisher) = self.publisher.get() {
            return Ok(publisher);
        }
        let made = self.topic.publisher()?;
        // Another thread was first: its publisher.
        Ok(self.publisher.get_or_init(|| made))
    }
}

/// A loan of the topic's, and the array that is copied into it.
struct Pinned {
    loan: PinnedLoan,
    buffer: Arc<Buffer>,
    end: Arc<End>,
}

impl Lent for Pinned {
    fn publishing(&self) -> Arc<HandleMutex<()>> {
        Arc::clone(&self.end.publishing)
    }

    fn wait_writable(&self, deadline: Deadline) -> Result<(), GpuError> {
        self.end.publisher()?.wait_writable_until(deadline)
    }

    fn publish(mut self: Box<Self>, stream: &Stream, deadline: Deadline) -> Result<(), GpuError> {
        if !self.loan.is_empty() {
            self.buffer.gather(stream)?;
            // SAFETY: the buffer lives as long as the loan, and is reused or freed only when the
            // stream has got there.
            unsafe { self.loan.copy_from_device(self.buffer.address(), stream)? };
        }
        self.end.publisher()?.publish_on_until(self.loan, stream, deadline)
    }
}

impl OnGpus {
    pub(crate) fn new(topic: Topic, named: Named, described: Described) -> OnGpus {
        OnGpus { topic, named, described, ends: Mutex::default() }
    }

    fn end(&self, py: Python<'_>, device: u32) -> PyResult<Arc<End>> {
        let on = on_gpu(py, device)?;
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let topic = PinnedTopic::new(&on.gpu, self.topic.clone());
            Arc::new(End {
                on: Arc::clone(&on),
                topic,
                publisher: OnceLock::new(),
                publishing: Arc::new(HandleMutex::new(())),
            })
        };
        Ok(Arc::clone(ends.entry(device).or_insert_with(make)))
    }

    /// Returns a message in a GPU's memory, complete once the stream has got there.
    pub(crate) fn copy_of(
        &self,
        py: Python<'_>,
        sample: &Arc<Sample>,
        layout: &Layout,
        stream: Option<&Bound<'_, PyAny>>,
        device: u32,
    ) -> PyResult<GpuArray> {
        let (number, end) = (stream_number(stream)?, self.end(py, device)?);
        let copied = detached(py, || {
            let stream = end.on.stream(number)?;
            let buffer = end.on.buffer(sample.bytes().len(), &stream)?;
            if !sample.bytes().is_empty() {
                let pinned = end.topic.pinned(Arc::clone(sample));
                // SAFETY: the buffer lives as long as the message, and is reused or freed only when
                // the stream has got there.
                unsafe { pinned.copy_to_device(buffer.address(), &stream)? };
            }
            Ok::<_, GpuError>((buffer, stream))
        });
        let (buffer, stream) = copied.raised(py)?;
        Ok(GpuArray::new(Arc::new(buffer), &end.on, stream, layout.clone()))
    }

    /// Lends memory for an array that will be published.
    pub(crate) fn loan(
        &self,
        py: Python<'_>,
        layout: Layout,
        header: Header,
        stream: Option<&Bound<'_, PyAny>>,
        device: u32,
        timeout: Option<f64>,
    ) -> PyResult<GpuLoan> {
        Until::timeout(timeout)?;
        let (number, end) = (stream_number(stream)?, self.end(py, device)?);
        let len = crate::gpu_library::len(py, &layout)?;
        let lent = detached(py, || {
            let stream = end.on.stream(number)?;
            let buffer = Arc::new(end.on.buffer(len, &stream)?);
            let mut loan = end.publisher()?.loan(len)?;
            loan.set_header(header);
            Ok::<_, GpuError>((loan, buffer, stream))
        });
        let (loan, buffer, stream) = lent.raised(py)?;
        let array = GpuArray::new(buffer.clone(), &end.on, stream.clone(), layout);
        GpuLoan::new(py, Box::new(Pinned { loan, buffer, end }), array, stream, timeout)
    }

    /// Waits until all work has completed.
    pub(crate) fn wait_over(&self, py: Python<'_>, until: Until) -> PyResult<()> {
        let ends: Vec<_> =
            self.ends.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for end in ends {
            let over = wait(py, until, |deadline| match end.topic.wait_over_until(deadline) {
                Err(GpuError::TimedOut) => None,
                other => Some(other),
            })?;
            over.unwrap_or(Err(GpuError::TimedOut)).raised(py)?;
            if let Some(publisher) = end.publisher.get() {
                // Reports what became of them.
                publisher.wait_published_timeout(Duration::ZERO).raised(py)?;
            }
        }
        Ok(())
    }
}
