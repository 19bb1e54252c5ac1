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
//!
//! `local_topic.rs`: the topic here. `publishing.rs`: the stand-ins. `questions.rs`: what the sender is
//! asked and told.

mod local_topic;
mod publishing;
mod questions;

pub use local_topic::Unfit;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive::describe::Description;
use outlive::topic::{Publisher, Topic};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::liveliness::LivelinessToken;

use crate::context::Shared;
use crate::journal::{Entry, Settled};
use crate::keys;
use crate::rules::Rule;
use crate::told::Event;
use crate::topics::sender::word;
use crate::topics::stream::{Ending, Stream, Verdict};
use crate::wire::{Attachment, Meta, Origin, StreamId};

/// How long acknowledgements wait for others. What has come by then is less than a quarter of what the
/// sender's ring and memory hold, so no publisher waits for this.
const GATHERED: Duration = Duration::from_millis(10);
/// As many sessions are known of a topic.
const MOST_LINES: usize = 4096;
/// Of so many streams that are over the numbers are acknowledged still.
const MOST_DONE: usize = 256;

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

impl Line {
    /// Whether messages are missing, or it is not known where they begin; one that is blocked has to
    /// publish first.
    fn lacks(&self) -> bool {
        !self.is_blocked && (self.stream.is_behind() || self.stream.next().is_none())
    }
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
    /// It is about to be seen whether one is needed.
    looks_soon: bool,
    /// An acknowledgement is due.
    is_ack_due: bool,
    /// Messages since the last one, and their bytes.
    unacknowledged: u64,
    unacknowledged_bytes: u64,
    is_refusing: bool,
    /// The next numbers of streams that are over: the last acknowledgement may have been lost.
    done: VecDeque<(u32, u64)>,
}

/// See the head of this file.
pub struct Receiver {
    context: Shared,
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

impl Receiver {
    /// Opens the local topic of that name for what a sender's topic brings.
    ///
    /// # Errors
    /// Why it cannot come in.
    pub fn open(
        context: &Shared,
        (origin, instance): (Origin, u64),
        name: &str,
        meta: Meta,
        rule: &Rule,
    ) -> Result<Arc<Receiver>, Unfit> {
        let (topic, description) = local_topic::open(&context.domain, name, &meta, rule)?;
        let local = topic.instance().map_err(|error| error.to_string())?;
        let highest = context.journal.highest(origin, instance);
        let key = keys::receiver(origin, instance, context.origin());
        let token = context.session.liveliness().declare_token(key).wait();
        let token = token.map_err(|error| error.to_string())?;
        context.told.tell(&Event::of("receives", name).from(origin));
        let receiver = Arc::new(Receiver {
            context: Arc::clone(context),
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
        });
        // A publisher may have died while the gateway was dead here: no token tells of it any more, and
        // its ring still has what the predecessor lacked. So the first question asks for it.
        let mut state = receiver.state();
        for session in context.journal.unfinished(origin, instance) {
            receiver.line(&mut state, session);
        }
        drop(state);
        Ok(receiver)
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
        let told = &self.context.told;
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
            self.ask_after(questions::PATIENCE);
        }
    }

    /// A publisher elsewhere has ended.
    pub fn ended(self: &Arc<Receiver>, session: u32, until: u64, ending: Ending) {
        let mut state = self.state();
        let Some(line) = self.line(&mut state, session) else { return };
        line.stream.end(until, ending);
        self.go_on(&mut state, session);
        self.ask_if_behind(&mut state, session);
    }

    /// How far the sender's sessions are.
    pub fn sender_is_at(self: &Arc<Receiver>, numbers: &[(u32, u64)]) {
        let mut state = self.state();
        let mut lacks = false;
        for &(session, number) in numbers {
            let is_done = state.done.iter().any(|(done, next)| *done == session && *next >= number);
            if !is_done {
                let line = self.line(&mut state, session);
                lacks |= line.is_some_and(|line| line.stream.lacks_before(number));
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
                self.context.journal.entry(stream)
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
                    self.context
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
                self.context
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

    /// Counts what cannot be published, and tells the first.
    fn refuse(&self, session: u32, line: &mut Line, why: &str) {
        line.refused += 1;
        if line.refused.is_power_of_two() {
            let event = Event::of("refused", &self.name).from(self.origin).session(session);
            self.context.told.tell(&event.messages(line.refused).because(why));
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
                self.ask_if_behind(&mut state, session);
            }
            Verdict::NoRoom => {
                line.had_no_room = true;
                self.ask_if_behind(&mut state, session);
            }
            Verdict::Repeated => {}
        }
        state.unacknowledged += 1;
        state.unacknowledged_bytes += len as u64;
        let is_much = state.unacknowledged * 4 >= u64::from(self.meta.depth)
            || state.unacknowledged_bytes * 4 >= self.meta.max_bytes;
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
            self.context.told.tell(&event);
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
                self.context.later.after(Duration::ZERO, move || theirs.unblock(session));
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
            self.context.told.tell(&event.because("the sender's ring had them no more"));
            line.told_lost = lost;
        }
        if let Some(next) = line.stream.next()
            && line.entry.next() != Some(next)
        {
            line.entry.set_next(next);
        }
    }
}
