//! What a receiver says to its sender: which messages are missing, and which it has. And what it makes of
//! the answer (resume.rs).
//!
//! One question of a topic is under way at a time. A question that is cut short, or whose answer leaves
//! something missing, is asked again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use zenoh::Wait;
use zenoh::qos::CongestionControl;
use zenoh::query::{ConsolidationMode, Reply};

use super::{Line, Receiver, State};
use crate::keys;
use crate::told::Event;
use crate::topics::resume::{HIGHEST, Summary};
use crate::topics::stream::Ending;
use crate::wire::{self, Attachment};

/// How long a message may be on its way before the sender is asked for it.
pub(super) const PATIENCE: Duration = Duration::from_millis(20);

impl Receiver {
    pub(super) fn ask_if_behind(self: &Arc<Receiver>, state: &mut State, session: u32) {
        let lacks = state.lines.get(&session).is_some_and(Line::lacks);
        // Not here: the state is locked. One look is for all messages that have come by then.
        if lacks && !state.is_due && !std::mem::replace(&mut state.looks_soon, true) {
            let theirs = Arc::clone(self);
            self.context.later.after(PATIENCE, move || theirs.ask_if_still_behind());
        }
    }

    fn ask_if_still_behind(self: &Arc<Receiver>) {
        let mut state = self.state();
        state.looks_soon = false;
        let is_behind = state.lines.values().any(Line::lacks);
        drop(state);
        if is_behind {
            self.ask_after(Duration::ZERO);
        }
    }

    /// Asks the sender, after a while, for all that is missing.
    pub(super) fn ask_after(self: &Arc<Receiver>, span: Duration) {
        let mut state = self.state();
        if state.is_asking {
            state.asks_again = true;
        } else if !state.is_due {
            state.is_due = true;
            let theirs = Arc::clone(self);
            self.context.later.after(span, move || theirs.ask());
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
        let highest = *highest;
        drop(state);
        let key = keys::message("resume", self.origin, self.instance);
        let question = wire::numbers_to_bytes(
            self.context.origin(),
            asked
                .iter()
                .map(|(session, next)| (*session, *next))
                .chain(highest.map(|highest| (HIGHEST, u64::from(highest)))),
        );
        let mut answer = Answer {
            receiver: Arc::clone(self),
            asked,
            known,
            highest,
            came: HashMap::new(),
            is_whole: false,
        };
        let get = self
            .context
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
            self.context.told.tell(&Event::of("refused", &self.name).because(&error.to_string()));
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
            self.context.later.after(PATIENCE * 5, move || theirs.ask_if_still_behind());
        }
    }

    /// Applies the end of an answer.
    fn summarized(self: &Arc<Receiver>, answer: &Answer, summary: &Summary) {
        let Answer { asked, known, .. } = answer;
        let mut state = self.state();
        let mut ended: HashMap<u32, (u64, Ending)> = HashMap::new();
        for &(session, until, left) in &summary.ended {
            ended.insert(session, (until, if left { Ending::Left } else { Ending::Died }));
        }
        for &(session, at) in &summary.at {
            let Some(line) = self.line(&mut state, session) else { continue };
            if line.stream.next().is_none() {
                if answer.covers(session) {
                    line.stream.begin(at);
                }
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
                    if answer.covers(session) {
                        line.stream.begin(until);
                    }
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
    pub(super) fn acknowledge_after(self: &Arc<Receiver>, span: Duration) {
        let mut state = self.state();
        if state.is_ack_due && !span.is_zero() {
            return;
        }
        state.is_ack_due = true;
        (state.unacknowledged, state.unacknowledged_bytes) = (0, 0);
        drop(state);
        let theirs = Arc::clone(self);
        self.context.later.after(span, move || theirs.acknowledge());
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
        let bytes = wire::numbers_to_bytes(self.context.origin(), numbers);
        // Dropped where the network is busy: the sender's next word about how far it is brings another.
        let put = self.context.session.put(key, bytes).congestion_control(CongestionControl::Drop);
        if let Err(error) = put.wait() {
            self.context.told.tell(&Event::of("refused", &self.name).because(&error.to_string()));
        }
    }
}

/// An answer that is coming.
struct Answer {
    receiver: Arc<Receiver>,
    asked: HashMap<u32, u64>,
    /// All sessions that were known as it was asked.
    known: HashSet<u32>,
    /// The highest one of all times.
    highest: Option<u32>,
    /// How many messages have come, by session.
    came: HashMap<u32, u64>,
    is_whole: bool,
}

impl Answer {
    /// Whether what there is of a session, of which no number is known here, is in the answer. One that has
    /// become known since the question is in its list and not in its messages: it is asked for again.
    fn covers(&self, session: u32) -> bool {
        match self.highest {
            Some(highest) => session > highest || self.asked.contains_key(&session),
            None => self.known.contains(&session),
        }
    }

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
                    self.receiver.summarized(self, &summary);
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
