//! What is in a pool, which process has it, and which caller took what is still held.

use super::debug::{Caller, Modes, Note, TAIL, caller_from};
use super::file::File;
use super::heap::{CLASSES, SPAN, Tag, size_of_class};
use super::pool::Pool;
use crate::Error;
use crate::claim::Holder;
use crate::liveness::Registry;
use crate::segment::Segment;
use crate::shim::Ordering;

/// What is in a pool: each figure is true of some moment, and all of one moment when no process
/// uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// By size; sizes without objects, of which none was ever missing, are left out.
    pub sizes: Vec<SizeUsage>,
    /// The sum over all sizes; its `size` is 0.
    pub sum: SizeUsage,
    /// The processes that have objects, in use, in caches or being moved, the one with most first.
    /// A shared object counts with each of its holders.
    pub holders: Vec<HolderUsage>,
    /// Bytes of objects that are handed over and not claimed yet.
    pub unclaimed: u64,
    /// Bytes that the pool takes now, its own words included.
    pub bytes: u64,
    /// The most bytes that it may take.
    pub max_bytes: u64,
    /// The debug modes that are on.
    pub modes: Modes,
}

/// Objects of one size. `used + cached + free + offered + shared + moving = total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SizeUsage {
    /// Bytes of each object. For objects above 1 MiB, whose length varies, the address space: a
    /// multiple of 2 MiB.
    pub size: u64,
    /// How many there are.
    pub total: u64,
    /// In use by a process.
    pub used: u64,
    /// In the cache of one of its threads.
    pub cached: u64,
    /// Free for any process.
    pub free: u64,
    /// Handed over and not claimed yet.
    pub offered: u64,
    /// Held by several processes, or by one that lets others join.
    pub shared: u64,
    /// Held by a thread that is taking or freeing it, or died doing so.
    pub moving: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// How many processes have some, in use or in caches, dead ones included.
    pub holders: u64,
    /// How often there was no room for one.
    pub failed: u64,
}

/// What one process has of a pool (or one thread, for what it is moving).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderUsage {
    /// The process; also a dead one, whose objects have not been collected yet.
    pub who: Holder,
    /// How many objects it has, of which `cached` lie in its threads' caches.
    pub objects: u64,
    /// How many of them lie in caches.
    pub cached: u64,
    /// Bytes of those objects.
    pub bytes: u64,
}

/// An object that a process has in use, or that is handed over and not claimed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// Its number in the pool, by which all processes name it.
    pub object: u32,
    /// The process that has it, or to which it is offered; `None`: offered to any process.
    pub who: Option<Holder>,
    /// Whether it is handed over and not claimed yet.
    pub is_offered: bool,
    /// Bytes that it takes.
    pub bytes: u64,
    /// The caller that took it out of the pool, perhaps in another process than has it now. Known
    /// for objects that were taken with [`Modes::CALLER`](super::Modes::CALLER) or
    /// [`Modes::TAG`](super::Modes::TAG), unless it was overwritten.
    pub caller: Option<Caller>,
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
            // No process frees what is damaged.
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
        // A damaged count may have any value.
        self.failed = self.failed.saturating_add(other.failed);
    }
}

impl Pool {
    /// Returns what is in the pool, after a look at all objects.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NoSpace`].
    ///
    /// # If a process dies
    /// What a dead process had counts as its own until a process collects it.
    pub fn usage(&self) -> Result<Usage, Error> {
        usage(&self.inner.file, self.inner.registry)
    }

    /// Returns all objects that are not free, nor in a cache: which process has each, and which
    /// caller took it, if the modes recorded that.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-held-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # use outlive::pool::{Modes, Pool};
    /// let pool = Pool::options().modes(Modes::CALLER).open_or_create(&domain, "frames")?;
    /// let kept = pool.alloc(100)?;
    /// let held = pool.held()?;
    /// let caller = held[0].caller.as_ref().expect("noted");
    /// assert_eq!((caller.pid, caller.len), (std::process::id(), 100));
    /// println!("{caller}");
    /// # drop(kept);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NoSpace`].
    ///
    /// # If a process dies
    /// What a dead process had is listed as its own until a process collects it.
    pub fn held(&self) -> Result<Vec<Held>, Error> {
        let (file, registry, mut all) = (&self.inner.file, self.inner.registry, Vec::new());
        file.heap.scan_all(&file.segment, &mut |_, _, object, tag| {
            let (who, is_offered) = match tag {
                Tag::Owned(id) => (Some(id), false),
                Tag::Offered { to, .. } => (to, true),
                _ => return,
            };
            let note = file.record(object).map_or(0, |record| record.note.load(Ordering::Relaxed));
            let at = object.capacity.checked_sub(TAIL as u64);
            let caller =
                at.filter(|_| matches!(Note::decode(note), Note::Redzone(_))).and_then(|at| {
                    let mut bytes = [0; TAIL];
                    // Read by way of the file: in this process's mapping it may be out of reach
                    // (`debug/guard_pages.rs`), and belong to another process by now.
                    file.segment.read(object.offset + at, &mut bytes).ok()?;
                    // If it was freed and taken meanwhile, it has none or another one, whole.
                    caller_from(&bytes, object.reference)
                });
            let who = who.map(|id| Holder::of(registry, id));
            all.push(Held {
                object: object.reference,
                who,
                is_offered,
                bytes: object.capacity,
                caller,
            });
        })?;
        Ok(all)
    }
}

pub(super) fn usage(file: &File, registry: &'static Registry) -> Result<Usage, Error> {
    let failed = |class: u32| file.header().failed[class as usize].load(Ordering::Relaxed);
    let mut small: Vec<SizeUsage> = (0..CLASSES)
        .map(|class| SizeUsage {
            size: size_of_class(class),
            failed: failed(class),
            ..SizeUsage::default()
        })
        .collect();
    let mut long: Vec<SizeUsage> = Vec::new();
    let mut held: Vec<HolderUsage> = Vec::new();
    // By size, classes first: which of `held` have been counted there.
    let mut counted: Vec<Vec<bool>> = Vec::new();
    let mut unclaimed = 0;
    file.heap.scan_all(&file.segment, &mut |class, spans, object, tag| {
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
                held.push(HolderUsage {
                    who: Holder::of(registry, id),
                    objects: 0,
                    cached: 0,
                    bytes: 0,
                });
                held.len() - 1
            });
            // What a thread moves usually belongs to its process, and is counted there.
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
    let failed_long = failed(CLASSES);
    if failed_long > 0 {
        // Whatever length they were asked for.
        long.push(SizeUsage { failed: failed_long, ..SizeUsage::default() });
    }
    let mut usage = Usage {
        unclaimed,
        bytes: file.bytes()?,
        max_bytes: file.segment.header().max_bytes(),
        modes: Modes::from_word(file.header().modes.load(Ordering::Relaxed)),
        sizes: small
            .into_iter()
            .chain(long)
            .filter(|one| one.total > 0 || one.failed > 0)
            .collect(),
        ..Usage::default()
    };
    usage.sizes.iter().for_each(|one| usage.sum.add(one));
    let has_some =
        |at: usize| counted.iter().any(|of_size| of_size.get(at).is_some_and(|&has| has));
    usage.sum.holders = (0..held.len()).filter(|&at| has_some(at)).count() as u64;
    held.sort_by_key(|one| core::cmp::Reverse(one.bytes));
    usage.holders = held;
    Ok(usage)
}

/// Returns what a pool's file says, for inspection from outside.
pub(crate) fn usage_of(segment: Segment, registry: &'static Registry) -> Result<Usage, Error> {
    usage(&File::new(segment)?, registry)
}
