//! The domain: a folder that holds named things.

mod attributes;
mod budget;
mod core_dump;
mod extension;
mod group;
mod options;
mod resident;

use std::cell::Cell;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::liveness::{Me, Peer, REGISTRY_FILE, Registry, TokenId, TokenInfo};
use crate::segment::{Attributes, DEFAULT_DOMAIN, Folder, Opening, Segment, Spec, check_name};
use crate::sys::file::Rights;
use crate::wake::{WaitError, WaitStrategy};
use crate::{Deadline, Error};

pub use attributes::WithAttributes;
pub(crate) use extension::owner_of as owner_of_extension;
pub(crate) use options::{Differ, agree, check_range, three_openings};

/// A folder on a memory file system in which processes meet: every named thing is a file in it.
///
/// Nothing needs to be started or set up. The default domain is `/dev/shm/outlive-UID/default`;
/// `OUTLIVE_DOMAIN` names another one, by name or (with a `/`) by path. Outlive makes folders with
/// mode 0700 and files with 0600, or 0770 and 0660 for a group. It refuses a folder that belongs to
/// another user, and one that holds other things than a domain.
///
/// Cloning is cheap. All clones, and all openings of one folder in a process, share one registry of
/// tokens.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-domain-{}", std::process::id()));
/// let domain = outlive::Domain::open_or_create_at(&folder)?;
/// let me = domain.token()?;
/// assert!(domain.peer(me).is_alive());
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// A domain does not depend on the process that made it. The next process that meets a dead owner's
/// claim learns of the death or takes the claim over; [`Domain::sweep`] clears what no process
/// meets.
#[derive(Clone)]
pub struct Domain {
    inner: Arc<Inner>,
    /// What the things that are made by this handle carry.
    attributes: Option<Arc<Attributes>>,
}

struct Inner {
    folder: Folder,
    registry: &'static Registry,
}

/// Says how to open a domain.
///
/// ```
/// use std::time::Duration;
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-options-{}", std::process::id()));
/// let domain = outlive::Domain::options().recheck(Some(Duration::from_secs(5))).open_or_create_at(&folder)?;
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until they open a domain"]
pub struct DomainOptions {
    group: Option<u32>,
    recheck: Option<Option<Duration>>,
    lock_order: Option<bool>,
    wait: Option<WaitStrategy>,
    core_dump: Option<bool>,
}

/// Holds figures about a domain as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DomainStats {
    /// Slots for tokens in the registry's file, used or not; the registry grows up to 65,536.
    pub slots: u32,
    /// How many sleepers found by their own recheck what a lost wake-up should have told them.
    /// Should be 0.
    pub rescues: u64,
    /// How many times a process took over what a dead owner had: a lock whose next locker was told
    /// (also of a panic), a permit, a job that was taken, set aside, retried or discarded. What a
    /// sweep gives back is not counted.
    pub owner_deaths: u64,
}

/// Returns the error that a configuration file's group is none, with its place.
#[cfg(feature = "config")]
fn of_file(config: &crate::config::Config, error: Error) -> Error {
    let setting = config.settings().iter().find(|setting| setting.key == "group");
    match (setting, error) {
        (Some(setting), Error::InvalidOption { wanted, why, .. }) => Error::InvalidConfig {
            path: setting.path.as_path().into(),
            line: setting.line,
            column: 1,
            why: format!("the group cannot be {wanted}; choose {why}").into(),
        },
        (_, other) => other,
    }
}

impl DomainOptions {
    /// Shares the domain with the members of this group (its numeric id): folders get mode 0770,
    /// files 0660. A domain that is opened by name then lies below `/dev/shm/outlive-group-GID`,
    /// which the first member makes.
    pub fn group(mut self, group: Option<u32>) -> DomainOptions {
        self.group = group;
        self
    }

    /// Shares the domain as [`DomainOptions::group`] does, with a group given by its name or, in
    /// decimal, its id.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when `/etc/group` has no such name. For a group that another name
    /// service knows, give its id.
    pub fn group_named(self, group: &str) -> Result<DomainOptions, Error> {
        Ok(self.group(Some(group::id_of(group)?)))
    }

