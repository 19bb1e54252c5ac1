//! Handing objects to other processes, one at a time (`handoff.rs`), or to several at once, here.
//! Both use the heap, what a thread's cache knows, and the debug modes, which look for faults
//! before an object leaves the process.
//!
//! A shared object is held by several processes, each by name; the last one to leave frees it.
//!
//! | tag | meaning | a death here |
//! | --- | --- | --- |
//! | owned(P) | P is about to share it, or was its last holder | free once P has ended |
//! | shared(n, j) | the processes hold it whose names are in its row with the number n | one holder less, once it has ended; free when there is none |
//!
//! `holders.rs` has the steps, and what a death after each leaves; `holder_table.rs` has the rows
//! for holders' names.

mod handoff;
mod holder_table;
mod holders;

use core::ops::Deref;
use std::sync::Arc;

use crate::claim::Holder;
use crate::liveness::Ends;
use crate::pool::error::PoolError;
use crate::pool::file::ObjectPtr;
use crate::pool::heap::{HeapHost, Sharing, Tag};
use crate::pool::inner::Inner;
use crate::pool::object::{CHECKED, Object, magazine_of};
use crate::pool::pool::Pool;
use crate::shim::Ordering;
use crate::{Error, TokenId};
pub use handoff::{Offer, Offset};
pub(in crate::pool) use holders::Holders;
use holders::{CELLS, Refused, Serves, line_of};

/// Memory from a [`Pool`] that several processes hold, to read. It names each holder, and is free
/// when the last one has dropped it, or has died.
///
/// A clone is for the same process, and costs only a count in private memory. Other processes get
/// the [`offset`](SharedObject::offset), and [`join`](Pool::join) as long as any process holds the
/// object: up to 62 at a time.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-shared-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// # use outlive::pool::{Pool, PoolError};
/// # let pool = Pool::open_or_create(&domain, "frames")?;
/// let mut frame = pool.alloc(1000)?;
/// frame.fill(7);
/// let frame = frame.share()?;
/// let offset = frame.offset();                    // to be sent to any number of processes
///
/// let theirs = pool.join(offset)?;                // in another process
/// assert!(theirs.len() == 1000 && theirs[0] == 7);
/// assert_eq!(frame.holders().len(), 2);           // here both are this process
///
/// drop(frame);
/// drop(theirs);                                   // the last one: it is free
/// assert_eq!(pool.join(offset).unwrap_err(), PoolError::Stale);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// A process that dies holds the object no longer once its last thread has ended. If it was the
/// last holder, the object is free for a process that needs memory; [`Pool::gc`],
/// [`Domain::sweep`](crate::Domain::sweep) and another holder's leaving free it at once.
#[derive(Clone)]
#[must_use = "what is dropped is held no longer"]
pub struct SharedObject<'p> {
    holding: Arc<Holding<'p>>,
}

/// One cell of the object's row.
struct Holding<'p> {
    inner: &'p Inner,
    ptr: ObjectPtr,
    len: usize,
    number: u32,
    row: u32,
    holders: &'p Holders,
    cell: usize,
    process: TokenId,
    /// The object is held no longer.
    over: bool,
}

// SAFETY: no process writes to the memory while it is held; the pool's words are atomics.
unsafe impl Send for Holding<'_> {}
// SAFETY: a shared reference only reads; no process writes to the memory while it is held.
unsafe impl Sync for Holding<'_> {}

impl<'p> Object<'p> {
    /// Turns the object into one that several processes may hold, to read; this process is the
    /// first holder.
    ///
    /// # Errors
    /// The errors of [`Object::free`], and [`PoolError::NoSpace`] when there is no room for the
    /// holders' names (half a KiB, for at most one object in each 2 KiB of `max_bytes`); the object
    /// is free then. With [`Modes::TAG`](super::Modes::TAG), [`PoolError::Fault`] when bytes behind
    /// it were overwritten: no later call checks that.
    ///
    /// # If a process dies
    /// If this process dies during the call, the object is free once the process has ended.
    pub fn share(self) -> Result<SharedObject<'p>, PoolError> {
        self.check_owned()?;
        if let Some(fault) = self.overrun() {
            self.free_checked();
            self.forget();
            return Err(PoolError::Fault(fault));
        }
        let (inner, len) = (self.inner(), self.len());
        let process = inner.registry.process_token()?;
        let (reference, record) = (self.ptr().reference, self.ptr().record());
        let number = self.next_number();
        let serves = Serves { number, reference };
        let ends = Ends::new(inner.registry, inner.file_id);
        let has_ended = |process| ends.has_ended(process);
        // A death from here to the tag: owned(P), and a row that serves no sharing.
        let entered = || -> Result<(u32, &'p Holders, usize), PoolError> {
            loop {
                let row = inner.row_for(serves)?;
                let holders = inner.file.holders(row)?;
                if let Some(cell) = holders.enter(process, number, &has_ended) {
                    return Ok((row, holders, cell));
                }
                // Full of processes that came too late for its last sharing, and are stopped: the
                // next row.
                holders.release(serves);
            }
        };
        let (row, holders, cell) = entered()?;
        // Relaxed: seen with the tag.
        record.note.store(row, Ordering::Relaxed);
        holders.note.store(len as u32, Ordering::Relaxed);
        let shared = Sharing::begin(number, line_of(cell)).word();
        // Release pairs with `join`: the bytes, and where the holders are. A death just after: a
        // dead holder.
        if record
            .tag
            .compare_exchange(self.owned(), shared, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            holders.leave_unjoined(cell, process, number);
            holders.release(serves);
            return Err(inner.file.segment.damaged("an object's tag").into());
        }
        let ptr = self.forget();
        Ok(SharedObject::new(Holding {
            inner,
            ptr,
            len,
            number,
            row,
            holders,
            cell,
            process,
            over: false,
        }))
    }
}

