//! Orders about shelves: a mutex, a condition variable, and a number of items that is changed under
//! the mutex and may be looked at without it.
//!
//! A process that is told of an owner's death makes the shelf whole and notifies all.
//!
//! What a shelf's name begins with says which mutex it is: `pi`, `ceiling`, `reentrant` (which is
//! locked twice), else a plain one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlive::sync::{
    CeilingMutex, CeilingMutexGuard, Condvar, EmbeddedCeilingMutex, EmbeddedCondvar, EmbeddedMutex,
    EmbeddedPiMutex, EmbeddedReentrantMutex, LockError, Mutex, MutexGuard, PiMutex, PiMutexGuard,
    Record, ReentrantMutex, ReentrantMutexGuard, Woke,
};
use outlive::{Deadline, Domain, Peer, WaitStrategy};

use super::realtime::{libcs_holder, pid_of};

outlive::record! {
    /// What is shared.
    pub struct Board {
        mutex: EmbeddedMutex<u64>,
        pi: EmbeddedPiMutex<u64>,
        ceiling: EmbeddedCeilingMutex<u64, 10>,
        reentrant: EmbeddedReentrantMutex<u64>,
        delivered: EmbeddedCondvar,
        items: AtomicU64,
        supplier: AtomicU64,
    }
}

/// The mutex of a shelf.
enum AnyMutex {
    Plain(Mutex<u64>),
    Pi(PiMutex<u64>),
    Ceiling(CeilingMutex<u64>),
    Reentrant(ReentrantMutex<u64>),
}

