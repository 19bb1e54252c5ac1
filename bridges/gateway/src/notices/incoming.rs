//! A notifier that comes in: listeners here are told what has been notified elsewhere.
//!
//! | the totals that come | then |
//! | --- | --- |
//! | the first of all | are noted: what was before is told to none |
//! | higher ones, of some numbers | listeners get the difference, by the journal's steps (journal.rs) |
//! | lower ones | nothing: they are older |

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive::notify::{Foreign, Listener};
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::qos::CongestionControl;
use zenoh::query::Reply;

use crate::context::Shared;
use crate::keys;
use crate::notices::journal::Entry;
use crate::notices::wire::{self as notice_wire, Totals, Word};
use crate::states::wire::{Has, Turn};
use crate::told::Event;
use crate::wire::Origin;

/// How long an answer may take.
const LONGEST: Duration = Duration::from_secs(10);

struct Inner {
    /// `None`: it is closed, and another one may have the entry.
    entry: Option<Entry>,
    /// The notifier here.
    here: Option<Foreign>,
    /// The sender's starts whose tokens are there.
    starts: HashSet<u64>,
    token: Option<LivelinessToken>,
    /// Why nothing is told, as long as the domain does not change.
    refused: Option<String>,
    /// What was refused last: said once.
    said: String,
}

/// See the head of this file.
pub struct NoticeIn {
    context: Shared,
    name: String,
    /// Which one: its domain, and since when it is counted there.
    pub at: (Origin, u64),
    /// Whether it may be made here.
    creates: bool,
    inner: Mutex<Inner>,
}

