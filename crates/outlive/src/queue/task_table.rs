//! The table of what processes have received and not done: its words, and which process changes
//! them (see the head of tasks.rs).

use super::Inner;
use super::layout::MOST_TASK_ENTRIES;
use crate::Error;
use crate::liveness::TokenId;
use crate::shim::{AtomicU64, Ordering};

/// One more message in a word of the table.
pub(super) const ONE: u64 = 1 << 32;

fn word(count: u64, process: TokenId) -> u64 {
    count << 32 | u64::from(process.as_u32())
}

pub(super) fn count(word: u64) -> u64 {
    word >> 32
}

pub(super) fn process(word: u64) -> Option<TokenId> {
    TokenId::from_word(word as u32)
}

/// Returns the process's entry in the table, which it makes if there is none.
pub(super) fn enter(inner: &Inner, own: TokenId) -> Result<usize, Error> {
    let table = inner.ring.tasks();
    let is_own = |entry: &AtomicU64| process(entry.load(Ordering::Relaxed)) == Some(own);
    if let Some(index) = table.iter().position(is_own) {
        return Ok(index);
    }
    for (index, entry) in table.iter().enumerate() {
        let there = entry.load(Ordering::Relaxed);
        let is_taken = process(there).is_some_and(|id| inner.registry.is_alive(id));
        // Another thread of this process may do the same and have another entry: `done` looks at
        // all of them.
        if !is_taken
            && entry
                .compare_exchange(there, word(0, own), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            return Ok(index);
        }
    }
    let (path, max) = (inner.ring.segment.path().into(), MOST_TASK_ENTRIES as u32);
    Err(Error::TooMany { what: "processes with tasks", path, max })
}

/// Takes dead processes out of the table; returns how many there were.
pub(super) fn sweep_tasks(inner: &Inner, dry_run: bool) -> u32 {
    let mut claims = 0;
    for entry in inner.ring.tasks() {
        let there = entry.load(Ordering::Acquire);
        if process(there).is_some_and(|id| !inner.registry.is_alive(id)) {
            claims += 1;
            if !dry_run {
                // From that word: a process that comes may have it by now.
                let _ = entry.compare_exchange(there, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
    claims
}
