//! An object in use: owned(P), process P's, whichever of its threads uses it; free once P has
//! ended.
//!
//! How it is handed on: share/handoff.rs. What several processes hold: share/mod.rs.
//!
//! Bindings to languages that have no handles have objects as addresses. An address is looked up in
//! the table of spans: the span says of what size its objects are, so where they begin; the tag
//! says whose it is.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::cache::{Cache, FastPath, Handle, MAGAZINES, magazine_of_long};
use super::debug::{Note, REDZONE};
use super::error::PoolError;
use super::file::ObjectPtr;
use super::heap::{ObjectRef, Tag, class_of, size_of_class};
use super::pool::{Inner, Pool, open_pool_at};
use crate::shim::Ordering;

/// Memory from a [`Pool`]: this process's alone until it is dropped, which frees it, or handed over.
///
/// May be sent to and freed by other threads. In a forked child it is the parent's: dropping it there does nothing.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-object-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// # use outlive::pool::{Pool, PoolOptions};
/// # let pool = Pool::open(&domain, "frames", PoolOptions::default())?;
/// let mut object = pool.alloc(100)?;
/// object.copy_from_slice(&[1; 100]);
/// assert!(object.len() == 100 && object.capacity() >= 100);
/// object.free()?;                                 // as dropping it, with a word on how that went
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// Its objects are free once its last thread has ended: until then one may still be writing there.
#[must_use = "an object that is dropped is freed"]
pub struct Object<'p> {
    /// This object's alone.
    handle: NonNull<Handle>,
    /// Its pool stands in the handle.
    _pool: PhantomData<&'p Pool>,
}

/// How an object was given back.
enum Given {
    /// Its handle went into a cache with it.
    WithHandle,
    Alone,
}

/// A flag beside a handle's magazine: the object was taken in a debug mode, and is freed by
/// `debug/checked.rs`.
pub(super) const CHECKED: u32 = 1 << 31;
/// Besides: it has a redzone.
pub(super) const WITH_REDZONE: u32 = 1 << 30;

// SAFETY: memory of its own, which no other thread reaches but through it; a pool's words are made for all threads.
unsafe impl Send for Object<'_> {}
// SAFETY: shared, it gives its bytes to read.
unsafe impl Sync for Object<'_> {}

impl<'p> Object<'p> {
    pub(super) fn new(inner: &'p Inner, ptr: ObjectPtr, magazine: Option<u32>, len: usize, owned: u64) -> Object<'p> {
        let handle = inner.handle(Handle::new(inner, ptr, magazine.unwrap_or(MAGAZINES), len, owned));
        Object { handle, _pool: PhantomData }
    }

    /// # Safety
    /// The handle names a pool that lives as long as `'p`, and is nobody else's.
    #[inline]
    pub(super) unsafe fn of(handle: NonNull<Handle>) -> Object<'p> {
        Object { handle, _pool: PhantomData }
    }

