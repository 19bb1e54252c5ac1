//! What lies in a queue and is unread, for a thread that does not receive: it reads shared words and
//! changes none.
//!
//! The head alone does not tell where the unread messages begin. A receiver that has given a slot
//! back and stands still, or was killed, before it moved the head leaves it one short; and while a
//! thread looks, the head may move past all that it looks at. So a look begins where the claim at
//! the head says (`next_unread`), and one that found nothing counts only if nothing was received
//! meanwhile: then there was nothing when it began. doc/protocols/queue.md has the argument.

use super::layout::{CLOSED, MOST_REGIONS, Meta, SEALED, pack, published, within};
use super::queue::{Queue, Tally};
use super::sweep::is_given_back;
use crate::shim::Ordering;
use crate::{Error, Payload};

/// How often messages may be received during a look before the answer is that there are some.
pub(super) const MOST_MOVES: usize = 64;

/// How often the receiver may move while its words are read.
const MOST_LOOKS: usize = 1000;

/// Whether a look found messages.
#[derive(PartialEq, Eq)]
enum Seen {
    Some,
    None,
    /// It found none, and each time some had been received meanwhile.
    Moving,
}

/// Slots with messages that follow each other, and have equally many.
struct Run {
    region: u32,
    first: u64,
    slots: u64,
    meta: Meta,
}

impl Run {
    /// Returns how many of the slots are at that place, or behind it.
    fn from(&self, (region, position): (u32, u64)) -> u64 {
        match self.region.cmp(&region) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Greater => self.slots,
            std::cmp::Ordering::Equal => {
                self.slots.saturating_sub(position.saturating_sub(self.first))
            }
        }
    }
}

/// The receiver's words about what it has received, as they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    region: u32,
    head: u64,
    /// Whether the slot at the head is given back, and only the head has still to move.
    is_ahead: bool,
    journal: u64,
    /// Received and abandoned, as of the journal.
    next: (u64, u64),
    /// The same, counted.
    counted: (u64, u64),
}

impl Progress {
    /// Returns the first slot that has not been received to its end.
    pub(super) fn place(&self) -> (u32, u64) {
        (self.region, self.head.wrapping_add(u64::from(self.is_ahead)))
    }

    /// Returns how many messages were received, and how many slots were abandoned, before that place.
    /// Where the receiver is, or has died, between giving a slot back and counting it, its journal
    /// has them.
    pub(super) fn settled(&self) -> (u64, u64) {
        let is_noted = self.journal == pack(self.region, self.head, 0);
        if self.is_ahead && is_noted { self.next } else { self.counted }
    }
}

impl<M: Payload + ?Sized> Queue<M> {
    /// Counts the messages in the queue, and what became of those before.
    ///
    /// The receiver goes on meanwhile. What counts as unread was seen in its slot, and its slot is not
    /// received yet at the moment, after all slots, at which `received` is read. So no message counts
    /// twice; and one that counted in an earlier tally is received by then, or was in its slot during
    /// the whole look. Only what is sent during the look may wait for the next one.
    pub(super) fn tally(&self) -> Result<Tally, Error> {
        // Mostly one, or one for each region.
        let mut runs: Vec<Run> = Vec::new();
        let seen = self.each_unread(|(region, position), meta| {
            match runs.last_mut() {
                Some(run)
                    if (run.region, run.first + run.slots) == (region, position)
                        && run.meta.batch == meta.batch =>
                {
                    run.slots += 1;
                }
                _ => runs.push(Run { region, first: position, slots: 1, meta }),
            }
            true
        })?;
        let (now, progress) = self.progress()?;
        let (region, position) = now.place();
        let unread: u64 =
            runs.iter().map(|run| run.from((region, position)) * run.meta.messages()).sum();
        let of_batch = runs.iter().find(|run| {
            run.meta.batch > 0
                && run.region == region
                && (run.first..run.first + run.slots).contains(&position)
                && progress & !0xff_ffff == pack(region, position, 0)
        });
        let in_batch =
            of_batch.map_or(0, |run| u64::from(within(progress)).min(run.meta.messages()));
        let (received, abandoned) = now.settled();
        let received = received.saturating_add(in_batch);
        let pending = unread - in_batch;
        Ok(Tally {
            sent: received.saturating_add(pending),
            received,
            abandoned,
            pending: if seen == Seen::Moving { 1 } else { pending },
        })
    }

    /// Returns the receiver's words of one moment, and its word about a batch at that moment. Each of
    /// them only grows, so words that two looks in a row agree upon were there together between the
    /// two. If the receiver moves during each of so many looks, a count may be one too high.
    fn progress(&self) -> Result<(Progress, u64), Error> {
        let in_batch = &self.inner.ring.head().receiver_words.progress;
        let mut last = self.look_at_progress()?;
        let mut progress = 0;
        for _ in 0..MOST_LOOKS {
            progress = in_batch.load(Ordering::Acquire);
            let now = self.look_at_progress()?;
            if now == last {
                break;
            }
            last = now;
        }
        Ok((last, progress))
    }

