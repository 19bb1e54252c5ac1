//! Is that process really asleep?
//!
//! A hand-over to a sleeper costs some twenty times one to a process that still spins, so a figure
//! for it must be certain of what it measures: the kernel is asked for the process's state before
//! each hand-over. A priority-inheriting futex already calls a process asleep that spins, in the
//! kernel, for as long as the owner runs: so the process that waits here leaves its own core for a
//! moment before it goes on.

use super::clock;
use super::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

/// How long the looking process sleeps itself once it has seen the other asleep.
const NAP: Duration = Duration::from_micros(100);
/// How long it then spins, so that its own waking is over, and the other core has settled into
/// idling.
const SETTLE_NS: u64 = 50_000;

/// A process that is looked at.
pub struct Sleeper {
    stat: File,
}

impl Sleeper {
    /// Prepares to look at that process.
    pub fn new(pid: u32) -> Result<Self, Error> {
        let stat = File::open(format!("/proc/{pid}/stat")).map_err(|source| Error::System {
            doing: "opening a process's state in /proc",
            source,
        })?;
        Ok(Self { stat })
    }

    /// Looks, spinning, until it is asleep, sleeps and spins a little itself. The parent bounds the
    /// wait.
    pub fn wait_asleep(&self) -> Result<(), Error> {
        loop {
            let mut text = [0; 64];
            let length = self.stat.read_at(&mut text, 0).map_err(|source| Error::System {
                doing: "looking at a process's state",
                source,
            })?;
            if state(&text[..length]) == Some(b'S') {
                thread::sleep(NAP);
                clock::spin_for(SETTLE_NS);
                return Ok(());
            }
        }
    }
}

/// Returns the letter after the program's name, which is in parentheses and may hold any character
/// itself.
fn state(stat: &[u8]) -> Option<u8> {
    let name_ends = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(name_ends + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_follows_the_name() {
        assert_eq!(state(b"12 (outlive) S 1 12 12"), Some(b'S'));
        assert_eq!(state(b"12 (a) R (b) R 1 12"), Some(b'R'));
        assert_eq!(state(b"12 (outl"), None);
        assert_eq!(state(b"12 (outlive)"), None);
    }
}