/// Its guard; of a reentrant one the second, and the first, which is dropped after it.
pub enum Held<'a> {
    /// Of a plain mutex.
    Plain(MutexGuard<'a, u64>),
    /// With priority inheritance.
    Pi(PiMutexGuard<'a, u64>),
    /// With a ceiling.
    Ceiling(CeilingMutexGuard<'a, u64>),
    /// Of one that is locked twice.
    Reentrant(ReentrantMutexGuard<'a, u64>, Option<ReentrantMutexGuard<'a, u64>>),
}

/// A guard that says that what it guards is whole again.
trait Mends {
    fn mark_consistent(&mut self);
}

macro_rules! mends {
    ($($guard:ident),*) => { $(
        impl Mends for $guard<'_, u64> {
            fn mark_consistent(&mut self) {
                $guard::mark_consistent(self);
            }
        }
    )* };
}
mends!(MutexGuard, PiMutexGuard, CeilingMutexGuard, ReentrantMutexGuard);

/// A shelf, opened.
pub struct Shelf {
    board: Record<Board>,
    mutex: AnyMutex,
    /// Where takers wait.
    pub delivered: Condvar,
}

impl Shelf {
    /// Opens the shelf of that name, or makes it.
    ///
    /// # Errors
    /// What opening reports, as text.
    pub fn open(domain: &Domain, name: &str) -> Result<Shelf, String> {
        let board =
            Record::<Board>::open_or_create(domain, name).map_err(|error| error.to_string())?;
        let delivered = board.handle(|board| &board.delivered);
        let mutex = if name.starts_with("pi") {
            AnyMutex::Pi(board.handle(|board| &board.pi))
        } else if name.starts_with("ceiling") {
            AnyMutex::Ceiling(board.handle(|board| &board.ceiling))
        } else if name.starts_with("reentrant") {
            AnyMutex::Reentrant(board.handle(|board| &board.reentrant))
        } else {
            let mutex = board.handle(|board| &board.mutex);
            mutex.set_wait_strategy(WaitStrategy::Block);
            AnyMutex::Plain(mutex)
        };
        delivered.set_wait_strategy(WaitStrategy::Block);
        Ok(Shelf { board, mutex, delivered })
    }

    /// Takes the mutex, and repairs the shelf where the owner died.
    ///
    /// # Errors
    /// Why the mutex cannot be taken.
    pub fn lock(&self) -> Result<Held<'_>, String> {
        match &self.mutex {
            AnyMutex::Plain(mutex) => self.mended(mutex.lock(), Held::Plain),
            AnyMutex::Pi(mutex) => self.mended(mutex.lock(), Held::Pi),
            AnyMutex::Ceiling(mutex) => self.mended(mutex.lock(), Held::Ceiling),
            AnyMutex::Reentrant(mutex) => {
                let outer = self.mended(mutex.lock(), |outer| Held::Reentrant(outer, None))?;
                let Held::Reentrant(outer, _) = outer else { return Ok(outer) };
                let inner = mutex.lock().map_err(|error| error.to_string())?;
                Ok(Held::Reentrant(inner, Some(outer)))
            }
        }
    }

    /// Waits for a notification, and repairs the shelf where the owner died.
    fn wait<'a>(&'a self, held: Held<'a>) -> Result<Held<'a>, String> {
        match held {
            Held::Plain(guard) => self.mended(self.delivered.wait(guard), Held::Plain),
            Held::Pi(guard) => self.mended(self.delivered.wait(guard), Held::Pi),
            Held::Ceiling(guard) => self.mended(self.delivered.wait(guard), Held::Ceiling),
            Held::Reentrant(inner, outer) => {
                // SAFETY: nothing uses what the guards give, and after an error the process ends.
                let waited =
                    unsafe { self.delivered.wait_with_outer_guards(inner, Deadline::NEVER) };
                let waited = waited.map(|(inner, _)| inner);
                let held = self.mended(waited, |inner| Held::Reentrant(inner, outer))?;
                match &self.mutex {
                    AnyMutex::Reentrant(mutex) if mutex.depth() != 2 => {
                        Err(format!("{} levels after a wait, not 2", mutex.depth()))
                    }
                    _ => Ok(held),
                }
            }
        }
    }

    fn mended<'a, G: Mends>(
        &'a self,
        got: Result<G, LockError<G>>,
        held: impl FnOnce(G) -> Held<'a>,
    ) -> Result<Held<'a>, String> {
        match got {
            Ok(guard) => Ok(held(guard)),
            Err(LockError::OwnerDied(mut guard)) => {
                guard.mark_consistent();
                self.delivered.notify_all();
                Ok(held(guard))
            }
            Err(other) => Err(other.to_string()),
        }
    }

    /// How many items are there, asked without the mutex.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.board.items.load(Ordering::SeqCst)
    }

    /// More items, under the mutex.
    pub fn put(&self, _guard: &mut Held<'_>, items: u64) {
        self.board.items.store(self.items() + items, Ordering::SeqCst);
    }

    /// More items, and then so many notifications.
    fn bring(&self, items: u64, notifications: u64) -> Result<(), String> {
        self.put(&mut self.lock()?, items);
        for _ in 0..notifications {
            self.delivered.notify_one();
        }
        Ok(())
    }

    /// Waits for an item and takes it.
    ///
    /// # Errors
    /// Why the mutex cannot be taken.
    pub fn take(&self) -> Result<(), String> {
        let mut guard = self.lock()?;
        while self.items() == 0 {
            guard = self.wait(guard)?;
        }
        self.board.items.store(self.items() - 1, Ordering::SeqCst);
        drop(guard);
        Ok(())
    }

    /// The same, until the supplier has ended: then `false`.
    ///
    /// # Errors
    /// Why the mutex cannot be taken.
    pub fn take_or_end(&self, supplier: &Peer) -> Result<bool, String> {
        let Held::Plain(mut guard) = self.lock()? else {
            return Err("a shelf of a plain mutex has watchers".to_owned());
        };
        while self.items() == 0 {
            let (again, woke) = match self.delivered.wait_or_end(guard, supplier) {
                Ok(ended) => ended,
                Err(LockError::OwnerDied(mut guard)) => {
                    guard.mark_consistent();
                    self.delivered.notify_all();
                    (guard, Woke::Notified)
                }
                Err(other) => return Err(other.to_string()),
            };
            guard = again;
            if woke == Woke::PeerEnded && self.items() == 0 {
                return Ok(false);
            }
        }
        self.board.items.store(self.items() - 1, Ordering::SeqCst);
        drop(guard);
        Ok(true)
    }

    /// Makes the calling process the one that brings.
    pub fn supply(&self) {
        self.board.supplier.store(u64::from(std::process::id()), Ordering::SeqCst);
    }

    /// The thread that brings.
    ///
    /// # Errors
    /// When it has no token.
    pub fn supplier(&self, domain: &Domain) -> Result<Peer, String> {
        let pid = self.board.supplier.load(Ordering::SeqCst);
        let tokens = domain.tokens();
        let newest =
            tokens.iter().filter(|info| u64::from(info.pid) == pid).min_by_key(|info| info.age);
        newest.map(|info| domain.peer(info.id)).ok_or_else(|| "no supplier".to_owned())
    }
}

