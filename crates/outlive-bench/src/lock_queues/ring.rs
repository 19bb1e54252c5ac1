//! The messages of a queue that is made of a lock: a ring, which only the holder of the lock
//! reaches.
//!
//! It is whole at every instruction, so a holder's death leaves nothing to repair in it: a message
//! is there once `sent` has been raised, after its bytes are in place; and gone once `received`
//! has.

use std::sync::atomic::{Ordering, compiler_fence};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes in a message, at most.
pub const MOST_BYTES: usize = 4096;
/// Messages in the ring, at most: as many as the system lets one of its own queues hold, by
/// default.
pub const MOST_MESSAGES: usize = 10;

/// All zeroes are an empty ring.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ring {
    sent: u64,
    received: u64,
    lengths: [u64; MOST_MESSAGES],
    messages: [[u8; MOST_BYTES]; MOST_MESSAGES],
}

impl Ring {
    /// Returns whether there is no message in it.
    pub fn is_empty(&self) -> bool {
        self.sent == self.received
    }

    /// Returns whether there is no room in it.
    pub fn is_full(&self) -> bool {
        self.sent.wrapping_sub(self.received) >= MOST_MESSAGES as u64
    }

    /// Adds a message. There is room, and it is not too long.
    pub fn push(&mut self, message: &[u8]) {
        let at = (self.sent % MOST_MESSAGES as u64) as usize;
        self.messages[at][..message.len()].copy_from_slice(message);
        self.lengths[at] = message.len() as u64;
        // The compiler may not move the bytes behind the count: a process that dies in between has
        // sent nothing.
        compiler_fence(Ordering::Release);
        self.sent = self.sent.wrapping_add(1);
    }

    /// Takes the oldest message. There is one.
    pub fn pop(&mut self, message: &mut Vec<u8>) {
        let at = (self.received % MOST_MESSAGES as u64) as usize;
        // Whatever the number in shared memory says, it leads nowhere else.
        let length = (self.lengths[at] as usize).min(MOST_BYTES);
        message.clear();
        message.extend_from_slice(&self.messages[at][..length]);
        compiler_fence(Ordering::Release);
        self.received = self.received.wrapping_add(1);
    }
}
