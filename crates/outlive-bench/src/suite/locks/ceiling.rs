//! Outlive's mutex with a priority ceiling. As with the C library's, its users are real-time
//! processes below the ceiling.

use super::ours::{NAME, Place, refused};
use super::{Handle, Held, Lock};
use crate::harness::error::Error;
use crate::harness::realtime;
use crate::harness::round::Stage;
use ::outlive::sync::{CeilingMutex, CeilingMutexGuard};

/// The row.
pub(super) struct OurCeiling;

impl Lock for OurCeiling {
    const NAME: &'static str = "ceiling";
    type Place = Place;
    type Handle<'place> = CeilingMutex<u64>;

    fn place(stage: &Stage, which: &'static str) -> Result<Place, Error> {
        Place::new(stage, which)
    }

    fn open(place: &Place) -> Result<CeilingMutex<u64>, Error> {
        realtime::enter(realtime::USER)?;
        CeilingMutex::options(realtime::CEILING.unsigned_abs(), 0)
            .open_or_create(&place.domain()?, NAME)
            .map_err(|error| Error::told("opening outlive's ceiling mutex", error))
    }

    fn refuses() -> Option<String> {
        realtime::refuses()
    }
}

impl Handle for CeilingMutex<u64> {
    type Held<'handle> = CeilingMutexGuard<'handle, u64>;

    #[inline]
    fn acquire(&self) -> Result<CeilingMutexGuard<'_, u64>, Error> {
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

impl Held for CeilingMutexGuard<'_, u64> {
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
