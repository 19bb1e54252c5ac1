//! Caches: what a thread keeps of a pool to itself, and what a process remembers of a full one.
//! They use the heap.
//!
//! A thread's cache of a pool's objects is private memory, last in first out, bounded in bytes: a
//! magazine for each size.
//!
//! What is in a cache says so in its tag, cached(P), where P is the *process*: a thread that ends in an orderly way empties
//! its caches, and after any other end of a process all that it had in caches is free. Nothing else is shared, so neither a
//! hit nor a free into the cache has a locked instruction.
//!
//! What a hit and a free touch, the fast path, stands in `magazine.rs`. In a forked child the cache
//! is the parent's, and forgotten.
//!
//! The bound is kept without counting each object: magazines are granted room by the slow path, as
//! many objects as fit into the bound, and what comes in within the grant needs no more than a
//! comparison. Time goes by slow steps, too.
//!
//! Within the bound a magazine keeps as many as have been of use: it begins with [`LEAST`], keeps
//! twice as many when objects are missing of which it gave some back, and half as many when it goes
//! on giving back and none are ever missing.

mod magazine;
mod negative;

use core::ptr::NonNull;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use crate::liveness::{Me, TokenId};
use crate::pool::file::{File, ObjectPtr};
use crate::pool::heap::{CLASSES, CLUSTER, Links, NUMBER_BITS, SPAN, Tag, free_list, size_of_class};
use crate::pool::pool::Inner;
use crate::shim::{AtomicU32, Ordering};
use crate::sys::map;
use crate::sys::thread_end::ThreadEnd;
use magazine::{CACHES, DOZEN, Magazine, NOTHING};
pub(in crate::pool) use magazine::{
    Entries, Entry, FastPath, Handle, MAGAZINES, MOST_CACHES, magazine_of_long, magazine_of_run,
};
pub(in crate::pool) use negative::NegativeCache;

/// A thread's cache of one pool, but for what the fast path touches.
pub(in crate::pool) struct Cache {
    inner: Arc<Inner>,
    fast: NonNull<FastPath>,
    /// What each magazine has room for, and how many objects it was granted.
    bins: [Bin; MAGAZINES as usize],
    /// All that was granted. What magazines do not use of it they lose to the next that asks.
    bytes: u64,
    /// Something came in for which nothing was left to grant.
    is_over: bool,
    flushes: u32,
    /// Numbers of offers that are this thread's to give.
    numbers: Range<u32>,
    /// Kept for `evict`, so that it need not allocate.
    leaving: Vec<ObjectPtr>,
    /// For handles.
    entries: Vec<Entry>,
}

/// What the cache knows of one of its magazines.
#[derive(Clone, Copy)]
struct Bin {
    /// How many entries it has memory for.
    capacity: usize,
    granted: usize,
    /// The most objects that the magazine keeps: as many as have been of use, see
    /// [`Cache::missed`].
    most: usize,
    /// How many were given back for that since something was missing.
    unused: usize,
}

impl Bin {
    const NONE: Bin = Bin { capacity: 0, granted: 0, most: LEAST, unused: 0 };
}

/// Magazines may keep so many, if that is not too much in bytes.
const LEAST: usize = 8 * CLUSTER;
/// A magazine of which so many times as many were given back as it keeps, and nothing was missing,
/// keeps half as many.
const UNUSED: usize = 4;

static LEAVE: ThreadEnd = ThreadEnd::new(leave);

/// The thread ends: what it has in caches is for others.
extern "C" fn leave(_: *mut core::ffi::c_void) {
    CACHES.with(|caches| caches.iter().for_each(drop_cache));
}

