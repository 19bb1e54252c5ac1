//! zenoh with its shared-memory payloads, over a Unix socket between two peers: `--features zenoh`.
//!
//! Its own threads bring the messages, so subscribers block in both kinds of row.

use super::{Publish, Shape, Subscribe, Topic};
use ::zenoh::handlers::FifoChannelHandler;
use ::zenoh::pubsub;
use ::zenoh::qos::CongestionControl;
use ::zenoh::sample::Sample;
use ::zenoh::shm::{
    BlockOn, GarbageCollect, PosixShmProviderBackend, ShmProvider, ShmProviderBuilder,
};
use ::zenoh::{Config, Session, Wait as _};
use outlive_bench::Error;
use outlive_bench::harness::round::Stage;
use outlive_bench::harness::scratch::Scratch;
use std::fmt;
use std::thread;
use std::time::Duration;

const KEY: &str = "outlive/bench";
/// A publisher's memory: some messages of the largest size, and room for what the library keeps
/// beside each.
const MESSAGES: usize = 8;
const LEAST_MEMORY: usize = 16 << 20;

fn told<T, E: fmt::Display>(result: Result<T, E>, doing: &str) -> Result<T, Error> {
    result.map_err(|error| Error::told(&format!("zenoh: {doing}"), error))
}

/// The row.
pub(crate) struct Zenoh;

/// Where the socket is.
pub(crate) struct Place {
    scratch: Scratch,
    shape: Shape,
}

impl Place {
    fn session(&self, listens: bool) -> Result<Session, Error> {
        let mut config = Config::default();
        let endpoint =
            format!("[\"unixsock-stream/{}\"]", self.scratch.path().join("zenoh").display());
        let settings = [
            ("mode", "\"peer\""),
            (if listens { "listen/endpoints" } else { "connect/endpoints" }, &endpoint),
            (if listens { "connect/endpoints" } else { "listen/endpoints" }, "[]"),
            ("scouting/multicast/enabled", "false"),
            ("transport/shared_memory/enabled", "true"),
        ];
        for (key, value) in settings {
            told(config.insert_json5(key, value), key)?;
        }
        told(::zenoh::open(config).wait(), "a session")
    }
}

/// The publishing end.
pub(crate) struct Publisher {
    publisher: pubsub::Publisher<'static>,
    memory: ShmProvider<PosixShmProviderBackend>,
    /// Kept: the publisher lives in it.
    _session: Session,
}

/// The subscribing end.
pub(crate) struct Subscriber {
    subscriber: pubsub::Subscriber<FifoChannelHandler<Sample>>,
    /// Kept: the subscriber lives in it.
    _session: Session,
}

impl Topic for Zenoh {
    const NAME: &'static str = "zenoh";
    type Place = Place;
    type Publisher = Publisher;
    type Subscriber = Subscriber;

    fn refuses(shape: &Shape) -> Option<String> {
        (shape.subscribers > 1 || shape.publishers > 1)
            .then(|| "it is measured between two processes only".to_owned())
    }

    fn place(stage: &Stage, name: &str, shape: Shape) -> Result<Place, Error> {
        Ok(Place { scratch: stage.scratch.inner(name)?, shape })
    }

    fn publisher(place: &Place) -> Result<Publisher, Error> {
        let session = place.session(false)?;
        let room = LEAST_MEMORY.max(place.shape.bytes.next_multiple_of(4096) * MESSAGES);
        let memory = told(ShmProviderBuilder::default_backend(room).wait(), "memory")?;
        let builder = session
            .declare_publisher(KEY)
            .congestion_control(CongestionControl::Block)
            .express(true);
        let publisher = told(builder.wait(), "a publisher")?;
        while !told(publisher.matching_status().wait(), "asking for subscribers")?.matching() {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Publisher { publisher, memory, _session: session })
    }

    fn subscriber(place: &Place) -> Result<Subscriber, Error> {
        let session = place.session(true)?;
        let subscriber = told(session.declare_subscriber(KEY).wait(), "a subscriber")?;
        Ok(Subscriber { subscriber, _session: session })
    }
}

impl Publish for Publisher {
    #[inline]
    fn publish(&mut self, bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        let lent = self.memory.alloc(bytes).with_policy::<BlockOn<GarbageCollect>>().wait();
        let mut lent = told(lent, "a loan")?;
        write(&mut lent);
        told(self.publisher.put(lent).wait(), "publishing")
    }
}

impl Subscribe for Subscriber {
    #[inline]
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<R, Error> {
        let sample = told(self.subscriber.recv(), "receiving")?;
        // Borrowed: a payload in shared memory is one piece.
        Ok(read(&sample.payload().to_bytes()))
    }
}
