//! From a stream into a queue.
//!
//! The stream has a durable consumer for the bridge. Messages are taken in *rounds*: those that are
//! there, in the order of the stream; each is sent to the queue and noted (sent_up_to.rs); then all
//! are acknowledged. A round ends when the server has confirmed its last acknowledgement.
//!
//! The server delivers what was not acknowledged anew, only after a time, and new messages may come
//! before it. So a bridge that begins, or that lost its connection, gathers first: until it holds as
//! many messages as the server has without an acknowledgement. Then nothing older is to come, and
//! the round is in the order of the stream. So messages are sent in that order always, and the note
//! is one number.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use async_nats::jetstream::{AckKind, Message};
use futures_util::{FutureExt, StreamExt};
use outlive::queue::Sender;
use outlive::{Domain, SendError};
use serde::Serialize;

use crate::args::{self, Args};
use crate::aside::Aside;
use crate::ending::Signals;
use crate::names;
use crate::sent_up_to::{Note, SentUpTo, name_of};
use crate::server::{Answered, STREAM_NOT_FOUND, Server, whole};
use crate::told::Teller;
use outlive_program::exit::{Code, Failure};

/// How long one request for messages waits at the server.
const PULL: Duration = Duration::from_secs(30);
const PULL_TO_GATHER: Duration = Duration::from_millis(500);

/// What a message begins with, with `--envelope`.
#[derive(Serialize)]
struct Envelope<'a> {
    subject: &'a str,
    sequence: u64,
    redelivered: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<&'a str, Vec<&'a str>>,
}

enum Stop {
    Failure(Failure),
    Trouble(String),
    Lost,
    /// Asked to end, or nothing more to carry.
    Done,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failure(failure)
    }
}

/// A message, and its place in the stream.
struct Arrived {
    message: Message,
    sequence: u64,
    published: u64,
    delivered: i64,
}

struct Incoming<'a> {
    args: &'a Args,
    told: &'a Teller,
    consumer_name: String,
    sender: Sender,
    sent: SentUpTo,
    /// What a predecessor intended to send and did not note: it may be in the queue.
    unsure: u64,
    aside: Aside,
    known_stream: bool,
    /// What the ids begin with that this queue's own bridge gives to messages (out.rs).
    own_ids: String,
}