    pub(super) fn look_at_progress(&self) -> Result<Progress, Error> {
        let ring = &self.inner.ring;
        let words = &ring.head().receiver_words;
        let (region, head) = self.head_place()?;
        // Acquire: one after the other, so that those of a second look come after all of the first.
        let load = |word: &crate::shim::AtomicU64| word.load(Ordering::Acquire);
        Ok(Progress {
            region,
            head,
            is_ahead: is_given_back(ring, region, ring.limit(region)?, head),
            journal: load(&words.journal),
            next: (load(&words.next_received), load(&words.next_abandoned)),
            counted: (load(&words.received), load(&words.abandoned)),
        })
    }

    /// Returns the receiver's region, and its head there.
    fn head_place(&self) -> Result<(u32, u64), Error> {
        let ring = &self.inner.ring;
        let region = ring.head().receiver_words.region.load(Ordering::Acquire);
        if region >= ring.regions() {
            return Err(ring.segment.damaged("the receiver's region"));
        }
        let words = &ring.head().regions_words[region as usize % MOST_REGIONS];
        Ok((region, words.head.load(Ordering::Acquire)))
    }

    /// Returns whether a message is in the queue.
    pub(super) fn has_unread(&self) -> Result<bool, Error> {
        Ok(self.each_unread(|_, _| false)? != Seen::None)
    }

    /// Returns the place of the first message that has not been received, or where the next one
    /// will lie: the same place twice means that none was received in between.
    pub(super) fn next_unread(&self) -> Result<(u32, u64), Error> {
        let ring = &self.inner.ring;
        let (region, head) = self.head_place()?;
        let ahead = is_given_back(ring, region, ring.limit(region)?, head);
        Ok((region, head.wrapping_add(u64::from(ahead))))
    }

    /// Shows `see` each slot that has a message, until that returns `false`: the place, and what
    /// lies there.
    fn each_unread(&self, mut see: impl FnMut((u32, u64), Meta) -> bool) -> Result<Seen, Error> {
        let mut first = self.next_unread()?;
        for _ in 0..MOST_MOVES {
            if self.look_from(first, &mut see)? {
                return Ok(Seen::Some);
            }
            let now = self.next_unread()?;
            if now == first {
                return Ok(Seen::None);
            }
            first = now;
        }
        Ok(Seen::Moving)
    }

    /// Does so from that place on; returns whether there was one.
    fn look_from(
        &self,
        (first, from): (u32, u64),
        see: &mut impl FnMut((u32, u64), Meta) -> bool,
    ) -> Result<bool, Error> {
        let ring = &self.inner.ring;
        let mut found = false;
        for region in first..ring.regions() {
            let words = &ring.head().regions_words[region as usize % MOST_REGIONS];
            let from = if region == first { from } else { words.head.load(Ordering::Acquire) };
            // One more than the tail: a slot may be READY although its sender died before it moved
            // the tail.
            let to = (words.tail.load(Ordering::Acquire) & !CLOSED).saturating_add(1);
            // After the tail: each position before it has its place under this limit.
            let limit = ring.limit(region)?;
            for position in from..to.min(from.saturating_add(limit & !SEALED)) {
                let Some(place) = ring.place(region, limit, position) else {
                    break;
                };
                let slot = ring.slot(region, place.index);
                // Not counted if it was given back and only the head has still to move.
                if slot.head.ready.load(Ordering::Acquire) == published(place.lap)
                    && !is_given_back(ring, region, limit, position)
                {
                    found = true;
                    let meta = Meta::decode(slot.head.meta.load(Ordering::Relaxed));
                    if !see((region, position), meta) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::Queue;
    use crate::Domain;

    /// What monitors show as counters: each look at a queue in use finds as many as the one before,
    /// or more.
    #[test]
    fn the_counts_of_a_queue_in_use_never_fall() {
        let folder = std::env::temp_dir().join(format!("outlive-tally-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let queue = Queue::<u64>::open_or_create(&domain, "q").expect("made");
        let done = AtomicBool::new(false);
        let fell = std::thread::scope(|threads| {
            threads.spawn(|| {
                let sender = queue.sender().expect("a sender");
                for burst in 0..300_u64 {
                    match burst % 2 {
                        0 => (0..500).for_each(|n| sender.send(&n).expect("room")),
                        _ => {
                            let all: Vec<u64> = (0..500).collect();
                            sender.send_batch(&all).expect("room");
                        }
                    }
                    while queue.has_unread().expect("readable") {
                        std::thread::yield_now();
                    }
                }
                done.store(true, Ordering::Relaxed);
            });
            threads.spawn(|| {
                let mut receiver = queue.receiver().expect("the first");
                while !done.load(Ordering::Relaxed) {
                    while receiver.try_recv().expect("whole").is_some() {}
                }
            });
            let (mut last, mut fell) = ((0, 0), None);
            while !done.load(Ordering::Relaxed) {
                let counts = queue.counters().expect("readable");
                let now = (counts.sent, counts.received);
                if now.0 < last.0 || now.1 < last.1 || now.1 > now.0 {
                    fell = fell.or(Some((last, now)));
                }
                last = now;
            }
            fell
        });
        let counts = queue.counters().expect("readable");
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(fell, None, "(sent, received) before and after");
        assert_eq!((counts.sent, counts.received, counts.pending), (150_000, 150_000, 0));
    }
}
