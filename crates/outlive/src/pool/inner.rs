//! What all handles of a pool in a process share, and how an object comes into the process.
//!
//! 1. The thread's cache (`cache/magazine.rs`): no locked instruction.
//! 2. The hints to free objects: eight at once, seven of them into the cache.
//! 3. A scan of some tags; new memory.
//! 4. What dead processes had; this thread's cache; all tags; spans of other sizes that are free as
//!    a whole: `cache/negative.rs`.

use core::ptr::NonNull;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, Weak};

use super::cache::{Cache, Entries, Entry, Handle, MOST_CACHES, NegativeCache, magazine_of_long};
use super::debug::{GuardPages, Modes};
use super::error::PoolError;
use super::file::{File, ObjectPtr};
use super::heap::{BUCKETS, CLASSES, CLUSTER, ObjectRef, Tag, class_of, size_of_class, take_any};
use crate::Error;
use crate::liveness::{Me, Registry, TokenId};
use crate::segment::note_opened;
use crate::shim::Ordering;
use crate::sys::probe::probe;

/// The largest object: 1 GiB.
pub const LARGEST_OBJECT: usize = 1 << 30;
/// What a thread's cache may hold, if no handle says otherwise.
const CACHE_BYTES: u64 = 16 << 20;

/// What all handles and caches of a pool in this process share.
pub(super) struct Inner {
    /// Itself.
    pub(super) this: Weak<Inner>,
    pub(super) file: File,
    /// The entries of handles.
    pub(super) entries: Entries,
    /// The ranges that this process may not touch.
    pub(super) guard_pages: GuardPages,
    pub(super) registry: &'static Registry,
    /// Its number among the pools that this process has open; all beyond [`MOST_CACHES`] have that
    /// number.
    pub(super) number: usize,
    pub(super) cache_bytes: AtomicU64,
    /// Device and inode.
    pub(super) file_id: (u64, u64),
    pub(super) negative: NegativeCache,
    /// Whether some handle asked for huge pages.
    pub(super) huge_pages: AtomicBool,
    /// A bit for each span.
    pub(super) made_huge: Vec<AtomicU64>,
    pub(super) handles: AtomicUsize,
}

/// All pools that this process has open, or has caches of, by number.
static OPENED: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// Returns the file of the pool that this process has mapped at that address.
pub(super) fn open_pool_at(address: usize) -> Option<PathBuf> {
    let opened = OPENED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut pools = opened.iter().filter_map(Weak::upgrade);
    let pool = pools.find(|inner| inner.file.segment.offset_of(address).is_some())?;
    Some(pool.file.segment.path().to_path_buf())
}

/// Objects lie at multiples of their size from a page's start; runs begin at a page.
pub(super) fn class_of_aligned(len: usize, align: usize) -> Option<u32> {
    let fits = |class: &u32| size_of_class(*class).is_multiple_of(align as u64);
    class_of(len as u64).and_then(|class| (class..CLASSES).find(fits))
}

/// An object whose tag this thread sets, and the magazine for it when it is freed.
pub(super) type Taken = (ObjectPtr, Option<u32>);

impl Inner {
    /// Returns what the handles of the pool in that file share, in which one more is counted: it is
    /// made for the first one.
    pub(super) fn of_file(
        file: File,
        file_id: (u64, u64),
        registry: &'static Registry,
        cache_bytes: Option<u64>,
        huge_pages: bool,
    ) -> Arc<Inner> {
        // As with malloc: a child forked while a thread is in here must not come here before exec.
        let mut opened = OPENED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(inner) =
            opened.iter().filter_map(Weak::upgrade).find(|inner| inner.file_id == file_id)
        {
            inner.handles.fetch_add(1, Ordering::Relaxed);
            if let Some(bytes) = cache_bytes {
                inner.cache_bytes.store(bytes, Ordering::Relaxed);
            }
            inner.ask_for_huge_pages(huge_pages);
            return inner;
        }
        let number =
            opened.iter().position(|pool| pool.strong_count() == 0).unwrap_or(opened.len());
        let inner = Arc::new_cyclic(|this| Inner {
            this: Weak::clone(this),
            file,
            entries: Entries::default(),
            guard_pages: GuardPages::default(),
            registry,
            number: number.min(MOST_CACHES),
            cache_bytes: AtomicU64::new(cache_bytes.unwrap_or(CACHE_BYTES)),
            file_id,
            negative: NegativeCache::default(),
            huge_pages: AtomicBool::new(false),
            made_huge: Vec::from_iter((0..1 << 8).map(|_| AtomicU64::new(0))),
            handles: AtomicUsize::new(1),
        });
        inner.ask_for_huge_pages(huge_pages);
        note_opened(registry.index, &inner);
        let weak = Arc::downgrade(&inner);
        match opened.get_mut(number) {
            Some(closed) => *closed = weak,
            None => opened.push(weak),
        }
        inner
    }

