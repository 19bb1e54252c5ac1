//! A state as a wait set sees it: is there a change to report to a watcher? It reads shared words
//! alone, from any thread.

use super::wait::Untold;
use super::watch::{Followed, Watch};
use crate::Error;
use crate::liveness::Registry;
use crate::wake::{
    EventCount, PreparedWait, Readiness, Source, SourceState, WaitWords, Waited, Watched,
};

impl Watch {
    pub(crate) fn readiness(&self) -> Followed {
        self.0.clone()
    }
}

impl Followed {
    pub(crate) fn registry(&self) -> &'static Registry {
        self.inner.registry
    }

    /// Returns the eventcount that the writer notifies.
    fn changes(&self) -> &EventCount {
        &self.inner.buffers.head().changes
    }
}

impl Waited for Followed {
    fn look(&self) -> SourceState {
        match self.inner.look(&self.told) {
            Untold::Value(_) => SourceState::Ready(Readiness::Changed),
            Untold::Died(..) => SourceState::Ready(Readiness::Ended),
            Untold::Nothing(standing) => SourceState::behind(standing.watched()),
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        Some(self.changes())
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        words.add(&[self.changes().watch(prepared.ticket)]);
        prepared.asked = self.inner.role().add_to(words);
    }

    fn needs_recheck(&self, prepared: &PreparedWait) -> bool {
        // While there is no writer: see claim/role.rs.
        prepared.asked.is_some()
    }

    fn woken(&self, prepared: &PreparedWait) {
        prepared.asked.into_iter().for_each(|asked| self.inner.role().woken(asked));
    }
}

/// Ready when there is a change to report: [`Readiness::Changed`] for a value, [`Readiness::Ended`]
/// for a writer's death; until [`Watch::try_changed`] has reported it.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-set-state-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::state::{Change, State};
/// use outlive::wait::{WaitSet, Readiness};
///
/// let level = State::<u64>::open_or_create(&domain, "level")?;
/// let mode = State::<u8>::open_or_create(&domain, "mode")?;
/// let (mut levels, mut modes) = (level.watch(), mode.watch());
/// // What is there now.
/// levels.changed()?;
/// modes.changed()?;
///
/// let mut set = WaitSet::new(&domain);
/// let (a_level, _a_mode) = (set.add(&levels)?, set.add(&modes)?);
/// std::thread::spawn(move || level.writer().unwrap().set(&11));
/// assert_eq!(set.wait()?.collect::<Vec<_>>(), [(a_level, Readiness::Changed)]);
/// assert_eq!(levels.try_changed()?, Some(Change::Value { version: 2 }));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Source for Watch {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched::of(self.readiness(), self.0.registry()))
    }
}
