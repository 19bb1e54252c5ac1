//! What this process keeps of an object that it has, in use or in a cache: an [`Object`](super::Object) is a pointer to it. Of
//! several words, each result that an object comes in would be written as words and read as larger pieces at once, and the
//! processor waits for that longer than all the rest takes.
//!
//! Handles are private memory, a cache line each, and go round: one that an object has lost is the next one's. Threads keep a
//! few, and give them to each other by the dozen, since objects are taken by one thread and freed by another.

use core::hint::spin_loop;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, TryLockError};

use super::cache::{Entry, SHELVES};
use super::pool::Inner;

/// See the file's head.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(super) struct Handle {
    /// Of which pool. Whoever has the handle keeps that: an object by its borrow, a cache by its share.
    pub(super) inner: *const Inner,
    pub(super) entry: Entry,
    /// What its tag says as long as it is this process's.
    pub(super) owned: u64,
    /// In use: how many bytes were asked for.
    pub(super) len: u32,
    /// The pool's number in this process.
    pub(super) number: u32,
    /// Where it goes in a cache by the short way: the shelf, or `SHELVES`, where nothing ever goes.
    pub(super) plainly: u32,
    /// Where it goes in a cache; `SHELVES` if nowhere. With the flags of `object.rs`.
    pub(super) shelf: u32,
    /// In a cache: when it came there.
    pub(super) came: u32,
}

const _: () = assert!(size_of::<Handle>() == 64);

impl Handle {
    pub(super) fn new(inner: &Inner, entry: Entry, shelf: u32, len: usize, owned: u64) -> Handle {
        let plainly = shelf.min(SHELVES);
        let number = inner.number as u32;
        Handle { inner, entry, owned, len: len as u32, number, plainly, shelf, came: 0 }
    }
}

/// Room for a handle.
pub(super) type Place = NonNull<Handle>;

/// So many are made at once, and change hands at once.
pub(super) const DOZEN: usize = 32;

/// Places that no thread keeps, and where all places are.
#[derive(Default)]
pub(super) struct Places(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    chunks: Vec<Place>,
    free: Vec<Place>,
}

// SAFETY: a place is reached by whoever has taken it out.
unsafe impl Send for Kept {}

type Chunk = [MaybeUninit<Handle>; DOZEN];

/// A dozen places; the first one says where they are.
fn make(out: &mut Vec<Place>) -> Place {
    let first = NonNull::from(Box::leak(Box::<Chunk>::new([MaybeUninit::uninit(); DOZEN]))).cast();
    // SAFETY: inside the chunk.
    out.extend((0..DOZEN).map(|at| unsafe { first.add(at) }));
    first
}

impl Drop for Kept {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            // SAFETY: as `make` made it; a pool that nobody has open has no handles.
            drop(unsafe { Box::<Chunk>::from_raw(chunk.as_ptr().cast()) });
        }
    }
}

impl Places {
    /// Never waits for long: a forked child may have inherited the lock in somebody's hands.
    fn lock(&self) -> Option<MutexGuard<'_, Kept>> {
        for _ in 0..1000 {
            match self.0.try_lock() {
                Ok(kept) => return Some(kept),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => spin_loop(),
            }
        }
        None
    }

    /// One, and more of them, for the next time.
    #[cold]
    pub(super) fn take(&self, more: &mut Vec<Place>) -> Place {
        let kept = self.lock();
        let Some(mut kept) = kept else {
            // Where these are the system remembers, until the process ends.
            make(more);
            return more.swap_remove(0);
        };
        if kept.free.is_empty() {
            let chunk = make(more);
            kept.chunks.push(chunk);
        } else {
            let rest = kept.free.len().saturating_sub(DOZEN);
            more.extend(kept.free.drain(rest..));
        }
        more.swap_remove(0)
    }

    /// All but so many, for others.
    #[cold]
    pub(super) fn give(&self, places: &mut Vec<Place>, keep: usize) {
        if let Some(mut kept) = self.lock() {
            kept.free.extend(places.drain(keep.min(places.len())..));
        }
    }
}