impl NoticeIn {
    /// Begins to follow one.
    pub fn new(
        context: &Shared,
        at: (Origin, u64),
        name: &str,
        creates: bool,
        entry: Entry,
    ) -> Arc<NoticeIn> {
        if let Some((id, notices)) = entry.uncertain {
            let why = format!("of number {id}, which listeners may have had");
            let event = Event::of("uncertain", name).from(at.0).messages(notices);
            context.told.tell(&event.because(&why));
        }
        let inner = Inner {
            entry: Some(entry),
            here: None,
            starts: HashSet::new(),
            token: None,
            refused: None,
            said: String::new(),
        };
        Arc::new(NoticeIn {
            context: Arc::clone(context),
            name: name.to_owned(),
            at,
            creates,
            inner: Mutex::new(inner),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the notifier's name has been removed here.
    pub fn is_removed(&self) -> bool {
        self.lock().here.as_ref().is_some_and(Foreign::is_removed)
    }

    /// The domain has changed: what was refused may be possible by now.
    pub fn look(self: &Arc<NoticeIn>) {
        let mut inner = self.lock();
        let was_removed = inner.here.as_ref().is_some_and(Foreign::is_removed);
        if was_removed {
            inner.here = None;
        }
        if inner.refused.take().is_some() || was_removed {
            drop(inner);
            self.ask();
        }
    }

    /// A start of its sender is there.
    pub fn sender_came(self: &Arc<NoticeIn>, start: u64) {
        self.lock().starts.insert(start);
        self.ask();
    }

    /// A start of its sender has gone; returns whether none is left.
    pub fn sender_went(&self, start: u64) -> bool {
        let mut inner = self.lock();
        if !inner.starts.remove(&start) || !inner.starts.is_empty() {
            return false;
        }
        inner.token = None;
        drop(inner);
        self.context.told.tell(&Event::of("unreachable", &self.name).from(self.at.0));
        true
    }

    fn ask(self: &Arc<NoticeIn>) {
        let inner = self.lock();
        if inner.entry.is_none() || inner.starts.is_empty() {
            return;
        }
        drop(inner);
        let mut answer = Answer { of: Arc::clone(self), has_come: false };
        let get = self.context.session.get(keys::message("notices-get", self.at.0, self.at.1));
        let get = get.congestion_control(CongestionControl::Block).timeout(LONGEST);
        if let Err(error) = get.callback_mut(move |reply| answer.take(&reply)).wait() {
            let event = Event::of("refused", &self.name).from(self.at.0);
            self.context.told.tell(&event.because(&error.to_string()));
        }
    }

    fn answered(self: &Arc<NoticeIn>, has_come: bool) {
        if !has_come {
            let theirs = Arc::clone(self);
            self.context.later.after(self.context.lease, move || theirs.ask());
        }
    }

    /// Totals have come; `acknowledges`: the sender wants to know.
    pub fn take(&self, word: &Word, totals: &Totals, acknowledges: bool) {
        let inner = &mut *self.lock();
        let Some(entry) = inner.entry.as_ref().filter(|_| inner.refused.is_none()) else { return };
        if inner.here.is_none() {
            match self.open(word) {
                Ok(here) => inner.here = Some(here),
                Err(why) => {
                    inner.token = None;
                    inner.refused = Some(why.clone());
                    if inner.said != why {
                        let event = Event::of("refused", &self.name).from(self.at.0);
                        self.context.told.tell(&event.because(&why));
                        inner.said = why;
                    }
                    return;
                }
            }
        }
        if !entry.is_begun() {
            entry.begin(totals);
        } else if let Some(here) = &inner.here {
            // First all counts, then the wakes: a kill is seldom between the two of a number.
            entry.tell(totals, |id, notices| here.add(id, notices));
            here.wake();
        }
        if inner.token.is_none() && !inner.starts.is_empty() {
            let key = keys::notices_receiver(self.at.0, self.at.1, self.context.origin());
            // A failure: the session is over.
            inner.token = self.context.session.liveliness().declare_token(key).wait().ok();
            self.context.told.tell(&Event::of("receives", &self.name).from(self.at.0));
        }
        let version = notice_wire::sum(&entry.totals());
        if !acknowledges {
            return;
        }
        let has = Has { who: self.context.origin(), version, turn: Turn::default() };
        let key = keys::message("notices-ack", self.at.0, self.at.1);
        // Dropped where the network is busy: the sender's next word brings another.
        let put = self.context.session.put(key, has.to_bytes());
        let _ = put.congestion_control(CongestionControl::Drop).wait();
    }

    fn open(&self, word: &Word) -> Result<Foreign, String> {
        let opened = Foreign::open(&self.context.domain, &self.name);
        if !(self.creates && matches!(opened, Err(outlive::Error::NotFound { .. }))) {
            return opened.map_err(|error| error.to_string());
        }
        let mut options = Listener::options();
        let [came, left, died] = word.told;
        if let Some(id) = came {
            options = options.on_created(id);
        }
        if let Some(id) = left {
            options = options.on_left(id);
        }
        if let Some(id) = died {
            options = options.on_died(id);
        }
        let made = options.open_or_create(&self.context.domain, &self.name);
        made.map_err(|error| error.to_string())?;
        Foreign::open(&self.context.domain, &self.name).map_err(|error| error.to_string())
    }

    /// Ends it: its entry is another one's from now on.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.entry = None;
        inner.token = None;
    }
}

struct Answer {
    of: Arc<NoticeIn>,
    has_come: bool,
}

impl Answer {
    fn take(&mut self, reply: &Reply) {
        let Ok(sample) = reply.result() else { return };
        let attachment = sample.attachment().map(|bytes| bytes.to_bytes());
        let word = attachment.and_then(|bytes| Word::from_bytes(&bytes));
        let totals = notice_wire::totals_from_bytes(&sample.payload().to_bytes());
        let is_its = |word: &Word| (word.origin, word.tenure) == self.of.at;
        if let Some((word, totals)) = word.filter(is_its).zip(totals) {
            self.has_come = true;
            self.of.take(&word, &totals, false);
        }
    }
}

impl Drop for Answer {
    /// zenoh says so: there is no more to come.
    fn drop(&mut self) {
        self.of.answered(self.has_come);
    }
}
