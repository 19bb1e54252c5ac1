//! What every process notes, in a file beside the domain that outlives all of them.
//!
//! One entry for each *life* of a worker (a new process, or the same one after exec), written by
//! that life alone, save `seen`, which the queue's receiver writes.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap};

use super::WORKERS;

/// Senders finish; receivers go on until all of those are gone.
pub const SENDERS_FINISH: u32 = 1;
/// Every process finishes.
pub const ALL_FINISH: u32 = 2;

/// More lives than any run has. The file is sparse.
const MOST_LIVES: usize = 1 << 20;

/// One life of a worker. Its number is also the sender in its messages' stamps.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Life {
    /// The last message that it began to send.
    pub attempted: AtomicU64,
    /// The last message that was acknowledged to it.
    pub acknowledged: AtomicU64,
    /// The last of its messages that was handed to a receiver.
    pub seen: AtomicU64,
    /// Rounds of the lock that it has finished.
    pub locked: AtomicU64,
}

/// One of the workers that are there at a time.
#[repr(C, align(64))]
pub struct Post {
    /// Raised with everything that gets done.
    pub progress: AtomicU64,
    /// Which life holds it.
    pub life: AtomicU64,
}

/// The whole file.
#[repr(C)]
pub struct Pages {
    /// The processes that are to finish and leave, as [`Ledger::is_over`] says.
    pub stop: AtomicU32,
    /// The process that is inside the lock; 0 for none.
    pub inside: AtomicU32,
    /// The lives so far; the first is 1.
    pub lives: AtomicU64,
    /// Messages that came a second time, marked so.
    pub repeats: AtomicU64,
    /// Locks that were got from a dead owner.
    pub owner_deaths: AtomicU64,
    /// Times that a sender was told of its reader's death.
    pub reader_deaths: AtomicU64,
    /// Times that a receiver took the queue over.
    pub takeovers: AtomicU64,
    posts: [Post; WORKERS],
    entries: [Life; MOST_LIVES],
}

/// Maps a file of such words, which is made when it is missing, for the rest of the process's life.
///
/// # Errors
/// What opening, sizing or mapping reports.
///
/// # Safety
/// `P` is made of atomics alone, for which any bytes are valid.
pub(super) unsafe fn map<P>(file: &Path) -> io::Result<&'static P> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(file)?;
    file.set_len(size_of::<P>() as u64)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let how = MapFlags::SHARED | MapFlags::NORESERVE;
    // SAFETY: a fresh shared mapping of a file that is as long, never unmapped; any bytes are
    // valid, as the caller says.
    unsafe { Ok(&*mmap(std::ptr::null_mut(), size_of::<P>(), access, how, &file, 0)?.cast()) }
}

/// A mapping of the ledger, for the rest of the process's life.
#[derive(Clone, Copy)]
pub struct Ledger {
    pages: &'static Pages,
}

impl Ledger {
    /// Maps the ledger in `file`, which is made when it is missing.
    ///
    /// # Errors
    /// What opening, sizing or mapping reports.
    pub fn open(file: &Path) -> io::Result<Ledger> {
        // SAFETY: atomics alone.
        Ok(Ledger { pages: unsafe { map(file)? } })
    }

    /// The whole.
    #[must_use]
    pub fn pages(&self) -> &'static Pages {
        self.pages
    }

    /// A worker's post.
    #[must_use]
    pub fn post(&self, worker: usize) -> &'static Post {
        &self.pages().posts[worker % WORKERS]
    }

    /// The entry of a life; `None` for a number that was never given out.
    #[must_use]
    pub fn life(&self, number: u64) -> Option<&'static Life> {
        let lives = self.pages().lives.load(Ordering::SeqCst);
        if number == 0 || number > lives { None } else { self.pages().entries.get(number as usize) }
    }

    /// A new life's number.
    #[must_use]
    pub fn be_born(&self) -> u64 {
        self.pages().lives.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Returns whether it is time to finish: [`SENDERS_FINISH`] or [`ALL_FINISH`].
    #[must_use]
    pub fn is_over(&self, for_whom: u32) -> bool {
        self.pages().stop.load(Ordering::SeqCst) >= for_whom
    }
}
