//! Following the values of a state.

use std::sync::Arc;
use std::time::Duration;

use super::inner::Inner;
use super::wait::{Change, Told};
use crate::{Deadline, Error};

/// Follows the values of a [`State`](super::State): reports each change that it sees, and each
/// death of a writer once. It does not report values that were set and replaced between two looks.
///
/// A watch is also a source for a [`WaitSet`](crate::wait::WaitSet), and for `async`.
pub struct Watch(pub(super) Followed);

/// What a [`Watch`] follows, as it and its wait sets see it. It keeps the state mapped.
#[derive(Clone)]
pub(crate) struct Followed {
    pub(super) inner: Arc<Inner>,
    pub(super) told: Arc<Told>,
}

impl Watch {
    /// Waits for the next change.
    ///
    /// # Errors
    /// [`Error::NoToken`] and errors of the system.
    ///
    /// # If a process dies
    /// If the writer dies, its last value is reported first, then [`Change::WriterDied`], once;
    /// then this waits for another writer.
    pub fn changed(&mut self) -> Result<Change, Error> {
        Deadline::never(|deadline| self.changed_until(deadline))
    }

    /// Returns the next change, or `None` if there is none yet. Never waits.
    ///
    /// # Errors
    /// The errors of [`Watch::changed`].
    ///
    /// # If a process dies
    /// The same as with [`Watch::changed`].
    pub fn try_changed(&mut self) -> Result<Option<Change>, Error> {
        Ok(self.0.inner.try_changed(&self.0.told))
    }

    /// Waits for the next change as long as `span`; `None` when that has passed.
    ///
    /// # Errors
    /// The errors of [`Watch::changed`].
    ///
    /// # If a process dies
    /// The same as with [`Watch::changed`].
    pub fn changed_timeout(&mut self, span: Duration) -> Result<Option<Change>, Error> {
        self.changed_until(Deadline::after(span))
    }

    /// Waits for the next change until the deadline; `None` when that has passed.
    ///
    /// # Errors
    /// The errors of [`Watch::changed`].
    ///
    /// # If a process dies
    /// The same as with [`Watch::changed`].
    pub fn changed_until(&mut self, deadline: Deadline) -> Result<Option<Change>, Error> {
        self.0.inner.wait_changed(&self.0.told, deadline)
    }
}
