//! A topic as a whole. Making and opening it: options.rs.

use core::marker::PhantomData;
use std::sync::Arc;

use super::mapping::{Inner, Map};
use super::participants::{Presence, Side};
use super::publisher::Publisher;
use super::publisher_options::PublisherOptions;
use super::ring;
use super::subscriber::Subscriber;
use super::subscriber_options::SubscriberOptions;
use super::subscriber_slot;
use crate::Payload;
use crate::claim::Holder;
use crate::liveness::Registry;
use crate::segment::{Segment, note_opened};
use crate::{Domain, Error, WaitStrategy};

/// A topic, open in this process; makes its publishers and subscribers.
///
/// Messages are bytes (`Topic<[u8]>`), values of a [`Plain`](crate::Plain) type, or slices of one,
/// of any length from 0 bytes to 1 GiB. The messages of one publisher arrive in the order in which
/// it published them; of two publishers' messages, one that was published before the publishing of
/// the other began comes first. A subscriber that lags behind by more than the topic's depth loses
/// the oldest messages, unless the topic [offers](super::TopicOptions::reliable) reliable delivery
/// and the subscriber [asks](SubscriberOptions::reliable) for it: then publishers wait for it, as
/// long as it lives.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-topic-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::topic::Topic;
///
/// let topic = Topic::<[f64; 3]>::open_or_create(&domain, "position")?;
/// let mut subscriber = topic.subscriber()?;       // in one process
/// let publisher = topic.publisher()?;             // in another
///
/// publisher.publish(&[1.0, 2.0, 0.5])?;
/// let sample = subscriber.recv()?;
/// assert_eq!(*sample, [1.0, 2.0, 0.5]);
/// assert!(sample.header().time().is_some());
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// Published messages stay, as the topic's [durability](super::TopicOptions::durability) says; see
/// [`Publisher`] and [`Subscriber`].
pub struct Topic<M: Payload + ?Sized = [u8]> {
    pub(super) inner: Arc<Inner>,
    _message: PhantomData<fn(&M)>,
}

impl<M: Payload + ?Sized> Topic<M> {
    pub(super) fn finish(
        segment: Segment,
        map: Map,
        registry: &'static Registry,
        wait: Option<WaitStrategy>,
    ) -> Topic<M> {
        let inner = Inner::new(segment, map, registry);
        if let Some(wait) = wait {
            inner.spin_wait.set(wait);
        }
        let inner = Arc::new(inner);
        note_opened(registry.index, &inner);
        Topic { inner, _message: PhantomData }
    }

    /// Makes a new publisher. It takes over the memory, and the messages that are still there, of a
    /// publisher that has ended, if there is one whose messages all living subscribers have taken.
    /// It overwrites what a living subscriber has not taken only when there is no other place: each
    /// of the topic's [`max_publishers`](super::TopicOptions::max_publishers) has such messages, or a
    /// living publisher.
    ///
    /// # Errors
    /// [`Error::TooMany`], [`Error::NoToken`], [`Error::NoSpace`].
    ///
    /// # If a process dies
    /// If this process dies during the call, the next publisher does the same.
    pub fn publisher(&self) -> Result<Publisher<M>, Error> {
        self.publisher_with(PublisherOptions::default())
    }

    /// Makes a new publisher with options.
    ///
    /// # Errors
    /// The errors of [`Topic::publisher`].
    ///
    /// # If a process dies
    /// The same as with [`Topic::publisher`].
    pub fn publisher_with(&self, options: PublisherOptions) -> Result<Publisher<M>, Error> {
        Publisher::new(Arc::clone(self.inner.publishing()?), options, self.config().stamps)
    }

    /// Makes a new subscriber, which receives what is published from now on.
    ///
    /// # Errors
    /// [`Error::TooMany`], [`Error::NoToken`], [`Error::NoSpace`].
    ///
    /// # If a process dies
    /// If this process dies during the call, there is no new subscriber.
    pub fn subscriber(&self) -> Result<Subscriber<M>, Error> {
        self.subscriber_with(SubscriberOptions::default())
    }

    /// Makes a new subscriber with options.
    ///
    /// # Errors
    /// The errors of [`Topic::subscriber`], and [`Error::OtherOptions`] when the options ask for more
    /// than the topic offers.
    ///
    /// # If a process dies
    /// The same as with [`Topic::subscriber`].
    pub fn subscriber_with(&self, options: SubscriberOptions) -> Result<Subscriber<M>, Error> {
        Subscriber::new(Arc::clone(&self.inner), options)
    }

    /// Returns the living publishers; a process with several publishers appears more than once.
    #[must_use]
    pub fn publishers(&self) -> Vec<Holder> {
        ring::living(&self.inner).map(|id| Holder::of(self.inner.registry, id)).collect()
    }

    /// Returns the living subscribers; a process with several subscribers appears more than once.
    #[must_use]
    pub fn subscribers(&self) -> Vec<Holder> {
        subscriber_slot::living(&self.inner).map(|id| Holder::of(self.inner.registry, id)).collect()
    }

    /// Follows which processes join, leave and die from here on; the first report lists the present
    /// participants. A [`Presence`] is also a source for a [`WaitSet`](crate::wait::WaitSet), and
    /// for `async`.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-topic-presence-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::topic::Topic;
    /// use outlive::wait::{WaitSet, Readiness};
    /// let topic = Topic::<[u8]>::open_or_create(&domain, "camera")?;
    /// let mut presence = topic.watch();
    /// assert_eq!(presence.changed()?.subscribers.len(), 0);
    ///
    /// let mut set = WaitSet::new(&domain);
    /// let comings = set.add(&presence)?;
    /// let subscriber = topic.subscriber()?;                 // in another process, as a rule
    /// assert_eq!(set.wait()?.collect::<Vec<_>>(), [(comings, Readiness::Changed)]);
    /// assert_eq!(presence.try_changed()?.unwrap().subscribers.len(), 1);
    /// drop(subscriber);
    /// assert_eq!(presence.changed()?.subscribers.len(), 0);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn watch(&self) -> Presence {
        Presence::new(Arc::clone(&self.inner), Side::Both)
    }

    /// Sets how this process's handles wait from now on.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.inner.set_wait_strategy(wait);
    }

    /// Returns whether the topic's name has been removed: processes that have it open go on, no
    /// other process finds it.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.inner.segment.header().is_removed()
    }

    /// Returns the attributes that its maker gave it.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) when a process wrote over them, and errors of the
    /// system.
    pub fn attributes(&self) -> Result<crate::Attributes, crate::Error> {
        self.inner.segment.attributes()
    }
}

impl Topic<[u8]> {
    /// Opens the existing topic of that name with its messages as bytes, whatever their type. For
    /// programs that forward or inspect messages without knowing the type.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OtherKind`], [`Error::Damaged`], and errors of the system.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-topic-bytes-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::topic::Topic;
    /// let position = Topic::<[f32; 2]>::open_or_create(&domain, "position")?;
    /// let mut onlooker = Topic::open_as_bytes(&domain, "position")?.subscriber()?;
    /// position.publisher()?.publish(&[1.0, 2.0])?;
    /// assert_eq!(onlooker.recv()?.len(), 8);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_as_bytes(domain: &Domain, name: &str) -> Result<Topic<[u8]>, Error> {
        Topic::<[u8]>::options().open_as_bytes(domain, name)
    }
}

impl<M: Payload + ?Sized> Clone for Topic<M> {
    fn clone(&self) -> Topic<M> {
        Topic { inner: Arc::clone(&self.inner), _message: PhantomData }
    }
}
