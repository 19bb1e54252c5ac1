//! An object in use, and how it is handed on.
//!
//! | tag | meaning | a death here |
//! | --- | --- | --- |
//! | owned(P) | process P uses it, whichever of its threads | free once P has ended |
//! | offered(anybody, n) | whoever has the offset may claim it | stays |
//! | offered(Q, n) | as above, for Q | free once Q has ended |
//!
//! owned(P) → offered is one exchange, offered → owned(Q) another: at no moment is it nobody's, or two's. The number n, which
//! the offset carries, keeps an old offset from claiming what the object is later. What several hold: shared.rs.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::cache::{Cache, Entry, SHELVES, shelf_of_long};
use super::classes::{class_of, size_of_class};
use super::error::PoolError;
use super::handle::Handle;
use super::hot::Hot;
use super::modes::Modes;
use super::poison::Note;
use super::pool::{Inner, Pool};
use super::redzone::DRESS;
use super::tag::{NUMBER_BITS, Tag};
use crate::shim::Ordering;
use crate::{Peer, TokenId};

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

/// Of a handle's shelf: the object was taken in a debug mode, and is freed by `in_modes.rs`.
pub(super) const IN_MODES: u32 = 1 << 31;
/// Besides: it is dressed.
pub(super) const WITH_DRESS: u32 = 1 << 30;

// SAFETY: memory of its own, which no other thread reaches but through it; a pool's words are made for all threads.
unsafe impl Send for Object<'_> {}
// SAFETY: shared, it gives its bytes to read.
unsafe impl Sync for Object<'_> {}

/// Where an object is that is handed over, or shared, as a number that any process may be given, by whatever way.
///
/// ```
/// # use outlive::pool::Offset;
/// let number: u64 = 1 << 40 | 77;                  // as it came in a message
/// assert_eq!(Offset::from(number).as_u64(), number);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offset(u64);

const REFERENCE_BITS: u32 = 29;
/// Of an offset: the object is shared.
const SHARED: u64 = 1 << (REFERENCE_BITS + NUMBER_BITS);
/// Of an offset: it is of a value, see value.rs.
const VALUE: u64 = SHARED << 1;

/// Something that is handed over and not claimed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offer {
    /// By which it may be claimed.
    pub offset: Offset,
    /// To whom; `None` is to anybody.
    pub to: Option<TokenId>,
    /// Bytes of the object.
    pub bytes: u64,
}

impl Offset {
    pub(super) fn new(reference: u32, number: u32) -> Offset {
        Offset(u64::from(number) << REFERENCE_BITS | u64::from(reference))
    }

    /// The object's reference and the offer's number; `None` for what is none of ours.
    fn parts(self) -> Option<(u32, u32)> {
        let number = self.0 >> REFERENCE_BITS;
        (number < 1 << NUMBER_BITS).then_some((self.0 as u32 & ((1 << REFERENCE_BITS) - 1), number as u32))
    }

    pub(super) fn of_shared(reference: u32, number: u32) -> Offset {
        Offset(Offset::new(reference, number).0 | SHARED)
    }

    /// The same of a shared object.
    pub(super) fn shared_parts(self) -> Option<(u32, u32)> {
        self.is_shared().then(|| Offset(self.0 & !SHARED).parts()).flatten()
    }

    pub(super) fn of_value(self) -> Offset {
        Offset(self.0 | VALUE)
    }

    fn is_value(self) -> bool {
        self.0 & VALUE != 0
    }

    /// Of bytes and of values alike.
    fn bare(self) -> Offset {
        Offset(self.0 & !VALUE)
    }

    /// Whether it is of an object that is shared, for [`Pool::join`], or handed over, for [`Pool::claim`].
    #[must_use]
    pub fn is_shared(self) -> bool {
        self.0 & SHARED != 0
    }

