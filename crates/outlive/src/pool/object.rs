//! An object in use, and how it is handed on.
//!
//! | tag | meaning | a death here |
//! | --- | --- | --- |
//! | owned(P) | process P uses it, whichever of its threads | free once P has ended |
//! | offered(anybody, n) | whoever has the offset may claim it | stays |
//! | offered(Q, n) | as above, for Q | free once Q has ended |
//!
//! owned(P) → offered is one exchange, offered → owned(Q) another: at no moment is it nobody's, or two's. The number n, which
//! the offset carries, keeps an old offset from claiming what the object is later.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::cache::{Cache, Entry, SHELVES, release, shelf_of_long};
use super::classes::{class_of, size_of_class};
use super::dress::DRESS;
use super::error::PoolError;
use super::fill::Note;
use super::modes::Modes;
use super::pool::Pool;
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
    pub(super) pool: &'p Pool,
    pub(super) entry: Entry,
    len: usize,
    /// What its tag says as long as it is this process's.
    owned: u64,
    /// Where it goes in a cache; `SHELVES` if nowhere. With the flags below.
    shelf: u32,
}

/// Of a shelf: the object was taken in a debug mode, and is freed by `in_modes.rs`.
pub(super) const IN_MODES: u32 = 1 << 31;
/// Besides: it is dressed.
pub(super) const WITH_DRESS: u32 = 1 << 30;

// SAFETY: memory of its own, which no other thread reaches but through it; a pool's words are made for all threads.
unsafe impl Send for Object<'_> {}
// SAFETY: shared, it gives its bytes to read.
unsafe impl Sync for Object<'_> {}

/// Where an object is that is handed over, as a number that any process may be given, by whatever way.
///
/// ```
/// # use outlive::pool::Offset;
/// let number: u64 = 1 << 40 | 77;                  // as it came in a message
/// assert_eq!(Offset::from(number).as_u64(), number);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offset(u64);

