//! Outlive's mutex with priority inheritance.

use super::ours::{NAME, Place, refused};
use super::{Handle, Held, Lock};
use crate::harness::error::Error;
use crate::harness::round::Stage;
use ::outlive::sync::{PiMutex, PiMutexGuard};

/// The row.
pub(super) struct OurPi;

impl Lock for OurPi {
    const NAME: &'static str = "pi";
    type Place = Place;
    type Handle<'place> = PiMutex<u64>;

    fn place(stage: &Stage, which: &'static str) -> Result<Place, Error> {
        Place::new(stage, which)
    }

    fn open(place: &Place) -> Result<PiMutex<u64>, Error> {
        PiMutex::options(0)
            .open_or_create(&place.domain()?, NAME)
            .map_err(|error| Error::told("opening outlive's PI mutex", error))
    }
}

impl Handle for PiMutex<u64> {
    type Held<'handle> = PiMutexGuard<'handle, u64>;

    #[inline]
    fn acquire(&self) -> Result<PiMutexGuard<'_, u64>, Error> {
        self.lock().map_err(refused)
    }

    /// Locks and unlocks as a user writes it: see the mutex.
    #[inline(always)]
    fn once(&self) -> Result<u64, Error> {
        match self.lock() {
            Ok(mut guard) => Ok(guard.touch()),
            Err(error) => Err(refused(error)),
        }
    }
}

impl Held for PiMutexGuard<'_, u64> {
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