    /// Shares the domain with the group that `OUTLIVE_GROUP` names, by name or id. Changes nothing
    /// when that is not set, or when these options name a group already.
    ///
    /// # Errors
    /// As [`DomainOptions::group_named`].
    pub fn group_of_environment(self) -> Result<DomainOptions, Error> {
        match std::env::var("OUTLIVE_GROUP") {
            Ok(group) if self.group.is_none() && !group.is_empty() => self.group_named(&group),
            _ => Ok(self),
        }
    }

    /// Returns the id of the group that shares the domain, if one does.
    pub fn group_id(&self) -> Option<u32> {
        self.group
    }

    /// Returns the folder in which the domain of that name lies, whether it exists or not.
    ///
    /// # Errors
    /// [`Error::InvalidName`].
    pub fn folder_of(&self, name: &str) -> Result<PathBuf, Error> {
        check_name(name)?;
        Ok(Folder::base(self.group).join(name))
    }

    /// Sets how long a sleeper of this process sleeps before it looks again by itself (default 1
    /// s), each time; `None` turns that off. It concerns sleepers that wait for the end of a thread
    /// or process, or for what one holds.
    ///
    /// The look is a few loads. It finds the death of an owner when the kernel gave the notice to
    /// another sleeper, and that sleeper was stopped just then. After one such span, then after two
    /// more, four more, up to 64, the sleeper also asks `/proc` whether the owner's process still
    /// exists: the kernel loses the mark of a process when it takes the memory from it before it
    /// has exited (`process_mrelease`, an OOM killer's reaper).
    ///
    /// Receivers, subscribers, servers and waiters on a condition variable look as well: a sender
    /// may be stopped between its message and its notification. A waiter for an event or a latch
    /// alone sleeps until that changes.
    pub fn recheck(mut self, span: Option<Duration>) -> DomainOptions {
        self.recheck = Some(span);
        self
    }

    /// Sets how all handles wait that this process makes in this domain from now on, and that are told
    /// nothing else by an option of their own. It holds for the domain in the whole process. Default:
    /// what the configuration file says, for the domain that it names
    /// ([`Domain::open_default`]); else [`WaitStrategy::Adaptive`].
    pub fn wait_strategy(mut self, wait: WaitStrategy) -> DomainOptions {
        self.wait = Some(wait);
        self
    }

    /// Sets whether this process records in which order it takes the domain's locks, and reports
    /// when the orders that all processes have recorded so far can deadlock: a debugging aid, which
    /// makes each lock some microseconds slower. Default: whether the environment has
    /// `OUTLIVE_LOCK_ORDER=1`. Once on, it stays on until the process ends.
    ///
    /// See [`Domain::on_lock_order`] and [`Domain::lock_orders`]. The record covers
    /// [`Mutex`](crate::sync::Mutex), [`ReentrantMutex`](crate::sync::ReentrantMutex), [`RwLock`](crate::sync::RwLock),
    /// [`PiMutex`](crate::sync::PiMutex) and [`CeilingMutex`](crate::sync::CeilingMutex), named and
    /// embedded.
    pub fn lock_order(mut self, watch: bool) -> DomainOptions {
        self.lock_order = Some(watch);
        self
    }

