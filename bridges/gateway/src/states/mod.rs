//! All states of a gateway: which leave, and which come in, as names, tokens and values come and go.
//!
//! zenoh calls the functions here on its own threads. They take short locks, and leave what waits for
//! others to threads of their own.

pub mod copy;
pub mod outgoing;
pub mod wire;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive::Kind;
use outlive::state::State;
use zenoh::Wait;
use zenoh::query::Query;
use zenoh::sample::{Sample, SampleKind};

use crate::context::{Shared, lock};
use crate::keys;
use crate::leaving::Leaving;
use crate::names;
use crate::receivers::Receivers;
use crate::rules::{Rule, Rules, Thing};
use crate::states::copy::{Copy, Elsewhere, ask_meta};
use crate::states::outgoing::{self as state_out, StateOut};
use crate::states::wire::Word;
use crate::told::Event;

/// How long another gateway may take to say what its state is.
const META: Duration = Duration::from_secs(10);
/// As many states elsewhere are known at a time.
const MOST_KNOWN: usize = 1 << 14;
/// As many are kept whose sender has gone: each has a place in the journal, which topics need, too.
const MOST_GONE: usize = 256;
/// As many are opened at a time: each takes a thread, which waits for its sender's word.
const MOST_OPENING: usize = 16;

/// A state elsewhere that may come in under a name here.
struct Home {
    at: Elsewhere,
    key: String,
    /// The sender's starts that are there.
    starts: HashSet<u64>,
}

/// What comes in under a name here.
#[derive(Default)]
struct Incoming {
    /// The one that is known longest first. A copy that is there follows the one that it has followed.
    homes: Vec<Home>,
    copy: Option<Arc<Copy>>,
    is_opening: bool,
    /// It is among those that wait for a thread.
    is_waiting: bool,
    /// Why it does not come in, as told.
    refused: String,
}

/// See the head of this file.
pub struct States {
    context: Shared,
    rules: Rules,
    outs: Leaving<StateOut>,
    receivers: Arc<Receivers>,
    /// By name here.
    incoming: Mutex<HashMap<String, Incoming>>,
    /// Names that are opened when one of those that are being opened is done. Locked behind `incoming`.
    waiting: Mutex<VecDeque<String>>,
    /// By name: states that programs write which are no gateways.
    strangers: Mutex<HashMap<String, State>>,
}

impl States {
    /// Begins.
    ///
    /// # Errors
    /// zenoh's.
    pub fn start(context: &Shared, rules: &Rules) -> zenoh::Result<Arc<States>> {
        let states = Arc::new(States {
            context: Arc::clone(context),
            rules: rules.clone(),
            outs: Leaving::new(Thing::State),
            receivers: Arc::default(),
            incoming: Mutex::default(),
            waiting: Mutex::default(),
            strangers: Mutex::default(),
        });
        let (session, own) = (&context.session, context.origin());
        let asked = |handle: fn(&States, Query)| {
            let states = Arc::clone(&states);
            move |query: Query| handle(&states, query)
        };
        for (kind, handle) in [
            ("state-meta", States::answer_meta as fn(&States, Query)),
            ("state-get", States::answer_get),
        ] {
            let queryable = session.declare_queryable(keys::all_of(kind, own));
            queryable.callback(asked(handle)).background().wait()?;
        }
        let told = |handle: fn(&Arc<States>, &Sample)| {
            let states = Arc::clone(&states);
            move |sample: Sample| handle(&states, &sample)
        };
        for (key, handle) in [
            (keys::all_of("state-ack", own), States::has as fn(&Arc<States>, &Sample)),
            (keys::all("state-at"), States::sender_is_at),
        ] {
            session.declare_subscriber(key).callback(told(handle)).background().wait()?;
        }
        // Last: from here on others are asked.
        for (key, handle) in [
            (
                keys::all_of("state-receiver", own),
                States::receiver_token as fn(&Arc<States>, &Sample),
            ),
            (keys::all("state"), States::state_token),
        ] {
            let tokens = session.liveliness().declare_subscriber(key).history(true);
            tokens.callback(told(handle)).background().wait()?;
        }
        Ok(states)
    }

