//! `queue.`

use std::collections::HashMap;
use std::time::Instant;

use outlive::queue::{OnReceiverDeath, Queue as Core, Receiver, Sender};
use outlive::{Deadline, Domain, SendError};

use crate::answer::{self, Answer, Refusal, done, find, refused, said};

/// A queue, and the ends that were needed so far.
pub(crate) struct Queue {
    queue: Core,
    ends_with_senders: bool,
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    /// Messages of a flood: by their number.
    sent: u64,
    drained: u64,
}

impl Queue {
    fn sender(&mut self) -> Result<&Sender, Refusal> {
        if self.sender.is_none() {
            self.sender = Some(self.queue.sender()?);
        }
        self.sender.as_ref().ok_or_else(|| Refusal::new("Usage", ""))
    }

    pub(crate) fn receiver(&mut self) -> Result<&mut Receiver, Refusal> {
        if self.receiver.is_none() {
            let receiver = self.queue.receiver()?;
            receiver.end_when_senders_gone(self.ends_with_senders);
            self.receiver = Some(receiver);
        }
        self.receiver.as_mut().ok_or_else(|| Refusal::new("Usage", ""))
    }

    /// The next of a flood.
    fn drain(&mut self, end: Instant) -> Result<(), Refusal> {
        let message = self.receiver()?.recv_until(Deadline::at(end))?.ok_or_else(nothing)?;
        self.drained += 1;
        if answer::is_pattern(&message, self.drained) {
            Ok(())
        } else {
            let what = format!("message {} is {}", self.drained, answer::show(&message));
            Err(Refusal::new("OutOfOrder", what))
        }
    }
}

/// The refusal where a call returned `None`.
fn nothing() -> Refusal {
    Refusal::new("None", "")
}

pub(crate) fn act(
    domain: &Domain,
    queues: &mut HashMap<String, Queue>,
    verb: &str,
    args: &[&str],
) -> Answer {
    match (verb, args) {
        ("open", [name, options @ ..]) => {
            let mut plan = Core::<[u8]>::options();
            if options.contains(&"refuse") {
                plan = plan.need_receiver(true);
            }
            if options.contains(&"keep") {
                plan = plan.on_receiver_death(OnReceiverDeath::Keep);
            }
            if let Some(bytes) = answer::option(options, "max")? {
                plan = plan.max_bytes(bytes);
            }
            if let Some(messages) = answer::option(options, "messages")? {
                plan = plan.max_messages(messages);
            }
            let queue = if options.contains(&"existing") {
                plan.open_as_bytes(domain, name)?
            } else {
                plan.open_or_create(domain, name)?
            };
            let queue = Queue {
                queue,
                ends_with_senders: options.contains(&"ending"),
                sender: None,
                receiver: None,
                sent: 0,
                drained: 0,
            };
            queues.insert((*name).to_owned(), queue);
            done()
        }
        ("prefault", [name, messages, size]) => {
            let (messages, size) = (answer::number(messages)?, answer::number(size)?);
            find(queues, name)?.queue.prefault(messages, size)?;
            done()
        }
        ("typed", [name]) => {
            Core::<u32>::options().create_new(domain, name)?;
            done()
        }
        ("find", [name]) => {
            Core::<[u8]>::open(domain, name)?;
            done()
        }
        ("send", [name, message, patience]) => {
            let (message, sender) = (answer::message(message)?, find(queues, name)?.sender()?);
            match answer::patience(patience)? {
                None => sender.try_send(&message)?,
                Some(span) => sender.send_timeout(&message, span)?,
            }
            done()
        }
        ("recv", [name, patience]) => {
            let receiver = find(queues, name)?.receiver()?;
            let message = match answer::patience(patience)? {
                None => receiver.try_recv()?,
                Some(span) => receiver.recv_timeout(span)?,
            }
            .ok_or_else(nothing)?;
            said(answer::show(&message))
        }
        ("peek", [name, patience]) => {
            let receiver = find(queues, name)?.receiver()?;
            let peeked = match answer::patience(patience)? {
                None => receiver.try_peek()?,
                Some(span) => receiver.peek_timeout(span)?,
            }
            .ok_or_else(nothing)?;
            let often = if peeked.redelivered() { "again" } else { "fresh" };
            said(format!("{} {often}", answer::show(&peeked)))
        }
        ("commit", [name]) => {
            find(queues, name)?.receiver()?.try_peek()?.ok_or_else(nothing)?.commit();
            done()
        }
        ("join", [name, span]) => {
            find(queues, name)?.queue.join_timeout(answer::span(span)?)?;
            done()
        }
        ("batch", [name, messages @ .., span]) => {
            let messages: Vec<Vec<u8>> =
                messages.iter().map(|word| answer::message(word)).collect::<Result<_, _>>()?;
            find(queues, name)?.sender()?.send_batch_timeout(&messages, answer::span(span)?)?;
            done()
        }
        ("count", [name, what]) => {
            let counters = find(queues, name)?.queue.counters()?;
            match *what {
                "sent" => said(counters.sent),
                "received" => said(counters.received),
                "pending" => said(counters.pending),
                "redelivered" => said(counters.redelivered),
                _ => refused("Usage", what),
            }
        }
        ("fill", [name, size]) => {
            let (queue, size) = (find(queues, name)?, answer::number(size)?);
            loop {
                let message = answer::pattern(size, queue.sent + 1);
                match queue.sender()?.try_send(&message) {
                    Ok(()) => queue.sent += 1,
                    Err(SendError::Full { .. }) => return said(queue.sent),
                    Err(other) => return Err(other.into()),
                }
            }
        }
        ("flood", [name, size, span]) => {
            let (queue, size, end) =
                (find(queues, name)?, answer::number(size)?, answer::until(span)?);
            while Instant::now() < end {
                queue.sent += 1;
                let message = answer::pattern(size, queue.sent);
                queue.sender()?.send_until(&message, Deadline::at(end))?;
            }
            done()
        }
        ("drain", [name, count, span]) => {
            let (queue, end) = (find(queues, name)?, answer::until(span)?);
            for _ in 0..answer::number::<u64>(count)? {
                queue.drain(end)?;
            }
            done()
        }
        ("drain_all", [name, span]) => {
            let (queue, end) = (find(queues, name)?, answer::until(span)?);
            loop {
                match queue.drain(end) {
                    Ok(()) => {}
                    Err(refusal) if refusal.name == "Closed" => return said(queue.drained),
                    Err(other) => return Err(other),
                }
            }
        }
        ("close", [name]) => {
            let queue = find(queues, name)?;
            (queue.sender, queue.receiver) = (None, None);
            done()
        }
        _ => answer::unknown(verb, args),
    }
}