    /// Returns whether this process has no handle any more; caches may keep the pool open.
    pub(super) fn is_closed(&self) -> bool {
        self.handles.load(Ordering::Acquire) == 0
    }

    fn ask_for_huge_pages(&self, ask: bool) {
        if ask && !self.huge_pages.swap(true, Ordering::Relaxed) {
            self.prefer_huge();
        }
    }

    /// Returns a handle for an object in use.
    pub(super) fn handle(&self, handle: Handle) -> Entry {
        // SAFETY: the reference ends with this statement, before other code can ask for the cache.
        if let Some(cache) = unsafe { Cache::find(self) } {
            return cache.handle(handle);
        }
        let mut more = Vec::new();
        let entry = self.entries.take(&mut more);
        self.entries.give(&mut more, 0);
        // SAFETY: the entry has room for a handle, and was just taken for this call alone.
        unsafe { entry.write(handle) };
        entry
    }

    /// Takes back a handle that has no object any more.
    pub(super) fn forget(&self, entry: Entry) {
        // SAFETY: the reference ends with this statement, before other code can ask for the cache.
        match unsafe { Cache::find(self) } {
            Some(cache) => cache.forget(entry),
            None => self.entries.give(&mut vec![entry], 0),
        }
    }

    /// Returns an object as this process has it mapped, and lets the process touch it.
    pub(super) fn ptr_to(&self, object: &ObjectRef) -> Result<ObjectPtr, Error> {
        let record = self.file.record(object)?.into();
        let damaged = || self.file.segment.damaged("an object's place");
        let capacity = u32::try_from(object.capacity).map_err(|_| damaged())?;
        // SAFETY: `Heap::object` has checked the object's range against the file and the mapping.
        let data = unsafe { self.file.segment.address(object.offset) };
        let data = NonNull::new(data).ok_or_else(damaged)?;
        self.guard_pages.show(&self.file.segment, object.offset, object.capacity)?;
        Ok(ObjectPtr { data, record, reference: object.reference, capacity })
    }

    /// Takes an object; the caller sets its tag to what it is to be.
    pub(super) fn take_slow(
        &self,
        len: usize,
        align: usize,
    ) -> Result<(ObjectPtr, Option<u32>, u64), PoolError> {
        if len > LARGEST_OBJECT {
            return Err(PoolError::TooLarge { wanted: len as u64 });
        }
        let me = self.registry.me()?;
        let process = self.registry.process_token()?;
        let class = class_of_aligned(len, align);
        let take = |fast_only| match class {
            Some(class) => self.take_small(me, process, class, fast_only),
            None => self.take_long(me, process, len as u64, fast_only),
        };
        let taken = match take(true) {
            Err(Error::NoSpace { .. }) => self.scan_slow(me, class, len as u64, &take),
            other => other.map_err(|error| (error, None)),
        };
        let (ptr, magazine) = taken.map_err(|(error, most)| match error {
            Error::NoSpace { .. } => {
                let failed = &self.file.header().failed;
                failed[class.unwrap_or(CLASSES) as usize].fetch_add(1, Ordering::Relaxed);
                probe!(no_space, self.file.segment.path(), len as u64);
                PoolError::NoSpace { wanted: len as u64, most, injected: false }
            }
            other => PoolError::System(other),
        })?;
        Ok((ptr, magazine, Tag::Owned(process).encode()))
    }

