//! How a client asks: its request lies in its own call slot, and a bit sends the server there.
//!
//! | step | of | other processes see |
//! | --- | --- | --- |
//! | 1. asker, ticket, bytes into the slot | the client | nothing |
//! | 2. `asked` = {number, length} | the client | the call is asked: `asked` is one ahead of the claim; a new server finds it |
//! | 3. the slot's bit, by one atomic OR | the client | the server finds the slot |
//! | 4. claim → WRITING, clear the bit, copy, → TAKEN | the server | the call is begun |
//!
//! A client that is stopped or dies anywhere in 1 to 3 holds up no other client: no other request
//! lies behind its own. The slot decides whether a call is asked, and the bit only makes the server
//! look: a bit without a request costs one look, and a server that comes sets all bits.
//! doc/protocols/rpc.md, proof/models/rpc.pml and rpc_order.pml.

use super::call::{CallWords, Claim, next};
use crate::liveness::TokenId;
use crate::shim::{AtomicU32, AtomicU64, Ordering, fewer_under_loom};

/// Words of the bitmap: a bit for each slot of 1,024 client slots.
const BIT_WORDS: usize = fewer_under_loom(256, 1);

/// The words that clients and server share about all slots.
#[repr(C)]
#[cfg_attr(loom, derive(Default))]
pub(super) struct Asks {
    /// How many tickets have been drawn.
    tickets: AtomicU64,
    bits: [AtomicU64; BIT_WORDS],
}

crate::shim::assert_layout!(size_of::<Asks>() == 8 + 2048);

impl Asks {
    /// Draws a ticket, for the order in which the server takes what is asked.
    ///
    /// If the client dies just after, no call has the number.
    #[inline]
    pub(super) fn draw(&self) -> u64 {
        // Release pairs with `horizon`: the server sees the bits that this client has set before.
        self.tickets.fetch_add(1, Ordering::Release)
    }

    /// Returns the horizon: for tickets below it, the earlier bits of their clients are visible
    /// from now on.
    #[inline]
    pub(super) fn horizon(&self) -> u64 {
        // Acquire pairs with `draw`.
        self.tickets.load(Ordering::Acquire)
    }

    /// Step 3. For the present server, a client that dies or is stopped just before it has not
    /// asked, and a client that dies or is stopped just after it has asked.
    #[inline]
    pub(super) fn set(&self, slot: u32) {
        // Release pairs with `word` and `clear`: the server sees `asked`.
        self.bits[slot as usize / 64 % BIT_WORDS].fetch_or(1 << (slot % 64), Ordering::Release);
    }

    /// Clears a slot's bit. If the server dies just after, and has not taken the call, the next
    /// server sets all bits.
    #[inline]
    pub(super) fn clear(&self, slot: u32) {
        // Acquire pairs with `set`: the look that follows sees the `asked` of a slot whose bit this
        // cleared.
        self.bits[slot as usize / 64 % BIT_WORDS].fetch_and(!(1 << (slot % 64)), Ordering::AcqRel);
    }

    /// Returns the bits of slots 64 × `word` and on.
    #[inline]
    pub(super) fn word(&self, word: u32) -> u64 {
        // Acquire pairs with `set`.
        self.bits[word as usize % BIT_WORDS].load(Ordering::Acquire)
    }

    /// Returns whether any of so many slots has its bit set: a cheap look.
    #[inline]
    pub(super) fn is_any_set(&self, slots: u32) -> bool {
        // Relaxed: a caller that finds one looks again.
        self.bits
            .iter()
            .take(slots.div_ceil(64) as usize)
            .any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Sets the bits of all slots. A new server calls this: so it looks at every slot, and finds
    /// again what its predecessor had cleared and not taken.
    #[cold]
    pub(super) fn set_all(&self, slots: u32) {
        for (word, first) in self.bits.iter().zip((0..slots).step_by(64)) {
            let bits = if slots - first < 64 { (1 << (slots - first)) - 1 } else { u64::MAX };
            word.fetch_or(bits, Ordering::Release);
        }
    }
}

/// A slot's words about its request, written by the client; the bytes follow in the same line.
#[repr(C)]
#[derive(Default)]
pub(super) struct Question {
    asked: AtomicU64,
    ticket: AtomicU64,
    /// The process that asks.
    asker: AtomicU32,
    reserved: AtomicU32,
}

crate::shim::assert_layout!(size_of::<Question>() == 24);

/// The value of `asked`.
///
/// ```text
///  63          31 30           0
/// +--------------+--------------+
/// |    number    |    length    |
/// +--------------+--------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked(u64);

impl Asked {
    #[inline]
    pub(super) fn new(number: u64, len: usize) -> Asked {
        Asked(number << 31 | len as u64 & 0x7fff_ffff)
    }

