//! A state that leaves: its latest value is put for all, and given to those that ask.
//!
//! | the latest value is | then |
//! | --- | --- |
//! | its own, and it has had a writer or a set | the token is there; each value is put, and each change of the writer told |
//! | a gateway's, or none but the first | no token |
//!
//! What was put last is told again each lease until all receivers have acknowledged it.
//!
//! Killed, or stopped, anywhere: the value and its version are in the state. Nothing in here has to
//! survive.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlive::state::{State, WriterIs as Writer};
use outlive::{Deadline, TokenId};
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Publisher;
use zenoh::qos::CongestionControl;
use zenoh::query::{Query, Queryable};

use crate::context::Shared;
use crate::journal;
use crate::keys;
use crate::leaving::Leaves;
use crate::receivers::Receivers;
use crate::rules::Rule;
use crate::states::wire::{self as state_wire, StateMeta, Turn, Word, WriterIs};
use crate::told::Event;
use crate::wire;

/// How often it is looked whether the state was removed, or does not leave any more.
const LOOK: Duration = Duration::from_secs(1);
/// While a value is held back, the writer is looked at so often.
const SLICE: Duration = Duration::from_millis(100);
/// A value that is none of the n-th leaves when no other has followed it for so long.
const QUIET: Duration = Duration::from_millis(100);
/// As many questions are answered at a time; others get no answer, and are asked again.
const MOST_ANSWERS: usize = 16;

static ANSWERING: AtomicUsize = AtomicUsize::new(0);

/// What others see of it while it is sent.
struct Announced {
    _token: LivelinessToken,
    _value: Queryable<()>,
}

struct Inner {
    announced: Option<Announced>,
    writer: WriterIs,
    turn: Turn,
    /// The version that was put last.
    put: u64,
    reminds: bool,
}

/// See the head of this file.
pub struct StateOut {
    context: Shared,
    name: String,
    key: String,
    state: State,
    /// Which state it is: one that is made anew has another number.
    pub instance: u64,
    rule: Rule,
    meta: StateMeta,
    receivers: Arc<Receivers>,
    inner: Mutex<Inner>,
    closed: AtomicBool,
}

/// Returns what is known of a state in this domain.
pub fn meta_of(context: &Shared, state: &State, name: &str) -> Result<StateMeta, String> {
    let text = |error: outlive::Error| error.to_string();
    let type_name = context.domain.type_name_of(name).map_err(text)?;
    let description = state.description().map_err(text)?.map(|found| found.to_bytes());
    let fingerprint = wire::fingerprint(&type_name, description.as_deref());
    let config = state.config();
    let (capacity, is_fixed) = (config.capacity as u64, config.is_fixed_size);
    Ok(StateMeta { type_name, description, capacity, is_fixed, fingerprint })
}

/// Which value leaves when, where a rule delays some.
struct Held {
    /// The version that is held back, and since when.
    since: Option<(u64, Instant)>,
    /// When one was put last.
    put: Option<Instant>,
}

impl Held {
    /// Returns until when that version is held back; `None`: it leaves now. `behind`: how many
    /// versions it is behind the one that was put last.
    fn until(&mut self, rule: &Rule, version: u64, behind: u64) -> Option<Instant> {
        let now = Instant::now();
        if self.since.is_none_or(|(held, _)| held != version) {
            self.since = Some((version, now));
        }
        let (_, since) = self.since?;
        let every = rule.keep_every.filter(|every| behind < *every);
        let quiet = every.filter(|every| *every > 1).map(|_| since + QUIET);
        let span = rule.span().zip(self.put).map(|(span, put)| put + span);
        quiet.max(span).filter(|until| now < *until)
    }
}