    /// Whether the name of a state was removed that leaves or comes in.
    #[must_use]
    pub fn has_removed(&self) -> bool {
        let is_removed =
            |coming: &Incoming| coming.copy.as_ref().is_some_and(|copy| copy.is_removed());
        self.outs.has_removed() || lock(&self.incoming).values().any(is_removed)
    }

    /// What is in the domain has changed.
    pub fn look(self: &Arc<States>, names: &[String]) {
        let open = |name: &str, key, rule: &Rule| {
            StateOut::open(&self.context, name, key, rule, &self.receivers)
        };
        self.outs.look(&self.context, &self.rules, names, open);
        lock(&self.strangers).retain(|_, state| !state.is_removed());
        let mut again = Vec::new();
        for (name, coming) in lock(&self.incoming).iter_mut() {
            if coming.copy.as_ref().is_some_and(|copy| copy.is_removed())
                && let Some(copy) = coming.copy.take()
            {
                copy.close();
            }
            if coming.copy.is_none() && !coming.homes.is_empty() {
                again.push(name.clone());
            }
        }
        // What could not come in may be able to by now.
        for name in again {
            self.open(&name);
        }
    }

    fn state_token(self: &Arc<States>, sample: &Sample) {
        let key = sample.key_expr().as_str();
        let Some((state, start, key)) = keys::parse_sent("state", key) else { return };
        let at = (state.origin, state.instance);
        if at.0 == self.context.origin() {
            return;
        }
        let Some((_, here)) = self.rules.inward(Thing::State, key) else { return };
        let name = match names::name_of(&here) {
            Ok(name) => name,
            Err(why) => {
                let event = Event::of("refused", key).from(at.0);
                return self.context.told.tell(&event.because(&why.to_string()));
            }
        };
        let mut incoming = lock(&self.incoming);
        if sample.kind() == SampleKind::Put {
            if incoming.len() >= MOST_KNOWN && !incoming.contains_key(&name) {
                return;
            }
            let coming = incoming.entry(name.clone()).or_default();
            if coming.homes.len() >= MOST_KNOWN {
                return;
            }
            match coming.homes.iter_mut().find(|home| home.at == at) {
                Some(home) => {
                    home.starts.insert(start);
                }
                None => {
                    let starts = HashSet::from([start]);
                    coming.homes.push(Home { at, key: key.to_owned(), starts });
                }
            }
            match coming.copy.clone() {
                Some(copy) if copy.at == at => {
                    drop(incoming);
                    return copy.sender_came(start);
                }
                Some(copy) if copy.is_reachable() => {
                    drop(incoming);
                    let why = "it comes from another machine already";
                    let event = Event::of("refused", &name).from(at.0);
                    return self.context.told.tell(&event.because(why));
                }
                // The one that it followed has gone: this one counts.
                Some(_) => close(coming),
                None => {}
            }
        } else {
            let Some(coming) = incoming.get_mut(&name) else { return };
            if let Some(home) = coming.homes.iter_mut().find(|home| home.at == at) {
                home.starts.remove(&start);
            }
            coming.homes.retain(|home| !home.starts.is_empty());
            match coming.copy.clone() {
                Some(copy) if copy.at == at => {
                    copy.sender_went(start);
                    if copy.is_reachable() {
                        return;
                    }
                    if coming.homes.is_empty() {
                        return forget(&mut incoming);
                    }
                    close(coming);
                }
                Some(_) => return,
                // It may have been refused: the next one that is known counts.
                None if coming.homes.is_empty() => return forget(&mut incoming),
                None => {}
            }
        }
        drop(incoming);
        self.open(&name);
    }

