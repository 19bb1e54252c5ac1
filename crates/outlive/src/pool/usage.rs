//! What is in a pool and who has it.

use super::cache::shelf_of_long;
use super::classes::{CLASSES, size_of_class};
use super::file::File;
use super::layout::{Heap, INDEX_BITS, ObjectRef};
use super::modes::Modes;
use super::object::{Offer, Offset};
use super::pool::Pool;
use super::spans::{SPAN, Use};
use super::tag::Tag;
use crate::Error;
use crate::claim::Holder;
use crate::liveness::Registry;
use crate::segment::Segment;
use crate::shim::Ordering;
use crate::sys::clock::coarse_millis;

/// What is in a pool: each figure is true of some moment, and all of them of one when nobody uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// By size; sizes of which there are no objects, and never was one missing, are left out.
    pub sizes: Vec<SizeUsage>,
    /// The sum of all of them; its `size` is 0.
    pub sum: SizeUsage,
    /// Who has objects, in use, in caches or in the middle of something; who has most comes first. What is shared counts
    /// with each of its holders.
    pub holders: Vec<HolderUsage>,
    /// Bytes of objects that are handed over and not claimed yet.
    pub unclaimed: u64,
    /// Bytes that the pool has taken, its own words included.
    pub bytes: u64,
    /// The most that it may take.
    pub max_bytes: u64,
    /// The debug modes that are on.
    pub modes: Modes,
}

/// Objects of one size. `used + cached + free + offered + shared + moving = total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SizeUsage {
    /// Bytes of each; of those above 1 MiB, which are as long as need be, the address space: a multiple of 2 MiB.
    pub size: u64,
    /// How many there are.
    pub total: u64,
    /// In use by a process.
    pub used: u64,
    /// In the cache of one of its threads.
    pub cached: u64,
    /// Nobody's.
    pub free: u64,
    /// Handed over and not claimed yet.
    pub offered: u64,
    /// Held by several processes, or one that lets others join.
    pub shared: u64,
    /// In the hands of a thread that takes or frees just now, or died doing so.
    pub moving: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// How many processes have some, in use or in caches; the dead, too.
    pub holders: u64,
    /// How many were not free on average of the last seconds, rounded up: what `gc` keeps. Of those above 16 MiB, none.
    pub needed: u64,
    /// How often there was no room for one.
    pub failed: u64,
}

/// What one process (or a thread, of what it is moving) has of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderUsage {
    /// Who it is; the dead, too, whose objects have not been collected yet.
    pub who: Holder,
    /// How many objects, of which `cached` lie in its threads' caches.
    pub objects: u64,
    /// See `objects`.
    pub cached: u64,
    /// Bytes of them.
    pub bytes: u64,
}

impl SizeUsage {
    fn count(&mut self, tag: Tag, bytes: u64) {
        self.total += 1;
        self.bytes += bytes;
        match tag {
            Tag::Free => self.free += 1,
            Tag::Cached(_) => self.cached += 1,
            Tag::Offered { .. } => self.offered += 1,
            Tag::Shared(_) => self.shared += 1,
            Tag::Held(_) => self.moving += 1,
            // Nobody frees what is damaged.
            Tag::Owned(_) | Tag::Queued { .. } | Tag::Damaged => self.used += 1,
        }
    }

    fn add(&mut self, other: &SizeUsage) {
        self.total += other.total;
        self.used += other.used;
        self.cached += other.cached;
        self.free += other.free;
        self.offered += other.offered;
        self.shared += other.shared;
        self.moving += other.moving;
        self.bytes += other.bytes;
        self.needed += other.needed;
        // Damaged, it may be anything.
        self.failed = self.failed.saturating_add(other.failed);
    }
}

impl Pool {
    /// Looks at all objects.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NoSpace`].
    ///
    /// # If a process dies
    /// What it had is counted as its, until somebody collects it.
    pub fn usage(&self) -> Result<Usage, Error> {
        usage(&self.inner.file, self.inner.registry)
    }
}

impl Pool {
    /// All objects that are handed over and not claimed yet: what nobody means to claim any more, since whoever had its
    /// offset died, may be claimed here and freed.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NoSpace`].
    ///
    /// # If a process dies
    /// What was offered to it is not listed any more once somebody has collected it.
    pub fn offers(&self) -> Result<Vec<Offer>, Error> {
        let (file, mut offers) = (&self.inner.file, Vec::new());
        file.heap.look_at_all(&file.segment, &mut |_, _, object, tag| {
            if let Tag::Offered { to, number } = tag {
                offers.push(Offer { offset: Offset::new(object.reference, number), to, bytes: object.capacity });
            }
        })?;
        Ok(offers)
    }
}