impl Leaves for StateOut {
    /// Ends it: its token goes, its thread ends at its next look.
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.lock().announced = None;
    }

    /// Whether the state's name has been removed.
    fn is_removed(&self) -> bool {
        self.state.is_removed()
    }

    /// Whether it is sent no more.
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl StateOut {
    /// Watches a state, which is sent while it is of this domain.
    ///
    /// # Errors
    /// Why it cannot leave.
    pub fn open(
        context: &Shared,
        name: &str,
        key: String,
        rule: &Rule,
        receivers: &Arc<Receivers>,
    ) -> Result<Arc<StateOut>, String> {
        let text = |error: outlive::Error| error.to_string();
        let state = State::open_as_bytes(&context.domain, name).map_err(text)?;
        let meta = meta_of(context, &state, name)?;
        let fresh = journal::random().map_err(|error| error.to_string())? as u64;
        let inner = Inner {
            announced: None,
            writer: WriterIs::Nobody,
            turn: Turn { start: context.journal.start, changes: 0 },
            put: 0,
            reminds: false,
        };
        let out = Arc::new(StateOut {
            context: Arc::clone(context),
            name: name.to_owned(),
            key,
            instance: state.instance(fresh.max(1)),
            state,
            rule: rule.clone(),
            meta,
            receivers: Arc::clone(receivers),
            inner: Mutex::new(inner),
            closed: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&out);
        let run = move || {
            if let Err(why) = theirs.send_all() {
                theirs.context.told.tell(&Event::of("refused", &theirs.name).because(&why));
            }
            theirs.close();
        };
        let named = std::thread::Builder::new().name("gateway-state".into());
        named.spawn(run).map_err(|error| error.to_string())?;
        Ok(out)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what others have to know to make the state.
    pub fn meta(&self) -> &StateMeta {
        &self.meta
    }

    fn send_all(self: &Arc<StateOut>) -> Result<(), String> {
        let publisher = self.context.publisher(&self.key, &self.rule)?;
        let text = |error: outlive::Error| error.to_string();
        let mut held = Held { since: None, put: None };
        let mut gateways = HashMap::new();
        let (mut seen, mut deadline) = (None, Deadline::after(LOOK));
        loop {
            let now = self.state.other_than(seen, deadline).map_err(text)?;
            if self.is_closed() || self.state.is_removed() {
                return Ok(());
            }
            (seen, deadline) = (Some(now), Deadline::after(LOOK));
            let writer = self.writer(&mut gateways, now.writer);
            // Behind the look at the writer: what it has set is there.
            let (version, is_foreign) = self.state.latest_mark().map_err(text)?;
            let is_written = version > 1 || writer != WriterIs::Nobody;
            if is_foreign || !is_written {
                self.withdraw(writer);
                continue;
            }
            let (has_changed, put) = self.announce(writer)?;
            if version == put {
                if has_changed {
                    self.tell();
                }
                continue;
            }
            match held.until(&self.rule, version, version - put.min(version)) {
                None => {
                    held = Held { since: None, put: Some(Instant::now()) };
                    self.put(&publisher)?;
                }
                Some(until) => {
                    if has_changed {
                        self.tell();
                    }
                    let left = until.saturating_duration_since(Instant::now());
                    if self.rule.rate.is_some() {
                        // Not woken by each value; one look then.
                        std::thread::sleep(left.min(SLICE));
                        seen = None;
                    }
                    deadline = Deadline::after(left.min(LOOK));
                }
            }
        }
    }

    /// Returns what others are told of the writer. A gateway's is none of this domain.
    fn writer(&self, gateways: &mut HashMap<TokenId, bool>, found: Writer) -> WriterIs {
        match found {
            Writer::Nobody => WriterIs::Nobody,
            Writer::Dead => WriterIs::Dead,
            Writer::Living(process) => {
                if gateways.len() > 64 {
                    gateways.clear();
                }
                let is_one =
                    *gateways.entry(process).or_insert_with(|| self.context.is_gateway(process));
                if is_one { WriterIs::Nobody } else { WriterIs::Living }
            }
        }
    }

    /// Notes the writer; returns whether that is another word than before.
    fn note(inner: &mut Inner, writer: WriterIs) -> bool {
        let has_changed = inner.writer != writer;
        inner.writer = writer;
        inner.turn.changes += u64::from(has_changed);
        has_changed
    }

    fn withdraw(&self, writer: WriterIs) {
        let mut inner = self.lock();
        StateOut::note(&mut inner, writer);
        inner.put = 0;
        if inner.announced.take().is_some() {
            drop(inner);
            self.context.told.tell(&Event::of("withdraws", &self.name));
        }
    }

    /// Has others see the state. Returns whether its writer has changed, and which version was put last.
    fn announce(self: &Arc<StateOut>, writer: WriterIs) -> Result<(bool, u64), String> {
        let mut inner = self.lock();
        let has_changed = StateOut::note(&mut inner, writer);
        if inner.announced.is_some() || self.is_closed() {
            return Ok((has_changed, inner.put));
        }
        let text = |error: zenoh::Error| error.to_string();
        let session = &self.context.session;
        let theirs = Arc::clone(self);
        let value = session.declare_queryable(self.key.clone());
        let value = value.callback(move |query| theirs.answer(query, 0)).wait().map_err(text)?;
        let (origin, start) = (self.context.origin(), self.context.journal.start);
        let key = keys::state(origin, self.instance, start, &self.key);
        let token = session.liveliness().declare_token(key).wait().map_err(text)?;
        inner.announced = Some(Announced { _token: token, _value: value });
        drop(inner);
        self.context.told.tell(&Event::of("sends", &self.name));
        Ok((has_changed, 0))
    }

    fn word(&self, inner: &Inner, version: u64, is_bare: bool) -> Word {
        Word {
            origin: self.context.origin(),
            instance: self.instance,
            version,
            writer: inner.writer,
            turn: inner.turn,
            fingerprint: self.meta.fingerprint,
            is_bare,
        }
    }

    /// Puts the latest value.
    fn put(self: &Arc<StateOut>, publisher: &Publisher<'_>) -> Result<(), String> {
        let marked = self.state.get_marked().map_err(|error| error.to_string())?;
        let (value, version, is_foreign) = marked;
        if is_foreign {
            // Seen at the next look.
            return Ok(());
        }
        let mut inner = self.lock();
        inner.put = version;
        let word = self.word(&inner, version, false);
        drop(inner);
        let put = publisher.put(value).attachment(word.to_bytes()).wait();
        if let Err(error) = put {
            // The next word about it brings questions.
            let event = Event::of("refused", &self.name);
            self.context.told.tell(&event.because(&error.to_string()));
        }
        self.remind();
        Ok(())
    }

    /// Tells the version that was put last, and the writer.
    fn tell(self: &Arc<StateOut>) {
        let inner = self.lock();
        let bytes = self.word(&inner, inner.put, true).to_bytes();
        drop(inner);
        let key = keys::message("state-at", self.context.origin(), self.instance);
        // Dropped where the network is busy: it comes again.
        let put = self.context.session.put(key, bytes).congestion_control(CongestionControl::Drop);
        if let Err(error) = put.wait() {
            let event = Event::of("refused", &self.name);
            self.context.told.tell(&event.because(&error.to_string()));
        }
        self.remind();
    }

    fn remind(self: &Arc<StateOut>) {
        if !std::mem::replace(&mut self.lock().reminds, true) {
            let theirs = Arc::clone(self);
            self.context.later.after(self.context.lease, move || theirs.tell_if_lacking());
        }
    }

    fn tell_if_lacking(self: &Arc<StateOut>) {
        let mut inner = self.lock();
        inner.reminds = false;
        let (is_sent, put, turn) = (inner.announced.is_some(), inner.put, inner.turn);
        drop(inner);
        if is_sent && self.receivers.lack(self.instance, put, turn) {
            self.tell();
        }
    }

    /// Answers a question for the value, unless the asker has that version; on a thread of its own.
    pub fn answer(self: &Arc<StateOut>, query: Query, version: u64) {
        if ANSWERING.fetch_add(1, Ordering::Relaxed) >= MOST_ANSWERS {
            ANSWERING.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let theirs = Arc::clone(self);
        let answer = move || {
            theirs.reply(&query, version);
            ANSWERING.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("gateway-value".into()).spawn(answer).is_err() {
            ANSWERING.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn reply(&self, query: &Query, known: u64) {
        let Ok((value, version, is_foreign)) = self.state.get_marked() else { return };
        let inner = self.lock();
        if is_foreign || inner.announced.is_none() {
            return;
        }
        let is_bare = version == known;
        let word = self.word(&inner, version, is_bare);
        drop(inner);
        let value = if is_bare { Vec::new() } else { value };
        // A question of a program may be for a pattern.
        let key = match keys::parse("state-get", query.key_expr().as_str()) {
            Some(_) => query.key_expr().as_str(),
            None => &self.key,
        };
        // A failure: the other has gone, and asks again if it comes back.
        let _ = query.reply(key, value).attachment(word.to_bytes()).wait();
    }
}

/// Answers a gateway's question.
pub fn answer(out: &Arc<StateOut>, query: Query) {
    let asked = query.payload().map(|payload| payload.to_bytes());
    match asked.and_then(|bytes| state_wire::asked_from_bytes(&bytes)) {
        Some(version) => out.answer(query, version),
        None => {
            let event = Event::of("refused", query.key_expr().as_str());
            out.context.told.tell(&event.because("not a question that this version knows"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Direction;

    #[test]
    fn a_value_is_held_back_and_the_last_one_leaves() {
        let mut rule = Rule::allowing("a", Direction::Both);
        let mut held = Held { since: None, put: None };
        assert_eq!(held.until(&rule, 2, 1), None);
        rule.rate = Some(1000.0);
        held.put = Some(Instant::now());
        assert!(held.until(&rule, 3, 1).is_some());
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(held.until(&rule, 3, 1), None);
        (rule.rate, rule.keep_every) = (None, Some(3));
        assert_eq!(held.until(&rule, 5, 3), None);
        let until = held.until(&rule, 4, 2).expect("held");
        assert_eq!(held.until(&rule, 4, 2), Some(until));
        std::thread::sleep(QUIET);
        assert_eq!(held.until(&rule, 4, 2), None);
        // Another one begins anew.
        assert!(held.until(&rule, 5, 2).is_some());
    }
}
