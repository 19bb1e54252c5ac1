//! Floor 5: locks that survive their holders.
//!
//! [`Mutex`] is a named one; [`Record`] is a user's own struct in a domain with [`Embedded`] ones inside.

#[cfg(not(loom))]
mod guard;
#[cfg(not(loom))]
mod mutex;
mod raw_mutex;
#[cfg(not(loom))]
mod record;

#[cfg(not(loom))]
pub use guard::{Guard, LockError};
#[cfg(not(loom))]
pub(crate) use mutex::raw_of;
#[cfg(not(loom))]
pub use mutex::{Holder, Mutex};
pub(crate) use raw_mutex::RawMutex;
#[cfg(not(loom))]
pub(crate) use record::raw_locks;
#[cfg(not(loom))]
pub use record::{Embedded, Record, RecordType, SharedField};

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
