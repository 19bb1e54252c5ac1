//! What a subscriber records of a message that it took, in its process's private memory: a sample
//! is a pointer to it. So moving a sample costs nothing, and the payload of a short message is
//! copied once, to where it stays.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::time::{Duration, SystemTime};

use super::hazard::{self, NEAR};
use super::header::{Header, time_of};
use super::slot::{CopiedWords, HEADER_WORDS, INLINE_WORDS, Metadata};
use crate::TokenId;
use crate::liveness::Registry;
use crate::shim::{AtomicU32, Ordering};
use crate::sys::identity;

/// The process that owns a record.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    /// Its number.
    pub(super) process: u64,
    /// The registry of the topic's domain; `None` in tests.
    pub(super) registry: Option<&'static Registry>,
}

/// See the head of this file.
pub(super) struct Taken {
    /// 1 while a sample has it: set by the subscriber, cleared by the thread that drops the sample.
    out: AtomicU32,
    /// In no cache: freed with its sample.
    is_alone: bool,
    pub(super) has_header: bool,
    pub(super) is_foreign: bool,
    /// The payload in its object, held until this is released; null: it is in `inline`.
    data: *const u8,
    pub(super) len: usize,
    /// The hazard pointer that holds the object, if there is one.
    pointer: *const AtomicU32,
    /// The number of the process that owns it, and where tokens are looked up; the same for all
    /// records of a cache.
    owner: Owner,
    pub(super) order: u64,
    pub(super) position: u64,
    pub(super) publisher: u32,
    pub(super) session: u32,
    pub(super) ring: u32,
    stamp: u64,
    pub(super) header: CopiedWords<HEADER_WORDS>,
    pub(super) inline: CopiedWords<INLINE_WORDS>,
}

impl Taken {
    const fn none(is_alone: bool, owner: Owner) -> Taken {
        Taken {
            out: AtomicU32::new(0),
            is_alone,
            has_header: false,
            is_foreign: false,
            data: core::ptr::null(),
            len: 0,
            pointer: core::ptr::null(),
            owner,
            order: 0,
            position: 0,
            publisher: 0,
            session: 0,
            ring: 0,
            stamp: 0,
            header: [MaybeUninit::uninit(); HEADER_WORDS],
            inline: [MaybeUninit::uninit(); INLINE_WORDS],
        }
    }

    /// Begins with the message of that ring at that position; its payload is `inline` until `lies_at` is called.
    #[inline]
    pub(super) fn begin(&mut self, ring: usize, position: u64, metadata: Metadata) {
        self.ring = ring as u32;
        self.has_header = metadata.has_header;
        self.data = core::ptr::null();
        self.len = metadata.len as usize;
        self.pointer = core::ptr::null();
        self.order = metadata.order;
        self.position = position;
        self.publisher = metadata.origin.publisher();
        self.session = metadata.origin.session();
        self.is_foreign = metadata.origin.is_foreign();
        self.stamp = metadata.stamp;
    }

    /// Returns whether the process that published it is alive.
    pub(super) fn is_publisher_alive(&self) -> bool {
        let (publisher, registry) = (TokenId::from_word(self.publisher), self.owner.registry);
        publisher.zip(registry).is_some_and(|(publisher, registry)| registry.is_alive(publisher))
    }

    /// Returns how long ago it was published, by its stamp; `None` without a stamp.
    pub(super) fn age(&self) -> Option<Duration> {
        let published = time_of(self.stamp)?;
        Some(SystemTime::now().duration_since(published).unwrap_or_default())
    }

    /// Records that the payload lies at `data`, held by that pointer.
    #[inline]
    pub(super) fn lies_at(&mut self, data: *const u8, pointer: &AtomicU32) {
        (self.data, self.pointer) = (data, pointer);
    }

    /// Returns the payload, of `len` bytes.
    #[inline]
    pub(super) fn data(&self) -> *const u8 {
        if self.data.is_null() { self.inline.as_ptr().cast() } else { self.data }
    }

    pub(super) fn header(&self) -> Header {
        if !self.has_header {
            return Header { stamp: self.stamp, ..Header::default() };
        }
        // SAFETY: `has_header` says that all its words were read from the slot.
        Header::of(self.stamp, self.header.map(|word| unsafe { word.assume_init() }))
    }
}

