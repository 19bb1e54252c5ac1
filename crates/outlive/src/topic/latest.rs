//! [`Subscriber::latest`]: the newest message, whatever came before it.

use super::durability::vouched_from;
use super::newest::{Rings, newest_in, older_end};
use super::recv::Took;
use super::sample::Sample;
use super::slot::Slot;
use super::subscriber::Subscriber;
use crate::durability::Durability;
use crate::{Payload, RecvError};

impl<M: Payload + ?Sized> Rings for Subscriber<M> {
    fn depth(&self) -> u64 {
        u64::from(self.inner.plan.depth)
    }

    fn published(&self, ring: usize) -> u64 {
        self.inner.published(ring as u32)
    }

    fn slot(&self, ring: usize, position: u64) -> &Slot {
        self.slot(ring, position)
    }
}

impl<M: Payload + ?Sized> Subscriber<M> {
    /// Returns from which message on a ring's messages count as there, by the durability; `None`:
    /// none does.
    fn vouched_from(&self, ring: usize) -> Option<u64> {
        let durability = self.options.durability.unwrap_or_else(|| self.inner.durability());
        if durability == Durability::Persistent {
            return Some(0);
        }
        let from = vouched_from(&self.inner, ring as u32)?;
        let is_volatile = durability == Durability::Volatile;
        let joined_at = self.joined_at.get(ring).copied().filter(|_| is_volatile);
        Some(from.max(joined_at.unwrap_or(0)))
    }

    /// Returns the newest message that is there, as the topic's
    /// [durability](super::TopicOptions::durability) has it: unless that is persistent, the newest
    /// one of the publishers that live. This subscriber may have taken it before. Older messages are
    /// passed over, and do not count as lost; a newer one that comes meanwhile stays to be received.
    /// Returns `None` when no message is there, or when the newest one has none of the subscriber's
    /// keys, or is older than its [`max_age`](super::SubscriberOptions::max_age).
    ///
    /// # Errors
    /// The errors of [`Subscriber::try_recv`].
    ///
    /// # If a process dies
    /// The same as with [`Subscriber::try_recv`].
    pub fn latest(&mut self) -> Result<Option<Sample<M>>, RecvError> {
        self.enter()?;
        self.meet_rings()?;
        if self.is_timed {
            // Not where a message has come: what it brings goes first.
            self.tell()?;
        }
        // Overwritten while it is looked at, there is a newer one: bounded, since what is damaged
        // may be so for ever.
        for _ in 0..1000 {
            let places = (0..self.cursors.len()).filter_map(|ring| {
                let (order, position) = newest_in(self, ring)?;
                (position >= self.vouched_from(ring)?).then_some(((order, ring), position))
            });
            let Some((newest, position)) = places.max() else { return Ok(None) };
            let (_, ring) = newest;
            let taken = match self.take(ring, position) {
                Took::Yes(taken) => {
                    if let Some(expected) = &self.expected
                        && position >= self.cursors[ring]
                    {
                        expected.taken();
                    }
                    Some(Sample::new(taken))
                }
                Took::Unwanted => None,
                Took::Expired => {
                    // Once, however often it is asked for.
                    let is_new = position >= self.cursors[ring];
                    self.expired = self.expired.saturating_add(u64::from(is_new));
                    None
                }
                Took::No => continue,
                Took::NewSession(session) => return Err(self.told_of(ring, session)),
                Took::Told(told) => return Err(*told),
                Took::TooManyHeld => return Err(RecvError::TooManyHeld),
                Took::Unknown(error) => return Err((*error).into()),
                Took::OtherLength => return Err(RecvError::Encoding(M::METADATA.other_length())),
                Took::Refused(why) => return Err(RecvError::Encoding(why.into_string())),
                Took::Damaged(what) => {
                    return Err(RecvError::Damaged(self.inner.segment.damaged(what)));
                }
            };
            // A ring that was made before this message was published: what is older there is passed
            // over, too.
            if self.watched.has_changed(&self.inner) {
                self.meet_rings()?;
            }
            for other in 0..self.cursors.len() {
                let cursor = self.cursors[other];
                let end = if other == ring {
                    cursor.max(position + 1)
                } else {
                    older_end(self, other, cursor, newest)
                };
                if end != cursor {
                    self.advance(other, end);
                }
            }
            return Ok(taken);
        }
        Err(RecvError::Damaged(self.inner.segment.damaged("a ring's last message")))
    }
}
