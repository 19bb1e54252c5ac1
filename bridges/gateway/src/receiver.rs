//! A topic that comes in: its streams, and the stand-ins that publish them here.
//!
//! | state of a stream | a message comes | its sender's tokens vanish |
//! | --- | --- | --- |
//! | nothing known | it waits; the sender is asked where it begins | |
//! | going on | published at once, if it is the next one and there is room | the stand-in goes as if it had died; `next` stays known |
//! | blocked: a reliable subscriber here is slow, or there is no memory | it waits ahead; a thread waits for room | as above, once that thread is done |
//! | ended, messages missing | as above | as above |
//! | over | a repeat | |
//!
//! Killed, or stopped, anywhere: the journal has `next` and the intent (journal.rs); what waits
//! ahead comes again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive::describe::Description;
use outlive::topic::{Durability, Outgoing, Publisher, Topic};
use outlive::{Domain, SendError};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::liveliness::LivelinessToken;
use zenoh::qos::CongestionControl;
use zenoh::query::{ConsolidationMode, Reply};

use crate::common::Shared;
use crate::journal::{Entry, Settled};
use crate::keys;
use crate::resume::{HIGHEST, Summary};
use crate::rules::Rule;
use crate::sender::word;
use crate::stream::{Ending, Stream, Verdict};
use crate::told::Event;
use crate::wire::{self, Attachment, Meta, Origin, StreamId};

/// A payload up to this length goes by way of one slice.
const SHORT: usize = 4096;
/// How long acknowledgements wait for others.
const GATHERED: Duration = Duration::from_millis(1);
/// How long a message may be on its way before the sender is asked for it.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long the thread that waits for room sleeps at most.
const SLICE: Duration = Duration::from_millis(100);
/// As many sessions are known of a topic.
const MOST_LINES: usize = 4096;
/// Of so many streams that are over the numbers are acknowledged still.
const MOST_DONE: usize = 256;
/// The most bytes of a topic that is made here.
const MOST_BYTES: u64 = 6 << 30;

/// A message on its way into the local ring.
struct Message {
    payload: ZBytes,
    attachment: Attachment,
}

fn length(message: &Message) -> usize {
    message.payload.len()
}

/// A stream and its stand-in.
struct Line {
    stream: Stream<Message>,
    entry: Entry,
    stand_in: Option<Publisher>,
    /// A thread waits for room for it, or it waits for a ring.
    is_blocked: bool,
    /// There was no ring for its stand-in.
    waits_for_ring: bool,
    /// The publisher elsewhere has its token.
    has_token: bool,
    /// In the answer that is coming, a message had no room.
    had_no_room: bool,
    /// As many were lost when that was told last.
    told_lost: u64,
    refused: u64,
}

#[derive(Default)]
struct State {
    lines: HashMap<u32, Line>,
    /// The sender's starts whose tokens are there.
    epochs: HashSet<u64>,
    /// A whole answer has come since: a publisher whose token comes now is a new one.
    is_current: bool,
    is_asking: bool,
    /// The highest session that was ever known of the topic.
    highest: Option<u32>,
    /// Once more, after the answer that is coming.
    asks_again: bool,
    /// A question is due.
    is_due: bool,
    /// An acknowledgement is due.
    is_ack_due: bool,
    /// Messages since the last one.
    unacknowledged: u64,
    is_refusing: bool,
    /// The next numbers of streams that are over: the last acknowledgement may have been lost.
    done: VecDeque<(u32, u64)>,
}

/// See the head of this file.
pub struct Receiver {
    common: Shared,
    origin: Origin,
    instance: u64,
    name: String,
    meta: Meta,
    description: Option<Description>,
    topic: Topic,
    /// Which topic of that name it is.
    local: u64,
    state: Mutex<State>,
    token: Mutex<Option<LivelinessToken>>,
    closed: AtomicBool,
}

/// Why a topic elsewhere cannot come in.
pub enum Unfit {
    /// The topic here has another type; its subscribers are to be told.
    OtherType(Box<Topic>, String),
    /// Anything else.
    Refused(String),
}

