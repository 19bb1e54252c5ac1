//! From one worker to another: a ring for one sender and one receiver.

use crate::harness::shared::{Line, ZeroShared};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many lie in it at most.
pub(super) const SLOTS: usize = 16;

/// The ring. All bytes zero is an empty one.
#[repr(C)]
pub(super) struct Ring<T> {
    /// Sent so far; written by the sender.
    sent: Line<AtomicU64>,
    /// Received so far; written by the receiver.
    received: Line<AtomicU64>,
    slots: [UnsafeCell<MaybeUninit<T>>; SLOTS],
}

// SAFETY: a slot is the sender's until `sent` counts it, and the receiver's until `received` does;
// what passes may.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: zero is valid, and a number is no pointer.
unsafe impl ZeroShared for Ring<(u64, u8)> {}

impl<T> Ring<T> {
    /// Returns an empty one.
    pub(super) fn new() -> Self {
        Self {
            sent: Line(AtomicU64::new(0)),
            received: Line(AtomicU64::new(0)),
            slots: [const { UnsafeCell::new(MaybeUninit::uninit()) }; SLOTS],
        }
    }

    /// Returns whether the sender may send.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        // Acquire pairs with `receive`: what lay in the slot has been read. Relaxed: the sender's
        // own word.
        self.sent.0.load(Ordering::Relaxed) - self.received.0.load(Ordering::Acquire) < SLOTS as u64
    }

    /// Sends an item.
    ///
    /// # Safety
    /// The caller is the only sender, and [`Ring::has_room`] has said so.
    #[inline]
    pub(super) unsafe fn send(&self, item: T) {
        let sent = self.sent.0.load(Ordering::Relaxed);
        // SAFETY: the receiver has read this slot, and looks again only once `sent` counts it.
        unsafe { (*self.slots[sent as usize % SLOTS].get()).write(item) };
        // Release pairs with `has_one`.
        self.sent.0.store(sent + 1, Ordering::Release);
    }

    /// Returns whether the receiver may receive.
    #[inline]
    pub(super) fn has_one(&self) -> bool {
        // Acquire pairs with `send`. Relaxed: the receiver's own word.
        self.sent.0.load(Ordering::Acquire) > self.received.0.load(Ordering::Relaxed)
    }

    /// Receives an item.
    ///
    /// # Safety
    /// The caller is the only receiver, and [`Ring::has_one`] has said so.
    #[inline]
    pub(super) unsafe fn receive(&self) -> T {
        let received = self.received.0.load(Ordering::Relaxed);
        // SAFETY: the sender has written this slot, and writes it again only once `received` counts
        // it.
        let item = unsafe { (*self.slots[received as usize % SLOTS].get()).assume_init_read() };
        // Release pairs with `has_room`.
        self.received.0.store(received + 1, Ordering::Release);
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn everything_arrives_in_order() {
        let ring = Ring::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..10_000_u64 {
                    while !ring.has_room() {
                        thread::yield_now();
                    }
                    // SAFETY: the only sender, and there is room.
                    unsafe { ring.send(number) };
                }
            });
            for number in 0..10_000 {
                while !ring.has_one() {
                    thread::yield_now();
                }
                // SAFETY: the only receiver, and there is one.
                assert_eq!(unsafe { ring.receive() }, number);
            }
        });
        assert!(!ring.has_one());
    }
}
