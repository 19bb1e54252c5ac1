//! How a stand-in publishes what has come: at once where there is room, else when there is. The network goes
//! on meanwhile, and what comes waits ahead.

use std::sync::Arc;
use std::time::Duration;

use outlive::SendError;
use outlive::describe::Description;
use outlive::topic::{Outgoing, Publisher};

use super::{GATHERED, Line, Message, Receiver};
use crate::journal::Entry;
use crate::told::Event;

/// A payload up to this length goes by way of one slice.
const SHORT: usize = 4096;
/// How long the thread that waits for room sleeps at most.
const SLICE: Duration = Duration::from_millis(100);

impl Receiver {
    /// Opens the stand-in, unless it is there. False: all rings are in use, or why was told.
    pub(super) fn stand_in(&self, session: u32, line: &mut Line) -> bool {
        if line.stand_in.is_some() || line.is_blocked {
            return true;
        }
        match self.topic.publisher_with(Publisher::options().foreign(true)) {
            Ok(publisher) => {
                line.stand_in = Some(publisher);
                let event = Event::of("came", &self.name).from(self.origin).session(session);
                self.context.told.tell(&event);
                true
            }
            // Those of streams that end are given up.
            Err(outlive::Error::TooMany { .. }) => false,
            Err(error) => {
                self.refuse(session, line, &error.to_string());
                false
            }
        }
    }

    /// Publishes the next message, or has a thread wait for room.
    pub(super) fn try_publish(
        self: &Arc<Receiver>,
        session: u32,
        line: &mut Line,
        message: Message,
    ) {
        if !self.stand_in(session, line) {
            line.stream.put_back(message.payload.len(), message);
            (line.is_blocked, line.waits_for_ring) = (true, true);
            let theirs = Arc::clone(self);
            self.context.later.after(SLICE, move || theirs.unblock(session));
            return;
        }
        let Some(stand_in) = &line.stand_in else {
            line.stream.put_back(message.payload.len(), message);
            return;
        };
        if stand_in.try_wait_writable().is_err() {
            self.wait_for_room(session, line, message);
            return;
        }
        let next = line.stream.next().unwrap_or(0);
        match publish(
            stand_in,
            (&line.entry, self.local),
            next,
            &message,
            self.description.as_ref(),
        ) {
            Ok(()) => self.is_published(line),
            Err(SendError::NoSpace { .. } | SendError::Full { .. }) => {
                self.wait_for_room(session, line, message);
            }
            Err(error) => {
                self.refuse(session, line, &error.to_string());
                self.is_published(line);
            }
        }
    }

    /// There was no ring for a stand-in: tries again.
    pub(super) fn unblock(self: &Arc<Receiver>, session: u32) {
        let mut state = self.state();
        let line = state.lines.get_mut(&session).filter(|line| line.waits_for_ring);
        let Some(line) = line else { return };
        (line.is_blocked, line.waits_for_ring) = (false, false);
        self.go_on(&mut state, session);
        drop(state);
        self.acknowledge_after(GATHERED);
    }

    fn is_published(&self, line: &mut Line) {
        line.stream.published();
        if let Some(next) = line.stream.next() {
            line.entry.set_next(next);
        }
    }

    /// A thread of its own publishes it when there is room: what comes meanwhile waits ahead, and the network
    /// goes on.
    fn wait_for_room(self: &Arc<Receiver>, session: u32, line: &mut Line, message: Message) {
        let Some(stand_in) = line.stand_in.take() else {
            line.stream.put_back(message.payload.len(), message);
            return;
        };
        line.is_blocked = true;
        let theirs = Arc::clone(self);
        let wait = move || theirs.publish_slowly(session, stand_in, message);
        if let Err(error) = std::thread::Builder::new().name("gateway-room".into()).spawn(wait) {
            // The stand-in and the message went with the closure. The message was in the stream's hands, and
            // so is passed over.
            line.is_blocked = false;
            self.refuse(session, line, &error.to_string());
            self.is_published(line);
        }
    }

    fn publish_slowly(self: &Arc<Receiver>, session: u32, stand_in: Publisher, message: Message) {
        while !self.is_closed() {
            if stand_in.wait_writable_timeout(SLICE).is_err() {
                continue;
            }
            let mut state = self.state();
            let Some(line) = state.lines.get_mut(&session) else { return };
            let next = line.stream.next().unwrap_or(0);
            match publish(
                &stand_in,
                (&line.entry, self.local),
                next,
                &message,
                self.description.as_ref(),
            ) {
                Err(SendError::NoSpace { .. } | SendError::Full { .. }) => {
                    drop(state);
                    // Memory comes back when a subscriber lets go of a sample, which wakes no publisher.
                    std::thread::sleep(SLICE / 10);
                    continue;
                }
                Err(error) => self.refuse(session, line, &error.to_string()),
                Ok(()) => {}
            }
            line.is_blocked = false;
            self.is_published(line);
            let is_reachable = !state.epochs.is_empty();
            if is_reachable && let Some(line) = state.lines.get_mut(&session) {
                line.stand_in = Some(stand_in);
            } else {
                stand_in.disown();
            }
            self.go_on(&mut state, session);
            self.ask_if_behind(&mut state, session);
            drop(state);
            // At once: the publisher elsewhere may wait for this message's room, as this thread did.
            self.acknowledge_after(Duration::ZERO);
            return;
        }
    }
}

/// Publishes message `next` of a stream: the slices that came are gathered once, into the loan.
fn publish(
    stand_in: &Publisher,
    (entry, local): (&Entry, u64),
    next: u64,
    message: &Message,
    description: Option<&Description>,
) -> Result<(), SendError> {
    let len = message.payload.len();
    if let Some(description) = description
        && !description.fits(len)
    {
        return Err(SendError::OtherLength { len: len as u64, wanted: description.size() });
    }
    let header = message.attachment.header;
    let intend = || {
        entry.intend(
            next,
            local,
            stand_in.ring_index(),
            stand_in.session(),
            stand_in.next_sequence(),
        )
    };
    if len <= SHORT {
        let bytes = message.payload.to_bytes();
        intend();
        return stand_in.try_publish(Outgoing::new(&*bytes).header(header)).map(drop);
    }
    let mut loan = stand_in.loan(len)?;
    let mut rest = &mut loan[..];
    for slice in message.payload.slices() {
        let (these, others) = rest.split_at_mut(slice.len().min(rest.len()));
        these.copy_from_slice(&slice[..these.len()]);
        rest = others;
    }
    loan.set_header(header);
    intend();
    stand_in.try_publish(loan).map(drop)
}