/// Carries messages until it is asked to end, or a failure.
pub fn run(args: &Args, domain: &Domain, told: &Teller, signals: &Signals) -> Result<(), Failure> {
    let system = |error| Failure::new(Code::System, format!("could not begin: {error}"));
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let consumer_name = match &args.consumer {
        Some(name) => name.clone(),
        None => names::consumer_for(&machine, &args.queue),
    };
    names::check("a consumer", &consumer_name)?;
    let queue = args::open_queue(args, domain, &args.queue)?;
    let aside = Aside::open(args, domain)?;
    let filter = args.subject.as_deref().unwrap_or_default();
    let name = name_of(&args.queue, &args.stream, &consumer_name, filter);
    let sent = signals.session(async |ending| {
        tokio::select! {
            sent = SentUpTo::take(domain, &name) => sent.map(Some),
            () = ending.asked() => Ok(None),
        }
    });
    let Some(sent) = sent.map_err(system)?? else { return Ok(()) };
    let unsure = sent.note.intended;
    let sender = queue.sender()?;
    let own_ids = format!("{:016x}-", queue.id());
    let known_stream = false;
    let mut incoming =
        Incoming { args, told, consumer_name, sender, sent, unsure, aside, known_stream, own_ids };
    let mut pause = Duration::ZERO;
    loop {
        let before = told.counts.get();
        let stop = signals.session(async |ending| {
            let server = async {
                tokio::time::sleep(pause).await;
                Server::connect(args, told).await
            };
            let server = tokio::select! {
                server = server => server?,
                () = ending.asked() => return Ok(Stop::Done),
            };
            let stop = tokio::select! {
                stop = incoming.session(&server) => stop,
                () = ending.asked() => Stop::Done,
            };
            if let Stop::Done = stop {
                // Acknowledgements that were not confirmed yet.
                server.flush().await;
            }
            Ok::<Stop, Failure>(stop)
        });
        match stop.map_err(system)?? {
            Stop::Failure(failure) => return Err(failure),
            Stop::Done => return Ok(()),
            Stop::Lost => told.trouble("the connection to the server is lost"),
            Stop::Trouble(why) => told.trouble(why),
        }
        told.count(|counts| counts.again += 1);
        let went_on = told.counts.get().messages > before.messages;
        pause = if went_on { FIRST_PAUSE } else { (pause * 2).clamp(FIRST_PAUSE, MOST_PAUSE) };
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MOST_PAUSE: Duration = Duration::from_secs(2);

impl Incoming<'_> {
    /// Carries messages over one connection; returns why it ended.
    async fn session(&mut self, server: &Server) -> Stop {
        match self.carry(server).await {
            Ok(never) => match never {},
            Err(stop) => stop,
        }
    }

    async fn carry(&mut self, server: &Server) -> Result<std::convert::Infallible, Stop> {
        let consumer = self.open(server).await?;
        let created = consumer.cached_info().created;
        let config = &consumer.cached_info().config;
        let most = match usize::try_from(config.max_ack_pending) {
            Ok(most) if most > 0 => most.min(self.args.in_flight as usize),
            _ => self.args.in_flight as usize,
        };
        let ack_wait = config.ack_wait;
        let mut gathered: BTreeMap<u64, Arrived> = BTreeMap::new();
        let began = Instant::now();
        loop {
            let info = consumer.get_info().await.map_err(|error| failed("the consumer", &error))?;
            if info.created != created {
                return Err(Stop::Trouble("the consumer was made anew".to_owned()));
            }
            // A lost connection's acknowledgements may come late: what the server does not wait for any
            // more must not count for a message that is still to come.
            gathered.retain(|sequence, _| *sequence > info.ack_floor.stream_sequence);
            if info.num_ack_pending > gathered.len() {
                // Those of a predecessor, or of a connection that is gone, come again.
                if began.elapsed() > 3 * ack_wait + Duration::from_secs(5) {
                    self.told.trouble(format_args!(
                        "{} messages of the consumer {} are with another of its readers: a bridge needs \
                         a consumer of its own",
                        info.num_ack_pending - gathered.len(),
                        self.consumer_name
                    ));
                }
                self.pull(server, &consumer, PULL_TO_GATHER, most, &mut gathered).await?;
                continue;
            }
            if !gathered.is_empty() {
                self.round(server, std::mem::take(&mut gathered).into_values().collect()).await?;
                continue;
            }
            if info.num_pending == 0 && self.args.exit_when_empty {
                return Err(Stop::Done);
            }
            self.told.well();
            // To end when there are no more, it asks for those that are there, and waits for no other.
            let (most, expires) = match self.args.exit_when_empty {
                true => {
                    (most.min(usize::try_from(info.num_pending).unwrap_or(most)), PULL_TO_GATHER)
                }
                false => (most, PULL),
            };
            self.rounds(server, &consumer, most, expires).await?;
        }
    }

    /// Takes rounds out of one request for messages. Nothing is without an acknowledgement when it
    /// begins, so messages come in the order of the stream.
    async fn rounds(
        &mut self,
        server: &Server,
        consumer: &Consumer<pull::Config>,
        most: usize,
        expires: Duration,
    ) -> Result<(), Stop> {
        let batch = consumer.batch().max_messages(most).expires(expires).messages();
        let mut batch = batch.await.map_err(|error| failed("messages", &error))?;
        loop {
            let first = tokio::select! {
                biased;
                first = batch.next() => first,
                () = server.lost() => return Err(Stop::Lost),
            };
            let Some(first) = first else { return Ok(()) };
            let mut round = vec![self.arrived(first)?];
            // Those that are here already.
            while let Some(Some(next)) = batch.next().now_or_never() {
                round.push(self.arrived(next)?);
            }
            self.round(server, round).await?;
        }
    }

    async fn pull(
        &self,
        server: &Server,
        consumer: &Consumer<pull::Config>,
        expires: Duration,
        most: usize,
        into: &mut BTreeMap<u64, Arrived>,
    ) -> Result<(), Stop> {
        let most = most.saturating_sub(into.len()).max(1);
        let batch = consumer.batch().max_messages(most).expires(expires).messages();
        let mut batch = batch.await.map_err(|error| failed("messages", &error))?;
        loop {
            let next = tokio::select! {
                biased;
                next = batch.next() => next,
                () = server.lost() => return Err(Stop::Lost),
            };
            let Some(next) = next else { return Ok(()) };
            let arrived = self.arrived(next)?;
            into.insert(arrived.sequence, arrived);
        }
    }

    fn arrived(&self, message: Result<Message, async_nats::Error>) -> Result<Arrived, Stop> {
        let message = message.map_err(|error| Stop::Trouble(error.to_string()))?;
        let info = message.info().map_err(|error| Stop::Trouble(error.to_string()))?;
        let (sequence, delivered) = (info.stream_sequence, info.delivered);
        let published = u64::try_from(info.published.unix_timestamp_nanos()).unwrap_or(0);
        Ok(Arrived { message, sequence, published, delivered })
    }

    /// Sends messages to the queue, in this order, and acknowledges them.
    async fn round(&mut self, server: &Server, round: Vec<Arrived>) -> Result<(), Stop> {
        let last = round.len().saturating_sub(1);
        for (at, arrived) in round.iter().enumerate() {
            if self.sent.note.has(arrived.sequence, arrived.published) {
                self.told.count(|counts| counts.duplicates += 1);
            } else {
                self.send(arrived).await?;
            }
            // The last one is confirmed: the server has then done those before it.
            let acknowledged = match at == last {
                true => tokio::select! {
                    acknowledged = arrived.message.double_ack_with(AckKind::Ack) => acknowledged,
                    () = server.lost() => return Err(Stop::Lost),
                },
                false => arrived.message.ack().await,
            };
            acknowledged.map_err(|error| {
                Stop::Trouble(format!("no confirmation of an acknowledgement: {error}"))
            })?;
        }
        Ok(())
    }

    async fn send(&mut self, arrived: &Arrived) -> Result<(), Stop> {
        let headers = arrived.message.headers.as_ref();
        let id = headers.and_then(|headers| headers.get(async_nats::header::NATS_MESSAGE_ID));
        if id.is_some_and(|id| id.as_str().starts_with(&self.own_ids)) {
            let text = format!(
                "message {} of {} came out of the queue {} itself, and would go round without an \
                 end: choose another queue, or other messages by --subject",
                arrived.sequence, self.args.stream, self.args.queue
            );
            return Err(Failure::new(Code::Mismatch, text).into());
        }
        let unsure = self.unsure == arrived.sequence;
        let redelivered = unsure || arrived.delivered > 1;
        let enveloped = self.args.envelope.then(|| enveloped(arrived, redelivered));
        let bytes: &[u8] = enveloped.as_deref().unwrap_or(&arrived.message.payload);
        let done = self.sent.note;
        let intended = Note { intended: arrived.sequence, ..done };
        let sent =
            Note { sequence: arrived.sequence, published: arrived.published, intended: 0, ..done };
        let mut pause = Duration::from_millis(1);
        loop {
            self.sent.set(intended)?;
            match self.sender.try_send(bytes) {
                Ok(()) => break,
                Err(error @ (SendError::Full { .. } | SendError::NoSpace { .. })) => {
                    self.sent.set(done)?;
                    if pause >= FULL_PAUSE {
                        self.told.trouble(format_args!(
                            "waits for room in {}: {error}",
                            self.args.queue
                        ));
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(FULL_PAUSE);
                }
                Err(error @ (SendError::ReceiverDied | SendError::NoReceiver)) => {
                    self.sent.set(done)?;
                    self.told.trouble(format_args!(
                        "waits for a receiver of {}: {error}",
                        self.args.queue
                    ));
                    tokio::time::sleep(RECEIVER_PAUSE).await;
                }
                Err(SendError::TooLarge { .. }) => {
                    let what = format!("message {} of {}", arrived.sequence, self.args.stream);
                    if let Err(failure) = self.aside.put(&what, bytes, self.told).await {
                        self.sent.set(done)?;
                        return Err(failure.into());
                    }
                    self.sent.set(sent)?;
                    return Ok(());
                }
                Err(error) => return Err(Failure::from(error).into()),
            }
        }
        self.sent.set(sent)?;
        self.told.well();
        if unsure {
            self.unsure = 0;
            self.told.talk(format_args!(
                "message {} of {} may be in the queue twice: a bridge was killed while it sent it",
                arrived.sequence, self.args.stream
            ));
        }
        let len = bytes.len() as u64;
        self.told.count(|counts| {
            counts.messages += 1;
            counts.bytes += len;
            counts.redelivered += u64::from(redelivered);
        });
        Ok(())
    }

    /// Opens the stream and its consumer; makes the consumer if need be. The note is begun anew if
    /// the stream is another.
    async fn open(&mut self, server: &Server) -> Result<Consumer<pull::Config>, Stop> {
        let args = self.args;
        let stream = match server.context.get_stream(&args.stream).await {
            Ok(stream) => stream,
            Err(error) => {
                let code = error.code();
                if code == Some(STREAM_NOT_FOUND) && !self.known_stream {
                    let text = format!("there is no stream {}", args.stream);
                    return Err(Failure::new(Code::NotFound, text).into());
                }
                return Err(failed("the stream", &error));
            }
        };
        self.known_stream = true;
        let info = stream.cached_info();
        let made = u64::try_from(info.created.unix_timestamp_nanos()).unwrap_or(0);
        let state = &info.state;
        let note = self.sent.note;
        if note.stream != made {
            self.unsure = 0;
            self.sent.set(Note { stream: made, ..Note::default() })?;
        } else if state.last_sequence < note.sequence {
            self.told.talk(format_args!(
                "the stream {} has lost its end: it had message {}, and now its last is {}",
                args.stream, note.sequence, state.last_sequence
            ));
            let published = state.last_timestamp.unix_timestamp_nanos();
            let published = u64::try_from(published).unwrap_or(0);
            let sequence = state.last_sequence;
            self.sent.set(Note { sequence, published, intended: 0, ..note })?;
        }
        let filter = args.subject.clone().unwrap_or_default();
        let wanted = pull::Config {
            durable_name: Some(self.consumer_name.clone()),
            description: Some(format!("outlive queue bridge into {}", args.queue)),
            deliver_policy: if args.new_only { DeliverPolicy::New } else { DeliverPolicy::All },
            ack_policy: AckPolicy::Explicit,
            ack_wait: args.ack_wait,
            max_ack_pending: i64::from(args.in_flight),
            filter_subject: filter.clone(),
            ..pull::Config::default()
        };
        let consumer = stream.get_or_create_consumer(&self.consumer_name, wanted).await;
        let consumer = consumer.map_err(|error| failed("the consumer", &error))?;
        let found = &consumer.cached_info().config;
        let why = if found.ack_policy != AckPolicy::Explicit || found.deliver_subject.is_some() {
            "it is not one that asks for messages and acknowledges each"
        } else if found.filter_subject != filter {
            "it selects other subjects"
        } else {
            return Ok(consumer);
        };
        let text =
            format!("the consumer {} is another's: {why}; choose --consumer", self.consumer_name);
        Err(Failure::new(Code::Mismatch, text).into())
    }
}

fn failed(what: &str, error: &(dyn std::error::Error + 'static)) -> Stop {
    Stop::Trouble(format!("cannot ask for {what}: {}", whole(error)))
}

const FULL_PAUSE: Duration = Duration::from_millis(50);
const RECEIVER_PAUSE: Duration = Duration::from_millis(200);

fn enveloped(arrived: &Arrived, redelivered: bool) -> Vec<u8> {
    let message = &arrived.message.message;
    let mut headers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, values) in message.headers.iter().flat_map(|headers| headers.iter()) {
        headers.insert(name.as_ref(), values.iter().map(async_nats::HeaderValue::as_str).collect());
    }
    let subject = message.subject.as_str();
    let envelope = Envelope { subject, sequence: arrived.sequence, redelivered, headers };
    // Text and numbers: it cannot fail.
    let mut bytes = serde_json::to_vec(&envelope).unwrap_or_default();
    bytes.reserve_exact(1 + message.payload.len());
    bytes.push(b'\n');
    bytes.extend_from_slice(&message.payload);
    bytes
}
