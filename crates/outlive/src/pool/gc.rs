//! A pool's garbage collection: what the dead had, what lies in caches, and giving memory back.
//!
//! | found | is |
//! | --- | --- |
//! | held(dead thread) | free |
//! | owned or cached(P), P has ended | free |
//! | owned or cached(P), P's token is dead, P may still write | left for the next time |
//! | offered to a dead one | free |
//! | shared, and no holder has not ended | free |
//! | a row of the holder table that serves nobody, a cell of one that has ended | to be used again |
//! | a list locked by a dead thread | unlocked |
//!
//! Each by compare-exchange from what was seen: any number may do it at once, and who dies in it has done part of it.

use std::cell::Cell;

use super::cache::{Cache, magazine_of_run};
use super::demand::Spare;
use super::error::PoolError;
use super::file::File;
use super::heap::{Collected, Heap, HeapHost, Message, Tag, Use};
use super::pool::{Inner, Pool};
use crate::Error;
use crate::liveness::{End, Ends, Me, Registry};
use crate::segment::Segment;
use crate::shim::Ordering;

/// What [`Pool::gc`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trimmed {
    /// Objects of the dead that are free now.
    pub objects: u64,
    /// Bytes of memory that the system has back; less what others took meanwhile.
    pub bytes: u64,
}

impl Pool {
    /// Empties the calling thread's cache, and asks all other threads of all processes to empty theirs when they next find
    /// nothing in them.
    ///
    /// # If a process dies
    /// In here: its cache is free once it has ended.
    pub fn flush(&self) {
        self.inner.file.header().flushes.fetch_add(1, Ordering::Relaxed);
        // SAFETY: given up at once.
        if let Some(cache) = unsafe { Cache::find(&self.inner) } {
            cache.heed_flushes();
        }
    }

    /// Gives memory back to the system, except what is likely to be needed again: [`Pool::flush`]es, frees what the dead had,
    /// and takes 2 MiB apart wherever all objects in them are free, down to as many objects of each size as were out on
    /// average of the last seconds (in use, in caches, handed over; [`SizeUsage::needed`](super::SizeUsage)). Objects of more
    /// than 16 MiB go back always. Addresses stay what they are.
    ///
    /// # Errors
    /// [`PoolError::System`].
    ///
    /// # If a process dies
    /// In here: some of it is done, and the next one does the rest.
    pub fn gc(&self) -> Result<Trimmed, PoolError> {
        let inner = &self.inner;
        let me = inner.registry.me()?;
        self.flush();
        let before = inner.file.segment.facts()?.allocated;
        let found = inner.collect(me, false)?;
        inner.file.end_epoch(me);
        inner.file.trim(me)?;
        let after = inner.file.segment.facts()?.allocated;
        Ok(Trimmed { objects: u64::from(found.held + found.orphaned), bytes: before.saturating_sub(after) })
    }
}

impl Inner {
    /// Frees what the dead had.
    pub(super) fn collect(&self, me: Me, dry_run: bool) -> Result<Collected, Error> {
        collect(&self.file, self.registry, self.file_id, me, dry_run).map(|(found, ..)| found)
    }
}

/// Says besides how many cells of holders had dead names, and whether the dead are named still, by what they may be writing
/// to or reading.
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
        // It has never had it, so it is not writing there.
        Tag::Offered { to: Some(to), .. } if ends.of(to) != End::Lives => Message::Gone,
        _ => Message::There,
    })?;
    let shared = file.collect_shared(&ends, dry_run)?;
    found.orphaned += shared.objects;
    if !dry_run && found.count() > 0 {
        file.freed();
        // The dead took, and have not given back.
        file.take_stock()?;
    }
    Ok((found, shared.names, ending.get() || shared.names_left))
}

impl File {
    /// Gives back what is free, in whole spans, and more than the sliding need.
    fn trim(&self, me: Me) -> Result<(), Error> {
        let mut spare = self.spare()?;
        self.heap.trim(&self.segment, me, self, &mut spare)
    }
}

impl Heap {
    /// Frees whole spans, the last first, whose objects are all free and more than is needed, and gives their pages back.
    #[cold]
    pub(super) fn trim(&self, segment: &Segment, me: Me, host: &dyn HeapHost, spare: &mut Spare) -> Result<(), Error> {
        for index in (0..self.used_spans(segment)?).rev() {
            let (span, word) = self.scan_span(segment, me, index, host)?;
            let (magazine, objects) = match word.what() {
                Use::Class(class) => {
                    (Some(class), self.shape.layout(class).map_or(0, |layout| span.objects(word, layout)))
                }
                Use::Run(first) if first == index => {
                    (magazine_of_run(u64::from(span.spans.load(Ordering::Relaxed))), 1)
                }
                _ => continue,
            };
            if !spare.has(magazine, objects) {
                continue;
            }
            let gone = match word.what() {
                Use::Class(_) => self.reclaim_span(segment, me, index, host)?,
                _ => self.reclaim_run(segment, me, index, host)?,
            };
            if gone {
                spare.take(magazine, objects);
            }
        }
        Ok(())
    }
}

/// What a sweep of a pool found.
pub(crate) struct Swept {
    /// Lists that the dead had locked, and cells where they stood as holders of what others hold.
    pub(crate) claims: u32,
    /// Objects, and spans, of the dead.
    pub(crate) objects: u32,
    /// Whether the dead are named still.
    pub(crate) names_left: bool,
    /// Bytes that the system has back.
    pub(crate) bytes: u64,
}

/// Takes the names of the dead out of a pool, and gives back what nobody needs.
pub(crate) fn sweep(segment: Segment, me: Me, dry_run: bool) -> Result<Swept, Error> {
    let file = File::new(segment)?;
    let facts = file.segment.facts()?;
    let (found, names, names_left) = collect(&file, me.registry, facts.identity(), me, dry_run)?;
    let claims = names + file.sweep_lists(me, dry_run);
    let mut bytes = 0;
    if !dry_run {
        file.trim(me)?;
        bytes = facts.allocated.saturating_sub(file.segment.facts()?.allocated);
    }
    file.heap.expect_whole(&file.segment)?;
    Ok(Swept { claims, objects: found.count(), names_left, bytes })
}
