//! A thread's cache of a pool's objects: private memory, hot first, bounded in bytes.
//!
//! What is in a cache says so in its tag, cached(P), where P is the *process*: a thread that ends in an orderly way empties
//! its caches, and after any other end of a process all that it had in caches is free. Nothing else is shared, so neither a
//! hit nor a free into the cache has a locked instruction.
//!
//! A cache is its thread's as long as that has the token that made it. In a forked child the token is another, and what the
//! cache lists is the parent's: the child forgets it.

use core::ptr::NonNull;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use super::classes::CLASSES;
use super::file::{File, Record};
use super::head::{self, CLUSTER};
use super::pool::{Inner, Pool};
use super::spans::SPAN;
use super::tag::{NUMBER_BITS, Tag};
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU64, Ordering, compiler_fence};
use crate::sys::thread_end::ThreadEnd;

/// Runs of so many spans are cached too.
const RUNS: u32 = 8;
/// A shelf for each class, then for each length of runs.
pub(super) const SHELVES: u32 = CLASSES + RUNS;
/// The most pools that a thread has caches of at once; those beyond do without.
pub(super) const MOST_CACHES: usize = 64;

/// The shelf of runs of that many spans.
pub(super) fn shelf_of_run(spans: u64) -> Option<u32> {
    (1..=u64::from(RUNS)).contains(&spans).then(|| CLASSES + spans as u32 - 1)
}

/// The shelf of a run that holds so many bytes.
pub(super) fn shelf_of_long(len: u64) -> Option<u32> {
    shelf_of_run(len.div_ceil(SPAN))
}

/// An object in this process.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) data: NonNull<u8>,
    pub(super) record: NonNull<Record>,
    pub(super) reference: u32,
    /// The runs that are cached have up to 16 MiB.
    pub(super) capacity: u32,
}

impl Entry {
    /// From a tag that names this process, or this thread, which nobody else changes while they live.
    #[inline]
    pub(super) fn set(&self, tag: u64) {
        // Release: whoever takes it over has our bytes behind it. Pairs with `Heap::take`, `claim` and `collect`.
        self.record().tag.store(tag, Ordering::Release);
    }

    /// What its record says of its bytes is not so any more. Its tag is the caller's to change.
    pub(super) fn forget_bytes(&self) {
        let note = &self.record().note;
        if note.load(Ordering::Relaxed) != 0 {
            note.store(0, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
        }
    }

    #[inline]
    pub(super) fn record(&self) -> &Record {
        // SAFETY: an object's record lies in the mapping as long as the pool is open, and entries are kept by what holds
        // that open.
        unsafe { self.record.as_ref() }
    }
}

/// What this process keeps of an object that it has, in use or in a cache: an [`Object`](super::Object) is a pointer to it. Of
/// several words, each result that an object comes in would be written as words and read as larger pieces at once, and the
/// processor waits for that longer than all the rest takes.
#[derive(Clone, Copy)]
pub(super) struct Handle {
    /// In use: of which pool.
    pub(super) pool: *const Pool,
    pub(super) entry: Entry,
    /// In use: how many bytes were asked for.
    pub(super) len: usize,
    /// What its tag says as long as it is this process's.
    pub(super) owned: u64,
    /// Where it goes in a cache; `SHELVES` if nowhere. With the flags of `object.rs`.
    pub(super) shelf: u32,
}

impl Handle {
    pub(super) fn make(self) -> NonNull<Handle> {
        NonNull::from(Box::leak(Box::new(self)))
    }

    /// # Safety
    /// Made by [`Handle::make`], and nobody uses it any more.
    pub(super) unsafe fn unmake(handle: NonNull<Handle>) {
        // SAFETY: a box's; the caller's promise.
        drop(unsafe { Box::from_raw(handle.as_ptr()) });
    }
}

/// Free objects of one size, the hottest last; those before `cold` have left.
#[derive(Default)]
struct Shelf {
    /// With the time when each came in.
    handles: Vec<(NonNull<Handle>, u64)>,
    cold: usize,
}

impl Shelf {
    fn len(&self) -> usize {
        self.handles.len() - self.cold
    }

