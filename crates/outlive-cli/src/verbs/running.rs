//! Which commands run under a lock or semaphore: a small table.
//!
//! A lock's table lies in the lock itself. The first entry is the exclusive holder's; each shared
//! holder takes one of the others before it starts its command. A semaphore's lies beside it, with
//! one entry for each permit.
//!
//! | entry | meaning | cleared by |
//! | --- | --- | --- |
//! | 0 | free | |
//! | the holder's process | it has not named its command yet: that one has no go-ahead | the holder; if it is dead, the next process that needs the entry |
//! | the command's process | it runs, or did | the holder; if it is dead, a process that has seen the command end |
//!
//! So a process that takes the lock alone, or a permit, finds every command whose holder is dead,
//! and waits for it. An entry is a process's start time and pid in one word, taken and given back
//! by compare-exchange, and its pid namespace in a second one.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::process::{self, Process};

/// A process and its pid namespace.
pub type Entry = [AtomicU64; 2];

/// What the lock guards. A Rust program may take the same lock as `RwLock<[[AtomicU64; 2]; 512]>`.
pub type Running = [[AtomicU64; 2]; 512];

/// Returns a table without a command.
pub const fn empty() -> Running {
    [const { [const { AtomicU64::new(0) }; 2] }; 512]
}

/// The exclusive holder's entry.
pub const ALONE: usize = 0;

/// Pids stay below 2^22; above it, the start time.
const START: u32 = 22;

/// A process as an entry names it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Named(u64);

impl Named {
    /// That process.
    pub fn of(pid: u32) -> Named {
        Named(process::start_time(pid).unwrap_or(0) << START | u64::from(pid))
    }

    /// Returns its pid, in its namespace.
    pub fn pid(self) -> u32 {
        (self.0 & ((1 << START) - 1)) as u32
    }

    /// Returns the process, if it is still there.
    pub fn find(self) -> io::Result<Option<Process>> {
        Process::find(self.pid(), Some(self.0 >> START))
    }
}

/// Names the process in that entry, which is this process's.
pub fn name(running: &[Entry], entry: usize, named: Named) {
    // The namespace first: a reader of the process must find its namespace. Killed in between: the
    // command has no go-ahead yet.
    running[entry][1].store(process::pid_namespace(), Ordering::Relaxed);
    running[entry][0].store(named.0, Ordering::Release);
}

/// Takes an entry for a shared holder: a free one, or one whose process is gone. `None`: all are of
/// living ones.
pub fn reserve(running: &[Entry]) -> io::Result<Option<usize>> {
    let own = Named::of(std::process::id());
    for (entry, words) in running.iter().enumerate().skip(1) {
        let seen = words[0].load(Ordering::Acquire);
        let free = seen == 0 || is_of_our_namespace(words) && Named(seen).find()?.is_none();
        if free
            && words[0].compare_exchange(seen, own.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            name(running, entry, own);
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// Returns which process an entry names, and whether its pid means anything here.
pub fn named(running: &[Entry], entry: usize) -> Option<(Named, bool)> {
    let words = &running[entry];
    let seen = words[0].load(Ordering::Acquire);
    (seen != 0).then(|| (Named(seen), is_of_our_namespace(words)))
}

/// Clears an entry, if it still names that process: the entry of one that is gone may be another
/// holder's by now.
pub fn clear(running: &[Entry], entry: usize, named: Named) {
    let _ = running[entry][0].compare_exchange(named.0, 0, Ordering::Release, Ordering::Relaxed);
}

fn is_of_our_namespace(words: &Entry) -> bool {
    words[1].load(Ordering::Relaxed) == process::pid_namespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_the_gone_are_taken_again_and_those_of_the_living_are_not() {
        let running = empty();
        let mut gone = std::process::Command::new("true").spawn().expect("started");
        let ended = Named::of(gone.id());
        gone.wait().expect("ended");
        let own = Named::of(std::process::id());
        assert_eq!(own.pid(), std::process::id());
        assert!(own.find().expect("asked").is_some());
        for entry in 1..running.len() {
            name(&running, entry, own);
        }
        assert_eq!(reserve(&running).expect("asked"), None, "all are of the living");
        name(&running, 7, ended);
        assert_eq!(reserve(&running).expect("asked"), Some(7));
        clear(&running, 7, ended);
        assert!(
            named(&running, 7).is_some_and(|(named, ours)| named == own && ours),
            "another process's by now"
        );
        clear(&running, 7, own);
        assert!(named(&running, 7).is_none());
        // A pid of another namespace says nothing here.
        name(&running, 7, ended);
        running[7][1].store(1, Ordering::Relaxed);
        assert_eq!(reserve(&running).expect("asked"), None);
    }
}
