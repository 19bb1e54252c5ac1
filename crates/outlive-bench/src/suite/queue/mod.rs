//! What does a message from one process to another cost?
//!
//! *One way*: one process sends as fast as it can, another receives as fast as it can; the
//! receiver's time per message. *Batch*: the same, handed over 64 at a time by contenders that can
//! do that. *Sleeping*: the receiver is asleep in its receiving call; from just before the send
//! until it has the message, the median of a turn. *Round trip*: a message goes there, another
//! comes back. *Grow*: see [`grow`].
//!
//! The peers' calls block. Spinning on their forms that do not was tried, on either side and on
//! both: never better by more than a tenth, mostly worse.
//!
//! Every message carries its number, and a number out of turn is an error. Two rows are floors,
//! below which no message can go: `cacheline` is one atomic flag to and fro, `futex` a bare futex
//! hand-over. Where the others are measured one way at full rate, a floor is half its round trip.

mod floors;
mod flow;
mod grow;
mod outlive;
mod pipe;
mod posix_mq;
mod sysv_msg;
mod unix_seqpacket;

use crate::harness::error::Error;
use crate::harness::report::{Absent, Title};
use crate::harness::round::{Contender, Figure, Stage};
use grow::{Allocating, Growing};
use pipe::Pipe;
use std::marker::PhantomData;
use sysv_msg::SysVMsg;

pub use self::outlive::Outlive;
pub use floors::{CacheLine, Futex};
pub use posix_mq::PosixMq;
pub(super) use unix_seqpacket::UnixSeqpacket;

/// Messages hold at least their number.
pub const LEAST_BYTES: usize = 8;

/// A way for messages from one process to another.
pub trait Channel {
    /// The row's name.
    const NAME: &'static str;
    /// Whether it only shows below what no message can go.
    const IS_FLOOR: bool = false;
    /// What is made before the fork; dropping it removes everything.
    type Place;
    /// The sending process's end.
    type Sender: Send;
    /// The receiving process's end.
    type Receiver: Receive;

    /// Makes it, before the fork, for messages of so many bytes.
    fn place(stage: &Stage, name: &'static str, bytes: usize) -> Result<Self::Place, Error>;
    /// Opens the sending process's end.
    fn sender(place: &Self::Place) -> Result<Self::Sender, Error>;
    /// Opens the receiving process's end.
    fn receiver(place: &Self::Place) -> Result<Self::Receiver, Error>;
    /// Returns why messages of this size cannot go this way, if they cannot.
    fn refuses(_bytes: usize) -> Option<String> {
        None
    }
}

/// A sending end.
pub trait Send {
    /// Sends one message, waiting while there is no room.
    fn send(&mut self, message: &[u8]) -> Result<(), Error>;
    /// Sends many.
    fn send_batch(&mut self, messages: &[Vec<u8>]) -> Result<(), Error> {
        messages.iter().try_for_each(|message| self.send(message))
    }
}

/// A receiving end.
pub trait Receive {
    /// Receives one message, waiting while there is none. `message` is as long as all messages are.
    fn receive(&mut self, message: &mut Vec<u8>) -> Result<(), Error>;
}

/// The ways to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As fast as it goes.
    OneWay,
    /// As fast as it goes, so many at a time.
    Batch(usize),
    /// To a sleeping receiver.
    Sleeping,
    /// There and back.
    RoundTrip,
    /// The longest send while the queue grows to so many bytes.
    Grow(u64),
}

impl Mode {
    /// Returns what it is called.
    pub fn title(self) -> Title {
        let (mode, meaning, rate_of) = match self {
            Self::OneWay => ("one-way", "a message, one way, at full rate", Some("messages")),
            Self::Batch(_) => {
                ("batch", "a message, one way, at full rate, sent in batches", Some("messages"))
            }
            Self::Sleeping => {
                ("sleeping", "from send until the receiver that slept has the message", None)
            }
            Self::RoundTrip => ("roundtrip", "a message there and another back", None),
            Self::Grow(_) => (
                "grow",
                "the longest single send while the queue grows, against allocating 2 MiB",
                None,
            ),
        };
        Title { bench: "queue", mode, meaning, ours: &[Outlive::NAME], rate_of }
    }
}

