//! A state that comes in: a copy here that follows the one elsewhere, and its writer's stand-in.
//!
//! | version of a value that comes | then |
//! | --- | --- |
//! | ≥ next | next = version + 1, then set it |
//! | < next | dropped; but the last one is set again where the copy is not as this gateway has left it |
//!
//! | killed, or stopped | readers of the copy | the successor |
//! | --- | --- | --- |
//! | anywhere | are told that its writer died, if it had one. Stopped: nothing new | asks for the value, which is set if it is no older than next |
//! | between next and set | the same | accepts that version, and none before it |

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlive::describe::Description;
use outlive::state::{State, Writer, WriterIs as Found};
use outlive::{Deadline, SendError};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::liveliness::LivelinessToken;
use zenoh::qos::CongestionControl;
use zenoh::query::Reply;

use crate::context::Shared;
use crate::journal::Entry;
use crate::keys;
use crate::rules::Rule;
use crate::states::outgoing::meta_of;
use crate::states::wire::{self as state_wire, Has, StateMeta, Turn, Word, WriterIs};
use crate::told::Event;
use crate::wire::{self, Origin, StreamId};

/// The most bytes of a value of a state that is made here.
const MOST_BYTES: u64 = 128 << 20;
/// In the journal, where a topic's streams have their sessions.
const SESSION: u32 = u32::MAX;
/// Another question is asked although one has no answer yet.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer may take.
const LONGEST: Duration = Duration::from_secs(600);

/// A state elsewhere: its home, and which one it is there.
pub type Elsewhere = (Origin, u64);

struct Inner {
    entry: Entry,
    /// One more than the last version that it has begun to set.
    next: u64,
    /// The version here of the value that this gateway has set last.
    set: Option<u64>,
    stand_in: Option<Writer>,
    writer: WriterIs,
    turn: Turn,
    /// The sender's starts whose tokens are there.
    starts: HashSet<u64>,
    /// The question under way, and since when.
    asking: Option<(u64, Instant)>,
    questions: u64,
    asks_again: bool,
    /// Others are to know that it follows.
    token: Option<LivelinessToken>,
    /// What was told last.
    refused: String,
    is_closed: bool,
}

/// See the head of this file.
pub struct Copy {
    context: Shared,
    name: String,
    /// What it follows.
    pub at: Elsewhere,
    state: State,
    fingerprint: u64,
    inner: Mutex<Inner>,
}

/// Why a value was not set.
struct Unset {
    why: String,
    /// It never will be.
    is_for_good: bool,
}

/// Makes the state as it is elsewhere.
fn make(context: &Shared, name: &str, meta: &StateMeta, rule: &Rule) -> Result<State, String> {
    let most = rule.max_bytes.unwrap_or(MOST_BYTES).min(MOST_BYTES);
    if meta.capacity > most {
        return Err(format!("its values have up to {} bytes: here {most} at most", meta.capacity));
    }
    let capacity = usize::try_from(meta.capacity).map_err(|error| error.to_string())?;
    let sized = |name: &str| format!("[u8; {}]", meta.capacity) == name;
    let options = State::<[u8]>::options();
    let options = match &meta.description {
        Some(bytes) => {
            let description = Description::from_bytes(bytes);
            let description = description.ok_or("the type's description is damaged")?;
            let is_fixed = description.is_fixed();
            let options = options.description(description);
            if is_fixed { options } else { options.capacity(capacity) }
        }
        None if meta.is_fixed && sized(&meta.type_name) => options.fixed_size(capacity),
        None if !meta.is_fixed && meta.type_name.is_empty() => options.capacity(capacity),
        None => {
            return Err(format!(
                "its type '{}' has no description, by which it could be made here: make the state first",
                meta.type_name
            ));
        }
    };
    options.open_or_create(&context.domain, name).map_err(|error| error.to_string())
}

