//! Outlive's topics: loans written in place, samples read in place. The row `outlive` has no stamps
//! of the time of day, as no other row has; `outlive stamped` has them, as topics have by default.

use super::{Publish, Shape, Subscribe, Topic, Wait};
use crate::scale::{self, Over};
use ::outlive::topic;
use outlive_bench::Error;
pub(super) use outlive_bench::harness::error::told;
use outlive_bench::harness::round::Stage;
use outlive_bench::harness::scratch::Scratch;

/// The row: with stamps, or without.
pub(crate) struct Row<const STAMPED: bool>;
/// The row without stamps.
pub(crate) type Outlive = Row<false>;
/// The row with stamps.
pub(crate) type OutliveStamped = Row<true>;

/// Where the domain is.
pub(crate) struct Place {
    scratch: Scratch,
    shape: Shape,
    stamped: bool,
}

impl From<Wait> for ::outlive::WaitStrategy {
    fn from(wait: Wait) -> Self {
        match wait {
            Wait::Busy => Self::Spin,
            Wait::Block => Self::Block,
        }
    }
}

impl Place {
    fn domain(&self) -> Result<::outlive::Domain, Error> {
        told(::outlive::Domain::open_or_create_at(self.scratch.path()), "opening a domain")
    }

    fn topic(&self, domain: &::outlive::Domain, name: &str) -> Result<topic::Topic, Error> {
        // Not fewer than by default, but of long ones: they keep their memory as long as they are
        // kept, and a publisher that writes all of it in turn finds none in its caches.
        let depth = if self.shape.bytes > 128 << 10 { 1 } else { 16 }.max(self.shape.buffer as u32);
        // As many as by default, or as there will be.
        let (subscribers, publishers) = (self.shape.subscribers, self.shape.publishers);
        let options = topic::Topic::options()
            .depth(depth)
            .stamps(self.stamped)
            .max_subscribers(64.max(subscribers as u32))
            .max_publishers(62.max(publishers as u32))
            .reliable(self.shape.lossless)
            .wait_strategy(self.shape.wait.into());
        told(options.open_or_create(domain, name), "opening a topic")
    }

    fn subscriber_of(&self, topic: &topic::Topic) -> Result<Subscriber, Error> {
        let options = topic::Subscriber::options().reliable(self.shape.lossless);
        told(topic.subscriber_with(options), "opening a subscriber").map(Subscriber)
    }
}

/// The publishing end.
pub(crate) struct Publisher(topic::Publisher);

/// The subscribing end.
pub(crate) struct Subscriber(topic::Subscriber);

impl<const STAMPED: bool> Topic for Row<STAMPED> {
    const NAME: &'static str = if STAMPED { "outlive stamped" } else { "outlive" };
    type Place = Place;
    type Publisher = Publisher;
    type Subscriber = Subscriber;

    fn place(stage: &Stage, name: &str, shape: Shape) -> Result<Place, Error> {
        Ok(Place { scratch: stage.scratch.inner(name)?, shape, stamped: STAMPED })
    }

    fn publisher(place: &Place) -> Result<Publisher, Error> {
        told(place.topic(&place.domain()?, "topic")?.publisher(), "opening a publisher")
            .map(Publisher)
    }

    fn subscriber(place: &Place) -> Result<Subscriber, Error> {
        place.subscriber_of(&place.topic(&place.domain()?, "topic")?)
    }
}

/// One process in a place.
pub(crate) struct Session<'a> {
    place: &'a Place,
    domain: ::outlive::Domain,
}

impl<const STAMPED: bool> scale::Domain for Row<STAMPED> {
    type Session<'a> = Session<'a>;
    const FILES: u64 = 2;

    fn session(place: &Place) -> Result<Session<'_>, Error> {
        Ok(Session { place, domain: place.domain()? })
    }

    fn publisher_of(session: &Session<'_>, topic: usize) -> Result<Publisher, Error> {
        let topic = session.place.topic(&session.domain, &format!("topic{topic}"))?;
        told(topic.publisher(), "opening a publisher").map(Publisher)
    }

    fn subscriber_of(session: &Session<'_>, topic: usize) -> Result<Subscriber, Error> {
        session
            .place
            .subscriber_of(&session.place.topic(&session.domain, &format!("topic{topic}"))?)
    }

    fn limit(over: Over, step: usize) -> Option<String> {
        let is_of_one = matches!(over, Over::Subscribers | Over::Publishers);
        (is_of_one && step > 1024).then(|| "a topic has at most 1024".into())
    }
}

impl Publish for Publisher {
    #[inline]
    fn publish(&mut self, bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        let mut loan = told(self.0.loan(bytes), "a loan")?;
        write(&mut loan);
        told(self.0.publish(loan), "publishing").map(drop)
    }
}

impl Subscribe for Subscriber {
    #[inline]
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<R, Error> {
        let sample = told(self.0.recv(), "receiving")?;
        Ok(read(&sample))
    }
}