impl Pool {
    /// Enters this process among the holders of a shared object, by the offset that a holder has
    /// sent. It succeeds as long as that holder still holds the object.
    ///
    /// # Errors
    /// [`PoolError::Stale`] when the offset names no shared object any more,
    /// [`PoolError::TooManyHolders`],
    /// [`PoolError::System`].
    ///
    /// # If a process dies
    /// If this process dies during the call, it never was a holder; or it was one, and is not
    /// counted once it has ended.
    pub fn join(&self, offset: Offset) -> Result<SharedObject<'_>, PoolError> {
        let inner = &*self.inner;
        let (file, heap) = (&inner.file, &inner.file.heap);
        let process = inner.registry.process_token()?;
        let (reference, number) = offset.shared_parts().ok_or(PoolError::Stale)?;
        let object = heap.find_object(&file.segment, reference)?.ok_or(PoolError::Stale)?;
        let record = file.record(&object)?;
        // Acquire pairs with `share`.
        let seen = record.tag.load(Ordering::Acquire);
        if Sharing::of(seen).is_none_or(|sharing| sharing.number != number) {
            return Err(PoolError::Stale);
        }
        // Relaxed: of this sharing if the tag still is, which `holders::join` checks last.
        let row = record.note.load(Ordering::Relaxed);
        let still = || {
            Sharing::of(record.tag.load(Ordering::Acquire))
                .is_some_and(|sharing| sharing.number == number)
        };
        let damaged =
            |what| if still() { file.segment.damaged(what).into() } else { PoolError::Stale };
        let holders = file.holders(row).map_err(|_| damaged("a row of the holder table"))?;
        if holders.serves() != Some(Serves { number, reference }) {
            return Err(damaged("a row of the holder table"));
        }
        let len = holders.note.load(Ordering::Relaxed) as usize;
        let ends = Ends::new(inner.registry, inner.file_id);
        let has_ended = |process| ends.has_ended(process);
        let cell = match holders::join(&record.tag, seen, holders, number, process, &has_ended) {
            Ok(cell) => cell,
            Err(Refused::Stale) => return Err(PoolError::Stale),
            Err(Refused::Full) => return Err(PoolError::TooManyHolders { max: CELLS as u32 }),
        };
        // Its place is looked up again, now that no thread can take its span apart. A death from
        // here on: a holder, by name.
        let found =
            heap.object(&file.segment, reference).filter(|object| len as u64 <= object.capacity);
        let held =
            found.ok_or_else(|| file.segment.damaged("a shared object")).and_then(|object| {
                let ptr = inner.ptr_to(&object)?;
                Ok(Holding { inner, ptr, len, number, row, holders, cell, process, over: false })
            });
        match held {
            Ok(holding) => Ok(SharedObject::new(holding)),
            Err(error) => {
                holders.leave(cell);
                // The others may have left meanwhile, and left the object to this cell. Without a
                // handle, so it is freed as `collect` does. A death just before: shared, with no
                // holder, which `collect` finds.
                let serves = Serves { number, reference };
                if holders::free(&record.tag, 0, holders, serves, None, &has_ended) {
                    file.header().freed_row.store(row + 1, Ordering::Relaxed);
                    file.freed();
                }
                Err(error.into())
            }
        }
    }
}

