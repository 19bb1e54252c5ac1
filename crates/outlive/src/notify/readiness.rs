//! A listener as a wait set sees it: whether there are notices, and what to sleep on. It reads
//! shared words alone, from any thread.

use super::listener::{Followed, Listener};
use crate::liveness::Registry;
use crate::wake::{
    EventCount, PreparedWait, Readiness, Source, SourceState, WaitWords, Waited, Watched,
};
use crate::{Deadline, Error};

impl Followed {
    pub(crate) fn registry(&self) -> &'static Registry {
        self.inner.registry
    }

    /// Returns the eventcount that notifiers notify. Once the listener has left, it may be another
    /// listener's, and then the set wakes now and then for nothing.
    fn notifications(&self) -> Option<&EventCount> {
        self.inner.listener(self.index()).ok().map(|slot| &slot.notifications)
    }
}

impl Waited for Followed {
    fn look(&self) -> SourceState {
        let owners = self.owners();
        match self.has_something() {
            true => SourceState::Ready(Readiness::Readable),
            false => SourceState::BehindOwners(owners, Deadline::NEVER),
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        self.notifications()
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        if let Some(count) = self.notifications() {
            words.add(&[count.watch(prepared.ticket)]);
        }
    }

    /// A notifier may be stopped between the bit and its notification, or before it has said that
    /// it has come.
    fn needs_recheck(&self, _: &PreparedWait) -> bool {
        true
    }
}

/// Ready when there are notices to be taken, until [`Listener::try_wait`] has taken them. (Once in
/// a while there are none left when it does: then it returns `None`.)
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-set-listener-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::notify::{Listener, Notifier};
/// use outlive::wait::{Readiness, WaitSet};
///
/// let (mut doors, windows) =
///     (Listener::open_or_create(&domain, "doors")?, Listener::open_or_create(&domain, "windows")?);
/// let mut set = WaitSet::new(&domain);
/// let (a_door, _a_window) = (set.add(&doors)?, set.add(&windows)?);
/// Notifier::open(&domain, "doors")?.notify(3)?;
/// assert_eq!(set.wait()?.collect::<Vec<_>>(), [(a_door, Readiness::Readable)]);
/// assert_eq!(doors.try_wait()?.map(|notices| notices.count(3)), Some(1));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Source for Listener {
    fn watched(&self) -> Result<Watched, Error> {
        let readiness = self.readiness();
        let registry = readiness.registry();
        Ok(Watched::of(readiness, registry))
    }
}
