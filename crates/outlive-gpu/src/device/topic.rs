//! A topic whose payloads stay in GPU memory.

use std::sync::Arc;
use std::time::Duration;

use outlive::Plain;
use outlive::topic::{
    Publisher, PublisherOptions, Subscriber, SubscriberOptions, Topic, TopicOptions,
};
use outlive::{Deadline, Domain};

use super::blocks::Blocks;
use super::card::Card;
use super::publisher::DevicePublisher;
use super::subscriber::DeviceSubscriber;
use crate::GpuError;
use crate::gpu::Gpu;
use crate::under_way::{self, Keeps as _};

/// A topic whose payloads stay where they are, in GPU memory: only a card that says where goes from
/// process to process. All users of the topic use the same GPU, each by a context of its own.
///
/// The publisher's memory comes in blocks, which are exported to the subscribers' processes; each
/// maps a block once, when the first message in it arrives. So a message costs the same whatever
/// its size.
///
/// # If a process dies
/// If a publisher's process dies, its published messages stay for the processes that have their
/// blocks mapped; others can ask no process for the block, and get [`GpuError::OwnerDied`]. What its
/// device was about to write is never published. If a subscriber's process dies, its samples are
/// released once it has ended.
pub struct DeviceTopic<T: Plain = u8> {
    topic: Topic<Card<T>>,
    blocks: Arc<Blocks>,
}

impl<T: Plain> DeviceTopic<T> {
    /// Opens the existing topic of that name.
    ///
    /// # Errors
    /// [`GpuError::Topic`]; [`GpuError::CannotShare`] if this GPU's memory cannot be exported.
    pub fn open(gpu: &Gpu, domain: &Domain, name: &str) -> Result<DeviceTopic<T>, GpuError> {
        DeviceTopic::new(gpu, domain, Topic::open(domain, name)?)
    }

    /// Opens the topic of that name, or makes it with default options if there is none.
    ///
    /// # Errors
    /// [`GpuError::Topic`]; [`GpuError::CannotShare`] if this GPU's memory cannot be exported.
    ///
    /// # If a process dies
    /// The same as with [`Topic::open_or_create`].
    pub fn open_or_create(
        gpu: &Gpu,
        domain: &Domain,
        name: &str,
    ) -> Result<DeviceTopic<T>, GpuError> {
        DeviceTopic::new(gpu, domain, Topic::open_or_create(domain, name)?)
    }

    /// Returns options, of which none is set. A topic that is opened or made with them goes to
    /// [`DeviceTopic::new`]. `max_bytes` counts cards, which take 256 bytes each, not payloads.
    pub fn options() -> TopicOptions<Card<T>> {
        Topic::options()
    }

    /// Makes a device topic of a topic that is open already, in that domain.
    ///
    /// # Errors
    /// [`GpuError::CannotShare`], [`GpuError::Driver`].
    pub fn new(
        gpu: &Gpu,
        domain: &Domain,
        topic: Topic<Card<T>>,
    ) -> Result<DeviceTopic<T>, GpuError> {
        under_way::look_after_left();
        Ok(DeviceTopic { topic, blocks: Arc::new(Blocks::new(gpu, domain)?) })
    }

    /// Returns the topic itself, for watching its participants.
    #[must_use]
    pub fn topic(&self) -> &Topic<Card<T>> {
        &self.topic
    }

    /// Makes a new publisher.
    ///
    /// # Errors
    /// [`GpuError::Topic`].
    ///
    /// # If a process dies
    /// The same as with [`Topic::publisher`].
    pub fn publisher(&self) -> Result<DevicePublisher<T>, GpuError> {
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
    ) -> Result<DevicePublisher<T>, GpuError> {
        under_way::look_after_left();
        let publisher = self.topic.publisher_with(options)?;
        Ok(DevicePublisher::new(publisher, Arc::clone(&self.blocks)))
    }

    /// Makes a new subscriber.
    ///
    /// # Errors
    /// [`GpuError::Topic`].
    ///
    /// # If a process dies
    /// The same as with [`Topic::subscriber`].
    pub fn subscriber(&self) -> Result<DeviceSubscriber<T>, GpuError> {
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
    ) -> Result<DeviceSubscriber<T>, GpuError> {
        under_way::look_after_left();
        Ok(DeviceSubscriber::new(self.topic.subscriber_with(options)?, Arc::clone(&self.blocks)))
    }

    /// Returns how many bytes of GPU memory this process has for what it publishes here.
    #[must_use]
    pub fn exported_bytes(&self) -> u64 {
        self.blocks.own_bytes()
    }

    /// Returns how many bytes of other processes' GPU memory this process has mapped.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.blocks.mapped_bytes()
    }

    /// Unmaps other processes' memory that no sample of this process lies in; returns how many
    /// bytes. A later message there maps it again, if its publisher's process lives.
    pub fn unmap_unheld(&self) -> u64 {
        under_way::look_after_left();
        self.blocks.unmap_unheld()
    }

    /// Returns how many messages and releases are due.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.blocks.under_way().outstanding()
    }

    /// Waits until all that this process has enqueued on its streams is published and released.
    ///
    /// # Errors
    /// [`GpuError::Driver`] if the context has an error: then some work never
    /// completes, and its memory is not reused as long as this process lives.
    pub fn wait_over(&self) -> Result<(), GpuError> {
        self.wait_over_until(Deadline::NEVER)
    }

    /// Waits as [`DeviceTopic::wait_over`] does, and closes the topic: this process's mappings and
    /// its own blocks go with the last of its clones, ends and samples.
    ///
    /// # Errors
    /// The errors of [`DeviceTopic::wait_over`].
    pub fn close(self) -> Result<(), GpuError> {
        self.close_until(Deadline::NEVER)
    }
}

crate::forms::topic_forms!(DeviceTopic, blocks);

impl<T: Plain> Clone for DeviceTopic<T> {
    fn clone(&self) -> DeviceTopic<T> {
        DeviceTopic { topic: self.topic.clone(), blocks: Arc::clone(&self.blocks) }
    }
}
