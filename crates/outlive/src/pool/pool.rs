//! A pool's handle: opening a pool, and taking objects from it. `inner.rs` has what is behind it.

use core::panic::Location;
use core::ptr::NonNull;
use std::sync::Arc;

use super::cache::{Entry, FastPath, Handle, MAGAZINES, magazine_of_long};
use super::debug::{Modes, Note, REDZONE};
use super::error::PoolError;
use super::file::{File, LEAST_BYTES, MOST_BYTES, Plan};
use super::heap::{Tag, class_of_short_or_long};
use super::inner::{Inner, class_of_aligned};
use super::object::{CHECKED, Object, WITH_REDZONE, magazine_of};
use crate::domain::{agree, three_openings};
use crate::segment::{Opening, Segment, Spec};
use crate::shim::Ordering;
use crate::{Domain, Error, Kind};

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
            None => (domain.folder().most_bytes()? / 4).clamp(LEAST_BYTES, MOST_BYTES),
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
            description: None,
        };
        let modes = self.modes.unwrap_or(Modes::NONE);
        let init = |segment: &Segment| plan.write(segment, modes);
        let file_id = |segment: &Segment| Ok(segment.facts()?.identity());
        let (segment, file_id) = domain.open_prepared(name, opening, &spec, init, file_id)?;
        agree(&segment, "max_bytes", segment.header().max_bytes(), self.max_bytes)?;
        let inner = Inner::of_file(
            File::new(segment)?,
            file_id,
            domain.registry(),
            self.cache_bytes,
            self.huge_pages,
        );
        Ok(Pool::of(inner).heeding_environment(name))
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
        let (ptr, magazine, owned) = self.inner.take_slow(len, align)?;
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

    /// Returns whether the pool's name has been removed: processes that have it open go on, no
    /// other process finds it.
    pub fn is_removed(&self) -> bool {
        self.inner.file.segment.header().is_removed()
    }

    /// Returns the attributes that its maker gave it.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) when a process wrote over them, and errors of the
    /// system.
    pub fn attributes(&self) -> Result<crate::Attributes, crate::Error> {
        self.inner.file.segment.attributes()
    }
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

impl Pool {
    /// Turns an address that [`Object::into_raw`] returned into the object again.
    ///
    /// # Errors
    /// [`PoolError::Freed`] when the object was freed since; [`PoolError::NotOurs`] when it is
    /// another process's; [`PoolError::NotAnObject`] when no object begins there;
    /// [`PoolError::OtherPool`] when it is another pool's.
    ///
    /// # Safety
    /// The address comes from `into_raw` in this process, and since then no thread uses the object
    /// or has made another `Object` of it. A violation is reported as far as tags tell: they do not
    /// tell of an object that this process has freed and taken again.
    ///
    /// # If a process dies
    /// The same as with [`Object::into_raw`].
    pub unsafe fn from_raw(&self, data: NonNull<u8>) -> Result<Object<'_>, PoolError> {
        let inner = &self.inner;
        let process = inner.registry.process_token()?;
        let object = inner.object_at(data)?;
        let seen = inner.file.record(&object)?.tag.load(Ordering::Relaxed);
        match Tag::decode(seen) {
            Tag::Owned(id) if id == process => {}
            Tag::Free | Tag::Cached(_) | Tag::Held(_) => return Err(PoolError::Freed),
            Tag::Damaged | Tag::Queued { .. } => {
                return Err(inner.file.segment.damaged("an object's tag").into());
            }
            Tag::Owned(_) | Tag::Offered { .. } | Tag::Shared(_) => return Err(PoolError::NotOurs),
        }
        // Once more, now that no thread can take its span apart.
        let object = inner.object_at(data)?;
        let ptr = inner.ptr_to(&object)?;
        let capacity = ptr.capacity as usize;
        let mut flags = if inner.has_modes() { CHECKED } else { 0 };
        let len = match Note::decode(ptr.record().note.load(Ordering::Relaxed)) {
            Note::Redzone(len) if len as usize + REDZONE <= capacity => {
                flags = CHECKED | WITH_REDZONE;
                len as usize
            }
            Note::Length(len) => (len as usize).min(capacity),
            _ => capacity,
        };
        Ok(Object::new(inner, ptr, magazine_of(object.capacity), len, seen).flagged(flags))
    }

    /// Frees the object at an address that [`Object::into_raw`] returned.
    ///
    /// # Errors
    /// The errors of [`Pool::from_raw`] and [`Object::free`]. With
    /// [`Modes::TAG`](super::Modes::TAG), [`PoolError::Fault`] when bytes behind the object were
    /// overwritten.
    ///
    /// # Safety
    /// The caller guarantees what [`Pool::from_raw`] asks for.
    ///
    /// # If a process dies
    /// The same as with [`Object::free`].
    pub unsafe fn free_raw(&self, data: NonNull<u8>) -> Result<(), PoolError> {
        // SAFETY: the caller of `free_raw` guarantees what `from_raw` asks for.
        unsafe { self.from_raw(data) }?.free()
    }
}
