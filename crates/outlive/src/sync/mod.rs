//! Floor 5: locks that survive their holders.
//!
//! Each is a named thing in a domain, or embedded in a user's own struct, a [`Record`]. In each file the state machine
//! and the shared words come first (`raw_*.rs`, where there is a model beside them), then what users see.

mod bell;
#[cfg(not(loom))]
mod guard;
#[cfg(not(loom))]
mod holder;
#[cfg(not(loom))]
mod home;
#[cfg(not(loom))]
mod mutex;
#[cfg(not(loom))]
mod primitive;
mod raw_mutex;
mod raw_rw_lock;
mod raw_semaphore;
#[cfg(not(loom))]
mod record;
#[cfg(not(loom))]
mod rw_guard;
#[cfg(not(loom))]
mod rw_lock;
#[cfg(not(loom))]
mod semaphore;

#[cfg(not(loom))]
pub use guard::{Guard, LockError};
#[cfg(not(loom))]
pub use holder::Holder;
#[cfg(not(loom))]
#[doc(hidden)]
pub use home::Home;
#[cfg(not(loom))]
pub use mutex::{Embedded, Mutex};
#[cfg(not(loom))]
pub use primitive::LockDetail;
#[cfg(not(loom))]
pub(crate) use primitive::primitives;
#[cfg(not(loom))]
pub use record::{Embed, Place, Record, RecordType, SharedField};
#[cfg(not(loom))]
pub use rw_guard::{ReadGuard, UpgradeError, WriteGuard};
#[cfg(not(loom))]
pub use rw_lock::{EmbeddedRwLock, RwLock};
#[cfg(not(loom))]
pub use semaphore::{AcquireError, EmbeddedSemaphore, Full, Permit, Semaphore, SemaphoreOptions};

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
#[cfg(not(loom))]
pub trait Plain: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Send + 'static {}

#[cfg(not(loom))]
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
#[cfg(not(loom))]
pub trait Shareable: zerocopy::FromBytes + zerocopy::IntoBytes + Send + Sync + 'static {}

#[cfg(not(loom))]
impl<T: zerocopy::FromBytes + zerocopy::IntoBytes + Send + Sync + 'static> Shareable for T {}
