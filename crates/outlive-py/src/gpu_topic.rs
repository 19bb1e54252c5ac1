//! A topic's GPUs: none, until the program uses one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outlive::Deadline;
use outlive::topic::{Header, Publisher, Sample, Topic};
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
    /// One for each `max_blocking`, made with its first loan.
    publishers: Mutex<HashMap<Option<Duration>, Arc<Publishing>>>,
}

/// A publisher of the topic's loans.
struct Publishing {
    publisher: PinnedPublisher,
    /// Locked by the thread that publishes.
    turn: Arc<HandleMutex<()>>,
}

/// How long a loan waits for a reliable subscriber: until it is marked as too slow, and until the caller
/// is told.
pub(crate) struct Blocking {
    pub(crate) max_blocking: Option<Duration>,
    pub(crate) timeout: Option<f64>,
}

impl End {
    /// Returns the publisher of the loans with that `max_blocking`.
    fn publishing(&self, max_blocking: Option<Duration>) -> Result<Arc<Publishing>, GpuError> {
        // The longest is for ever, as none is.
        let max_blocking = max_blocking.filter(|span| *span != Duration::MAX);
        let mut publishers = self.publishers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = publishers.get(&max_blocking) {
            return Ok(Arc::clone(known));
        }
        let options = Publisher::options();
        let options = max_blocking.map_or(options, |span| options.max_blocking(span));
        let publisher = self.topic.publisher_with(options)?;
        let made = Arc::new(Publishing { publisher, turn: Arc::new(HandleMutex::new(())) });
        publishers.insert(max_blocking, Arc::clone(&made));
        Ok(made)
    }

    /// Returns the publishers. It waits, detached, for a thread that makes one.
    fn all_publishing(&self) -> Vec<Arc<Publishing>> {
        let publishers = self.publishers.lock().unwrap_or_else(PoisonError::into_inner);
        publishers.values().cloned().collect()
    }
}

/// A loan of the topic's, and the array that is copied into it.
struct Pinned {
    loan: PinnedLoan,
    buffer: Arc<Buffer>,
    publishing: Arc<Publishing>,
}

impl Lent for Pinned {
    fn publishing(&self) -> Arc<HandleMutex<()>> {
        Arc::clone(&self.publishing.turn)
    }

    fn wait_writable(&self, deadline: Deadline) -> Result<(), GpuError> {
        self.publishing.publisher.wait_writable_until(deadline)
    }

    fn publish(mut self: Box<Self>, stream: &Stream, deadline: Deadline) -> Result<(), GpuError> {
        if !self.loan.is_empty() {
            self.buffer.gather(stream)?;
            // SAFETY: the buffer lives as long as the loan, and is reused or freed only when the
            // stream has got there.
            unsafe { self.loan.copy_from_device(self.buffer.address(), stream)? };
        }
        self.publishing.publisher.publish_on_until(self.loan, stream, deadline)
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
            Arc::new(End { on: Arc::clone(&on), topic, publishers: Mutex::default() })
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
        Blocking { max_blocking, timeout }: Blocking,
    ) -> PyResult<GpuLoan> {
        Until::timeout(timeout)?;
        let (number, end) = (stream_number(stream)?, self.end(py, device)?);
        let len = crate::gpu_library::len(py, &layout)?;
        let lent = detached(py, || {
            let stream = end.on.stream(number)?;
            let buffer = Arc::new(end.on.buffer(len, &stream)?);
            let publishing = end.publishing(max_blocking)?;
            let mut loan = publishing.publisher.loan(len)?;
            loan.set_header(header);
            Ok::<_, GpuError>((Pinned { loan, buffer, publishing }, stream))
        });
        let (lent, stream) = lent.raised(py)?;
        let array = GpuArray::new(lent.buffer.clone(), &end.on, stream.clone(), layout);
        GpuLoan::new(py, Box::new(lent), array, stream, timeout)
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
            for publishing in detached(py, || end.all_publishing()) {
                // Reports what became of them. An error is made by Python's code, during which other threads
                // may come here: with nothing locked.
                publishing.publisher.wait_published_timeout(Duration::ZERO).raised(py)?;
            }
        }
        Ok(())
    }
}
