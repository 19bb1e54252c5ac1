//! A subscriber as a wait set sees it: whether there is something, and how to be told. By shared words alone, from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};

use super::arrive::Seen;
use super::file::Shared;
use super::layout::{Claim, LineWords};
use super::message::Message;
use super::slot::{Look, Slot};
use super::subscriber::Subscriber;
use crate::liveness::Registry;
use crate::shim::Ordering;
use crate::wake::WaitWords;
use crate::wake::{EventCount, RelayedEventCount, Ticket};

/// See the file's head. It keeps the topic mapped.
#[derive(Clone)]
pub(crate) struct Inbox {
    shared: Arc<Shared>,
    line: u32,
    /// As long as it says this, the line is the subscriber's, or one's of the same process that came after it.
    claim: u64,
    /// The subscriber has left.
    left: Arc<AtomicBool>,
}

/// What stands for the order of a message that was overwritten or given up: less than any.
pub(super) const GONE: u64 = 0;

impl Shared {
    /// Whether there is something at a cursor, to be taken or to be passed over: its order. Of a ring whose slots exist.
    #[inline]
    pub(super) fn peek(&self, ring: u32, slot: &Slot, position: u64) -> Option<u64> {
        match slot.look(position) {
            Look::There => {
                let order = slot.facts().order;
                // Overwritten meanwhile, that was another message's. Damaged, it may be 0, and is not gone.
                Some(if slot.is_still(position) { order.max(GONE + 1) } else { GONE })
            }
            Look::Overwritten => Some(GONE),
            // Given up, or being written. Who takes it looks once more.
            Look::NotThere if slot.position().is_none() => (self.published(ring) > position).then_some(GONE),
            Look::NotThere => None,
        }
    }
}

impl<M: Message + ?Sized> Subscriber<M> {
    pub(crate) fn inbox(&self) -> Inbox {
        let (shared, line) = (Arc::clone(&self.shared), self.line());
        let claim = self.words().claim.load(Ordering::Relaxed);
        Inbox { shared, line, claim, left: Arc::clone(self.told_left.get_or_init(Arc::default)) }
    }
}

impl Inbox {
    pub(crate) fn registry(&self) -> &'static Registry {
        self.shared.registry
    }

    fn words(&self) -> Option<&LineWords> {
        // Relaxed: the line may be another subscriber's of this process only after that was stored, and who is shown one look of it
        // sees the next time that it has left.
        if self.left.load(StdOrdering::Relaxed) {
            return None;
        }
        let words = self.shared.line(self.line).ok()?;
        // Acquire: the cursors of whoever has it. Somebody else's: the subscriber is gone, and nothing comes.
        (words.claim.load(Ordering::Acquire) == self.claim && Claim::of(self.claim).is_some()).then_some(words)
    }

    /// Each ring's slot at the cursor.
    fn slots<'i>(&'i self, words: &'i LineWords) -> impl Iterator<Item = (u32, &'i Slot, u64)> {
        (0..self.shared.rings()).filter_map(|ring| {
            let position = words.cursors[ring as usize].load(Ordering::Relaxed);
            let slots = self.shared.slots(ring).ok()?;
            Some((ring, &slots[(position & (slots.len() as u64 - 1)) as usize], position))
        })
    }

    /// Whether a try to receive is worth it.
    pub(crate) fn has_something(&self) -> bool {
        let Some(words) = self.words() else { return false };
        self.slots(words).any(|(ring, slot, position)| self.shared.peek(ring, slot, position).is_some())
    }

    fn arrivals(&self) -> &RelayedEventCount {
        &self.shared.head().arrivals
    }

    /// What publishers notify.
    pub(crate) fn event_count(&self) -> &EventCount {
        self.arrivals().count()
    }

    /// Adds the words to sleep on: see arrive.rs.
    pub(crate) fn add_to<'a>(&'a self, ticket: Ticket, into: &mut WaitWords<'a>) {
        let slots = self.words().into_iter().flat_map(|words| self.slots(words)).map(|(_, slot, _)| slot);
        into.add(Seen::now(&self.shared, ticket, self.shared.rings(), slots).watches());
        into.relay_by(self.arrivals().relay());
    }

    /// After a sleep on them.
    pub(crate) fn woken(&self, ticket: Ticket) {
        self.arrivals().woken(ticket, || self.has_something());
    }
}
