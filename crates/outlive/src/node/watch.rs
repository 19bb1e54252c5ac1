//! Following what a domain holds: which things and which nodes appear and vanish.
//!
//! | event | a watcher |
//! | --- | --- |
//! | a name appears or vanishes, by this library | the registry's `changes` + 1, wake all |
//! | its maker or remover dies, or stops, before that | the folder has another time or size: found at the recheck |
//! | a name vanishes by `rm` | the same |
//! | a node's process dies | sleeps on the ends of all nodes that it was told of |
//!
//! A watcher reads `changes` and the folder's time first, then lists the folder: a name that comes
//! after that list changes one of them. It lists only when one of them has changed, or a node has
//! died.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::list::NodeInfo;
use crate::segment::check_name;
use crate::shim::Ordering;
use crate::sys::file::{self, FolderStamp};
use crate::sys::futex::Watch;
use crate::sys::robust::WakeRelay;
use crate::wake::{
    Asleep, PreparedWait, Readiness, Sleep, Source, SourceState, WaitWords, Waited, Watched,
};
use crate::{Deadline, Domain, Error, TokenId};

/// Holds what a domain has at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DomainContents {
    /// The names of all things, sorted.
    pub names: Vec<String>,
    /// The living processes that have a name: see [`Domain::nodes`].
    pub nodes: Vec<NodeInfo>,
}

/// Follows which things and nodes appear in a domain and vanish from it: [`Domain::watch`] makes it.
///
/// Each report has all that is there; what came and went between two reports is in neither. A
/// thing that is removed and made anew has the same name.
///
/// # If a process dies
/// A node's death is a change, reported at once. Things that it made stay. If a process is killed
/// or stopped between giving a thing its name and telling of it, watchers find the thing at their
/// recheck, a second later.
pub struct DomainWatch(Followed);

/// What a [`DomainWatch`] follows, as it and its wait sets see it.
#[derive(Clone)]
struct Followed {
    domain: Domain,
    told: Arc<Mutex<Told>>,
}

#[derive(Default)]
struct Told {
    /// `None` before the first report.
    contents: Option<DomainContents>,
    /// What the registry and the folder said before that list, or a later one that was the same.
    seen: Option<(u32, FolderStamp)>,
}

impl Domain {
    /// Follows what appears in the domain and what vanishes from it: things by their names, nodes by
    /// their processes.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-watch-domain-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::state::State;
    /// let mut watch = domain.watch();
    /// assert!(watch.changed()?.names.is_empty());      // the first report comes at once
    /// assert!(watch.try_changed()?.is_none());
    /// let level = State::<u64>::open_or_create(&domain, "level")?;
    /// assert_eq!(watch.changed()?.names, ["level"]);
    /// let node = domain.node("planner").register()?;
    /// assert_eq!(watch.changed()?.nodes[0].name, "planner");
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    #[must_use]
    pub fn watch(&self) -> DomainWatch {
        DomainWatch(Followed { domain: self.clone(), told: Arc::default() })
    }

    /// Returns the names of all things in the domain and its living nodes: what [`Domain::watch`]
    /// reports.
    ///
    /// # Errors
    /// The system's error when the folder cannot be read.
    pub fn contents(&self) -> Result<DomainContents, Error> {
        let folder = self.folder();
        let failed = |errno| Error::from_errno("list", folder.path(), errno);
        let mut names = file::names(folder.fd()?).map_err(failed)?;
        let nodes = self.nodes_among(&names)?;
        names.retain(|name| check_name(name).is_ok());
        Ok(DomainContents { names, nodes })
    }
}

impl Followed {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the present contents if they are not those that were reported.
    fn change(&self, told: &mut Told) -> Result<Option<DomainContents>, Error> {
        let folder = self.domain.folder();
        // Acquire: the list sees the name of which this tells.
        let changes = self.domain.registry().changes().load(Ordering::Acquire);
        let stamp = file::folder_stamp(folder.fd()?)
            .map_err(|errno| Error::from_errno("examine", folder.path(), errno))?;
        let seen = Some((changes, stamp));
        if let Some(contents) = &told.contents
            && told.seen == seen
            && contents.nodes.iter().all(|node| self.domain.registry().is_alive(node.token))
        {
            return Ok(None);
        }
        let now = self.domain.contents()?;
        if told.contents.as_ref() != Some(&now) {
            return Ok(Some(now));
        }
        told.seen = seen;
        Ok(None)
    }