/// Empties a cache and forgets it. A parent's copy is not even freed: it costs less than care.
fn drop_cache(cell: &Cell<*const FastPath>) {
    let fast = cell.replace(&raw const NOTHING.0);
    // SAFETY: mapped, or `NOTHING`.
    let cache = unsafe { (*fast).cache };
    if !cache.is_null() {
        // SAFETY: made by `Cache::own`, in this thread, and out of reach by now.
        drop(unsafe { Box::from_raw(cache) });
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.flush();
        for (magazine, bin) in self.fast().magazines.iter().zip(&self.bins) {
            if bin.capacity > 0 {
                // SAFETY: as `make_room` made it, and empty.
                drop(unsafe { Vec::from_raw_parts(magazine.base.get(), 0, bin.capacity) });
            }
        }
        self.inner.entries.give(&mut self.entries, 0);
        // SAFETY: this cache's own page, which nobody reaches any more.
        unsafe { map::unmap_page(self.fast.cast()) };
    }
}

/// The most bytes that one of a magazine's has, which is what it counts for.
fn unit(magazine: usize) -> u64 {
    if magazine < CLASSES as usize {
        size_of_class(magazine as u32)
    } else {
        (magazine as u64 - u64::from(CLASSES) + 1) * SPAN
    }
}

impl Cache {
    /// The calling thread's cache of a pool, if it has one.
    ///
    /// # Safety
    /// The reference is not kept while user code, or anything else that asks for the same cache, may run.
    #[expect(clippy::mut_from_ref, reason = "the cache is the thread's, not the pool's")]
    #[inline]
    pub(in crate::pool) unsafe fn find(inner: &Inner) -> Option<&mut Cache> {
        // SAFETY: given up at once. Not null in the thread that made it only; a box.
        unsafe { FastPath::of(inner.number as u32).cache.as_mut() }
    }

