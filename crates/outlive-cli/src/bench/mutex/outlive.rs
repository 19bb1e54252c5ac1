//! Outlive's mutex.

use super::super::error::Error;
use super::super::round::Stage;
use super::super::scratch::Scratch;
use super::Lock;
use ::outlive::sync::{LockError, Mutex};
use ::outlive::{Domain, Wait};

/// Where the mutex is, and how it waits.
pub(super) struct Place {
    scratch: Scratch,
    wait: Wait,
}

/// A named mutex around the counter.
pub(super) struct Outlive {
    mutex: Mutex<u64>,
}

impl Lock for Outlive {
    const NAME: &'static str = "outlive";
    type Place = Place;

    fn place(stage: &Stage) -> Result<Place, Error> {
        Ok(Place { scratch: stage.scratch.inner("outlive")?, wait: stage.wait })
    }

    fn open(place: &Place) -> Result<Self, Error> {
        let domain = Domain::open_at(place.scratch.path()).map_err(|error| Error::told("opening a domain", error))?;
        let mutex = Mutex::open(&domain, "lock", 0).map_err(|error| Error::told("opening a mutex", error))?;
        mutex.set_wait(place.wait);
        Ok(Self { mutex })
    }

    #[inline]
    fn with<R>(&self, body: impl FnOnce(&mut u64) -> R) -> Result<R, Error> {
        match self.mutex.lock() {
            Ok(mut guard) => Ok(body(&mut guard)),
            Err(error) => Err(refused(&error)),
        }
    }
}

/// Nobody dies in this benchmark, so whatever the lock says is a fault.
#[cold]
fn refused<G>(error: &LockError<G>) -> Error {
    Error::Wrong(format!("outlive's mutex: {error}"))
}
