//! All notifiers of a gateway: which leave, and which come in, as names, tokens and totals come and go.
//!
//! zenoh calls the functions here on its own threads. They take short locks.

pub mod incoming;
pub mod journal;
pub mod outgoing;
pub mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use outlive::Kind;
use outlive::notify::Foreign;
use zenoh::Wait;
use zenoh::query::Query;
use zenoh::sample::{Sample, SampleKind};

use crate::context::{Shared, lock};
use crate::keys;
use crate::leaving::Leaving;
use crate::names;
use crate::notices::incoming::NoticeIn;
use crate::notices::journal::NoticeJournal;
use crate::notices::outgoing::NoticeOut;
use crate::notices::wire::{self as notice_wire, IDS, Word};
use crate::receivers::Receivers;
use crate::rules::{Rule, Rules, Thing};
use crate::told::Event;
use crate::wire::Origin;

/// As many notifiers are known that programs notify which are no gateways.
const MOST_STRANGERS: usize = 1 << 14;

/// See the head of this file.
pub struct Notices {
    context: Shared,
    rules: Rules,
    journal: &'static NoticeJournal,
    outs: Leaving<NoticeOut>,
    receivers: Arc<Receivers>,
    ins: Mutex<HashMap<(Origin, u64), Arc<NoticeIn>>>,
    /// By name: notifiers that programs notify which are no gateways.
    strangers: Mutex<HashMap<String, Foreign>>,
}

impl Notices {
    /// Begins. `name`: the gateway's. The calling thread has to live as long as the gateway acts.
    ///
    /// # Errors
    /// The domain's, and zenoh's.
    pub fn start(context: &Shared, rules: &Rules, name: &str) -> Result<Arc<Notices>, String> {
        let notices = Arc::new(Notices {
            context: Arc::clone(context),
            rules: rules.clone(),
            journal: NoticeJournal::take(&context.domain, name)?,
            outs: Leaving::new(Thing::Notifier),
            receivers: Arc::default(),
            ins: Mutex::default(),
            strangers: Mutex::default(),
        });
        notices.declare().map_err(|error| crate::told::said(&error))?;
        Ok(notices)
    }

    fn declare(self: &Arc<Notices>) -> zenoh::Result<()> {
        let (session, own) = (&self.context.session, self.context.origin());
        let theirs = Arc::clone(self);
        let queryable = session.declare_queryable(keys::all_of("notices-get", own));
        queryable.callback(move |query| theirs.answer_get(&query)).background().wait()?;
        let told = |handle: fn(&Arc<Notices>, &Sample)| {
            let notices = Arc::clone(self);
            move |sample: Sample| handle(&notices, &sample)
        };
        for (key, handle) in [
            (keys::all_of("notices-ack", own), Notices::has as fn(&Arc<Notices>, &Sample)),
            (keys::all("notices-at"), Notices::sender_is_at),
        ] {
            session.declare_subscriber(key).callback(told(handle)).background().wait()?;
        }
        // Last: from here on others are asked.
        for (key, handle) in [
            (
                keys::all_of("notices-receiver", own),
                Notices::receiver_token as fn(&Arc<Notices>, &Sample),
            ),
            (keys::all("notifier"), Notices::token),
        ] {
            let tokens = session.liveliness().declare_subscriber(key).history(true);
            tokens.callback(told(handle)).background().wait()?;
        }
        Ok(())
    }

    /// Whether the name of a notifier was removed that leaves or comes in.
    #[must_use]
    pub fn has_removed(&self) -> bool {
        self.outs.has_removed() || lock(&self.ins).values().any(|coming| coming.is_removed())
    }

    /// What is in the domain has changed.
    pub fn look(self: &Arc<Notices>, names: &[String]) {
        let open = |name: &str, key, rule: &Rule| {
            NoticeOut::open(&self.context, name, key, rule, &self.receivers)
        };
        self.outs.look(&self.context, &self.rules, names, open);
        lock(&self.strangers).retain(|_, here| !here.is_removed());
        let ins: Vec<Arc<NoticeIn>> = lock(&self.ins).values().cloned().collect();
        ins.iter().for_each(|coming| coming.look());
    }

