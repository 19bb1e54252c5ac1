//! The process token: alive until the whole process has ended, whichever of its threads come and
//! go.
//!
//! | state | held by | when |
//! | --- | --- | --- |
//! | none | | no thread has asked for it |
//! | main | the slot's libc mutex, by the main thread | main asked first |
//! | keeper | the second word, by a keeper thread (`sys::keeper`) | another thread asked first |
//! | both, then keeper | | main leaves early: the keeper takes the second word, then main ends |
//!
//! A keeper whose credentials are no longer the process's is replaced when a thread of the process
//! takes a token, or asks for the process's: see `sys::keeper`.
//!
//! Main must not give up the first word before the keeper holds the second: while both are 0, other
//! processes would declare a living process dead. Killed in between, both are marked.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32 as StdAtomicU32, AtomicU64 as StdAtomicU64};

use super::enroll::TokenUse;
use super::id::TokenId;
use super::registry::Registry;
use crate::Error;
use crate::shim::Ordering;
use crate::sys::keeper::{self, Keeper};
use crate::sys::{identity, process};

/// One registry's process token in this process.
pub(crate) struct Cell {
    /// The id, or 0; it belongs to the process of that number (a forked child has inherited its
    /// parent's).
    id: StdAtomicU32,
    of: StdAtomicU64,
    /// The keeper, where there is one; the lock is also held while the token is claimed.
    claiming: Mutex<Option<Keeper>>,
    held_by_main: AtomicBool,
    held_by_keeper: AtomicBool,
}

impl Cell {
    pub(super) fn new() -> Cell {
        Cell {
            id: StdAtomicU32::new(0),
            of: StdAtomicU64::new(0),
            claiming: Mutex::new(None),
            held_by_main: AtomicBool::new(false),
            held_by_keeper: AtomicBool::new(false),
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
    /// Returns the process's token, if it has one; in a forked child its parent's does not count.
    pub(crate) fn process_token_if_any(&self) -> Option<TokenId> {
        self.process.get()
    }

    /// Returns the process's token, which it claims now if it has none.
    pub(crate) fn process_token(&'static self) -> Result<TokenId, Error> {
        if let Some(id) = self.process.get() {
            // Main has left and no keeper could start; or a stray write hit the registry.
            return if self.is_alive(id) { Ok(id) } else { Err(self.declared_dead()) };
        }
        // The thread's own token first: it registers the thread's end, hence the hand-over.
        self.me()?;
        // As with malloc: a child forked from several threads, one of them in here, must not come
        // here before exec.
        let mut keeper =
            self.process.claiming.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(id) = self.process.get() {
            return Ok(id);
        }
        let number = identity::this_process()
            .map_err(|errno| Error::from_errno("keep a token of", self.path(), errno))?;
        let main = process::is_main_thread();
        let what = if main { TokenUse::ProcessByMain } else { TokenUse::ProcessByKeeper };
        let (id, started) = self.claim(what)?;
        // In a forked child the former keeper was the parent's.
        *keeper = started;
        self.process.held_by_main.store(main, Ordering::Relaxed);
        self.process.held_by_keeper.store(!main, Ordering::Relaxed);
        if main {
            held_by_main().push(self);
        }
        self.process.of.store(number, Ordering::Relaxed);
        // Release pairs with `get`: the number is seen with the id.
        self.process.id.store(id.as_u32(), Ordering::Release);
        Ok(id)
    }

    /// Replaces a keeper that still has credentials that the process has given up.
    #[cold]
    pub(crate) fn renew_keeper(&self) -> Result<(), Error> {
        // Relaxed: a thread that has just started a keeper has the keeper's credentials.
        if !self.process.held_by_keeper.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut keeper =
            self.process.claiming.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(slot) = self.process.get().and_then(|id| self.slot(id)) else { return Ok(()) };
        if keeper.as_ref().is_some_and(Keeper::is_outdated) {
            // SAFETY: `slot.keeper` lies in the registry's mapping, which is never unmapped
            // (registry.rs).
            let fresh = unsafe { keeper::start(&slot.keeper) };
            // Killed here: this process holds both, and the kernel's walk of the new keeper's list
            // marks the word.
            let fresh = fresh.map_err(|errno| {
                Error::from_errno("replace the keeper of a token in", self.path(), errno)
            })?;
            if let Some(former) = keeper.replace(fresh) {
                former.end();
            }
        }
        Ok(())
    }
}

fn held_by_main() -> std::sync::MutexGuard<'static, Vec<&'static Registry>> {
    HELD_BY_MAIN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Lets a keeper take over what main holds for the process, when main ends by `pthread_exit` or
/// with the process.
pub(super) fn main_leaves() {
    for registry in held_by_main().drain(..) {
        let Some(id) = registry.process.get() else { continue };
        if !registry.process.held_by_main.swap(false, Ordering::Relaxed) {
            continue;
        }
        if let Some(slot) = registry.slot(id) {
            // Failed: the process token dies with main, which at worst tells others too early that
            // we are gone.
            // SAFETY: `slot.keeper` lies in the registry's mapping, which is never unmapped
            // (registry.rs).
            if let Ok(started) = unsafe { keeper::start(&slot.keeper) } {
                // It never waits. If another thread has the lock just now, this keeper is not
                // replaced later.
                if let Ok(mut keeper) = registry.process.claiming.try_lock() {
                    *keeper = Some(started);
                    registry.process.held_by_keeper.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}
