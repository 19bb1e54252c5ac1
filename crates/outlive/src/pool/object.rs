//! An object in use: owned(P) by process P, whichever of its threads uses it; free once P has
//! ended.
//!
//! share/handoff.rs hands it on; share/mod.rs lets several processes hold it.
//!
//! Bindings to languages without handles use objects by address. An address is looked up in the
//! table of spans: the span gives the size of its objects, so where they begin; the tag names the
//! owner.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::cache::{Cache, FastPath, Handle, MAGAZINES, magazine_of_long};
use super::debug::{Note, REDZONE};
use super::error::PoolError;
use super::file::ObjectPtr;
use super::heap::{ObjectRef, Tag, class_of, size_of_class};
use super::inner::{Inner, open_pool_at};
use crate::shim::Ordering;

/// Memory from a [`Pool`](super::Pool) that belongs to this process alone, until it is freed or handed over.
/// Dropping it frees it.
///
/// It may be sent to other threads and freed there. In a forked child it belongs to the parent:
/// dropping it there has no effect.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-object-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// # use outlive::pool::Pool;
/// # let pool = Pool::open_or_create(&domain, "frames")?;
/// let mut object = pool.alloc(100)?;
/// object.copy_from_slice(&[1; 100]);
/// assert!(object.len() == 100 && object.capacity() >= 100);
/// object.free()?;                                 // like a drop, but returns errors
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If this process dies, its objects are free once its last thread has ended: until then a thread
/// may still be writing there.
#[must_use = "an object that is dropped is freed"]
pub struct Object<'p> {
    /// This object's alone.
    handle: NonNull<Handle>,
    /// The handle names its pool.
    _pool: PhantomData<&'p Inner>,
}

/// How an object was given back.
enum Given {
    /// Its handle went into a cache with it.
    WithHandle,
    Alone,
}

/// A flag in a handle's magazine number: the object was taken in a debug mode, and
/// `debug/checked.rs` frees it.
pub(super) const CHECKED: u32 = 1 << 31;
/// A further flag: it has a redzone.
pub(super) const WITH_REDZONE: u32 = 1 << 30;

// SAFETY: other threads reach the object's memory only through this value; the pool's words are
// atomics.
unsafe impl Send for Object<'_> {}
// SAFETY: a shared object only gives its bytes to read.
unsafe impl Sync for Object<'_> {}

