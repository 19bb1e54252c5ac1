//! A pool as a whole: making and opening it, and taking objects from it.
//!
//! 1. The thread's cache: no locked instruction.
//! 2. The hints to free objects: eight at once, seven of them into the cache.
//! 3. A scan of some tags; new memory.
//! 4. What dead processes had; this thread's cache; all tags; spans of other sizes that are free as
//!    a whole: `cache/negative.rs`.

use core::panic::Location;
use core::ptr::NonNull;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, Weak};

use super::cache::{
    Cache, Entries, Entry, FastPath, Handle, MAGAZINES, MOST_CACHES, NegativeCache,
    magazine_of_long,
};
use super::debug::{GuardPages, Modes};
use super::error::PoolError;
use super::file::{File, LEAST_BYTES, MOST_BYTES, ObjectPtr, Plan};
use super::heap::{
    BUCKETS, CLASSES, CLUSTER, ObjectRef, Tag, class_of, class_of_short_or_long, size_of_class,
    take_any,
};
use super::object::Object;
use crate::domain::{agree, three_openings};
use crate::liveness::{Me, Registry, TokenId};
use crate::segment::{Opening, Segment, Spec};
use crate::shim::Ordering;
use crate::{Domain, Error, Kind};

/// The largest object: 1 GiB.
pub const LARGEST_OBJECT: usize = 1 << 30;
/// What a thread's cache may hold, if no handle says otherwise.
const CACHE_BYTES: u64 = 16 << 20;
/// The largest alignment: a page.
const LARGEST_ALIGN: usize = 4096;

/// A pool, open in this process: memory in objects that one process after another may use.
///
/// Objects have from 0 bytes to 1 GiB, of which at most a quarter is waste (below 64 bytes more).
/// An object names the one process that has it. It may be handed to another process in one atomic
/// step ([`Object::into_offset`], [`Pool::claim`]), or several processes may hold it, each by name
/// ([`Object::share`], [`Pool::join`]). Every thread keeps what it frees in a cache of its own, so
/// taking and freeing mostly touch no shared memory but the object's own.
///
/// All handles of one pool in a process, clones and openings alike, are one.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-pool-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::pool::Pool;
///
/// let pool = Pool::open_or_create(&domain, "frames")?;
/// let mut frame = pool.alloc(640 * 480)?;
/// frame.fill(7);
/// let offset = frame.into_offset()?;              // a number, to be sent to another process
///
/// let frame = pool.claim(offset)?;                // in that process
/// assert!(frame.len() == 640 * 480 && frame.iter().all(|&byte| byte == 7));
/// drop(frame);                                    // frees it
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If a process dies, what it had, in use or in caches, is free for other processes as soon as its
/// last thread has ended ([`Domain::sweep`] and [`Pool::gc`] free it at once). An object that it
/// had offered to any process stays until it is claimed; what was offered to the dead process is
/// free. No call here waits for another process, so a stopped or dead process delays no other.
pub struct Pool {
    pub(super) inner: Arc<Inner>,
    /// By which threads find their caches of it.
    number: u32,
}

/// Options for opening or making a [`Pool`]; made by [`Pool::options`].
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-pool-options-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::Error;
/// use outlive::pool::Pool;
///
/// let pool = Pool::options().max_bytes(64 << 20).open_or_create(&domain, "frames")?;
/// let again = Pool::options().cache_bytes(1 << 20).open(&domain, "frames")?;
/// assert_eq!(again.config().max_bytes, 64 << 20);
///
/// let other = Pool::options().max_bytes(32 << 20).open_or_create(&domain, "frames");
/// assert!(matches!(other, Err(Error::OtherOptions { what: "max_bytes", .. })));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "options make nothing until one of the openings is called"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolOptions {
    max_bytes: Option<u64>,
    cache_bytes: Option<u64>,
    modes: Option<Modes>,
    huge_pages: bool,
}

impl PoolOptions {
    /// Sets the most bytes of the file system that the pool may take: 64 KiB to 8 GiB. The file
    /// keeps this option: opening an existing pool that has another limit is
    /// [`Error::OtherOptions`].
    ///
    /// The whole file counts: objects, the pool's own words, and a record of 16 bytes for each
    /// object. The records stay in the file when memory of small objects is used for larger ones:
    /// if a pool was full of objects of 64 bytes, a fifth of it serves only such objects
    /// afterwards. Threads that grow the pool at the same moment may each exceed the limit by what
    /// they asked for.
    ///
    /// Default of a new pool: a quarter of the file system, at most 8 GiB.
    pub const fn max_bytes(mut self, bytes: u64) -> PoolOptions {
        self.max_bytes = Some(bytes);
        self
    }

