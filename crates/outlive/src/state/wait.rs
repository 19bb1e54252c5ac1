//! Waiting for another value, or for the writer's end.
//!
//! | the sleeper | is woken by |
//! | --- | --- |
//! | a writer lives | its ring; its leaving (`holder`); its end |
//! | its process reads dead, its last thread lives | its ring; that thread's end |
//! | no writer lives | one that comes (`holder`, or `x` if it dies at once) |
//!
//! So nobody sleeps beside a writer whose end he does not watch: one that dies between `latest` and its ring wakes him. What
//! is looked at in which order: who lives first, then `latest`, so that a dead writer's last value is told before its death.

use super::Shared;
use super::layout::Latest;
use crate::liveness::{Asleep, Standing};
use crate::shim::Ordering;
use crate::sys::robust::PassOn;
use crate::{Deadline, Error};

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Another value, of this version or a later one.
    Value {
        /// Its version.
        version: u64,
    },
    /// The writer died, and nobody has taken its place. The value is what it set last, and whole.
    WriterDied {
        /// The version of that value.
        version: u64,
    },
}

enum Look {
    Change(Change),
    Nothing(Standing),
}

impl Shared {
    #[inline]
    pub(super) fn version(&self) -> u64 {
        // Acquire: a get after this one is of that version at least.
        Latest(self.buffers.head().latest.load(Ordering::Acquire)).version()
    }

    fn look(&self, seen: u64, is_death_told: bool) -> Look {
        let standing = self.role().standing();
        let version = self.version();
        if version != seen {
            Look::Change(Change::Value { version })
        } else if standing.is_dead() && !is_death_told {
            Look::Change(Change::WriterDied { version })
        } else {
            Look::Nothing(standing)
        }
    }

    /// Waits until the version is not `seen`, or the writer is dead and that is news. `None`: the deadline passed.
    pub(super) fn wait_changed(
        &self,
        seen: u64,
        is_death_told: bool,
        deadline: Deadline,
    ) -> Result<Option<Change>, Error> {
        let mut change = None;
        let mut look = || {
            if let Look::Change(found) = self.look(seen, is_death_told) {
                change = Some(found);
            }
            change.is_some()
        };
        if look() || self.patience.spin(look) {
            return Ok(change);
        }
        let me = self.registry.me()?;
        let bell = &self.buffers.head().bell;
        let pass = PassOn::begin(me.list());
        let mut last_try = false;
        loop {
            let listening = bell.listen();
            let standing = match self.look(seen, is_death_told) {
                Look::Change(change) => return Ok(Some(change)),
                Look::Nothing(_) if last_try => return Ok(None),
                Look::Nothing(standing) => standing,
            };
            let until = listening.until(deadline);
            match self.role().sleep(&pass, Some(bell.watch(listening)), standing, until) {
                Ok(Asleep::TimedOut) => last_try = deadline.has_passed(),
                Ok(Asleep::LookAgain) => {}
                Err(errno) => return Err(Error::from_errno("wait in", self.registry.path(), errno)),
            }
        }
    }

    /// Whether a writer lives just now.
    pub(super) fn is_written(&self) -> bool {
        self.role().standing().is_living()
    }

    /// Waits until the writer's place may be had. False: the deadline passed.
    pub(super) fn wait_unwritten(&self, deadline: Deadline) -> Result<bool, Error> {
        let me = self.registry.me()?;
        let pass = PassOn::begin(me.list());
        loop {
            let standing = self.role().standing();
            if !standing.is_living() {
                return Ok(true);
            }
            if deadline.has_passed() {
                return Ok(false);
            }
            let slept = self.role().sleep(&pass, None, standing, deadline);
            slept.map_err(|errno| Error::from_errno("wait in", self.registry.path(), errno))?;
        }
    }
}
