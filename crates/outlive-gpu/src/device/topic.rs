//! A topic whose payloads stay in GPU memory.

use std::marker::PhantomData;

use outlive::sync::Plain;
use outlive::topic::{SubscriberOptions, Topic, TopicOptions};
use outlive::{Deadline, Domain};

use super::card::Card;
use super::publisher::DevicePublisher;
use super::subscriber::DeviceSubscriber;
use crate::Error;
use crate::gpu::Gpu;

/// A topic whose payloads stay where they are, in GPU memory: what goes from process to process is a card that says where. All who use
/// it use the same GPU, each by a context of its own.
///
/// The publisher's memory comes in blocks, which are exported to the subscribers' processes; each maps a block when the first message in it comes,
/// and once. So a message costs the same whatever its size.
///
/// # If a process dies
/// The publisher's: what was published stays, for those who have its block mapped; for others there is nobody any more to ask, and
/// they get [`Error::OwnerDied`]. What its device was about to write is never published. A subscriber's: its samples are let go of once it has ended.
pub struct DeviceTopic<T: Plain = u8> {
    _values: PhantomData<T>,
}

impl<T: Plain> DeviceTopic<T> {
    /// Opens the topic of that name, or makes it as by default.
    ///
    /// # Errors
    /// [`Error::Topic`]; [`Error::CannotShare`] if this GPU's memory cannot be exported.
    pub fn open(gpu: &Gpu, domain: &Domain, name: &str) -> Result<DeviceTopic<T>, Error> {
        DeviceTopic::new(gpu, domain, Topic::open(domain, name)?)
    }

    /// How to make one otherwise than by default: opened by [`TopicOptions::open`], it goes to [`DeviceTopic::new`]. `max_bytes` counts cards, of which
    /// each takes 256 bytes, not payloads.
    #[must_use]
    pub fn options() -> TopicOptions<Card<T>> {
        Topic::options()
    }

    /// A topic that is open already, in that domain.
    ///
    /// # Errors
    /// [`Error::CannotShare`], [`Error::Driver`].
    pub fn new(_gpu: &Gpu, _domain: &Domain, _topic: Topic<Card<T>>) -> Result<DeviceTopic<T>, Error> {
        Err(Error::CannotShare { why: "device topics are not built yet" })
    }

    /// The topic itself: for who watches who comes and goes.
    #[must_use]
    pub fn topic(&self) -> &Topic<Card<T>> {
        unimplemented!()
    }

    /// A new publisher.
    ///
    /// # Errors
    /// [`Error::Topic`].
    ///
    /// # If a process dies
    /// As with [`Topic::publisher`].
    pub fn publisher(&self) -> Result<DevicePublisher<T>, Error> {
        unimplemented!()
    }

    /// A new subscriber.
    ///
    /// # Errors
    /// [`Error::Topic`].
    ///
    /// # If a process dies
    /// As with [`Topic::subscriber`].
    pub fn subscriber(&self) -> Result<DeviceSubscriber<T>, Error> {
        self.subscriber_with(SubscriberOptions::default())
    }

    /// A new subscriber, otherwise than by default.
    ///
    /// # Errors
    /// [`Error::Topic`].
    ///
    /// # If a process dies
    /// As with [`Topic::subscriber`].
    pub fn subscriber_with(&self, _options: SubscriberOptions) -> Result<DeviceSubscriber<T>, Error> {
        unimplemented!()
    }

    /// How many bytes of GPU memory this process has for what it publishes here.
    #[must_use]
    pub fn exported_bytes(&self) -> u64 {
        unimplemented!()
    }

    /// How many bytes of others' GPU memory this process has mapped.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        unimplemented!()
    }

    /// Unmaps what of others' memory no sample of this process lies in; how many bytes. A later message there maps it again, if its publisher's process lives.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn unmap_unheld(&self) -> Result<u64, Error> {
        unimplemented!()
    }

    /// How many publishings and releases are due.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        unimplemented!()
    }

    /// Waits until all that this process has left to its streams is published and let go of.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::Driver`] if the context has an error: then some are never over, and their memory is used no more as long as
    /// this process lives.
    pub fn wait_over(&self, _deadline: impl Into<Deadline>) -> Result<(), Error> {
        unimplemented!()
    }

    /// Waits as [`DeviceTopic::wait_over`] does, and lets go of the topic: with the last of its clones, ends and samples go this process's mappings, and
    /// its own blocks.
    ///
    /// # Errors
    /// As [`DeviceTopic::wait_over`].
    pub fn close(self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        self.wait_over(deadline)
    }
}

impl<T: Plain> Clone for DeviceTopic<T> {
    fn clone(&self) -> DeviceTopic<T> {
        unimplemented!()
    }
}
