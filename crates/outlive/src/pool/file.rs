//! The layout of a public pool's file.
//!
//! ```text
//! page 0      header of every segment
//! page 1      PoolHeader: configuration; flushes; numbers; failures
//! page 2..    hints to free objects: four lines to a class
//! page 6..    the heap's control table
//!             the holder table: rows of 512 bytes
//!             the heap's records: tag, note
//!             the heap's spans
//! ```

use core::ptr::NonNull;

use super::debug::Modes;
use super::heap::{
    BUCKETS, CLASSES, FreeHints, Heap, HeapHost, INDEX_BITS, ObjectRef, PAGE, SPAN, Shape,
};
use super::share::Holders;
use crate::Error;
use crate::segment::{BODY, MOST_RESERVED, Segment, SharedLayout};
use crate::shim::{AtomicU32, AtomicU64, Ordering, compiler_fence};

const HEADER_AT: u64 = BODY;
const HINTS_AT: u64 = HEADER_AT + 4096;
const CONTROL_AT: u64 = HINTS_AT + (CLASSES as u64 * LINES).next_multiple_of(4096);
/// Bytes of one class's hints.
const LINES: u64 = size_of::<[FreeHints; BUCKETS]>() as u64;
/// The fewest bytes of a pool: its own words, and a few pages.
pub(super) const LEAST_BYTES: u64 = 64 << 10;
/// The most bytes of a pool: with the offsets that its objects need besides, it fits into one
/// file's address space.
pub(super) const MOST_BYTES: u64 = 8 << 30;

/// Bytes of a row of the holder table, and how many rows there can be, for pools of all sizes.
pub(super) const ROW: u64 = size_of::<Holders>() as u64;
const FEWEST_ROWS: u64 = 64;
const MOST_ROWS: u64 = 1 << 18;

/// The pool's own words.
#[repr(C)]
pub(super) struct PoolHeader {
    // Written by the process that makes the pool.
    tags_at: AtomicU64,
    spans_at: AtomicU64,
    spans: AtomicU32,
    rows: AtomicU32,
    rows_at: AtomicU64,
    // Written now and then, by a process that looks for a fault; read at every allocation.
    /// See `debug/modes.rs`.
    pub(super) modes: AtomicU64,
    reserved: [AtomicU32; 6],
    // Written by `gc` and `flush`.
    /// How often all caches were asked to empty themselves.
    pub(super) flushes: AtomicU32,
    reserved_2: [AtomicU32; 15],
    // Written by threads that hand objects over, now and then.
    /// Numbers of offers that have been given out.
    pub(super) numbers: AtomicU32,
    reserved_3: [AtomicU32; 15],
    // Written by threads that share objects.
    /// How many rows of the holder table there are.
    pub(super) used_rows: AtomicU32,
    /// The row that was given back last, plus one: a hint.
    pub(super) freed_row: AtomicU32,
    /// Where to look for the next free row: a hint.
    pub(super) row_cursor: AtomicU32,
    reserved_4: [AtomicU32; 13],
    // Written by threads that find no room.
    /// By class, and at last for runs.
    pub(super) failed: [AtomicU64; CLASSES as usize + 1],
    reserved_5: [AtomicU64; 6],
    // Written by threads that give back what no hint names: runs, and what the dead had.
    /// How many became free, wrapping. See [`File::changes`].
    pub(super) frees: AtomicU32,
    reserved_6: [AtomicU32; 15],
}

const _: () = {
    assert!(core::mem::offset_of!(PoolHeader, modes) == 32);
    assert!(core::mem::offset_of!(PoolHeader, flushes) == 64);
    assert!(core::mem::offset_of!(PoolHeader, numbers) == 128);
    assert!(core::mem::offset_of!(PoolHeader, used_rows) == 192);
    assert!(core::mem::offset_of!(PoolHeader, failed) == 256);
    assert!(core::mem::offset_of!(PoolHeader, frees) == 768);
    assert!(size_of::<PoolHeader>() as u64 <= HINTS_AT - HEADER_AT);
};

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for PoolHeader {}

