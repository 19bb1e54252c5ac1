//! The options of a publisher.

use std::time::Duration;

/// Returns that span, or `None` for the longest: for ever.
pub(super) fn limited(span: Duration) -> Option<Duration> {
    (span != Duration::MAX).then_some(span)
}

/// Options for a publisher; [`Topic::publisher_with`](super::Topic::publisher_with) makes one with
/// them. They begin with [`Publisher::options`](super::Publisher::options).
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-publishing-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::RecvError;
/// use outlive::topic::{Publisher, Subscriber, Topic};
/// use std::time::Duration;
/// let topic = Topic::<u64>::options().depth(2).reliable(true).open_or_create(&domain, "steps")?;
/// let mut slow = topic.subscriber_with(Subscriber::options().reliable(true))?;
/// let options = Publisher::options().max_blocking(Duration::from_millis(1));
/// let publisher = topic.publisher_with(options)?;
/// for number in 0..3 {
///     publisher.publish(&number)?;                        // the last one waits a millisecond
/// }
/// assert_eq!(publisher.stopped_waiting(), 1);
/// assert!(matches!(slow.recv(), Err(RecvError::Lagged { lost: 1 })));
/// assert_eq!(*slow.recv()?, 1);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "options do nothing until a topic makes a publisher with them"]
pub struct PublisherOptions {
    pub(super) max_blocking: Option<Duration>,
    pub(super) period: Option<Duration>,
    pub(super) lifespan: Option<Duration>,
    pub(super) is_foreign: bool,
}

impl PublisherOptions {
    /// Sets how long a reliable subscriber may be in the way of a message, counted from the first
    /// call that found it there: then publishing goes on without it. [`Duration::ZERO`]: the
    /// publisher never waits; [`Duration::MAX`], and the default: it waits for ever, as the topic's maker has
    /// [agreed to](super::TopicOptions::reliable).
    ///
    /// In the way are also messages that the subscriber has not taken, if there is no memory for
    /// another one: a call that finds none fails with [`SendError::NoSpace`](crate::SendError), and
    /// the first such call after that span gives those messages up. [`Duration::ZERO`]: each call.
    ///
    /// The subscriber is told how many messages it lost
    /// ([`RecvError::Lagged`](crate::RecvError::Lagged)), and publishers wait for it again once it
    /// has taken a message: until then no publisher of the topic does, also one without a limit. A
    /// wait set that waits for [room](super::Publisher::writable) does not
    /// know of this limit: add a [`Timer`](crate::wait::Timer).
    ///
    /// # If a process dies
    /// If the publisher's process dies before it has overwritten anything, the subscriber has lost
    /// nothing.
    pub fn max_blocking(mut self, span: Duration) -> PublisherOptions {
        self.max_blocking = limited(span);
        self
    }

    /// Sets how often this publisher means to publish, DDS's *offered deadline*: each period that
    /// passes without a message is [counted](super::Publisher::missed), and
    /// [`Publisher::due`](super::Publisher::due) tells another thread of it at its end. No
    /// subscriber is told: each has a [period](super::SubscriberOptions::period) of its own.
    /// Default: none.
    ///
    /// A period begins when a message is published. With this option each publish looks at the
    /// clock, and at all rings of the topic that have been in use.
    pub fn period(mut self, period: Duration) -> PublisherOptions {
        self.period = Some(period);
        self
    }

    /// Sets how long a message of this publisher counts, by its header's stamp and the time of day:
    /// subscribers pass over an older one, count it as [expired](super::Subscriber::expired), and
    /// are not given it as history or [latest](super::Subscriber::latest). A subscriber may want
    /// less ([`max_age`](super::SubscriberOptions::max_age)). [`Duration::MAX`], and the default: for
    /// ever.
    ///
    /// A topic without [stamps](super::TopicOptions::stamps) refuses it: making the publisher
    /// returns [`Error::OtherOptions`](crate::Error::OtherOptions). A message without a stamp of its
    /// own gets one; setting the machine's clock makes messages older, or younger.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-lifespan-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::topic::{Header, Outgoing, Publisher, Topic};
    /// use std::time::Duration;
    /// let topic = Topic::<u64>::open_or_create(&domain, "range")?;
    /// let mut subscriber = topic.subscriber()?;
    /// let options = Publisher::options().lifespan(Duration::from_secs(100));
    /// let publisher = topic.publisher_with(options)?;
    /// let of_1970 = Header { stamp: 1, ..Header::default() };
    /// publisher.publish(Outgoing::new(&1).header(of_1970))?;
    /// publisher.publish(&2)?;
    /// assert_eq!((*subscriber.recv()?, subscriber.expired()), (2, 1));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # If a process dies
    /// If the publisher's process dies, the messages that it has left keep their lifespan. Where
    /// several publishers came one after the other, each before all of the last one's messages were
    /// overwritten, the shortest lifespan of those that had one counts for what they have left.
    pub fn lifespan(mut self, span: Duration) -> PublisherOptions {
        self.lifespan = limited(span);
        self
    }

    /// Sets whether it publishes in the name of one elsewhere: its messages say so for good, so that no gateway
    /// sends them on.
    #[doc(hidden)]
    pub fn foreign(mut self, is_foreign: bool) -> PublisherOptions {
        self.is_foreign = is_foreign;
        self
    }

    /// Sets what a profile of the configuration file says of publishers, and leaves the rest as it
    /// is; what is set later wins.
    #[cfg(feature = "config")]
    pub fn profile(mut self, profile: &crate::config::Profile) -> PublisherOptions {
        self.max_blocking = profile.max_blocking.map_or(self.max_blocking, limited);
        self.lifespan = profile.lifespan.map_or(self.lifespan, limited);
        self.period = profile.publisher_period.or(self.period);
        self
    }
}
