//! A topic whose payload memory is registered with the driver.

use std::sync::Arc;
use std::time::Duration;

use outlive::Plain;
use outlive::topic::{Publisher, PublisherOptions, Sample, Subscriber, SubscriberOptions, Topic};
use outlive::{Deadline, Domain};

use crate::GpuError;
use crate::gpu::Gpu;
use crate::pins::Pins;
use crate::publisher::PinnedPublisher;
use crate::subscriber::{PinnedSample, PinnedSubscriber};
use crate::under_way::{self, Keeps as _};

/// A topic whose payloads a GPU reads and writes in place. It is an ordinary topic, in which other
/// processes may publish and subscribe without a GPU. Open it once in each process, so that memory
/// is registered once. Clones share it.
///
/// Memory is registered when a copy first goes there, and stays registered until the topic and its
/// ends are dropped and all copies have completed, or until copies go to what has taken its place
/// in the file. Registered memory cannot be swapped out.
///
/// # If a process dies
/// The same as with [`Topic`]. If the process dies, what its device was about to write is never
/// published; the next publisher gets its memory once the kernel has closed the driver's files.
pub struct PinnedTopic<T: Plain = u8> {
    topic: Topic<[T]>,
    pins: Arc<Pins>,
}

impl<T: Plain> PinnedTopic<T> {
    /// Opens the existing topic of that name.
    ///
    /// # Errors
    /// [`GpuError::Topic`].
    pub fn open(gpu: &Gpu, domain: &Domain, name: &str) -> Result<PinnedTopic<T>, GpuError> {
        Ok(PinnedTopic::new(gpu, Topic::open(domain, name)?))
    }

    /// Opens the topic of that name, or makes it with default options if there is none.
    ///
    /// # Errors
    /// [`GpuError::Topic`].
    ///
    /// # If a process dies
    /// The same as with [`Topic::open_or_create`].
    pub fn open_or_create(
        gpu: &Gpu,
        domain: &Domain,
        name: &str,
    ) -> Result<PinnedTopic<T>, GpuError> {
        Ok(PinnedTopic::new(gpu, Topic::open_or_create(domain, name)?))
    }

    /// Makes a pinned topic of a topic that is open already. Do so for one GPU, and once: the
    /// driver registers memory once at each address. A topic that is opened once more lies at
    /// another address.
    #[must_use]
    pub fn new(gpu: &Gpu, topic: Topic<[T]>) -> PinnedTopic<T> {
        under_way::look_after_left();
        let mapped = topic.clone();
        let pins = Arc::new(Pins::new(gpu, Box::new(move |address| mapped.memory_of(address))));
        PinnedTopic { topic, pins }
    }

    /// Returns the topic itself.
    #[must_use]
    pub fn topic(&self) -> &Topic<[T]> {
        &self.topic
    }

    /// Makes a new publisher.
    ///
    /// # Errors
    /// [`GpuError::Topic`].
    ///
    /// # If a process dies
    /// The same as with [`Topic::publisher`].
    pub fn publisher(&self) -> Result<PinnedPublisher<T>, GpuError> {
        self.publisher_with(Publisher::options())
    }

    /// Makes a new publisher with options. Its `publish_on` waits for reliable subscribers as long
    /// as [`max_blocking`](PublisherOptions::max_blocking) says; it looks at the clock every 2 ms.
    ///
    /// # Errors
    /// [`GpuError::Topic`].
    ///
    /// # If a process dies
    /// The same as with [`Topic::publisher`].
    pub fn publisher_with(
        &self,
        options: PublisherOptions,
    ) -> Result<PinnedPublisher<T>, GpuError> {
        under_way::look_after_left();
        let publisher = self.topic.publisher_with(options)?;
        Ok(PinnedPublisher::new(publisher, Arc::clone(&self.pins)))
    }

    /// Makes a new subscriber.
    ///
    /// # Errors
    /// [`GpuError::Topic`].
    ///
    /// # If a process dies
    /// The same as with [`Topic::subscriber`].
    pub fn subscriber(&self) -> Result<PinnedSubscriber<T>, GpuError> {
        self.subscriber_with(Subscriber::options())
    }

    /// Makes a new subscriber with options.
    ///
    /// # Errors
    /// [`GpuError::Topic`].
    ///
    /// # If a process dies
    /// The same as with [`Topic::subscriber`].
    pub fn subscriber_with(
        &self,
        options: SubscriberOptions,
    ) -> Result<PinnedSubscriber<T>, GpuError> {
        under_way::look_after_left();
        Ok(PinnedSubscriber::new(self.topic.subscriber_with(options)?, Arc::clone(&self.pins)))
    }

    /// Makes a sample that an ordinary subscriber of [`PinnedTopic::topic`] has taken one for the
    /// GPU. A sample of the same topic opened once more lies elsewhere: its copies go through the
    /// driver's own buffers.
    ///
    /// # If a process dies
    /// The same as with [`PinnedSample`].
    #[must_use]
    pub fn pinned(&self, sample: impl Into<Arc<Sample<[T]>>>) -> PinnedSample<T> {
        PinnedSample::new(sample.into(), Arc::clone(&self.pins))
    }

    /// Returns how many bytes of the topic are registered in this process.
    #[must_use]
    pub fn registered_bytes(&self) -> usize {
        self.pins.bytes()
    }

    /// Returns how many messages and ends of copies are due.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.pins.under_way().outstanding()
    }

    /// Waits until all of this process's copies have completed, their samples are released, and
    /// what was due is published.
    ///
    /// # Errors
    /// [`GpuError::Driver`] if the context has an error: then some copies never
    /// complete, and their memory is not reused as long as this process lives.
    pub fn wait_over(&self) -> Result<(), GpuError> {
        self.wait_over_until(Deadline::NEVER)
    }

    /// Waits as [`PinnedTopic::wait_over`] does, and closes the topic: its memory is unregistered
    /// with the last of its clones and ends.
    ///
    /// # Errors
    /// The errors of [`PinnedTopic::wait_over`].
    pub fn close(self) -> Result<(), GpuError> {
        self.close_until(Deadline::NEVER)
    }
}

crate::forms::topic_forms!(PinnedTopic, pins);

impl<T: Plain> Clone for PinnedTopic<T> {
    fn clone(&self) -> PinnedTopic<T> {
        PinnedTopic { topic: self.topic.clone(), pins: Arc::clone(&self.pins) }
    }
}