    /// Opens the domain of that name below the user's own folder, `/dev/shm/outlive-UID`, or below
    /// the group's folder, and makes it if it does not exist.
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::NotADomain`], [`Error::Untrusted`], [`Error::NoSpace`] and
    /// errors of the system.
    pub fn open_or_create(self, name: &str) -> Result<Domain, Error> {
        self.open_named(name, Opening::OpenOrCreate)
    }

    /// Opens the existing domain of that name. Neither a folder nor a file is made.
    ///
    /// # Errors
    /// [`Error::NotFound`], also when the folder is empty; otherwise as [`DomainOptions::open_or_create`].
    pub fn open(self, name: &str) -> Result<Domain, Error> {
        self.open_named(name, Opening::Open)
    }

    /// Makes a new domain of that name.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`]; otherwise as [`DomainOptions::open_or_create`].
    pub fn create_new(self, name: &str) -> Result<Domain, Error> {
        self.open_named(name, Opening::CreateNew)
    }

    /// Opens the domain in any folder, and makes the folder if it does not exist; its parent must
    /// exist. An empty folder becomes a domain; one that holds other things is
    /// [`Error::NotADomain`], and is left as it is.
    ///
    /// # Errors
    /// As [`DomainOptions::open_or_create`].
    pub fn open_or_create_at(self, path: impl AsRef<Path>) -> Result<Domain, Error> {
        self.open_folder(path.as_ref(), Opening::OpenOrCreate)
    }

    /// Opens the existing domain in any folder.
    ///
    /// # Errors
    /// As [`DomainOptions::open`].
    pub fn open_at(self, path: impl AsRef<Path>) -> Result<Domain, Error> {
        self.open_folder(path.as_ref(), Opening::Open)
    }

    /// Makes a new domain in a folder that does not exist yet; its parent must exist.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`]; otherwise as [`DomainOptions::open_or_create`].
    pub fn create_new_at(self, path: impl AsRef<Path>) -> Result<Domain, Error> {
        self.open_folder(path.as_ref(), Opening::CreateNew)
    }

    /// Opens the default domain, and makes it if it does not exist. `OUTLIVE_DOMAIN` names it (a
    /// path if it contains a `/`), or else the `domain` of the configuration file (`config`), or
    /// else it is the one named `default`.
    ///
    /// Unless these options name a group, `OUTLIVE_GROUP` does, by name or id, or else the
    /// configuration file, whose group shares the default domain that no variable names.
    ///
    /// # Errors
    /// As [`DomainOptions::open_or_create`]; [`Error::InvalidOption`] when there is no group of
    /// that name; [`Error::InvalidConfig`], and errors of reading the configuration file.
    pub fn open_default(self) -> Result<Domain, Error> {
        let (options, place) = self.default_place()?;
        if place.contains('/') {
            options.open_or_create_at(place)
        } else {
            options.open_or_create(&place)
        }
    }

    /// Returns what [`DomainOptions::open_default`] opens: these options with the default domain's
    /// group, and the domain's name, or its path if that contains a `/`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when there is no group of that name; [`Error::InvalidConfig`], and
    /// errors of reading the configuration file.
    pub fn default_place(self) -> Result<(DomainOptions, String), Error> {
        let options = self.group_of_environment()?;
        match std::env::var("OUTLIVE_DOMAIN") {
            Ok(named) if !named.is_empty() => Ok((options, named)),
            _ => options.configured_place(),
        }
    }

    /// Returns the place of the configuration file, which is read when no variable of the
    /// environment names a domain, and only then.
    #[cfg(feature = "config")]
    fn configured_place(self) -> Result<(DomainOptions, String), Error> {
        let config = crate::config::Config::load()?;
        let wait = self.wait.or(config.wait_strategy());
        let options = DomainOptions { wait, ..self };
        let options = match config.group() {
            Some(group) if options.group.is_none() => {
                options.group_named(group).map_err(|error| of_file(&config, error))?
            }
            _ => options,
        };
        Ok((options, config.domain().unwrap_or(DEFAULT_DOMAIN).to_owned()))
    }

    #[cfg(not(feature = "config"))]
    fn configured_place(self) -> Result<(DomainOptions, String), Error> {
        Ok((self, DEFAULT_DOMAIN.to_owned()))
    }

    fn open_named(&self, name: &str, opening: Opening) -> Result<Domain, Error> {
        check_name(name)?;
        let folder = Folder::in_base(OsStr::new(name), self.group, opening, REGISTRY_FILE)?;
        self.finish(folder, opening)
    }

    fn open_folder(&self, path: &Path, opening: Opening) -> Result<Domain, Error> {
        // Absolute, so that messages and later look-ups do not depend on the working directory.
        let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
        self.finish(Folder::open(&path, self.group, opening, REGISTRY_FILE)?, opening)
    }

    fn finish(&self, folder: Folder, opening: Opening) -> Result<Domain, Error> {
        core_dump::apply(self.core_dump);
        let registry = Registry::open(&folder).inspect_err(|_| {
            if opening == Opening::CreateNew {
                // Made just now; it stays if another process has put something into it.
                folder.remove_if_empty();
            }
        })?;
        if let Some(span) = self.recheck {
            registry.set_recheck(span);
        }
        if let Some(wait) = self.wait {
            registry.set_wait_strategy(wait);
        }
        if self
            .lock_order
            .unwrap_or_else(|| std::env::var_os("OUTLIVE_LOCK_ORDER").is_some_and(|on| on == "1"))
        {
            registry.watch_order();
        }
        Ok(Domain { inner: Arc::new(Inner { folder, registry }), attributes: None })
    }
}

