//! A topic that leaves: its messages are put for all, and kept until each receiver has them.
//!
//! | who | what |
//! | --- | --- |
//! | reader | takes each message and puts it |
//! | keeper | a reliable subscriber that takes nothing: it passes what every receiver has acknowledged |
//! | `at` | as long as a receiver lacks something: how far each session is, once a lease |
//!
//! A receiver whose token has vanished counts for a lease more: its successor may be about to come.
//! So does, for that long, each receiver of this sender's predecessor.
//!
//! Killed, or stopped, anywhere: the messages are in the ring, as long as that holds; its successor and the
//! receivers know by the numbers what is missing. Nothing in here has to survive.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use outlive::topic::{Durability, Sample, Session, Subscriber, Topic};
use outlive::wait::WaitSet;
use outlive::{Deadline, RecvError, TokenId};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Publisher;
use zenoh::qos::CongestionControl;

use crate::context::{COPIED, Shared};
use crate::keys;
use crate::leaving::Leaves;
use crate::rules::{Reliability, Rule};
use crate::told::Event;
use crate::topics::kept::{Kept, Noted};
use crate::topics::stream::Ending;
use crate::wire::{self, Attachment, Meta, Origin, StreamId};

/// How long the reader waits before it looks again whether it may hold one sample more.
pub(crate) const HELD: Duration = Duration::from_millis(1);
/// How often a publisher is looked at that is about to begin: some microseconds pass between its two steps,
/// unless it is stopped there.
const BEGINNING: Duration = Duration::from_millis(2);
/// Of one topic so many receivers are waited for.
const MOST_RECEIVERS: usize = 256;

/// A topic that leaves.
pub struct Sender {
    context: Shared,
    /// Its name here, and its key there.
    name: String,
    key: String,
    pub(crate) topic: Topic,
    /// Which topic of that name it is.
    pub instance: u64,
    rule: Rule,
    meta: Meta,
    kept: Mutex<Kept>,
    token: Mutex<Option<LivelinessToken>>,
    closed: AtomicBool,
    sent: AtomicU64,
}

/// A sample that zenoh sends without a copy.
struct Held(Sample);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// What is known of all sessions of a topic, for receivers that ask.
pub(crate) struct Known {
    /// Living ones, with the number behind the last message that was put before.
    pub(crate) at: Vec<(u32, u64)>,
    pub(crate) ended: Vec<(u32, u64, Ending)>,
}

