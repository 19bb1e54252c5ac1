//! Outlive's mutex.

use super::ours::{NAME, Place, refused};
use super::{Handle, Held, Lock};
use crate::harness::error::Error;
use crate::harness::round::Stage;
use ::outlive::sync::{Mutex, MutexGuard};

/// The row.
pub(crate) struct OurMutex;

impl Lock for OurMutex {
    const NAME: &'static str = "mutex";
    type Place = Place;
    type Handle<'place> = Mutex<u64>;

    fn place(stage: &Stage, which: &'static str) -> Result<Place, Error> {
        Place::new(stage, which)
    }

    fn open(place: &Place) -> Result<Mutex<u64>, Error> {
        let mutex = Mutex::options(0)
            .open_or_create(&place.domain()?, NAME)
            .map_err(|error| Error::told("opening outlive's mutex", error))?;
        mutex.set_wait_strategy(place.wait);
        Ok(mutex)
    }
}

impl Handle for Mutex<u64> {
    type Held<'handle> = MutexGuard<'handle, u64>;

    #[inline]
    fn acquire(&self) -> Result<MutexGuard<'_, u64>, Error> {
        self.lock().map_err(refused)
    }

    /// Locks and unlocks as a user writes it: the guard stays where `lock` has put it. To move it
    /// into another result costs as much as half a lock, by stores that the next load has to wait
    /// for.
    #[inline(always)]
    fn once(&self) -> Result<u64, Error> {
        match self.lock() {
            Ok(mut guard) => Ok(guard.touch()),
            Err(error) => Err(refused(error)),
        }
    }
}

impl Held for MutexGuard<'_, u64> {
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
