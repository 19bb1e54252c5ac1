//! What attributes a lock, or another primitive, carries: the same for all of them.

use super::lock::Lock;
use super::primitive::Sited;
use super::raw_lock::LockWords;
use super::{Barrier, Condvar, Event, Latch, OnceLock, Record, Semaphore};
use crate::{Attributes, Error};

macro_rules! carries {
    ($([$($generics:tt)*] $primitive:ty),* $(,)?) => { $(
        impl<$($generics)*> $primitive {
            /// Returns the attributes that its maker gave it; of one in a record, those of the
            /// record.
            ///
            /// # Errors
            /// [`Error::Damaged`] when a process wrote over them, and errors of the system.
            pub fn attributes(&self) -> Result<Attributes, Error> {
                self.site().segment.attributes()
            }
        }
    )* };
}

carries! {
    [] Barrier,
    [] Condvar,
    [] Event,
    [] Latch,
    [] Semaphore,
    [T] OnceLock<T>,
    [T] Record<T>,
    [P: LockWords, T] Lock<P, T>,
}