    fn take_small(
        &self,
        me: Me,
        process: TokenId,
        class: u32,
        fast_only: bool,
    ) -> Result<Taken, Error> {
        let (file, size) = (&self.file, size_of_class(class));
        // SAFETY: used in this function alone, where no other code asks for the cache and no user
        // code runs.
        let mut cache = unsafe { Cache::own(self, process) };
        let mut cluster = 1;
        if let Some(cache) = &mut cache {
            cache.heed_flushes();
            cache.missed(class);
            let share = self.cache_bytes.load(Ordering::Relaxed) / 4;
            cluster = (share / size).clamp(1, CLUSTER as u64) as usize;
            if self.now().modes.contains(Modes::UAF) {
                // Objects that no caller uses yet stay out of reach.
                cluster = 1;
            }
        }
        let mut found: Vec<ObjectPtr> = Vec::with_capacity(CLUSTER);
        let take = |reference: u32, found: &mut Vec<ObjectPtr>| -> Result<(), Error> {
            // It may be of another size by now: its span has been taken apart since.
            if let Some(object) =
                file.heap.object(&file.segment, reference).filter(|object| object.capacity == size)
                && file.record(&object)?.tag.load(Ordering::Relaxed) == 0
                && file.heap.take(&file.segment, &object, me, file)?
            {
                found.push(self.taken(&object)?);
            }
            Ok(())
        };
        // They may be taken already: then the next ones.
        for _ in 0..BUCKETS {
            let mut out = [0; CLUSTER];
            let home = me.id.slot() as usize;
            let hints = take_any(file.hints(class), home, &mut out[..cluster]);
            for &reference in &out[..hints] {
                take(reference, &mut found)?;
            }
            if hints == 0 || !found.is_empty() {
                break;
            }
        }
        if found.is_empty() {
            let object =
                file.heap.allocate_or_try_fast(&file.segment, me, size, file, fast_only)?;
            found.push(self.taken(&object)?);
            if self.huge_pages.load(Ordering::Relaxed) {
                self.make_huge(&object)?;
            }
            if cluster > 1 {
                let mut damaged = Ok(());
                file.heap.take_more(&file.segment, me, class, file, &mut |object| {
                    damaged = self.taken(&object).map(|ptr| found.push(ptr));
                    damaged.is_ok() && found.len() < cluster
                })?;
                damaged?;
            }
        }
        let first = found[0];
        if let Some(cache) = cache {
            // The most recently used one last.
            found[1..].iter().rev().for_each(|ptr| cache.push_object(class, *ptr));
        }
        Ok((first, Some(class)))
    }

    fn take_long(
        &self,
        me: Me,
        process: TokenId,
        len: u64,
        fast_only: bool,
    ) -> Result<Taken, Error> {
        let file = &self.file;
        // SAFETY: used in this function alone, where no other code asks for the cache and no user
        // code runs.
        let cache = unsafe { Cache::own(self, process) };
        if let Some(cache) = cache {
            cache.heed_flushes();
            if let Some(magazine) = magazine_of_long(len)
                && let Some(ptr) = cache.pop_object(magazine, 0)
            {
                if u64::from(ptr.capacity) >= len {
                    return Ok((ptr, Some(magazine)));
                }
                // Long enough in spans, not in pages. From here on it is as if just taken.
                ptr.set(Tag::Held(me.id).encode());
                match file.heap.grow_run(&file.segment, me, ptr.reference, len, file) {
                    Ok(object) => return Ok((self.taken(&object)?, Some(magazine))),
                    Err(Error::NoSpace { .. }) => {}
                    Err(other) => return Err(other),
                }
            } else if let Some(magazine) = magazine_of_long(len) {
                cache.missed(magazine);
            }
        }
        let object = file.heap.allocate_or_try_fast(&file.segment, me, len, file, fast_only)?;
        if self.huge_pages.load(Ordering::Relaxed) {
            self.make_huge(&object)?;
        }
        let magazine = magazine_of_long(object.capacity);
        Ok((self.taken(&object)?, magazine))
    }
}