/// An object's record, in the table of tags.
#[repr(C)]
pub(super) struct ObjectRecord {
    /// Which process or thread has the object.
    pub(super) tag: AtomicU64,
    reserved: AtomicU32,
    /// See `debug/poison.rs`. For an offered object: the bytes that were asked for. For a shared
    /// one: the row of its holders.
    pub(super) note: AtomicU32,
}

const _: () = {
    assert!(size_of::<ObjectRecord>() as u64 == Shape::POOL.record);
    assert!(core::mem::offset_of!(ObjectRecord, note) as u64 == Shape::NOTE);
};

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for ObjectRecord {}

/// An object, as this process has it mapped.
#[derive(Clone, Copy)]
pub(super) struct ObjectPtr {
    pub(super) data: NonNull<u8>,
    pub(super) record: NonNull<ObjectRecord>,
    pub(super) reference: u32,
    /// Runs in caches have up to 16 MiB.
    pub(super) capacity: u32,
}

impl ObjectPtr {
    /// Sets the tag, from one that names this process or this thread, and that no other thread
    /// changes while they live.
    #[inline]
    pub(super) fn set(&self, tag: u64) {
        // Release: the next holder sees this one's bytes. Pairs with `Heap::take`, `claim` and
        // `collect`.
        self.record().tag.store(tag, Ordering::Release);
    }

    /// Clears what the record says of the bytes. The caller may change the tag.
    pub(super) fn forget_bytes(&self) {
        let note = &self.record().note;
        if note.load(Ordering::Relaxed) != 0 {
            note.store(0, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
        }
    }

    #[inline]
    pub(super) fn record(&self) -> &ObjectRecord {
        // SAFETY: an object's record lies in the mapping as long as the pool is open, and each
        // holder of an `ObjectPtr` keeps the pool open.
        unsafe { self.record.as_ref() }
    }
}

/// Where each part lies in the file.
pub(super) struct Plan {
    tags_at: u64,
    spans_at: u64,
    spans: u32,
    rows_at: u64,
    rows: u32,
    /// Bytes of address space.
    pub(super) end: u64,
}

impl Plan {
    pub(super) fn new(max_bytes: u64) -> Plan {
        // As much as the objects may take, half as much again for runs that do not fit into gaps,
        // and a few spans, since each class begins one.
        let wanted = (max_bytes + max_bytes / 2).div_ceil(SPAN) + 64;
        let rows = (max_bytes / 4 / ROW).clamp(FEWEST_ROWS, MOST_ROWS);
        let room = (MOST_RESERVED - (64 << 20) - MOST_ROWS * ROW) / (SPAN + Shape::POOL.tags());
        let spans = wanted.min(room) as u32;
        let rows_at = CONTROL_AT + Heap::control_bytes(spans);
        let tags_at = (rows_at + rows * ROW).next_multiple_of(4096);
        let spans_at = (tags_at + Shape::POOL.tag_bytes(spans)).next_multiple_of(SPAN);
        let end = spans_at + u64::from(spans) * SPAN;
        Plan { tags_at, spans_at, spans, rows_at, rows: rows as u32, end }
    }

    /// Bytes that exist from the beginning.
    pub(super) const INITIAL: u64 = CONTROL_AT + Heap::FIRST_CONTROL;