impl From<String> for Unfit {
    fn from(why: String) -> Unfit {
        Unfit::Refused(why)
    }
}

/// Returns why the topic here has another type, if it has.
fn difference(
    domain: &Domain,
    name: &str,
    topic: &Topic,
    meta: &Meta,
    description: Option<&Description>,
) -> Result<Option<String>, String> {
    let text = |error: outlive::Error| error.to_string();
    let entry = domain.entry(name).map_err(text)?;
    let own = topic.description().map_err(text)?;
    let bytes = own.as_ref().map(Description::to_bytes);
    if wire::fingerprint(&entry.type_name, bytes.as_deref()) == meta.fingerprint {
        return Ok(None);
    }
    let field = own.zip(description).and_then(|(own, other)| own.difference(other));
    let (here, there) = field.unwrap_or_else(|| (entry.type_name.clone(), meta.type_name.clone()));
    Ok(Some(format!("another type: here {here}, there {there}")))
}

/// Returns the local topic, which is made if need be.
fn open(
    domain: &Domain,
    name: &str,
    meta: &Meta,
    rule: &Rule,
) -> Result<(Topic, Option<Description>), Unfit> {
    let text = |error: outlive::Error| error.to_string();
    let description = match &meta.description {
        None => None,
        Some(bytes) => {
            let read = Description::from_bytes(bytes);
            Some(read.ok_or_else(|| "the type's description is damaged".to_owned())?)
        }
    };
    let topic = match Topic::open_as_bytes(domain, name) {
        Ok(topic) => topic,
        Err(outlive::Error::NotFound { .. }) if rule.create => {
            make(domain, name, meta, rule, description.as_ref())?
        }
        Err(error) => return Err(Unfit::Refused(text(error))),
    };
    match difference(domain, name, &topic, meta, description.as_ref())? {
        None => Ok((topic, description)),
        Some(why) => Err(Unfit::OtherType(Box::new(topic), why)),
    }
}

/// Makes the topic as it is elsewhere.
fn make(
    domain: &Domain,
    name: &str,
    meta: &Meta,
    rule: &Rule,
    description: Option<&Description>,
) -> Result<Topic, String> {
    let bytes = rule.max_bytes.unwrap_or(meta.max_bytes).min(MOST_BYTES);
    let mut options = Topic::<[u8]>::options()
        .as_is()
        .depth(meta.depth)
        .max_bytes(bytes)
        .reliable(meta.reliable)
        .durability(match meta.durability {
            0 => Durability::Volatile,
            1 => Durability::TransientLocal,
            _ => Durability::Persistent,
        });
    match description {
        Some(description) => options = options.description(description.clone()),
        None if wire::fingerprint(&meta.type_name, None) == meta.fingerprint
            && is_bytes(&meta.type_name) => {}
        None => {
            return Err(format!(
                "its type '{}' has no description, by which it could be made here: make the topic first",
                meta.type_name
            ));
        }
    }
    options.open_or_create(domain, name).map_err(|error| error.to_string())
}

/// Whether a type's name is that of plain bytes.
fn is_bytes(type_name: &str) -> bool {
    type_name.is_empty() || type_name == "u8" || type_name == "[u8]"
}