/// Releases it: its sample is dropped.
///
/// # Safety
/// It comes from [`Free::keep`], and is released once.
#[inline]
pub(super) unsafe fn let_go(taken: NonNull<Taken>) {
    // SAFETY: the caller owns it until the last line.
    let this = unsafe { taken.as_ref() };
    // In a forked child the pointer is its parent's.
    if !this.pointer.is_null() && identity::this_process() == Ok(this.owner.process) {
        // SAFETY: the subscriber's slot stays mapped until all of its hazard pointers are 0:
        // subscriber.rs.
        hazard::release(unsafe { &*this.pointer });
    }
    if this.is_alone {
        // SAFETY: `alone` made it with `Box::leak`, and only this sample has it.
        drop(unsafe { Box::from_raw(taken.as_ptr()) });
    } else {
        // Release pairs with `SampleCache::free`: it has been read.
        this.out.store(0, Ordering::Release);
    }
}

/// As many as most subscribers need; the records of further samples are allocated singly.
pub(super) struct SampleCache(NonNull<[Taken; NEAR]>);

// SAFETY: the thread that has the cache writes only free records; the others are their samples'.
unsafe impl Send for SampleCache {}

/// A record to be written.
pub(super) struct Free {
    pub(super) taken: NonNull<Taken>,
    /// Which of the near hazard pointers is its own, if any.
    pub(super) near: usize,
}

impl SampleCache {
    pub(super) fn new(owner: Owner) -> SampleCache {
        let places = core::array::from_fn(|_| Taken::none(false, owner));
        SampleCache(Box::leak(Box::new(places)).into())
    }

    /// Returns whether no sample has a record of it.
    pub(super) fn is_unused(&self) -> bool {
        // SAFETY: a cache's records are not moved or freed; only atomics are read.
        let places = unsafe { self.0.as_ref() };
        // Acquire pairs with `let_go`.
        places.iter().all(|taken| taken.out.load(Ordering::Acquire) == 0)
    }

    #[inline]
    pub(super) fn free(&self) -> Free {
        // SAFETY: a cache's records are not moved or freed; only atomics are read.
        let places = unsafe { self.0.as_ref() };
        // Acquire pairs with `let_go`.
        let near = places.iter().position(|taken| taken.out.load(Ordering::Acquire) == 0);
        match near {
            // SAFETY: `near` is below NEAR, the cache's length.
            Some(near) => Free { taken: unsafe { self.0.cast::<Taken>().add(near) }, near },
            None => Free::alone(places[0].owner),
        }
    }
}

/// Frees the records, unless a sample still has one: then they stay, for good. A caller that wants
/// the memory back asks [`SampleCache::is_unused`] first.
impl Drop for SampleCache {
    fn drop(&mut self) {
        if self.is_unused() {
            // SAFETY: `new` made it with `Box::leak`, and no sample has a part of it.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

impl Free {
    #[cold]
    fn alone(owner: Owner) -> Free {
        let taken = Box::leak(Box::new(Taken::none(true, owner))).into();
        Free { taken, near: NEAR }
    }

    #[inline]
    pub(super) fn as_mut(&mut self) -> &mut Taken {
        // SAFETY: the record is free, so no sample has it; and the subscriber has one `Free` at a
        // time.
        unsafe { self.taken.as_mut() }
    }

    /// Gives the record to a sample.
    #[inline]
    pub(super) fn keep(self) -> NonNull<Taken> {
        // SAFETY: the record is free until this store. Relaxed: only the subscriber itself reads
        // it.
        unsafe { self.taken.as_ref() }.out.store(1, Ordering::Relaxed);
        let taken = self.taken;
        core::mem::forget(self);
        taken
    }
}

impl Drop for Free {
    #[inline]
    fn drop(&mut self) {
        if self.near == NEAR {
            // SAFETY: `alone` made it with `Box::leak`, and `keep` was not called.
            drop(unsafe { Box::from_raw(self.taken.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_more_are_made() {
        let cache = SampleCache::new(Owner { process: 0, registry: None });
        let kept: Vec<_> = (0..NEAR + 3).map(|_| cache.free().keep()).collect();
        assert_eq!(kept.iter().collect::<std::collections::HashSet<_>>().len(), NEAR + 3);
        // SAFETY: `keep` returned it, and it is released once.
        unsafe { let_go(kept[5]) };
        assert_eq!((cache.free().taken, cache.free().near), (kept[5], 5));
        assert!(!cache.is_unused());
        for (at, taken) in kept.into_iter().enumerate().filter(|(at, _)| *at != 5) {
            // SAFETY: `keep` returned it, and it is released once.
            unsafe { let_go(taken) };
            assert!(at < NEAR || cache.free().near < NEAR);
        }
        assert!(cache.is_unused());
    }
}
