//! Where a lock of Outlive's is: a domain of its own.

use crate::harness::error::Error;
use crate::harness::round::Stage;
use crate::harness::scratch::Scratch;
use ::outlive::{Domain, WaitStrategy};
use std::fmt::Display;

/// The name that each has in its domain.
pub(super) const NAME: &str = "lock";

/// A domain's folder, and how its users wait.
pub(crate) struct Place {
    scratch: Scratch,
    pub(super) wait: WaitStrategy,
}

impl Place {
    pub(super) fn new(stage: &Stage, which: &'static str) -> Result<Self, Error> {
        Ok(Self { scratch: stage.scratch.inner(which)?, wait: stage.wait })
    }

    pub(super) fn domain(&self) -> Result<Domain, Error> {
        Domain::open_or_create_at(self.scratch.path())
            .map_err(|error| Error::told("opening a domain", error))
    }
}

/// Turns a lock's error into a fault: no process dies in this benchmark.
#[cold]
pub(super) fn refused(error: impl Display) -> Error {
    Error::Wrong(format!("outlive's lock: {error}"))
}