    /// What those have that are here.
    fn bytes(&self) -> u64 {
        // SAFETY: made for this cache, which has it still.
        self.handles[self.cold..].iter().map(|(handle, _)| u64::from(unsafe { handle.as_ref() }.entry.capacity)).sum()
    }

    fn coldest(&self) -> Option<u64> {
        self.handles.get(self.cold).map(|(_, stamp)| *stamp)
    }

    /// So many of the coldest.
    fn take_cold(&mut self, most: usize, out: &mut Vec<Entry>) {
        let end = (self.cold + most).min(self.handles.len());
        for (handle, _) in &self.handles[self.cold..end] {
            // SAFETY: made for this cache, which forgets it here.
            unsafe {
                out.push(handle.as_ref().entry);
                Handle::unmake(*handle);
            }
        }
        self.cold = end;
        if self.cold * 2 >= self.handles.len() {
            self.handles.drain(..self.cold);
            self.cold = 0;
        }
    }
}

/// See the file's head.
pub(super) struct Cache {
    inner: Arc<Inner>,
    /// Whose it is: the thread's token.
    thread: u32,
    /// What tags say of objects in use by this process.
    pub(super) owned: u64,
    /// And of those in its caches.
    cached: u64,
    /// The pool's debug modes, in its head.
    modes: NonNull<AtomicU64>,
    shelves: Vec<Shelf>,
    bytes: u64,
    /// Counts what comes in, to tell what is old.
    clock: u64,
    flushes: u32,
    /// Numbers of offers that are this thread's to give.
    numbers: Range<u32>,
    /// Kept for `evict`, so that it need not allocate.
    leaving: Vec<Entry>,
}

thread_local! {
    /// By the pool's number.
    static CACHES: [Cell<*mut Cache>; MOST_CACHES] = const { [const { Cell::new(core::ptr::null_mut()) }; MOST_CACHES] };
}

static LEAVE: ThreadEnd = ThreadEnd::new(leave);

/// The thread ends: what it has in caches is for others.
extern "C" fn leave(_: *mut core::ffi::c_void) {
    CACHES.with(|caches| caches.iter().for_each(drop_cache));
}

/// Empties a cache and forgets it.
fn drop_cache(place: &Cell<*mut Cache>) {
    let cache = place.replace(core::ptr::null_mut());
    if !cache.is_null() {
        // SAFETY: made by `Cache::own`, in this thread or in the one that forked this process, and out of reach by now.
        let mut cache = unsafe { Box::from_raw(cache) };
        if cache.is_own() {
            cache.flush();
        }
    }
}

impl Cache {
    /// The calling thread's cache of a pool, if it has one.
    ///
    /// # Safety
    /// The reference is not kept while user code, or anything else that asks for the same cache, may run.
    #[expect(clippy::mut_from_ref, reason = "the cache is the thread's, not the pool's")]
    #[inline]
    pub(super) unsafe fn find(inner: &Inner) -> Option<&mut Cache> {
        let number = inner.number;
        if number >= MOST_CACHES {
            return None;
        }
        let cache = CACHES.with(|caches| caches[number].get());
        if cache.is_null() {
            return None;
        }
        // SAFETY: this thread's alone (or a copy of its parent's, made by fork), a box; the caller keeps no second one.
        let cache = unsafe { &mut *cache };
        cache.is_own().then_some(cache)
    }

    /// Whether it was made by this thread of this process.
    #[inline]
    fn is_own(&self) -> bool {
        self.thread == self.inner.registry.current_bits()
    }

