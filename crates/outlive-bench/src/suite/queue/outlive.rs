//! Outlive's queue.

use super::{Channel, Receive, Send};
use crate::harness::clock;
use crate::harness::error::Error;
use crate::harness::round::Stage;
use crate::harness::scratch::Scratch;
use ::outlive::queue::{Queue, QueueOptions, Receiver, Sender};
use ::outlive::{Domain, SendError, WaitStrategy};
use std::path::Path;

/// As large as a pipe may be made without privilege: the peers' room is bounded too, and a sender
/// that ran far ahead would measure memory, not messages.
const MAX_BYTES: u64 = 1 << 20;

/// Where the queue is, and how its ends wait.
pub struct Place {
    scratch: Scratch,
    wait: WaitStrategy,
}

impl Place {
    fn open(&self) -> Result<Queue, Error> {
        open(
            self.scratch.path(),
            Queue::<[u8]>::options().max_bytes(MAX_BYTES).wait_strategy(self.wait),
        )
    }
}

fn open(path: &Path, options: QueueOptions) -> Result<Queue, Error> {
    let domain =
        Domain::open_or_create_at(path).map_err(|error| Error::told("opening a domain", error))?;
    options.open_or_create(&domain, "queue").map_err(|error| Error::told("opening a queue", error))
}

/// The row.
pub struct Outlive;

impl Channel for Outlive {
    const NAME: &'static str = "outlive";
    type Place = Place;
    type Sender = Sender;
    type Receiver = Receiver;

    fn place(stage: &Stage, name: &'static str, _: usize) -> Result<Place, Error> {
        Ok(Place { scratch: stage.scratch.inner(name)?, wait: stage.wait })
    }

    fn sender(place: &Place) -> Result<Sender, Error> {
        place.open()?.sender().map_err(|error| Error::told("opening a sender", error))
    }

    fn receiver(place: &Place) -> Result<Receiver, Error> {
        place.open()?.receiver().map_err(|error| Error::told("opening a receiver", error))
    }
}

impl Send for Sender {
    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        Sender::send(self, message)
            .map_err(|error| Error::told("sending to outlive's queue", error))
    }

    fn send_batch(&mut self, messages: &[Vec<u8>]) -> Result<(), Error> {
        Sender::send_batch(self, messages)
            .map_err(|error| Error::told("sending a batch to outlive's queue", error))
    }
}

impl Receive for Receiver {
    #[inline]
    fn receive(&mut self, message: &mut Vec<u8>) -> Result<(), Error> {
        self.recv_into(message)
            .map_err(|error| Error::told("receiving from outlive's queue", error))
    }
}

/// Fills a queue that no process reads, and tells the longest single send in nanoseconds of
/// computing.
pub(super) fn longest_send(path: &Path, to: u64, bytes: usize) -> Result<u64, Error> {
    let queue = open(path, Queue::<[u8]>::options().slots(4).max_bytes(to))?;
    let sender = queue.sender().map_err(|error| Error::told("opening a sender", error))?;
    let message = vec![7; bytes];
    let mut longest = 0;
    let mut at = clock::computed();
    loop {
        let sent = sender.try_send(&message);
        let after = clock::computed();
        match sent {
            Ok(()) => longest = longest.max(after - at),
            Err(SendError::Full { .. }) => break,
            Err(error) => return Err(Error::told("filling outlive's queue", error)),
        }
        at = after;
    }
    let counters =
        queue.counters().map_err(|error| Error::told("asking for a queue's counters", error))?;
    if counters.bytes < to / 2 {
        return Err(Error::Wrong(format!(
            "outlive's queue was full at {} of {to} bytes",
            counters.bytes
        )));
    }
    Ok(longest)
}