impl<'p> Object<'p> {
    pub(super) fn new(
        inner: &'p Inner,
        ptr: ObjectPtr,
        magazine: Option<u32>,
        len: usize,
        owned: u64,
    ) -> Object<'p> {
        let handle =
            inner.handle(Handle::new(inner, ptr, magazine.unwrap_or(MAGAZINES), len, owned));
        Object { handle, _pool: PhantomData }
    }

    /// # Safety
    /// The handle names a pool that lives as long as `'p`, and no other `Object` has it.
    #[inline]
    pub(super) unsafe fn of(handle: NonNull<Handle>) -> Object<'p> {
        Object { handle, _pool: PhantomData }
    }

    #[inline]
    pub(super) fn inner(&self) -> &'p Inner {
        // SAFETY: the handle names the pool that `'p` borrows.
        unsafe { &*self.handle().inner }
    }

    #[inline]
    pub(super) fn handle(&self) -> &Handle {
        // SAFETY: the handle is this object's alone, from `Object::of` on.
        unsafe { self.handle.as_ref() }
    }

    fn handle_mut(&mut self) -> &mut Handle {
        // SAFETY: the handle is this object's alone, from `Object::of` on; `&mut self` borrows it
        // for this call.
        unsafe { self.handle.as_mut() }
    }

    #[inline]
    pub(super) fn ptr(&self) -> &ObjectPtr {
        &self.handle().ptr
    }

    pub(super) fn owned(&self) -> u64 {
        self.handle().owned
    }

    /// Gives up the handle; the object stays what its tag says.
    pub(super) fn forget(self) -> ObjectPtr {
        let (ptr, inner) = (*self.ptr(), self.inner());
        // Not dropped: this process does not have the object any more.
        inner.forget(core::mem::ManuallyDrop::new(self).handle);
        ptr
    }

    pub(super) fn flagged(mut self, flags: u32) -> Self {
        let handle = self.handle_mut();
        (handle.magazine, handle.plainly) = (handle.magazine | flags, MAGAZINES);
        self
    }

    /// Shortens it to at most so many bytes.
    pub(super) fn cut(mut self, len: usize) -> Self {
        self.handle_mut().len = self.len().min(len) as u32;
        self
    }

    /// Returns how many bytes there are before a redzone.
    pub(super) fn capacity_before_redzone(&self) -> usize {
        self.ptr().capacity as usize - if self.has_redzone() { REDZONE } else { 0 }
    }

    pub(super) fn has_redzone(&self) -> bool {
        self.handle().magazine & WITH_REDZONE != 0
    }

    /// Returns the magazine's number without flags.
    pub(super) fn magazine(&self) -> u32 {
        self.handle().magazine & !(CHECKED | WITH_REDZONE)
    }

    /// Returns the address of its bytes.
    #[must_use]
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr().data.as_ptr()
    }

    /// Returns the address of its bytes, for writing.
    #[must_use]
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.ptr().data.as_ptr()
    }

    /// Returns how many bytes it has, at least as many as were asked for. With
    /// [`Modes::TAG`](super::Modes::TAG) or [`Modes::CALLER`](super::Modes::CALLER) it has exactly
    /// those.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        if self.has_redzone() { self.len() } else { self.ptr().capacity as usize }
    }

    /// Frees the object, as a drop does, and returns whether that succeeded.
    ///
    /// # Errors
    /// [`PoolError::NotOurs`] in a forked child, since the object is the parent's;
    /// [`PoolError::Freed`] and [`PoolError::System`] when the pool's tags were overwritten. With
    /// [`Modes::TAG`](super::Modes::TAG), [`PoolError::Fault`] when bytes behind the object were
    /// overwritten; then it is freed all the same.
    ///
    /// # If a process dies
    /// If this process dies during the call, the object is free then, or once the process has
    /// ended.
    #[inline]
    pub fn free(self) -> Result<(), PoolError> {
        let object = core::mem::ManuallyDrop::new(self);
        if object.give_back() {
            Ok(())
        } else {
            core::mem::ManuallyDrop::into_inner(object).give_back_slow()
        }
    }

    /// Puts it into the cache, with its handle, if no more than that is to be done. Then the caller
    /// has it no longer.
    #[inline]
    fn give_back(&self) -> bool {
        // SAFETY: the reference ends with this statement, before other code can ask for the cache.
        unsafe { FastPath::of(self.handle().number) }.put(self.handle)
    }

    #[cold]
    #[inline(never)]
    fn give_back_slow(self) -> Result<(), PoolError> {
        let object = core::mem::ManuallyDrop::new(self);
        let done = object.give_back_anyhow();
        if !matches!(done, Ok(Given::WithHandle)) {
            core::mem::ManuallyDrop::into_inner(object).forget();
        }
        done.map(|_| ())
    }

    #[cold]
    #[inline(never)]
    fn drop_slow(self) {
        // Dropped once, also if the fault hook panics.
        let object = core::mem::ManuallyDrop::new(self);
        match object.give_back_anyhow() {
            Ok(Given::WithHandle) => return,
            Ok(Given::Alone) => {}
            // A forked child's copy, or damaged: no more to do here.
            Err(error) => object.dropped_badly(error),
        }
        core::mem::ManuallyDrop::into_inner(object).forget();
    }

    fn give_back_anyhow(&self) -> Result<Given, PoolError> {
        if self.handle().magazine & CHECKED != 0 {
            return self.give_back_checked().map(|()| Given::Alone);
        }
        self.check_owned()?;
        let inner = self.inner();
        if self.handle().plainly < MAGAZINES
            && let Some(process) = inner.registry.process_token_if_any()
            && inner.registry.me().is_ok()
            // SAFETY: the reference ends before this returns; no user code runs here.
            && let Some(cache) = unsafe { Cache::own(inner, process) }
        {
            cache.heed_flushes();
            if cache.fits(self.magazine()) {
                cache.push(self.handle);
                return Ok(Given::WithHandle);
            }
        }
        self.give_back_plainly();
        Ok(Given::Alone)
    }

    /// Checks that it belongs to this process, and that its tag says so.
    pub(super) fn check_owned(&self) -> Result<(), PoolError> {
        let process = self.inner().registry.process_token_if_any();
        if process.is_none_or(|process| Tag::Owned(process).encode() != self.owned()) {
            return Err(PoolError::NotOurs);
        }
        let bits = self.ptr().record().tag.load(Ordering::Relaxed);
        if bits == self.owned() {
            return Ok(());
        }
        Err(match Tag::decode(bits) {
            Tag::Free | Tag::Cached(_) | Tag::Held(_) => PoolError::Freed,
            Tag::Damaged | Tag::Queued { .. } => {
                self.inner().file.segment.damaged("an object's tag").into()
            }
            _ => PoolError::NotOurs,
        })
    }
}

