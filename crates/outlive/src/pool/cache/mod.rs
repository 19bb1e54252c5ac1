//! Caches: what a thread keeps of a pool to itself, and what a process remembers of a full pool.
//! This folder uses the heap.
//!
//! A thread's cache of a pool's objects is private memory, last in first out, bounded in bytes: a
//! magazine for each size.
//!
//! An object in a cache has the tag cached(P), where P is the *process*: a thread that ends in
//! order empties its caches, and after any other end of a process all objects in its caches are
//! free. Nothing else is shared, so neither a hit nor a free into the cache has a locked
//! instruction.
//!
//! `magazine.rs` has the fast path: what a hit and a free touch. In a forked child the cache is the
//! parent's, and forgotten.
//!
//! The bound is kept without counting each object, which would take a load, an addition and a store
//! in each hit and each free (65 instructions together, as it is): the slow path grants magazines room for as many
//! objects as fit into the bound, and a free within the grant needs no more than a comparison. When
//! the bound is reached, the size that takes most of it gives objects back.
//!
//! Within the bound a magazine keeps as many as have been of use. It begins with [`LEAST`]. It
//! keeps twice as many when it has given some back and then lacks objects, and half as many when it
//! goes on giving back and never lacks any.

mod magazine;
mod negative;

use core::ptr::NonNull;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use crate::liveness::{Me, TokenId};
use crate::pool::file::{File, ObjectPtr};
use crate::pool::heap::{
    BUCKETS, CLASSES, CLUSTER, HeapHost, NUMBER_BITS, SPAN, Tag, size_of_class,
};
use crate::pool::inner::Inner;
use crate::shim::Ordering;
use crate::sys::map;
use crate::sys::thread_end::ThreadEnd;
use magazine::{CACHES, DOZEN, Magazine, NOTHING};
pub(in crate::pool) use magazine::{
    Entries, Entry, FastPath, Handle, MAGAZINES, MOST_CACHES, magazine_of_long,
};
pub(in crate::pool) use negative::NegativeCache;

/// A thread's cache of one pool, without the part that the fast path touches.
pub(in crate::pool) struct Cache {
    inner: Arc<Inner>,
    fast: NonNull<FastPath>,
    bins: [Bin; MAGAZINES as usize],
    /// All that was granted. A magazine loses the unused part to the next that asks.
    bytes: u64,
    flushes: u32,
    /// Numbers of offers that this thread may use.
    numbers: Range<u32>,
    /// Kept for `release_cold`, so that it need not allocate.
    leaving: Vec<ObjectPtr>,
    /// Entries for handles.
    entries: Vec<Entry>,
}

/// What the cache records about one of its magazines.
#[derive(Clone, Copy)]
struct Bin {
    /// How many entries it has memory for.
    capacity: usize,
    /// The most objects that the magazine keeps: as many as have been of use, see
    /// [`Cache::missed`].
    most: usize,
    /// How many were given back because of `most` since an object was missing.
    unused: usize,
}

impl Bin {
    const NONE: Bin = Bin { capacity: 0, most: LEAST, unused: 0 };
}

/// Magazines may keep so many, if that is not too much in bytes.
const LEAST: usize = 8 * CLUSTER;
/// A magazine that has given back so many times as many as it keeps, and lacked none, keeps half as
/// many.
const UNUSED: usize = 4;

static LEAVE: ThreadEnd = ThreadEnd::new(leave);

/// Called when the thread ends: gives what it has in caches to others.
extern "C" fn leave(_: *mut core::ffi::c_void) {
    CACHES.with(|caches| caches.iter().for_each(drop_cache));
}

/// Empties a cache and forgets it. A forked child does not even free its parent's copy: that costs
/// less than taking care.
fn drop_cache(cell: &Cell<*const FastPath>) {
    let fast = cell.replace(&raw const NOTHING.0);
    // SAFETY: the pointer is `NOTHING` or a mapped page.
    let cache = unsafe { (*fast).cache };
    if !cache.is_null() {
        // SAFETY: `Cache::own` made it in this thread by `Box::into_raw`, and `cell` does not reach
        // it any more.
        drop(unsafe { Box::from_raw(cache) });
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.flush();
        for (magazine, bin) in self.fast().magazines.iter().zip(&self.bins) {
            if bin.capacity > 0 {
                // SAFETY: `make_room` made it with this capacity, and it is empty.
                drop(unsafe { Vec::from_raw_parts(magazine.base.get(), 0, bin.capacity) });
            }
        }
        self.inner.entries.give(&mut self.entries, 0);
        // SAFETY: this cache's own page, which no pointer reaches any more.
        unsafe { map::unmap_page(self.fast.cast()) };
    }
}