/// A row: one way for messages, used in one manner.
struct Messaging<C> {
    name: &'static str,
    mode: Mode,
    bytes: usize,
    channel: PhantomData<C>,
}

/// The contenders, in the order they are shown.
pub struct Field {
    /// The rows.
    pub rows: Vec<Box<dyn Contender>>,
    /// The name of the row that the others are compared with.
    pub baseline: &'static str,
    /// The contenders that cannot take part.
    pub absent: Vec<Absent>,
}

impl Field {
    /// Returns the rows for messages of so many bytes.
    pub fn new(mode: Mode, bytes: usize) -> Self {
        let baseline = match mode {
            Mode::Sleeping => Futex::NAME,
            Mode::RoundTrip => CacheLine::NAME,
            Mode::Grow(_) => Allocating::NAME,
            // Messages may be too large for a POSIX queue; a pipe takes any.
            Mode::OneWay | Mode::Batch(_) if PosixMq::refuses(bytes).is_some() => Pipe::NAME,
            Mode::OneWay | Mode::Batch(_) => PosixMq::NAME,
        };
        let mut field = Self { rows: Vec::new(), baseline, absent: Vec::new() };
        if let Mode::Grow(to) = mode {
            field.rows.push(Box::new(Growing { to, bytes }));
            field.rows.push(Box::new(Allocating));
            return field;
        }
        field.add::<Outlive>(mode, bytes);
        field.add::<PosixMq>(mode, bytes);
        field.add::<Pipe>(mode, bytes);
        field.add::<UnixSeqpacket>(mode, bytes);
        field.add::<SysVMsg>(mode, bytes);
        if mode == Mode::Sleeping {
            field.absent.push(Absent {
                name: CacheLine::NAME,
                why: "who waits for a bare flag never sleeps".into(),
            });
        } else {
            field.add::<CacheLine>(mode, bytes);
        }
        field.add::<Futex>(mode, bytes);
        field
    }

    fn add<C: Channel + 'static>(&mut self, mode: Mode, bytes: usize) {
        match C::refuses(bytes) {
            None => self.rows.push(Box::new(Messaging::<C> {
                name: C::NAME,
                mode,
                bytes,
                channel: PhantomData,
            })),
            Some(why) => self.absent.push(Absent { name: C::NAME, why }),
        }
    }
}

/// Ways to send, one way at full rate or to and fro, under names of the caller's.
pub struct Contest {
    mode: Mode,
    bytes: usize,
    /// The rows.
    pub(super) rows: Vec<Box<dyn Contender>>,
    /// The contenders that cannot take part.
    pub(super) absent: Vec<Absent>,
}

impl Contest {
    /// Returns the rows for messages of so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self { mode: Mode::OneWay, bytes, rows: Vec::new(), absent: Vec::new() }
    }

    /// Returns the rows of round trips.
    pub(super) fn round_trips(bytes: usize) -> Self {
        Self { mode: Mode::RoundTrip, ..Self::new(bytes) }
    }

    /// Adds a way.
    pub(super) fn add<C: Channel + 'static>(&mut self, name: &'static str) {
        let (mode, bytes) = (self.mode, self.bytes);
        match C::refuses(bytes) {
            None => {
                self.rows.push(Box::new(Messaging::<C> { name, mode, bytes, channel: PhantomData }))
            }
            Some(why) => self.absent.push(Absent { name, why }),
        }
    }
}

impl<C: Channel> Contender for Messaging<C> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        match self.mode {
            Mode::RoundTrip => flow::round_trip::<C>(stage, self.bytes, operations),
            Mode::Sleeping => flow::to_sleeper::<C>(stage, self.bytes, operations),
            // A floor holds one message at a time, so its full rate is one for each way.
            _ if C::IS_FLOOR => {
                let figure = flow::round_trip::<C>(stage, self.bytes, operations)?;
                Ok(Figure { ns: figure.ns / 2.0, ..figure })
            }
            Mode::Batch(batch) => flow::one_way::<C>(stage, self.bytes, operations, batch),
            Mode::OneWay | Mode::Grow(_) => flow::one_way::<C>(stage, self.bytes, operations, 1),
        }
    }
}
