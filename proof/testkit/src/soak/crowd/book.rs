//! What the crowd notes, in a file beside the domain that outlives all of them.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{MOST, TOPICS};
use crate::soak::ledger;

/// Every process leaves.
pub const OVER: u32 = u32::MAX;

/// More lives than any run has. The file is sparse.
const MOST_LIVES: usize = 1 << 22;

/// What one life of a publisher has done with one topic. Its number is also the sender in its
/// messages' stamps.
#[repr(C)]
#[derive(Default)]
pub struct Messages {
    /// The last message that it began to publish.
    pub attempted: AtomicU64,
    /// The last one that was acknowledged to it.
    pub acknowledged: AtomicU64,
    /// The last one that the topic's keeper has taken.
    pub kept: AtomicU64,
}

/// One of the workers that are there at a time.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Post {
    /// Raised with everything that gets done.
    pub progress: AtomicU64,
    /// Of a keeper: the phase in which it rests.
    pub rests_in: AtomicU32,
}

/// The whole file.
#[repr(C)]
pub struct Pages {
    /// Even: a round. Odd: the keepers rest. Or [`OVER`].
    pub phase: AtomicU32,
    padding: AtomicU32,
    /// The lives so far; the first is 1.
    pub lives: AtomicU64,
    /// Messages taken by passers-by.
    pub passed: AtomicU64,
    /// Values of the state set, and got.
    pub set: AtomicU64,
    /// See `set`.
    pub got: AtomicU64,
    /// Calls answered.
    pub answered: AtomicU64,
    /// Calls that ended by a server's death.
    pub died: AtomicU64,
    posts: [Post; MOST],
    messages: [[Messages; TOPICS]; MOST_LIVES],
}

/// A mapping of the book, for the rest of the process's life.
#[derive(Clone, Copy)]
pub struct Book {
    pages: &'static Pages,
}

impl Book {
    /// Maps the book in `file`, which is made when it is missing.
    ///
    /// # Errors
    /// What opening, sizing or mapping reports.
    pub fn open(file: &Path) -> io::Result<Book> {
        // SAFETY: atomics alone.
        Ok(Book { pages: unsafe { ledger::map(file)? } })
    }

    /// The whole.
    #[must_use]
    pub fn pages(&self) -> &'static Pages {
        self.pages
    }

    /// A worker's post.
    #[must_use]
    pub fn post(&self, worker: usize) -> &'static Post {
        &self.pages.posts[worker % MOST]
    }

    /// What a life has done; `None` for a number that was never given out.
    #[must_use]
    pub fn life(&self, number: u64) -> Option<&'static [Messages; TOPICS]> {
        let lives = self.pages.lives.load(Ordering::SeqCst);
        if number == 0 || number > lives { None } else { self.pages.messages.get(number as usize) }
    }

    /// A new life's number.
    #[must_use]
    pub fn be_born(&self) -> u64 {
        self.pages.lives.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The phase; see [`Pages::phase`].
    #[must_use]
    pub fn phase(&self) -> u32 {
        self.pages.phase.load(Ordering::SeqCst)
    }
}