    /// Opens the state here for the one that is known longest, on a thread of its own: its sender is
    /// asked what it is. Returns whether a thread is at work, or more of them than there may be.
    fn open(self: &Arc<States>, name: &str) -> bool {
        let mut incoming = lock(&self.incoming);
        let opening = incoming.values().filter(|coming| coming.is_opening).count();
        let Some(coming) = incoming.get_mut(name) else { return false };
        if coming.is_opening || coming.copy.is_some() {
            return false;
        }
        let Some(home) = coming.homes.first() else { return false };
        if opening >= MOST_OPENING {
            if !std::mem::replace(&mut coming.is_waiting, true) {
                lock(&self.waiting).push_back(name.to_owned());
            }
            return true;
        }
        let (at, key) = (home.at, home.key.clone());
        coming.is_opening = true;
        drop(incoming);
        let (states, theirs) = (Arc::clone(self), name.to_owned());
        let open = move || {
            let opened = states.copy_of(&theirs, at, &key);
            states.has_opened(&theirs, at, opened);
            states.open_next();
        };
        if std::thread::Builder::new().name("gateway-open".into()).spawn(open).is_err() {
            if let Some(coming) = lock(&self.incoming).get_mut(name) {
                coming.is_opening = false;
            }
            self.open_after(name);
        }
        true
    }

    /// One is done: those that wait go on, of which some may have gone.
    fn open_next(self: &Arc<States>) {
        loop {
            let mut incoming = lock(&self.incoming);
            let Some(name) = lock(&self.waiting).pop_front() else { return };
            if let Some(coming) = incoming.get_mut(&name) {
                coming.is_waiting = false;
            }
            drop(incoming);
            if self.open(&name) {
                return;
            }
        }
    }

    fn has_opened(
        self: &Arc<States>,
        name: &str,
        at: Elsewhere,
        opened: Result<Option<Arc<Copy>>, String>,
    ) {
        let mut incoming = lock(&self.incoming);
        let Some(coming) = incoming.get_mut(name) else { return };
        coming.is_opening = false;
        let home = coming.homes.iter().find(|home| home.at == at);
        let starts = home.map(|home| home.starts.clone()).unwrap_or_default();
        match opened {
            Ok(Some(copy)) => {
                coming.refused.clear();
                // One that has gone meanwhile is followed when it comes back, or not at all.
                if starts.is_empty() && !coming.homes.is_empty() {
                    copy.close();
                    drop(incoming);
                    self.open(name);
                    return;
                }
                coming.copy = Some(Arc::clone(&copy));
                drop(incoming);
                starts.into_iter().for_each(|start| copy.sender_came(start));
            }
            // The sender was killed, or stopped, as it was asked; another start of it may be there.
            Ok(None) => {
                drop(incoming);
                self.open_after(name);
            }
            // It is tried again whenever the domain changes.
            Err(why) => {
                // The one that was refused has gone meanwhile: the next one counts.
                let has_gone = starts.is_empty() && !coming.homes.is_empty();
                let is_new = coming.refused != why;
                coming.refused.clone_from(&why);
                drop(incoming);
                if is_new {
                    let event = Event::of("refused", name).from(at.0);
                    self.context.told.tell(&event.because(&why));
                }
                if has_gone {
                    self.open(name);
                }
            }
        }
    }

    fn open_after(self: &Arc<States>, name: &str) {
        let (states, name) = (Arc::clone(self), name.to_owned());
        self.context.later.after(self.context.lease, move || _ = states.open(&name));
    }

    /// `None`: its gateway did not say what it is.
    fn copy_of(&self, name: &str, at: Elsewhere, key: &str) -> Result<Option<Arc<Copy>>, String> {
        let (rule, _) = self.rules.inward(Thing::State, key).ok_or("no rule lets it in")?;
        let Some(meta) = ask_meta(&self.context, at, META)? else { return Ok(None) };
        Copy::open(&self.context, at, name, &meta, rule).map(Some)
    }

    fn copy(&self, at: Elsewhere) -> Option<Arc<Copy>> {
        let incoming = lock(&self.incoming);
        let mut copies = incoming.values().filter_map(|coming| coming.copy.as_ref());
        copies.find(|copy| copy.at == at).cloned()
    }

    /// A value of a gateway's; returns whether it is one.
    pub fn value(&self, attachment: &[u8], sample: &Sample) -> bool {
        let Some(word) = Word::from_bytes(attachment) else { return false };
        // One that is not followed yet is asked for when it is.
        if let Some(copy) = self.copy((word.origin, word.instance)) {
            copy.take(&word, sample.payload());
        }
        true
    }

