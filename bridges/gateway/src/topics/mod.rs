//! All topics of a gateway: which leave and which come in, as names, tokens and messages come and go.
//!
//! zenoh calls the functions here on its own threads. They take short locks, and leave what waits for
//! others to threads of its own.

mod kept;
pub mod receiver;
pub mod resume;
pub mod sender;
pub mod stream;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use outlive::SendError;
use outlive::describe::Description;
use outlive::topic::{Outgoing, Publisher, Topic};
use zenoh::Wait;
use zenoh::query::Query;
use zenoh::sample::{Sample, SampleKind};

use crate::context::{Shared, lock};
use crate::keys;
use crate::leaving::Leaving;
use crate::names;
use crate::rules::{Rule, Rules, Thing};
use crate::told::Event;
use crate::wire::{self, Attachment, Meta, Origin};
use receiver::{Receiver, Unfit};
use sender::Sender;

/// How long a sender may take to say what its topic is.
const META: Duration = Duration::from_secs(10);
/// As many topics elsewhere are known at a time, and as many publishers.
const MOST_KNOWN: usize = 1 << 16;
/// Of one topic here the tokens of so many receivers are counted: more than are waited for.
const MOST_RECEIVERS: usize = 1024;
/// As many topics are opened at a time: each takes a thread, which waits for its sender's word.
const MOST_OPENING: usize = 16;

/// A topic elsewhere.
type Elsewhere = (Origin, u64);

/// What is known of topics elsewhere.
#[derive(Default)]
struct Known {
    /// By topic: its key, and the starts of its sender that are there.
    topics: HashMap<Elsewhere, (String, HashSet<u64>)>,
    /// By topic: its publishers' sessions, how many tokens each has, and its first message.
    publishers: HashMap<Elsewhere, BTreeMap<u32, (usize, u64)>>,
    /// Topics that are being opened.
    opening: HashSet<Elsewhere>,
    /// By topic of this domain: its receivers, and how many tokens each has.
    receivers: HashMap<u64, HashMap<Origin, usize>>,
}

/// What publishes here for clients that are no gateways.
struct Stranger {
    topic: Topic,
    publisher: Publisher,
    description: Option<Description>,
}

/// Why a topic elsewhere has no receiver here.
enum Unopened {
    /// It cannot come in.
    Refused(String),
    /// Its sender did not say what it is.
    Unsaid,
}

/// See the head of this file.
pub struct Topics {
    context: Shared,
    rules: Rules,
    senders: Leaving<Sender>,
    receivers: RwLock<HashMap<Elsewhere, Arc<Receiver>>>,
    known: Mutex<Known>,
    /// What tells subscribers here that a topic elsewhere has another type.
    refusals: Mutex<HashMap<Elsewhere, Publisher>>,
    /// By key: what publishes for clients that are no gateways.
    strangers: Mutex<HashMap<String, Option<Stranger>>>,
    /// Why topics do not come in: told once.
    refused: Mutex<HashSet<String>>,
}

impl Topics {
    /// Those of a gateway, which calls [`Topics::listen`] and [`Topics::begin`].
    pub fn new(context: &Shared, rules: &Rules) -> Arc<Topics> {
        Arc::new(Topics {
            context: Arc::clone(context),
            rules: rules.clone(),
            senders: Leaving::new(Thing::Topic),
            receivers: RwLock::default(),
            known: Mutex::default(),
            refusals: Mutex::default(),
            strangers: Mutex::default(),
            refused: Mutex::default(),
        })
    }

    /// Has zenoh call this for what gateways tell and ask each other.
    ///
    /// # Errors
    /// zenoh's.
    pub fn listen(self: &Arc<Topics>) -> zenoh::Result<()> {
        let (session, own) = (&self.context.session, self.context.origin());
        for (key, handle) in [
            (keys::all("ended"), Topics::ended as fn(&Arc<Topics>, &Sample)),
            (keys::all("at"), Topics::sender_is_at),
            (keys::all_of("ack", own), Topics::acknowledged),
        ] {
            session.declare_subscriber(key).callback(self.called(handle)).background().wait()?;
        }
        for (kind, handle) in [
            ("meta", Topics::answer_meta as fn(&Arc<Topics>, Query)),
            ("resume", Topics::answer_resume),
        ] {
            let topics = Arc::clone(self);
            let queryable = session.declare_queryable(keys::all_of(kind, own));
            queryable.callback(move |query| handle(&topics, query)).background().wait()?;
        }
        Ok(())
    }

