//! Locks and other primitives that survive their holders (layer 5).
//!
//! Each is a named thing in a domain, or a field of a user's own struct, a [`Record`]. Each verb
//! that waits has four forms: `verb` waits for ever, `try_verb` never waits, `verb_timeout` waits
//! for a span, `verb_until` until a [`Deadline`](crate::Deadline).
//!
//! | | for | when a process dies |
//! | --- | --- | --- |
//! | [`Mutex`] | one holder at a time | holding it, or panics there: each next locker gets `OwnerDied` until one repairs |
//! | [`RwLock`] | many readers, or one writer | reading: nothing; writing: the next locker is told |
//! | [`Condvar`] | waiting under a [`Mutex`] for a condition | waiting: its notification goes to another waiter |
//! | [`Semaphore`] | limiting the number of users, or counting things | its permits become free |
//! | [`Event`], [`Latch`] | waiting for bits; waiting for a number of arrivals | what it set stays set |
//! | [`OnceLock`] | a value that the first caller makes | making it: the next caller makes it, and is told |
//! | [`Barrier`] | phases that begin when all participants have arrived | the barrier breaks, or goes on without it |
//! | [`PiMutex`] | one holder at a time, under real-time policies; the holder inherits its waiters' priority | as with `Mutex` |
//! | [`CeilingMutex`] | one holder at a time, which runs at a fixed priority | as with `Mutex` |
//!
//! `raw/` holds the state machines and their shared words; the file of the same name here holds
//! what users see of each.

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
mod pi_mutex;
mod primitive;
mod raw;
mod raw_lock;
mod readiness;
mod rw_lock;
mod semaphore;
mod untyped;

pub use crate::claim::Holder;
pub use barrier::{Barrier, BarrierOptions, EmbeddedBarrier, OwnedSeat, Seat, Turn, WhenOneDies};
pub use ceiling_mutex::{CeilingMutex, CeilingMutexGuard, EmbeddedCeilingMutex};
pub use condvar::{Condvar, CondvarOptions, EmbeddedCondvar, Woke};
pub use embedded::{Embed, Embedded, Place, Record, RecordOptions, RecordType, SharedField};
pub use error::{AcquireError, LockError, UpgradeError};
pub use event::{EmbeddedEvent, EmbeddedLatch, Event, EventOptions, Latch, LatchOptions, Reset};
pub use guard::Guard;
pub use lock::{Lock, LockOptions};
pub use mapped::MappedGuard;
pub use mutex::{EmbeddedMutex, Halfway, Mutex, MutexGuard};
pub use once_lock::{EmbeddedOnceLock, OnceLock, OnceLockOptions, OnceState};
pub use order::{LockOrder, LockPair};
pub use owned::{
    OwnedCeilingMutexGuard, OwnedGuard, OwnedMutexGuard, OwnedPiMutexGuard, OwnedReadGuard,
    OwnedWriteGuard,
};
pub use pi_mutex::{EmbeddedPiMutex, PiMutex, PiMutexGuard};
#[doc(hidden)]
pub use primitive::Home;
pub use primitive::LockDetail;
pub(crate) use primitive::primitives;
pub use readiness::Bits;
pub use rw_lock::{EmbeddedRwLock, ReadGuard, RwLock, WriteGuard};
pub use semaphore::{EmbeddedSemaphore, OwnedPermit, Permit, Semaphore, SemaphoreOptions};
pub use untyped::{Untyped, ValueType};