    #[inline]
    pub(super) fn number(self) -> u64 {
        self.0 >> 31
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        self.0 as usize & 0x7fff_ffff
    }
}

impl Question {
    /// Does step 2: the bytes, or the object's reference and its tag, are written.
    #[inline]
    pub(super) fn ask(&self, asked: Asked, ticket: u64, asker: TokenId) {
        // Relaxed: the reader has seen `asked`.
        self.ticket.store(ticket, Ordering::Relaxed);
        self.asker.store(asker.as_u32(), Ordering::Relaxed);
        // Release pairs with `asked`. A client that dies or is stopped just before this has not
        // asked; just after it, the call is asked, and a server that comes finds it.
        self.asked.store(asked.0, Ordering::Release);
    }

    #[inline]
    pub(super) fn asked(&self) -> Asked {
        // Acquire pairs with `ask`: ticket, asker and bytes belong to that request, unless its
        // client has let go of the call since, which the claim tells.
        Asked(self.asked.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn ticket(&self) -> u64 {
        self.ticket.load(Ordering::Relaxed)
    }

    /// Returns the process that asks; `None` when the word is damaged.
    pub(super) fn asker(&self) -> Option<TokenId> {
        TokenId::from_word(self.asker.load(Ordering::Relaxed))
    }
}

/// Returns the request that lies in a slot and that no server has begun, and the claim that says
/// so.
#[inline]
pub(super) fn pending(words: &CallWords, question: &Question) -> Option<(Asked, Claim)> {
    let asked = question.asked();
    let seen = words.claim();
    (next(seen.number()) == asked.number()).then_some((asked, seen))
}

/// Clears a bit for which no request of a living client was found, and sets it again if there is
/// one by now; returns whether it did. Then the caller wakes the service's other servers: one that
/// looked in between has found nothing.
#[cold]
pub(super) fn clear_unless(asks: &Asks, slot: u32, is_pending: impl FnOnce() -> bool) -> bool {
    asks.clear(slot);
    // A client sets `asked` before the bit: either it sets its bit after this clears the bit, or
    // this look sees `asked`, and its asker.
    let is_asked = is_pending();
    if is_asked {
        asks.set(slot);
    }
    is_asked
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn asks() -> Asks {
        Asks { tickets: AtomicU64::new(0), bits: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    #[test]
    fn bits_are_of_their_slots_alone() {
        let asks = asks();
        for slot in [0, 63, 64, 16_383] {
            asks.set(slot);
            assert_eq!(asks.word(slot / 64), 1 << (slot % 64));
            assert!(asks.is_any_set(slot + 1) && (slot < 64 || !asks.is_any_set(slot / 64 * 64)));
            asks.clear(slot);
            assert!(!asks.is_any_set(16_384));
        }
        asks.set_all(80);
        assert_eq!((asks.word(0), asks.word(1), asks.word(2)), (u64::MAX, 0xffff, 0));
        asks.set_all(0);
        asks.set_all(16_384);
        assert_eq!(asks.word(255), u64::MAX);
        assert_eq!((asks.draw(), asks.draw(), asks.horizon()), (0, 1, 2));
    }

    #[test]
    fn what_is_asked_keeps_what_it_is_given() {
        let asked = Asked::new((1 << 33) - 1, 1 << 30);
        assert_eq!((asked.number(), asked.len()), ((1 << 33) - 1, 1 << 30));
        assert_eq!(Asked(0), Asked::new(0, 0), "zeroes are what was never asked");
    }
}
