//! A topic whose payloads stay in GPU memory.

use std::sync::Arc;

use outlive::sync::Plain;
use outlive::topic::{SubscriberOptions, Topic, TopicOptions};
use outlive::{Deadline, Domain};

use super::blocks::Blocks;
use super::card::Card;
use super::publisher::DevicePublisher;
use super::subscriber::DeviceSubscriber;
use crate::Error;
use crate::gpu::Gpu;
use crate::under_way::{self, Keeps as _};

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
    topic: Topic<Card<T>>,
    blocks: Arc<Blocks>,
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
    pub fn new(gpu: &Gpu, domain: &Domain, topic: Topic<Card<T>>) -> Result<DeviceTopic<T>, Error> {
        under_way::look_after_left();
        Ok(DeviceTopic { topic, blocks: Arc::new(Blocks::new(gpu, domain)?) })
    }

    /// The topic itself: for who watches who comes and goes.
    #[must_use]
    pub fn topic(&self) -> &Topic<Card<T>> {
        &self.topic
    }

    /// A new publisher.
    ///
    /// # Errors
    /// [`Error::Topic`].
    ///
    /// # If a process dies
    /// As with [`Topic::publisher`].
    pub fn publisher(&self) -> Result<DevicePublisher<T>, Error> {
        under_way::look_after_left();
        Ok(DevicePublisher::new(self.topic.publisher()?, Arc::clone(&self.blocks)))
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
    pub fn subscriber_with(&self, options: SubscriberOptions) -> Result<DeviceSubscriber<T>, Error> {
        under_way::look_after_left();
        Ok(DeviceSubscriber::new(self.topic.subscriber_with(options)?, Arc::clone(&self.blocks)))
    }

    /// How many bytes of GPU memory this process has for what it publishes here.
    #[must_use]
    pub fn exported_bytes(&self) -> u64 {
        self.blocks.own_bytes()
    }

    /// How many bytes of others' GPU memory this process has mapped.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.blocks.mapped_bytes()
    }

    /// Unmaps what of others' memory no sample of this process lies in; how many bytes. A later message there maps it again, if its publisher's process lives.
    pub fn unmap_unheld(&self) -> u64 {
        under_way::look_after_left();
        self.blocks.unmap_unheld()
    }

    /// How many publishings and releases are due.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.blocks.under_way().outstanding()
    }

    /// Waits until all that this process has left to its streams is published and let go of.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::Driver`] if the context has an error: then some are never over, and their memory is used no more as long as
    /// this process lives.
    pub fn wait_over(&self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        self.blocks.wait_until(deadline.into(), &mut |outstanding| outstanding == 0)
    }

    /// Waits as [`DeviceTopic::wait_over`] does, and lets go of the topic: with the last of its clones, ends and samples go this process's mappings, and
    /// its own blocks.
    ///
    /// # Errors
    /// As [`DeviceTopic::wait_over`].
    pub fn close(self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        self.wait_over(deadline)?;
        drop(self);
        under_way::look_after_left();
        Ok(())
    }
}

impl<T: Plain> Clone for DeviceTopic<T> {
    fn clone(&self) -> DeviceTopic<T> {
        DeviceTopic { topic: self.topic.clone(), blocks: Arc::clone(&self.blocks) }
    }
}
