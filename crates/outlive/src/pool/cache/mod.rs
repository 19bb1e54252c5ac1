//! A thread's cache of a pool's objects: private memory, hot first, bounded in bytes.
//!
//! What is in a cache says so in its tag, cached(P), where P is the *process*: a thread that ends in an orderly way empties
//! its caches, and after any other end of a process all that it had in caches is free. Nothing else is shared, so neither a
//! hit nor a free into the cache has a locked instruction.
//!
//! What a hit and a free touch stands in `hot.rs`. In a forked child the cache is the parent's, and forgotten.
//!
//! The bound is kept without counting each object: shelves are granted room by the slow path, as many objects as fit into the
//! bound, and what comes in within the grant needs no more than a comparison. Time goes by slow steps, too.
//!
//! Within the bound a shelf keeps as many as have been of use: it begins with [`LEAST`], keeps twice as many when objects are
//! missing of which it gave some back, and half as many when it goes on giving back and none are ever missing.

mod magazine;
mod negative;

use core::ptr::NonNull;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use crate::pool::file::{Entry, File};
use crate::pool::heap::{CLASSES, CLUSTER, Links, NUMBER_BITS, SPAN, Tag, free_list, size_of_class};
use crate::pool::pool::Inner;
use magazine::{CACHES, DOZEN, NOTHING, Shelf};
pub(in crate::pool) use magazine::{Handle, Hot, MOST_CACHES, Place, Places, SHELVES, shelf_of_long, shelf_of_run};
pub(in crate::pool) use negative::Shortages;

use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, Ordering};
use crate::sys::map;
use crate::sys::thread_end::ThreadEnd;

/// See the file's head.
pub(in crate::pool) struct Cache {
    inner: Arc<Inner>,
    hot: NonNull<Hot>,
    /// The shelves' rooms, in places, and how many each was granted.
    rooms: [HeapHost; SHELVES as usize],
    /// All that was granted. What shelves do not use of it they lose to the next that asks.
    bytes: u64,
    /// Something came in for which nothing was left to grant.
    is_over: bool,
    flushes: u32,
    /// Numbers of offers that are this thread's to give.
    numbers: Range<u32>,
    /// Kept for `evict`, so that it need not allocate.
    leaving: Vec<Entry>,
    /// For handles.
    places: Vec<Place>,
}

#[derive(Clone, Copy)]
struct HeapHost {
    places: usize,
    granted: usize,
    /// The most objects that the shelf keeps: as many as have been of use, see [`Cache::missed`].
    most: usize,
    /// How many were given back for that since something was missing.
    unused: usize,
}

impl HeapHost {
    const NONE: HeapHost = HeapHost { places: 0, granted: 0, most: LEAST, unused: 0 };
}

/// Shelves may keep so many, if that is not too much in bytes.
const LEAST: usize = 8 * CLUSTER;
/// A shelf of which so many times as many were given back as it keeps, and nothing was missing, keeps half as many.
const UNUSED: usize = 4;

static LEAVE: ThreadEnd = ThreadEnd::new(leave);

/// The thread ends: what it has in caches is for others.
extern "C" fn leave(_: *mut core::ffi::c_void) {
    CACHES.with(|caches| caches.iter().for_each(drop_cache));
}

/// Empties a cache and forgets it. A parent's copy is not even freed: it costs less than care.
fn drop_cache(place: &Cell<*const Hot>) {
    let hot = place.replace(&raw const NOTHING.0);
    // SAFETY: mapped, or `NOTHING`.
    let cache = unsafe { (*hot).cache };
    if !cache.is_null() {
        // SAFETY: made by `Cache::own`, in this thread, and out of reach by now.
        drop(unsafe { Box::from_raw(cache) });
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.flush();
        for (shelf, room) in self.hot().shelves.iter().zip(&self.rooms) {
            if room.places > 0 {
                // SAFETY: as `make_room` made it, and empty.
                drop(unsafe { Vec::from_raw_parts(shelf.base.get(), 0, room.places) });
            }
        }
        self.inner.places.give(&mut self.places, 0);
        // SAFETY: this cache's own page, which nobody reaches any more.
        unsafe { map::unmap_page(self.hot.cast()) };
    }
}