impl Domain {
    /// Returns the options for opening a domain otherwise than by default.
    pub fn options() -> DomainOptions {
        DomainOptions { group: None, recheck: None, lock_order: None, wait: None, core_dump: None }
    }

    /// Returns how handles wait that this process makes in this domain, unless an option of their own
    /// says otherwise: see [`DomainOptions::wait_strategy`].
    #[must_use]
    pub fn wait_strategy(&self) -> WaitStrategy {
        self.registry().wait_strategy()
    }

    /// Opens the domain of that name below the user's own folder, and makes it if it does not
    /// exist.
    ///
    /// # Errors
    /// As [`DomainOptions::open_or_create`].
    pub fn open_or_create(name: &str) -> Result<Domain, Error> {
        Domain::options().open_or_create(name)
    }

    /// Opens the existing domain of that name below the user's own folder.
    ///
    /// # Errors
    /// As [`DomainOptions::open`].
    pub fn open(name: &str) -> Result<Domain, Error> {
        Domain::options().open(name)
    }

    /// Makes a new domain of that name below the user's own folder.
    ///
    /// # Errors
    /// As [`DomainOptions::create_new`].
    pub fn create_new(name: &str) -> Result<Domain, Error> {
        Domain::options().create_new(name)
    }

    /// Opens the domain in any folder, and makes the folder if it does not exist; its parent must
    /// exist.
    ///
    /// # Errors
    /// As [`DomainOptions::open_or_create`].
    pub fn open_or_create_at(path: impl AsRef<Path>) -> Result<Domain, Error> {
        Domain::options().open_or_create_at(path)
    }

    /// Opens the existing domain in any folder.
    ///
    /// # Errors
    /// As [`DomainOptions::open`].
    pub fn open_at(path: impl AsRef<Path>) -> Result<Domain, Error> {
        Domain::options().open_at(path)
    }

    /// Makes a new domain in a folder that does not exist yet; its parent must exist.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-new-domain-{}", std::process::id()));
    /// use outlive::{Domain, Error};
    ///
    /// let mine = Domain::create_new_at(&folder)?;
    /// assert!(matches!(Domain::create_new_at(&folder), Err(Error::AlreadyExists { .. })));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`DomainOptions::create_new_at`].
    pub fn create_new_at(path: impl AsRef<Path>) -> Result<Domain, Error> {
        Domain::options().create_new_at(path)
    }

    /// Opens the default domain, and makes it if it does not exist: the one that `OUTLIVE_DOMAIN`
    /// names (a path if it contains a `/`), or else the configuration file, or else the one named
    /// `default`. `OUTLIVE_GROUP`, or else that file, names the group that shares it, by name or id.
    ///
    /// # Errors
    /// As [`DomainOptions::open_default`].
    pub fn open_default() -> Result<Domain, Error> {
        Domain::options().open_default()
    }

    /// Returns the path of the domain's folder.
    pub fn path(&self) -> &Path {
        self.inner.folder.path()
    }