    /// As [`Cache::find`], made when there is none. `None` when the thread's end could not be waited for.
    ///
    /// # Safety
    /// As [`Cache::find`].
    #[expect(clippy::mut_from_ref, reason = "the cache is the thread's, not the pool's")]
    #[cold]
    pub(super) unsafe fn own(inner: &Arc<Inner>, me: Me, process: TokenId) -> Option<&mut Cache> {
        // SAFETY: as the caller's promise has it.
        if let Some(cache) = unsafe { Cache::find(inner) } {
            return Some(cache);
        }
        if inner.number >= MOST_CACHES {
            return None;
        }
        LEAVE.arm().ok()?;
        CACHES.with(|caches| {
            // Of pools that nobody has open any more.
            let closed = |place: &&Cell<*mut Cache>| {
                let cache = place.get();
                // SAFETY: this thread's alone, and no reference is about: the caller's promise.
                !cache.is_null() && unsafe { (*cache).inner.is_closed() }
            };
            caches.iter().filter(closed).for_each(drop_cache);
            let place = &caches[inner.number];
            // A parent's is forgotten, objects and all; not freed, since a copy of its memory costs less than care.
            place.set(Box::into_raw(Box::new(Cache {
                inner: Arc::clone(inner),
                thread: me.id.as_u32(),
                owned: Tag::Owned(process).encode(),
                cached: Tag::Cached(process).encode(),
                modes: NonNull::from(&inner.file.head().modes),
                shelves: (0..SHELVES).map(|_| Shelf::default()).collect(),
                bytes: 0,
                clock: 0,
                flushes: inner.file.head().flushes.load(Ordering::Relaxed),
                numbers: 0..0,
                leaving: Vec::with_capacity(CLUSTER),
            })));
            // SAFETY: just made; the caller's promise.
            Some(unsafe { &mut *place.get() })
        })
    }

    /// Whether any debug mode is on.
    #[inline]
    pub(super) fn has_modes(&self) -> bool {
        // SAFETY: in the mapping, which `inner` keeps. Relaxed: see `modes.rs`.
        unsafe { self.modes.as_ref() }.load(Ordering::Relaxed) as u32 != 0
    }

    /// The hottest object of a shelf, if it has that many bytes (of a class all have; of a run perhaps not so many pages).
    /// Its tag is the caller's to set.
    #[inline]
    pub(super) fn pop(&mut self, shelf: u32, len: usize) -> Option<NonNull<Handle>> {
        let shelf = self.shelves.get_mut(shelf as usize)?;
        if shelf.handles.len() == shelf.cold {
            return None;
        }
        let (handle, _) = *shelf.handles.last()?;
        // SAFETY: made for this cache, which has it still.
        let capacity = unsafe { handle.as_ref() }.entry.capacity;
        if (capacity as usize) < len {
            return None;
        }
        shelf.handles.pop();
        self.bytes -= u64::from(capacity);
        Some(handle)
    }

    /// As [`Cache::pop`], but for the handle.
    pub(super) fn pop_entry(&mut self, shelf: u32, len: usize) -> Option<Entry> {
        let handle = self.pop(shelf, len)?;
        // SAFETY: made for this cache, which has forgotten it.
        unsafe {
            let entry = handle.as_ref().entry;
            Handle::unmake(handle);
            Some(entry)
        }
    }

    /// As [`Cache::pop`], the coldest.
    pub(super) fn pop_cold(&mut self, shelf: u32, len: usize) -> Option<Entry> {
        let shelf = self.shelves.get_mut(shelf as usize)?;
        let (handle, _) = shelf.handles.get(shelf.cold)?;
        // SAFETY: made for this cache, which has it still.
        let capacity = unsafe { handle.as_ref() }.entry.capacity;
        if (capacity as usize) < len {
            return None;
        }
        self.leaving.clear();
        shelf.take_cold(1, &mut self.leaving);
        self.bytes -= u64::from(capacity);
        self.leaving.pop()
    }

    /// An object of this process's, or that this thread holds, comes in.
    #[inline]
    pub(super) fn push(&mut self, handle: NonNull<Handle>) {
        // SAFETY: the caller's alone, which it gives up.
        let Handle { entry, shelf, .. } = unsafe { handle.as_ref() };
        // Died just after: cached(P), free once P has ended.
        entry.set(self.cached);
        self.clock += 1;
        let stamp = self.clock;
        if let Some(shelf) = self.shelves.get_mut(*shelf as usize) {
            shelf.handles.push((handle, stamp));
            self.bytes += u64::from(entry.capacity);
        }
    }

    /// The same of an object that has no handle.
    pub(super) fn push_entry(&mut self, shelf: u32, entry: Entry) {
        self.push(Handle { pool: core::ptr::null(), entry, len: 0, owned: self.owned, shelf }.make());
    }

