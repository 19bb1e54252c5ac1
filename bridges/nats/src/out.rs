//! From a queue into a stream.
//!
//! The bridge is the queue's receiver. Several messages are in flight, and each is committed when the
//! stream has acknowledged it and all before it. Each has the same `Nats-Msg-Id` for good: the
//! queue's id and the message's number. doc/protocols/nats.md has the deaths.
//!
//! Anything that goes wrong (a lost connection, no answer in time, a refusal) ends a *turn*, and the
//! connection with it: what is in flight is forgotten here, and stays in the queue. The next turn
//! looks which of these messages the stream has, and commits those without sending them again.

use std::cell::Cell;
use std::collections::HashSet;
use std::future::{Future, ready};
use std::pin::Pin;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::context::{CreateStreamErrorKind, PublishError, PublishErrorKind};
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType, Stream};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesOrdered;
use outlive::Domain;
use outlive::queue::{OnReceiverDeath, Receiver};
use outlive::wait::WaitSet;

use crate::args::{self, Args, Storage};
use crate::aside::Aside;
use crate::ending::{Ending, Signals};
use crate::names;
use crate::server::{
    Answered, EXCEEDS_MAXIMUM, NO_MESSAGE_FOUND, STREAM_NOT_FOUND, STREAM_NOT_MATCH, Server, whole,
};
use crate::told::Teller;
use outlive_program::exit::{Code, Failure};

/// How many of the stream's messages are asked for at a time.
const LOOKS_AT_ONCE: u64 = 32;
/// More messages than this on the bridge's subject are looked at in one go only if there can be no
/// more: the look goes back in smaller steps.
const MOST_OF_A_STEP: u64 = 256;
/// So many messages in flight are nothing to tell a successor.
const USUAL_IN_FLIGHT: u64 = 256;
/// With more in flight, each message says how many: a successor with a smaller `--in-flight` looks as
/// far back.
const IN_FLIGHT: &str = "Outlive-In-Flight";
/// More bytes than this are not in flight at a time, unless a single message has more.
const MOST_BYTES: usize = 32 << 20;

/// What came of one message.
enum Outcome {
    Stored {
        bytes: usize,
        duplicate: bool,
    },
    /// The stream had it before this turn.
    Known,
    TooLarge {
        number: u64,
        bytes: Bytes,
    },
    Failed(PublishError),
}

type Answer = Pin<Box<dyn Future<Output = Outcome>>>;

/// Why a turn ended.
enum End {
    /// A signal, or nothing more to carry.
    Done,
    /// Something is in the way.
    Trouble(String),
    /// The connection was lost.
    Lost,
}

struct Out<'a> {
    args: &'a Args,
    told: &'a Teller,
    subject: String,
    /// What all ids of this queue begin with.
    id: String,
    /// The most messages that this bridge, or one whose messages it saw, had in flight.
    window: u64,
    aside: Aside,
}

