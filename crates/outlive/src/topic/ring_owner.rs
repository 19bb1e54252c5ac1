//! What a ring's `owner` says. The table of its values is in ring.rs.

use super::layout::RingWords;
use crate::TokenId;
use crate::liveness::Ends;
use crate::shim::Ordering;

/// In `owner`: taken for cleaning up, not for publishing. It is the bit that a token leaves free.
pub(super) const LOOKING_AFTER: u32 = 1 << 31;

/// Returns whether the owner of that ring has ended, as far as the ring is concerned.
pub(super) fn has_ended(words: &RingWords, owner: TokenId, ends: &Ends) -> bool {
    // Acquire pairs with `Publisher::expect_device_writes`, which stored it before the death that
    // is seen here.
    match words.device.load(Ordering::Acquire) {
        0 => ends.has_ended(owner),
        _ => ends.have_its_devices_ended(owner),
    }
}

/// Returns the publisher, dead or alive; `None` if a process only cleans the ring.
pub(super) fn publisher(owner: u32) -> Option<TokenId> {
    TokenId::from_word(owner).filter(|_| owner & LOOKING_AFTER == 0)
}
