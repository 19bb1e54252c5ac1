//! Objects as addresses, for bindings to languages that have no handles.
//!
//! An address is looked up in the table of spans: the span says of what size its objects are, so where they begin; the tag says
//! whose it is.

use core::ptr::NonNull;

use super::error::PoolError;
use super::layout::{Heap, INDEX_BITS, ObjectRef};
use super::object::{IN_MODES, Object, WITH_DRESS, shelf_of};
use super::poison::Note;
use super::pool::{Inner, Pool, open_pool_at};
use super::redzone::DRESS;
use super::spans::{SPAN, Use};
use super::tag::Tag;
use crate::segment::Segment;
use crate::shim::Ordering;

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
        // A dressed one's length stands there already. Not a forked child's: that would be its parent's note.
        if !self.is_dressed() && self.check_owned().is_ok() {
            // Relaxed: this process's own. Died just after: owned(P), with a length that nobody asks for.
            self.entry().record().note.store(Note::Length(self.len() as u32).encode(), Ordering::Relaxed);
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
        let block = inner.object_at(data)?;
        let seen = inner.file.record(&block)?.tag.load(Ordering::Relaxed);
        match Tag::decode(seen) {
            Tag::Owned(id) if id == process => {}
            Tag::Free | Tag::Cached(_) | Tag::Held(_) => return Err(PoolError::Freed),
            Tag::Damaged | Tag::Queued { .. } => return Err(inner.file.segment.damaged("an object's tag").into()),
            Tag::Owned(_) | Tag::Offered { .. } | Tag::Shared(_) => return Err(PoolError::NotOurs),
        }
        // Once more, now that nobody takes its span apart.
        let block = inner.object_at(data)?;
        let entry = inner.entry(&block)?;
        let capacity = entry.capacity as usize;
        let mut flags = if inner.has_modes() { IN_MODES } else { 0 };
        let len = match Note::decode(entry.record().note.load(Ordering::Relaxed)) {
            Note::Dressed(len) if len as usize + DRESS <= capacity => {
                flags = IN_MODES | WITH_DRESS;
                len as usize
            }
            Note::Length(len) => (len as usize).min(capacity),
            _ => capacity,
        };
        Ok(Object::new(inner, entry, shelf_of(block.capacity), len, seen).flagged(flags))
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

impl Heap {
    /// The object that begins at that offset just now.
    fn object_at(&self, segment: &Segment, offset: u64) -> Option<ObjectRef> {
        let within = offset.checked_sub(self.span_offset(0))?;
        let index = u32::try_from(within / SPAN).ok().filter(|&index| index < self.spans)?;
        let at = match self.span(segment, index).ok()?.what() {
            Use::Class(class) => u32::try_from(within % SPAN / self.shape.layout(class)?.size).ok()?,
            _ => 0,
        };
        // Of a run's other spans there is none.
        self.object(segment, index << INDEX_BITS | at).filter(|object| object.offset == offset)
    }
}