/// Returns the magazine for an object of that capacity.
pub(super) fn magazine_of(capacity: u64) -> Option<u32> {
    let exactly = |class: &u32| size_of_class(*class) == capacity;
    class_of(capacity).filter(exactly).or_else(|| magazine_of_long(capacity))
}

impl Drop for Object<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.give_back() {
            // SAFETY: this object's own handle, which is not used again: it is being dropped.
            unsafe { Object::of(self.handle) }.drop_slow();
        }
    }
}

impl Deref for Object<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the tag says that this process owns it, and this is the process's one handle;
        // `len` is at most the capacity, all of which has pages.
        unsafe { core::slice::from_raw_parts(self.ptr().data.as_ptr(), self.handle().len as usize) }
    }
}

impl DerefMut for Object<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let Handle { ptr, len, .. } = self.handle();
        // SAFETY: this process owns it by its one handle, `len` is at most the capacity, and `&mut
        // self` makes this the only reference.
        unsafe { core::slice::from_raw_parts_mut(ptr.data.as_ptr(), *len as usize) }
    }
}

impl core::fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Object")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish()
    }
}

impl Object<'_> {
    /// Turns the object into an address, which only [`Pool::free_raw`](super::Pool::free_raw) or [`Pool::from_raw`](super::Pool::from_raw) frees
    /// again.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-raw-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # use outlive::pool::{Pool, PoolError};
    /// let pool = Pool::open_or_create(&domain, "frames")?;
    /// let address = pool.alloc(100)?.into_raw();
    /// // SAFETY: `into_raw` returned it just now, and no thread uses the object.
    /// unsafe { pool.free_raw(address)? };
    /// // SAFETY: no thread uses the object; the second free is reported.
    /// assert_eq!(unsafe { pool.free_raw(address) }, Err(PoolError::Freed));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # If a process dies
    /// If this process dies, the object is free once the process has ended.
    #[must_use = "an object whose address is lost is freed only at the process's end"]
    pub fn into_raw(self) -> NonNull<u8> {
        // A redzone already has the length. Not in a forked child: the note is the parent's.
        if !self.has_redzone() && self.check_owned().is_ok() {
            // Relaxed: this process's own. If it died just after, the tag says owned(P), with a
            // length that is not used.
            self.ptr()
                .record()
                .note
                .store(Note::Length(self.len() as u32).encode(), Ordering::Relaxed);
        }
        self.forget().data
    }
}

impl Inner {
    pub(super) fn object_at(&self, data: NonNull<u8>) -> Result<ObjectRef, PoolError> {
        let address = data.as_ptr() as usize;
        let (segment, heap) = (&self.file.segment, &self.file.heap);
        let Some(offset) = segment.offset_of(address) else {
            return Err(match open_pool_at(address) {
                Some(pool) => PoolError::OtherPool { pool },
                None => PoolError::NotAnObject { address },
            });
        };
        heap.object_at(segment, offset).ok_or(PoolError::NotAnObject { address })
    }
}