    /// Sets the most bytes of free objects that a thread of this process keeps in its cache of the
    /// pool; within that, as many of each size as have been of use (64 at first).
    ///
    /// It is of this process alone, and of all its handles of the pool. Default: what another
    /// handle of this process has set, or 16 MiB.
    pub const fn cache_bytes(mut self, bytes: u64) -> PoolOptions {
        self.cache_bytes = Some(bytes);
        self
    }

    /// Sets the debug modes of a new pool; see [`MODES`](super::MODES).
    ///
    /// They are only what the pool begins with, since any process may change them at any time
    /// ([`Pool::set_modes`]): an existing pool keeps the modes that it has. Default: none.
    pub const fn modes(mut self, modes: Modes) -> PoolOptions {
        self.modes = Some(modes);
        self
    }

    /// Sets whether this process asks for huge pages: [`Pool::huge_bytes`] returns how many it got.
    ///
    /// It is of this process alone, which goes on asking once one of its handles has asked.
    /// Default: no.
    pub const fn huge_pages(mut self, ask: bool) -> PoolOptions {
        self.huge_pages = ask;
        self
    }

    three_openings!(
        Pool,
        "pool",
        "[`Error::InvalidOption`](crate::Error::InvalidOption) when `max_bytes` is out of range."
    );

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<Pool, Error> {
        let max_bytes = match self.max_bytes {
            Some(bytes) if !(LEAST_BYTES..=MOST_BYTES).contains(&bytes) => {
                return Err(Error::InvalidOption {
                    what: "max_bytes",
                    wanted: bytes.to_string().into(),
                    why: "64 KiB (65536) to 8 GiB (8589934592)",
                });
            }
            Some(bytes) => bytes,
            // Nothing is made, so the file system's size is of no use.
            None if opening == Opening::Open => LEAST_BYTES,
            None => (domain.folder().file_system_bytes()? / 4).clamp(LEAST_BYTES, MOST_BYTES),
        };
        let plan = Plan::new(max_bytes);
        let spec = Spec {
            kind: Kind::Pool,
            type_name: String::new(),
            type_size: 0,
            type_align: 1,
            reserve: plan.end,
            max_bytes,
            initial: Plan::INITIAL,
        };
        let modes = self.modes.unwrap_or(Modes::NONE);
        let init = |segment: &Segment| plan.write(segment, modes);
        let file_id = |segment: &Segment| Ok(segment.facts()?.identity());
        let (segment, file_id) = domain.open_prepared(name, opening, &spec, init, file_id)?;
        agree(&segment, "max_bytes", segment.header().max_bytes(), self.max_bytes)?;
        let pool = Pool::of_file(File::new(segment)?, file_id, domain.registry(), self);
        Ok(pool.heeding_environment(name))
    }
}

/// The options of a pool as they are; returned by [`Pool::config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolConfig {
    /// The most bytes of the file system that the pool may take.
    pub max_bytes: u64,
    /// The most bytes of free objects that a thread of this process keeps in its cache.
    pub cache_bytes: u64,
    /// The debug modes that the pool has now.
    pub modes: Modes,
    /// Whether this process asks for huge pages.
    pub huge_pages: bool,
}

/// Returns the file of the pool that this process has mapped at that address.
pub(super) fn open_pool_at(address: usize) -> Option<PathBuf> {
    let opened = OPENED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut pools = opened.iter().filter_map(Weak::upgrade);
    let pool = pools.find(|inner| inner.file.segment.offset_of(address).is_some())?;
    Some(pool.file.segment.path().to_path_buf())
}

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
    huge_pages: AtomicBool,
    /// A bit for each span.
    pub(super) made_huge: Vec<AtomicU64>,
    handles: AtomicUsize,
}

/// All pools that this process has open, or has caches of, by number.
static OPENED: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

impl Pool {
    /// Returns options to open or make a pool with.
    pub const fn options() -> PoolOptions {
        PoolOptions { max_bytes: None, cache_bytes: None, modes: None, huge_pages: false }
    }

