//! Outlive's readers-writer lock, as its readers have it and as its writers do.

use super::ours::{NAME, Place, refused};
use super::{Handle, Held, Lock, UNTOUCHED};
use crate::harness::error::Error;
use crate::harness::round::Stage;
use ::outlive::sync::{ReadGuard, RwLock, WriteGuard};

/// The row that reads.
pub(super) struct OurRead;
/// The row that writes.
pub(super) struct OurWrite;

/// A reader's view.
pub(super) struct Reading(RwLock<u64>);
/// A writer's.
pub(super) struct Writing(RwLock<u64>);

fn open(place: &Place, initial: u64) -> Result<RwLock<u64>, Error> {
    let lock = RwLock::options(initial)
        .open_or_create(&place.domain()?, NAME)
        .map_err(|error| Error::told("opening outlive's readers-writer lock", error))?;
    lock.set_wait_strategy(place.wait);
    Ok(lock)
}

impl Lock for OurRead {
    const NAME: &'static str = "rwlock_read";
    const SHARED: bool = true;
    type Place = Place;
    type Handle<'place> = Reading;

    fn place(stage: &Stage, which: &'static str) -> Result<Place, Error> {
        Place::new(stage, which)
    }

    fn open(place: &Place) -> Result<Reading, Error> {
        open(place, UNTOUCHED).map(Reading)
    }
}

impl Lock for OurWrite {
    const NAME: &'static str = "rwlock_write";
    type Place = Place;
    type Handle<'place> = Writing;

    fn place(stage: &Stage, which: &'static str) -> Result<Place, Error> {
        Place::new(stage, which)
    }

    fn open(place: &Place) -> Result<Writing, Error> {
        open(place, 0).map(Writing)
    }
}

impl Handle for Reading {
    type Held<'handle> = ReadGuard<'handle, u64>;

    #[inline]
    fn acquire(&self) -> Result<ReadGuard<'_, u64>, Error> {
        self.0.read().map_err(refused)
    }

    /// Locks and unlocks as a user writes it: see the mutex.
    #[inline(always)]
    fn once(&self) -> Result<u64, Error> {
        match self.0.read() {
            Ok(mut guard) => Ok(guard.touch()),
            Err(error) => Err(refused(error)),
        }
    }
}

impl Handle for Writing {
    type Held<'handle> = WriteGuard<'handle, u64>;

    #[inline]
    fn acquire(&self) -> Result<WriteGuard<'_, u64>, Error> {
        self.0.write().map_err(refused)
    }

    /// Locks and unlocks as a user writes it: see the mutex.
    #[inline(always)]
    fn once(&self) -> Result<u64, Error> {
        match self.0.write() {
            Ok(mut guard) => Ok(guard.touch()),
            Err(error) => Err(refused(error)),
        }
    }
}

impl Held for ReadGuard<'_, u64> {
    #[inline]
    fn touch(&mut self) -> u64 {
        **self
    }

    #[inline]
    fn release(self) -> Result<(), Error> {
        Ok(())
    }
}

impl Held for WriteGuard<'_, u64> {
    #[inline]
    fn touch(&mut self) -> u64 {
        **self += 1;
        **self
    }

    #[inline]
    fn release(self) -> Result<(), Error> {
        Ok(())
    }
}
