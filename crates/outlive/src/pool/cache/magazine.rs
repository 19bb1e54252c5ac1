//! Magazines and their entries: the fast path into a thread's cache and out of it.
//!
//! What a hit and a free touch lies on a page of its own, which is wiped on fork. A forked child,
//! whose token is another, finds an empty cache there that has no room and owns no object: so the
//! fast path fails and takes the slow way, `cache/mod.rs`.

use core::hint::spin_loop;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, TryLockError};

use super::Cache;
use crate::pool::file::ObjectPtr;
use crate::pool::heap::{CLASSES, SPAN};
use crate::pool::inner::Inner;
use crate::shim::{AtomicU64, Ordering};
use crate::sys::map;

/// Runs of so many spans are cached too.
const RUNS: u32 = 8;
/// A magazine for each class, then for each length of runs.
pub(in crate::pool) const MAGAZINES: u32 = CLASSES + RUNS;
/// The most pools that a thread has caches of at once; further pools do without.
pub(in crate::pool) const MOST_CACHES: usize = 64;

/// Returns the magazine of runs of that many spans.
pub(in crate::pool) fn magazine_of_run(spans: u64) -> Option<u32> {
    (1..=u64::from(RUNS)).contains(&spans).then(|| CLASSES + spans as u32 - 1)
}

/// Returns the magazine of a run that holds so many bytes.
pub(in crate::pool) fn magazine_of_long(len: u64) -> Option<u32> {
    magazine_of_run(len.div_ceil(SPAN))
}

/// Free objects of one size, the most recently freed last.
#[repr(C)]
pub(super) struct Magazine {
    /// Behind the most recently freed.
    pub(super) top: Cell<*mut Entry>,
    /// The least recently freed, if that is not `top`.
    pub(super) bottom: Cell<*mut Entry>,
    /// How far the fast path may move `top`: what the magazine was granted of the cache's bytes,
    /// and has room for.
    pub(super) limit: Cell<*mut Entry>,
    /// Where the room begins.
    pub(super) base: Cell<*mut Entry>,
}

impl Magazine {
    #[expect(clippy::declare_interior_mutable_const, reason = "to begin with")]
    pub(super) const EMPTY: Magazine = {
        const NOTHING: *mut Entry = core::ptr::null_mut();
        Magazine {
            top: Cell::new(NOTHING),
            bottom: Cell::new(NOTHING),
            limit: Cell::new(NOTHING),
            base: Cell::new(NOTHING),
        }
    };

    pub(super) fn len(&self) -> usize {
        (self.top.get() as usize - self.bottom.get() as usize) / size_of::<Entry>()
    }

    /// Returns how many objects the magazine may have before a free takes the slow path.
    pub(super) fn granted(&self) -> usize {
        (self.limit.get() as usize - self.bottom.get() as usize) / size_of::<Entry>()
    }

    /// Returns the most recently freed object, if there is any.
    #[inline]
    pub(super) fn hottest(&self) -> Option<Entry> {
        let top = self.top.get();
        // SAFETY: above the bottom, so inside the room, and written.
        (top != self.bottom.get()).then(|| unsafe { *top.sub(1) })
    }

    /// Takes the most recently freed object out. The caller knows that there is one.
    #[inline]
    pub(super) fn take_hottest(&self) {
        // SAFETY: the caller knows that `top` is above the bottom.
        self.top.set(unsafe { self.top.get().sub(1) });
    }

    /// Returns where an object freed by the fast path goes, if there is room.
    #[inline]
    pub(super) fn room(&self) -> Option<*mut Entry> {
        let top = self.top.get();
        (top < self.limit.get()).then_some(top)
    }

    /// Puts an entry in at `top`, where the caller has found room.
    #[inline]
    pub(super) fn put(&self, top: *mut Entry, entry: Entry) {
        // SAFETY: `room` gave the caller `top`, which is inside the room.
        unsafe {
            top.write(entry);
            self.top.set(top.add(1));
        }
    }