/// The most bytes that one of a shelf's has, which is what it counts for.
fn unit(shelf: usize) -> u64 {
    if shelf < CLASSES as usize { size_of_class(shelf as u32) } else { (shelf as u64 - u64::from(CLASSES) + 1) * SPAN }
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
        unsafe { Hot::of(inner.number as u32).cache.as_mut() }
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
            let closed = |place: &&Cell<*const Hot>| {
                // SAFETY: this thread's alone, and no reference is about: the caller's promise.
                unsafe { (*place.get()).cache.as_ref() }.is_some_and(|cache| cache.inner.is_closed())
            };
            caches.iter().filter(closed).for_each(drop_cache);
            let shared = inner.this.upgrade()?;
            let hot = map::page_wiped_on_fork().ok()?.cast::<Hot>();
            let cache = Box::into_raw(Box::new(Cache {
                inner: shared,
                hot,
                rooms: [HeapHost::NONE; SHELVES as usize],
                bytes: 0,
                is_over: false,
                flushes: inner.file.head().flushes.load(Ordering::Relaxed),
                numbers: 0..0,
                leaving: Vec::with_capacity(CLUSTER),
                places: Vec::new(),
            }));
            // SAFETY: a page of zeroes is room for it, and this thread's.
            unsafe {
                hot.write(Hot {
                    owned: Tag::Owned(process).encode(),
                    cached: Tag::Cached(process).encode(),
                    modes: &raw const inner.file.head().modes,
                    cache,
                    time: Cell::new(0),
                    shelves: [Shelf::EMPTY; SHELVES as usize + 1],
                });
            }
            caches[inner.number].set(hot.as_ptr());
            // SAFETY: just made; the caller's promise.
            Some(unsafe { &mut *cache })
        })
    }

    #[inline]
    fn hot<'h>(&self) -> &'h Hot {
        // SAFETY: its page, as long as it lives; nothing of it is reached otherwise than by shared references.
        unsafe { self.hot.as_ref() }
    }

    /// What tags say of objects in use by this process.
    pub(in crate::pool) fn owned(&self) -> u64 {
        self.hot().owned
    }

    /// What this process keeps of an object that is in use.
    pub(in crate::pool) fn handle(&mut self, handle: Handle) -> Place {
        let place = match self.places.pop() {
            Some(place) => place,
            None => self.inner.places.take(&mut self.places),
        };
        // SAFETY: room for a handle, this thread's.
        unsafe { place.write(handle) };
        place
    }

    /// It has no object any more.
    pub(in crate::pool) fn forget(&mut self, place: Place) {
        self.places.push(place);
        if self.places.len() >= 2 * DOZEN {
            self.inner.places.give(&mut self.places, DOZEN);
        }
    }

    /// The hottest object of a shelf, if it has that many bytes. Its tag is the caller's to set.
    pub(in crate::pool) fn pop_entry(&mut self, shelf: u32, len: usize) -> Option<Entry> {
        let shelf = self.hot().shelves.get(shelf as usize)?;
        let place = shelf.hottest()?;
        // SAFETY: the cache's.
        let entry = unsafe { place.as_ref() }.entry;
        if (entry.capacity as usize) < len {
            return None;
        }
        shelf.take_hottest();
        self.forget(place);
        Some(entry)
    }

    /// As [`Cache::pop_entry`], the coldest.
    pub(in crate::pool) fn pop_cold(&mut self, shelf: u32, len: usize) -> Option<Entry> {
        let coldest = self.hot().shelves.get(shelf as usize)?.coldest()?;
        // SAFETY: the cache's.
        if (unsafe { coldest.as_ref() }.entry.capacity as usize) < len {
            return None;
        }
        self.take_cold(shelf as usize, 1);
        self.leaving.pop()
    }

    /// So many of the coldest, into `leaving`.
    fn take_cold(&mut self, at: usize, most: usize) {
        let shelf = &self.hot().shelves[at];
        self.leaving.clear();
        let most = most.min(shelf.len());
        for _ in 0..most {
            let Some(place) = shelf.coldest() else { break };
            // SAFETY: the cache's, and below the top.
            unsafe {
                shelf.bottom.set(shelf.bottom.get().add(1));
                self.leaving.push(place.as_ref().entry);
            }
            self.forget(place);
        }
        self.grant(at, self.rooms[at].granted.saturating_sub(most));
    }

    /// So many may be on the shelf, for which there is room.
    fn grant(&mut self, at: usize, granted: usize) {
        let room = &mut self.rooms[at];
        self.bytes = self.bytes - room.granted as u64 * unit(at) + granted as u64 * unit(at);
        room.granted = granted;
        let shelf = &self.hot().shelves[at];
        // SAFETY: inside the room, or just behind it.
        shelf.limit.set(unsafe { shelf.bottom.get().add(granted) });
    }

    /// What shelves do not use is granted to nobody.
    fn settle(&mut self) {
        for at in 0..self.rooms.len() {
            self.grant(at, self.hot().shelves[at].len());
        }
    }

    /// There is nothing on that shelf. If it gave something back before, it should have kept more.
    ///
    /// So a thread that frees what others have taken keeps little of it: what lies at the bottom of a large heap is in no
    /// processor's cache any more when it is taken again, and those who take would always need new memory meanwhile.
    pub(in crate::pool) fn missed(&mut self, shelf: u32) {
        if let Some(room) = self.rooms.get_mut(shelf as usize)
            && room.unused > 0
        {
            room.most = room.most.saturating_mul(2);
            room.unused = 0;
        }
    }

    /// Room for one more at least, and a grant of as many as may come.
    fn make_room(&mut self, at: usize) {
        let hot = self.hot();
        hot.time.set(hot.time.get().wrapping_add(1));
        let shelf = &hot.shelves[at];
        if shelf.len() >= self.rooms[at].most {
            self.release_cold(at);
            let room = &mut self.rooms[at];
            room.unused += CLUSTER;
            if room.unused > UNUSED * room.most {
                (room.most, room.unused) = ((room.most / 2).max(LEAST), CLUSTER);
            } else if shelf.len() >= room.most {
                // It keeps less than it did: a little at a time.
                self.release_cold(at);
            }
        }
        let room = &mut self.rooms[at];
        let len = shelf.len();
        let more = len.clamp(CLUSTER, MOST_GRANTED).min(room.most.saturating_sub(len).max(CLUSTER));
        debug_assert!(room.granted <= len, "whoever has no room has used what was granted");
        let before = (shelf.bottom.get() as usize - shelf.base.get() as usize) / size_of::<Place>();
        if before + len + more > room.places {
            // Down to the beginning, where that is worth it; else into a larger room.
            let places = if len + more <= room.places / 2 { room.places } else { (len + more) * 2 };
            let mut rebuilt: Vec<Place> = Vec::with_capacity(places);
            // SAFETY: what is on the shelf; and the old room, whose places are copied.
            unsafe {
                rebuilt.extend_from_slice(core::slice::from_raw_parts(
                    NonNull::new(shelf.bottom.get()).unwrap_or(NonNull::dangling()).as_ptr(),
                    len,
                ));
                drop(Vec::from_raw_parts(
                    NonNull::new(shelf.base.get()).unwrap_or(NonNull::dangling()).as_ptr(),
                    0,
                    room.places,
                ));
            }
            let mut rebuilt = core::mem::ManuallyDrop::new(rebuilt);
            room.places = rebuilt.capacity();
            let base = rebuilt.as_mut_ptr();
            shelf.base.set(base);
            shelf.bottom.set(base);
            // SAFETY: inside the room.
            shelf.top.set(unsafe { base.add(len) });
        }
        let (unit, wanted) = (unit(at), len + more);
        let most = self.inner.cache_bytes.load(Ordering::Relaxed);
        if self.bytes + (wanted - self.rooms[at].granted) as u64 * unit > most {
            self.settle();
        }
        let rest = most.saturating_sub(self.bytes) / unit;
        let granted = (self.rooms[at].granted as u64).saturating_add(rest).min(wanted as u64);
        self.grant(at, granted as usize);
    }

    /// An object of this process's, or that this thread holds, comes in. Afterwards there may be too much: [`Cache::evict`].
    pub(in crate::pool) fn push(&mut self, mut place: Place) {
        // SAFETY: the caller's alone, which it gives up.
        let handle = unsafe { place.as_mut() };
        let at = handle.shelf as usize;
        let hot = self.hot();
        // Died just after: cached(P), free once P has ended.
        handle.entry.set(hot.cached);
        if hot.shelves[at].room().is_none() {
            self.make_room(at);
        }
        handle.came = hot.time.get();
        // `make_room` has made some, granted or not.
        self.is_over |= hot.shelves[at].room().is_none();
        hot.shelves[at].put(hot.shelves[at].top.get(), place);
    }

    /// Whether one of that shelf's can stay here at all. Where that is another question than it was, what is too much leaves.
    pub(in crate::pool) fn fits(&mut self, shelf: u32) -> bool {
        let most = self.inner.cache_bytes.load(Ordering::Relaxed);
        if self.bytes > most {
            self.is_over = true;
            self.evict();
        }
        unit(shelf as usize) <= most
    }

    /// The same of an object that has no handle.
    pub(in crate::pool) fn push_entry(&mut self, shelf: u32, entry: Entry) {
        let inner = Arc::clone(&self.inner);
        let handle = Handle::new(&inner, entry, shelf, 0, self.owned());
        let place = self.handle(handle);
        self.push(place);
    }

    /// Gives back what is too much: from a size that has more than its share, else what has lain longest.
    pub(in crate::pool) fn evict(&mut self) {
        let hot = self.hot();
        if !core::mem::replace(&mut self.is_over, false) {
            return;
        }
        self.settle();
        loop {
            let most = self.inner.cache_bytes.load(Ordering::Relaxed);
            if self.bytes <= most {
                return;
            }
            let shelves = hot.shelves.iter().take(self.rooms.len()).enumerate();
            let greedy =
                |(at, shelf): &(usize, &Shelf)| shelf.len() > CLUSTER && shelf.len() as u64 * unit(*at) > most / 4;
            let age = |shelf: &Shelf| {
                // SAFETY: the cache's.
                shelf.coldest().map(|coldest| hot.time.get().wrapping_sub(unsafe { coldest.as_ref() }.came))
            };
            let from = shelves.clone().find(greedy).map(|(at, _)| at).or_else(|| {
                let oldest = shelves.filter_map(|(at, shelf)| Some((age(shelf)?, core::cmp::Reverse(at)))).max();
                oldest.map(|(_, at)| at.0)
            });
            let Some(from) = from else { return };
            self.release_cold(from);
        }
    }

    /// All of it to the shared lists.
    pub(in crate::pool) fn flush(&mut self) {
        for shelf in 0..self.rooms.len() {
            while self.hot().shelves[shelf].len() > 0 {
                self.release_cold(shelf);
            }
        }
    }

    /// Empties itself if somebody has asked all to.
    pub(in crate::pool) fn heed_flushes(&mut self) {
        let asked = self.inner.file.head().flushes.load(Ordering::Relaxed);
        if asked != self.flushes {
            self.flushes = asked;
            self.flush();
        }
    }

    /// The coldest of a shelf become free. Died in it: some are free, some are cached(P) still.
    fn release_cold(&mut self, shelf: usize) {
        self.take_cold(shelf, CLUSTER);
        release(&self.inner.file, self.inner.registry.me().ok(), shelf as u32, &self.leaving);
    }

    /// A number that no other offer of this pool has, until all have been used.
    pub(in crate::pool) fn next_number(&mut self) -> u32 {
        if self.numbers.is_empty() {
            let first = self.inner.file.head().numbers.fetch_add(NUMBERS, Ordering::Relaxed) & MASK;
            self.numbers = first..first + NUMBERS;
        }
        self.numbers.next().unwrap_or(0) & MASK
    }
}

