//! Orders about shelves: a mutex, a condition variable, and a number of items that is changed under
//! the mutex and may be looked at without it.
//!
//! A process that is told of an owner's death makes the shelf whole and notifies all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlive::sync::{
    Condvar, EmbeddedCondvar, EmbeddedMutex, LockError, Mutex, MutexGuard, Record, Woke,
};
use outlive::{Domain, Peer, WaitStrategy};

outlive::record! {
    /// What is shared.
    pub struct Board {
        mutex: EmbeddedMutex<u64>,
        delivered: EmbeddedCondvar,
        items: AtomicU64,
        supplier: AtomicU64,
    }
}

/// A shelf, opened.
pub struct Shelf {
    board: Record<Board>,
    mutex: Mutex<u64>,
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
        let (mutex, delivered) =
            (board.handle(|board| &board.mutex), board.handle(|board| &board.delivered));
        mutex.set_wait_strategy(WaitStrategy::Block);
        delivered.set_wait_strategy(WaitStrategy::Block);
        Ok(Shelf { board, mutex, delivered })
    }

    /// Takes the mutex, and repairs the shelf where the owner died.
    ///
    /// # Errors
    /// Why the mutex cannot be taken.
    pub fn lock(&self) -> Result<MutexGuard<'_, u64>, String> {
        self.mended(self.mutex.lock())
    }

    fn mended<'a>(
        &'a self,
        got: Result<MutexGuard<'a, u64>, LockError<MutexGuard<'a, u64>>>,
    ) -> Result<MutexGuard<'a, u64>, String> {
        match got {
            Ok(guard) => Ok(guard),
            Err(LockError::OwnerDied(mut guard)) => {
                guard.mark_consistent();
                self.delivered.notify_all();
                Ok(guard)
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
    pub fn put(&self, _guard: &mut MutexGuard<'_, u64>, items: u64) {
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
            guard = self.mended(self.delivered.wait(guard))?;
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
        let mut guard = self.lock()?;
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
                let holder = shelf.mutex.holder();
                Ok(holder.map_or_else(|| "nobody".to_owned(), |holder| holder.pid.to_string()))
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
