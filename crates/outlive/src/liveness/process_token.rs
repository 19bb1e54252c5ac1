//! The process token: alive until the whole process has ended, whoever of its threads comes and goes.
//!
//! | state | held by | when |
//! | --- | --- | --- |
//! | none | | nobody has asked for it |
//! | main | the slot's libc mutex, by the main thread | main asked first |
//! | keeper | the second word, by a keeper thread (`sys::keeper`) | another thread asked first |
//! | both, then keeper | | main leaves early: the keeper takes the second word, then main ends |
//!
//! Main must not give up the first word before the second is held: through 0 a living process would be declared dead.
//! Killed in between, both are marked.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32 as StdAtomicU32, AtomicU64 as StdAtomicU64};

use super::claim::For;
use super::id::TokenId;
use super::registry::Registry;
use crate::Error;
use crate::shim::Ordering;
use crate::sys::{identity, keeper, process};

/// One registry's process token in this process.
pub(crate) struct Cell {
    /// The id, 0 before; of the process of that number (a forked child has inherited its parent's).
    id: StdAtomicU32,
    of: StdAtomicU64,
    claiming: Mutex<()>,
    held_by_main: AtomicBool,
}

impl Cell {
    pub(super) fn new() -> Cell {
        Cell {
            id: StdAtomicU32::new(0),
            of: StdAtomicU64::new(0),
            claiming: Mutex::new(()),
            held_by_main: AtomicBool::new(false),
        }
    }

    fn get(&self) -> Option<TokenId> {
        let id = TokenId::from_word(self.id.load(Ordering::Acquire))?;
        (Ok(self.of.load(Ordering::Relaxed)) == identity::this_process()).then_some(id)
    }
}

/// Registries whose process token main holds, for the hand-over.
static HELD_BY_MAIN: Mutex<Vec<&'static Registry>> = Mutex::new(Vec::new());

impl Registry {
    /// The process's token, if it has one; in a forked child its parent's does not count.
    pub(crate) fn process_token_if_any(&self) -> Option<TokenId> {
        self.process.get()
    }

    /// The process's token, claimed now if it has none.
    pub(crate) fn process_token(&'static self) -> Result<TokenId, Error> {
        if let Some(id) = self.process.get() {
            // Main has left and no keeper could be started; or somebody wrote over the registry.
            return if self.is_alive(id) { Ok(id) } else { Err(self.declared_dead()) };
        }
        // The thread's own first: it registers the thread's end, hence the hand-over.
        self.me()?;
        // As with malloc: a child forked from several threads, one of them in here, must not come here before exec.
        let _one = self.process.claiming.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(id) = self.process.get() {
            return Ok(id);
        }
        let number =
            identity::this_process().map_err(|errno| Error::from_errno("keep a token of", self.path(), errno))?;
        let main = process::is_main_thread();
        let id = self.claim(if main { For::ProcessByMain } else { For::ProcessByKeeper })?;
        self.process.held_by_main.store(main, Ordering::Relaxed);
        if main {
            held_by_main().push(self);
        }
        self.process.of.store(number, Ordering::Relaxed);
        // Release pairs with `get`: the number is seen with the id.
        self.process.id.store(id.as_u32(), Ordering::Release);
        Ok(id)
    }
}

fn held_by_main() -> std::sync::MutexGuard<'static, Vec<&'static Registry>> {
    HELD_BY_MAIN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Main ends, by `pthread_exit` or with the process: lets a keeper take over what main holds for the process.
pub(super) fn main_leaves() {
    for registry in held_by_main().drain(..) {
        let Some(id) = registry.process.get() else { continue };
        if !registry.process.held_by_main.swap(false, Ordering::Relaxed) {
            continue;
        }
        if let Some(slot) = registry.slot(id) {
            // Failed: the process token dies with main, which errs on the side of telling others that we are gone.
            // SAFETY: the registry is never unmapped.
            let _ = unsafe { keeper::start(&slot.keeper) };
        }
    }
}