impl Inner {
    /// Returns a row of the holder table; where there is no room for one, it gives up for it what
    /// the dead had and what is free.
    fn row_for(&self, serves: Serves) -> Result<u32, PoolError> {
        let file = &self.file;
        let taken = match file.take_row(serves) {
            Err(Error::NoSpace { .. }) => {
                let me = self.registry.me()?;
                self.collect(me, false)?;
                self.flush_own();
                file.heap.reclaim(&file.segment, me, file)?;
                file.take_row(serves)
            }
            other => other,
        };
        taken.map_err(|error| match error {
            Error::NoSpace { wanted, .. } => {
                PoolError::NoSpace { wanted, most: self.who_has_most().0, injected: false }
            }
            other => other.into(),
        })
    }
}

impl<'p> SharedObject<'p> {
    fn new(holding: Holding<'p>) -> SharedObject<'p> {
        SharedObject { holding: Arc::new(holding) }
    }

    /// Returns the offset by which other processes may [`join`](Pool::join), as long as this one
    /// holds the object.
    #[must_use]
    pub fn offset(&self) -> Offset {
        Offset::of_shared(self.holding.ptr.reference, self.holding.number)
    }

    /// Returns the address of its bytes.
    #[must_use]
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.holding.ptr.data.as_ptr()
    }

    /// Returns the processes that hold it, once for each time that one has joined, including dead
    /// ones that have not been collected yet.
    #[must_use]
    pub fn holders(&self) -> Vec<Holder> {
        let names = self.holding.holders.names(self.holding.number);
        names.map(|process| Holder::of(self.holding.inner.registry, process)).collect()
    }

    /// Turns the object back into this process's alone, to write, if this process is the only
    /// living holder and this is the only clone.
    ///
    /// # Errors
    /// It returns the shared object when another process holds it, too, or when it is the parent's,
    /// in a forked child.
    ///
    /// # If a process dies
    /// If this process dies during the call, the object is free once the process has ended.
    pub fn try_into_object(mut self) -> Result<Object<'p>, SharedObject<'p>> {
        let alone = Arc::get_mut(&mut self.holding).and_then(|holding| {
            let object = holding.take_alone(Some(holding.cell))?;
            holding.over = true;
            Some(object)
        });
        alone.ok_or(self)
    }
}

impl<'p> Holding<'p> {
    /// Returns whether it is this process's, not the parent's.
    fn is_own(&self) -> bool {
        self.inner.registry.process_token_if_any() == Some(self.process)
    }

    /// Returns the object as this process's alone, if no process holds it by another cell than
    /// `besides`.
    fn take_alone(&self, besides: Option<usize>) -> Option<Object<'p>> {
        if !self.is_own() {
            return None;
        }
        let inner = self.inner;
        let ends = Ends::new(inner.registry, inner.file_id);
        let has_ended = |process| ends.has_ended(process);
        let owned = Tag::Owned(self.process).encode();
        let serves = Serves { number: self.number, reference: self.ptr.reference };
        let tag = &self.ptr.record().tag;
        // A death just after: owned(P).
        holders::free(tag, owned, self.holders, serves, besides, &has_ended).then(|| {
            // Relaxed: a hint.
            inner.file.header().freed_row.store(self.row + 1, Ordering::Relaxed);
            let object = Object::new(
                self.inner,
                self.ptr,
                magazine_of(u64::from(self.ptr.capacity)),
                self.len,
                owned,
            );
            if inner.now().modes.is_none() { object } else { object.flagged(CHECKED) }
        })
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        if self.over || !self.is_own() {
            return;
        }
        self.holders.leave(self.cell);
        // The last holder frees it, as an object of its own.
        drop(self.take_alone(None));
    }
}

impl Deref for SharedObject<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let Holding { ptr, len, .. } = &*self.holding;
        // SAFETY: no process writes to it as long as this process is among the holders; `len` is at
        // most the capacity, all of which has pages.
        unsafe { core::slice::from_raw_parts(ptr.data.as_ptr(), *len) }
    }
}

impl core::fmt::Debug for SharedObject<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SharedObject")
            .field("len", &self.holding.len)
            .field("offset", &self.offset())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::heap::World;

    /// The only other holder leaves while a process joins, which then finds that it cannot use the
    /// object.
    #[test]
    fn what_a_failed_join_is_left_with_is_free() {
        let world = World::new("failed-join", 1);
        let pool = Pool::open_or_create(&world.domain, "objects").expect("made");
        let shared = pool.alloc(1000).expect("room").share().expect("room");
        let Holding { holders, cell, ref ptr, .. } = *shared.holding;
        // Its length is damaged, and the process finds that when it has joined.
        holders.note.store(u32::MAX, Ordering::Relaxed);
        // The other holder's first step; its second one would find a process that has joined.
        holders.leave(cell);
        assert!(matches!(
            pool.join(shared.offset()),
            Err(PoolError::System(Error::Damaged { .. }))
        ));
        assert_eq!(Tag::decode(ptr.record().tag.load(Ordering::Relaxed)), Tag::Free);
        assert_eq!(holders.serves(), None);
    }
}
