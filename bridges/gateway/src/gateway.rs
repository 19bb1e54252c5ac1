//! The acting gateway: which topics leave and which come in, as names, tokens and messages come and go.
//!
//! zenoh calls the functions here on its own threads. They take short locks, and leave what waits for
//! others to threads of its own.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use outlive::describe::Description;
use outlive::node::Node;
use outlive::topic::{Outgoing, Publisher, Topic};
use outlive::{Domain, SendError};
use zenoh::Wait;
use zenoh::query::Query;
use zenoh::sample::{Sample, SampleKind};

use crate::context::{Context, Shared};
use crate::journal::{self, Journal};
use crate::keys;
use crate::later::Later;
use crate::names;
use crate::receiver::{Receiver, Unfit};
use crate::resume;
use crate::rules::{Rules, Thing};
use crate::sender::Sender;
use crate::services::Services;
use crate::settings::Settings;
use crate::told::{Event, Told, said};
use crate::wire::{self, Attachment, Meta, Origin};

/// What the names of all gateways' nodes begin with.
pub const NODE: &str = "outlive-gateway";
/// How long a sender may take to say what its topic is.
const META: Duration = Duration::from_secs(10);
/// As many topics elsewhere are known at a time, and as many publishers.
const MOST_KNOWN: usize = 1 << 16;

