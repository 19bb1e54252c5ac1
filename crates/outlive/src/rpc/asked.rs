//! What a client asks: the request in its own call slot, and the bitmap that summons the server to it.
//!
//! | step | of | seen by others |
//! | --- | --- | --- |
//! | 1. asker, ticket, bytes into the slot | the client | nothing |
//! | 2. `asked` = {number, length} | the client | the call is asked: `asked` is one ahead of the claim; found by a server that comes |
//! | 3. the slot's bit, by one atomic OR | the client | the server finds the slot |
//! | 4. claim → WRITING, clear the bit, copy, → TAKEN | the server | begun |
//!
//! A client that is stopped or dies anywhere in 1 to 3 holds up nobody: no other client's request lies behind its own. The slot is
//! the truth and the bit a summons: a bit without a request costs one look, and a server that comes sets all bits.
//! doc/protocols/rpc.md, doc/models/rpc.pml and rpc_order.pml.

use super::words::{Claim, Words, next};
use crate::liveness::TokenId;
use crate::shim::{AtomicU32, AtomicU64, Ordering};

/// Words of the bitmap: a bit for each slot of 1,024 places.
#[cfg(not(loom))]
const BIT_WORDS: usize = 256;
#[cfg(loom)]
const BIT_WORDS: usize = 1;

/// The words that clients and server share about all slots.
#[repr(C)]
#[cfg_attr(loom, derive(Default))]
pub(super) struct Asks {
    /// How many tickets have been drawn.
    tickets: AtomicU64,
    bits: [AtomicU64; BIT_WORDS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Asks>() == 8 + 2048);

impl Asks {
    /// Draws a ticket, for the order in which the server takes what is asked.
    ///
    /// Died just after: a number that nobody has.
    #[inline]
    pub(super) fn draw(&self) -> u64 {
        // Release pairs with `horizon`: the bits that this client has set before are seen.
        self.tickets.fetch_add(1, Ordering::Release)
    }

    /// Tickets below this have been drawn by clients whose earlier bits are seen from now on.
    #[inline]
    pub(super) fn horizon(&self) -> u64 {
        // Acquire pairs with `draw`.
        self.tickets.load(Ordering::Acquire)
    }

    /// Step 3. Died or stopped just before: as if not asked, to the server of now. Just after: asked.
    #[inline]
    pub(super) fn set(&self, slot: u32) {
        // Release pairs with `word` and `clear`: `asked` is seen.
        self.bits[slot as usize / 64 % BIT_WORDS].fetch_or(1 << (slot % 64), Ordering::Release);
    }

    /// Died just after, by a server that has not taken the call: the next one sets all bits.
    #[inline]
    pub(super) fn clear(&self, slot: u32) {
        // Acquire pairs with `set`: whose bit is cleared, its `asked` is seen by the look that follows.
        self.bits[slot as usize / 64 % BIT_WORDS].fetch_and(!(1 << (slot % 64)), Ordering::AcqRel);
    }

    /// The bits of slots 64 × `word` and on.
    #[inline]
    pub(super) fn word(&self, word: u32) -> u64 {
        // Acquire pairs with `set`.
        self.bits[word as usize % BIT_WORDS].load(Ordering::Acquire)
    }

    /// A cheap look: whether any of so many slots has its bit set.
    #[inline]
    pub(super) fn is_any_set(&self, slots: u32) -> bool {
        // Relaxed: who finds one looks again.
        self.bits.iter().take(slots.div_ceil(64) as usize).any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// A server that comes looks at every slot: what its predecessor had cleared and not taken is found again.
    #[cold]
    pub(super) fn set_all(&self, slots: u32) {
        for (word, first) in self.bits.iter().zip((0..slots).step_by(64)) {
            let bits = if slots - first < 64 { (1 << (slots - first)) - 1 } else { u64::MAX };
            word.fetch_or(bits, Ordering::Release);
        }
    }
}

/// A slot's words about its request, the client's; the bytes follow in the same line.
#[repr(C)]
#[cfg_attr(loom, derive(Default))]
pub(super) struct Question {
    asked: AtomicU64,
    ticket: AtomicU64,
    /// The process that asks.
    asker: AtomicU32,
    reserved: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Question>() == 24);

/// `asked`.
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
    /// Step 2: the bytes, or the object's reference and its tag, are there.
    #[inline]
    pub(super) fn ask(&self, asked: Asked, ticket: u64, asker: TokenId) {
        // Relaxed: read by who has seen `asked`.
        self.ticket.store(ticket, Ordering::Relaxed);
        self.asker.store(asker.as_u32(), Ordering::Relaxed);
        // Release pairs with `asked`. Died or stopped just before: not asked. Just after: asked, and a server that comes finds it.
        self.asked.store(asked.0, Ordering::Release);
    }

    #[inline]
    pub(super) fn asked(&self) -> Asked {
        // Acquire pairs with `ask`: ticket, asker and bytes are that request's, unless its client has let go of the call since,
        // which the claim tells.
        Asked(self.asked.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn ticket(&self) -> u64 {
        self.ticket.load(Ordering::Relaxed)
    }

    /// The process that asks; `None` when the word makes no sense.
    pub(super) fn asker(&self) -> Option<TokenId> {
        TokenId::from_word(self.asker.load(Ordering::Relaxed))
    }
}

/// The request that lies in a slot and that nobody has begun, and the claim that says so.
#[inline]
pub(super) fn pending(words: &Words, question: &Question) -> Option<(Asked, Claim)> {
    let asked = question.asked();
    let seen = words.claim();
    (next(seen.number()) == asked.number()).then_some((asked, seen))
}

/// A bit that summons to nothing is cleared, and set again if the call is asked by now.
#[cold]
pub(super) fn clear_unless_pending(asks: &Asks, slot: u32, words: &Words, question: &Question) {
    asks.clear(slot);
    // A client sets `asked` before the bit: its bit is set after our clearing, or this look sees `asked`.
    if pending(words, question).is_some() {
        asks.set(slot);
    }
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