    #[inline]
    pub(super) fn inner(&self) -> &'p Inner {
        // SAFETY: a handle names the pool that was borrowed for `'p`.
        unsafe { &*self.handle().inner }
    }

    #[inline]
    pub(super) fn handle(&self) -> &Handle {
        // SAFETY: this object's alone.
        unsafe { self.handle.as_ref() }
    }

    fn handle_mut(&mut self) -> &mut Handle {
        // SAFETY: this object's alone.
        unsafe { self.handle.as_mut() }
    }

    #[inline]
    pub(super) fn ptr(&self) -> &ObjectPtr {
        &self.handle().ptr
    }

    pub(super) fn owned(&self) -> u64 {
        self.handle().owned
    }

    /// It is not this handle's any more, and stays what its tag says.
    pub(super) fn forget(self) -> ObjectPtr {
        let (ptr, inner) = (*self.ptr(), self.inner());
        // Not dropped: nobody has it any more.
        inner.forget(core::mem::ManuallyDrop::new(self).handle);
        ptr
    }

    pub(super) fn flagged(mut self, flags: u32) -> Self {
        let handle = self.handle_mut();
        (handle.magazine, handle.plainly) = (handle.magazine | flags, MAGAZINES);
        self
    }

    /// Of as many bytes at most.
    pub(super) fn cut(mut self, len: usize) -> Self {
        self.handle_mut().len = self.len().min(len) as u32;
        self
    }

    /// How many bytes there are before a redzone.
    pub(super) fn capacity_before_redzone(&self) -> usize {
        self.ptr().capacity as usize - if self.has_redzone() { REDZONE } else { 0 }
    }

    pub(super) fn has_redzone(&self) -> bool {
        self.handle().magazine & WITH_REDZONE != 0
    }

    /// Without flags.
    pub(super) fn magazine(&self) -> u32 {
        self.handle().magazine & !(CHECKED | WITH_REDZONE)
    }

    /// Where its bytes begin.
    #[must_use]
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr().data.as_ptr()
    }

    /// Where its bytes begin, to write.
    #[must_use]
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.ptr().data.as_ptr()
    }

    /// How many bytes it has, at least as many as were asked for. With [`Modes::TAG`](super::Modes::TAG) or
    /// [`Modes::CALLER`](super::Modes::CALLER) just those.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        if self.has_redzone() { self.len() } else { self.ptr().capacity as usize }
    }

    /// Frees it, as dropping it does, and says whether that was in order.
    ///
    /// # Errors
    /// [`PoolError::NotOurs`] in a forked child, whose parent's it is; [`PoolError::Freed`] and [`PoolError::System`] when
    /// somebody has written over the pool's tags. With [`Modes::TAG`](super::Modes::TAG), [`PoolError::Fault`] when it was
    /// overrun; then it is freed all the same.
    ///
    /// # If a process dies
    /// In here: the object is free, or it is once the process has ended.
    #[inline]
    pub fn free(self) -> Result<(), PoolError> {
        let object = core::mem::ManuallyDrop::new(self);
        if object.give_back() { Ok(()) } else { core::mem::ManuallyDrop::into_inner(object).give_back_slow() }
    }

    /// Into the cache, handle and all, if that is all there is to do. It is not the caller's any more then.
    #[inline]
    fn give_back(&self) -> bool {
        // SAFETY: given up at once.
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
        // Dropped once, also if somebody's hook panics at the report.
        let object = core::mem::ManuallyDrop::new(self);
        match object.give_back_anyhow() {
            Ok(Given::WithHandle) => return,
            Ok(Given::Alone) => {}
            // Not ours: a forked child's copy. Damaged: nothing to be done here.
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
            // SAFETY: given up before this returns; nothing here runs user code.
            && let Some(cache) = unsafe { Cache::own(inner, process) }
        {
            cache.heed_flushes();
            if cache.fits(self.magazine()) {
                cache.push(self.handle);
                cache.evict();
                return Ok(Given::WithHandle);
            }
        }
        self.give_back_plainly();
        Ok(Given::Alone)
    }

    /// That it is this process's, and its tag says so.
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
            Tag::Damaged | Tag::Queued { .. } => self.inner().file.segment.damaged("an object's tag").into(),
            _ => PoolError::NotOurs,
        })
    }
}

/// Where an object of that capacity goes in a cache.
pub(super) fn magazine_of(capacity: u64) -> Option<u32> {
    let exactly = |class: &u32| size_of_class(*class) == capacity;
    class_of(capacity).filter(exactly).or_else(|| magazine_of_long(capacity))
}

impl Drop for Object<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.give_back() {
            // SAFETY: this very object, which is dropped just now.
            unsafe { Object::of(self.handle) }.drop_slow();
        }
    }
}

impl Deref for Object<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the tag says that it is this process's, and this is the process's one handle; `len` is at most the
        // capacity, all of which has pages.
        unsafe { core::slice::from_raw_parts(self.ptr().data.as_ptr(), self.handle().len as usize) }
    }
}

