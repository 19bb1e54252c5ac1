//! The options of a subscriber.

use std::time::Duration;

use super::kept::KeptAs;
use super::publisher_options::limited;

use crate::durability::Durability;

/// Options for a subscriber; [`Topic::subscriber_with`](super::Topic::subscriber_with) makes one
/// with them. They begin with [`Subscriber::options`](super::Subscriber::options).
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-subscribing-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::topic::{Subscriber, Topic};
/// let topic = Topic::<u64>::options().reliable(true).open_or_create(&domain, "steps")?;
/// let options = Subscriber::options().reliable(true).history(1);
/// let publisher = topic.publisher()?;
/// publisher.publish(&7)?;
/// assert_eq!(*topic.subscriber_with(options)?.recv()?, 7);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "options do nothing until a topic makes a subscriber with them"]
pub struct SubscriberOptions {
    pub(super) reliable: bool,
    pub(super) history: u32,
    pub(super) keep_last: Option<u32>,
    pub(super) keys: Vec<u64>,
    pub(super) period: Option<Duration>,
    pub(super) durability: Option<Durability>,
    pub(super) sessions: bool,
    pub(super) max_age: Option<Duration>,
    pub(super) liveliness: Option<Duration>,
    pub(super) unvouched: bool,
    pub(super) kept: Option<KeptAs>,
    pub(super) acknowledges: bool,
}

impl SubscriberOptions {
    /// Sets whether publishers wait until this subscriber has taken a message before they overwrite
    /// it. Default: no, the newest message replaces the oldest.
    ///
    /// The topic has to [offer it](super::TopicOptions::reliable): else making the subscriber
    /// returns [`Error::OtherOptions`](crate::Error::OtherOptions), whose `what` is "reliability".
    pub fn reliable(mut self, reliable: bool) -> SubscriberOptions {
        self.reliable = reliable;
        self
    }

    /// Sets how many messages of each publisher from before the subscription to receive, as far as
    /// they are still there, and as the topic's [durability](super::TopicOptions::durability) gives
    /// them: of living publishers, or also of those that have ended. More than the topic's depth counts
    /// as the depth. Default: 0.
    pub fn history(mut self, messages: u32) -> SubscriberOptions {
        self.history = messages;
        self
    }

    /// Sets whether the history has all messages that are there, also those that no publisher vouches for,
    /// and those of a volatile topic: for a gateway that goes on where a dead one has ended.
    #[doc(hidden)]
    pub fn unvouched(mut self, all: bool) -> SubscriberOptions {
        self.unvouched = all;
        self
    }

    /// Sets a name, of 1 to 64 bytes, under which the topic keeps this subscriber's place if its process
    /// dies: a successor of that name goes on where the messages of the dead one ended. Until a successor
    /// comes, publishers wait as for a subscriber that is stopped, for `patience` at most from the moment at
    /// which the first of them waits. A subscriber that is dropped gives the place up. A name has one living
    /// subscriber ([`Error::Taken`](crate::Error::Taken)).
    ///
    /// A successor has the dead one's place: [history](Self::history) and
    /// [durability](Self::durability) count for the first of that name only. It is reliable if the first
    /// was. From then on its own patience counts.
    #[doc(hidden)]
    pub fn kept(mut self, name: &str, patience: Duration) -> SubscriberOptions {
        self.kept = Some(KeptAs { name: name.to_owned(), patience });
        self
    }

    /// Sets whether publishers learn what this subscriber is done with by
    /// [`Subscriber::acknowledge`](super::Subscriber::acknowledge), and not by each receive.
    #[doc(hidden)]
    pub fn acknowledging(mut self, acknowledges: bool) -> SubscriberOptions {
        self.acknowledges = acknowledges;
        self
    }

    /// Sets which earlier messages to get as history and by
    /// [`Subscriber::latest`](super::Subscriber::latest): no more than these, although the topic may
    /// offer more. Default: what the topic offers.
    ///
    /// A topic that offers less refuses the subscriber
    /// ([`Error::OtherOptions`](crate::Error::OtherOptions), whose `what` is "durability"), and so
    /// does a volatile topic a history.
    pub fn durability(mut self, wanted: Durability) -> SubscriberOptions {
        self.durability = Some(wanted);
        self
    }

    /// Sets whether to be told of each session, before its first message:
    /// [`RecvError::NewSession`](crate::RecvError::NewSession). A session is one start of a
    /// publisher, so a publisher that was started again is a new one. Default: no.
    pub fn sessions(mut self, told: bool) -> SubscriberOptions {
        self.sessions = told;
        self
    }

