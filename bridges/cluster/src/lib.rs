//! Locks and semaphores of several machines, over etcd.
//!
//! [`Mutex`] and [`Semaphore`] have the shape of [`outlive::sync`]'s, and tell a death alike, on
//! whatever machine it was. What several machines add is the lease: a holder that the cluster does not
//! hear of for so long is none any more, and cannot be told. So each holder has a
//! [fence](MutexGuard::fence), asks [`is_held`](MutexGuard::is_held), and is told by
//! [`wait_lost`](MutexGuard::wait_lost).
//!
//! The protocol is in doc/protocols/cluster.md.

mod address;
mod client;
mod clock;
mod cluster;
mod error;
mod etcd;
mod gate;
mod keep;
mod mutex;
#[doc(hidden)]
pub mod program;
mod semaphore;
mod session;

pub use address::Address;
pub use cluster::Cluster;
pub use error::{Error, LockError, Lost};
pub use mutex::{MaybeLocked, Mutex, MutexGuard};
pub use semaphore::{Permit, Semaphore};