/// Carries messages until it is asked to end, or a failure.
pub fn run(args: &Args, domain: &Domain, told: &Teller, signals: &Signals) -> Result<(), Failure> {
    let system = |error| Failure::new(Code::System, format!("could not begin: {error}"));
    let queue = args::open_queue(args, domain, &args.queue)?;
    if queue.config().on_receiver_death == OnReceiverDeath::Fail {
        told.talk(
            "sends to this queue fail while its bridge is dead: it was not made to keep them",
        );
    }
    let aside = Aside::open(args, domain)?;
    let receiver = signals.session(async |ending| {
        tokio::select! {
            receiver = queue.wait_to_receive_async() => receiver.map(Some),
            () = ending.asked() => Ok(None),
        }
    });
    let Some(mut receiver) = receiver.map_err(system)?? else { return Ok(()) };
    let id = format!("{:016x}-", queue.id());
    let window = u64::from(args.in_flight).max(USUAL_IN_FLIGHT);
    let mut out = Out { args, told, subject: String::new(), id, window, aside };
    let mut set = WaitSet::new(domain);
    set.add(&receiver)?;
    let (mut pause, mut turns) = (Duration::ZERO, 0_u64);
    loop {
        let before = told.counts.get();
        let end = signals.session(async |ending| {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = ending.asked() => return Ok(End::Done),
            }
            out.session(&mut receiver, &mut set, turns, ending).await
        });
        match end.map_err(system)?? {
            End::Done => return Ok(()),
            End::Lost => told.trouble("the connection to the server is lost"),
            End::Trouble(why) => told.trouble(why),
        }
        turns += 1;
        told.count(|counts| counts.again += 1);
        // Soon again where something went on meanwhile.
        let went_on = told.counts.get().messages > before.messages;
        pause = if went_on { FIRST_PAUSE } else { (pause * 2).clamp(FIRST_PAUSE, MOST_PAUSE) };
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MOST_PAUSE: Duration = Duration::from_secs(2);

enum Stop {
    Failure(Failure),
    Trouble(String),
}

impl Out<'_> {
    /// Carries messages over one connection.
    async fn session(
        &mut self,
        receiver: &mut Receiver,
        set: &mut WaitSet,
        turns: u64,
        ending: &mut Ending<'_>,
    ) -> Result<End, Failure> {
        let server = tokio::select! {
            server = Server::connect(self.args, self.told) => server?,
            () = ending.asked() => return Ok(End::Done),
        };
        let stored = tokio::select! {
            stored = self.ready_behind(&server, receiver, turns) => stored,
            () = ending.asked() => return Ok(End::Done),
        };
        match stored {
            Ok(stored) => self.turn(&server, receiver, set, stored, ending).await,
            Err(Stop::Failure(failure)) => Err(failure),
            Err(Stop::Trouble(why)) => Ok(End::Trouble(why)),
        }
    }

    /// Finds the stream, and returns which messages at the queue's head it has already.
    async fn ready_behind(
        &mut self,
        server: &Server,
        receiver: &mut Receiver,
        turns: u64,
    ) -> Result<HashSet<u64>, Stop> {
        let stream = self.ready(server).await?;
        let mut in_flight = receiver.in_flight();
        let head = in_flight.next_to_hand_out().map_err(|error| Stop::Failure(error.into()))?;
        match head {
            // Only a message that was handed out before can be there.
            Some(head) if turns > 0 || head.redelivered() => {
                let number = head.number();
                self.stored(&stream, number).await
            }
            _ => Ok(HashSet::new()),
        }
    }

    /// Finds the stream, or makes it.
    async fn ready(&mut self, server: &Server) -> Result<Stream, Stop> {
        let name = &self.args.stream;
        let context = &server.context;
        let stream = loop {
            let error = match context.get_stream(name).await {
                Ok(stream) => break stream,
                Err(error) => error,
            };
            let is_missing = error.code() == Some(STREAM_NOT_FOUND);
            if is_missing && self.args.create_stream {
                if let Err(error) = context.create_stream(self.new_stream()).await {
                    let text = format!("could not make the stream {name}: {}", whole(&error));
                    return Err(match error.kind() {
                        // The server has not answered.
                        CreateStreamErrorKind::TimedOut | CreateStreamErrorKind::Response => {
                            Stop::Trouble(text)
                        }
                        _ => Stop::Failure(Failure::new(Code::System, text)),
                    });
                }
                self.told.talk(format_args!("made the stream {name}"));
                continue;
            }
            // Found missing at the beginning, it is a wrong name; later, it was removed.
            if is_missing && self.subject.is_empty() {
                let text = format!("there is no stream {name}; --create-stream makes it");
                return Err(Stop::Failure(Failure::new(Code::NotFound, text)));
            }
            return Err(Stop::Trouble(format!("cannot ask for the stream: {}", whole(&error))));
        };
        if stream.cached_info().config.no_ack {
            let text =
                format!("the stream {name} acknowledges nothing (no_ack): it cannot be relied on");
            return Err(Stop::Failure(Failure::new(Code::Mismatch, text)));
        }
        if self.subject.is_empty() {
            self.subject = match &self.args.subject {
                Some(subject) => subject.clone(),
                None => names::subject_for(&self.args.queue, &stream.cached_info().config.subjects)
                    .map_err(Stop::Failure)?,
            };
        }
        Ok(stream)
    }

    /// Returns which of the queue's messages from `head` on the stream has. It looks at the stream's
    /// last messages on the bridge's subject, step by step, until one is older than all that can have
    /// been in flight with the head. One number would not do: of two messages in flight the stream
    /// may have refused the first and taken the second.
    async fn stored(&mut self, stream: &Stream, head: u64) -> Result<HashSet<u64>, Stop> {
        let mut stored = HashSet::new();
        let last = match stream.get_last_raw_message_by_subject(&self.subject).await {
            Ok(last) => last,
            Err(error) if error.code() == Some(NO_MESSAGE_FOUND) => return Ok(stored),
            // The server does not permit it to this user: it lets the request run out of time.
            Err(error) => {
                self.told.trouble(format_args!(
                    "cannot look into the stream, so the duplicate window alone tells what it has: {}",
                    whole(&error)
                ));
                return Ok(stored);
            }
        };
        let (mut end, mut step, mut looked) = (last.sequence + 1, MOST_OF_A_STEP, 0_u64);
        let first = stream.cached_info().state.first_sequence.max(1);
        while end > first {
            let begin = end.saturating_sub(step).max(first);
            let Some(found) = self.found_between(stream, begin, end).await? else {
                step = (step / 8).max(MOST_OF_A_STEP);
                continue;
            };
            looked += found.len() as u64;
            // The newest first: each says how far back those before it may count.
            for message in found.iter().rev() {
                self.window = self.window.max(window_of(message));
                let Some(number) = self.number_of(message) else { continue };
                // One that the stream took before this one was in flight with it: so far back, none
                // is left that counts. A full stream may take 7 before 5, and still refuse 6.
                if number.saturating_add(self.window) <= head {
                    return Ok(stored);
                }
                if number >= head {
                    stored.insert(number);
                }
            }
            // Others may have published on the subject without an end.
            if looked > 4 * self.window {
                return Ok(stored);
            }
            // Few of the messages were on the subject: the next ones are further apart.
            if (found.len() as u64) < MOST_OF_A_STEP / 4 {
                step = step.saturating_mul(4);
            }
            end = begin;
        }
        Ok(stored)
    }

    /// Returns the messages on the bridge's subject between two places of the stream, in its order.
    /// `None`: there are many.
    async fn found_between(
        &self,
        stream: &Stream,
        begin: u64,
        end: u64,
    ) -> Result<Option<Vec<StreamMessage>>, Stop> {
        let part = (end - begin).div_ceil(LOOKS_AT_ONCE);
        let many = Cell::new(0);
        let ways = (begin..end).step_by(usize::try_from(part).unwrap_or(usize::MAX)).map(|from| {
            let to = from.saturating_add(part).min(end);
            let many = &many;
            async move {
                let (mut next, mut found) = (from, Vec::new());
                while next < to && many.get() <= MOST_OF_A_STEP {
                    let asked = stream.get_first_raw_message_by_subject(&self.subject, next).await;
                    match asked {
                        Ok(message) if message.sequence < to => {
                            next = message.sequence + 1;
                            many.set(many.get() + 1);
                            found.push(message);
                        }
                        Ok(_) => break,
                        // None from there on, or removed meanwhile.
                        Err(error) if error.code().is_some() => break,
                        Err(error) => {
                            let text = format!("cannot look into the stream: {}", whole(&error));
                            return Err(Stop::Trouble(text));
                        }
                    }
                }
                Ok(found)
            }
        });
        let mut all = Vec::new();
        for found in join_all(ways).await {
            all.extend(found?);
        }
        Ok((many.get() <= MOST_OF_A_STEP).then_some(all))
    }

    /// Returns the number of a message in the queue, if it came from there.
    fn number_of(&self, message: &StreamMessage) -> Option<u64> {
        let id = message.headers.get(async_nats::header::NATS_MESSAGE_ID)?;
        id.as_str().strip_prefix(&self.id)?.parse().ok()
    }

    fn new_stream(&self) -> Config {
        let args = self.args;
        Config {
            name: args.stream.clone(),
            subjects: vec![args.subject.clone().unwrap_or_else(|| args.stream.clone())],
            storage: match args.storage {
                Storage::File => StorageType::File,
                Storage::Memory => StorageType::Memory,
            },
            num_replicas: usize::from(args.replicas),
            max_messages: args.max_messages.map_or(-1, i64::from),
            max_bytes: args.max_bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
            max_age: args.max_age.unwrap_or_default(),
            duplicate_window: args
                .max_age
                .map_or(args.duplicate_window, |age| age.min(args.duplicate_window)),
            // Full, it refuses: nothing that was acknowledged is dropped for a newer message.
            discard: DiscardPolicy::New,
            ..Config::default()
        }
    }

    /// Carries messages until something is in the way.
    async fn turn(
        &mut self,
        server: &Server,
        receiver: &mut Receiver,
        set: &mut WaitSet,
        stored: HashSet<u64>,
        ending: &mut Ending<'_>,
    ) -> Result<End, Failure> {
        let mut in_flight = receiver.in_flight();
        let mut answers: FuturesOrdered<Answer> = FuturesOrdered::new();
        let (mut bytes_in_flight, mut ends) = (0_usize, false);
        loop {
            while !ends
                && answers.len() < self.args.in_flight as usize
                && (answers.is_empty() || bytes_in_flight < MOST_BYTES)
            {
                let Some(message) = in_flight.next_to_hand_out()? else { break };
                let number = message.number();
                if stored.contains(&number) {
                    answers.push_back(Box::pin(ready(Outcome::Known)));
                    continue;
                }
                if message.redelivered() {
                    self.told.count(|counts| counts.redelivered += 1);
                }
                let headers = self.headers(number, message.redelivered());
                let bytes = Bytes::copy_from_slice(&message);
                let publish = PublishMessage::build().payload(bytes.clone()).headers(headers);
                let sent = tokio::select! {
                    biased;
                    sent = server.context.send_publish(self.subject.clone(), publish) => sent,
                    () = server.lost() => return Ok(End::Lost),
                };
                let len = bytes.len();
                answers.push_back(match sent {
                    Ok(answer) => Box::pin(async move {
                        match answer.await {
                            Ok(ack) => Outcome::Stored { bytes: len, duplicate: ack.duplicate },
                            Err(error) if error.code() == Some(EXCEEDS_MAXIMUM) => {
                                Outcome::TooLarge { number, bytes }
                            }
                            Err(error) => Outcome::Failed(error),
                        }
                    }),
                    Err(error) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                        Box::pin(ready(Outcome::TooLarge { number, bytes }))
                    }
                    Err(error) => return Ok(End::Trouble(whole(&error))),
                });
                bytes_in_flight += len;
            }
            if answers.is_empty() {
                if ends || self.args.exit_when_empty {
                    return Ok(End::Done);
                }
                self.told.well();
                tokio::select! {
                    ready = set.wait_async() => if let Err(error) = ready {
                        return Err(Failure::new(Code::System, error));
                    },
                    () = ending.asked() => ends = true,
                    () = server.lost() => return Ok(End::Lost),
                }
                continue;
            }
            let outcome = tokio::select! {
                biased;
                outcome = answers.next() => outcome,
                () = server.lost() => return Ok(End::Lost),
                () = ending.asked(), if !ends => {
                    // Those in flight are answered, or run out of time.
                    ends = true;
                    continue;
                }
            };
            match outcome.unwrap_or(Outcome::Known) {
                Outcome::Stored { bytes, duplicate } => {
                    bytes_in_flight -= bytes;
                    in_flight.commit()?;
                    self.told.well();
                    self.told.count(|counts| match duplicate {
                        true => counts.duplicates += 1,
                        false => {
                            counts.messages += 1;
                            counts.bytes += bytes as u64;
                        }
                    });
                }
                Outcome::Known => {
                    in_flight.commit()?;
                    self.told.count(|counts| counts.duplicates += 1);
                }
                Outcome::TooLarge { number, bytes } => {
                    bytes_in_flight -= bytes.len();
                    let what = format!("message {number} of {}", self.args.queue);
                    tokio::select! {
                        put = self.aside.put(&what, &bytes, self.told) => put?,
                        () = ending.asked() => return Ok(End::Done),
                    }
                    in_flight.commit()?;
                }
                Outcome::Failed(error) => {
                    let code = error.code();
                    if code == Some(STREAM_NOT_MATCH) {
                        let text = format!(
                            "the subject {} belongs to another stream than {}",
                            self.subject, self.args.stream
                        );
                        return Err(Failure::new(Code::Mismatch, text));
                    }
                    return Ok(match ends {
                        true => End::Done,
                        false => End::Trouble(whole(&error)),
                    });
                }
            }
        }
    }

    fn headers(&self, number: u64, redelivered: bool) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_MESSAGE_ID, format!("{}{number}", self.id));
        headers.insert(async_nats::header::NATS_EXPECTED_STREAM, self.args.stream.as_str());
        if redelivered {
            headers.insert("Outlive-Redelivered", "true");
        }
        if self.window > USUAL_IN_FLIGHT {
            headers.insert(IN_FLIGHT, self.window.to_string());
        }
        headers
    }
}

/// Returns how many messages a bridge had in flight when it published this one, if it says so.
fn window_of(message: &StreamMessage) -> u64 {
    let said = message.headers.get(IN_FLIGHT).and_then(|said| said.as_str().parse().ok());
    // Any publisher may say so: not more than `--in-flight` may.
    said.unwrap_or(0).min(4096)
}