/// A shelf is granted so many more at once, at most.
const MOST_GRANTED: usize = 64;

/// Numbers of offers are given out to threads by the hundred or so.
const NUMBERS: u32 = 128;
const MASK: u32 = (1 << NUMBER_BITS) - 1;

/// Objects whose tags are this thread's to change become free; those of a class are put into a list.
pub(in crate::pool) fn release(file: &File, me: Option<Me>, shelf: u32, entries: &[Entry]) {
    match me {
        Some(me) if shelf < CLASSES => {
            let mut references = [0; CLUSTER];
            for entries in entries.chunks(CLUSTER) {
                let references = &mut references[..entries.len()];
                references.iter_mut().zip(entries).for_each(|(reference, entry)| *reference = entry.reference);
                let home = me.id.slot() as usize;
                let leaving = Leaving { file, me, entries };
                free_list::push_all(file.lists(shelf), home, me, &leaving, references, &mut { leaving });
            }
        }
        _ => entries.iter().for_each(|entry| entry.set(0)),
    }
    // Died just before: counted as taken until the next `gc`.
    file.note_freed(shelf, me.map_or(0, |me| me.id.slot() as usize), entries.len() as u32);
}

/// Objects on their way into a list.
#[derive(Clone, Copy)]
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

/// They are this thread's, so each is where it was found: no look at its span is needed.
impl Links for Leaving<'_> {
    fn link(&self, reference: u32) -> Option<&AtomicU32> {
        self.entry(reference).map(|entry| &entry.record().link)
    }

    fn epoch(&self) -> u32 {
        self.file.epoch()
    }
}

impl free_list::Tags for Leaving<'_> {
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