    /// Returns the id of the group that shares the domain, if one does. A process of another
    /// member's opens the domain by its path with that group:
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-group-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::Domain;
    ///
    /// assert_eq!(domain.group_id(), None, "it is this user's alone");
    /// let again = Domain::options().group(domain.group_id()).open_at(domain.path())?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn group_id(&self) -> Option<u32> {
        self.inner.folder.access().group()
    }

    /// Returns the calling thread's token, and claims one if it has none yet. The token lives until
    /// the thread ends.
    ///
    /// # Errors
    /// [`Error::NoToken`] when all are in use, [`Error::NoSpace`] when the registry cannot grow,
    /// [`Error::ForeignThread`] in a thread that libc does not know, [`Error::DeclaredDead`] when
    /// the thread's token was declared dead.
    ///
    /// # If a process dies
    /// From then on, for ever, the tokens of its threads are dead.
    pub fn token(&self) -> Result<TokenId, Error> {
        self.me().map(|me| me.id)
    }

    /// Returns the process's token, and claims one if it has none yet. The token lives until the
    /// process's last thread has ended.
    ///
    /// If a thread other than main claims it first, a tiny sleeping thread holds it: the keeper.
    /// The keeper has the users, groups and capabilities of the thread that started it, and libc's
    /// `setuid` and its like do not reach it. A process that gives up such rights should call this
    /// again afterwards: it then replaces a keeper whose rights differ from the caller's. If main
    /// asks first, the process needs no keeper until main exits.
    ///
    /// # Errors
    /// As [`Domain::token`]; [`Error::DeclaredDead`] when the token was declared dead; errors of
    /// the system when a keeper cannot be replaced.
    pub fn process_token(&self) -> Result<TokenId, Error> {
        let id = self.inner.registry.process_token()?;
        self.inner.registry.renew_keeper()?;
        Ok(id)
    }

    /// Returns the thread or process that holds that token.
    pub fn peer(&self, id: TokenId) -> Peer {
        Peer::new(self.inner.registry, id)
    }

    /// Sleeps until the owner of one of those tokens has ended, and returns that token; returns at
    /// once if one is dead already. Without tokens it waits for ever.
    ///
    /// For up to 30 owners, a death wakes the caller. For more, the kernel watches one word of each
    /// of up to 124, and the caller looks at all of them once a second.
    ///
    /// # Errors
    /// [`WaitError::System`] when the caller could not wait.
    ///
    /// # If a process dies
    /// Its death wakes every thread that waits for it, alone or among up to 124; among more, a
    /// thread finds it within a second. The death of another waiter delays none.
    pub fn wait_any_dead(&self, ids: &[TokenId]) -> Result<TokenId, WaitError> {
        Deadline::never(|deadline| self.wait_any_dead_until(ids, deadline))
    }

    /// Returns the first of those tokens whose owner has ended, and `None` when all live. Never
    /// waits.
    ///
    /// # Errors
    /// None, so far: it has the form of the other three.
    pub fn try_wait_any_dead(&self, ids: &[TokenId]) -> Result<Option<TokenId>, WaitError> {
        Ok(self.inner.registry.any_dead(ids))
    }

    /// Waits as [`Domain::wait_any_dead`] does, for so long at most; returns `None` when all still
    /// live.
    ///
    /// # Errors
    /// As [`Domain::wait_any_dead`].
    ///
    /// # If a process dies
    /// As with [`Domain::wait_any_dead`].
    pub fn wait_any_dead_timeout(
        &self,
        ids: &[TokenId],
        timeout: Duration,
    ) -> Result<Option<TokenId>, WaitError> {
        self.wait_any_dead_until(ids, Deadline::after(timeout))
    }

    /// Waits as [`Domain::wait_any_dead`] does, until the deadline; returns `None` when all still
    /// live.
    ///
    /// # Errors
    /// As [`Domain::wait_any_dead`].
    ///
    /// # If a process dies
    /// As with [`Domain::wait_any_dead`].
    pub fn wait_any_dead_until(
        &self,
        ids: &[TokenId],
        deadline: Deadline,
    ) -> Result<Option<TokenId>, WaitError> {
        self.inner.registry.wait_any_dead(ids, deadline)
    }

    /// Returns all tokens that are claimed and not retired, alive or dead.
    pub fn tokens(&self) -> Vec<TokenInfo> {
        let registry = self.inner.registry;
        (0..registry.slots()).filter_map(|index| registry.info(index)).collect()
    }

    /// Returns figures about the domain as a whole.
    pub fn stats(&self) -> DomainStats {
        let registry = self.inner.registry;
        DomainStats {
            slots: registry.slots(),
            rescues: registry.rescues(),
            owner_deaths: registry.owner_deaths(),
        }
    }

    pub(crate) fn me(&self) -> Result<Me, Error> {
        self.inner.registry.me()
    }

    pub(crate) fn registry(&self) -> &'static Registry {
        self.inner.registry
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.inner.folder
    }

    /// Opens a named thing or makes it, as `opening` says.
    pub(crate) fn open_as(
        &self,
        name: &str,
        opening: Opening,
        spec: &Spec,
        init: impl Fn(&Segment) -> Result<(), Error>,
    ) -> Result<Segment, Error> {
        Ok(self.open_prepared(name, opening, spec, init, |_| Ok(()))?.0)
    }

    /// Opens it as [`Domain::open_as`] does, for a kind whose handles need what may fail:
    /// `prepare` does that before a new file gets its name.
    pub(crate) fn open_prepared<L>(
        &self,
        name: &str,
        opening: Opening,
        spec: &Spec,
        init: impl Fn(&Segment) -> Result<(), Error>,
        prepare: impl Fn(&Segment) -> Result<L, Error>,
    ) -> Result<(Segment, L), Error> {
        check_name(name)?;
        let bytes = match &self.attributes {
            Some(attributes) => attributes.to_bytes()?,
            None => Vec::new(),
        };
        let is_made = Cell::new(false);
        let init = |segment: &Segment| {
            is_made.set(true);
            segment.write_attributes(&bytes)?;
            init(segment)
        };
        // Before a new file has its name, as all that can fail: its attributes are right then.
        let prepare = |segment: &Segment| {
            if let Some(wanted) = &self.attributes {
                segment.check_attributes(wanted)?;
            }
            prepare(segment)
        };
        let opened = Segment::open_as(self.folder(), name, opening, spec, init, prepare)?;
        // Or another process was quicker, which the watchers need not know.
        if is_made.get() {
            self.registry().note_change();
        }
        Ok(opened)
    }

    /// Opens a named thing that must exist.
    pub(crate) fn open_segment(&self, name: &str) -> Result<Segment, Error> {
        self.open_segment_with(name, Rights::ReadWrite)
    }

    /// Opens a named thing that must exist.
    pub(crate) fn open_segment_with(&self, name: &str, rights: Rights) -> Result<Segment, Error> {
        check_name(name)?;
        let segment = Segment::open_with(self.folder(), name, rights)?;
        if let Some(wanted) = &self.attributes {
            segment.check_attributes(wanted)?;
        }
        Ok(segment)
    }
}

impl std::fmt::Debug for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Domain").field("path", &self.path()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many threads find all slots in use at once. If each of them grew the registry that another
    /// had grown meanwhile, they would double it up to the largest registry, and return
    /// [`Error::NoToken`] beside thousands of free slots.
    #[test]
    fn who_comes_late_does_not_grow_the_registry_that_another_has_grown() {
        let folder = std::env::temp_dir().join(format!("outlive-growing-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let registry = domain.registry();
        let first = registry.slots();
        for _ in 0..20 {
            registry.grow(first).expect("grown, by one of them");
        }
        assert_eq!(registry.slots(), 2 * first);
        registry.grow(2 * first).expect("grown");
        assert_eq!(registry.slots(), 4 * first);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
