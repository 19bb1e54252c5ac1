//! Sleeping until a message comes: on the topic's eventcount with a relay (wake/event_count.rs).
//!
//! | a publisher dies, or is stopped | what becomes of it |
//! | --- | --- |
//! | before `ready` | died: one sleeper wakes for nothing |
//! | between that and its notification | died: the kernel wakes one sleeper, who finds the message and nobody notified: it notifies all. Stopped: the next who publishes does, or the first sleeper that looks by itself |
//!
//! A sleeper watches the slots themselves, too: one who published after the look and died would have found nobody asleep.

use super::error::SubscribeError;
use super::file::Shared;
use super::layout::MOST_RINGS;
use super::message::Message;
use super::slot::Slot;
use super::subscriber::Subscriber;
use crate::liveness::Me;
use crate::sys::futex::Watch;
use crate::sys::robust::WakeRelay;
use crate::wake::Sleep;
use crate::wake::Ticket;
use crate::{Deadline, Error};

/// Waits until there is something at a cursor, or the deadline has passed.
pub(super) fn wait<M: Message + ?Sized>(
    subscriber: &Subscriber<M>,
    me: Me,
    deadline: Deadline,
) -> Result<(), SubscribeError> {
    let shared = &*subscriber.shared;
    if subscriber.is_ready() || shared.spin_wait.spin(|| subscriber.is_ready()) {
        return Ok(());
    }
    let arrivals = &shared.head().arrivals;
    let pass = WakeRelay::begin(me.list());
    pass.to(arrivals.relay());
    loop {
        let ticket = arrivals.count().prepare_wait();
        let slots = (0..subscriber.ring_count()).map(|ring| subscriber.slot(ring, subscriber.cursor(ring)));
        let seen = Seen::now(shared, ticket, subscriber.ring_count() as u32, slots);
        if subscriber.is_ready() || deadline.has_passed() {
            return Ok(());
        }
        Sleep::on(shared.registry, seen.watches())
            .among_others_until(ticket.until(deadline))
            .map_err(|errno| SubscribeError::System(Error::from_errno("wait for", shared.segment.path(), errno)))?;
        arrivals.woken(ticket, || subscriber.is_ready());
    }
}

/// The words that change when something comes, as they were.
pub(super) struct Seen<'s> {
    watches: [Watch<'s>; MOST_RINGS + 3],
    len: usize,
}

impl<'s> Seen<'s> {
    /// To one who looks at so many rings, in each at that slot.
    pub(super) fn now(
        shared: &'s Shared,
        ticket: Ticket,
        rings: u32,
        slots: impl Iterator<Item = &'s Slot>,
    ) -> Seen<'s> {
        let [relay, sequence] = shared.head().arrivals.watches(ticket);
        let rings = Watch { word: &shared.head().rings, expected: rings };
        let mut seen = Seen { watches: [rings; MOST_RINGS + 3], len: 3 };
        // The place to sleep at comes first.
        (seen.watches[0], seen.watches[1]) = (relay, sequence);
        for slot in slots.take(MOST_RINGS) {
            seen.watches[seen.len] = slot.watch();
            seen.len += 1;
        }
        seen
    }

    pub(super) fn watches(&self) -> &[Watch<'s>] {
        &self.watches[..self.len]
    }
}