impl Leaves for Sender {
    /// Ends the sender: its tokens go, its thread ends at its next look.
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.token.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut kept = self.kept();
        kept.tokens.clear();
        kept.keeper = None;
        drop(kept);
        // The thread sleeps until a participant comes or goes.
        drop(self.topic.subscriber());
    }

    /// Whether the topic's name has been removed.
    fn is_removed(&self) -> bool {
        self.topic.is_removed()
    }

    /// Whether it sends no more.
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl Sender {
    /// Begins to send a topic; its thread runs until [`Sender::close`].
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub fn open(
        context: &Shared,
        name: &str,
        key: String,
        rule: &Rule,
    ) -> Result<Arc<Sender>, String> {
        let text = |error: outlive::Error| error.to_string();
        let topic = Topic::open_as_bytes(&context.domain, name).map_err(text)?;
        let type_name = context.domain.type_name_of(name).map_err(text)?;
        let instance = topic.instance().map_err(text)?;
        let config = topic.config();
        let description =
            topic.description().map_err(text)?.map(|description| description.to_bytes());
        let meta = Meta {
            fingerprint: wire::fingerprint(&type_name, description.as_deref()),
            type_name,
            description,
            depth: config.depth,
            max_bytes: config.max_bytes,
            reliable: config.reliable,
            durability: match config.durability {
                Durability::Volatile => 0,
                Durability::TransientLocal => 1,
                Durability::Persistent => 2,
                _ => 1,
            },
        };
        let keeps = config.reliable && rule.reliability == Reliability::Reliable && !rule.thins();
        let keeper = Subscriber::options().reliable(true).history(config.depth).unvouched(true);
        let keeper = keeps.then(|| topic.subscriber_with(keeper)).transpose().map_err(text)?;
        let grace = context.journal.is_successor.then(|| Instant::now() + context.lease);
        let kept = Kept {
            keeper,
            receivers: HashMap::new(),
            rings: BTreeMap::new(),
            grace,
            tokens: HashMap::new(),
            ended: VecDeque::new(),
            reminds: false,
            has_refused: false,
        };
        let sender = Arc::new(Sender {
            context: Arc::clone(context),
            name: name.to_owned(),
            key,
            topic,
            instance,
            rule: rule.clone(),
            meta,
            kept: Mutex::new(kept),
            token: Mutex::new(None),
            closed: AtomicBool::new(false),
            sent: AtomicU64::new(0),
        });
        // Before the token: a receiver that sees it and asks gets all from here on.
        let reader = sender.topic.subscriber().map_err(text)?;
        let theirs = Arc::clone(&sender);
        std::thread::Builder::new()
            .name("gateway-sender".into())
            .spawn(move || theirs.run(reader))
            .map_err(|error| error.to_string())?;
        if grace.is_some() {
            let theirs = Arc::clone(&sender);
            context.later.after(context.lease, move || theirs.pass_all());
        }
        Ok(sender)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stream(&self, session: u32) -> StreamId {
        StreamId { origin: self.context.origin(), instance: self.instance, session }
    }

    /// Returns what a receiver has to know to make the topic.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns what the topic offers to those that come later.
    pub(crate) fn durability(&self) -> u8 {
        self.meta.durability
    }

    /// Whether its publishers are known, and its token is there.
    pub(crate) fn is_announced(&self) -> bool {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn run(self: Arc<Sender>, mut reader: Subscriber) {
        if let Err(why) = self.send_all(&mut reader) {
            self.context.told.tell(&Event::of("refused", &self.name).because(&why));
        }
        self.close();
    }

    fn send_all(self: &Arc<Sender>, reader: &mut Subscriber) -> Result<(), String> {
        let publisher = self.context.publisher(&self.key, &self.rule)?;
        let mut presence = reader.watch_publishers();
        let mut set = WaitSet::new(&self.context.domain);
        let text = |error: outlive::Error| error.to_string();
        set.add(reader).map_err(text)?;
        set.add(&presence).map_err(text)?;
        let mut thinning = HashMap::new();
        let (mut is_new, mut looks_again, mut is_beginning) = (true, false, false);
        loop {
            let mut strangers = std::mem::take(&mut looks_again);
            while let Some(sample) = self.next(reader)? {
                strangers |= self.forward(&publisher, sample, &mut thinning)?;
            }
            // After the messages, which are in a hurry: those of a publisher that has ended are all there
            // by now, and are taken below.
            let changed = presence.try_changed().map_err(text)?.is_some();
            if changed || strangers || is_new || is_beginning {
                let before = if is_new { self.sessions_of_the_ring()? } else { HashMap::new() };
                // Of those that are known by now it is seen whether they have ended. One that begins after
                // that look is not among the living, and goes on: it is looked at next time.
                let known = self.kept().going_on();
                let living;
                (living, is_beginning) = self.topic.sessions();
                // What those have published that are not among them by now.
                while let Some(sample) = self.next(reader)? {
                    looks_again |= self.forward(&publisher, sample, &mut thinning)?;
                }
                thinning
                    .retain(|session, _| living.iter().any(|living| living.session == *session));
                self.look_at_sessions(living, &known)?;
                self.list(&before);
            }
            if is_new {
                // Now all that live have their tokens, and the topic's own says so.
                is_new = false;
                self.announce()?;
            }
            if self.is_closed() || self.topic.is_removed() {
                return Ok(());
            }
            if looks_again {
                continue;
            }
            // A publisher that is there and has no session yet is no change when it has: it is looked at again.
            let deadline = if is_beginning { Deadline::after(BEGINNING) } else { Deadline::NEVER };
            set.wait_until(deadline).map_err(|error| error.to_string())?;
        }
    }

    /// Returns the next message, if one is there.
    fn next(&self, reader: &mut Subscriber) -> Result<Option<Sample>, String> {
        loop {
            match reader.try_recv() {
                Ok(sample) => return Ok(sample),
                // zenoh still reads those that were put; it lets go as it sends.
                Err(RecvError::TooManyHeld) => std::thread::sleep(HELD),
                // Of another type, by this gateway's own word.
                Err(RecvError::Lagged { .. } | RecvError::Encoding(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Puts a message. Returns whether its session was not known.
    fn forward(
        self: &Arc<Sender>,
        publisher: &Publisher<'_>,
        sample: Sample,
        thinning: &mut HashMap<u32, Thinning>,
    ) -> Result<bool, String> {
        let (ring, session, number) = (sample.ring(), sample.session(), sample.sequence());
        let is_foreign = sample.is_foreign();
        let (noted, waited_for) = {
            let mut kept = self.kept();
            (kept.note(&sample), kept.is_waited_for())
        };
        let is_stranger = noted == Noted::Stranger && !is_foreign;
        if noted == Noted::Late {
            let event = Event::of("lost", &self.name).session(session).messages(1);
            self.context.told.tell(&event.because("published as its process was dying"));
            return Ok(false);
        }
        if is_foreign {
            self.kept().pass(ring);
            return Ok(false);
        }
        let thins = self.rule.thins();
        if thins && !thinning.entry(session).or_default().lets(&self.rule) {
            return Ok(is_stranger);
        }
        let attachment = Attachment {
            stream: self.stream(session),
            number,
            sent: self.sent.fetch_add(1, Ordering::Relaxed),
            epoch: self.context.epoch,
            fingerprint: self.meta.fingerprint,
            is_oldest: false,
            is_thinned: thins || self.rule.reliability == Reliability::BestEffort,
            header: sample.header(),
        };
        publisher
            .put(payload(sample))
            .attachment(attachment.to_bytes())
            .wait()
            .map_err(|error| error.to_string())?;
        if waited_for && self.is_whole() {
            self.remind();
        } else {
            self.kept().pass(ring);
        }
        Ok(is_stranger)
    }

    /// Gives the topic and its publishers to know.
    fn announce(&self) -> Result<(), String> {
        let key = keys::topic(self.context.origin(), self.instance, self.context.epoch, &self.key);
        let token = self.context.session.liveliness().declare_token(key).wait();
        let token = token.map_err(|error| error.to_string())?;
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
        if self.is_closed() {
            self.close();
        }
        self.context.told.tell(&Event::of("sends", &self.name).because(&self.key));
        Ok(())
    }

    /// Publishers have come or gone: says so. Those that are not among the living and were known before that
    /// look have ended, and all that they have published has been read.
    fn look_at_sessions(
        self: &Arc<Sender>,
        living: Vec<Session>,
        known: &HashSet<u32>,
    ) -> Result<(), String> {
        let living: HashMap<u32, Session> =
            living.into_iter().map(|session| (session.session, session)).collect();
        let mut kept = self.kept();
        for session in living.values() {
            let is_known = kept.tokens.contains_key(&session.session);
            if is_known || self.is_gateway(session.publisher) {
                continue;
            }
            kept.begin(session);
            let stream = self.stream(session.session);
            let key = keys::publisher(stream, self.context.epoch, session.from, &self.key);
            let token = self.context.session.liveliness().declare_token(key).wait();
            kept.tokens.insert(session.session, token.map_err(|error| error.to_string())?);
        }
        let over = kept.end(&living, known, |ring, segment| {
            self.ending(ring, segment.session, segment.publisher)
        });
        let mut gone = Vec::new();
        for (session, until, ending) in over {
            gone.push((session, until, ending, kept.tokens.remove(&session)));
        }
        kept.prune(self.meta.depth);
        let rings: Vec<u32> = kept.rings.keys().copied().collect();
        for ring in rings {
            kept.pass(ring);
        }
        drop(kept);
        for (session, until, ending, token) in gone {
            let key = keys::message("ended", self.context.origin(), self.instance);
            self.put(&key, wire::ended_to_bytes(session, until, ending), CongestionControl::Block);
            drop(token);
            self.context.told.tell(&Event::of(word(ending), &self.name).session(session));
        }
        Ok(())
    }

    /// Returns the sessions of which the ring has messages, each with the number behind the last one, and
    /// how it has ended, if it has.
    fn sessions_of_the_ring(&self) -> Result<HashMap<u32, (u64, Ending)>, String> {
        let options = Subscriber::options().history(self.meta.depth).unvouched(true);
        let history = self.topic.subscriber_with(options).map_err(|error| error.to_string());
        let (mut history, mut sessions) = (history?, HashMap::new());
        while let Some(sample) = self.next(&mut history)? {
            if !sample.is_foreign() {
                let ending = self.ending(sample.ring(), sample.session(), sample.publisher());
                sessions.insert(sample.session(), (sample.sequence() + 1, ending));
            }
        }
        Ok(sessions)
    }

    /// Those of which this sender has seen nothing ended before it came, and nothing was put of them since:
    /// receivers that have had them from a predecessor are told when they ask.
    fn list(&self, before: &HashMap<u32, (u64, Ending)>) {
        let mut kept = self.kept();
        let segments = kept.rings.values().flatten().map(|segment| segment.session);
        let listed = kept.ended.iter().map(|(session, ..)| *session);
        let known: HashSet<u32> = segments.chain(listed).collect();
        for (&session, &(until, ending)) in before {
            if !known.contains(&session) {
                kept.ended.push_back((session, until, ending));
            }
        }
    }

    /// Returns how a session has ended.
    fn ending(&self, ring: u32, session: u32, publisher: Option<TokenId>) -> Ending {
        let lives = publisher.is_some_and(|id| self.context.domain.peer(id).is_alive());
        match self.topic.has_left(ring, session) {
            Some(false) if !lives => Ending::Died,
            // Not known: a later one has left in order there meanwhile. As a rule it did so, too.
            _ => Ending::Left,
        }
    }

    /// Whether a gateway publishes there: its stand-ins are announced to no other machine.
    fn is_gateway(&self, publisher: TokenId) -> bool {
        let node = self.context.domain.node_of(publisher);
        node.ok().flatten().is_some_and(|node| node.name.starts_with(crate::gateway::NODE))
    }

    fn put(&self, key: &str, bytes: Vec<u8>, congestion: CongestionControl) {
        let put = self.context.session.put(key, bytes).congestion_control(congestion);
        if let Err(error) = put.wait() {
            self.context.told.tell(&Event::of("refused", &self.name).because(&error.to_string()));
        }
    }

    /// A receiver has so many tokens now: messages are kept for it as long as it has one, and for a lease
    /// more.
    pub fn receiver(self: &Arc<Sender>, who: Origin, tokens: usize) {
        let mut kept = self.kept();
        let is_new = !kept.receivers.contains_key(&who);
        if tokens == 0 && is_new {
            return;
        }
        if is_new && kept.receivers.len() >= MOST_RECEIVERS {
            if !std::mem::replace(&mut kept.has_refused, true) {
                drop(kept);
                let event = Event::of("refused", &self.name).from(who);
                let why = "nothing is kept for it: there are as many receivers as a topic has";
                self.context.told.tell(&event.because(why));
            }
            return;
        }
        let receiver = kept.receivers.entry(who).or_default();
        receiver.is_answered &= receiver.tokens > 0;
        receiver.tokens = tokens;
        receiver.gone = (tokens == 0).then(Instant::now);
        if tokens == 0 {
            let theirs = Arc::clone(self);
            self.context.later.after(self.context.lease, move || theirs.forget_receivers());
        }
    }

    /// Those whose lease is over are not waited for any more.
    fn forget_receivers(&self) {
        let lease = self.context.lease;
        let mut kept = self.kept();
        kept.receivers
            .retain(|_, receiver| receiver.gone.is_none_or(|gone| gone.elapsed() < lease));
        drop(kept);
        self.pass_all();
    }

    /// A receiver has had a whole answer.
    pub(crate) fn has_answered(&self, who: Origin) {
        if let Some(receiver) = self.kept().receivers.get_mut(&who) {
            receiver.is_answered = true;
        }
        self.pass_all();
    }

    /// A receiver has all before these numbers.
    pub fn acknowledged(&self, who: Origin, numbers: &[(u32, u64)]) {
        let mut kept = self.kept();
        // Without a token nothing is kept for it.
        let Kept { receivers, rings, .. } = &mut *kept;
        let Some(receiver) = receivers.get_mut(&who) else { return };
        // Of what is kept; all else it may have, or make up.
        let sent: HashMap<u32, u64> =
            rings.values().flatten().map(|segment| (segment.session, segment.sent)).collect();
        for &(session, number) in numbers {
            let Some(&sent) = sent.get(&session) else { continue };
            let has = receiver.has.get(&session).copied();
            // Acknowledgements may overtake each other.
            if has.is_none_or(|has| has < number) {
                receiver.has.insert(session, number);
            }
            if has.is_none_or(|has| has < number.min(sent)) {
                (receiver.lacks_since, receiver.is_slow) = (None, false);
            }
        }
        drop(kept);
        self.pass_all();
    }

    fn pass_all(&self) {
        let mut kept = self.kept();
        let rings: Vec<u32> = kept.rings.keys().copied().collect();
        for ring in rings {
            kept.pass(ring);
        }
    }

    /// As long as a receiver lacks something, all are told how far the sessions are, once a lease.
    fn remind(self: &Arc<Sender>) {
        let mut kept = self.kept();
        if kept.reminds {
            return;
        }
        kept.reminds = true;
        drop(kept);
        let theirs = Arc::clone(self);
        let span = self.context.lease.min(self.rule.hold());
        self.context.later.after(span, move || theirs.remind_now());
    }

    fn remind_now(self: &Arc<Sender>) {
        let mut kept = self.kept();
        kept.reminds = false;
        let slow = kept.find_slow(self.rule.hold());
        let lacks = kept.is_lacking();
        drop(kept);
        if !slow.is_empty() {
            self.pass_all();
        }
        for who in slow {
            let event = Event::of("slow", &self.name).from(who);
            self.context.told.tell(&event.because("publishers wait for it no more"));
        }
        if lacks && !self.is_closed() {
            let key = keys::message("at", self.context.origin(), self.instance);
            let kept = self.kept();
            let segments = kept.rings.values().flatten().filter(|segment| !segment.is_foreign);
            let at: Vec<(u32, u64)> =
                segments.map(|segment| (segment.session, segment.sent)).collect();
            drop(kept);
            // Dropped where the network is busy: it comes again.
            let bytes = wire::numbers_to_bytes(self.context.origin(), at);
            self.put(&key, bytes, CongestionControl::Drop);
            self.remind();
        }
    }

    /// Returns what is known of the sessions; the keeper goes on.
    pub(crate) fn known(&self) -> Known {
        let kept = self.kept();
        let segments = kept.rings.values().flatten().filter(|segment| !segment.is_foreign);
        let (mut at, mut ended) = (Vec::new(), Vec::from_iter(kept.ended.iter().copied()));
        let listed: HashSet<u32> = ended.iter().map(|(session, ..)| *session).collect();
        for segment in segments {
            match segment.over {
                None => at.push((segment.session, segment.sent)),
                // One of those that are still kept for a receiver, and have ended before the others.
                Some(how) if !listed.contains(&segment.session) => {
                    ended.push((segment.session, segment.sent, how));
                }
                Some(_) => {}
            }
        }
        Known { at, ended }
    }

    /// Returns what a message bears that is sent again.
    pub(crate) fn attachment(&self, sample: &Sample, is_oldest: bool) -> Attachment {
        Attachment {
            stream: self.stream(sample.session()),
            number: sample.sequence(),
            sent: self.sent.fetch_add(1, Ordering::Relaxed),
            epoch: self.context.epoch,
            fingerprint: self.meta.fingerprint,
            is_oldest,
            is_thinned: false,
            header: sample.header(),
        }
    }

    /// Whether its streams have no gaps.
    pub(crate) fn is_whole(&self) -> bool {
        !self.rule.thins() && self.rule.reliability == Reliability::Reliable
    }

    /// The gateway that it belongs to.
    pub(crate) fn context(&self) -> &Shared {
        &self.context
    }
}

/// Returns the word for an ending.
pub(crate) fn word(ending: Ending) -> &'static str {
    match ending {
        Ending::Died => "died",
        Ending::Left => "left",
    }
}

/// Gives a sample to zenoh: as it lies in shared memory, if that is worth it.
pub(crate) fn payload(sample: Sample) -> ZBytes {
    match sample.bytes() {
        short if short.len() <= COPIED => short.to_vec().into(),
        _ => Bytes::from_owner(Held(sample)).into(),
    }
}

/// Which messages of a session leave, where a rule lets only some.
#[derive(Default)]
struct Thinning {
    count: u64,
    last: Option<Instant>,
}

impl Thinning {
    fn lets(&mut self, rule: &Rule) -> bool {
        let at = self.count;
        self.count += 1;
        if rule.keep_every.is_some_and(|every| !at.is_multiple_of(every)) {
            return false;
        }
        let now = Instant::now();
        if let Some((span, last)) = rule.span().zip(self.last)
            && now.duration_since(last) < span
        {
            return false;
        }
        self.last = Some(now);
        true
    }
}