    fn token(self: &Arc<Notices>, sample: &Sample) {
        let key = sample.key_expr().as_str();
        let Some((notifier, start, key)) = keys::parse_sent("notifier", key) else { return };
        let at = (notifier.origin, notifier.instance);
        if at.0 == self.context.origin() {
            return;
        }
        if sample.kind() != SampleKind::Put {
            let mut ins = lock(&self.ins);
            if ins.get(&at).is_some_and(|coming| coming.sender_went(start))
                && let Some(coming) = ins.remove(&at)
            {
                // Its entry stays in the journal.
                coming.close();
            }
            return;
        }
        let Some((rule, here)) = self.rules.inward(Thing::Notifier, key) else { return };
        let name = match names::name_of(&here) {
            Ok(name) => name,
            Err(why) => {
                let event = Event::of("refused", key).from(at.0);
                return self.context.told.tell(&event.because(&why.to_string()));
            }
        };
        let mut ins = lock(&self.ins);
        let coming = match ins.get(&at) {
            Some(coming) => Arc::clone(coming),
            None => {
                let Some(entry) = self.journal.entry(at.0, at.1) else {
                    let why = "as many come in as a gateway has";
                    let event = Event::of("refused", &name).from(at.0);
                    return self.context.told.tell(&event.because(why));
                };
                let coming = NoticeIn::new(&self.context, at, &name, rule.create, entry);
                ins.insert(at, Arc::clone(&coming));
                coming
            }
        };
        drop(ins);
        coming.sender_came(start);
    }

    fn coming(&self, at: (Origin, u64)) -> Option<Arc<NoticeIn>> {
        lock(&self.ins).get(&at).cloned()
    }

    fn take(&self, word: &Word, sample: &Sample, acknowledges: bool) {
        let totals = notice_wire::totals_from_bytes(&sample.payload().to_bytes());
        if let Some((coming, totals)) = self.coming((word.origin, word.tenure)).zip(totals) {
            coming.take(word, &totals, acknowledges);
        }
    }

    /// Totals of a gateway's; returns whether they are some.
    pub fn totals(&self, attachment: &[u8], sample: &Sample) -> bool {
        let Some(word) = Word::from_bytes(attachment) else { return false };
        self.take(&word, sample, false);
        true
    }

    fn sender_is_at(self: &Arc<Notices>, sample: &Sample) {
        let attachment = sample.attachment().map(|bytes| bytes.to_bytes());
        if let Some(word) = attachment.and_then(|bytes| Word::from_bytes(&bytes)) {
            self.take(&word, sample, true);
        }
    }

    fn has(self: &Arc<Notices>, sample: &Sample) {
        self.receivers.acknowledged("notices-ack", sample);
    }

    fn receiver_token(self: &Arc<Notices>, sample: &Sample) {
        self.receivers.token_of("notices-receiver", sample);
    }

    fn answer_get(&self, query: &Query) {
        let Some(notifier) = keys::parse("notices-get", query.key_expr().as_str()) else { return };
        if let Some(out) = self.outs.find(|out| out.tenure == notifier.instance) {
            out.answer(query);
        }
    }

    /// A number that a program has put which is no gateway. Returns whether it is for a notifier here.
    pub fn stranger(&self, sample: &Sample) -> bool {
        let key = sample.key_expr().as_str();
        let Some((_, here)) = self.rules.inward(Thing::Notifier, key) else { return false };
        let Ok(name) = names::name_of(&here) else { return false };
        let mut strangers = lock(&self.strangers);
        if !strangers.contains_key(&name) {
            if strangers.len() >= MOST_STRANGERS
                || !matches!(self.context.domain.kind_of(&name), Ok(Kind::Notifier))
            {
                return false;
            }
            match Foreign::open(&self.context.domain, &name) {
                Ok(here) => {
                    strangers.insert(name.clone(), here);
                }
                Err(error) => {
                    let event = Event::of("refused", key);
                    self.context.told.tell(&event.because(&error.to_string()));
                    return true;
                }
            }
        }
        let Some(here) = strangers.get(&name) else { return true };
        let bytes = sample.payload().to_bytes();
        let id = bytes[..].try_into().map(u32::from_le_bytes).ok();
        match id.filter(|id| (*id as usize) < IDS) {
            Some(id) => {
                here.add(id, 1);
                here.wake();
            }
            None => {
                let why = "not four bytes with a number from 0 to 63";
                self.context.told.tell(&Event::of("refused", key).because(why));
            }
        }
        true
    }

    /// Ends in order.
    pub fn close(&self) {
        self.outs.close();
        lock(&self.ins).drain().for_each(|(_, coming)| coming.close());
    }
}