    /// The number.
    #[must_use]
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl From<u64> for Offset {
    fn from(number: u64) -> Offset {
        Offset(number)
    }
}

impl From<Offset> for u64 {
    fn from(offset: Offset) -> u64 {
        offset.0
    }
}

impl<'p> Object<'p> {
    pub(super) fn new(inner: &'p Inner, entry: Entry, shelf: Option<u32>, len: usize, owned: u64) -> Object<'p> {
        let handle = inner.handle(Handle::new(inner, entry, shelf.unwrap_or(SHELVES), len, owned));
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
    fn handle(&self) -> &Handle {
        // SAFETY: this object's alone.
        unsafe { self.handle.as_ref() }
    }

    fn handle_mut(&mut self) -> &mut Handle {
        // SAFETY: this object's alone.
        unsafe { self.handle.as_mut() }
    }

    #[inline]
    pub(super) fn entry(&self) -> &Entry {
        &self.handle().entry
    }

    pub(super) fn owned(&self) -> u64 {
        self.handle().owned
    }

    /// It is not this handle's any more, and stays what its tag says.
    pub(super) fn forget(self) -> Entry {
        let (entry, inner) = (*self.entry(), self.inner());
        // Not dropped: nobody has it any more.
        inner.forget(core::mem::ManuallyDrop::new(self).handle);
        entry
    }

    pub(super) fn flagged(mut self, flags: u32) -> Self {
        let handle = self.handle_mut();
        (handle.shelf, handle.plainly) = (handle.shelf | flags, SHELVES);
        self
    }

    /// Of as many bytes at most.
    pub(super) fn cut(mut self, len: usize) -> Self {
        self.handle_mut().len = self.len().min(len) as u32;
        self
    }

    /// How many bytes there are before a dress.
    pub(super) fn capacity_undressed(&self) -> usize {
        self.entry().capacity as usize - if self.is_dressed() { DRESS } else { 0 }
    }

    pub(super) fn is_dressed(&self) -> bool {
        self.handle().shelf & WITH_DRESS != 0
    }

    /// Without flags.
    pub(super) fn shelf(&self) -> u32 {
        self.handle().shelf & !(IN_MODES | WITH_DRESS)
    }

    /// Where its bytes begin.
    #[must_use]
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.entry().data.as_ptr()
    }

    /// Where its bytes begin, to write.
    #[must_use]
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.entry().data.as_ptr()
    }

    /// How many bytes it has, at least as many as were asked for. With [`Modes::TAG`](super::Modes::TAG) or
    /// [`Modes::CALLER`](super::Modes::CALLER) just those.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        if self.is_dressed() { self.len() } else { self.entry().capacity as usize }
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
        unsafe { Hot::of(self.handle().number) }.put(self.handle)
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
        if self.handle().shelf & IN_MODES != 0 {
            return self.give_back_in_modes().map(|()| Given::Alone);
        }
        self.check_owned()?;
        let inner = self.inner();
        if self.handle().plainly < SHELVES
            && let Some(process) = inner.registry.process_token_if_any()
            && inner.registry.me().is_ok()
            // SAFETY: given up before this returns; nothing here runs user code.
            && let Some(cache) = unsafe { Cache::own(inner, process) }
        {
            cache.heed_flushes();
            if cache.fits(self.shelf()) {
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
        let bits = self.entry().record().tag.load(Ordering::Relaxed);
        if bits == self.owned() {
            return Ok(());
        }
        Err(match Tag::decode(bits) {
            Tag::Free | Tag::Cached(_) | Tag::Held(_) => PoolError::Freed,
            Tag::Damaged | Tag::Queued { .. } => self.inner().file.segment.damaged("an object's tag").into(),
            _ => PoolError::NotOurs,
        })
    }

    /// Hands it to whoever claims it: [`Pool::claim`]. Not freed by anybody's death: who is given the offset and does not
    /// want the object claims and drops it. If the offset is lost, [`Pool::offers`] has it.
    ///
    /// # Errors
    /// As [`Object::free`].
    ///
    /// # If a process dies
    /// In here: the object is offered, or it is free once the process has ended. Later: it stays offered.
    pub fn into_offset(self) -> Result<Offset, PoolError> {
        self.offer(None)
    }

    /// Hands it to that process (its process token's peer), or thread: nobody else can claim it.
    ///
    /// # Errors
    /// As [`Object::free`].
    ///
    /// # If a process dies
    /// That one, before it has claimed it: the object is free. In here: as with [`Object::into_offset`].
    pub fn into_offset_for(self, to: &Peer) -> Result<Offset, PoolError> {
        self.offer(Some(to.id()))
    }

    /// A number that nothing else has that is offered or shared.
    pub(super) fn next_number(&self) -> u32 {
        let inner = self.inner();
        // SAFETY: given up at once.
        match unsafe { Cache::find(inner) } {
            Some(cache) => cache.next_number(),
            None => inner.file.head().numbers.fetch_add(1, Ordering::Relaxed) & ((1 << NUMBER_BITS) - 1),
        }
    }

    pub(super) fn offer(self, to: Option<TokenId>) -> Result<Offset, PoolError> {
        self.check_owned()?;
        if let Some(fault) = self.overrun() {
            self.free_in_modes();
            self.forget();
            return Err(PoolError::Fault(fault));
        }
        let inner = self.inner();
        let number = self.next_number();
        let record = self.entry().record();
        // Relaxed: seen with the tag. A dressed one's length stands there already.
        if !self.is_dressed() {
            record.note.store(self.len() as u32, Ordering::Relaxed);
        }
        if self.handle().shelf & IN_MODES != 0 && inner.now().modes.contains(Modes::UAF) {
            // Died just after: owned(P), whose mappings end with it.
            self.hide();
        }
        let offered = Tag::Offered { to, number }.encode();
        // Release pairs with `claim`. Died just before: owned(P). Just after: offered, and nobody may know the number.
        let offered = record.tag.compare_exchange(self.owned(), offered, Ordering::Release, Ordering::Relaxed);
        let damaged = || inner.file.segment.damaged("an object's tag");
        let reference = self.forget().reference;
        offered.map_err(|_| damaged())?;
        Ok(Offset::new(reference, number))
    }
}

impl Pool {
    /// Takes over what somebody has handed over. It has as many bytes as were asked for when it was taken.
    ///
    /// # Errors
    /// [`PoolError::Stale`] when somebody else was quicker, or nothing is offered by that number any more;
    /// [`PoolError::NotForUs`], [`PoolError::OtherType`] for the offset of a value, [`PoolError::System`]; with [`Modes::TAG`],
    /// [`PoolError::Fault`] when it was overrun: then it is freed.
    ///
    /// # If a process dies
    /// In here: it is still offered (if it was offered to the dead one: free), or free once the process has ended.
    pub fn claim(&self, offset: Offset) -> Result<Object<'_>, PoolError> {
        if offset.is_value() && offset.bare().parts().is_some() {
            return Err(PoolError::OtherType);
        }
        Ok(self.claim_any(offset)?.0)
    }

