//! The queues and floors of `outlive bench queue`, as topics with one subscriber.

use super::{Publish, Shape, Subscribe, Topic};
use outlive_bench::Error;
use outlive_bench::harness::round::Stage;
use outlive_bench::suite::queue::{self, Channel, Receive, Send};
use std::marker::PhantomData;

/// One flag on one cache line, seen by a receiver that spins.
pub(crate) type CacheLine = Queued<queue::CacheLine>;
/// A store and FUTEX_WAKE, FUTEX_WAIT on the other side.
pub(crate) type Futex = Queued<queue::Futex>;
/// A POSIX message queue.
pub(crate) type PosixMq = Queued<queue::PosixMq>;

/// A queue as a topic.
pub(crate) struct Queued<C>(PhantomData<C>);

/// The queue's place, and how long its messages are.
pub(crate) struct Place<P> {
    inner: P,
    bytes: usize,
}

/// Either end with a message's room: a queue copies.
pub(crate) struct End<E> {
    end: E,
    message: Vec<u8>,
}

impl<C: Channel + 'static> Topic for Queued<C> {
    const NAME: &'static str = C::NAME;
    const IS_FLOOR: bool = C::IS_FLOOR;
    type Place = Place<C::Place>;
    type Publisher = End<C::Sender>;
    type Subscriber = End<C::Receiver>;

    fn refuses(shape: &Shape) -> Option<String> {
        if shape.subscribers > 1 {
            return Some("a queue: each message goes to one receiver".into());
        }
        C::refuses(shape.bytes)
    }

    fn place(stage: &Stage, name: &str, shape: Shape) -> Result<Self::Place, Error> {
        // As many names as there are topics, in a program that runs for a minute.
        let inner = C::place(stage, String::from(name).leak(), shape.bytes)?;
        Ok(Place { inner, bytes: if C::IS_FLOOR { 0 } else { shape.bytes } })
    }

    fn publisher(place: &Self::Place) -> Result<Self::Publisher, Error> {
        Ok(End { end: C::sender(&place.inner)?, message: vec![0; place.bytes] })
    }

    fn subscriber(place: &Self::Place) -> Result<Self::Subscriber, Error> {
        Ok(End { end: C::receiver(&place.inner)?, message: vec![0; place.bytes] })
    }
}

impl<S: Send> Publish for End<S> {
    #[inline]
    fn publish(&mut self, bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        // A floor's message is empty.
        let bytes = bytes.min(self.message.len());
        write(&mut self.message[..bytes]);
        self.end.send(&self.message[..bytes])
    }
}

impl<S: Receive> Subscribe for End<S> {
    #[inline]
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<R, Error> {
        self.end.receive(&mut self.message)?;
        Ok(read(&self.message))
    }
}
