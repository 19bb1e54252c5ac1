//! Whether a process writes no more, which may be later than its token says.
//!
//! A process's token reads dead as soon as the thread that holds it has ended. Its other threads
//! may then be inside the kernel, copying into an object; this was seen for 36 ms. So what such a
//! process had is free only when
//! - no process with that pid and start time exists any more, or only its zombie; or
//! - none of its threads has the pool mapped (it has become another program by `exec`, or has
//!   almost exited); or
//! - a living process token has the same pid: `exec` again, and the new program uses the pool, too;
//!   or
//! - where pids tell nothing (another pid namespace, or the token's slot has a new owner), a second
//!   has passed since this process first saw it dead.
//!
//! Where pids do tell something, but nothing can be learned (`hidepid`, no descriptor left, no
//! `/proc`), it has not ended: what it had stays taken until that process is gone, which the kernel
//! tells every process.
//!
//! A device that it has set to work writes until the kernel closes its files, which comes after its
//! mappings are gone. For such a process the second point does not count, and ten seconds must pass
//! instead ([`Ends::have_its_devices_ended`]).

use std::cell::RefCell;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{Registry, TokenId, TokenKind};
use crate::sys::process::{self, Answer};

/// How long to wait where nothing can be asked.
const GRACE: Duration = Duration::from_secs(1);
/// The same for a process whose device may be writing.
const DEVICES_GRACE: Duration = Duration::from_secs(10);

/// How long a process that wants a place waits, with all in use, for a dead owner of one to end, or
/// for another process to finish cleaning one.
pub(crate) const LONGEST_CARE: Duration = Duration::from_secs(2);
/// How often it asks whether a dead owner has ended: no wake announces it.
pub(crate) const ASK_AGAIN: Duration = Duration::from_millis(1);

/// What is known of a process by its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Lives,
    /// It is dead, but some of its threads may not be.
    Ending,
    Ended,
}

/// Ends as they were when first asked for: `/proc` is slow, and tags are many.
pub(crate) struct Ends {
    registry: &'static Registry,
    file_id: (u64, u64),
    known: RefCell<Vec<(TokenId, End)>>,
}

/// Since when this process has seen tokens dead of which nothing can be asked; the registry by its
/// index.
static SEEN_DEAD: Mutex<Vec<(usize, TokenId, Instant)>> = Mutex::new(Vec::new());

impl Ends {
    pub(crate) fn new(registry: &'static Registry, file_id: (u64, u64)) -> Ends {
        Ends { registry, file_id, known: RefCell::default() }
    }

    pub(crate) fn of(&self, id: TokenId) -> End {
        if let Some((_, end)) = self.known.borrow().iter().find(|(known, _)| *known == id) {
            return *end;
        }
        let end = if self.registry.is_alive(id) { End::Lives } else { self.of_dead(id) };
        self.known.borrow_mut().push((id, end));
        end
    }

    /// Returns whether the process has ended. For a living one it costs one load.
    pub(crate) fn has_ended(&self, id: TokenId) -> bool {
        !self.registry.is_alive(id) && self.of(id) == End::Ended
    }

    /// Returns whether the process, which had a device write for it, and its device have ended.
    pub(crate) fn have_its_devices_ended(&self, id: TokenId) -> bool {
        self.has_ended(id)
            && (self.numbers(id).is_some_and(|(pid, started)| {
                process::ask_process(pid, started) == Answer::Gone
                    || self.has_become_another(id, pid)
            }) || self.dead_for(id) >= DEVICES_GRACE)
    }

    /// Returns pid and start time (0: not known), where those tell something.
    fn numbers(&self, id: TokenId) -> Option<(u32, u64)> {
        let info = self.registry.info(id.slot()).filter(|info| info.id == id)?;
        info.same_namespace.then_some((info.pid, info.start_time))
    }

    fn of_dead(&self, id: TokenId) -> End {
        let Some((pid, started)) = self.numbers(id) else {
            return if self.dead_for(id) >= GRACE { End::Ended } else { End::Ending };
        };
        let over = process::ask_process(pid, started) == Answer::Gone
            || process::has_mapped(pid, self.file_id) == Some(false)
            || self.has_become_another(id, pid);
        if over { End::Ended } else { End::Ending }
    }

    /// Returns whether a process with that pid uses the domain by another token: the same process,
    /// which has become another program, or a later one. A process has one such token as long as it
    /// is one program.
    fn has_become_another(&self, id: TokenId, pid: u32) -> bool {
        (0..self.registry.slots()).filter_map(|slot| self.registry.info(slot)).any(|info| {
            info.alive
                && info.kind == TokenKind::Process
                && info.id != id
                && info.pid == pid
                && info.same_namespace
        })
    }

    /// Returns how long ago this process first saw it dead.
    fn dead_for(&self, id: TokenId) -> Duration {
        let mut seen = SEEN_DEAD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let index = self.registry.index;
        match seen.iter().find(|(registry, known, _)| (*registry, *known) == (index, id)) {
            Some((.., since)) => since.elapsed(),
            None => {
                // Long over: the next to ask starts anew.
                seen.retain(|(.., since)| since.elapsed() < GRACE * 60);
                seen.push((index, id, Instant::now()));
                Duration::ZERO
            }
        }
    }
}