    pub(super) fn coldest(&self) -> Option<Entry> {
        // SAFETY: below the top, so inside the room, and written.
        (self.len() > 0).then(|| unsafe { *self.bottom.get() })
    }
}

/// What taking and freeing touch, on a page of its own that a forked child finds full of zeroes:
/// there the cache is empty, has no room, and owns no object.
#[repr(C)]
pub(in crate::pool) struct FastPath {
    /// The tag of objects in use by this process.
    pub(super) owned: u64,
    /// The tag of objects in its caches.
    pub(super) cached: u64,
    /// The word of the pool's debug modes, in its header.
    pub(super) modes: *const AtomicU64,
    /// The part of the cache that the fast path does not touch.
    pub(super) cache: *mut Cache,
    /// The last one is always empty and has no room.
    pub(super) magazines: [Magazine; MAGAZINES as usize + 1],
}

const _: () = assert!(size_of::<FastPath>() <= map::PAGE as usize);

pub(super) struct Nothing(pub(super) FastPath);
// SAFETY: no thread writes to it: an empty magazine without room stays so.
unsafe impl Sync for Nothing {}
/// The cache of a thread that has none.
pub(super) static NOTHING: Nothing = Nothing(FastPath {
    owned: 0,
    cached: 0,
    modes: core::ptr::null(),
    cache: core::ptr::null_mut(),
    magazines: [Magazine::EMPTY; MAGAZINES as usize + 1],
});

thread_local! {
    /// By the pool's number. The last one never has a cache.
    pub(super) static CACHES: [Cell<*const FastPath>; MOST_CACHES + 1] =
        const { [const { Cell::new(&raw const NOTHING.0) }; MOST_CACHES + 1] };
}

impl FastPath {
    /// Returns the calling thread's fast path to the pool of that number.
    ///
    /// # Safety
    /// The caller gives the reference up before the cache can end: before user code, or code that
    /// makes or ends a cache, runs.
    #[inline]
    pub(in crate::pool) unsafe fn of<'h>(number: u32) -> &'h FastPath {
        // SAFETY: numbers are MOST_CACHES at most; the pointer is `NOTHING` or a page that stays
        // mapped while it is there.
        unsafe { &*CACHES.with(|caches| caches.get_unchecked(number as usize).get()) }
    }

    /// Takes the most recently freed object of a magazine, if it has that many bytes (each object
    /// of a class has; a run may have fewer pages), and no debug mode is on.
    #[inline]
    pub(in crate::pool) fn take(&self, magazine: usize, len: usize) -> Option<Entry> {
        // SAFETY: the caller has a class, the number from `magazine_of_long`, or `MAGAZINES`: all
        // inside the array.
        let magazine = unsafe { self.magazines.get_unchecked(magazine) };
        let mut entry = magazine.hottest()?;
        // SAFETY: a cache that has an object has its pool, and so the mapping. Relaxed: see
        // `debug/modes.rs`.
        if unsafe { &*self.modes }.load(Ordering::Relaxed) as u32 != 0 {
            return None;
        }
        // SAFETY: the entry is still in the cache, or again; this thread alone uses it.
        let handle = unsafe { entry.as_mut() };
        if (handle.ptr.capacity as usize) < len {
            return None;
        }
        magazine.take_hottest();
        handle.len = len as u32;
        // A death just before: cached(P), after: owned(P). Both are free once P has ended.
        handle.ptr.set(handle.owned);
        Some(entry)
    }

    /// Puts an object in use into the cache, if no more than that is to be done; returns whether it
    /// did.
    #[inline]
    pub(in crate::pool) fn put(&self, mut entry: Entry) -> bool {
        // SAFETY: the caller owns the entry, and gives it up.
        let handle = unsafe { entry.as_mut() };
        // SAFETY: a handle has only numbers up to `MAGAZINES`.
        let magazine = unsafe { self.magazines.get_unchecked(handle.plainly as usize) };
        if self.owned != handle.owned
            // Relaxed: only this process changes a tag that names it.
            || handle.ptr.record().tag.load(Ordering::Relaxed) != handle.owned
        {
            return false;
        }
        let Some(top) = magazine.room() else { return false };
        // A death just after: cached(P), free once P has ended.
        handle.ptr.set(self.cached);
        magazine.put(top, entry);
        true
    }
}