/// The shelves that a survivor has open.
#[derive(Default)]
pub struct Shelves {
    open: BTreeMap<String, Shelf>,
}

impl Shelves {
    fn named(&mut self, domain: &Domain, name: &str) -> Result<&Shelf, String> {
        if !self.open.contains_key(name) {
            self.open.insert(name.to_owned(), Shelf::open(domain, name)?);
        }
        self.open.get(name).ok_or_else(|| "not open".to_owned())
    }

    /// Carries out an order; see the match for which there are.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        let ok = |()| String::new();
        let [verb, name, more @ ..] = order else { return Err("unknown order".to_owned()) };
        let shelf = self.named(domain, name)?;
        match (*verb, more) {
            ("open", []) => Ok(String::new()),
            ("take", []) => shelf.take().map(ok),
            ("take-or-end", []) => {
                let supplier = shelf.supplier(domain)?;
                shelf
                    .take_or_end(&supplier)
                    .map(|taken| if taken { "taken" } else { "ended" }.to_owned())
            }
            ("supply", []) => {
                domain.token().map_err(|error| error.to_string())?;
                shelf.supply();
                Ok(String::new())
            }
            // So many items, each with its notification.
            ("bring", [items]) => shelf.bring(super::number(items)?, super::number(items)?).map(ok),
            ("bring", [items, notifications]) => {
                shelf.bring(super::number(items)?, super::number(notifications)?).map(ok)
            }
            // An item and its notification, and the mutex in hand for a while after it. When a taker
            // has come, the same again for another taker, if one is left.
            ("bring-slowly", []) => {
                let mut guard = shelf.lock()?;
                shelf.put(&mut guard, 1);
                shelf.delivered.notify_one();
                std::thread::sleep(Duration::from_millis(60));
                drop(guard);
                let begun = Instant::now();
                while shelf.items() > 0 && begun.elapsed() < Duration::from_secs(3) {
                    std::thread::sleep(Duration::from_micros(200));
                }
                // Without a taker nothing is notified: what was lost must not be found by that.
                shelf.bring(1, u64::from(shelf.items() == 0))?;
                Ok(String::new())
            }
            ("holder", []) => {
                let pi_at = core::mem::offset_of!(Board, pi) as u64;
                match &shelf.mutex {
                    AnyMutex::Plain(mutex) => Ok(pid_of(mutex.holder())),
                    AnyMutex::Pi(_) => libcs_holder(domain, name, pi_at),
                    AnyMutex::Ceiling(mutex) => Ok(pid_of(mutex.holder())),
                    AnyMutex::Reentrant(mutex) => Ok(pid_of(mutex.holder())),
                }
            }
            ("items", []) => Ok(shelf.items().to_string()),
            ("notify-all", []) => {
                drop(shelf.lock()?);
                shelf.delivered.notify_all();
                Ok(String::new())
            }
            // Looks, without a lock that might tell and mend, until no more than so many items are
            // there.
            ("settle", [items]) => {
                let items: u64 = super::number(items)?;
                let begun = Instant::now();
                while shelf.items() > items {
                    if begun.elapsed() > Duration::from_secs(4) {
                        return Err(format!(
                            "{} items lie there, notified, and nobody comes",
                            shelf.items()
                        ));
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
                Ok(shelf.items().to_string())
            }
            _ => Err("unknown order".to_owned()),
        }
    }
}