    /// Whether it has more than it may.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.bytes > self.inner.cache_bytes.load(Ordering::Relaxed)
    }

    /// Gives back what is too much: from a size that has more than its share, else what has lain longest.
    #[cold]
    #[inline(never)]
    pub(super) fn evict(&mut self) {
        while self.is_full() {
            let share = self.inner.cache_bytes.load(Ordering::Relaxed) / 4;
            let greedy = |shelf: &Shelf| shelf.len() > CLUSTER && shelf.bytes() > share;
            let shelves = self.shelves.iter();
            let from = shelves.clone().position(greedy).or_else(|| {
                let oldest = shelves.enumerate().filter_map(|(at, shelf)| Some((shelf.coldest()?, at))).min();
                oldest.map(|(_, at)| at)
            });
            let Some(from) = from else { return };
            self.release_cold(from);
        }
    }

    /// All of it to the shared lists.
    pub(super) fn flush(&mut self) {
        for shelf in 0..self.shelves.len() {
            while self.shelves[shelf].len() > 0 {
                self.release_cold(shelf);
            }
        }
    }

    /// Empties itself if somebody has asked all to.
    pub(super) fn heed_flushes(&mut self) {
        let asked = self.inner.file.head().flushes.load(Ordering::Relaxed);
        if asked != self.flushes {
            self.flushes = asked;
            self.flush();
        }
    }

    /// The coldest of a shelf become free. Died in it: some are free, some are cached(P) still.
    fn release_cold(&mut self, shelf: usize) {
        self.leaving.clear();
        self.shelves[shelf].take_cold(CLUSTER, &mut self.leaving);
        self.bytes -= self.leaving.iter().map(|entry| u64::from(entry.capacity)).sum::<u64>();
        release(&self.inner.file, self.inner.registry.me().ok(), shelf as u32, &self.leaving);
    }

    /// A number that no other offer of this pool has, until all have been used.
    pub(super) fn next_number(&mut self) -> u32 {
        if self.numbers.is_empty() {
            let first = self.inner.file.head().numbers.fetch_add(NUMBERS, Ordering::Relaxed) & MASK;
            self.numbers = first..first + NUMBERS;
        }
        self.numbers.next().unwrap_or(0) & MASK
    }
}

/// Numbers of offers are given out to threads by the hundred or so.
const NUMBERS: u32 = 128;
const MASK: u32 = (1 << NUMBER_BITS) - 1;

/// Objects whose tags are this thread's to change become free; those of a class are put into a list.
pub(super) fn release(file: &File, me: Option<Me>, shelf: u32, entries: &[Entry]) {
    match me {
        Some(me) if shelf < CLASSES => {
            let mut references = [0; CLUSTER];
            for entries in entries.chunks(CLUSTER) {
                let references = &mut references[..entries.len()];
                references.iter_mut().zip(entries).for_each(|(reference, entry)| *reference = entry.reference);
                let home = me.id.slot() as usize;
                head::push_all(file.lists(shelf), home, me, file, references, &mut Leaving { file, me, entries });
            }
        }
        _ => entries.iter().for_each(|entry| entry.set(0)),
    }
    // Died just before: counted as taken until the next `gc`.
    file.note_freed(shelf, me.map_or(0, |me| me.id.slot() as usize), entries.len() as u32);
}

/// Objects on their way into a list.
struct Leaving<'a> {
    file: &'a File,
    me: Me,
    entries: &'a [Entry],
}

impl Leaving<'_> {
    fn entry(&self, reference: u32) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.reference == reference)
    }
}

impl head::Tags for Leaving<'_> {
    fn free(&mut self, reference: u32) {
        if let Some(entry) = self.entry(reference) {
            entry.set(0);
        }
    }

    fn take_back(&mut self, reference: u32) -> bool {
        let (file, segment) = (self.file, &self.file.segment);
        // Its span may have been taken apart since: then it is nobody's business any more.
        let capacity = self.entry(reference).map_or(0, |entry| u64::from(entry.capacity));
        let block = file.heap.object(segment, reference).filter(|block| block.capacity == capacity);
        block.is_some_and(|block| file.heap.take(segment, &block, self.me, file).unwrap_or(false))
    }
}
