//! Outlive's semaphore, of one permit. A dead holder's permit comes back by itself.

use super::number::Apart;
use super::ours::{self, NAME, refused};
use super::{Handle, Held, Lock};
use crate::harness::error::Error;
use crate::harness::round::Stage;
use crate::harness::shared::Shared;
use ::outlive::sync::{Permit, Semaphore};

/// Where the semaphore is, and the number.
pub(super) struct Place {
    ours: ours::Place,
    number: Shared<Apart>,
}

/// The row.
pub(super) struct OurSemaphore;

/// A process's view of it.
pub(super) struct View<'place> {
    semaphore: Semaphore,
    number: &'place Apart,
}

impl Lock for OurSemaphore {
    const NAME: &'static str = "semaphore";
    type Place = Place;
    type Handle<'place> = View<'place>;

    fn place(stage: &Stage, which: &'static str) -> Result<Place, Error> {
        Ok(Place { ours: ours::Place::new(stage, which)?, number: Shared::new()? })
    }

    fn open(place: &Place) -> Result<View<'_>, Error> {
        let semaphore = Semaphore::options(1)
            .open_or_create(&place.ours.domain()?, NAME)
            .map_err(|error| Error::told("opening outlive's semaphore", error))?;
        semaphore.set_wait_strategy(place.ours.wait);
        Ok(View { semaphore, number: &place.number })
    }
}

impl Handle for View<'_> {
    type Held<'handle>
        = Only<'handle>
    where
        Self: 'handle;

    #[inline]
    fn acquire(&self) -> Result<Only<'_>, Error> {
        match self.semaphore.acquire() {
            Ok(permit) => Ok(Only { permit, number: self.number }),
            Err(error) => Err(refused(error)),
        }
    }

    /// Acquires and releases as a user writes it: see the mutex.
    #[inline(always)]
    fn once(&self) -> Result<u64, Error> {
        match self.semaphore.acquire() {
            // SAFETY: ours is the only permit, until the end of this arm.
            Ok(_permit) => Ok(unsafe { self.number.0.raise() }),
            Err(error) => Err(refused(error)),
        }
    }
}

/// The only permit.
pub(super) struct Only<'handle> {
    permit: Permit<'handle>,
    number: &'handle Apart,
}

impl Held for Only<'_> {
    #[inline]
    fn touch(&mut self) -> u64 {
        // SAFETY: ours is the only permit.
        unsafe { self.number.0.raise() }
    }

    #[inline]
    fn release(self) -> Result<(), Error> {
        drop(self.permit);
        Ok(())
    }
}
