//! Locks and other primitives that survive their holders (layer 5).
//!
//! Each is a named thing in a domain, or a field of a user's own struct, a [`Record`]. Each verb
//! that waits has four forms: `verb` waits for ever, `try_verb` never waits, `verb_timeout` waits
//! for a span, `verb_until` until a [`Deadline`](crate::Deadline). The waits of a [`Condvar`] have
//! no `try_verb`.
//!
//! | | for | when a process dies |
//! | --- | --- | --- |
//! | [`Mutex`] | one holder at a time | holding it, or panics there: each next locker gets `OwnerDied` until one repairs |
//! | [`ReentrantMutex`] | a mutex that its holder may lock again | as with `Mutex`, however often it was locked |
//! | [`RwLock`] | many readers, or one writer | reading: nothing; writing: the next locker is told |
//! | [`Condvar`] | waiting under a mutex of any kind for a condition | waiting: its notification goes to another waiter |
//! | [`Semaphore`] | limiting the number of users, or counting things | its permits become free |
//! | [`Event`], [`Latch`] | waiting for bits; waiting for a number of arrivals | what it set stays set |
//! | [`OnceLock`] | a value that the first caller makes | making it: the next caller makes it, and is told |
//! | [`Barrier`] | phases that begin when all participants have arrived | the barrier breaks, or goes on without it |
//! | [`PiMutex`] | one holder at a time, under real-time policies; the holder inherits its waiters' priority | as with `Mutex` |
//! | [`CeilingMutex`] | one holder at a time, which runs at a fixed priority | as with `Mutex` |
//!
//! `raw/` holds the state machines and their shared words; the file of the same name here holds
//! what users see of each.

mod attributes;
mod barrier;
mod ceiling_mutex;
mod condvar;
mod embedded;
mod error;
mod event;
mod guard;
mod lock;
mod mapped;
mod mutex;
mod once_lock;
mod order;
mod owned;
mod permits;
mod pi_mutex;
mod primitive;
mod raw;
mod raw_lock;
mod readiness;
mod reentrant_mutex;
mod rw_lock;
mod seat;
mod semaphore;
mod untyped;
mod upgradable;
mod upgrade;
mod wait_probes;

pub use crate::claim::Holder;
pub use barrier::{Barrier, BarrierOptions, EmbeddedBarrier, WhenOneDies};
pub use ceiling_mutex::{CeilingMutex, CeilingMutexGuard, EmbeddedCeilingMutex};
#[doc(hidden)]
pub use condvar::BegunCondvarWait;
pub use condvar::{Condvar, CondvarOptions, EmbeddedCondvar, Woke};
pub use embedded::{Embed, Embedded, Place, Record, RecordOptions, RecordType, SharedField};
pub use error::{AcquireError, LockError, UpgradeError};
#[doc(hidden)]
pub use event::BegunWait;
pub use event::{EmbeddedEvent, EmbeddedLatch, Event, EventOptions, Latch, LatchOptions, Reset};
pub use guard::Guard;
pub use lock::{Lock, LockOptions};
pub use mapped::{MappedGuard, MappedMutexGuard, MappedReadGuard, MappedWriteGuard};
pub use mutex::{EmbeddedMutex, Halfway, Mutex, MutexGuard};
pub use once_lock::{EmbeddedOnceLock, OnceLock, OnceLockOptions, OnceState};
pub use order::{LockOrder, LockPair};
pub use owned::{
    OwnedCeilingMutexGuard, OwnedGuard, OwnedMutexGuard, OwnedPermit, OwnedPiMutexGuard,
    OwnedReadGuard, OwnedReentrantMutexGuard, OwnedWriteGuard,
};
#[doc(hidden)]
pub use permits::BegunAcquire;
pub use permits::{OwnedPermits, Permits};
pub use pi_mutex::{EmbeddedPiMutex, PiMutex, PiMutexGuard};
#[doc(hidden)]
pub use primitive::Handle;
pub(crate) use primitive::primitives;
pub use primitive::{LockDetail, Sited};
pub use readiness::Bits;
pub use reentrant_mutex::{EmbeddedReentrantMutex, ReentrantMutex, ReentrantMutexGuard};
pub use rw_lock::{EmbeddedRwLock, ReadGuard, RwLock, WriteGuard};
pub use seat::{BarrierWaitResult, OwnedSeat, Seat};
pub use semaphore::{EmbeddedSemaphore, Permit, Semaphore, SemaphoreOptions};
pub use untyped::{Untyped, ValueType};
pub use upgradable::{OwnedUpgradableReadGuard, UpgradableReadGuard};
#[doc(hidden)]
pub use upgrade::{BegunReadUpgrade, BegunUpgradableUpgrade, BegunUpgrade};

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wake::SPINS;
    use crate::{Deadline, Domain};

    #[test]
    fn a_deadline_that_has_passed_means_one_look() {
        let folder = std::env::temp_dir().join(format!("outlive-passed-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let mutex = Mutex::options(0u32).open_or_create(&domain, "mutex").expect("opens");
        let lock = RwLock::options(0u32).open_or_create(&domain, "lock").expect("opens");
        let permits = Semaphore::options(1).open_or_create(&domain, "permits").expect("opens");
        let event = Event::open_or_create(&domain, "event").expect("opens");
        let latch = Latch::options(1).open_or_create(&domain, "latch").expect("opens");
        let once = OnceLock::<u32>::open_or_create(&domain, "once").expect("opens");
        let step = Barrier::options(2).open_or_create(&domain, "step").expect("opens");
        mutex.set_wait_strategy(crate::WaitStrategy::Spin);
        let held = (mutex.lock(), lock.write(), permits.acquire());
        let spins = once.get_or_init(|_| {
            let wait = || {
                let passed = Deadline::at_nanos(0);
                assert!(mutex.lock_until(passed).expect("well").is_none());
                assert!(mutex.lock_timeout(Duration::ZERO).expect("well").is_none());
                assert!(mutex.lock_to_reset_until(passed).expect("well").is_none());
                assert!(lock.read_until(passed).expect("well").is_none());
                assert!(lock.write_until(passed).expect("well").is_none());
                assert!(lock.upgradable_read_until(passed).expect("well").is_none());
                assert!(permits.acquire_until(passed).expect("well").is_none());
                assert!(permits.acquire_many_until(1, passed).expect("well").is_none());
                assert!(permits.take_up_until(passed).expect("well").is_none());
                assert!(event.wait_any_until(1, passed).expect("well").is_none());
                assert!(latch.wait_until(passed).is_err());
                assert!(once.get_or_init_until(passed, |_| 1).expect("well").is_none());
                let mut seat = step.join().expect("free");
                assert!(seat.wait_until(passed).expect("well").is_none());
                SPINS.get()
            };
            std::thread::scope(|scope| scope.spawn(wait).join().expect("looked"))
        });
        assert_eq!(spins, Ok(&0));
        drop(held);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
