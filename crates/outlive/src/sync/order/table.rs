//! The file `.lock-order`: pairs of locks, each "a thread wanted the second while it held the
//! first". Pairs are only added.
//!
//! | cell | state | a death here |
//! | --- | --- | --- |
//! | at or behind `used` | free | |
//! | before `used` | 0: being written | it stays so, and readers pass over it: a cell lost |
//! | before `used` | READY: constant | |
//!
//! Two threads that add the same pair at one moment write it twice, which does no harm.

use crate::segment::{BODY, Segment, SharedLayout, Spec};
use crate::shim::{AtomicU32, AtomicU64, Ordering};
use crate::sys::{clock, file, process};
use crate::{Domain, Error, Kind};

const FILE: &str = ".lock-order";
/// Room for so many pairs; a domain whose locks nest in more ways leaves the rest unrecorded.
const CELLS: usize = 2048;
const NAME: usize = 80;
const READY: u32 = 1;

/// Which lock: its file, and its place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LockKey {
    pub(super) inode: u64,
    pub(super) offset: u64,
}

/// A lock as a cell holds it.
#[repr(C)]
struct Lock {
    inode: AtomicU64,
    offset: AtomicU64,
    name: [AtomicU64; NAME / 8],
}

#[repr(C)]
struct Cell {
    // The thread that claimed the cell writes it, once.
    state: AtomicU32,
    pid: AtomicU32,
    tid: AtomicU32,
    reserved: AtomicU32,
    at: AtomicU64,
    program: [AtomicU64; 2],
    held: Lock,
    wanted: Lock,
    reserved_too: [AtomicU64; 3],
}

#[repr(C)]
struct Body {
    // Written by every thread that adds a pair.
    used: AtomicU32,
    reserved: [AtomicU32; 63],
    cells: [Cell; CELLS],
}

const _: () = assert!(size_of::<Cell>() == 256);

// SAFETY: `repr(C)`, all fields are atomics: any bytes are a value, and any process may change
// them.
unsafe impl SharedLayout for Body {}

/// A lock as it was recorded.
pub(super) struct Recorded {
    pub(super) key: LockKey,
    pub(super) name: String,
}

/// A pair as it was recorded.
pub(super) struct Pair {
    pub(super) held: Recorded,
    pub(super) wanted: Recorded,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) program: String,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub(super) at: u64,
}

/// The file, mapped.
pub(super) struct Table(Segment);

impl Table {
    /// Opens the record, or makes it if it does not exist.
    pub(super) fn open(domain: &Domain) -> Result<Table, Error> {
        let bytes = BODY + size_of::<Body>() as u64;
        let spec = Spec {
            kind: Kind::LockOrder,
            type_name: String::new(),
            type_size: size_of::<Cell>() as u64,
            type_align: align_of::<Cell>() as u64,
            reserve: bytes,
            max_bytes: bytes,
            initial: bytes,
            description: None,
        };
        Table::checked(Segment::create_or_open(domain.folder(), FILE, &spec, |_| Ok(()))?)
    }

    /// Opens the record if it exists.
    pub(super) fn look(domain: &Domain) -> Result<Table, Error> {
        Table::checked(Segment::open(domain.folder(), FILE)?)
    }

    fn checked(segment: Segment) -> Result<Table, Error> {
        segment.expect(Kind::LockOrder)?;
        segment.at::<Body>(BODY)?;
        Ok(Table(segment))
    }

    /// Returns whether the record was forgotten: a new one has its name, or will have it.
    pub(super) fn is_removed(&self) -> bool {
        self.0.header().is_removed()
    }

    fn body(&self) -> Option<&Body> {
        self.0.at::<Body>(BODY).ok()
    }

    /// Adds a pair; returns false when there is no room.
    pub(super) fn append(&self, held: (LockKey, &str), wanted: (LockKey, &str)) -> bool {
        let Some(body) = self.body() else { return false };
        let claim = body.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            ((used as usize) < CELLS).then_some(used.saturating_add(1))
        });
        // Died just after: a cell that never becomes ready.
        let Some(cell) = claim.ok().and_then(|at| body.cells.get(at as usize)) else {
            return false;
        };
        cell.pid.store(process::process_id(), Ordering::Relaxed);
        cell.tid.store(process::thread_id(), Ordering::Relaxed);
        cell.at.store(clock::monotonic_nanos(), Ordering::Relaxed);
        store_text(&cell.program, &process::program_name());
        for (lock, (key, name)) in [(&cell.held, held), (&cell.wanted, wanted)] {
            lock.inode.store(key.inode, Ordering::Relaxed);
            lock.offset.store(key.offset, Ordering::Relaxed);
            store_text(&lock.name, name.as_bytes());
        }
        // Release pairs with the Acquire in `pairs`: a reader that sees READY sees the whole cell.
        // Died just before: a cell lost.
        cell.state.store(READY, Ordering::Release);
        true
    }

    /// Returns all recorded pairs.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        let Some(body) = self.body() else { return Vec::new() };
        let used = (body.used.load(Ordering::Relaxed) as usize).min(CELLS);
        let ready =
            body.cells[..used].iter().filter(|cell| cell.state.load(Ordering::Acquire) == READY);
        ready
            .map(|cell| Pair {
                held: cell.held.recorded(),
                wanted: cell.wanted.recorded(),
                pid: cell.pid.load(Ordering::Relaxed),
                tid: cell.tid.load(Ordering::Relaxed),
                program: load_text(&cell.program),
                at: cell.at.load(Ordering::Relaxed),
            })
            .collect()
    }
}

impl Lock {
    fn recorded(&self) -> Recorded {
        let (inode, offset) =
            (self.inode.load(Ordering::Relaxed), self.offset.load(Ordering::Relaxed));
        Recorded { key: LockKey { inode, offset }, name: load_text(&self.name) }
    }
}

/// Forgets everything by removing the file's name.
pub(super) fn remove(domain: &Domain) -> Result<(), Error> {
    let segment = match Segment::open(domain.folder(), FILE) {
        Ok(segment) => Some(segment),
        Err(Error::NotFound { .. }) => return Ok(()),
        // This version cannot use it, so it may go.
        Err(Error::OtherVersion { .. } | Error::Damaged { .. } | Error::NotASegment { .. }) => None,
        Err(other) => return Err(other),
    };
    file::unlink(domain.folder().fd()?, FILE)
        .map_err(|errno| Error::from_errno("remove", &domain.folder().file_path(FILE), errno))?;
    // After the name: a process that sees the mark makes a new file. Died in between: some
    // processes go on in the old file, unseen.
    if let Some(segment) = segment {
        segment.header().mark_removed();
    }
    Ok(())
}

/// Stores what fits, filled up with zeroes.
fn store_text(words: &[AtomicU64], text: &[u8]) {
    let mut bytes = text.iter().copied().take(words.len() * 8 - 1).chain(std::iter::repeat(0));
    for word in words {
        let eight = std::array::from_fn(|_| bytes.next().unwrap_or(0));
        word.store(u64::from_le_bytes(eight), Ordering::Relaxed);
    }
}

fn load_text(words: &[AtomicU64]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}
