//! A pool's garbage collection: what dead processes had, what lies in caches, and giving memory
//! back.
//!
//! | found | is |
//! | --- | --- |
//! | held(dead thread) | freed |
//! | owned or cached(P), P has ended | freed |
//! | owned or cached(P), P's token is dead, P may still write | left for the next time |
//! | offered to a dead process | freed |
//! | shared, and all holders have ended | freed |
//! | a row of the holder table that no sharing uses, a cell of a process that has ended | to be used again |
//!
//! Each step is a compare-exchange from the value that was seen: any number of processes may
//! collect at once, and one that dies has done part of it.

use std::cell::Cell;

use super::cache::Cache;
use super::error::PoolError;
use super::file::File;
use super::heap::{Collected, HeapHost, Message, Tag};
use super::inner::Inner;
use super::pool::Pool;
use crate::Error;
use crate::liveness::{End, Ends, Me, Registry};
use crate::segment::Segment;
use crate::shim::Ordering;

/// The result of [`Pool::gc`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trimmed {
    /// Objects of dead processes that are free now.
    pub objects: u64,
    /// Bytes of memory that the system has back, less what other processes took meanwhile.
    pub bytes: u64,
}

impl Pool {
    /// Empties the calling thread's cache, and asks all threads of all processes to empty theirs.
    /// Each does so when it next finds nothing in its cache.
    ///
    /// # If a process dies
    /// If this process dies during the call, its cache is free once it has ended.
    pub fn flush(&self) {
        self.inner.file.header().flushes.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the reference ends with this statement, before other code can ask for the cache.
        if let Some(cache) = unsafe { Cache::find(&self.inner) } {
            cache.heed_flushes();
        }
    }

    /// Gives all memory back to the system that no object in use needs.
    ///
    /// It calls [`Pool::flush`], frees what dead processes had, and gives back each 2 MiB in which
    /// all objects are free. Addresses of objects in use stay what they are. A process that needs
    /// that memory again gets it from the system anew, which costs a page fault for each 4 KiB
    /// that it touches.
    ///
    /// # Errors
    /// [`PoolError::System`].
    ///
    /// # If a process dies
    /// If this process dies during the call, some of it is done, and the next call does the rest.
    pub fn gc(&self) -> Result<Trimmed, PoolError> {
        let inner = &self.inner;
        let me = inner.registry.me()?;
        self.flush();
        let before = inner.file.segment.facts()?.allocated;
        let found = inner.collect(me, false)?;
        inner.file.heap.reclaim(&inner.file.segment, me, &inner.file)?;
        let after = inner.file.segment.facts()?.allocated;
        Ok(Trimmed {
            objects: u64::from(found.held + found.orphaned),
            bytes: before.saturating_sub(after),
        })
    }
}

impl Inner {
    /// Frees what dead processes had.
    pub(super) fn collect(&self, me: Me, dry_run: bool) -> Result<Collected, Error> {
        collect(&self.file, self.registry, self.file_id, me, dry_run).map(|(found, ..)| found)
    }
}

/// Also returns how many cells of holders had dead names, and whether names remain of dead
/// processes that may still be writing or reading.
fn collect(
    file: &File,
    registry: &'static Registry,
    file_id: (u64, u64),
    me: Me,
    dry_run: bool,
) -> Result<(Collected, u32, bool), Error> {
    let ends = Ends::new(registry, file_id);
    let ending = Cell::new(false);
    let mut found = file.heap.collect(&file.segment, me, dry_run, &|tag| match tag {
        Tag::Owned(process) | Tag::Cached(process) => match ends.of(process) {
            End::Lives => Message::There,
            End::Ended => Message::Gone,
            End::Ending => {
                ending.set(true);
                Message::BeingTaken
            }
        },
        // The dead process never had the object, so it is not writing there.
        Tag::Offered { to: Some(to), .. } if ends.of(to) != End::Lives => Message::Gone,
        _ => Message::There,
    })?;
    let shared = file.collect_shared(&ends, dry_run)?;
    found.orphaned += shared.objects;
    if !dry_run && found.count() > 0 {
        file.freed();
    }
    Ok((found, shared.names, ending.get() || shared.names_left))
}

/// What a sweep of a pool found.
pub(crate) struct Swept {
    /// Cells that named dead processes as holders of living objects.
    pub(crate) claims: u32,
    /// Objects, and spans, of dead processes.
    pub(crate) objects: u32,
    /// Whether names of dead processes remain.
    pub(crate) names_left: bool,
    /// Bytes that the system has back.
    pub(crate) bytes: u64,
}

/// Removes the names of dead processes from a pool, and gives back what no process needs.
pub(crate) fn sweep(segment: Segment, me: Me, dry_run: bool) -> Result<Swept, Error> {
    let file = File::new(segment)?;
    let facts = file.segment.facts()?;
    let (found, names, names_left) = collect(&file, me.registry, facts.identity(), me, dry_run)?;
    let mut bytes = 0;
    if !dry_run {
        file.heap.reclaim(&file.segment, me, &file)?;
        bytes = facts.allocated.saturating_sub(file.segment.facts()?.allocated);
    }
    file.heap.expect_whole(&file.segment)?;
    Ok(Swept { claims: names, objects: found.count(), names_left, bytes })
}