    fn report(&self) -> Result<Option<DomainContents>, Error> {
        let mut told = self.told();
        let now = self.change(&mut told)?;
        if let Some(now) = &now {
            told.contents = Some(now.clone());
            // The next look lists once more, and finds the same.
            told.seen = None;
        }
        Ok(now)
    }
}

impl Told {
    /// Returns the processes of the reported nodes.
    fn owners(&self) -> Vec<TokenId> {
        self.contents.iter().flat_map(|contents| &contents.nodes).map(|node| node.token).collect()
    }
}

impl DomainWatch {
    /// Waits until the contents differ from the last report, and returns them. The first call
    /// returns at once.
    ///
    /// # Errors
    /// [`Error::NoToken`] and errors of the system, also when the domain's folder is gone.
    ///
    /// # If a process dies
    /// See [`DomainWatch`].
    pub fn changed(&mut self) -> Result<DomainContents, Error> {
        Deadline::never(|deadline| self.changed_until(deadline))
    }

    /// Returns the present contents if they have changed since the last report. Never waits.
    ///
    /// # Errors
    /// The errors of [`DomainWatch::changed`].
    pub fn try_changed(&mut self) -> Result<Option<DomainContents>, Error> {
        self.0.report()
    }

    /// Waits until the contents differ from the last report, as long as `span` at most; `None` when
    /// that has passed.
    ///
    /// # Errors
    /// The errors of [`DomainWatch::changed`].
    ///
    /// # If a process dies
    /// See [`DomainWatch`].
    pub fn changed_timeout(&mut self, span: Duration) -> Result<Option<DomainContents>, Error> {
        self.changed_until(Deadline::after(span))
    }

    /// Waits until the contents differ from the last report, until the deadline at most; `None` when
    /// that has passed.
    ///
    /// # Errors
    /// The errors of [`DomainWatch::changed`].
    ///
    /// # If a process dies
    /// See [`DomainWatch`].
    pub fn changed_until(&mut self, deadline: Deadline) -> Result<Option<DomainContents>, Error> {
        let registry = self.0.domain.registry();
        let me = registry.me()?;
        let relay = WakeRelay::begin(me.list());
        let mut start = 0;
        loop {
            // Before the look: a change behind it wakes the sleep at once.
            let word = registry.changes();
            let expected = word.load(Ordering::Acquire);
            if let Some(now) = self.0.report()? {
                return Ok(Some(now));
            }
            if deadline.has_passed() {
                return Ok(None);
            }
            let owners = self.0.told().owners();
            let words = [Watch { word, expected }];
            let until = match registry.recheck() {
                Some(span) => deadline.earlier(Deadline::after(span)),
                None => deadline,
            };
            let slept = Sleep::on(registry, &words)
                .behind(&relay, &owners)
                .beginning_at(start)
                .until(until);
            start = start.wrapping_add(1);
            let (Asleep::LookAgain | Asleep::TimedOut) = slept.map_err(|errno| {
                Error::from_errno("watch", self.0.domain.folder().path(), errno)
            })?;
        }
    }
}

impl Waited for Followed {
    fn look(&self) -> SourceState {
        let mut told = self.told();
        // A failure is worth a try, which returns it.
        match self.change(&mut told) {
            Ok(None) => SourceState::BehindOwners(told.owners(), Deadline::NEVER),
            Ok(Some(_)) | Err(_) => SourceState::Ready(Readiness::Changed),
        }
    }

    /// A process that gives a thing its name may be stopped before it tells of it.
    fn needs_recheck(&self, _: &PreparedWait) -> bool {
        true
    }

    fn add_words<'a>(&'a self, _: &mut PreparedWait, words: &mut WaitWords<'a>) {
        // A process that makes or removes a name raises it, and wakes whether any thread is asleep
        // or not. Acquire: the look that follows sees that name.
        let word = self.domain.registry().changes();
        words.add(&[Watch { word, expected: word.load(Ordering::Acquire) }]);
    }
}

/// Ready when the contents differ from the last report, until [`DomainWatch::try_changed`] has
/// returned them.
impl Source for DomainWatch {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched::of(self.0.clone(), self.0.domain.registry()))
    }
}

impl DomainWatch {
    /// Returns the registry of the domain that it follows.
    pub(crate) fn registry(&self) -> &'static crate::liveness::Registry {
        self.0.domain.registry()
    }
}