    fn sender_is_at(self: &Arc<States>, sample: &Sample) {
        let word = Word::from_bytes(&sample.payload().to_bytes());
        let Some(word) = word else { return };
        if let Some(copy) = self.copy((word.origin, word.instance)) {
            copy.sender_is_at(&word);
        }
    }

    fn has(self: &Arc<States>, sample: &Sample) {
        self.receivers.acknowledged("state-ack", sample);
    }

    fn receiver_token(self: &Arc<States>, sample: &Sample) {
        self.receivers.token_of("state-receiver", sample);
    }

    fn out(&self, instance: u64) -> Option<Arc<StateOut>> {
        self.outs.find(|out| out.instance == instance)
    }

    fn answer_meta(&self, query: Query) {
        let state = keys::parse("state-meta", query.key_expr().as_str());
        let Some(out) = state.and_then(|state| self.out(state.instance)) else { return };
        let bytes = serde_json::to_vec(out.meta()).unwrap_or_default();
        // A failure: the other has gone.
        let _ = query.reply(query.key_expr().clone(), bytes).wait();
    }

    fn answer_get(&self, query: Query) {
        let state = keys::parse("state-get", query.key_expr().as_str());
        if let Some(out) = state.and_then(|state| self.out(state.instance)) {
            state_out::answer(&out, query);
        }
    }

    /// A value that a program has put which is no gateway. Returns whether it is for a state here.
    pub fn stranger(&self, sample: &Sample) -> bool {
        let key = sample.key_expr().as_str();
        let Some((_, here)) = self.rules.inward(Thing::State, key) else { return false };
        let Ok(name) = names::name_of(&here) else { return false };
        let mut strangers = lock(&self.strangers);
        if !strangers.contains_key(&name) {
            if strangers.len() >= MOST_KNOWN
                || !matches!(self.context.domain.kind_of(&name), Ok(Kind::State))
            {
                return false;
            }
            match State::open_as_bytes(&self.context.domain, &name) {
                Ok(state) => {
                    strangers.insert(name.clone(), state);
                }
                Err(error) => {
                    let event = Event::of("refused", key);
                    self.context.told.tell(&event.because(&error.to_string()));
                    return true;
                }
            }
        }
        let Some(state) = strangers.get(&name).cloned() else { return true };
        drop(strangers);
        // Its home takes it, and sends it on.
        let follows = lock(&self.incoming)
            .get(&name)
            .and_then(|coming| coming.copy.clone())
            .is_some_and(|copy| copy.is_reachable());
        let is_copy = follows && matches!(state.latest_mark(), Ok((_, true)));
        if is_copy {
            return true;
        }
        if let Err(why) = set(&state, &sample.payload().to_bytes()) {
            self.context.told.tell(&Event::of("refused", key).because(&why));
        }
        true
    }

    /// Ends in order.
    pub fn close(&self) {
        self.outs.close();
        lock(&self.incoming).values_mut().for_each(close);
    }
}

/// Lets go of names whose senders have gone, and of the copies' places in the journal, once there are many.
fn forget(incoming: &mut HashMap<String, Incoming>) {
    let has_gone = |coming: &Incoming| coming.homes.is_empty() && !coming.is_opening;
    if incoming.values().filter(|coming| has_gone(coming)).count() < MOST_GONE {
        return;
    }
    incoming.retain(|_, coming| {
        let stays = !has_gone(coming);
        if !stays {
            close(coming);
        }
        stays
    });
}

fn close(coming: &mut Incoming) {
    if let Some(copy) = coming.copy.take() {
        copy.close();
    }
}

/// Sets what a program has put: as a value of this domain where its home is here.
fn set(state: &State, bytes: &[u8]) -> Result<(), String> {
    let writer = state.try_wait_to_write().map_err(|error| error.to_string())?;
    let mut writer = writer.ok_or("a process writes it")?;
    let (version, is_foreign) = state.latest_mark().map_err(|error| error.to_string())?;
    let is_own = version > 1 && !is_foreign;
    let set = if is_own { writer.set(bytes) } else { writer.set_foreign(bytes) };
    set.map(drop).map_err(|error| error.to_string())
}