/// What this process records of an object that it has, in use or in a cache: an
/// [`Object`](crate::pool::Object) is a pointer to it. An object of several words would be returned
/// through memory, written as words and read in larger pieces at once, and the processor waits for
/// that longer than all the rest takes.
///
/// Handles are private memory, a cache line each, and are reused. Threads keep a few, and pass them
/// to each other by the dozen, since objects are taken by one thread and freed by another.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(in crate::pool) struct Handle {
    /// Its pool. The owner of the handle keeps the pool open: an object by its borrow, a cache by
    /// its share.
    pub(in crate::pool) inner: *const Inner,
    pub(in crate::pool) ptr: ObjectPtr,
    /// What its tag says as long as it belongs to this process.
    pub(in crate::pool) owned: u64,
    /// In use: how many bytes were asked for.
    pub(in crate::pool) len: u32,
    /// The pool's number in this process.
    pub(in crate::pool) number: u32,
    /// The magazine for the fast path, or `MAGAZINES`, which has no room.
    pub(in crate::pool) plainly: u32,
    /// The magazine for the slow path; `MAGAZINES` if none. With the flags of `object.rs`.
    pub(in crate::pool) magazine: u32,
}

const _: () = assert!(size_of::<Handle>() == 64);

impl Handle {
    pub(in crate::pool) fn new(
        inner: &Inner,
        ptr: ObjectPtr,
        magazine: u32,
        len: usize,
        owned: u64,
    ) -> Handle {
        let plainly = magazine.min(MAGAZINES);
        let number = inner.number as u32;
        Handle { inner, ptr, owned, len: len as u32, number, plainly, magazine }
    }
}

/// What a magazine has for each object: a pointer to its handle.
pub(in crate::pool) type Entry = NonNull<Handle>;

/// So many are made, and change hands, at once.
pub(super) const DOZEN: usize = 32;

/// Entries that no thread keeps, and the chunks of all entries.
#[derive(Default)]
pub(in crate::pool) struct Entries(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    chunks: Vec<Entry>,
    free: Vec<Entry>,
}

// SAFETY: only the thread that has taken an entry out reaches it.
unsafe impl Send for Kept {}

type Chunk = [MaybeUninit<Handle>; DOZEN];

/// Makes a dozen entries; the first one names their chunk.
fn make(out: &mut Vec<Entry>) -> Entry {
    let first = NonNull::from(Box::leak(Box::<Chunk>::new([MaybeUninit::uninit(); DOZEN]))).cast();
    // SAFETY: `at` is inside the chunk of DOZEN entries.
    out.extend((0..DOZEN).map(|at| unsafe { first.add(at) }));
    first
}

impl Drop for Kept {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            // SAFETY: `make` made it with `Box::leak`; a pool that no thread has open has no
            // handles.
            drop(unsafe { Box::<Chunk>::from_raw(chunk.as_ptr().cast()) });
        }
    }
}

impl Entries {
    /// Never waits for long: a forked child may have inherited the lock from a thread that it does
    /// not have.
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

    /// Takes one entry, and more of them into `more` for the next time.
    #[cold]
    pub(in crate::pool) fn take(&self, more: &mut Vec<Entry>) -> Entry {
        let kept = self.lock();
        let Some(mut kept) = kept else {
            // Their chunk is not recorded: it is freed at the process's end.
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

    /// Gives all but so many entries to other threads.
    #[cold]
    pub(in crate::pool) fn give(&self, entries: &mut Vec<Entry>, keep: usize) {
        if let Some(mut kept) = self.lock() {
            kept.free.extend(entries.drain(keep.min(entries.len())..));
        }
    }
}