    /// Sets how old a message may be, by its header's stamp and the time of day: older ones are
    /// passed over, [counted](super::Subscriber::expired), and not given by
    /// [`Subscriber::latest`](super::Subscriber::latest). A message without a stamp has no age, and
    /// is received. Default: any age.
    ///
    /// Of a topic without [stamps](super::TopicOptions::stamps) no subscriber gets this: making it
    /// returns [`Error::OtherOptions`](crate::Error::OtherOptions).
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-max-age-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::topic::{Header, Outgoing, Subscriber, Topic};
    /// use std::time::Duration;
    /// let topic = Topic::<u64>::open_or_create(&domain, "range")?;
    /// let fresh = Subscriber::options().max_age(Duration::from_secs(100));
    /// let mut subscriber = topic.subscriber_with(fresh)?;
    /// let publisher = topic.publisher()?;
    /// let of_1970 = Header { stamp: 1, ..Header::default() };
    /// publisher.publish(Outgoing::new(&1).header(of_1970))?;
    /// publisher.publish(&2)?;
    /// assert_eq!((*subscriber.recv()?, subscriber.expired()), (2, 1));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_age(mut self, age: Duration) -> SubscriberOptions {
        self.max_age = limited(age);
        self
    }

    /// Returns the least that the topic has to offer.
    pub(super) fn wanted_durability(&self) -> Durability {
        let history = match self.history {
            0 => Durability::Volatile,
            _ => Durability::TransientLocal,
        };
        self.durability.unwrap_or(history).max(history)
    }

    /// Sets the maximum lag behind each publisher, in messages: when more are waiting, the oldest
    /// of them are skipped, and counted as lost. At least 1; default: the topic's depth.
    pub fn keep_last(mut self, messages: u32) -> SubscriberOptions {
        self.keep_last = Some(messages);
        self
    }

    /// Sets which messages to receive: those with one of these keys
    /// ([`Header::key`](super::Header::key)). Default, and with an empty slice: all messages.
    pub fn keys(mut self, keys: &[u64]) -> SubscriberOptions {
        self.keys = keys.to_vec();
        self
    }

    /// Sets how often to expect a message, DDS's *deadline*: receiving in any form fails with
    /// [`RecvError::Missed`](crate::RecvError::Missed) when none comes for so long, a wait set says
    /// [`Readiness::Missed`](crate::wait::Readiness::Missed), and each period that passes is
    /// [counted](super::Subscriber::missed). Default: the subscriber waits.
    ///
    /// A period begins when the subscriber takes a message. One that is there in time is received,
    /// however late the subscriber looks for it.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-period-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::RecvError;
    /// use outlive::topic::{Subscriber, Topic};
    /// use outlive::wait::{Readiness, WaitSet};
    /// use std::time::Duration;
    /// let topic = Topic::<u64>::open_or_create(&domain, "steps")?;
    /// let options = Subscriber::options().period(Duration::from_millis(2));
    /// let mut subscriber = topic.subscriber_with(options)?;
    /// let mut set = WaitSet::new(&domain);
    /// let key = set.add(&subscriber)?;
    /// assert_eq!(set.wait()?.collect::<Vec<_>>(), [(key, Readiness::Missed)]);
    /// assert_eq!(subscriber.try_recv().map(drop), Err(RecvError::Missed));
    /// assert!(subscriber.missed() >= 1);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn period(mut self, period: Duration) -> SubscriberOptions {
        self.period = Some(period);
        self
    }

    /// Sets how long a publisher may live and do nothing before this subscriber is told, DDS's
    /// *lease*: receiving in any form fails with
    /// [`RecvError::NotLively`](crate::RecvError::NotLively), once, behind the messages that are
    /// there. When the publisher publishes again, or
    /// [asserts](super::Publisher::assert_liveliness) that it is there, it is told as
    /// [`RecvError::Lively`](crate::RecvError::Lively); one that dies, at once, as
    /// [`RecvError::PublisherDied`](crate::RecvError::PublisherDied). A wait set says
    /// [`Readiness::Changed`](crate::wait::Readiness::Changed) then. Default: it is told of none of
    /// that.
    ///
    /// The subscriber tells it at its first look after the lease, by what two looks of its own have
    /// seen: never of a publisher that did something within the lease, and of one that did nothing
    /// before two leases have passed, as long as it looks, or waits in a receive, a wait set or a
    /// future. While a publisher is told as not lively, a waiting subscriber looks each half of the
    /// lease whether it asserts that it is there. Publishers pay nothing for it.
    ///
    /// # If a process dies
    /// A publisher's death wakes a waiting subscriber at once. A stopped publisher is alive, and is
    /// not lively.
    pub fn liveliness(mut self, lease: Duration) -> SubscriberOptions {
        self.liveliness = Some(lease);
        self
    }

    /// Sets what a profile of the configuration file says of subscribers, and leaves the rest as it
    /// is; what is set later wins.
    #[cfg(feature = "config")]
    pub fn profile(mut self, profile: &crate::config::Profile) -> SubscriberOptions {
        self.reliable = profile.reliable.unwrap_or(self.reliable);
        self.history = profile.history.unwrap_or(self.history);
        self.keep_last = profile.keep_last.or(self.keep_last);
        self.period = profile.period.or(self.period);
        self.sessions = profile.sessions.unwrap_or(self.sessions);
        self.max_age = profile.max_age.map_or(self.max_age, limited);
        if let Some(keys) = &profile.keys {
            self.keys.clone_from(keys);
        }
        self.liveliness = profile.liveliness.or(self.liveliness);
        self
    }
}