impl Receiver {
    /// Opens the local topic of that name for what a sender's topic brings.
    ///
    /// # Errors
    /// Why it cannot come in.
    pub fn open(
        common: &Shared,
        (origin, instance): (Origin, u64),
        name: &str,
        meta: Meta,
        rule: &Rule,
    ) -> Result<Arc<Receiver>, Unfit> {
        let (topic, description) = open(&common.domain, name, &meta, rule)?;
        let local = topic.instance().map_err(|error| error.to_string())?;
        let highest = common.journal.highest(origin, instance);
        let key = keys::receiver(origin, instance, common.origin());
        let token = common.session.liveliness().declare_token(key).wait();
        let token = token.map_err(|error| error.to_string())?;
        common.told.tell(&Event::of("receives", name).from(origin));
        Ok(Arc::new(Receiver {
            common: Arc::clone(common),
            origin,
            instance,
            name: name.to_owned(),
            meta,
            description,
            topic,
            local,
            state: Mutex::new(State { highest, ..State::default() }),
            token: Mutex::new(Some(token)),
            closed: AtomicBool::new(false),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the local topic's name has been removed.
    pub fn is_removed(&self) -> bool {
        self.topic.is_removed()
    }

    /// Ends it: the sender keeps nothing for it any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.token.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.state().lines.clear();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// A start of the sender has come: asks for what may be missing.
    pub fn sender_came(self: &Arc<Receiver>, epoch: u64) {
        let mut state = self.state();
        state.epochs.insert(epoch);
        let sessions: Vec<u32> = state.lines.keys().copied().collect();
        for session in sessions {
            self.go_on(&mut state, session);
        }
        drop(state);
        self.ask_after(Duration::ZERO);
    }

    /// A start of the sender has gone: it died, or cannot be reached.
    pub fn sender_went(&self, epoch: u64) {
        let mut state = self.state();
        state.epochs.remove(&epoch);
        if !state.epochs.is_empty() {
            return;
        }
        state.is_current = false;
        let mut gone = Vec::new();
        for (&session, line) in &mut state.lines {
            line.has_token = false;
            if let Some(stand_in) = line.stand_in.take() {
                gone.push((session, stand_in));
            }
        }
        drop(state);
        let told = &self.common.told;
        told.tell(
            &Event::of("unreachable", &self.name).from(self.origin).messages(gone.len() as u64),
        );
        for (_, stand_in) in gone {
            stand_in.disown();
        }
    }

    /// A publisher elsewhere is there, whose first message has the number `from`.
    pub fn publisher_came(self: &Arc<Receiver>, session: u32, from: u64) {
        let mut state = self.state();
        let is_new = state.is_current;
        let Some(line) = self.line(&mut state, session) else { return };
        line.has_token = true;
        self.stand_in(session, line);
        if is_new && line.stream.next().is_none() {
            line.stream.none_before(from);
        }
        let is_known = line.stream.next().is_some();
        self.go_on(&mut state, session);
        drop(state);
        if is_known {
            self.acknowledge_after(GATHERED);
        } else {
            self.ask_after(Duration::ZERO);
        }
    }

    /// Its token is gone: how it ended is said by a message, or by the sender when asked.
    pub fn publisher_went(self: &Arc<Receiver>, session: u32) {
        let mut state = self.state();
        let Some(line) = state.lines.get_mut(&session) else { return };
        line.has_token = false;
        let is_known = line.stream.until().is_some();
        drop(state);
        if !is_known {
            self.ask_after(PATIENCE);
        }
    }

    /// A publisher elsewhere has ended.
    pub fn ended(self: &Arc<Receiver>, session: u32, until: u64, ending: Ending) {
        let mut state = self.state();
        let Some(line) = self.line(&mut state, session) else { return };
        line.stream.end(until, ending);
        self.go_on(&mut state, session);
        self.ask_if_behind(&state, session);
    }

    /// How far the sender's sessions are.
    pub fn sender_is_at(self: &Arc<Receiver>, numbers: &[(u32, u64)]) {
        let mut state = self.state();
        let mut lacks = false;
        for &(session, number) in numbers {
            let is_done = state.done.iter().any(|(done, next)| *done == session && *next >= number);
            if !is_done {
                let next = self.line(&mut state, session).and_then(|line| line.stream.next());
                lacks |= next.is_none_or(|next| next < number);
            }
        }
        drop(state);
        if lacks {
            self.ask_after(Duration::ZERO);
        }
        // The last acknowledgement may be lost.
        self.acknowledge_after(Duration::ZERO);
    }

    /// Returns the line of a session, which is made if need be: from the journal, if a predecessor knew
    /// it. `None`: there is no room for it.
    fn line<'s>(&self, state: &'s mut State, session: u32) -> Option<&'s mut Line> {
        if !state.lines.contains_key(&session) {
            if self.is_closed() || state.done.iter().any(|(done, _)| *done == session) {
                return None;
            }
            let stream = StreamId { origin: self.origin, instance: self.instance, session };
            let entry = if state.lines.len() < MOST_LINES {
                self.common.journal.entry(stream)
            } else {
                None
            };
            let Some(entry) = entry else {
                // No publisher waits for a receiver that refuses.
                state.done.push_back((session, u64::MAX));
                if state.done.len() > MOST_DONE {
                    state.done.pop_front();
                }
                if !std::mem::replace(&mut state.is_refusing, true) {
                    let event = Event::of("refused", &self.name).from(self.origin).session(session);
                    self.common
                        .told
                        .tell(&event.because("there are more streams than a gateway has"));
                }
                return None;
            };
            if entry.is_over() {
                // A repeat.
                state.done.extend(entry.next().map(|next| (session, next)));
                if state.done.len() > MOST_DONE {
                    state.done.pop_front();
                }
                return None;
            }
            let settled = entry.settle(self.local, |ring, session, number| {
                self.topic.has_published(ring, session, number)
            });
            if settled == Settled::Uncertain {
                self.common
                    .told
                    .tell(&Event::of("uncertain", &self.name).session(session).messages(1));
            }
            let stream = Stream::new(entry.next());
            state.lines.insert(
                session,
                Line {
                    stream,
                    entry,
                    stand_in: None,
                    is_blocked: false,
                    waits_for_ring: false,
                    has_token: false,
                    had_no_room: false,
                    told_lost: 0,
                    refused: 0,
                },
            );
        }
        state.lines.get_mut(&session)
    }

    /// Opens the stand-in, unless it is there. False: all rings are in use, or why was told.
    fn stand_in(&self, session: u32, line: &mut Line) -> bool {
        if line.stand_in.is_some() || line.is_blocked {
            return true;
        }
        match self.topic.publisher_with(Publisher::options().foreign(true)) {
            Ok(publisher) => {
                line.stand_in = Some(publisher);
                let event = Event::of("came", &self.name).from(self.origin).session(session);
                self.common.told.tell(&event);
                true
            }
            // Those of streams that end are given up.
            Err(outlive::Error::TooMany { .. }) => false,
            Err(error) => {
                self.refuse(session, line, &error.to_string());
                false
            }
        }
    }

    /// Counts what cannot be published, and tells the first.
    fn refuse(&self, session: u32, line: &mut Line, why: &str) {
        line.refused += 1;
        if line.refused.is_power_of_two() {
            let event = Event::of("refused", &self.name).from(self.origin).session(session);
            self.common.told.tell(&event.messages(line.refused).because(why));
        }
    }

    /// A message has come.
    pub fn take(self: &Arc<Receiver>, attachment: Attachment, payload: ZBytes) {
        let session = attachment.stream.session;
        let mut state = self.state();
        let is_reachable = !state.epochs.is_empty();
        let Some(line) = self.line(&mut state, session) else { return };
        if attachment.fingerprint != self.meta.fingerprint {
            self.refuse(session, line, "its type is not that of the topic");
            return;
        }
        if attachment.is_thinned {
            line.stream.skip_to(attachment.number);
            self.tell_lost(session, line);
        }
        let (number, len) = (attachment.number, payload.len());
        let message = Message { payload, attachment };
        match line.stream.take(number, len, message, attachment.is_oldest) {
            // Its sender's tokens have gone: a stand-in would stay for good. It waits for them.
            Verdict::Publish(message) if !is_reachable => line.stream.put_back(len, message),
            Verdict::Publish(message) => {
                self.try_publish(session, line, message);
                self.go_on(&mut state, session);
            }
            Verdict::Ahead => {
                self.go_on(&mut state, session);
                self.ask_if_behind(&state, session);
            }
            Verdict::NoRoom => {
                line.had_no_room = true;
                self.ask_if_behind(&state, session);
            }
            Verdict::Repeated => {}
        }
        state.unacknowledged += 1;
        let is_much = state.unacknowledged * 4 >= u64::from(self.meta.depth);
        let is_due = state.is_ack_due;
        drop(state);
        if !is_due || is_much {
            self.acknowledge_after(if is_much { Duration::ZERO } else { GATHERED });
        }
    }

    /// Publishes all that can be, and ends the stream if it is over.
    fn go_on(self: &Arc<Receiver>, state: &mut State, session: u32) {
        let is_reachable = !state.epochs.is_empty();
        let Some(line) = state.lines.get_mut(&session) else { return };
        while !line.is_blocked
            && is_reachable
            && let Some(message) = line.stream.next_ahead(length)
        {
            self.tell_lost(session, line);
            self.try_publish(session, line, message);
        }
        self.tell_lost(session, line);
        if line.is_blocked {
            return;
        }
        let Some(ending) = line.stream.ended() else { return };
        if let Some(line) = state.lines.remove(&session) {
            let event = Event::of(word(ending), &self.name).from(self.origin).session(session);
            self.common.told.tell(&event);
            state.done.extend(line.stream.next().map(|next| (session, next)));
            if state.done.len() > MOST_DONE {
                state.done.pop_front();
            }
            line.entry.end();
            match (line.stand_in, ending) {
                (Some(stand_in), Ending::Died) => stand_in.disown(),
                (stand_in, _) => drop(stand_in),
            }
            // Its ring is free.
            let waiting = state.lines.iter().find(|(_, line)| line.waits_for_ring);
            if let Some((&session, _)) = waiting {
                let theirs = Arc::clone(self);
                self.common.later.after(Duration::ZERO, move || theirs.unblock(session));
            }
        }
    }

    /// What was passed over is told before it is counted: a successor tells it again rather than not at
    /// all.
    fn tell_lost(&self, session: u32, line: &mut Line) {
        let lost = line.stream.counts().lost;
        if lost > line.told_lost {
            let event = Event::of("lost", &self.name).from(self.origin).session(session);
            let event = event.messages(lost - line.told_lost);
            self.common.told.tell(&event.because("the sender's ring had them no more"));
            line.told_lost = lost;
        }
        if let Some(next) = line.stream.next()
            && line.entry.next() != Some(next)
        {
            line.entry.set_next(next);
        }
    }

    /// Publishes the next message, or has a thread wait for room.
    fn try_publish(self: &Arc<Receiver>, session: u32, line: &mut Line, message: Message) {
        if !self.stand_in(session, line) {
            line.stream.put_back(message.payload.len(), message);
            (line.is_blocked, line.waits_for_ring) = (true, true);
            let theirs = Arc::clone(self);
            self.common.later.after(SLICE, move || theirs.unblock(session));
            return;
        }
        let Some(stand_in) = &line.stand_in else { return };
        if stand_in.try_wait_writable().is_err() {
            self.wait_for_room(session, line, message);
            return;
        }
        let next = line.stream.next().unwrap_or(0);
        match publish(
            stand_in,
            (&line.entry, self.local),
            next,
            &message,
            self.description.as_ref(),
        ) {
            Ok(()) => self.is_published(line),
            Err(SendError::NoSpace { .. } | SendError::Full { .. }) => {
                self.wait_for_room(session, line, message);
            }
            Err(error) => {
                self.refuse(session, line, &error.to_string());
                self.is_published(line);
            }
        }
    }

    /// There was no ring for a stand-in: tries again.
    fn unblock(self: &Arc<Receiver>, session: u32) {
        let mut state = self.state();
        let line = state.lines.get_mut(&session).filter(|line| line.waits_for_ring);
        let Some(line) = line else { return };
        (line.is_blocked, line.waits_for_ring) = (false, false);
        self.go_on(&mut state, session);
        drop(state);
        self.acknowledge_after(GATHERED);
    }

    fn is_published(&self, line: &mut Line) {
        line.stream.published();
        if let Some(next) = line.stream.next() {
            line.entry.set_next(next);
        }
    }

    /// A thread of its own publishes it when there is room: what comes meanwhile waits ahead, and the network
    /// goes on.
    fn wait_for_room(self: &Arc<Receiver>, session: u32, line: &mut Line, message: Message) {
        let Some(stand_in) = line.stand_in.take() else {
            line.stream.put_back(message.payload.len(), message);
            return;
        };
        line.is_blocked = true;
        let theirs = Arc::clone(self);
        let wait = move || theirs.publish_slowly(session, stand_in, message);
        if let Err(error) = std::thread::Builder::new().name("gateway-room".into()).spawn(wait) {
            // The stand-in and the message went with the closure. The message was in the stream's hands, and
            // so is passed over.
            line.is_blocked = false;
            self.refuse(session, line, &error.to_string());
            self.is_published(line);
        }
    }

    fn publish_slowly(self: &Arc<Receiver>, session: u32, stand_in: Publisher, message: Message) {
        while !self.is_closed() {
            if stand_in.wait_writable_timeout(SLICE).is_err() {
                continue;
            }
            let mut state = self.state();
            let Some(line) = state.lines.get_mut(&session) else { return };
            let next = line.stream.next().unwrap_or(0);
            match publish(
                &stand_in,
                (&line.entry, self.local),
                next,
                &message,
                self.description.as_ref(),
            ) {
                Err(SendError::NoSpace { .. } | SendError::Full { .. }) => {
                    drop(state);
                    // Memory comes back when a subscriber lets go of a sample, which wakes no publisher.
                    std::thread::sleep(SLICE / 10);
                    continue;
                }
                Err(error) => self.refuse(session, line, &error.to_string()),
                Ok(()) => {}
            }
            line.is_blocked = false;
            self.is_published(line);
            let is_reachable = !state.epochs.is_empty();
            if is_reachable && let Some(line) = state.lines.get_mut(&session) {
                line.stand_in = Some(stand_in);
            } else {
                stand_in.disown();
            }
            self.go_on(&mut state, session);
            self.ask_if_behind(&state, session);
            drop(state);
            self.acknowledge_after(GATHERED);
            return;
        }
    }

    fn ask_if_behind(self: &Arc<Receiver>, state: &State, session: u32) {
        let is_behind = |line: &Line| {
            !line.is_blocked && (line.stream.is_behind() || line.stream.next().is_none())
        };
        if state.lines.get(&session).is_some_and(is_behind) && !state.is_due {
            let theirs = Arc::clone(self);
            // Not here: the state is locked.
            self.common.later.after(PATIENCE, move || theirs.ask_if_still_behind());
        }
    }

    fn ask_if_still_behind(self: &Arc<Receiver>) {
        let state = self.state();
        let is_behind = |line: &Line| {
            !line.is_blocked && (line.stream.is_behind() || line.stream.next().is_none())
        };
        let is_behind = state.lines.values().any(is_behind);
        drop(state);
        if is_behind {
            self.ask_after(Duration::ZERO);
        }
    }

    /// Asks the sender, after a while, for all that is missing.
    fn ask_after(self: &Arc<Receiver>, span: Duration) {
        let mut state = self.state();
        if state.is_asking {
            state.asks_again = true;
        } else if !state.is_due {
            state.is_due = true;
            let theirs = Arc::clone(self);
            self.common.later.after(span, move || theirs.ask());
        }
    }

    fn ask(self: &Arc<Receiver>) {
        let mut state = self.state();
        state.is_due = false;
        // One that cannot be reached is asked when it comes back.
        if state.is_asking || state.epochs.is_empty() || self.is_closed() {
            return;
        }
        (state.is_asking, state.asks_again) = (true, false);
        let State { lines, done, highest, .. } = &mut *state;
        let known = lines.iter().filter(|(_, line)| line.stream.next().is_some());
        let known = known.map(|(session, _)| *session).chain(done.iter().map(|(done, _)| *done));
        *highest = known.max().max(*highest);
        // A receiver that has been here before wants all of the publishers that have come since.
        let unknown = highest.map(|_| 0);
        let mut asked = HashMap::new();
        let mut known = HashSet::new();
        for (&session, line) in lines {
            known.insert(session);
            line.had_no_room = false;
            asked.extend(line.stream.next().or(unknown).map(|next| (session, next)));
        }
        let highest = highest.map(|highest| (HIGHEST, u64::from(highest)));
        drop(state);
        let key = keys::message("resume", self.origin, self.instance);
        let question = wire::numbers_to_bytes(
            self.common.origin(),
            asked.iter().map(|(session, next)| (*session, *next)).chain(highest),
        );
        let mut answer = Answer {
            receiver: Arc::clone(self),
            asked,
            known,
            came: HashMap::new(),
            is_whole: false,
        };
        let get = self
            .common
            .session
            .get(key)
            .payload(question)
            .consolidation(ConsolidationMode::None)
            .congestion_control(CongestionControl::Block)
            // Large messages on slow links take their time; a sender that has gone ends it at once.
            .timeout(Duration::from_secs(3600))
            .callback_mut(move |reply| answer.take(&reply))
            .wait();
        if let Err(error) = get {
            self.common.told.tell(&Event::of("refused", &self.name).because(&error.to_string()));
        }
    }

    /// The answer is over, whole or not.
    fn answered(self: &Arc<Receiver>, is_whole: bool) {
        let mut state = self.state();
        state.is_asking = false;
        state.is_current = is_whole && !state.epochs.is_empty();
        let again = std::mem::take(&mut state.asks_again);
        drop(state);
        if !is_whole {
            self.ask_after(PATIENCE * 5);
        } else if again {
            self.ask_after(PATIENCE);
        } else {
            let theirs = Arc::clone(self);
            self.common.later.after(PATIENCE * 5, move || theirs.ask_if_still_behind());
        }
    }

    /// Applies the end of an answer.
    fn summarized(
        self: &Arc<Receiver>,
        asked: &HashMap<u32, u64>,
        known: &HashSet<u32>,
        summary: &Summary,
    ) {
        let mut state = self.state();
        let mut ended: HashMap<u32, (u64, Ending)> = HashMap::new();
        for &(session, until, left) in &summary.ended {
            ended.insert(session, (until, if left { Ending::Left } else { Ending::Died }));
        }
        for &(session, at) in &summary.at {
            let Some(line) = self.line(&mut state, session) else { continue };
            if line.stream.next().is_none() {
                line.stream.begin(at);
            } else if summary.is_thinned {
                line.stream.skip_to(at);
            } else if asked.contains_key(&session) && !line.had_no_room {
                line.stream.none_before(at);
            }
        }
        let sessions: Vec<u32> = state.lines.keys().copied().collect();
        for session in sessions {
            let Some(line) = state.lines.get_mut(&session) else { continue };
            if let Some(&(until, ending)) = ended.get(&session) {
                line.stream.end(until, ending);
                if line.stream.next().is_none() {
                    line.stream.begin(until);
                } else if summary.is_thinned {
                    line.stream.skip_to(until);
                } else if asked.contains_key(&session) && !line.had_no_room {
                    line.stream.none_before(until);
                }
            } else if !line.had_no_room
                && known.contains(&session)
                && (asked.contains_key(&session) || !line.has_token)
                && !summary.at.iter().any(|(living, _)| *living == session)
            {
                // It was known before the list was made, and no sender knows it: it ended where none saw
                // it, and what there was of it is in the answer.
                line.stream.begin(0);
                line.stream.end(0, Ending::Died);
            }
            self.go_on(&mut state, session);
        }
        drop(state);
        self.acknowledge_after(Duration::ZERO);
    }

    /// Tells the sender what has been published here, after a while.
    fn acknowledge_after(self: &Arc<Receiver>, span: Duration) {
        let mut state = self.state();
        if state.is_ack_due && !span.is_zero() {
            return;
        }
        state.is_ack_due = true;
        state.unacknowledged = 0;
        drop(state);
        let theirs = Arc::clone(self);
        self.common.later.after(span, move || theirs.acknowledge());
    }

    fn acknowledge(&self) {
        let mut state = self.state();
        if !std::mem::take(&mut state.is_ack_due) || self.is_closed() {
            return;
        }
        let next = |(&session, line): (&u32, &Line)| Some((session, line.stream.next()?));
        let living = state.lines.iter().filter_map(next);
        let numbers: Vec<(u32, u64)> = living.chain(state.done.iter().copied()).collect();
        drop(state);
        let key = keys::message("ack", self.origin, self.instance);
        let bytes = wire::numbers_to_bytes(self.common.origin(), numbers);
        // Dropped where the network is busy: the sender's next word about how far it is brings another.
        let put = self.common.session.put(key, bytes).congestion_control(CongestionControl::Drop);
        if let Err(error) = put.wait() {
            self.common.told.tell(&Event::of("refused", &self.name).because(&error.to_string()));
        }
    }
}

/// An answer that is coming.
struct Answer {
    receiver: Arc<Receiver>,
    asked: HashMap<u32, u64>,
    /// All sessions that were known as it was asked.
    known: HashSet<u32>,
    /// How many messages have come, by session.
    came: HashMap<u32, u64>,
    is_whole: bool,
}

impl Answer {
    fn take(&mut self, reply: &Reply) {
        let Ok(sample) = reply.result() else { return };
        match sample.attachment() {
            Some(attachment) => {
                let Some(attachment) = Attachment::from_bytes(&attachment.to_bytes()) else {
                    return;
                };
                let stream = attachment.stream;
                if (stream.origin, stream.instance)
                    == (self.receiver.origin, self.receiver.instance)
                {
                    *self.came.entry(stream.session).or_default() += 1;
                    self.receiver.take(attachment, sample.payload().clone());
                }
            }
            None => {
                let Some(summary) = Summary::from_bytes(&sample.payload().to_bytes()) else {
                    return;
                };
                let is_short = |(session, messages): &(u32, u64)| {
                    self.came.get(session).copied().unwrap_or(0) < *messages
                };
                // One was lost on the way: what the list says of numbers does not hold.
                if !summary.messages.iter().any(is_short) {
                    self.is_whole = true;
                    self.receiver.summarized(&self.asked, &self.known, &summary);
                }
            }
        }
    }
}

impl Drop for Answer {
    /// zenoh says so: there is no more to come.
    fn drop(&mut self) {
        self.receiver.answered(self.is_whole);
    }
}

/// Publishes message `next` of a stream: the slices that came are gathered once, into the loan.
fn publish(
    stand_in: &Publisher,
    (entry, local): (&Entry, u64),
    next: u64,
    message: &Message,
    description: Option<&Description>,
) -> Result<(), SendError> {
    let len = message.payload.len();
    if let Some(description) = description
        && !description.fits(len)
    {
        return Err(SendError::OtherLength { len: len as u64, wanted: description.size() });
    }
    let header = message.attachment.header;
    let intend = || {
        entry.intend(
            next,
            local,
            stand_in.ring_index(),
            stand_in.session(),
            stand_in.next_sequence(),
        )
    };
    if len <= SHORT {
        let bytes = message.payload.to_bytes();
        intend();
        return stand_in.try_publish(Outgoing::new(&*bytes).header(header)).map(drop);
    }
    let mut loan = stand_in.loan(len)?;
    let mut rest = &mut loan[..];
    for slice in message.payload.slices() {
        let (these, others) = rest.split_at_mut(slice.len().min(rest.len()));
        these.copy_from_slice(&slice[..these.len()]);
        rest = others;
    }
    loan.set_header(header);
    intend();
    stand_in.try_publish(loan).map(drop)
}
