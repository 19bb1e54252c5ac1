//! What the checks of condition variables share: a stock of items, and processes that take them.

use outlive::Domain;
use outlive::sync::{Condvar, LockError, Mutex, MutexGuard};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};

pub const NOTHING: fn() = || {};
pub const NO_WAITV: fn() = outlive::abilities::pretend_no_futex_waitv;

/// A stock, its mutex, and the condition that tells of deliveries.
pub struct Store {
    pub stock: Mutex<u64>,
    pub delivered: Condvar,
    /// The stock, for a process that looks without the lock.
    pub seen: Board,
}

pub fn open(domain: &Domain) -> Store {
    Store {
        stock: Mutex::options(0).open_or_create(domain, "stock").expect("opens"),
        delivered: Condvar::open_or_create(domain, "delivered").expect("opens"),
        seen: Board::new(),
    }
}

impl Store {
    pub fn lock(&self) -> MutexGuard<'_, u64> {
        self.mended(self.stock.lock())
    }

    /// A process that is told of a death notifies all waiters, as the repair.
    pub fn mended<'a>(
        &'a self,
        got: Result<MutexGuard<'a, u64>, LockError<MutexGuard<'a, u64>>>,
    ) -> MutexGuard<'a, u64> {
        match got {
            Ok(guard) => guard,
            Err(LockError::OwnerDied(mut guard)) => {
                guard.mark_consistent();
                self.seen.set(0, *guard);
                self.delivered.notify_all();
                guard
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits for an item and takes it.
    pub fn take(&self) {
        let mut guard = self.lock();
        while *guard == 0 {
            guard = self.mended(self.delivered.wait(guard));
        }
        *guard -= 1;
        self.seen.set(0, *guard);
    }

    pub fn bring(&self, items: u64) {
        let mut guard = self.lock();
        *guard += items;
        self.seen.set(0, *guard);
    }

    /// Whatever was brought has been taken: by takers alone, for this does not lock.
    pub fn see_it_taken(&self) {
        wait_until("what was notified is taken", || self.seen.get(0) == 0);
    }

    /// Children that take one item each, all asleep; each adds to word 0 when it has it.
    pub fn takers(&self, board: Board, count: usize, prepare: fn()) -> Vec<Child> {
        let children: Vec<Child> = (0..count)
            .map(|_| {
                Child::start(|| {
                    prepare();
                    self.take();
                    board.add(0, 1);
                })
            })
            .collect();
        for child in &children {
            wait_asleep(child.pid());
        }
        children
    }
}