    pub(super) fn write(&self, segment: &Segment, modes: Modes) -> Result<(), Error> {
        let header: &PoolHeader = segment.at(HEADER_AT)?;
        header.tags_at.store(self.tags_at, Ordering::Relaxed);
        header.spans_at.store(self.spans_at, Ordering::Relaxed);
        header.spans.store(self.spans, Ordering::Relaxed);
        header.rows_at.store(self.rows_at, Ordering::Relaxed);
        header.rows.store(self.rows, Ordering::Relaxed);
        header.modes.store(1 << 32 | u64::from(modes.bits()), Ordering::Relaxed);
        Ok(())
    }
}

/// A pool's memory, as this process has it mapped.
pub(super) struct File {
    pub(super) segment: Segment,
    pub(super) heap: Heap,
    /// Where the rows of the holder table begin, and how many there can be.
    pub(super) rows_at: u64,
    pub(super) rows: u32,
    /// Spans that the file has; this process may have mapped fewer.
    pub(super) all_spans: u32,
}

impl File {
    pub(super) fn new(segment: Segment) -> Result<File, Error> {
        segment.exists(Plan::INITIAL)?;
        let header: &PoolHeader = segment.at(HEADER_AT)?;
        let tags_at = header.tags_at.load(Ordering::Relaxed);
        let spans_at = header.spans_at.load(Ordering::Relaxed);
        let spans = header.spans.load(Ordering::Relaxed);
        let rows_at = header.rows_at.load(Ordering::Relaxed);
        let rows = header.rows.load(Ordering::Relaxed);
        let sane = (1..1 << (29 - INDEX_BITS)).contains(&spans)
            && tags_at.is_multiple_of(4096)
            && spans_at.is_multiple_of(4096)
            && tags_at < 1 << 40
            && spans_at < 1 << 40
            && u64::from(rows) <= MOST_ROWS
            && rows_at.is_multiple_of(4096)
            && rows_at < 1 << 40
            && CONTROL_AT + Heap::control_bytes(spans) <= rows_at
            && rows_at + u64::from(rows) * ROW <= tags_at
            && tags_at + Shape::POOL.tag_bytes(spans) <= spans_at;
        if !sane {
            return Err(segment.damaged("the pool's configuration"));
        }
        // A process that could not map all of the file uses the spans that it has.
        let usable =
            u32::try_from(segment.mapped().saturating_sub(spans_at) / SPAN).unwrap_or(u32::MAX);
        let heap = Heap::new(Shape::POOL, CONTROL_AT, tags_at, spans_at, spans.min(usable));
        Ok(File { segment, heap, rows_at, rows, all_spans: spans })
    }

    #[inline]
    pub(super) fn header(&self) -> &PoolHeader {
        // SAFETY: `new` has found that it exists; page-aligned; all atomics; mappings do not
        // shrink.
        unsafe { &*self.segment.address(HEADER_AT).cast() }
    }

    /// Returns the hints to a class's free objects.
    pub(super) fn hints(&self, class: u32) -> &[FreeHints; BUCKETS] {
        let class = u64::from(class.min(CLASSES - 1));
        // SAFETY: before CONTROL_AT, which `new` has found to exist; all atomics; mappings do not
        // shrink.
        unsafe { &*self.segment.address(HINTS_AT + class * LINES).cast() }
    }

    /// Returns a number that changes whenever an object has become free for other threads, except
    /// by a death.
    pub(super) fn changes(&self) -> u32 {
        let lines = (0..CLASSES).flat_map(|class| self.hints(class));
        lines.fold(self.header().frees.load(Ordering::Relaxed), |sum, line| {
            sum.wrapping_add(line.freed.load(Ordering::Relaxed))
        })
    }

    /// Returns the record of an existing object.
    pub(super) fn record(&self, row: &ObjectRef) -> Result<&ObjectRecord, Error> {
        self.segment.at(row.tag_at)
    }

    /// Returns the bytes of the file that are in use, in whole pages. The control table counts at
    /// its largest size.
    pub(super) fn bytes(&self) -> Result<u64, Error> {
        let rows = (u64::from(self.used_rows()) * ROW).next_multiple_of(PAGE);
        let tables = CONTROL_AT + Heap::control_bytes(self.all_spans);
        Ok((tables + rows).saturating_add(self.heap.bytes(&self.segment)?))
    }
}

/// No thread waits for a pool's memory: so memory in other hands is not noted, and what is let go
/// of is free to threads that just found none.
impl HeapHost for File {
    fn allows(&self, more: u64) -> bool {
        self.bytes()
            .is_ok_and(|bytes| bytes.saturating_add(more) <= self.segment.header().max_bytes())
    }

    fn met_in_hand(&self) {}

    fn freed(&self) {
        self.header().frees.fetch_add(1, Ordering::Relaxed);
    }
}
