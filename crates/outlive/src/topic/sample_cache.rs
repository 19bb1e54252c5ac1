//! What a subscriber has written down of a message that it took, in memory of its process's own: a sample is a pointer to it. So samples are
//! moved about for nothing, and the payload of a short message is copied once, to where it stays.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use super::hazard::{self, NEAR};
use super::header::Header;
use super::slot::{CopiedWords, HEADER_WORDS, INLINE_WORDS, Metadata};
use crate::shim::{AtomicU32, Ordering};
use crate::sys::identity;

/// See the file's head.
pub(super) struct Taken {
    /// 1 while a sample has it: set by the subscriber, cleared by whichever thread drops the sample.
    out: AtomicU32,
    /// In no cache: it goes with its sample.
    is_alone: bool,
    pub(super) has_header: bool,
    /// The payload in its object, held until this is let go of; null: in `inline`.
    data: *const u8,
    pub(super) len: usize,
    /// The hazard pointer that holds the object, if there is one.
    pointer: *const AtomicU32,
    /// The process whose it is, by number.
    owner: u64,
    pub(super) order: u64,
    pub(super) position: u64,
    pub(super) publisher: u32,
    pub(super) header: CopiedWords<HEADER_WORDS>,
    pub(super) inline: CopiedWords<INLINE_WORDS>,
}

impl Taken {
    const fn none(is_alone: bool) -> Taken {
        Taken {
            out: AtomicU32::new(0),
            is_alone,
            has_header: false,
            data: core::ptr::null(),
            len: 0,
            pointer: core::ptr::null(),
            owner: 0,
            order: 0,
            position: 0,
            publisher: 0,
            header: [MaybeUninit::uninit(); HEADER_WORDS],
            inline: [MaybeUninit::uninit(); INLINE_WORDS],
        }
    }

    /// The message at that position; its payload is `inline` until it is said to lie elsewhere.
    #[inline]
    pub(super) fn begin(&mut self, owner: u64, position: u64, metadata: Metadata) {
        self.has_header = metadata.has_header;
        self.data = core::ptr::null();
        self.len = metadata.len as usize;
        self.pointer = core::ptr::null();
        self.owner = owner;
        self.order = metadata.order;
        self.position = position;
        self.publisher = metadata.publisher;
    }

    /// Its payload lies there, held by that pointer.
    #[inline]
    pub(super) fn lies_at(&mut self, data: *const u8, pointer: &AtomicU32) {
        (self.data, self.pointer) = (data, pointer);
    }

    /// The payload, as many bytes as `len`.
    #[inline]
    pub(super) fn data(&self) -> *const u8 {
        if self.data.is_null() { self.inline.as_ptr().cast() } else { self.data }
    }

    pub(super) fn header(&self) -> Header {
        if !self.has_header {
            return Header::default();
        }
        // SAFETY: read from the slot, as it has one.
        Header::of_words(self.header.map(|word| unsafe { word.assume_init() }))
    }
}

/// Has done with it.
///
/// # Safety
/// Of [`Free::keep`], once.
#[inline]
pub(super) unsafe fn let_go(taken: NonNull<Taken>) {
    // SAFETY: the caller's, until the last line.
    let this = unsafe { taken.as_ref() };
    // In a forked child the pointer is its parent's.
    if !this.pointer.is_null() && identity::this_process() == Ok(this.owner) {
        // SAFETY: the subscriber's slot stays mapped until all of its hazard pointers are 0:
        // subscriber.rs.
        hazard::release(unsafe { &*this.pointer });
    }
    if this.is_alone {
        // SAFETY: from `Box::leak`, and nobody else's.
        drop(unsafe { Box::from_raw(taken.as_ptr()) });
    } else {
        // Release pairs with `SampleCache::free`: it has been read.
        this.out.store(0, Ordering::Release);
    }
}

/// As many as most make do with; who has more samples at a time gets each of the rest from the system.
pub(super) struct SampleCache(NonNull<[Taken; NEAR]>);

// SAFETY: the thread that has the cache writes what is free of it; what is out is its sample's.
unsafe impl Send for SampleCache {}

/// Caches whose subscribers are gone, of which samples were out: the next subscribers'.
static SPARE: Mutex<Vec<SampleCache>> = Mutex::new(Vec::new());

/// One to be written.
pub(super) struct Free {
    pub(super) taken: NonNull<Taken>,
    /// Which of the near hazard pointers is its own, if any.
    pub(super) near: usize,
}

impl SampleCache {
    pub(super) fn new() -> SampleCache {
        // As with malloc: a child forked from several threads, one of them in here, must not come here before exec.
        let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| SampleCache(Box::leak(Box::new([const { Taken::none(false) }; NEAR])).into()))
    }

    #[inline]
    pub(super) fn free(&self) -> Free {
        // SAFETY: a cache's places stay; only what is atomic is looked at.
        let places = unsafe { self.0.as_ref() };
        // Acquire pairs with `let_go`.
        let near = places.iter().position(|taken| taken.out.load(Ordering::Acquire) == 0);
        match near {
            // SAFETY: below NEAR.
            Some(near) => Free { taken: unsafe { self.0.cast::<Taken>().add(near) }, near },
            None => Free::alone(),
        }
    }
}

impl Drop for SampleCache {
    fn drop(&mut self) {
        // SAFETY: as in `free`.
        let places = unsafe { self.0.as_ref() };
        if places.iter().all(|taken| taken.out.load(Ordering::Acquire) == 0) {
            // SAFETY: from `Box::leak`, and no sample has a part of it.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        } else {
            SPARE.lock().unwrap_or_else(PoisonError::into_inner).push(SampleCache(self.0));
        }
    }
}

impl Free {
    #[cold]
    fn alone() -> Free {
        let taken = Box::leak(Box::new(Taken::none(true))).into();
        Free { taken, near: NEAR }
    }

    #[inline]
    pub(super) fn as_mut(&mut self) -> &mut Taken {
        // SAFETY: free, so no sample's; and the subscriber has one `Free` at a time.
        unsafe { self.taken.as_mut() }
    }

    /// It is a sample's from here on.
    #[inline]
    pub(super) fn keep(self) -> NonNull<Taken> {
        // SAFETY: as in `as_mut`. Relaxed: the subscriber's own note to itself.
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
            // SAFETY: from `alone`, not kept.
            drop(unsafe { Box::from_raw(self.taken.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_more_are_made() {
        let cache = SampleCache::new();
        let kept: Vec<_> = (0..NEAR + 3).map(|_| cache.free().keep()).collect();
        assert_eq!(kept.iter().collect::<std::collections::HashSet<_>>().len(), NEAR + 3);
        // SAFETY: kept, once.
        unsafe { let_go(kept[5]) };
        assert_eq!((cache.free().taken, cache.free().near), (kept[5], 5));
        let places = cache.0;
        drop(cache);
        let again = SampleCache::new();
        assert_eq!(again.0, places, "samples of it are out: it is the next one's");
        assert_eq!(again.free().taken, kept[5]);
        for (at, taken) in kept.into_iter().enumerate().filter(|(at, _)| *at != 5) {
            // SAFETY: kept, once.
            unsafe { let_go(taken) };
            assert!(at < NEAR || again.free().near < NEAR);
        }
    }
}