/// Returns the most bytes of an object in a magazine: what each of them counts for.
fn unit(magazine: usize) -> u64 {
    if magazine < CLASSES as usize {
        size_of_class(magazine as u32)
    } else {
        (magazine as u64 - u64::from(CLASSES) + 1) * SPAN
    }
}

impl Cache {
    /// Returns the calling thread's cache of a pool, if it has one.
    ///
    /// # Safety
    /// The caller gives the reference up before user code, or other code that asks for the same
    /// cache, can run.
    #[expect(clippy::mut_from_ref, reason = "the cache is the thread's, not the pool's")]
    #[inline]
    pub(in crate::pool) unsafe fn find(inner: &Inner) -> Option<&mut Cache> {
        // SAFETY: `fast` is given up with this statement. `cache` is null or this thread's own box.
        unsafe { FastPath::of(inner.number as u32).cache.as_mut() }
    }

    /// Returns the cache as [`Cache::find`] does, and makes it when there is none. `None` when the
    /// thread's end cannot be watched.
    ///
    /// # Safety
    /// The caller guarantees what [`Cache::find`] asks for.
    #[expect(clippy::mut_from_ref, reason = "the cache is the thread's, not the pool's")]
    #[cold]
    pub(in crate::pool) unsafe fn own(inner: &Inner, process: TokenId) -> Option<&mut Cache> {
        // SAFETY: the caller gives the reference up, as `find` asks.
        if let Some(cache) = unsafe { Cache::find(inner) } {
            return Some(cache);
        }
        if inner.number >= MOST_CACHES {
            return None;
        }
        LEAVE.arm().ok()?;
        CACHES.with(|caches| {
            // Caches of pools that no thread has open any more.
            let closed = |cell: &&Cell<*const FastPath>| {
                // SAFETY: the cache is this thread's alone, and the caller of `own` has no
                // reference to one.
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
                flushes: inner.file.header().flushes.load(Ordering::Relaxed),
                numbers: 0..0,
                leaving: Vec::with_capacity(CLUSTER),
                entries: Vec::new(),
            }));
            // SAFETY: a fresh page of zeroes is this thread's alone and has room for a `FastPath`.
            unsafe {
                fast.write(FastPath {
                    owned: Tag::Owned(process).encode(),
                    cached: Tag::Cached(process).encode(),
                    modes: &raw const inner.file.header().modes,
                    cache,
                    magazines: [Magazine::EMPTY; MAGAZINES as usize + 1],
                });
            }
            caches[inner.number].set(fast.as_ptr());
            // SAFETY: `cache` was just made; the caller gives the reference up, as `find` asks.
            Some(unsafe { &mut *cache })
        })
    }

    #[inline]
    fn fast<'h>(&self) -> &'h FastPath {
        // SAFETY: its page lives as long as the cache, and is reached by shared references only.
        unsafe { self.fast.as_ref() }
    }

    /// Returns the tag of objects in use by this process.
    pub(in crate::pool) fn owned(&self) -> u64 {
        self.fast().owned
    }

    /// Returns a handle for an object in use.
    pub(in crate::pool) fn handle(&mut self, handle: Handle) -> Entry {
        let entry = match self.entries.pop() {
            Some(entry) => entry,
            None => self.inner.entries.take(&mut self.entries),
        };
        // SAFETY: the entry has room for a handle, and is this thread's alone.
        unsafe { entry.write(handle) };
        entry
    }

    /// Takes back a handle that has no object any more.
    pub(in crate::pool) fn forget(&mut self, entry: Entry) {
        self.entries.push(entry);
        if self.entries.len() >= 2 * DOZEN {
            self.inner.entries.give(&mut self.entries, DOZEN);
        }
    }

    /// Takes the most recently freed object of a magazine, if it has that many bytes. The caller
    /// sets its tag.
    pub(in crate::pool) fn pop_object(&mut self, magazine: u32, len: usize) -> Option<ObjectPtr> {
        let magazine = self.fast().magazines.get(magazine as usize)?;
        let entry = magazine.hottest()?;
        // SAFETY: the entry was in this cache, which alone has it.
        let ptr = unsafe { entry.as_ref() }.ptr;
        if (ptr.capacity as usize) < len {
            return None;
        }
        magazine.take_hottest();
        self.forget(entry);
        Some(ptr)
    }

    /// Takes an object as [`Cache::pop_object`] does, but the least recently freed.
    pub(in crate::pool) fn pop_cold(&mut self, magazine: u32, len: usize) -> Option<ObjectPtr> {
        let coldest = self.fast().magazines.get(magazine as usize)?.coldest()?;
        // SAFETY: the entry is in this cache, which alone has it.
        if (unsafe { coldest.as_ref() }.ptr.capacity as usize) < len {
            return None;
        }
        self.take_cold(magazine as usize, 1);
        self.leaving.pop()
    }

    /// Moves so many of the least recently freed into `leaving`, and their bytes out of what was
    /// granted.
    fn take_cold(&mut self, at: usize, most: usize) {
        let magazine = &self.fast().magazines[at];
        self.leaving.clear();
        for _ in 0..most {
            let Some(entry) = magazine.coldest() else { break };
            // SAFETY: the entries are in this cache, which alone has them, and below the top.
            unsafe {
                magazine.bottom.set(magazine.bottom.get().add(1));
                self.leaving.push(entry.as_ref().ptr);
            }
            self.forget(entry);
        }
        self.bytes -= self.leaving.len() as u64 * unit(at);
    }

    /// Grants the magazine room for so many objects, those that it has included; it has memory for
    /// that many entries.
    fn grant(&mut self, at: usize, objects: usize) {
        let magazine = &self.fast().magazines[at];
        self.bytes -= magazine.granted() as u64 * unit(at);
        self.bytes += objects as u64 * unit(at);
        // SAFETY: the caller has made sure that this is inside the room, or just behind it.
        magazine.limit.set(unsafe { magazine.bottom.get().add(objects) });
    }

    /// Notes that the magazine was empty when an object was asked for. If it gave some back before,
    /// it should have kept more.
    ///
    /// So a thread that frees what others have taken keeps little of it: what lies at the bottom of
    /// a large heap is in no processor's cache any more when it is taken again, and the threads
    /// that take would always need new memory meanwhile.
    pub(in crate::pool) fn missed(&mut self, magazine: u32) {
        if let Some(bin) = self.bins.get_mut(magazine as usize)
            && bin.unused > 0
        {
            bin.most = bin.most.saturating_mul(2);
            bin.unused = 0;
        }
    }

    /// Makes room for at least one more object, and grants as many as may come.
    fn make_room(&mut self, at: usize) {
        let magazine = &self.fast().magazines[at];
        if magazine.len() >= self.bins[at].most {
            self.release_cold(at, CLUSTER);
            let bin = &mut self.bins[at];
            bin.unused += CLUSTER;
            if bin.unused > UNUSED * bin.most {
                (bin.most, bin.unused) = ((bin.most / 2).max(LEAST), CLUSTER);
            } else if magazine.len() >= bin.most {
                // It keeps fewer than it did: gives back a little at a time.
                self.release_cold(at, CLUSTER);
            }
        }
        let unit = unit(at);
        let bound = self.inner.cache_bytes.load(Ordering::Relaxed);
        self.shrink(bound.saturating_sub(unit));
        let bin = &mut self.bins[at];
        let (len, granted) = (magazine.len(), magazine.granted());
        let more = len.clamp(CLUSTER, MOST_GRANTED).min(bin.most.saturating_sub(len).max(CLUSTER));
        let before =
            (magazine.bottom.get() as usize - magazine.base.get() as usize) / size_of::<Entry>();
        if before + len + more > bin.capacity {
            // Moves down to the beginning, where that is worth it; else into a larger room.
            let capacity =
                if len + more <= bin.capacity / 2 { bin.capacity } else { (len + more) * 2 };
            let mut rebuilt: Vec<Entry> = Vec::with_capacity(capacity);
            // SAFETY: both rooms have space for `len` entries; the old room's entries are copied
            // before it is freed.
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
            // SAFETY: both fit into the old room, and the new one is not smaller.
            unsafe {
                magazine.top.set(base.add(len));
                magazine.limit.set(base.add(granted));
            }
        }
        let rest = bound.saturating_sub(self.bytes) / unit;
        // One at least, for the object that is here.
        let objects =
            (granted as u64).saturating_add(rest).clamp(len as u64 + 1, (len + more) as u64);
        self.grant(at, objects as usize);
    }

    /// Puts in an object of this process's, or one that this thread holds.
    pub(in crate::pool) fn push(&mut self, mut entry: Entry) {
        // SAFETY: the caller owns the entry, and gives it up.
        let handle = unsafe { entry.as_mut() };
        let at = handle.magazine as usize;
        let fast = self.fast();
        // A death just after: cached(P), free once P has ended.
        handle.ptr.set(fast.cached);
        if fast.magazines[at].room().is_none() {
            self.make_room(at);
        }
        fast.magazines[at].put(fast.magazines[at].top.get(), entry);
    }

    /// Returns whether an object of that magazine can stay here at all. If what the cache may hold
    /// has changed, the excess leaves.
    pub(in crate::pool) fn fits(&mut self, magazine: u32) -> bool {
        let bound = self.inner.cache_bytes.load(Ordering::Relaxed);
        self.shrink(bound);
        unit(magazine as usize) <= bound
    }

    /// Puts in an object that has no handle.
    pub(in crate::pool) fn push_object(&mut self, magazine: u32, ptr: ObjectPtr) {
        let inner = Arc::clone(&self.inner);
        let handle = Handle::new(&inner, ptr, magazine, 0, self.owned());
        let entry = self.handle(handle);
        self.push(entry);
    }

    /// Brings the cache's bytes down to so many: takes back what magazines were granted and do not
    /// use, then gives back objects of the size that takes most bytes.
    fn shrink(&mut self, most: u64) {
        if self.bytes <= most {
            return;
        }
        let magazines = &self.fast().magazines[..self.bins.len()];
        for (at, magazine) in magazines.iter().enumerate() {
            self.grant(at, magazine.len());
        }
        while self.bytes > most {
            let sizes = magazines.iter().enumerate();
            let largest = sizes.max_by_key(|(at, magazine)| magazine.len() as u64 * unit(*at));
            let Some((largest, magazine)) = largest else { return };
            // Of large objects not all: the thread may need one at once.
            self.release_cold(largest, magazine.len().div_ceil(2).min(CLUSTER));
        }
    }

    /// Gives all objects back to other threads.
    pub(in crate::pool) fn flush(&mut self) {
        for magazine in 0..self.bins.len() {
            while self.fast().magazines[magazine].len() > 0 {
                self.release_cold(magazine, CLUSTER);
            }
        }
    }

    /// Empties the cache if a process has asked all to.
    pub(in crate::pool) fn heed_flushes(&mut self) {
        let asked = self.inner.file.header().flushes.load(Ordering::Relaxed);
        if asked != self.flushes {
            self.flushes = asked;
            self.flush();
        }
    }

    /// Frees so many of the least recently freed of a magazine, at most [`CLUSTER`]. After a death
    /// in it some are free, some are still cached(P).
    fn release_cold(&mut self, magazine: usize, most: usize) {
        self.take_cold(magazine, most);
        release(&self.inner.file, self.inner.registry.me().ok(), magazine as u32, &self.leaving);
    }

    /// Returns a number that no other offer of this pool has, until all have been used.
    pub(in crate::pool) fn next_number(&mut self) -> u32 {
        if self.numbers.is_empty() {
            let first =
                self.inner.file.header().numbers.fetch_add(NUMBERS, Ordering::Relaxed) & MASK;
            self.numbers = first..first + NUMBERS;
        }
        self.numbers.next().unwrap_or(0) & MASK
    }
}

/// A magazine is granted at most so many more at once.
const MOST_GRANTED: usize = 64;

/// Threads take numbers of offers by the hundred or so.
const NUMBERS: u32 = 128;
const MASK: u32 = (1 << NUMBER_BITS) - 1;

/// Frees objects whose tags this thread may change, at most [`CLUSTER`] of one magazine; of those of
/// a class it leaves hints. After a death before these, a scan of tags finds them.
pub(in crate::pool) fn release(file: &File, me: Option<Me>, magazine: u32, objects: &[ObjectPtr]) {
    objects.iter().for_each(|ptr| ptr.set(0));
    if magazine < CLASSES {
        let home = me.map_or(0, |me| me.id.slot() as usize);
        file.hints(magazine)[home % BUCKETS].put(objects.iter().map(|ptr| ptr.reference));
    } else {
        file.freed();
    }
}