pub(super) fn usage(file: &File, registry: &'static Registry) -> Result<Usage, Error> {
    let failed = |class: u32| file.head().failed[class as usize].load(Ordering::Relaxed);
    let mut small: Vec<SizeUsage> = (0..CLASSES)
        .map(|class| SizeUsage { size: size_of_class(class), failed: failed(class), ..SizeUsage::default() })
        .collect();
    let mut long: Vec<SizeUsage> = Vec::new();
    let mut held: Vec<HolderUsage> = Vec::new();
    // By size, classes first: which of `held` have been counted there.
    let mut counted: Vec<Vec<bool>> = Vec::new();
    let mut unclaimed = 0;
    file.heap.look_at_all(&file.segment, &mut |class, spans, object, tag| {
        let (row, size) = match class {
            Some(class) => (class as usize, small.get_mut(class as usize)),
            None => {
                let size = u64::from(spans) * SPAN;
                let at = long.iter().position(|one| one.size == size).unwrap_or_else(|| {
                    long.push(SizeUsage { size, ..SizeUsage::default() });
                    long.len() - 1
                });
                (CLASSES as usize + at, long.get_mut(at))
            }
        };
        let Some(size) = size else { return };
        size.count(tag, object.capacity);
        let one = match tag {
            Tag::Owned(id) | Tag::Cached(id) | Tag::Held(id) => Some(id),
            _ => None,
        };
        for id in one.into_iter().chain(file.holders_of(object, tag)) {
            let at = held.iter().position(|one| one.who.token == id).unwrap_or_else(|| {
                held.push(HolderUsage { who: Holder::of(registry, id), objects: 0, cached: 0, bytes: 0 });
                held.len() - 1
            });
            // What a thread moves is as a rule its process's, and counted there.
            if !matches!(tag, Tag::Held(_)) {
                counted.resize_with(counted.len().max(row + 1), Vec::new);
                let of_size = &mut counted[row];
                of_size.resize(of_size.len().max(at + 1), false);
                size.holders += u64::from(!core::mem::replace(&mut of_size[at], true));
            }
            held[at].objects += 1;
            held[at].cached += u64::from(matches!(tag, Tag::Cached(_)));
            held[at].bytes += object.capacity;
        }
        if let Tag::Offered { .. } = tag {
            unclaimed += object.capacity;
        }
    })?;
    long.sort_unstable_by_key(|one| one.size);
    let now = coarse_millis();
    let needed = |shelf: u32, one: &SizeUsage| {
        let out = u32::try_from(one.total - one.free).unwrap_or(u32::MAX);
        file.head().needed.get(shelf as usize).map_or(0, |need| u64::from(need.objects(now, out)))
    };
    (0..).zip(&mut small).for_each(|(class, one)| one.needed = needed(class, one));
    for one in &mut long {
        one.needed = shelf_of_long(one.size).map_or(0, |shelf| needed(shelf, one));
    }
    let failed_long = failed(CLASSES);
    if failed_long > 0 {
        // Of whatever length they were to be.
        long.push(SizeUsage { failed: failed_long, ..SizeUsage::default() });
    }
    let mut usage = Usage {
        unclaimed,
        bytes: file.bytes()?,
        max_bytes: file.segment.header().max_bytes(),
        modes: Modes::from_word(file.head().modes.load(Ordering::Relaxed)),
        sizes: small.into_iter().chain(long).filter(|one| one.total > 0 || one.failed > 0).collect(),
        ..Usage::default()
    };
    usage.sizes.iter().for_each(|one| usage.sum.add(one));
    let has_some = |at: usize| counted.iter().any(|of_size| of_size.get(at).is_some_and(|&has| has));
    usage.sum.holders = (0..held.len()).filter(|&at| has_some(at)).count() as u64;
    held.sort_by_key(|one| core::cmp::Reverse(one.bytes));
    usage.holders = held;
    Ok(usage)
}

/// What a pool's file says, to those who look at a domain from outside.
pub(crate) fn look(segment: Segment, registry: &'static Registry) -> Result<Usage, Error> {
    usage(&File::new(segment)?, registry)
}

type See<'a> = &'a mut dyn FnMut(Option<u32>, u32, &ObjectRef, Tag);

impl Heap {
    /// All objects that there are: class, or how many spans a run has; the object; its tag.
    pub(super) fn look_at_all(&self, segment: &Segment, see: See<'_>) -> Result<(), Error> {
        for index in 0..self.used_spans(segment)? {
            let span = self.span(segment, index)?;
            let word = span.word();
            let (class, objects) = match word.what() {
                Use::Class(class) => {
                    (Some(class), self.shape.layout(class).map_or(0, |layout| span.objects(word, layout)))
                }
                Use::Run(first) if first == index => (None, 1),
                _ => continue,
            };
            let spans = span.spans.load(Ordering::Relaxed);
            for at in 0..objects {
                if let Some(object) = self.object(segment, index << INDEX_BITS | at) {
                    see(class, spans, &object, self.tag_of(segment, &object)?);
                }
            }
        }
        Ok(())
    }
}
