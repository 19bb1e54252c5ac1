//! Orders about queues. Every message bears a stamp (`crate::message`), so that its receiver can
//! check it.

use std::collections::BTreeMap;

use outlive::queue::{OnReceiverDeath, Queue, QueueOptions, Receiver, Sender};
use outlive::{Deadline, Domain, RecvError, SendError};

use super::number;
use crate::message::{SHORTEST, Stamp};

/// How the queues of the scenarios are made: small, so that they are soon full.
pub struct Shape {
    max_bytes: u64,
    first_slots: u32,
    /// 0: there is no bound, and it grows.
    max_messages: u32,
}

impl Shape {
    /// It begins with so many slots, and grows to so many bytes.
    pub fn growing(max_bytes: u64, first_slots: u32) -> Shape {
        Shape { max_bytes, first_slots, max_messages: 0 }
    }

    /// It holds so many messages.
    pub fn bounded(max_messages: u32) -> Shape {
        Shape { max_bytes: 1 << 20, first_slots: 0, max_messages }
    }

    /// From words of an order or arguments: `MAX FIRST [BOUND]`.
    pub fn of(words: &[&str]) -> Result<Shape, String> {
        match words {
            [] => Ok(Shape::growing(1 << 20, 64)),
            [max, first] => Ok(Shape::growing(number(max)?, number(first)?)),
            [max, first, bound] => Ok(Shape {
                max_bytes: number(max)?,
                first_slots: number(first)?,
                max_messages: number(bound)?,
            }),
            _ => Err("a queue's shape is MAX FIRST [BOUND]".to_owned()),
        }
    }

    /// The words that [`Shape::of`] reads.
    pub fn words(&self) -> String {
        format!("{} {} {}", self.max_bytes, self.first_slots, self.max_messages)
    }

    fn options(&self) -> QueueOptions {
        let options = Queue::<[u8]>::options()
            .max_bytes(self.max_bytes)
            .wait_strategy(outlive::WaitStrategy::Block);
        match self.max_messages {
            0 => options.slots(self.first_slots),
            bound => options.max_messages(bound),
        }
    }

    /// The queue of that name, made if it is not there.
    pub fn create(&self, domain: &Domain, name: &str) -> Result<Queue, String> {
        self.options().open_or_create(domain, name).map_err(|error| error.to_string())
    }
}

/// One queue with the ends that this survivor has.
struct Open {
    queue: Queue,
    sender: Option<Sender>,
    receiver: Option<Receiver>,
}

impl Open {
    fn sender(&mut self) -> Result<&Sender, String> {
        if self.sender.is_none() {
            self.sender = Some(self.queue.sender().map_err(|error| error.to_string())?);
        }
        self.sender.as_ref().ok_or_else(|| "no sender".to_owned())
    }

    fn receiver(&mut self) -> Result<&mut outlive::queue::Receiver, String> {
        self.receiver.as_mut().ok_or_else(|| "not the receiver".to_owned())
    }
}

/// The queues that a survivor has open.
#[derive(Default)]
pub struct Queues {
    open: BTreeMap<String, Open>,
}

/// What became of a send, as a word.
fn outcome(result: Result<(), SendError>) -> Result<String, String> {
    match result {
        Ok(()) => Ok("sent".to_owned()),
        Err(SendError::Full { .. }) => Ok("full".to_owned()),
        Err(SendError::ReceiverDied) => Ok("receiver-died".to_owned()),
        Err(other) => Err(other.to_string()),
    }
}

fn show(stamp: Stamp, redelivered: bool) -> String {
    format!("{}:{}{}", stamp.sender, stamp.number, if redelivered { ":again" } else { "" })
}

/// Receives what is there, at most so many messages, by peek and commit. Returns the stamps.
fn drain(receiver: &mut Receiver, most: usize) -> Result<String, String> {
    let mut stamps = Vec::new();
    while stamps.len() < most {
        match receiver.try_peek() {
            Ok(Some(peeked)) => {
                stamps.push(show(Stamp::of(&peeked)?, peeked.redelivered()));
                peeked.commit();
            }
            Ok(None) => break,
            Err(other) => return Err(other.to_string()),
        }
    }
    Ok(stamps.join(" "))
}

impl Queues {
    fn named(&mut self, domain: &Domain, name: &str) -> Result<&mut Open, String> {
        if !self.open.contains_key(name) {
            let queue = Queue::<[u8]>::open(domain, name).map_err(|error| error.to_string())?;
            self.open.insert(name.to_owned(), Open { queue, sender: None, receiver: None });
        }
        self.open.get_mut(name).ok_or_else(|| "no such queue".to_owned())
    }

