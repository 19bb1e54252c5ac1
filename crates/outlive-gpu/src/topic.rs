//! A topic whose payload memory the driver knows.

use std::sync::Arc;

use outlive::sync::Plain;
use outlive::topic::{Sample, SubscriberOptions, Topic};
use outlive::{Deadline, Domain};

use crate::Error;
use crate::gpu::Gpu;
use crate::pins::Pins;
use crate::publisher::PinnedPublisher;
use crate::subscriber::{PinnedSample, PinnedSubscriber};
use crate::under_way::{self, Keeps as _};

/// A topic whose payloads a GPU reads and writes where they lie. It is an ordinary topic, in which others may publish and subscribe
/// without a GPU; opened once in each process, so that memory is registered once. Clones are the same.
///
/// Memory is registered when a copy first goes there, and stays so until the topic and its ends are dropped and all copies over, or
/// copies go to what has taken its place in the file. Registered memory cannot be swapped out.
///
/// # If a process dies
/// As with [`Topic`]. What its device was about to write is never published; its memory is the next publisher's once the kernel has
/// closed the driver's files.
pub struct PinnedTopic<T: Plain = u8> {
    topic: Topic<[T]>,
    pins: Arc<Pins>,
}

impl<T: Plain> PinnedTopic<T> {
    /// Opens the topic of that name, or makes it as by default.
    ///
    /// # Errors
    /// [`Error::Topic`].
    pub fn open(gpu: &Gpu, domain: &Domain, name: &str) -> Result<PinnedTopic<T>, Error> {
        Ok(PinnedTopic::new(gpu, Topic::open(domain, name)?))
    }

    /// A topic that is open already; for one GPU, and once: the driver registers memory once at each address. A topic that is opened once more
    /// lies at another address.
    #[must_use]
    pub fn new(gpu: &Gpu, topic: Topic<[T]>) -> PinnedTopic<T> {
        under_way::look_after_left();
        let mapped = topic.clone();
        let pins = Arc::new(Pins::new(gpu, Box::new(move |address| mapped.memory_of(address))));
        PinnedTopic { topic, pins }
    }

    /// The topic itself.
    #[must_use]
    pub fn topic(&self) -> &Topic<[T]> {
        &self.topic
    }

    /// A new publisher.
    ///
    /// # Errors
    /// [`Error::Topic`].
    ///
    /// # If a process dies
    /// As with [`Topic::publisher`].
    pub fn publisher(&self) -> Result<PinnedPublisher<T>, Error> {
        under_way::look_after_left();
        Ok(PinnedPublisher::new(self.topic.publisher()?, Arc::clone(&self.pins)))
    }

    /// A new subscriber.
    ///
    /// # Errors
    /// [`Error::Topic`].
    ///
    /// # If a process dies
    /// As with [`Topic::subscriber`].
    pub fn subscriber(&self) -> Result<PinnedSubscriber<T>, Error> {
        self.subscriber_with(SubscriberOptions::default())
    }

    /// A new subscriber, otherwise than by default.
    ///
    /// # Errors
    /// [`Error::Topic`].
    ///
    /// # If a process dies
    /// As with [`Topic::subscriber`].
    pub fn subscriber_with(&self, options: SubscriberOptions) -> Result<PinnedSubscriber<T>, Error> {
        under_way::look_after_left();
        Ok(PinnedSubscriber::new(self.topic.subscriber_with(options)?, Arc::clone(&self.pins)))
    }

    /// A sample that an ordinary subscriber of [`PinnedTopic::topic`] has taken, to be read by the GPU as well. One of the same topic opened once more
    /// lies elsewhere: its copies go by the driver's own buffers.
    ///
    /// # If a process dies
    /// As with [`PinnedSample`].
    #[must_use]
    pub fn pinned(&self, sample: impl Into<Arc<Sample<[T]>>>) -> PinnedSample<T> {
        PinnedSample::new(sample.into(), Arc::clone(&self.pins))
    }

    /// How many bytes of the topic are registered in this process.
    #[must_use]
    pub fn registered_bytes(&self) -> usize {
        self.pins.bytes()
    }

    /// How many publishings and ends of copies are due.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.pins.under_way().outstanding()
    }

    /// Waits until all of this process's copies are over, their samples let go of, and what was due published.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::Driver`] if the context has an error: then some are never over, and their memory is used no more as long as
    /// this process lives.
    pub fn wait_over(&self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        self.pins.wait_until(deadline.into(), &mut |outstanding| outstanding == 0)
    }

    /// Waits as [`PinnedTopic::wait_over`] does, and lets go of the topic: the last of its clones and ends to go takes its registrations back.
    ///
    /// # Errors
    /// As [`PinnedTopic::wait_over`].
    pub fn close(self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        self.wait_over(deadline)?;
        drop(self);
        under_way::look_after_left();
        Ok(())
    }
}

impl<T: Plain> Clone for PinnedTopic<T> {
    fn clone(&self) -> PinnedTopic<T> {
        PinnedTopic { topic: self.topic.clone(), pins: Arc::clone(&self.pins) }
    }
}
