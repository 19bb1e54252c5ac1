//! Which things a recorder has open: they come, go, fail, and miss messages.

use std::time::Instant;

use outlive::{Kind, WaitStrategy};
use serde_json::{Value, json};

use super::{AGAIN, Recorder};
use crate::account::{Identity, Missing};
use crate::error::Error;
use crate::positions::{forget_gone, things};
use crate::source::{self, Source};

impl Recorder {
    /// Closes the account of what the recorder before was to record and this one is not: what of it is not in the file
    /// is lost, and what comes from now on is skipped. Puts what it has opened for that into `left`; when the group is
    /// written, these go, and with them the former one's places. Forgets what was removed.
    pub(super) fn leave_unwanted(&mut self, left: &mut Vec<Box<dyn Source>>) -> Result<(), Error> {
        let domain = self.domain.clone();
        self.account.forget_unread(|name| Identity::of(&domain, name));
        if !self.account.has_positions() {
            return Ok(());
        }
        let things = things(&domain)?;
        forget_gone(&things, &mut self.account.positions);
        if !self.account.has_other_selection() {
            return Ok(());
        }
        for (instance, (kind, name)) in things.found {
            let (is_known, is_left) = self.account.state_of(instance);
            let is_wanted = (self.options.wanted)(&name) && self.options.kinds.has(kind);
            if !is_known || is_left || is_wanted {
                continue;
            }
            let entry = self.account.entry(&name, Identity::of(&domain, &name).as_ref());
            let is_skipped = entry.beginning(instance).is_skipped;
            // One that cannot be opened stays as it is: what it has counts as lost when a recorder wants it again.
            let opened = source::open(kind, &domain, &name, &self.options, &entry);
            let Ok(Some(mut source)) = opened else { continue };
            if source.leave(is_skipped).is_err() {
                continue;
            }
            for event in missing_events(&mut *source) {
                self.put_event(&event)?;
            }
            source.note_positions(&mut self.account.positions);
            self.account.leave(&name, instance);
            left.push(source);
        }
        Ok(())
    }

    /// Opens topics that have come, and lets go of those that have been removed.
    pub(super) fn look_for_topics(&mut self) -> Result<(), Error> {
        let mut gone = Vec::new();
        for (at, source) in self.sources.iter().enumerate() {
            if source.is_removed() {
                gone.push(at);
            }
        }
        for at in gone.into_iter().rev() {
            self.take_rest(at)?;
            self.sources[at].complete(&mut self.output.writer)?;
            self.flush()?;
            let mut source = self.sources.remove(at);
            // They mean nothing any more.
            self.account.forget(source.instance());
            self.count_missing(source.missing());
            source.unwatch(&mut self.set);
            self.tell(&json!({"event": "removed", "topic": source.channel()}))?;
        }
        let mut refused = std::mem::take(&mut self.refused);
        for name in self.domain.contents()?.names {
            let is_known = self.sources.iter().any(|source| source.name() == name);
            if is_known || !(self.options.wanted)(&name) {
                continue;
            }
            let before = refused.remove(&name);
            // If its kind cannot be told, opening it says why.
            let kind = self.domain.kind_of(&name).unwrap_or(Kind::Topic);
            if !self.options.kinds.has(kind) {
                continue;
            }
            let identity = Identity::of(&self.domain, &name);
            let entry = self.account.entry(&name, identity.as_ref());
            let opened = source::open(kind, &self.domain, &name, &self.options, &entry);
            let mut source = match opened {
                Ok(Some(source)) => source,
                Ok(None) => continue,
                Err(Error::Outlive(outlive::Error::NotFound { .. })) => continue,
                Err(
                    error @ Error::Outlive(
                        outlive::Error::Taken { .. } | outlive::Error::InvalidOption { .. },
                    ),
                ) => return Err(error),
                Err(error) => {
                    let why = error.to_string();
                    if before.as_ref() != Some(&why) {
                        self.tell(&json!({"event": "refused", "topic": name, "why": why}))?;
                    }
                    self.note_refused(kind, &name, identity.as_ref());
                    self.refused.insert(name, why);
                    continue;
                }
            };
            self.account.follow(&name, source.instance());
            source.add_channel(&mut self.output.writer)?;
            source.watch(&mut self.set)?;
            self.is_busy = true;
            self.sources.push(source);
        }
        self.look_at = (!self.refused.is_empty()).then(|| Instant::now() + AGAIN);
        // Where it looks from time to time anyway, it does not spin before each sleep.
        self.set.set_wait_strategy(match self.is_polling() {
            true => WaitStrategy::Block,
            false => WaitStrategy::Adaptive,
        });
        Ok(())
    }

    /// A topic whose shared bytes are damaged, or that the system refuses: the others go on, and it is tried again
    /// after a while. A recorder with a name keeps its place there meanwhile.
    #[cold]
    pub(super) fn set_broken_aside(&mut self) -> Result<(), Error> {
        for (name, why) in std::mem::take(&mut self.broken) {
            let Some(at) = self.sources.iter().position(|source| source.name() == name) else {
                continue;
            };
            // What was taken is in the file, and acknowledged; what is missing is told.
            self.tell_missing(at)?;
            self.flush()?;
            let mut source = self.sources.remove(at);
            self.count_missing(source.missing());
            source.unwatch(&mut self.set);
            source.abandon();
            self.tell(&json!({"event": "error", "topic": name, "why": why}))?;
            self.refused.insert(name, why);
            self.look_at = Some(Instant::now() + AGAIN);
        }
        Ok(())
    }

    /// Messages that were overwritten before they were taken, or sent while none was to record; also by what a
    /// predecessor has left. The event is in the group whose positions say that it tells of them.
    pub(super) fn tell_missing(&mut self, at: usize) -> Result<(), Error> {
        let missing = self.sources[at].missing();
        if missing.untold_lost() == 0 && missing.untold_skipped() == 0 {
            return Ok(());
        }
        self.make_room_for_event()?;
        for event in missing_events(&mut *self.sources[at]) {
            self.put_event(&event)?;
        }
        Ok(())
    }

    /// A source goes, and its counts stay.
    fn count_missing(&mut self, missing: &Missing) {
        self.counts.lost = self.counts.lost.saturating_add(missing.lost());
        self.counts.skipped = self.counts.skipped.saturating_add(missing.skipped());
    }

    /// The recorder ends: what it could not open is lost up to here, as far as that can be read.
    pub(super) fn close_refused(&mut self) {
        for name in self.refused.keys() {
            let identity = Identity::of(&self.domain, name);
            let account = &mut self.account;
            // One that cannot be read stays as it is: what it has counts as skipped, like what comes later.
            let _ = source::note_present(&self.domain, name, identity.as_ref(), account);
        }
    }

    /// A thing cannot be recorded yet: what it has by now may not be this recorder's.
    fn note_refused(&mut self, kind: Kind, name: &str, identity: Option<&Identity>) {
        if !self.account.is_beginning() {
            return;
        }
        let is_noted = kind == Kind::Topic
            && source::note_present(&self.domain, name, identity, &mut self.account).is_ok();
        if !is_noted {
            self.account.note_unread(name, identity);
        }
    }
}

/// Returns what is to be told of what is missing, and counts it as told.
fn missing_events(source: &mut dyn Source) -> Vec<Value> {
    let missing = source.missing_mut();
    let counts = [("lost", missing.untold_lost()), ("skipped", missing.untold_skipped())];
    missing.tell_lost(counts[0].1);
    missing.tell_skipped(counts[1].1);
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    let topic = source.channel();
    counts.map(|(kind, count)| json!({"event": kind, "topic": topic, "count": count})).collect()
}
