//! Another thread's or process's token: whether its owner lives, and which it is. wake/wait_dead.rs
//! waits for its end.

use std::fmt;
use std::time::Duration;

use super::id::TokenId;
use super::registry::Registry;
use super::slot::{HOLDER, Slot};
use crate::shim::{AtomicU32, Ordering};

/// Says whether a token stands for a thread or for a whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A thread.
    Thread,
    /// A process, until its last thread has ended.
    Process,
}

/// Holds what the registry knows about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenInfo {
    /// The token.
    pub id: TokenId,
    /// Thread or process.
    pub kind: TokenKind,
    /// The process's id, in its own pid namespace.
    pub pid: u32,
    /// The thread's id, in its own pid namespace; for a process token the main thread's, or 0 if a
    /// keeper holds it.
    pub tid: u32,
    /// The program's name, at most 15 bytes.
    pub program: String,
    /// Whether the owner lives.
    pub alive: bool,
    /// When the process was started, in clock ticks since boot, by the machine's clock (not a time
    /// namespace's); with the pid it names a process for good. 0: the process could not find out
    /// when it took the token.
    pub start_time: u64,
    /// How long ago the token was claimed.
    pub age: Duration,
    /// Whether it is known to belong to the caller's pid namespace, so that `pid` means something
    /// here.
    pub same_namespace: bool,
}

/// Holds another thread's or process's token, to ask whether its owner lives and to wait for its
/// end.
///
/// Asking costs two loads of one cache line: no system call, no locked instruction. The answer is
/// right across `fork`, `exec`, the end of single threads, reuse of pids, and pid namespaces.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-peer-{}", std::process::id()));
/// let domain = outlive::Domain::open_or_create_at(&folder)?;
/// let worker = std::thread::spawn({
///     let domain = domain.clone();
///     move || domain.token()
/// });
/// let id = worker.join().unwrap()?;
/// let peer = domain.peer(id);
/// peer.wait_dead()?;
/// assert!(!peer.is_alive());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// The kernel marks the tokens of its threads about 0.15 ms after `SIGKILL`, well before a pipe or
/// a pidfd reports it. A dead token means that *that thread* (or process) writes no more by its own
/// instructions.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Peer {
    // Enough for the usual answer: both words are in one cache line, and have these values while
    // the owner lives.
    word: &'static AtomicU32,
    generation: &'static AtomicU32,
    holder: u32,
    in_use: u32,
    registry: &'static Registry,
    slot: Option<&'static Slot>,
    id: TokenId,
}

/// In place of a slot that does not exist.
static NOBODY: AtomicU32 = AtomicU32::new(0);
/// No word's holder bits ever have this value.
const NO_HOLDER: u32 = u32::MAX;

impl Peer {
    pub(crate) fn new(registry: &'static Registry, id: TokenId) -> Peer {
        let slot = registry.slot(id);
        let (word, generation) =
            slot.map_or((&NOBODY, &NOBODY), |slot| (slot.word(), slot.generation()));
        let in_use = generation.load(Ordering::Acquire);
        let holder = slot.map_or(NO_HOLDER, |slot| slot.tid.load(Ordering::Relaxed));
        // Remembered only if it is this owner's; if a keeper holds it, or it is dead already, the
        // slot is asked.
        let remembered = holder != 0 && slot.is_some_and(|slot| slot.is_alive(id));
        let holder = if remembered && generation.load(Ordering::Acquire) == in_use {
            holder
        } else {
            NO_HOLDER
        };
        Peer { word, generation, holder, in_use, registry, slot, id }
    }

    /// Returns the token.
    pub fn id(&self) -> TokenId {
        self.id
    }

    /// Returns the registry of the token.
    pub(crate) fn registry(&self) -> &'static Registry {
        self.registry
    }

    /// Returns whether the owner lives. A token that never existed reads dead.
    #[inline]
    pub fn is_alive(&self) -> bool {
        // Acquire both: a process that finds the owner dead sees what the owner had written. The
        // generation after the word: if it is still the same, the word was this owner's.
        let held = self.word.load(Ordering::Acquire) & HOLDER == self.holder;
        (held && self.generation.load(Ordering::Acquire) == self.in_use) || self.is_alive_slow()
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn is_alive_slow(&self) -> bool {
        self.slot.is_some_and(|slot| slot.is_alive(self.id))
    }

    /// Returns what the registry knows about the owner; `None` when the slot has a new owner, or
    /// none.
    pub fn info(&self) -> Option<TokenInfo> {
        self.registry.info(self.id.slot()).filter(|info| info.id == self.id)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("id", &self.id).field("alive", &self.is_alive()).finish()
    }
}

impl Registry {
    /// Returns what is known about a slot's owner, dead or alive; `None` when it never had one or
    /// is retired.
    pub(crate) fn info(&self, index: u32) -> Option<TokenInfo> {
        let slot = self.slot_at(index)?;
        let generation = slot.generation().load(Ordering::Acquire);
        if generation & 1 == 0 {
            return None;
        }
        let id = TokenId::new(index, generation >> 1);
        let mut program = Vec::with_capacity(16);
        for word in &slot.program {
            program.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        program.truncate(program.iter().position(|&b| b == 0).unwrap_or(15));
        let since = slot.since.load(Ordering::Relaxed);
        let info = TokenInfo {
            id,
            kind: if slot.is_process() { TokenKind::Process } else { TokenKind::Thread },
            pid: slot.pid.load(Ordering::Relaxed),
            tid: slot.tid.load(Ordering::Relaxed),
            program: String::from_utf8_lossy(&program).into_owned(),
            alive: slot.is_alive(id),
            start_time: slot.start_time(),
            age: Duration::from_nanos(crate::sys::clock::monotonic_nanos().saturating_sub(since)),
            same_namespace: self.is_of_my_namespace(slot),
        };
        // Has another owner written these by now?
        (slot.generation().load(Ordering::Acquire) == generation).then_some(info)
    }
}