    /// Carries out an order; see the match for which there are.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        match order {
            // Messages are kept while the receiver is dead.
            ["create-keeping", name, shape @ ..] => {
                let options = Shape::of(shape)?.options().on_receiver_death(OnReceiverDeath::Keep);
                let queue = options.create_new(domain, name).map_err(|error| error.to_string())?;
                self.open.insert((*name).to_owned(), Open { queue, sender: None, receiver: None });
                Ok(String::new())
            }
            ["create", name, shape @ ..] => {
                let queue = Shape::of(shape)?.create(domain, name)?;
                self.open.insert((*name).to_owned(), Open { queue, sender: None, receiver: None });
                Ok(String::new())
            }
            ["close", name] => {
                self.open.remove(*name);
                Ok(String::new())
            }
            // Sends COUNT messages of LENGTH bytes, numbered from FIRST, waiting where it must.
            // Answers `sent`, or how the first failed that did.
            ["send", name, sender, first, count, length] => {
                let (sender, first, count): (u64, u64, u64) =
                    (number(sender)?, number(first)?, number(count)?);
                let length = number(length)?;
                let end = self.named(domain, name)?.sender()?;
                for number in first..first + count {
                    let answer = outcome(end.send(&Stamp { sender, number }.message(length)))?;
                    if answer != "sent" {
                        return Ok(answer);
                    }
                }
                Ok("sent".to_owned())
            }
            // Makes memory for COUNT messages of LENGTH bytes.
            ["prefault", name, count, length] => {
                let queue = &self.named(domain, name)?.queue;
                let done = queue.prefault(number(count)?, number(length)?);
                done.map(|()| String::new()).map_err(|error| error.to_string())
            }
            ["enter-sender", name] => self.named(domain, name)?.sender().map(|_| String::new()),
            ["leave-sender", name] => {
                self.named(domain, name)?.sender = None;
                Ok(String::new())
            }
            // Sends until the queue is full. Answers how many that were.
            ["fill", name, sender, length] => {
                let (sender, length) = (number(sender)?, number(length)?);
                let end = self.named(domain, name)?.sender()?;
                for number in 1.. {
                    match end.try_send(&Stamp { sender, number }.message(length)) {
                        Ok(()) => {}
                        Err(SendError::Full { .. }) => return Ok((number - 1).to_string()),
                        Err(other) => return Err(other.to_string()),
                    }
                }
                Err("endless".to_owned())
            }
            // Sends for ever, until it is killed.
            ["frenzy", name, sender] => {
                let sender = number(sender)?;
                let end = self.named(domain, name)?.sender()?;
                let mut number = 1;
                loop {
                    let length = SHORTEST + (number as usize * 977) % 9000;
                    if end.try_send(&Stamp { sender, number }.message(length)).is_ok() {
                        number += 1;
                    }
                }
            }
            ["become-receiver", name] => {
                let open = self.named(domain, name)?;
                match open.queue.receiver() {
                    Ok(receiver) => open.receiver = Some(receiver),
                    Err(outlive::Error::Taken { .. }) => return Ok("taken".to_owned()),
                    Err(other) => return Err(other.to_string()),
                }
                Ok("mine".to_owned())
            }
            // Waits until it can receive, receives what is there, and leaves. Answers the stamps.
            ["stand-by", name] => {
                let open = self.named(domain, name)?;
                let receiver = open.queue.wait_to_receive();
                let mut receiver = receiver.map_err(|error| error.to_string())?;
                drain(&mut receiver, usize::MAX)
            }
            ["leave-receiver", name] => {
                self.named(domain, name)?.receiver = None;
                Ok(String::new())
            }
            // Receives one message, waiting for it. Answers its stamp.
            ["recv", name] => {
                let message = self
                    .named(domain, name)?
                    .receiver()?
                    .recv()
                    .map_err(|error| error.to_string())?;
                Stamp::of(&message).map(|stamp| show(stamp, false))
            }
            // The same, waiting in a set beside another source, or beside so many that the set sleeps
            // on a doorbell.
            [how @ ("recv-in-set" | "recv-in-large-set"), name] => {
                let receiver = self.named(domain, name)?.receiver()?;
                let mut set = outlive::wait::WaitSet::new(domain);
                set.set_wait_strategy(outlive::WaitStrategy::Block);
                let never = outlive::wait::Timer::at(Deadline::NEVER);
                set.add(receiver).map_err(|error| error.to_string())?;
                for _ in 0..if *how == "recv-in-set" { 1 } else { 120 } {
                    set.add(&never).map_err(|error| error.to_string())?;
                }
                // Not dropped: the thread of the timers' section would end at any moment, and leave its
                // token for the sweeps that the check makes.
                let mut set = core::mem::ManuallyDrop::new(set);
                loop {
                    set.wait().map_err(|error| error.to_string())?;
                    match receiver.try_recv() {
                        Ok(Some(message)) => {
                            return Stamp::of(&message).map(|stamp| show(stamp, false));
                        }
                        Ok(None) => {}
                        Err(other) => return Err(other.to_string()),
                    }
                }
            }
            // The same until all senders are gone. Answers the stamps and `gone`.
            ["recv-until-gone", name] => {
                let receiver = self.named(domain, name)?.receiver()?;
                receiver.end_when_senders_gone(true);
                let mut stamps = Vec::new();
                loop {
                    match receiver.recv() {
                        Ok(message) => stamps.push(show(Stamp::of(&message)?, false)),
                        Err(RecvError::Closed) => break,
                        Err(other) => return Err(other.to_string()),
                    }
                }
                receiver.end_when_senders_gone(false);
                stamps.push("gone".to_owned());
                Ok(stamps.join(" "))
            }
            // Hands one message out and keeps it uncommitted. Answers its stamp.
            ["peek", name] => {
                let receiver = self.named(domain, name)?.receiver()?;
                let peeked = receiver.peek().map_err(|error| error.to_string())?;
                Stamp::of(&peeked).map(|stamp| show(stamp, peeked.redelivered()))
            }
            // Receives what is there, at most COUNT, by peek and commit. Answers the stamps.
            ["drain", name, count @ ..] => {
                let most: usize = count.first().map_or(Ok(usize::MAX), |count| number(count))?;
                let receiver = self.named(domain, name)?.receiver()?;
                drain(receiver, most)
            }
            // Waits until no message is left. Answers `joined`.
            ["join", name] => {
                self.named(domain, name)?.queue.join().map_err(|error| error.to_string())?;
                Ok("joined".to_owned())
            }
            // Whether one is left: `joined` or `left`.
            ["try-join", name] => match self.named(domain, name)?.queue.try_join() {
                Ok(()) => Ok("joined".to_owned()),
                Err(outlive::WaitError::TimedOut) => Ok("left".to_owned()),
                Err(other) => Err(other.to_string()),
            },
            // Processes that are at a slot which is not published.
            ["writers", name] => {
                let writers =
                    self.named(domain, name)?.queue.writers().map_err(|error| error.to_string())?;
                Ok(writers
                    .iter()
                    .map(|holder| holder.pid.to_string())
                    .collect::<Vec<_>>()
                    .join(" "))
            }
            // Processes that have memory in hand which is no message's.
            ["memory-holders", name] => {
                let holders = self
                    .named(domain, name)?
                    .queue
                    .memory_holders()
                    .map_err(|error| error.to_string())?;
                Ok(holders
                    .iter()
                    .map(|holder| holder.pid.to_string())
                    .collect::<Vec<_>>()
                    .join(" "))
            }
            ["senders", name] => {
                let senders = self.named(domain, name)?.queue.senders();
                Ok(senders
                    .iter()
                    .map(|holder| holder.pid.to_string())
                    .collect::<Vec<_>>()
                    .join(" "))
            }
            ["reader", name] => {
                let reader = self.named(domain, name)?.queue.current_receiver();
                Ok(reader.map_or_else(|| "nobody".to_owned(), |holder| holder.pid.to_string()))
            }
            ["pending", name] => {
                let counters = self
                    .named(domain, name)?
                    .queue
                    .counters()
                    .map_err(|error| error.to_string())?;
                Ok(counters.pending.to_string())
            }
            ["counters", name] => {
                let open = self.named(domain, name)?;
                let counters = open.queue.counters().map_err(|error| error.to_string())?;
                Ok(format!(
                    "{} {} {} {} {} {}",
                    counters.sent,
                    counters.received,
                    counters.pending,
                    counters.abandoned,
                    counters.redelivered,
                    counters.bytes
                ))
            }
            _ => Err("unknown order".to_owned()),
        }
    }
}