    /// Has zenoh call this for the tokens of others, and those that are there: from now on streams are asked
    /// for.
    ///
    /// # Errors
    /// zenoh's.
    pub fn begin(self: &Arc<Topics>) -> zenoh::Result<()> {
        let (session, own) = (&self.context.session, self.context.origin());
        for (expression, handle) in [
            (keys::all_of("receiver", own), Topics::receiver_token as fn(&Arc<Topics>, &Sample)),
            (keys::all("publisher"), Topics::publisher_token),
            (keys::all("topic"), Topics::topic_token),
        ] {
            let tokens = session.liveliness().declare_subscriber(expression).history(true);
            tokens.callback(self.called(handle)).background().wait()?;
        }
        Ok(())
    }

    fn called(
        self: &Arc<Topics>,
        handle: fn(&Arc<Topics>, &Sample),
    ) -> impl Fn(Sample) + Send + Sync + 'static {
        let topics = Arc::clone(self);
        move |sample| handle(&topics, &sample)
    }

    /// Whether the name of a topic was removed that it sends or receives: then it has to look. It costs a
    /// load for each.
    #[must_use]
    pub fn has_removed(&self) -> bool {
        let receivers = self.receivers.read().unwrap_or_else(PoisonError::into_inner);
        receivers.values().any(|receiver| receiver.is_removed())
            || lock(&self.strangers).values().flatten().any(|stranger| stranger.topic.is_removed())
            || self.senders.has_removed()
    }

    /// What is in the domain has changed: topics begin to leave, or end.
    pub fn look(self: &Arc<Topics>, names: &[String]) {
        let open = |name: &str, key, rule: &Rule| Sender::open(&self.context, name, key, rule);
        let opened = self.senders.look(&self.context, &self.rules, names, open);
        for sender in opened {
            // Receivers that were there before it.
            let known = lock(&self.known);
            for (&who, &tokens) in known.receivers.get(&sender.instance).into_iter().flatten() {
                sender.receiver(who, tokens);
            }
        }
        self.renew_receivers();
        self.try_again();
    }

    /// What could not come in may be able to by now.
    fn try_again(self: &Arc<Topics>) {
        lock(&self.strangers).retain(|_, stranger| {
            stranger.as_ref().is_some_and(|stranger| !stranger.topic.is_removed())
        });
        let known = lock(&self.known);
        let topics: Vec<Elsewhere> = known.topics.keys().copied().collect();
        drop(known);
        for topic in topics.into_iter().filter(|topic| self.receiver(*topic).is_none()) {
            self.open_receiver(topic);
        }
    }

    /// Topics whose names were removed here are made anew.
    fn renew_receivers(self: &Arc<Topics>) {
        let mut removed = Vec::new();
        let mut receivers = self.receivers.write().unwrap_or_else(PoisonError::into_inner);
        receivers.retain(|topic, receiver| {
            let is_removed = receiver.is_removed();
            if is_removed {
                receiver.close();
                removed.push(*topic);
            }
            !is_removed
        });
        drop(receivers);
        for topic in removed {
            self.open_receiver(topic);
        }
    }

    fn sender(&self, instance: u64) -> Option<Arc<Sender>> {
        self.senders.find(|sender| sender.instance == instance)
    }

    fn receiver(&self, topic: Elsewhere) -> Option<Arc<Receiver>> {
        self.receivers.read().unwrap_or_else(PoisonError::into_inner).get(&topic).cloned()
    }

    /// A message of another gateway.
    pub fn message(&self, attachment: Attachment, sample: &Sample) {
        let topic = (attachment.stream.origin, attachment.stream.instance);
        if topic.0 == self.context.origin() {
            return;
        }
        // One that is not known yet is asked for when it is.
        if let Some(receiver) = self.receiver(topic) {
            receiver.take(attachment, sample.payload().clone());
        }
    }

    /// Whether clients that are no gateways have published on that key, as a topic's.
    pub fn has_stranger(&self, key: &str) -> bool {
        matches!(lock(&self.strangers).get(key), Some(Some(_)))
    }

    /// A message of a client that is no gateway.
    pub fn stranger(&self, sample: &Sample) {
        let key = sample.key_expr().as_str();
        let mut strangers = lock(&self.strangers);
        if !strangers.contains_key(key) {
            if strangers.len() >= MOST_KNOWN {
                return;
            }
            let publisher = self.open_stranger(key);
            if let Err(why) = &publisher {
                self.context.told.tell(&Event::of("refused", key).because(why));
            }
            strangers.insert(key.to_owned(), publisher.ok());
        }
        let Some(Some(stranger)) = strangers.get(key) else { return };
        let bytes = sample.payload().to_bytes();
        let fits = |description: &Description| description.fits(bytes.len());
        let sent = match stranger.description.as_ref().is_none_or(fits) {
            true => stranger.publisher.try_publish(Outgoing::new(&*bytes)).map(drop),
            false => Err(SendError::OtherLength { len: bytes.len() as u64, wanted: 0 }),
        };
        let why = match &sent {
            Ok(()) => return,
            Err(SendError::OtherLength { .. }) => {
                "its length is not that of the topic's type".to_owned()
            }
            Err(error) => error.to_string(),
        };
        self.context.told.tell(&Event::of("refused", key).because(&why));
    }

    fn open_stranger(&self, key: &str) -> Result<Stranger, String> {
        let (rule, here) = self.rules.inward(Thing::Topic, key).ok_or("no rule lets it in")?;
        let name = names::name_of(&here).map_err(|why| why.to_string())?;
        let topic = match Topic::open_as_bytes(&self.context.domain, &name) {
            Err(outlive::Error::NotFound { .. }) if rule.create => {
                Topic::<[u8]>::open_or_create(&self.context.domain, &name)
            }
            other => other,
        };
        let topic = topic.map_err(|error| error.to_string())?;
        let publisher = topic.publisher_with(Publisher::options().foreign(true));
        let description = topic.description().map_err(|error| error.to_string())?;
        let publisher = publisher.map_err(|error| error.to_string())?;
        Ok(Stranger { topic, publisher, description })
    }

    fn topic_token(self: &Arc<Topics>, sample: &Sample) {
        let Some((topic, epoch, key)) = keys::parse_topic(sample.key_expr().as_str()) else {
            return;
        };
        let topic = (topic.origin, topic.instance);
        if topic.0 == self.context.origin() {
            return;
        }
        let mut known = lock(&self.known);
        if sample.kind() == SampleKind::Delete {
            if let Some((_, epochs)) = known.topics.get_mut(&topic) {
                epochs.remove(&epoch);
                if epochs.is_empty() {
                    lock(&self.refusals).remove(&topic);
                    known.topics.remove(&topic);
                }
            }
            drop(known);
            if let Some(receiver) = self.receiver(topic) {
                receiver.sender_went(epoch);
            }
            return;
        }
        if known.topics.len() >= MOST_KNOWN {
            return;
        }
        known
            .topics
            .entry(topic)
            .or_insert_with(|| (key.to_owned(), HashSet::new()))
            .1
            .insert(epoch);
        drop(known);
        match self.receiver(topic) {
            Some(receiver) => receiver.sender_came(epoch),
            None => self.open_receiver(topic),
        }
    }

    /// Opens the local topic for one elsewhere, on a thread of its own: its sender is asked what it is.
    fn open_receiver(self: &Arc<Topics>, topic: Elsewhere) {
        let mut known = lock(&self.known);
        let Some((key, _)) = known.topics.get(&topic) else { return };
        let key = key.clone();
        if self.rules.inward(Thing::Topic, &key).is_none() || known.opening.contains(&topic) {
            return;
        }
        if known.opening.len() >= MOST_OPENING {
            let again = Arc::clone(self);
            self.context.later.after(self.context.lease, move || again.open_receiver(topic));
            return;
        }
        known.opening.insert(topic);
        drop(known);
        let topics = Arc::clone(self);
        let open = move || {
            let opened = topics.receiver_of(topic, &key);
            let mut known = lock(&topics.known);
            known.opening.remove(&topic);
            let epochs =
                known.topics.get(&topic).map(|(_, epochs)| epochs.clone()).unwrap_or_default();
            let publishers = known.publishers.get(&topic).into_iter().flatten();
            let sessions: Vec<(u32, u64)> =
                publishers.map(|(&session, &(_, from))| (session, from)).collect();
            match opened {
                Ok(receiver) => {
                    let mut receivers =
                        topics.receivers.write().unwrap_or_else(PoisonError::into_inner);
                    receivers.insert(topic, Arc::clone(&receiver));
                    drop(receivers);
                    drop(known);
                    sessions
                        .into_iter()
                        .for_each(|(session, from)| receiver.publisher_came(session, from));
                    epochs.into_iter().for_each(|epoch| receiver.sender_came(epoch));
                }
                Err(Unopened::Refused(why)) => {
                    // It is tried again whenever the domain changes.
                    if lock(&topics.refused).insert(format!("{key}: {why}")) {
                        let event = Event::of("refused", &key).from(topic.0);
                        topics.context.told.tell(&event.because(&why));
                    }
                }
                Err(Unopened::Unsaid) if epochs.is_empty() => {}
                // The sender was killed, or stopped, as it was asked; another start of it may be there.
                Err(Unopened::Unsaid) => {
                    let again = Arc::clone(&topics);
                    let lease = topics.context.lease;
                    topics.context.later.after(lease, move || again.open_receiver(topic));
                }
            }
        };
        if std::thread::Builder::new().name("gateway-open".into()).spawn(open).is_err() {
            lock(&self.known).opening.remove(&topic);
        }
    }

    fn receiver_of(&self, topic: Elsewhere, key: &str) -> Result<Arc<Receiver>, Unopened> {
        let refused = |why: &str| Unopened::Refused(why.to_owned());
        let (rule, here) =
            self.rules.inward(Thing::Topic, key).ok_or(refused("no rule lets it in"))?;
        let name = names::name_of(&here).map_err(|why| refused(&why.to_string()))?;
        let meta = self.ask_meta(topic)?;
        Receiver::open(&self.context, topic, &name, meta, rule).map_err(|unfit| match unfit {
            Unfit::Refused(why) => Unopened::Refused(why),
            Unfit::OtherType(topic_here, why) => {
                self.tell_subscribers(topic, &topic_here, &why);
                Unopened::Refused(why)
            }
        })
    }

    /// The topic here has another type: its subscribers get that as an error, as long as the sender is
    /// there.
    fn tell_subscribers(&self, topic: Elsewhere, here: &Topic, why: &str) {
        let publisher = here.publisher_with(Publisher::options().foreign(true));
        let told = publisher.map_err(|error| error.to_string()).and_then(|publisher| {
            let told =
                publisher.publish_refusal(&format!("it comes from another machine, of {why}"));
            lock(&self.refusals).insert(topic, publisher);
            told.map_err(|error| error.to_string())
        });
        if let Err(error) = told {
            self.context.told.tell(&Event::of("refused", why).from(topic.0).because(&error));
        }
    }

    fn ask_meta(&self, (origin, instance): Elsewhere) -> Result<Meta, Unopened> {
        let key = keys::message("meta", origin, instance);
        let replies = self.context.session.get(key).timeout(META).wait();
        let replies = replies.map_err(|error| Unopened::Refused(error.to_string()))?;
        while let Ok(reply) = replies.recv() {
            if let Ok(sample) = reply.result() {
                let meta = serde_json::from_slice(&sample.payload().to_bytes());
                return meta.map_err(|error| Unopened::Refused(error.to_string()));
            }
        }
        Err(Unopened::Unsaid)
    }

    fn publisher_token(self: &Arc<Topics>, sample: &Sample) {
        let Some((stream, from, _)) = keys::parse_publisher(sample.key_expr().as_str()) else {
            return;
        };
        let topic = (stream.origin, stream.instance);
        if topic.0 == self.context.origin() {
            return;
        }
        let came = sample.kind() == SampleKind::Put;
        let mut known = lock(&self.known);
        if came && known.publishers.len() >= MOST_KNOWN {
            return;
        }
        let sessions = known.publishers.entry(topic).or_default();
        let (tokens, _) = sessions.entry(stream.session).or_insert((0, from));
        *tokens = if came { *tokens + 1 } else { tokens.saturating_sub(1) };
        let (has_come, has_gone) = (came && *tokens == 1, *tokens == 0);
        if has_gone {
            sessions.remove(&stream.session);
        }
        if sessions.is_empty() {
            known.publishers.remove(&topic);
        }
        drop(known);
        if let Some(receiver) = self.receiver(topic) {
            if has_come {
                receiver.publisher_came(stream.session, from);
            } else if has_gone {
                receiver.publisher_went(stream.session);
            }
        }
    }

    fn receiver_token(self: &Arc<Topics>, sample: &Sample) {
        let Some((topic, who)) = keys::parse_receiver(sample.key_expr().as_str()) else { return };
        let mut known = lock(&self.known);
        if known.receivers.len() >= MOST_KNOWN {
            return;
        }
        let receivers = known.receivers.entry(topic.instance).or_default();
        if receivers.len() >= MOST_RECEIVERS && !receivers.contains_key(&who) {
            return;
        }
        let tokens = receivers.entry(who).or_default();
        let came = sample.kind() == SampleKind::Put;
        *tokens = if came { *tokens + 1 } else { tokens.saturating_sub(1) };
        let tokens = *tokens;
        if tokens == 0 {
            receivers.remove(&who);
        }
        if receivers.is_empty() {
            known.receivers.remove(&topic.instance);
        }
        // Under the lock: a sender that is opened meanwhile gets the same, or what comes later.
        if let Some(sender) = self.sender(topic.instance) {
            sender.receiver(who, tokens);
        }
    }

    fn ended(self: &Arc<Topics>, sample: &Sample) {
        let Some(topic) = keys::parse("ended", sample.key_expr().as_str()) else { return };
        let ended = wire::ended_from_bytes(&sample.payload().to_bytes());
        if let Some((receiver, (session, until, ending))) =
            self.receiver((topic.origin, topic.instance)).zip(ended)
        {
            receiver.ended(session, until, ending);
        }
    }

    fn sender_is_at(self: &Arc<Topics>, sample: &Sample) {
        let Some(topic) = keys::parse("at", sample.key_expr().as_str()) else { return };
        let numbers = wire::numbers_from_bytes(&sample.payload().to_bytes());
        if let Some((receiver, (_, numbers))) =
            self.receiver((topic.origin, topic.instance)).zip(numbers)
        {
            receiver.sender_is_at(&numbers);
        }
    }

    fn acknowledged(self: &Arc<Topics>, sample: &Sample) {
        let Some(topic) = keys::parse("ack", sample.key_expr().as_str()) else { return };
        let numbers = wire::numbers_from_bytes(&sample.payload().to_bytes());
        if let Some((sender, (who, numbers))) = self.sender(topic.instance).zip(numbers) {
            sender.acknowledged(who, &numbers);
        }
    }

    fn answer_meta(self: &Arc<Topics>, query: Query) {
        let topic = keys::parse("meta", query.key_expr().as_str());
        let Some(sender) = topic.and_then(|topic| self.sender(topic.instance)) else { return };
        let bytes = serde_json::to_vec(sender.meta()).unwrap_or_default();
        if let Err(error) = query.reply(query.key_expr().clone(), bytes).wait() {
            self.context
                .told
                .tell(&Event::of("refused", query.key_expr().as_str()).because(&error.to_string()));
        }
    }

    fn answer_resume(self: &Arc<Topics>, query: Query) {
        let topic = keys::parse("resume", query.key_expr().as_str());
        if let Some(sender) = topic.and_then(|topic| self.sender(topic.instance)) {
            resume::answer(sender, query);
        }
    }

    /// Ends in order: others see at once that it has gone.
    pub fn close(&self) {
        self.senders.close();
        let mut receivers = self.receivers.write().unwrap_or_else(PoisonError::into_inner);
        receivers.drain().for_each(|(_, receiver)| receiver.close());
    }
}