    /// Opens the pool of that name, or makes it with the default options; the short form of
    /// [`PoolOptions::open_or_create`].
    ///
    /// The environment's `OUTLIVE_POOL`, as `tag,poison` or `NAME:tag;NAME:uaf`, sets its debug
    /// modes ([`Pool::set_modes`]), in each way of opening.
    ///
    /// # Errors
    /// The errors of [`PoolOptions::open_or_create`].
    ///
    /// # If a process dies
    /// If this process dies while it makes the pool, nothing is left of it.
    pub fn open_or_create(domain: &Domain, name: &str) -> Result<Pool, Error> {
        Pool::options().open_or_create(domain, name)
    }

    /// Opens the existing pool of that name; the short form of [`PoolOptions::open`].
    ///
    /// # Errors
    /// The errors of [`PoolOptions::open`].
    pub fn open(domain: &Domain, name: &str) -> Result<Pool, Error> {
        Pool::options().open(domain, name)
    }

    /// Returns the options that the pool has, in its file and in this process.
    #[must_use]
    pub fn config(&self) -> PoolConfig {
        PoolConfig {
            max_bytes: self.inner.file.segment.header().max_bytes(),
            cache_bytes: self.inner.cache_bytes.load(Ordering::Relaxed),
            modes: self.modes(),
            huge_pages: self.inner.huge_pages.load(Ordering::Relaxed),
        }
    }