    /// As [`Cache::find`], made when there is none. `None` when the thread's end could not be waited for.
    ///
    /// # Safety
    /// As [`Cache::find`].
    #[expect(clippy::mut_from_ref, reason = "the cache is the thread's, not the pool's")]
    #[cold]
    pub(in crate::pool) unsafe fn own(inner: &Inner, process: TokenId) -> Option<&mut Cache> {
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
            let closed = |cell: &&Cell<*const FastPath>| {
                // SAFETY: this thread's alone, and no reference is about: the caller's promise.
                unsafe { (*cell.get()).cache.as_ref() }.is_some_and(|cache| cache.inner.is_closed())
            };
            caches.iter().filter(closed).for_each(drop_cache);
            let shared = inner.this.upgrade()?;
            let fast = map::page_wiped_on_fork().ok()?.cast::<FastPath>();
            let cache = Box::into_raw(Box::new(Cache {
                inner: shared,
                fast,
                bins: [Bin::NONE; MAGAZINES as usize],
                bytes: 0,
                is_over: false,
                flushes: inner.file.header().flushes.load(Ordering::Relaxed),
                numbers: 0..0,
                leaving: Vec::with_capacity(CLUSTER),
                entries: Vec::new(),
            }));
            // SAFETY: a page of zeroes is room for it, and this thread's.
            unsafe {
                fast.write(FastPath {
                    owned: Tag::Owned(process).encode(),
                    cached: Tag::Cached(process).encode(),
                    modes: &raw const inner.file.header().modes,
                    cache,
                    time: Cell::new(0),
                    magazines: [Magazine::EMPTY; MAGAZINES as usize + 1],
                });
            }
            caches[inner.number].set(fast.as_ptr());
            // SAFETY: just made; the caller's promise.
            Some(unsafe { &mut *cache })
        })
    }

    #[inline]
    fn fast<'h>(&self) -> &'h FastPath {
        // SAFETY: its page, as long as it lives; nothing of it is reached otherwise than by shared references.
        unsafe { self.fast.as_ref() }
    }

    /// What tags say of objects in use by this process.
    pub(in crate::pool) fn owned(&self) -> u64 {
        self.fast().owned
    }

    /// What this process keeps of an object that is in use.
    pub(in crate::pool) fn handle(&mut self, handle: Handle) -> Entry {
        let entry = match self.entries.pop() {
            Some(entry) => entry,
            None => self.inner.entries.take(&mut self.entries),
        };
        // SAFETY: room for a handle, this thread's.
        unsafe { entry.write(handle) };
        entry
    }

    /// It has no object any more.
    pub(in crate::pool) fn forget(&mut self, entry: Entry) {
        self.entries.push(entry);
        if self.entries.len() >= 2 * DOZEN {
            self.inner.entries.give(&mut self.entries, DOZEN);
        }
    }

    /// The hottest object of a magazine, if it has that many bytes. Its tag is the caller's to set.
    pub(in crate::pool) fn pop_object(&mut self, magazine: u32, len: usize) -> Option<ObjectPtr> {
        let magazine = self.fast().magazines.get(magazine as usize)?;
        let entry = magazine.hottest()?;
        // SAFETY: the cache's.
        let ptr = unsafe { entry.as_ref() }.ptr;
        if (ptr.capacity as usize) < len {
            return None;
        }
        magazine.take_hottest();
        self.forget(entry);
        Some(ptr)
    }

    /// As [`Cache::pop_entry`], the coldest.
    pub(in crate::pool) fn pop_cold(&mut self, magazine: u32, len: usize) -> Option<ObjectPtr> {
        let coldest = self.fast().magazines.get(magazine as usize)?.coldest()?;
        // SAFETY: the cache's.
        if (unsafe { coldest.as_ref() }.ptr.capacity as usize) < len {
            return None;
        }
        self.take_cold(magazine as usize, 1);
        self.leaving.pop()
    }

    /// So many of the coldest, into `leaving`.
    fn take_cold(&mut self, at: usize, most: usize) {
        let magazine = &self.fast().magazines[at];
        self.leaving.clear();
        let most = most.min(magazine.len());
        for _ in 0..most {
            let Some(entry) = magazine.coldest() else { break };
            // SAFETY: the cache's, and below the top.
            unsafe {
                magazine.bottom.set(magazine.bottom.get().add(1));
                self.leaving.push(entry.as_ref().ptr);
            }
            self.forget(entry);
        }
        self.grant(at, self.bins[at].granted.saturating_sub(most));
    }

    /// So many may be in the magazine, for which there is room.
    fn grant(&mut self, at: usize, granted: usize) {
        let bin = &mut self.bins[at];
        self.bytes = self.bytes - bin.granted as u64 * unit(at) + granted as u64 * unit(at);
        bin.granted = granted;
        let magazine = &self.fast().magazines[at];
        // SAFETY: inside the room, or just behind it.
        magazine.limit.set(unsafe { magazine.bottom.get().add(granted) });
    }

    /// What magazines do not use is granted to nobody.
    fn settle(&mut self) {
        for at in 0..self.bins.len() {
            self.grant(at, self.fast().magazines[at].len());
        }
    }

    /// There is nothing in that magazine. If it gave something back before, it should have kept
    /// more.
    ///
    /// So a thread that frees what others have taken keeps little of it: what lies at the bottom of a large heap is in no
    /// processor's cache any more when it is taken again, and those who take would always need new memory meanwhile.
    pub(in crate::pool) fn missed(&mut self, magazine: u32) {
        if let Some(bin) = self.bins.get_mut(magazine as usize)
            && bin.unused > 0
        {
            bin.most = bin.most.saturating_mul(2);
            bin.unused = 0;
        }
    }

    /// Room for one more at least, and a grant of as many as may come.
    fn make_room(&mut self, at: usize) {
        let fast = self.fast();
        fast.time.set(fast.time.get().wrapping_add(1));
        let magazine = &fast.magazines[at];
        if magazine.len() >= self.bins[at].most {
            self.release_cold(at);
            let bin = &mut self.bins[at];
            bin.unused += CLUSTER;
            if bin.unused > UNUSED * bin.most {
                (bin.most, bin.unused) = ((bin.most / 2).max(LEAST), CLUSTER);
            } else if magazine.len() >= bin.most {
                // It keeps less than it did: a little at a time.
                self.release_cold(at);
            }
        }
        let bin = &mut self.bins[at];
        let len = magazine.len();
        let more = len.clamp(CLUSTER, MOST_GRANTED).min(bin.most.saturating_sub(len).max(CLUSTER));
        debug_assert!(bin.granted <= len, "whoever has no room has used what was granted");
        let before = (magazine.bottom.get() as usize - magazine.base.get() as usize) / size_of::<Entry>();
        if before + len + more > bin.capacity {
            // Down to the beginning, where that is worth it; else into a larger room.
            let capacity = if len + more <= bin.capacity / 2 { bin.capacity } else { (len + more) * 2 };
            let mut rebuilt: Vec<Entry> = Vec::with_capacity(capacity);
            // SAFETY: what is in the magazine; and the old room, whose entries are copied.
            unsafe {
                rebuilt.extend_from_slice(core::slice::from_raw_parts(
                    NonNull::new(magazine.bottom.get()).unwrap_or(NonNull::dangling()).as_ptr(),
                    len,
                ));
                drop(Vec::from_raw_parts(
                    NonNull::new(magazine.base.get()).unwrap_or(NonNull::dangling()).as_ptr(),
                    0,
                    bin.capacity,
                ));
            }
            let mut rebuilt = core::mem::ManuallyDrop::new(rebuilt);
            bin.capacity = rebuilt.capacity();
            let base = rebuilt.as_mut_ptr();
            magazine.base.set(base);
            magazine.bottom.set(base);
            // SAFETY: inside the room.
            magazine.top.set(unsafe { base.add(len) });
        }
        let (unit, wanted) = (unit(at), len + more);
        let most = self.inner.cache_bytes.load(Ordering::Relaxed);
        if self.bytes + (wanted - self.bins[at].granted) as u64 * unit > most {
            self.settle();
        }
        let rest = most.saturating_sub(self.bytes) / unit;
        let granted = (self.bins[at].granted as u64).saturating_add(rest).min(wanted as u64);
        self.grant(at, granted as usize);
    }

    /// An object of this process's, or that this thread holds, comes in. Afterwards there may be too much: [`Cache::evict`].
    pub(in crate::pool) fn push(&mut self, mut entry: Entry) {
        // SAFETY: the caller's alone, which it gives up.
        let handle = unsafe { entry.as_mut() };
        let at = handle.magazine as usize;
        let fast = self.fast();
        // Died just after: cached(P), free once P has ended.
        handle.ptr.set(fast.cached);
        if fast.magazines[at].room().is_none() {
            self.make_room(at);
        }
        handle.came = fast.time.get();
        // `make_room` has made some, granted or not.
        self.is_over |= fast.magazines[at].room().is_none();
        fast.magazines[at].put(fast.magazines[at].top.get(), entry);
    }

    /// Whether one of that magazine's can stay here at all. Where that is another question than it
    /// was, what is too much leaves.
    pub(in crate::pool) fn fits(&mut self, magazine: u32) -> bool {
        let most = self.inner.cache_bytes.load(Ordering::Relaxed);
        if self.bytes > most {
            self.is_over = true;
            self.evict();
        }
        unit(magazine as usize) <= most
    }

    /// The same of an object that has no handle.
    pub(in crate::pool) fn push_object(&mut self, magazine: u32, ptr: ObjectPtr) {
        let inner = Arc::clone(&self.inner);
        let handle = Handle::new(&inner, ptr, magazine, 0, self.owned());
        let entry = self.handle(handle);
        self.push(entry);
    }

    /// Gives back what is too much: from a size that has more than its share, else what has lain longest.
    pub(in crate::pool) fn evict(&mut self) {
        let fast = self.fast();
        if !core::mem::replace(&mut self.is_over, false) {
            return;
        }
        self.settle();
        loop {
            let most = self.inner.cache_bytes.load(Ordering::Relaxed);
            if self.bytes <= most {
                return;
            }
            let magazines = fast.magazines.iter().take(self.bins.len()).enumerate();
            let greedy = |(at, magazine): &(usize, &Magazine)| {
                magazine.len() > CLUSTER && magazine.len() as u64 * unit(*at) > most / 4
            };
            let age = |magazine: &Magazine| {
                // SAFETY: the cache's.
                magazine.coldest().map(|coldest| fast.time.get().wrapping_sub(unsafe { coldest.as_ref() }.came))
            };
            let from = magazines.clone().find(greedy).map(|(at, _)| at).or_else(|| {
                let oldest =
                    magazines.filter_map(|(at, magazine)| Some((age(magazine)?, core::cmp::Reverse(at)))).max();
                oldest.map(|(_, at)| at.0)
            });
            let Some(from) = from else { return };
            self.release_cold(from);
        }
    }

    /// All of it to the shared lists.
    pub(in crate::pool) fn flush(&mut self) {
        for magazine in 0..self.bins.len() {
            while self.fast().magazines[magazine].len() > 0 {
                self.release_cold(magazine);
            }
        }
    }

    /// Empties itself if somebody has asked all to.
    pub(in crate::pool) fn heed_flushes(&mut self) {
        let asked = self.inner.file.header().flushes.load(Ordering::Relaxed);
        if asked != self.flushes {
            self.flushes = asked;
            self.flush();
        }
    }

    /// The coldest of a magazine become free. Died in it: some are free, some are cached(P) still.
    fn release_cold(&mut self, magazine: usize) {
        self.take_cold(magazine, CLUSTER);
        release(&self.inner.file, self.inner.registry.me().ok(), magazine as u32, &self.leaving);
    }

    /// A number that no other offer of this pool has, until all have been used.
    pub(in crate::pool) fn next_number(&mut self) -> u32 {
        if self.numbers.is_empty() {
            let first = self.inner.file.header().numbers.fetch_add(NUMBERS, Ordering::Relaxed) & MASK;
            self.numbers = first..first + NUMBERS;
        }
        self.numbers.next().unwrap_or(0) & MASK
    }
}