/// As many receivers of one topic are waited for.
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
pub struct Gateway {
    context: Shared,
    rules: Rules,
    services: Arc<Services>,
    senders: Mutex<HashMap<String, Arc<Sender>>>,
    receivers: RwLock<HashMap<Elsewhere, Arc<Receiver>>>,
    known: Mutex<Known>,
    /// What tells subscribers here that a topic elsewhere has another type.
    refusals: Mutex<HashMap<Elsewhere, Publisher>>,
    /// By key: what publishes for clients that are no gateways.
    strangers: Mutex<HashMap<String, Option<Stranger>>>,
    /// Names that leave under no key: told once.
    refused: Mutex<HashSet<String>>,
    _node: Node,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gateway {
    /// Waits until no other gateway of that name acts in the domain, then connects and begins.
    ///
    /// The calling thread has to live as long as the gateway acts.
    ///
    /// # Errors
    /// Why it cannot act.
    pub fn start(domain: &Domain, settings: &Settings, told: Told) -> Result<Arc<Gateway>, String> {
        let rules = Rules::new(&settings.rules)?;
        let config = settings.zenoh()?;
        let name = settings.name();
        let waits =
            || told.tell(&Event::of("waits", name).because("another gateway of that name acts"));
        let journal = Journal::take(domain, name, waits).map_err(|failed| match failed {
            journal::Failed::Domain(error) => error.to_string(),
            journal::Failed::Lock(error) => error.to_string(),
            journal::Failed::Random(error) => error.to_string(),
        })?;
        let node =
            domain.node(&format!("{NODE}.{name}")).register().map_err(|error| error.to_string())?;
        let epoch = journal::random().map_err(|error| error.to_string())? as u64;
        let later = Later::start().map_err(|error| error.to_string())?;
        let session = zenoh::open(config).wait().map_err(|error| said(&error))?;
        let domain = domain.clone();
        let lease = settings.lease();
        let context = Arc::new(Context { domain, session, journal, epoch, lease, told, later });
        let services = Services::start(&context, &rules).map_err(|error| error.to_string())?;
        let gateway = Arc::new(Gateway {
            context,
            rules,
            services,
            senders: Mutex::default(),
            receivers: RwLock::default(),
            known: Mutex::default(),
            refusals: Mutex::default(),
            strangers: Mutex::default(),
            refused: Mutex::default(),
            _node: node,
        });
        gateway.declare().map_err(|error| said(&error))?;
        gateway.context.told.tell(&Event::of("acts", name));
        Ok(gateway)
    }

    /// Asks zenoh for all that concerns the gateway.
    fn declare(self: &Arc<Gateway>) -> zenoh::Result<()> {
        let session = &self.context.session;
        let own = self.context.origin();
        let called = |handle: fn(&Arc<Gateway>, &Sample)| {
            let gateway = Arc::clone(self);
            move |sample: Sample| handle(&gateway, &sample)
        };
        let asked = |handle: fn(&Arc<Gateway>, Query)| {
            let gateway = Arc::clone(self);
            move |query: Query| handle(&gateway, query)
        };
        for (kind, handle) in
            [("ended", Gateway::ended as fn(&Arc<Gateway>, &Sample)), ("at", Gateway::sender_is_at)]
        {
            session
                .declare_subscriber(keys::all(kind))
                .callback(called(handle))
                .background()
                .wait()?;
        }
        session
            .declare_subscriber(keys::all_of("ack", own))
            .callback(called(Gateway::acknowledged))
            .background()
            .wait()?;
        for (kind, handle) in [
            ("meta", Gateway::answer_meta as fn(&Arc<Gateway>, Query)),
            ("resume", Gateway::answer_resume),
        ] {
            session
                .declare_queryable(keys::all_of(kind, own))
                .callback(asked(handle))
                .background()
                .wait()?;
        }
        for (at, expression) in self.rules.inward_expressions().enumerate() {
            let gateway = Arc::clone(self);
            // What several rules name comes once for each.
            let handle = move |sample: Sample| gateway.message(at, &sample);
            session.declare_subscriber(expression).callback(handle).background().wait()?;
        }
        // Last: from here on streams are asked for.
        for (expression, handle) in [
            (keys::all_of("receiver", own), Gateway::receiver_token as fn(&Arc<Gateway>, &Sample)),
            (keys::all("publisher"), Gateway::publisher_token),
            (keys::all("topic"), Gateway::topic_token),
        ] {
            let tokens = session.liveliness().declare_subscriber(expression).history(true);
            tokens.callback(called(handle)).background().wait()?;
        }
        Ok(())
    }

    /// Whether the name of a topic was removed that it sends or receives: then it has to look. It costs a
    /// load for each.
    #[must_use]
    pub fn has_removed(&self) -> bool {
        let receivers = self.receivers.read().unwrap_or_else(PoisonError::into_inner);
        receivers.values().any(|receiver| receiver.is_removed())
            || lock(&self.strangers).values().flatten().any(|stranger| stranger.topic.is_removed())
            || lock(&self.senders).values().any(|sender| sender.is_removed())
            || self.services.has_removed()
    }

    /// What is in the domain has changed: topics begin to leave, or end.
    pub fn look(self: &Arc<Gateway>, names: &[String]) {
        self.services.look(names);
        let mut opened = Vec::new();
        let mut senders = lock(&self.senders);
        senders.retain(|name, sender| {
            let stays = names.contains(name) && !sender.is_removed() && !sender.is_closed();
            if !stays {
                sender.close();
            }
            stays
        });
        for name in names.iter().filter(|name| !name.starts_with(names::OWN)) {
            if senders.contains_key(name)
                || !matches!(self.context.domain.kind_of(name), Ok(outlive::Kind::Topic))
            {
                continue;
            }
            let key = match names::key_of(name) {
                Ok(key) => key,
                Err(why) => {
                    if lock(&self.refused).insert(name.clone()) {
                        self.context
                            .told
                            .tell(&Event::of("refused", name).because(&why.to_string()));
                    }
                    continue;
                }
            };
            let Some((rule, network)) = self.rules.outward(Thing::Topic, &key) else { continue };
            match Sender::open(&self.context, name, network, rule) {
                Ok(sender) => {
                    senders.insert(name.clone(), Arc::clone(&sender));
                    opened.push(sender);
                }
                Err(why) => {
                    if lock(&self.refused).insert(name.clone()) {
                        self.context.told.tell(&Event::of("refused", name).because(&why));
                    }
                }
            }
        }
        drop(senders);
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
    fn try_again(self: &Arc<Gateway>) {
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
    fn renew_receivers(self: &Arc<Gateway>) {
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
        lock(&self.senders).values().find(|sender| sender.instance == instance).cloned()
    }

    fn receiver(&self, topic: Elsewhere) -> Option<Arc<Receiver>> {
        self.receivers.read().unwrap_or_else(PoisonError::into_inner).get(&topic).cloned()
    }

    /// A message on a key that rule `at` lets in.
    fn message(self: &Arc<Gateway>, at: usize, sample: &Sample) {
        let key = sample.key_expr();
        let first = self.rules.inward_expressions().position(|expression| expression.includes(key));
        if first != Some(at) || sample.kind() != SampleKind::Put {
            return;
        }
        let attachment = sample.attachment().map(|bytes| bytes.to_bytes());
        let Some(attachment) = attachment.and_then(|bytes| Attachment::from_bytes(&bytes)) else {
            self.stranger(sample);
            return;
        };
        let topic = (attachment.stream.origin, attachment.stream.instance);
        if topic.0 == self.context.origin() {
            return;
        }
        // One that is not known yet is asked for when it is.
        if let Some(receiver) = self.receiver(topic) {
            receiver.take(attachment, sample.payload().clone());
        }
    }

    /// A message of a client that is no gateway.
    fn stranger(&self, sample: &Sample) {
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

    fn topic_token(self: &Arc<Gateway>, sample: &Sample) {
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
    fn open_receiver(self: &Arc<Gateway>, topic: Elsewhere) {
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
        let gateway = Arc::clone(self);
        let open = move || {
            let opened = gateway.receiver_of(topic, &key);
            let mut known = lock(&gateway.known);
            known.opening.remove(&topic);
            let epochs =
                known.topics.get(&topic).map(|(_, epochs)| epochs.clone()).unwrap_or_default();
            let publishers = known.publishers.get(&topic).into_iter().flatten();
            let sessions: Vec<(u32, u64)> =
                publishers.map(|(&session, &(_, from))| (session, from)).collect();
            match opened {
                Ok(receiver) => {
                    let mut receivers =
                        gateway.receivers.write().unwrap_or_else(PoisonError::into_inner);
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
                    if lock(&gateway.refused).insert(format!("{key}: {why}")) {
                        let event = Event::of("refused", &key).from(topic.0);
                        gateway.context.told.tell(&event.because(&why));
                    }
                }
                Err(Unopened::Unsaid) if epochs.is_empty() => {}
                // The sender was killed, or stopped, as it was asked; another start of it may be there.
                Err(Unopened::Unsaid) => {
                    let again = Arc::clone(&gateway);
                    let lease = gateway.context.lease;
                    gateway.context.later.after(lease, move || again.open_receiver(topic));
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

    fn publisher_token(self: &Arc<Gateway>, sample: &Sample) {
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

    fn receiver_token(self: &Arc<Gateway>, sample: &Sample) {
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

    fn ended(self: &Arc<Gateway>, sample: &Sample) {
        let Some(topic) = keys::parse("ended", sample.key_expr().as_str()) else { return };
        let ended = wire::ended_from_bytes(&sample.payload().to_bytes());
        if let Some((receiver, (session, until, ending))) =
            self.receiver((topic.origin, topic.instance)).zip(ended)
        {
            receiver.ended(session, until, ending);
        }
    }

    fn sender_is_at(self: &Arc<Gateway>, sample: &Sample) {
        let Some(topic) = keys::parse("at", sample.key_expr().as_str()) else { return };
        let numbers = wire::numbers_from_bytes(&sample.payload().to_bytes());
        if let Some((receiver, (_, numbers))) =
            self.receiver((topic.origin, topic.instance)).zip(numbers)
        {
            receiver.sender_is_at(&numbers);
        }
    }

    fn acknowledged(self: &Arc<Gateway>, sample: &Sample) {
        let Some(topic) = keys::parse("ack", sample.key_expr().as_str()) else { return };
        let numbers = wire::numbers_from_bytes(&sample.payload().to_bytes());
        if let Some((sender, (who, numbers))) = self.sender(topic.instance).zip(numbers) {
            sender.acknowledged(who, &numbers);
        }
    }

    fn answer_meta(self: &Arc<Gateway>, query: Query) {
        let topic = keys::parse("meta", query.key_expr().as_str());
        let Some(sender) = topic.and_then(|topic| self.sender(topic.instance)) else { return };
        let bytes = serde_json::to_vec(sender.meta()).unwrap_or_default();
        if let Err(error) = query.reply(query.key_expr().clone(), bytes).wait() {
            self.context
                .told
                .tell(&Event::of("refused", query.key_expr().as_str()).because(&error.to_string()));
        }
    }

    fn answer_resume(self: &Arc<Gateway>, query: Query) {
        let topic = keys::parse("resume", query.key_expr().as_str());
        if let Some(sender) = topic.and_then(|topic| self.sender(topic.instance)) {
            resume::answer(sender, query);
        }
    }

    /// Ends in order: others see at once that this gateway has gone.
    pub fn close(&self) {
        self.services.close();
        for (_, sender) in lock(&self.senders).drain() {
            sender.close();
        }
        let mut receivers = self.receivers.write().unwrap_or_else(PoisonError::into_inner);
        receivers.drain().for_each(|(_, receiver)| receiver.close());
        drop(receivers);
        let _ = self.context.session.close().wait();
    }
}
