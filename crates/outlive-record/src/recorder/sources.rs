//! Which things a recorder has open: they come, go, fail, and miss messages.

use std::time::Instant;

use outlive::{Kind, WaitStrategy};
use serde_json::json;

use super::{AGAIN, Recorder};
use crate::error::Error;
use crate::source::{self, Account, Beginning};

impl Recorder {
    /// Opens topics that have come, and lets go of those that have been removed. `beginning`: of those that have come.
    pub(super) fn look_for_topics(&mut self, beginning: Beginning) -> Result<(), Error> {
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
            let prefix = source.prefix();
            self.positions.retain(|key, _| !key.starts_with(&prefix));
            self.count_missing(source.account());
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
            let (options, positions) = (&self.options, &self.positions);
            // One that was there at the beginning and could not be looked at: what it had before is not known.
            let is_new = beginning.is_new && !self.unknown.contains(&name);
            let beginning = Beginning { is_new, ..beginning };
            let opened = source::open(kind, &self.domain, &name, options, positions, beginning);
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
                    if !beginning.is_new {
                        self.note_refused(kind, &name);
                    }
                    self.refused.insert(name, why);
                    continue;
                }
            };
            self.unknown.remove(&name);
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
            self.count_missing(source.account());
            source.unwatch(&mut self.set);
            source.abandon();
            self.tell(&json!({"event": "error", "topic": name, "why": why}))?;
            self.refused.insert(name, why);
            self.look_at = Some(Instant::now() + AGAIN);
        }
        Ok(())
    }

    /// Messages that were overwritten before they were taken, or sent while none was to record; also by what a
    /// predecessor has left.
    pub(super) fn tell_missing(&mut self, at: usize) -> Result<(), Error> {
        let lost = self.sources[at].account().untold_lost();
        if lost > 0 {
            self.tell(
                &json!({"event": "lost", "topic": self.sources[at].channel(), "count": lost}),
            )?;
            // Behind it: the positions say so in the event's group.
            self.sources[at].account_mut().tell_lost(lost);
        }
        let skipped = self.sources[at].account().untold_skipped();
        if skipped > 0 {
            let topic = self.sources[at].channel();
            self.tell(&json!({"event": "skipped", "topic": topic, "count": skipped}))?;
            self.sources[at].account_mut().tell_skipped(skipped);
        }
        Ok(())
    }

    /// A source goes, and its counts stay.
    fn count_missing(&mut self, account: &Account) {
        self.counts.lost = self.counts.lost.saturating_add(account.lost());
        self.counts.skipped = self.counts.skipped.saturating_add(account.skipped());
    }

    /// A thing that was there when the recorder began cannot be recorded yet: what it has had by now does not count.
    fn note_refused(&mut self, kind: Kind, name: &str) {
        let is_noted = kind == Kind::Topic
            && source::note_present(&self.domain, name, &mut self.positions).is_ok();
        if !is_noted {
            self.unknown.insert(name.to_owned());
        }
    }
}
