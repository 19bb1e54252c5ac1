//! Outlive's mutex.

use super::super::error::Error;
use super::super::round::Stage;
use super::super::scratch::Scratch;
use super::Lock;
use ::outlive::Domain;
use ::outlive::sync::{LockError, Mutex};

/// A named mutex around the counter.
pub(super) struct Outlive {
    mutex: Mutex<u64>,
}

impl Lock for Outlive {
    const NAME: &'static str = "outlive";
    type Place = Scratch;

    fn place(stage: &Stage) -> Result<Scratch, Error> {
        stage.scratch.inner("outlive")
    }

    fn open(place: &Scratch) -> Result<Self, Error> {
        let domain = Domain::open_at(place.path()).map_err(|error| Error::told("opening a domain", error))?;
        let mutex = Mutex::open(&domain, "lock", 0).map_err(|error| Error::told("opening a mutex", error))?;
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
