//! A notifier that leaves: how many notices of each number there were is put for all, and given to those
//! that ask.
//!
//! The counts are totals in a slot that is kept over this process's death (`notify/forwarding.rs`); so
//! each message has all that the ones before it had, and none that is lost is missed. What was put last
//! is told again each lease until all receivers have acknowledged it.
//!
//! Killed, or stopped, anywhere: notifiers go on counting. Nothing in here has to survive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive::Deadline;
use outlive::notify::Keeper;
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::qos::CongestionControl;
use zenoh::query::{Query, Queryable};

use crate::context::{Shared, lock};
use crate::journal;
use crate::keys;
use crate::leaving::Leaves;
use crate::notices::wire::{self as notice_wire, IDS, Totals, Word};
use crate::receivers::Receivers;
use crate::rules::Rule;
use crate::states::wire::Turn;
use crate::told::Event;

/// How often it is looked whether the notifier was removed, or does not leave any more.
const LOOK: Duration = Duration::from_secs(1);
/// Notices that come one after the other leave together.
const GATHERED: Duration = Duration::from_millis(1);

struct Announced {
    _token: LivelinessToken,
    _totals: Queryable<()>,
}

/// See the head of this file.
pub struct NoticeOut {
    context: Shared,
    name: String,
    key: String,
    keeper: Keeper,
    /// Since when it is counted.
    pub tenure: u64,
    rule: Rule,
    receivers: Arc<Receivers>,
    announced: Mutex<Option<Announced>>,
    /// What was put last, and whether it is to be told again.
    put: Mutex<(Totals, bool)>,
    closed: AtomicBool,
}

impl Leaves for NoticeOut {
    /// Ends it: its token goes, its thread ends at its next look. The counts go on.
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        *lock(&self.announced) = None;
    }

    /// Whether the notifier's name has been removed.
    fn is_removed(&self) -> bool {
        self.keeper.is_removed()
    }

    /// Whether it is sent no more.
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl NoticeOut {
    /// Counts a notifier's notices, and has others see them.
    ///
    /// # Errors
    /// Why it cannot leave.
    pub fn open(
        context: &Shared,
        name: &str,
        key: String,
        rule: &Rule,
        receivers: &Arc<Receivers>,
    ) -> Result<Arc<NoticeOut>, String> {
        let fresh = (journal::random().map_err(|error| error.to_string())? as u64).max(1);
        let gateway = context.origin().0 as u64;
        let keeper = Keeper::open(&context.domain, name, gateway, fresh);
        let keeper = keeper.map_err(|error| error.to_string())?;
        let out = Arc::new(NoticeOut {
            context: Arc::clone(context),
            name: name.to_owned(),
            key,
            tenure: keeper.tenure().map_err(|error| error.to_string())?,
            keeper,
            rule: rule.clone(),
            receivers: Arc::clone(receivers),
            announced: Mutex::default(),
            put: Mutex::new(([0; IDS], false)),
            closed: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&out);
        let run = move || {
            if let Err(why) = theirs.send_all() {
                theirs.context.told.tell(&Event::of("refused", &theirs.name).because(&why));
            }
            theirs.close();
        };
        let named = std::thread::Builder::new().name("gateway-notices".into());
        named.spawn(run).map_err(|error| error.to_string())?;
        Ok(out)
    }

    fn send_all(self: &Arc<NoticeOut>) -> Result<(), String> {
        let publisher = self.context.publisher(&self.key, &self.rule)?;
        self.announce()?;
        let span = self.rule.span().unwrap_or(GATHERED).max(GATHERED);
        let mut seen = [0; IDS];
        loop {
            let totals = self.keeper.totals_other_than(&seen, Deadline::after(LOOK));
            let totals = totals.map_err(|error| error.to_string())?;
            if self.is_closed() || self.is_removed() {
                return Ok(());
            }
            if !self.keeper.is_kept() {
                return Err("its place was given to a listener".to_owned());
            }
            if totals == seen {
                continue;
            }
            seen = totals;
            lock(&self.put).0 = totals;
            let put = publisher.put(notice_wire::totals_to_bytes(&totals));
            if let Err(error) = put.attachment(self.word().to_bytes()).wait() {
                let event = Event::of("refused", &self.name);
                self.context.told.tell(&event.because(&error.to_string()));
            }
            self.remind();
            let mut left = span;
            while !left.is_zero() && !self.is_closed() {
                let slice = left.min(LOOK);
                std::thread::sleep(slice);
                left -= slice;
            }
        }
    }

    fn announce(self: &Arc<NoticeOut>) -> Result<(), String> {
        let text = |error: zenoh::Error| error.to_string();
        let session = &self.context.session;
        let theirs = Arc::clone(self);
        let totals = session.declare_queryable(self.key.clone());
        let totals = totals.callback(move |query| theirs.answer(&query)).wait().map_err(text)?;
        let (origin, start) = (self.context.origin(), self.context.journal.start);
        let key = keys::notifier(origin, self.tenure, start, &self.key);
        let token = session.liveliness().declare_token(key).wait().map_err(text)?;
        let mut announced = lock(&self.announced);
        if self.is_closed() {
            return Ok(());
        }
        *announced = Some(Announced { _token: token, _totals: totals });
        drop(announced);
        self.context.told.tell(&Event::of("sends", &self.name));
        Ok(())
    }

    fn word(&self) -> Word {
        let config = self.keeper.config();
        Word {
            origin: self.context.origin(),
            tenure: self.tenure,
            start: self.context.journal.start,
            told: [config.on_created, config.on_left, config.on_died],
        }
    }

    fn remind(self: &Arc<NoticeOut>) {
        if !std::mem::replace(&mut lock(&self.put).1, true) {
            let theirs = Arc::clone(self);
            self.context.later.after(self.context.lease, move || theirs.tell_if_lacking());
        }
    }

    fn tell_if_lacking(self: &Arc<NoticeOut>) {
        let mut put = lock(&self.put);
        put.1 = false;
        let totals = put.0;
        drop(put);
        let lacks = self.receivers.lack(self.tenure, notice_wire::sum(&totals), Turn::default());
        if self.is_closed() || !lacks {
            return;
        }
        let key = keys::message("notices-at", self.context.origin(), self.tenure);
        let put = self.context.session.put(key, notice_wire::totals_to_bytes(&totals));
        // Dropped where the network is busy: it comes again.
        let put = put.congestion_control(CongestionControl::Drop);
        if let Err(error) = put.attachment(self.word().to_bytes()).wait() {
            let event = Event::of("refused", &self.name);
            self.context.told.tell(&event.because(&error.to_string()));
        }
        self.remind();
    }

    /// Answers a question for the totals.
    pub fn answer(&self, query: &Query) {
        let Ok(totals) = self.keeper.totals() else { return };
        // A question of a program may be for a pattern.
        let key = match keys::parse("notices-get", query.key_expr().as_str()) {
            Some(_) => query.key_expr().as_str(),
            None => &self.key,
        };
        let reply = query.reply(key, notice_wire::totals_to_bytes(&totals));
        // A failure: the other has gone, and asks again if it comes back.
        let _ = reply.attachment(self.word().to_bytes()).wait();
    }
}