/// A magazine is granted so many more at once, at most.
const MOST_GRANTED: usize = 64;

/// Numbers of offers are given out to threads by the hundred or so.
const NUMBERS: u32 = 128;
const MASK: u32 = (1 << NUMBER_BITS) - 1;

/// Objects whose tags are this thread's to change become free; those of a class are put into a list.
pub(in crate::pool) fn release(file: &File, me: Option<Me>, magazine: u32, objects: &[ObjectPtr]) {
    match me {
        Some(me) if magazine < CLASSES => {
            let mut references = [0; CLUSTER];
            for objects in objects.chunks(CLUSTER) {
                let references = &mut references[..objects.len()];
                references.iter_mut().zip(objects).for_each(|(reference, ptr)| *reference = ptr.reference);
                let home = me.id.slot() as usize;
                let leaving = Leaving { file, me, objects };
                free_list::push_all(file.lists(magazine), home, me, &leaving, references, &mut { leaving });
            }
        }
        _ => objects.iter().for_each(|ptr| ptr.set(0)),
    }
    // Died just before: counted as taken until the next `gc`.
    file.note_freed(magazine, me.map_or(0, |me| me.id.slot() as usize), objects.len() as u32);
}

/// Objects on their way into a list.
#[derive(Clone, Copy)]
struct Leaving<'a> {
    file: &'a File,
    me: Me,
    objects: &'a [ObjectPtr],
}

impl Leaving<'_> {
    fn ptr(&self, reference: u32) -> Option<&ObjectPtr> {
        self.objects.iter().find(|ptr| ptr.reference == reference)
    }
}

/// They are this thread's, so each is where it was found: no look at its span is needed.
impl Links for Leaving<'_> {
    fn link(&self, reference: u32) -> Option<&AtomicU32> {
        self.ptr(reference).map(|ptr| &ptr.record().link)
    }

    fn epoch(&self) -> u32 {
        self.file.epoch()
    }
}

impl free_list::Tags for Leaving<'_> {
    fn free(&mut self, reference: u32) {
        if let Some(ptr) = self.ptr(reference) {
            ptr.set(0);
        }
    }

    fn take_back(&mut self, reference: u32) -> bool {
        let (file, segment) = (self.file, &self.file.segment);
        // Its span may have been taken apart since: then it is nobody's business any more.
        let capacity = self.ptr(reference).map_or(0, |ptr| u64::from(ptr.capacity));
        let block = file.heap.object(segment, reference).filter(|block| block.capacity == capacity);
        block.is_some_and(|block| file.heap.take(segment, &block, self.me, file).unwrap_or(false))
    }
}
