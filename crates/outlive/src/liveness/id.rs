//! The 32 bits that name the owner in every claim.
//!
//! ```text
//!  31      30   29   28         16 15          0
//! +-------+----+----+-------------+-------------+
//! |WAITERS|  * |  1 | generation  |    slot     |
//! +-------+----+----+-------------+-------------+
//! ```
//! Bit 31 is free for the word that holds the claim. So is bit 30, but 0 unless the word's protocol
//! has a meaning for it (the mark of a reader-writer lock). Bit 29 is set and thread ids stay below
//! 2^22, so the kernel never takes a claim for a thread id.

use std::fmt;

/// Bit 31: a thread may sleep on the word.
pub(crate) const WAITERS: u32 = 0x8000_0000;
const MARK: u32 = 0x2000_0000;
const MARK_MASK: u32 = 0x6000_0000;
const GENERATION_BITS: u32 = 13;
pub(crate) const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// Names one thread's (or process's) token in a domain, and so the owner of a claim.
///
/// It is valid until the token's slot has been given out 8,191 more times. Before a number comes
/// back, a sweep has cleared the domain of every claim with that number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenId(u32);

impl TokenId {
    /// Returns the id of the `generation`th use of `slot`.
    pub(crate) fn new(slot: u32, generation: u32) -> TokenId {
        TokenId(MARK | (generation & GENERATION_MASK) << 16 | (slot & 0xffff))
    }

    /// Returns the owner that a claim word names; `None` if the bits cannot be a claim.
    #[inline]
    pub(crate) fn from_word(word: u32) -> Option<TokenId> {
        (word & MARK_MASK == MARK).then_some(TokenId(word & !WAITERS))
    }

    /// Returns an id that this process made itself.
    #[inline]
    pub(crate) fn from_own(bits: u32) -> TokenId {
        TokenId(bits)
    }

    /// Returns the id as a claim word holds it, without the WAITERS bit.
    #[inline]
    pub fn as_u32(self) -> u32 {
        self.0
    }

    /// Returns the id of a number that [`TokenId::as_u32`] returned, for claims of your own in
    /// shared memory; `None` if the number cannot be an id.
    ///
    /// A [`Domain`](crate::Domain) sweeps its own claims only. Do not leave a dead owner's number
    /// in place while millions of threads come and go: it may then name another owner.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-word-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::TokenId;
    /// let me = domain.token()?;
    /// assert_eq!(TokenId::from_u32(me.as_u32()), Some(me));
    /// assert_eq!(TokenId::from_u32(0), None);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    #[inline]
    pub fn from_u32(number: u32) -> Option<TokenId> {
        TokenId::from_word(number).filter(|id| id.0 == number)
    }

    #[inline]
    pub(crate) fn slot(self) -> u32 {
        self.0 & 0xffff
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        self.0 >> 16 & GENERATION_MASK
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot(), self.generation())
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_the_waiters_bit_and_garbage_is_none() {
        let id = TokenId::new(65_535, 8_191);
        assert_eq!(TokenId::from_word(id.as_u32() | WAITERS), Some(id));
        assert_eq!((id.slot(), id.generation()), (65_535, 8_191));
        assert_eq!(TokenId::from_u32(id.as_u32()), Some(id));
        assert_eq!(TokenId::from_u32(id.as_u32() | WAITERS), None);
        for garbage in [0, 1, 0x4000_0000, 0x6000_0001, 0x1fff_ffff, WAITERS] {
            assert_eq!(TokenId::from_word(garbage), None, "{garbage:#x}");
        }
    }
}
