//! Outlive's queue, where queues are compared: a sender, one receiver, nothing lost.

use super::{Publish, Shape, Subscribe, Topic};
use ::outlive::Domain;
use ::outlive::queue::{Queue, Receiver, Sender};
use outlive_bench::Error;
use outlive_bench::harness::round::Stage;
use outlive_bench::harness::scratch::Scratch;

/// Room for two of the largest messages, and for a megabyte of small ones.
const LEAST_ROOM: u64 = 1 << 20;

/// The row.
pub(crate) struct OutliveQueue;

/// Where the domain is.
pub(crate) struct Place {
    scratch: Scratch,
    shape: Shape,
}

impl Place {
    fn queue(&self) -> Result<Queue, Error> {
        let domain = Domain::open_or_create_at(self.scratch.path())
            .map_err(|error| Error::told("opening a domain", error))?;
        let room = LEAST_ROOM.max(self.shape.bytes as u64 * 4);
        let made = Queue::<[u8]>::options()
            .max_bytes(room)
            .wait_strategy(self.shape.wait.into())
            .open_or_create(&domain, "topic");
        made.map_err(|error| Error::told("opening a queue", error))
    }
}

/// The publishing end, with the message it copies from.
pub(crate) struct Publisher {
    sender: Sender,
    message: Vec<u8>,
}

/// The subscribing end, with the message it copies into.
pub(crate) struct Subscriber {
    receiver: Receiver,
    message: Vec<u8>,
}

impl Topic for OutliveQueue {
    const NAME: &'static str = "outlive queue";
    type Place = Place;
    type Publisher = Publisher;
    type Subscriber = Subscriber;

    fn refuses(shape: &Shape) -> Option<String> {
        (shape.subscribers > 1 || shape.publishers > 1 || !shape.lossless)
            .then(|| "a queue has one receiver, and loses nothing".to_owned())
    }

    fn place(stage: &Stage, name: &str, shape: Shape) -> Result<Place, Error> {
        Ok(Place { scratch: stage.scratch.inner(name)?, shape })
    }

    fn publisher(place: &Place) -> Result<Publisher, Error> {
        let sender =
            place.queue()?.sender().map_err(|error| Error::told("opening a sender", error))?;
        Ok(Publisher { sender, message: vec![0; place.shape.bytes] })
    }

    fn subscriber(place: &Place) -> Result<Subscriber, Error> {
        let receiver =
            place.queue()?.receiver().map_err(|error| Error::told("opening a receiver", error))?;
        Ok(Subscriber { receiver, message: vec![0; place.shape.bytes] })
    }
}

impl Publish for Publisher {
    #[inline]
    fn publish(&mut self, bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        write(&mut self.message[..bytes]);
        self.sender
            .send(&self.message[..bytes])
            .map_err(|error| Error::told("sending to outlive's queue", error))
    }
}

impl Subscribe for Subscriber {
    #[inline]
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<R, Error> {
        let received = self.receiver.recv_into(&mut self.message);
        received.map_err(|error| Error::told("receiving from outlive's queue", error))?;
        Ok(read(&self.message))
    }
}
