//! Waiting for another value, or for the writer's end.
//!
//! | the sleeper | is woken by |
//! | --- | --- |
//! | a writer lives | its notification; its leaving (`holder`); its end |
//! | its process reads dead, its last thread lives | its notification; that thread's end |
//! | no writer lives | one that comes (`holder`, or `relay` if it dies at once) |
//!
//! So a waiter always watches the end of a present writer: one that dies between `latest` and its
//! notification wakes it. The waiter looks first at which writer lives, then at `latest`, so that a
//! dead writer's last value is reported before its death.

use std::sync::atomic::{
    AtomicU32 as StdAtomicU32, AtomicU64 as StdAtomicU64, Ordering as StdOrdering,
};

use super::Inner;
use super::layout::Latest;
use crate::claim::Standing;
use crate::shim::Ordering;
use crate::sys::robust::WakeRelay;
use crate::wake::Asleep;
use crate::{Deadline, Error};

/// A change of a state, as a wait or a watch reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// There is another value, of this version or a later one.
    Value {
        /// Its version.
        version: u64,
    },
    /// The writer died, and no other has taken its place. The value is the one that it set last,
    /// and whole.
    WriterDied {
        /// The version of that value.
        version: u64,
    },
}

/// What a watcher has reported. Its wait set may read it from another thread.
#[derive(Debug)]
pub(super) struct Told {
    version: StdAtomicU64,
    /// The death that was reported: what `holder` said. 0: none since the last value, or since a
    /// living writer was seen.
    death: StdAtomicU32,
}

impl Told {
    /// Nothing but that version has been reported.
    pub(super) fn of(version: u64) -> Told {
        Told { version: StdAtomicU64::new(version), death: StdAtomicU32::new(0) }
    }
}

pub(super) enum Untold {
    Value(u64),
    /// The version; what `holder` said.
    Died(u64, u32),
    Nothing(Standing),
}

impl Inner {
    #[inline]
    pub(super) fn version(&self) -> u64 {
        // Acquire: a get after this one returns that version or a later one.
        Latest(self.buffers.head().latest.load(Ordering::Acquire)).version()
    }

    /// Relaxed for what has been reported: it is private to the process, and orders nothing.
    pub(super) fn look(&self, told: &Told) -> Untold {
        // First of all: a death that is reported during this look stays reported.
        let death = told.death.load(StdOrdering::Relaxed);
        let standing = self.role().standing();
        let version = self.version();
        if version != told.version.load(StdOrdering::Relaxed) {
            return Untold::Value(version);
        }
        // Without a name, it may be the death that has been reported.
        let is_news = death == 0 || death != standing.holder() && !standing.is_nameless();
        if standing.is_dead() && is_news {
            return Untold::Died(version, standing.holder());
        }
        if standing.is_living() && death != 0 {
            // The death of another writer would be a change.
            let _ =
                told.death.compare_exchange(death, 0, StdOrdering::Relaxed, StdOrdering::Relaxed);
        }
        Untold::Nothing(standing)
    }

    /// Returns what has changed, if anything, and marks it as reported.
    pub(super) fn try_changed(&self, told: &Told) -> Option<Change> {
        self.tell(told, self.look(told)).ok()
    }

    fn tell(&self, told: &Told, found: Untold) -> Result<Change, Standing> {
        match found {
            Untold::Value(version) => {
                told.version.store(version, StdOrdering::Relaxed);
                told.death.store(0, StdOrdering::Relaxed);
                Ok(Change::Value { version })
            }
            Untold::Died(version, holder) => {
                told.death.store(holder, StdOrdering::Relaxed);
                Ok(Change::WriterDied { version })
            }
            Untold::Nothing(standing) => Err(standing),
        }
    }

    /// Waits until there is a change to report. `None`: the deadline passed.
    pub(super) fn wait_changed(
        &self,
        told: &Told,
        deadline: Deadline,
    ) -> Result<Option<Change>, Error> {
        let mut change = None;
        let mut look = || {
            change = self.try_changed(told);
            change.is_some()
        };
        if look() || deadline.has_passed() || self.spin_wait.spin(look) {
            return Ok(change);
        }
        let me = self.registry.me()?;
        let changes = &self.buffers.head().changes;
        let relay = WakeRelay::begin(me.list());
        let mut last_try = false;
        loop {
            let ticket = changes.prepare_wait();
            let standing = match self.tell(told, self.look(told)) {
                Ok(change) => return Ok(Some(change)),
                Err(_) if last_try => return Ok(None),
                Err(standing) => standing,
            };
            let until = ticket.until(deadline);
            match self.role().sleep(&relay, &[changes.watch(ticket)], standing, until) {
                Ok(Asleep::TimedOut) => last_try = deadline.has_passed(),
                Ok(Asleep::LookAgain) => {}
                Err(errno) => {
                    return Err(Error::from_errno("wait in", self.registry.path(), errno));
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::state::{Change, State};
    use crate::wake::SPINS;
    use crate::{Deadline, Domain};

    #[test]
    fn a_deadline_that_has_passed_makes_nobody_spin() {
        let folder =
            std::env::temp_dir().join(format!("outlive-past-state-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let state = State::<u64>::open_or_create(&domain, "state").expect("made");
        let version = state.writer().expect("none yet").set(&1).expect("set");
        let past = Deadline::at_nanos(0);
        let spins = SPINS.get();
        assert_eq!(state.wait_changed_until(version, past), Ok(None));
        assert_eq!(SPINS.get(), spins);
        let changed = state.wait_changed_until(version - 1, past);
        assert!(matches!(changed, Ok(Some(Change::Value { .. }))), "what is there is told");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