impl Copy {
    /// Opens the state here, or makes it.
    ///
    /// # Errors
    /// Why it cannot come in.
    pub fn open(
        context: &Shared,
        at: Elsewhere,
        name: &str,
        meta: &StateMeta,
        rule: &Rule,
    ) -> Result<Arc<Copy>, String> {
        let state = match State::open_as_bytes(&context.domain, name) {
            Err(outlive::Error::NotFound { .. }) if rule.create => make(context, name, meta, rule)?,
            other => other.map_err(|error| error.to_string())?,
        };
        let own = meta_of(context, &state, name)?;
        if own.fingerprint != meta.fingerprint {
            let bytes = meta.description.as_deref();
            let there = bytes.and_then(Description::from_bytes);
            let here = state.description().map_err(|error| error.to_string())?;
            let field = here.zip(there).and_then(|(here, there)| here.difference(&there));
            let (here, there) = field.unwrap_or((own.type_name, meta.type_name.clone()));
            return Err(format!("another type: here {here}, there {there}"));
        }
        let (origin, instance) = at;
        let stream = StreamId { origin, instance, session: SESSION };
        let entry = context.journal.entry(stream).ok_or("as many come in as a gateway has")?;
        let inner = Inner {
            next: entry.next().unwrap_or(0),
            entry,
            set: None,
            stand_in: None,
            writer: WriterIs::Nobody,
            turn: Turn::default(),
            starts: HashSet::new(),
            asking: None,
            questions: 0,
            asks_again: false,
            token: None,
            refused: String::new(),
            is_closed: false,
        };
        context.told.tell(&Event::of("receives", name).from(origin));
        Ok(Arc::new(Copy {
            context: Arc::clone(context),
            name: name.to_owned(),
            at,
            state,
            fingerprint: meta.fingerprint,
            inner: Mutex::new(inner),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the state's name has been removed here.
    pub fn is_removed(&self) -> bool {
        self.state.is_removed()
    }

    /// Whether its sender's token is there.
    pub fn is_reachable(&self) -> bool {
        !self.lock().starts.is_empty()
    }

    fn tell(&self, event: &'static str, why: &str) {
        self.context.told.tell(&Event::of(event, &self.name).from(self.at.0).because(why));
    }

    /// What comes cannot be set: it is told once, and the sender waits for no acknowledgement.
    fn refuse(&self, inner: &mut Inner, why: &str) {
        inner.token = None;
        if inner.refused != why {
            why.clone_into(&mut inner.refused);
            self.tell("refused", why);
        }
    }

    /// A start of its sender is there.
    pub fn sender_came(self: &Arc<Copy>, start: u64) {
        let mut inner = self.lock();
        inner.starts.insert(start);
        self.follow(&mut inner);
        drop(inner);
        self.ask();
    }

    /// A start of its sender has gone.
    pub fn sender_went(&self, start: u64) {
        let mut inner = self.lock();
        if !inner.starts.remove(&start) || !inner.starts.is_empty() {
            return;
        }
        inner.token = None;
        if let Some(stand_in) = inner.stand_in.take() {
            stand_in.disown();
        }
        drop(inner);
        self.tell("unreachable", "");
    }

    /// Has its sender wait for acknowledgements.
    fn follow(&self, inner: &mut Inner) {
        if inner.token.is_none() && inner.refused.is_empty() {
            let key = keys::state_receiver(self.at.0, self.at.1, self.context.origin());
            // A failure: the session is over.
            inner.token = self.context.session.liveliness().declare_token(key).wait().ok();
        }
    }

    /// Asks for the value, unless the copy has it.
    fn ask(self: &Arc<Copy>) {
        let mut inner = self.lock();
        if inner.is_closed || inner.starts.is_empty() {
            return;
        }
        if inner.asking.is_some_and(|(_, since)| since.elapsed() < PATIENCE) {
            inner.asks_again = true;
            return;
        }
        inner.questions += 1;
        inner.asks_again = false;
        let number = inner.questions;
        inner.asking = Some((number, Instant::now()));
        let known = if self.is_fresh(&inner) { inner.next - 1 } else { 0 };
        drop(inner);
        let mut answer = Answer { copy: Arc::clone(self), number, has_come: false };
        let get = self.context.session.get(keys::message("state-get", self.at.0, self.at.1));
        let get = get
            .payload(state_wire::asked_to_bytes(known))
            .congestion_control(CongestionControl::Block)
            .timeout(LONGEST)
            .callback_mut(move |reply| answer.take(&reply));
        if let Err(error) = get.wait() {
            self.tell("refused", &error.to_string());
        }
    }

    fn answered(self: &Arc<Copy>, number: u64, has_come: bool) {
        let mut inner = self.lock();
        if inner.asking.is_none_or(|(asking, _)| asking != number) {
            return;
        }
        inner.asking = None;
        let again = std::mem::take(&mut inner.asks_again);
        drop(inner);
        if again || !has_come {
            let theirs = Arc::clone(self);
            let span = if has_come { Duration::ZERO } else { self.context.lease };
            self.context.later.after(span, move || theirs.ask());
        }
    }

    /// Whether the copy is as this gateway has left it.
    fn is_fresh(&self, inner: &Inner) -> bool {
        inner.set == Some(self.state.version())
    }

    /// Its sender says how far it is.
    pub fn sender_is_at(self: &Arc<Copy>, word: &Word) {
        let mut inner = self.lock();
        if inner.is_closed {
            return;
        }
        self.hear(&mut inner, word);
        let has_it = word.version < inner.next && self.is_fresh(&inner);
        let has = Has {
            who: self.context.origin(),
            version: inner.next.saturating_sub(1),
            turn: inner.turn,
        };
        // What does not fit is not asked for again.
        let is_refused = !inner.refused.is_empty();
        drop(inner);
        if is_refused {
            return;
        }
        if !has_it {
            self.ask();
            return;
        }
        let key = keys::message("state-ack", self.at.0, self.at.1);
        // Dropped where the network is busy: the sender's next word brings another.
        let put = self.context.session.put(key, has.to_bytes());
        if let Err(error) = put.congestion_control(CongestionControl::Drop).wait() {
            self.tell("refused", &error.to_string());
        }
    }

    /// A value has come, or the word that the copy has it.
    pub fn take(self: &Arc<Copy>, word: &Word, payload: &ZBytes) {
        let mut inner = self.lock();
        if inner.is_closed {
            return;
        }
        if word.fingerprint != self.fingerprint {
            return self.refuse(&mut inner, "its values are of another type by now");
        }
        if word.is_bare {
            return self.hear(&mut inner, word);
        }
        let set = self.set(&mut inner, word, payload);
        // Behind the value.
        self.hear(&mut inner, word);
        match set {
            Ok(()) => {
                inner.refused.clear();
                self.follow(&mut inner);
            }
            Err(Unset { why, is_for_good }) => {
                self.refuse(&mut inner, &why);
                drop(inner);
                if !is_for_good {
                    let theirs = Arc::clone(self);
                    self.context.later.after(self.context.lease, move || theirs.look_again());
                }
            }
        }
    }

    fn set(&self, inner: &mut Inner, word: &Word, payload: &ZBytes) -> Result<(), Unset> {
        let is_last = word.version + 1 == inner.next;
        if word.version < inner.next && (!is_last || self.is_fresh(inner)) {
            return Ok(());
        }
        let stand_in = match inner.stand_in.take() {
            Some(stand_in) => stand_in,
            None => self.stand_in(inner, word).map_err(|why| Unset { why, is_for_good: false })?,
        };
        // It goes if the value does not fit: then others may write.
        let stand_in = inner.stand_in.insert(stand_in);
        let bytes = payload.to_bytes();
        // By this gateway's predecessor: readers need not be told twice.
        let same = || {
            let (value, version, is_foreign) = self.state.get_marked().ok()?;
            (is_foreign && value == *bytes).then_some(version)
        };
        // Died before the value is set: the successor accepts that version again, and none before it, which
        // may still be under way.
        inner.next = word.version + 1;
        inner.entry.set_next(inner.next);
        inner.set = None;
        let version = match is_last.then(same).flatten() {
            Some(version) => version,
            None => match stand_in.set_foreign(&bytes) {
                Ok(version) => version,
                Err(error) => {
                    inner.stand_in = None;
                    // Another value may fit.
                    let is_for_good =
                        matches!(error, SendError::TooLarge { .. } | SendError::OtherLength { .. });
                    return Err(Unset { why: error.to_string(), is_for_good });
                }
            },
        };
        inner.set = Some(version);
        Ok(())
    }

    /// Takes the writer's place here, if what is there may be written over.
    fn stand_in(&self, inner: &Inner, word: &Word) -> Result<Writer, String> {
        let stand_in = self.state.try_wait_to_write().map_err(|error| error.to_string())?;
        let stand_in = stand_in.ok_or("a process here writes it")?;
        let (version, is_foreign) = self.state.latest_mark().map_err(|error| error.to_string())?;
        let is_living = if word.turn < inner.turn {
            inner.writer == WriterIs::Living
        } else {
            word.writer == WriterIs::Living
        };
        if version > 1 && !is_foreign && !is_living {
            return Err("it has a value of its own here, and no writer lives there".to_owned());
        }
        Ok(stand_in)
    }

    /// Has the writer's stand-in be as the writer is by that word.
    fn hear(&self, inner: &mut Inner, word: &Word) {
        let is_older = word.turn < inner.turn;
        if !is_older {
            if word.turn != inner.turn && word.writer != inner.writer {
                self.tell(word.writer.event(), "");
            }
            (inner.turn, inner.writer) = (word.turn, word.writer);
        }
        let is_reachable = !inner.starts.is_empty();
        match (inner.writer, inner.stand_in.take()) {
            (WriterIs::Living, stand_in) if is_reachable => {
                // Readers see a living writer again, also where it has set nothing yet.
                let is_fresh = self.is_fresh(inner);
                let again = || self.state.try_wait_to_write().ok().flatten();
                inner.stand_in = stand_in.or_else(|| is_fresh.then(again).flatten());
            }
            (_, None) | (WriterIs::Nobody, _) => {}
            // Behind its last value; or it cannot be reached.
            (_, Some(stand_in)) => stand_in.disown(),
        }
    }

    /// A process here was in the way, or a value of its own: the sender is asked when there is none.
    fn look_again(self: &Arc<Copy>) {
        let inner = self.lock();
        if inner.is_closed || inner.starts.is_empty() || inner.refused.is_empty() {
            return;
        }
        let is_written = self
            .state
            .other_than(None, Deadline::at_nanos(0))
            .is_ok_and(|seen| matches!(seen.writer, Found::Living(_)));
        let mark = self.state.latest_mark();
        let is_own = matches!(mark, Ok((version, false)) if version > 1);
        let is_in_the_way = is_written || is_own && inner.writer != WriterIs::Living;
        drop(inner);
        if is_in_the_way {
            let theirs = Arc::clone(self);
            self.context.later.after(self.context.lease, move || theirs.look_again());
        } else {
            self.ask();
        }
    }

    /// Ends it: readers are told that its writer died, if one lives.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.is_closed = true;
        inner.token = None;
        if let Some(stand_in) = inner.stand_in.take() {
            stand_in.disown();
        }
    }
}

/// An answer that is coming.
struct Answer {
    copy: Arc<Copy>,
    number: u64,
    has_come: bool,
}

impl Answer {
    fn take(&mut self, reply: &Reply) {
        let Ok(sample) = reply.result() else { return };
        let attachment = sample.attachment().map(|bytes| bytes.to_bytes());
        let word = attachment.and_then(|bytes| Word::from_bytes(&bytes));
        let of_it = |word: &Word| (word.origin, word.instance) == self.copy.at;
        if let Some(word) = word.filter(of_it) {
            self.has_come = true;
            self.copy.take(&word, sample.payload());
        }
    }
}

impl Drop for Answer {
    /// zenoh says so: there is no more to come.
    fn drop(&mut self) {
        self.copy.answered(self.number, self.has_come);
    }
}

/// Asks what a state elsewhere is; `None`: its gateway did not say.
pub fn ask_meta(
    context: &Shared,
    at: Elsewhere,
    span: Duration,
) -> Result<Option<StateMeta>, String> {
    let key = keys::message("state-meta", at.0, at.1);
    let replies = context.session.get(key).timeout(span).wait();
    let replies = replies.map_err(|error| error.to_string())?;
    while let Ok(reply) = replies.recv() {
        if let Ok(sample) = reply.result() {
            let meta: StateMeta = serde_json::from_slice(&sample.payload().to_bytes())
                .map_err(|error| error.to_string())?;
            let bytes = meta.description.as_deref();
            if wire::fingerprint(&meta.type_name, bytes) != meta.fingerprint {
                return Err("its type is not the one that it says".to_owned());
            }
            return Ok(Some(meta));
        }
    }
    Ok(None)
}
