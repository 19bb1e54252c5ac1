//! Layer 5: locks that survive their holders.
//!
//! Each is a named thing in a domain, or embedded in a user's own struct, a [`Record`]. Each has forms that try, that wait
//! until a deadline (a span, a moment, a time of day), and that wait for ever.
//!
//! | | for | when somebody dies |
//! | --- | --- | --- |
//! | [`Mutex`] | one at a time | inside, or a panic inside: the next is told (`OwnerDied`) until one repairs |
//! | [`RwLock`] | many who read, or one who writes | a reader: nothing; a writer: the next is told |
//! | [`Condvar`] | waiting under a [`Mutex`] until something is so | its notification goes to another |
//! | [`Semaphore`] | so many at once, or so many things to take | its permits come back |
//! | [`Event`], [`Latch`] | bits to wait for; waiting until so many have arrived | what was set is set |
//! | [`OnceLock`] | a value that the first who needs it makes | the next one makes it, and is told |
//! | [`Barrier`] | nobody begins the next phase before all are there | it breaks, or goes on without the dead |
//! | [`PiMutex`] | one at a time, under real-time policies: who holds it inherits the priority of who waits | as with `Mutex` |
//! | [`CeilingMutex`] | the same, whoever holds it runs at a fixed priority | as with `Mutex` |
//!
//! The state machines and their shared words stand in `raw/`; what users see of each stands here,
//! under the same name.

mod await_error;
mod barrier;
mod ceiling_mutex;
mod condvar;
mod embedded;
mod event;
pub(crate) mod guard;
mod mutex;
mod once_lock;
mod order;
mod pi_mutex;
mod primitive;
mod raw;
mod readiness;
mod rw_guard;
mod rw_lock;
mod semaphore;
mod untyped;

pub use crate::claim::Holder;
pub use await_error::AwaitError;
pub use barrier::{Barrier, BarrierError, EmbeddedBarrier, Seat, Turn, WhenOneDies};
pub use ceiling_mutex::{CeilingMutex, CeilingMutexGuard, EmbeddedCeilingMutex};
pub use condvar::{Condvar, EmbeddedCondvar, Woke};
pub use embedded::{Embed, Place, Record, RecordType, SharedField};
pub use event::{EmbeddedEvent, EmbeddedLatch, Event, Latch, Reset};
pub use guard::{LockError, MutexGuard};
pub use mutex::{EmbeddedMutex, Halfway, Mutex};
pub use once_lock::{EmbeddedOnceLock, OnceLock, OnceState};
pub use order::{LockOrder, LockPair};
pub use pi_mutex::{EmbeddedPiMutex, PiMutex, PiMutexGuard};
#[doc(hidden)]
pub use primitive::Home;
pub use primitive::LockDetail;
pub(crate) use primitive::primitives;
pub use readiness::Bits;
pub use rw_guard::{ReadGuard, UpgradeError, WriteGuard};
pub use rw_lock::{EmbeddedRwLock, RwLock};
pub use semaphore::{AcquireError, EmbeddedSemaphore, Full, Permit, Semaphore, SemaphoreOptions};
pub use untyped::{Untyped, ValueType};

/// Values that may live in shared memory: plain data of which every bit pattern is a value, without padding and without
/// pointers. Derive [`zerocopy`]'s `FromBytes`, `IntoBytes`, `Immutable` and `KnownLayout`; numbers and arrays of them
/// are plain already.
///
/// ```
/// use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Pose { x: f64, y: f64, heading: f64 }
/// fn takes_plain<T: outlive::sync::Plain>(_: T) {}
/// takes_plain(Pose { x: 0.0, y: 0.0, heading: 0.0 });
/// ```
pub trait Plain: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Send + 'static {}

impl<T: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Send + 'static> Plain for T {}

/// Values that several processes may look at at once: [`Plain`] data, atomics, and structs and arrays of both, without
/// padding. What a [`RwLock`] guards: its readers may change the atomics in it.
///
/// ```
/// use std::sync::atomic::AtomicU64;
/// use zerocopy::{FromBytes, IntoBytes};
/// #[derive(FromBytes, IntoBytes)]
/// #[repr(C)]
/// struct Table { rows: [u64; 8], looked_at: AtomicU64 }
/// fn takes_shareable<T: outlive::sync::Shareable>(_: T) {}
/// takes_shareable(Table { rows: [0; 8], looked_at: AtomicU64::new(0) });
/// ```
pub trait Shareable: zerocopy::FromBytes + zerocopy::IntoBytes + Send + Sync + 'static {}

impl<T: zerocopy::FromBytes + zerocopy::IntoBytes + Send + Sync + 'static> Shareable for T {}