const REFERENCE_BITS: u32 = 29;

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
    #[inline]
    pub(super) fn new(pool: &'p Pool, entry: Entry, shelf: Option<u32>, len: usize, owned: u64) -> Object<'p> {
        Object { pool, entry, len, owned, shelf: shelf.unwrap_or(SHELVES) }
    }

    pub(super) fn flagged(mut self, flags: u32) -> Self {
        self.shelf |= flags;
        self
    }

    pub(super) fn is_dressed(&self) -> bool {
        self.shelf & WITH_DRESS != 0
    }

    /// Without flags.
    pub(super) fn shelf(&self) -> u32 {
        self.shelf & !(IN_MODES | WITH_DRESS)
    }

    /// Where its bytes begin.
    #[must_use]
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.entry.data.as_ptr()
    }

    /// Where its bytes begin, to write.
    #[must_use]
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.entry.data.as_ptr()
    }

    /// How many bytes it has, at least as many as were asked for. With [`Modes::TAG`](super::Modes::TAG) or
    /// [`Modes::CALLER`](super::Modes::CALLER) just those.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        if self.is_dressed() { self.len } else { self.entry.capacity as usize }
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
        let mut object = core::mem::ManuallyDrop::new(self);
        object.give_back()
    }

    #[inline]
    fn give_back(&mut self) -> Result<(), PoolError> {
        if self.shelf < SHELVES
            // SAFETY: given up before this returns; nothing here runs user code.
            && let Some(cache) = unsafe { Cache::find(&self.pool.inner) }
            && cache.owned == self.owned
            // Relaxed: only this process changes a tag that names it.
            && self.entry.record().tag.load(Ordering::Relaxed) == self.owned
        {
            cache.push(self.shelf, self.entry);
            if cache.is_full() {
                cache.evict();
            }
            return Ok(());
        }
        self.give_back_slow()
    }

    #[cold]
    #[inline(never)]
    fn give_back_slow(&mut self) -> Result<(), PoolError> {
        if self.shelf & IN_MODES != 0 {
            return self.give_back_in_modes();
        }
        self.check_owned()?;
        let inner = &self.pool.inner;
        let me = inner.registry.me().ok();
        if self.shelf < SHELVES
            && let Some(me) = me
            && let Some(process) = inner.registry.process_token_if_any()
            // SAFETY: given up before this returns; nothing here runs user code.
            && let Some(cache) = unsafe { Cache::own(inner, me, process) }
        {
            cache.heed_flushes();
            cache.push(self.shelf, self.entry);
            cache.evict();
        } else {
            release(&inner.file, me, self.shelf, &[self.entry]);
        }
        Ok(())
    }

    /// That it is this process's, and its tag says so.
    pub(super) fn check_owned(&self) -> Result<(), PoolError> {
        let process = self.pool.inner.registry.process_token_if_any();
        if process.is_none_or(|process| Tag::Owned(process).encode() != self.owned) {
            return Err(PoolError::NotOurs);
        }
        let bits = self.entry.record().tag.load(Ordering::Relaxed);
        if bits == self.owned {
            return Ok(());
        }
        Err(match Tag::decode(bits) {
            Tag::Free | Tag::Cached(_) | Tag::Held(_) => PoolError::Freed,
            Tag::Damaged | Tag::Queued { .. } => self.pool.inner.file.segment.damaged("an object's tag").into(),
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

    fn offer(self, to: Option<TokenId>) -> Result<Offset, PoolError> {
        self.check_owned()?;
        let mut object = core::mem::ManuallyDrop::new(self);
        if let Some(fault) = object.overrun() {
            object.free_in_modes();
            return Err(PoolError::Fault(fault));
        }
        let inner = &object.pool.inner;
        // SAFETY: given up at once.
        let number = match unsafe { Cache::find(inner) } {
            Some(cache) => cache.next_number(),
            None => inner.file.head().numbers.fetch_add(1, Ordering::Relaxed) & ((1 << NUMBER_BITS) - 1),
        };
        // Relaxed: seen with the tag.
        // A dressed one's length stands there already.
        if !object.is_dressed() {
            object.entry.record().note.store(object.len as u32, Ordering::Relaxed);
        }
        if object.shelf & IN_MODES != 0 && inner.now().modes.contains(Modes::UAF) {
            // Died just after: owned(P), whose mappings end with it.
            object.hide();
        }
        let offered = Tag::Offered { to, number }.encode();
        // Release pairs with `claim`. Died just before: owned(P). Just after: offered, and nobody may know the number.
        let tag = &object.entry.record().tag;
        tag.compare_exchange(object.owned, offered, Ordering::Release, Ordering::Relaxed)
            .map_err(|_| inner.file.segment.damaged("an object's tag"))?;
        Ok(Offset::new(object.entry.reference, number))
    }
}

impl Pool {
    /// Takes over what somebody has handed over. It has as many bytes as were asked for when it was taken.
    ///
    /// # Errors
    /// [`PoolError::Stale`] when somebody else was quicker, or nothing is offered by that number any more;
    /// [`PoolError::NotForUs`], [`PoolError::System`]; with [`Modes::TAG`], [`PoolError::Fault`] when it was overrun: then it is
    /// freed.
    ///
    /// # If a process dies
    /// In here: it is still offered (if it was offered to the dead one: free), or free once the process has ended.
    pub fn claim(&self, offset: Offset) -> Result<Object<'_>, PoolError> {
        let inner = &self.inner;
        let (file, heap) = (&inner.file, &inner.file.heap);
        let me = inner.registry.me()?;
        let process = inner.registry.process_token()?;
        let (reference, number) = offset.parts().ok_or(PoolError::Stale)?;
        let block = heap.object(&file.segment, reference).ok_or(PoolError::Stale)?;
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
        let block = heap.object(&file.segment, reference).ok_or_else(|| file.segment.damaged("an object's place"))?;
        let entry = inner.entry(&block)?;
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
        let exactly = |class: &u32| size_of_class(*class) == block.capacity;
        let shelf = class_of(block.capacity).filter(exactly).or_else(|| shelf_of_long(block.capacity));
        if dress > 0 || inner.has_modes() {
            return Object::new(self, entry, shelf, len as usize, owned).claimed_in_modes(dress > 0);
        }
        Ok(Object::new(self, entry, shelf, len as usize, owned))
    }
}

impl Drop for Object<'_> {
    #[inline]
    fn drop(&mut self) {
        // Not ours: a forked child's copy. Damaged: nothing to be done here.
        if let Err(error) = self.give_back() {
            self.dropped_badly(error);
        }
    }
}

impl Deref for Object<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the tag says that it is this process's, and this is the process's one handle; `len` is at most the
        // capacity, all of which has pages.
        unsafe { core::slice::from_raw_parts(self.entry.data.as_ptr(), self.len) }
    }
}

impl DerefMut for Object<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let data: NonNull<u8> = self.entry.data;
        // SAFETY: as above, and borrowed for us alone.
        unsafe { core::slice::from_raw_parts_mut(data.as_ptr(), self.len) }
    }
}

impl core::fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Object").field("len", &self.len).field("capacity", &self.entry.capacity).finish()
    }
}
