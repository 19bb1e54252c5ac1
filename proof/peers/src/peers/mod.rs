//! Other libraries, and Outlive, behind the same few functions: one file for each.
//!
//! A [`Topic`] carries messages from one publisher to subscribers in other processes, a [`Service`]
//! carries a request there and a reply back. Every contender is used as its own documents say for
//! the case at hand: those that can be polled are polled where [`Wait::Busy`] is asked for, and
//! those whose calls only block are blocked in.

mod aeron;
mod boost;
mod futexes;
mod iceoryx2;
mod outlive;
mod outlive_queue;
mod outlive_rpc;
mod queues;
mod unix;
#[cfg(feature = "zenoh")]
mod zenoh;
mod zeromq;

pub(crate) use self::aeron::{Aeron, AeronTask};
pub(crate) use self::boost::{BoostQueue, Mutex as BoostMutex};
pub(crate) use self::futexes::Futexes;
pub(crate) use self::iceoryx2::Iceoryx2;
pub(crate) use self::outlive::{Outlive, OutliveStamped};
pub(crate) use self::outlive_queue::OutliveQueue;
pub(crate) use self::outlive_rpc::OutliveCopied;
pub(crate) use self::queues::{CacheLine, Futex, PosixMq};
pub(crate) use self::unix::UnixStream;
#[cfg(feature = "zenoh")]
pub(crate) use self::zenoh::Zenoh;
pub(crate) use self::zeromq::ZeroMq;

use outlive_bench::Error;
use outlive_bench::harness::round::Stage;

/// How a receiver waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It asks again and again.
    Busy,
    /// It sleeps until there is something.
    Block,
}

/// What a topic must be able to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes in a message.
    pub bytes: usize,
    /// How subscribers wait.
    pub wait: Wait,
    /// Subscribers there will be; a publisher is there when it knows them all.
    pub subscribers: usize,
    /// Publishers there will be.
    pub publishers: usize,
    /// Messages that may wait for a subscriber.
    pub buffer: usize,
    /// Whether a publisher waits for subscribers, or overwrites.
    pub lossless: bool,
    /// Small messages as fast as they go: a publisher without room asks again at once, where it
    /// can.
    pub full_rate: bool,
}

impl Shape {
    /// Returns a shape of one publisher and one subscriber, nothing lost, few messages under way.
    pub fn pair(bytes: usize, wait: Wait) -> Self {
        Self {
            bytes,
            wait,
            subscribers: 1,
            publishers: 1,
            buffer: 2,
            lossless: true,
            full_rate: false,
        }
    }
}

/// A library's way from publishers to subscribers. Outlive's own is [`Outlive`].
pub(crate) trait Topic: 'static {
    /// The row's name, before the size.
    const NAME: &'static str;
    /// Whether it only shows below what no message can go: its messages hold nothing.
    const IS_FLOOR: bool = false;
    /// What is made before the fork; dropping it removes everything.
    type Place;
    /// The publishing process's end.
    type Publisher: Publish;
    /// A subscribing process's end.
    type Subscriber: Subscribe;

    /// Returns why this cannot be done, if it cannot.
    fn refuses(_: &Shape) -> Option<String> {
        None
    }
    /// Makes it, before the fork. It must not start threads.
    fn place(stage: &Stage, name: &str, shape: Shape) -> Result<Self::Place, Error>;
    /// Makes a subscribing process's end; the process calls this before it makes a publisher of
    /// another topic.
    fn subscriber(place: &Self::Place) -> Result<Self::Subscriber, Error>;
    /// Makes the publishing process's end; returns when it reaches all subscribers of the shape, or
    /// will by the time that all have met.
    fn publisher(place: &Self::Place) -> Result<Self::Publisher, Error>;
}

/// A publishing end.
pub(crate) trait Publish {
    /// Publishes a message of so many bytes that `write` writes: in place where the library can.
    fn publish(&mut self, bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<(), Error>;
}

/// A subscribing end.
pub(crate) trait Subscribe {
    /// Connects to the publishers there are, where receiving would only then do so; takes nothing.
    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }
    /// Waits for a message and reads it: in place where the library can.
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<R, Error>;
}

/// A library's way to ask another process and have its answer.
pub(crate) trait Service: 'static {
    /// The row's name, before the size.
    const NAME: &'static str;
    /// What is made before the fork.
    type Place;
    /// The asking end.
    type Client: Call;
    /// The answering end.
    type Server: Serve;

    /// Makes it, before the fork. It must not start threads.
    fn place(stage: &Stage, bytes: usize, wait: Wait) -> Result<Self::Place, Error>;
    /// Makes the answering process's end, before the client.
    fn server(place: &Self::Place) -> Result<Self::Server, Error>;
    /// Makes the asking process's end, when the server is there.
    fn client(place: &Self::Place) -> Result<Self::Client, Error>;
}

/// An asking end.
pub(crate) trait Call {
    /// Sends a request that `write` writes, waits for the reply, and reads it.
    fn call<R>(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut [u8]),
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Error>;
}

/// An answering end.
pub(crate) trait Serve {
    /// Waits for a request, and answers with as many bytes, which `answer` writes.
    fn serve(&mut self, answer: impl FnOnce(&[u8], &mut [u8])) -> Result<(), Error>;
}

/// Writes a message's number into its first bytes; all of it where it is shorter than a number.
#[inline]
pub(crate) fn write_number(message: &mut [u8], number: u64) {
    let bytes = message.len().min(8);
    message[..bytes].copy_from_slice(&number.to_le_bytes()[..bytes]);
}

/// Returns the number in a message, as far as it has room for it.
#[inline]
pub(crate) fn read_number(message: &[u8]) -> u64 {
    let mut eight = [0; 8];
    let bytes = message.len().min(8);
    eight[..bytes].copy_from_slice(&message[..bytes]);
    u64::from_le_bytes(eight)
}