    /// Bytes or a value; and the tag by which it was offered.
    pub(super) fn claim_any(&self, offset: Offset) -> Result<(Object<'_>, u64), PoolError> {
        let inner = &self.inner;
        let (file, heap) = (&inner.file, &inner.file.heap);
        let me = inner.registry.me()?;
        let process = inner.registry.process_token()?;
        let (reference, number) = offset.bare().parts().ok_or(PoolError::Stale)?;
        let block = heap.find_object(&file.segment, reference)?.ok_or(PoolError::Stale)?;
        let tag = &file.record(&block)?.tag;
        let seen = tag.load(Ordering::Acquire);
        match Tag::decode(seen) {
            Tag::Offered { to, number: offered } if offered == number => {
                if let Some(to) = to.filter(|&to| to != process && to != me.id) {
                    return Err(PoolError::NotForUs { to });
                }
            }
            _ => return Err(PoolError::Stale),
        }
        let owned = Tag::Owned(process).encode();
        // Acquire pairs with `offer`. Died just after: owned(P).
        tag.compare_exchange(seen, owned, Ordering::Acquire, Ordering::Relaxed).map_err(|_| PoolError::Stale)?;
        // Its place is looked at again, now that nobody takes its span apart.
        let found = heap.find_object(&file.segment, reference).and_then(|block| {
            let block = block.ok_or_else(|| file.segment.damaged("an object's place"))?;
            Ok((inner.entry(&block)?, block))
        });
        let (entry, block) = match found {
            Ok(found) => found,
            Err(error) => {
                // Offered as it was: the next claim may find it. Release pairs with that one's Acquire.
                let _ = tag.compare_exchange(owned, seen, Ordering::Release, Ordering::Relaxed);
                return Err(error.into());
            }
        };
        let (len, dress) = match Note::decode(entry.record().note.load(Ordering::Relaxed)) {
            Note::Dressed(len) => (len, DRESS as u32),
            Note::Length(len) => (len, 0),
            Note::Filled { .. } => (u32::MAX, 0),
        };
        if u64::from(len) + u64::from(dress) > u64::from(entry.capacity) {
            // Died here: owned(P) still.
            entry.set(0);
            return Err(file.segment.damaged("an object's length").into());
        }
        let object = Object::new(inner, entry, shelf_of(block.capacity), len as usize, owned);
        if dress > 0 || inner.has_modes() {
            return Ok((object.claimed_in_modes(dress > 0)?, seen));
        }
        Ok((object, seen))
    }
}

impl Object<'_> {
    /// Offers it as it was before it was claimed, with that tag.
    pub(super) fn offer_again(self, tag: u64) {
        if self.handle().shelf & IN_MODES != 0 && self.inner().now().modes.contains(Modes::UAF) {
            self.hide();
        }
        // Died just before: owned(P).
        self.entry().set(tag);
        self.forget();
    }
}

/// Where an object of that capacity goes in a cache.
pub(super) fn shelf_of(capacity: u64) -> Option<u32> {
    let exactly = |class: &u32| size_of_class(*class) == capacity;
    class_of(capacity).filter(exactly).or_else(|| shelf_of_long(capacity))
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
        unsafe { core::slice::from_raw_parts(self.entry().data.as_ptr(), self.handle().len as usize) }
    }
}

impl DerefMut for Object<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let Handle { entry, len, .. } = self.handle();
        // SAFETY: as above, and borrowed for us alone.
        unsafe { core::slice::from_raw_parts_mut(entry.data.as_ptr(), *len as usize) }
    }
}

impl core::fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Object").field("len", &self.len()).field("capacity", &self.capacity()).finish()
    }
}