    /// Returns a handle of the pool in that file: another one of those that this process has, or
    /// the first.
    fn of_file(
        file: File,
        file_id: (u64, u64),
        registry: &'static Registry,
        options: PoolOptions,
    ) -> Pool {
        // As with malloc: a child forked while a thread is in here must not come here before exec.
        let mut opened = OPENED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(inner) =
            opened.iter().filter_map(Weak::upgrade).find(|inner| inner.file_id == file_id)
        {
            inner.handles.fetch_add(1, Ordering::Relaxed);
            if let Some(bytes) = options.cache_bytes {
                inner.cache_bytes.store(bytes, Ordering::Relaxed);
            }
            inner.ask_for_huge_pages(options);
            return Pool::of(inner);
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
            cache_bytes: AtomicU64::new(options.cache_bytes.unwrap_or(CACHE_BYTES)),
            file_id,
            negative: NegativeCache::default(),
            huge_pages: AtomicBool::new(false),
            made_huge: Vec::from_iter((0..1 << 8).map(|_| AtomicU64::new(0))),
            handles: AtomicUsize::new(1),
        });
        inner.ask_for_huge_pages(options);
        let weak = Arc::downgrade(&inner);
        match opened.get_mut(number) {
            Some(closed) => *closed = weak,
            None => opened.push(weak),
        }
        Pool::of(inner)
    }

    fn of(inner: Arc<Inner>) -> Pool {
        let number = inner.number as u32;
        Pool { inner, number }
    }

    fn heeding_environment(self, name: &str) -> Pool {
        if let Some(modes) = Modes::from_environment(name) {
            self.set_modes(modes);
        }
        self
    }

    /// Allocates an object of that many bytes, at an address that is a multiple of 16. Its contents
    /// are arbitrary: zeroes, or those of an earlier object.
    ///
    /// It never waits.
    ///
    /// # Errors
    /// [`PoolError::NoSpace`] when the pool or the file system is full (it names the process that
    /// has most of the pool), [`PoolError::TooLarge`], [`PoolError::System`].
    ///
    /// # If a process dies
    /// If this process dies during the call, nothing is lost. If it dies later, the object is free
    /// once the process has ended.
    #[inline]
    #[track_caller]
    pub fn alloc(&self, len: usize) -> Result<Object<'_>, PoolError> {
        self.hit_or(class_of_short_or_long(len), len, 1, Location::caller())
    }

    #[inline]
    fn hit_or(
        &self,
        class: Option<u32>,
        len: usize,
        align: usize,
        at: &'static Location<'static>,
    ) -> Result<Object<'_>, PoolError> {
        let magazine = class
            .or_else(|| magazine_of_long(len as u64))
            .map_or(MAGAZINES as usize, |magazine| magazine as usize);
        // SAFETY: the reference ends with this statement. Numbers are `MOST_CACHES` at most.
        let handle = match unsafe { FastPath::of(self.number) }.take(magazine, len) {
            Some(handle) => handle,
            None => self.alloc_slow(len, align, at)?,
        };
        // SAFETY: the handle is of this pool, whose borrow the object carries, and no other object
        // has it.
        Ok(unsafe { Object::of(handle) })
    }

    /// Allocates an object at an address that is a multiple of `align`, a power of two up to 4,096.
    /// With 64 or more, objects have cache lines of their own.
    ///
    /// # Errors
    /// The errors of [`Pool::alloc`], and [`PoolError::Alignment`].
    ///
    /// # If a process dies
    /// The same as with [`Pool::alloc`].
    #[track_caller]
    pub fn alloc_aligned(&self, len: usize, align: usize) -> Result<Object<'_>, PoolError> {
        if !align.is_power_of_two() || align > LARGEST_ALIGN {
            return Err(PoolError::Alignment { align });
        }
        self.hit_or(class_of_aligned(len, align), len, align, Location::caller())
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(
        &self,
        len: usize,
        align: usize,
        at: &'static Location<'static>,
    ) -> Result<Entry, PoolError> {
        if !self.inner.now().modes.is_none() {
            return self.alloc_checked(len, align, at);
        }
        let (ptr, magazine, owned) = self.take_slow(len, align)?;
        // A mark of a change of modes that was seen only on the way: it is void from now on.
        ptr.forget_bytes();
        // A death just before: held by a dead thread, free at once; or cached(P).
        ptr.set(owned);
        Ok(self.inner.handle(Handle::new(
            &self.inner,
            ptr,
            magazine.unwrap_or(MAGAZINES),
            len,
            owned,
        )))
    }

    /// Takes an object; the caller sets its tag to what it is to be.
    pub(super) fn take_slow(
        &self,
        len: usize,
        align: usize,
    ) -> Result<(ObjectPtr, Option<u32>, u64), PoolError> {
        let inner = &self.inner;
        if len > LARGEST_OBJECT {
            return Err(PoolError::TooLarge { wanted: len as u64 });
        }
        let me = inner.registry.me()?;
        let process = inner.registry.process_token()?;
        let class = class_of_aligned(len, align);
        let take = |fast_only| match class {
            Some(class) => inner.take_small(me, process, class, fast_only),
            None => inner.take_long(me, process, len as u64, fast_only),
        };
        let taken = match take(true) {
            Err(Error::NoSpace { .. }) => inner.scan_slow(me, class, len as u64, &take),
            other => other.map_err(|error| (error, None)),
        };
        let (ptr, magazine) = taken.map_err(|(error, most)| match error {
            Error::NoSpace { .. } => {
                let failed = &inner.file.header().failed;
                failed[class.unwrap_or(CLASSES) as usize].fetch_add(1, Ordering::Relaxed);
                PoolError::NoSpace { wanted: len as u64, most, injected: false }
            }
            other => PoolError::System(other),
        })?;
        Ok((ptr, magazine, Tag::Owned(process).encode()))
    }

    /// Returns whether the pool's name has been removed: processes that have it open go on, no
    /// other process finds it.
    pub fn is_removed(&self) -> bool {
        self.inner.file.segment.header().is_removed()
    }
}

/// Objects lie at multiples of their size from a page's start; runs begin at a page.
pub(super) fn class_of_aligned(len: usize, align: usize) -> Option<u32> {
    let fits = |class: &u32| size_of_class(*class).is_multiple_of(align as u64);
    class_of(len as u64).and_then(|class| (class..CLASSES).find(fits))
}

impl Clone for Pool {
    fn clone(&self) -> Pool {
        self.inner.handles.fetch_add(1, Ordering::Relaxed);
        Pool::of(Arc::clone(&self.inner))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // The last handle: empties this thread's cache; other threads' caches are emptied when they
        // end, or next make one.
        if self.inner.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.inner.flush_own();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("path", &self.inner.file.segment.path()).finish()
    }
}

/// An object whose tag this thread sets, and the magazine for it when it is freed.
pub(super) type Taken = (ObjectPtr, Option<u32>);

impl Inner {
    /// Returns whether this process has no handle any more; caches may keep the pool open.
    pub(super) fn is_closed(&self) -> bool {
        self.handles.load(Ordering::Acquire) == 0
    }

    fn ask_for_huge_pages(&self, options: PoolOptions) {
        if options.huge_pages && !self.huge_pages.swap(true, Ordering::Relaxed) {
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
