//! The senders of a queue: the table into which a sender's process writes its name, so that the
//! receiver learns when the last one has gone.
//!
//! Other tables of claims (a semaphore's permits, a topic's rings and subscriber slots, a service's
//! client slots) differ in what makes an entry free and in what a taker does next; so this table's
//! loop is its own.

use super::Inner;
use super::layout::{SENDER_SEEN, SENDERS_UNLISTED};
use crate::Error;
use crate::liveness::TokenId;
use crate::shim::Ordering;

/// A sender's place in the table.
pub(super) struct SenderEntry {
    index: usize,
    process: TokenId,
}

/// Writes the calling process into the table of senders. `None`: the table is full, which is noted.
pub(super) fn enter_sender(inner: &Inner) -> Result<Option<SenderEntry>, Error> {
    let process = inner.registry.process_token()?;
    let head = inner.ring.head();
    for (index, entry) in inner.ring.senders().iter().enumerate() {
        let word = entry.load(Ordering::Relaxed);
        let taken = TokenId::from_word(word).is_some_and(|id| inner.registry.is_alive(id));
        if !taken
            && entry
                .compare_exchange(word, process.as_u32(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            // Behind the entry: a receiver that sees this and no living sender is told that all have
            // gone. Release pairs with `senders`. Died just before: as if it had never come.
            head.senders_seen.fetch_or(SENDER_SEEN, Ordering::Release);
            return Ok(Some(SenderEntry { index, process }));
        }
    }
    head.senders_seen.fetch_or(SENDER_SEEN | SENDERS_UNLISTED, Ordering::Release);
    Ok(None)
}

pub(super) fn leave_sender(inner: &Inner, entry: SenderEntry) {
    // A forked child's copy is not in the table.
    if inner.registry.process_token_if_any() != Some(entry.process) {
        return;
    }
    let word = &inner.ring.senders()[entry.index];
    // From our own name: had we been declared dead, the entry may be another process's. If this
    // thread died just before, the table names a dead process, whose token the receiver
    // watches. Just after, the receiver watches another sender's token, or this one's, whose end is
    // near.
    let own = entry.process.as_u32();
    let _ = word.compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed);
    inner.notify_receiver();
}

/// Which senders live.
pub(super) enum Senders {
    /// This one, and perhaps others.
    Some(TokenId),
    /// Unknown: there are, or were, more senders than the table has room for.
    Unknown,
    /// There never was a sender.
    NeverSeen,
    /// All senders have gone.
    Gone,
}

pub(super) fn senders(inner: &Inner) -> Senders {
    let seen = inner.ring.head().senders_seen.load(Ordering::Acquire);
    let alive = inner
        .ring
        .senders()
        .iter()
        .filter_map(|entry| TokenId::from_word(entry.load(Ordering::Acquire)))
        .find(|&id| inner.registry.is_alive(id));
    match alive {
        Some(id) => Senders::Some(id),
        None if seen & SENDERS_UNLISTED != 0 => Senders::Unknown,
        None if seen & SENDER_SEEN == 0 => Senders::NeverSeen,
        None => Senders::Gone,
    }
}