impl DerefMut for Object<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let Handle { ptr, len, .. } = self.handle();
        // SAFETY: as above, and borrowed for us alone.
        unsafe { core::slice::from_raw_parts_mut(ptr.data.as_ptr(), *len as usize) }
    }
}

impl core::fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Object").field("len", &self.len()).field("capacity", &self.capacity()).finish()
    }
}

impl Object<'_> {
    /// Gives it out as an address, which nobody frees but [`Pool::free_raw`], or [`Pool::from_raw`] and what is done with that.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-raw-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// # use outlive::pool::{Pool, PoolError, PoolOptions};
    /// let pool = Pool::open(&domain, "frames", PoolOptions::default())?;
    /// let address = pool.alloc(100)?.into_raw();
    /// // SAFETY: given out just now, and used by nobody.
    /// unsafe { pool.free_raw(address)? };
    /// // SAFETY: the same once more, which is found.
    /// assert_eq!(unsafe { pool.free_raw(address) }, Err(PoolError::Freed));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # If a process dies
    /// The object is free once it has ended, as any.
    #[must_use = "an object whose address is lost is freed only at the process's end"]
    pub fn into_raw(self) -> NonNull<u8> {
        // The length of one with a redzone stands there already. Not a forked child's: that would
        // be its parent's note.
        if !self.has_redzone() && self.check_owned().is_ok() {
            // Relaxed: this process's own. Died just after: owned(P), with a length that nobody asks for.
            self.ptr().record().note.store(Note::Length(self.len() as u32).encode(), Ordering::Relaxed);
        }
        self.forget().data
    }
}

impl Pool {
    /// The object that [`Object::into_raw`] gave out as that address.
    ///
    /// # Errors
    /// [`PoolError::Freed`] when it was freed since, and [`PoolError::NotOurs`] when it is another process's;
    /// [`PoolError::NotAnObject`] when no object begins there; [`PoolError::OtherPool`] when it is another pool's.
    ///
    /// # Safety
    /// `into_raw` gave it out in this process, and nobody uses it, or has made another `Object` of it, since. What is wrong in
    /// spite of this is found as far as tags tell; an object that was freed and taken again, by this process, they do not tell.
    ///
    /// # If a process dies
    /// As with [`Object::into_raw`].
    pub unsafe fn from_raw(&self, data: NonNull<u8>) -> Result<Object<'_>, PoolError> {
        let inner = &self.inner;
        let process = inner.registry.process_token()?;
        let object = inner.object_at(data)?;
        let seen = inner.file.record(&object)?.tag.load(Ordering::Relaxed);
        match Tag::decode(seen) {
            Tag::Owned(id) if id == process => {}
            Tag::Free | Tag::Cached(_) | Tag::Held(_) => return Err(PoolError::Freed),
            Tag::Damaged | Tag::Queued { .. } => return Err(inner.file.segment.damaged("an object's tag").into()),
            Tag::Owned(_) | Tag::Offered { .. } | Tag::Shared(_) => return Err(PoolError::NotOurs),
        }
        // Once more, now that nobody takes its span apart.
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

    /// Frees the object that [`Object::into_raw`] gave out as that address.
    ///
    /// # Errors
    /// As [`Pool::from_raw`] and [`Object::free`]. With [`Modes::TAG`](super::Modes::TAG), [`PoolError::Fault`] when it was overrun.
    ///
    /// # Safety
    /// As [`Pool::from_raw`].
    ///
    /// # If a process dies
    /// As with [`Object::free`].
    pub unsafe fn free_raw(&self, data: NonNull<u8>) -> Result<(), PoolError> {
        // SAFETY: the caller's promise.
        unsafe { self.from_raw(data) }?.free()
    }
}

impl Inner {
    fn object_at(&self, data: NonNull<u8>) -> Result<ObjectRef, PoolError> {
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
