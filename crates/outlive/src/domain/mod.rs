//! A domain, the folder that named things live in.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::liveness::{Me, Peer, Registry, TokenId, TokenInfo};
use crate::segment::{Folder, Segment, Spec, check_name};
use crate::wake::WaitError;
use crate::{Deadline, Error};

/// A folder on a memory file system in which processes meet: every named thing is a file in it.
///
/// Nothing needs to be started or set up. The default domain is `/dev/shm/outlive-UID/default`; `OUTLIVE_DOMAIN` names
/// another one, by name or (with a `/`) by path. Folders are made with mode 0700 and files with 0600, or 0770 and 0660
/// for a group. A folder that belongs to somebody else is refused.
///
/// Cloning is cheap; all clones and all openings of one folder in a process share one registry of tokens.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-domain-{}", std::process::id()));
/// let domain = outlive::Domain::open_at(&folder)?;
/// let me = domain.token()?;
/// assert!(domain.peer(me).is_alive());
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// Nothing in a domain depends on who made it. What the dead claimed is told to whoever comes next, or swept by
/// [`Domain::sweep`].
#[derive(Clone)]
pub struct Domain {
    inner: Arc<Inner>,
}

struct Inner {
    folder: Folder,
    registry: &'static Registry,
}

/// How to open a domain.
///
/// ```
/// use std::time::Duration;
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-options-{}", std::process::id()));
/// let domain = outlive::Domain::options().recheck(Some(Duration::from_secs(5))).open_at(&folder)?;
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DomainOptions {
    create: bool,
    group: Option<u32>,
    recheck: Option<Option<Duration>>,
    lock_order: Option<bool>,
}

/// Figures about a domain as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DomainStats {
    /// Slots for tokens that exist; they grow to 65,536.
    pub slots: u32,
    /// Sleepers that the coarse re-check had to rescue because a wake-up was lost. Should be 0.
    pub rescues: u64,
    /// How often a locker was told that an owner had died or panicked.
    pub owner_deaths: u64,
}

impl DomainOptions {
    /// Whether to make a folder that is not there. Default: yes.
    pub fn create(mut self, create: bool) -> DomainOptions {
        self.create = create;
        self
    }

    /// Shares the domain with the members of this group (its numeric id): 0770 and 0660. By name it lies below
    /// `/dev/shm/outlive-group-GID`, which the first member makes.
    pub fn group(mut self, group: Option<u32>) -> DomainOptions {
        self.group = group;
        self
    }

    /// How long a sleeper of this process that waits for somebody's end, or for what somebody has, sleeps before it looks by
    /// itself (default 1 s), each time; `None` turns that off.
    ///
    /// The look is a few loads. It finds the end of an owner whose notice the kernel gave to another sleeper, and that one was
    /// stopped just then. After one such span, then after two more, four more, up to 64, the sleeper also asks `/proc`
    /// whether the owner's process is still there: the kernel loses the mark of a process whose memory is taken from it before it
    /// has ended (`process_mrelease`, an OOM killer's reaper).
    ///
    /// Receivers, subscribers, servers and waiters on a condition variable look as well: a sender may be stopped between its
    /// message and its notification. A waiter for an event or a latch alone sleeps until it is changed.
    pub fn recheck(mut self, span: Option<Duration>) -> DomainOptions {
        self.recheck = Some(span);
        self
    }

    /// Whether this process records in which order it takes the domain's locks, and tells when the orders recorded so
    /// far, by whatever processes, can deadlock: a debugging aid, which makes each lock some microseconds slower. Default:
    /// whether the environment has `OUTLIVE_LOCK_ORDER=1`. Once on, it stays on until the process ends.
    ///
    /// See [`Domain::on_lock_order`] and [`Domain::lock_orders`]. Watched are [`Mutex`](crate::sync::Mutex),
    /// [`RwLock`](crate::sync::RwLock), [`PiMutex`](crate::sync::PiMutex) and
    /// [`CeilingMutex`](crate::sync::CeilingMutex), named and embedded.
    pub fn lock_order(mut self, watch: bool) -> DomainOptions {
        self.lock_order = Some(watch);
        self
    }

    /// Opens the domain of that name below the user's own folder, `/dev/shm/outlive-UID`; a group's below the group's.
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::Foreign`], [`Error::TooOpen`], [`Error::NoSpace`] and what the system says.
    pub fn open(self, name: &str) -> Result<Domain, Error> {
        check_name(name)?;
        self.finish(Folder::in_base(OsStr::new(name), self.group, self.create)?)
    }

    /// Opens the domain in any folder; its parent must exist.
    ///
    /// # Errors
    /// As [`DomainOptions::open`].
    pub fn open_at(self, path: impl AsRef<Path>) -> Result<Domain, Error> {
        let path = path.as_ref();
        // An absolute path, so that messages and later look-ups do not depend on the working directory.
        let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
        self.finish(Folder::open(&path, self.group, self.create)?)
    }

    fn finish(&self, folder: Folder) -> Result<Domain, Error> {
        let registry = Registry::open(&folder)?;
        if let Some(span) = self.recheck {
            registry.set_recheck(span);
        }
        if self.lock_order.unwrap_or_else(|| std::env::var_os("OUTLIVE_LOCK_ORDER").is_some_and(|on| on == "1")) {
            registry.watch_order();
        }
        Ok(Domain { inner: Arc::new(Inner { folder, registry }) })
    }
}

impl Domain {
    /// How to open a domain otherwise than by default.
    pub fn options() -> DomainOptions {
        DomainOptions { create: true, group: None, recheck: None, lock_order: None }
    }

    /// Opens the domain of that name below the user's own folder, made when missing.
    ///
    /// # Errors
    /// As [`DomainOptions::open`].
    pub fn open(name: &str) -> Result<Domain, Error> {
        Domain::options().open(name)
    }

    /// Opens the domain that `OUTLIVE_DOMAIN` names (a path if it has a `/`), else the one named `default`.
    ///
    /// # Errors
    /// As [`DomainOptions::open`].
    pub fn open_default() -> Result<Domain, Error> {
        match std::env::var("OUTLIVE_DOMAIN") {
            Ok(path) if path.contains('/') => Domain::open_at(path),
            Ok(name) if !name.is_empty() => Domain::open(&name),
            _ => Domain::open("default"),
        }
    }

    /// Opens the domain in any folder, made when missing; its parent must exist.
    ///
    /// # Errors
    /// As [`DomainOptions::open`].
    pub fn open_at(path: impl AsRef<Path>) -> Result<Domain, Error> {
        Domain::options().open_at(path)
    }

    /// The domain's folder.
    pub fn path(&self) -> &Path {
        self.inner.folder.path()
    }

    /// The calling thread's token, claimed if it has none yet. It lives until the thread ends.
    ///
    /// # Errors
    /// [`Error::NoToken`] when all are in use, [`Error::NoSpace`] when the registry cannot grow, [`Error::ForeignThread`] in a
    /// thread that libc does not know, [`Error::DeclaredDead`] when the token that the thread had was declared dead.
    ///
    /// # If a process dies
    /// Its threads' tokens read dead from then on, for ever.
    pub fn token(&self) -> Result<TokenId, Error> {
        self.me().map(|me| me.id)
    }

    /// The process's token, claimed if it has none yet. It lives until the process's last thread has ended.
    ///
    /// Claimed first by another thread than main, a tiny sleeping thread holds it: the keeper. It has the users, groups and
    /// capabilities of the thread that started it, and libc's `setuid` and its like do not reach it. A process that gives such
    /// rights up asks for this token afterwards (again, if it has it already): a keeper with other rights than the caller is then
    /// replaced. Where main asks first, no keeper is needed until main leaves.
    ///
    /// # Errors
    /// As [`Domain::token`]; [`Error::DeclaredDead`] when the token was declared dead; what the system says when a keeper
    /// cannot be replaced.
    pub fn process_token(&self) -> Result<TokenId, Error> {
        let id = self.inner.registry.process_token()?;
        self.inner.registry.renew_keeper()?;
        Ok(id)
    }

    /// Whoever bears that token.
    pub fn peer(&self, id: TokenId) -> Peer {
        Peer::new(self.inner.registry, id)
    }

    /// Sleeps until one of those tokens' owners has ended, and says which; returns at once if one is dead already.
    ///
    /// The kernel watches 30 owners at once; of more, the others are looked at every 10 ms.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] when the deadline passes first (also when there are no tokens at all), or what kept the
    /// caller from waiting.
    ///
    /// # If a process dies
    /// All who wait for it are woken, alone or among others. Another waiter's death delays nobody.
    pub fn wait_any_dead(&self, ids: &[TokenId], deadline: impl Into<Deadline>) -> Result<TokenId, WaitError> {
        self.inner.registry.wait_any_dead(ids, deadline.into())
    }

    /// All tokens that have been claimed and not retired, alive or dead.
    pub fn tokens(&self) -> Vec<TokenInfo> {
        let registry = self.inner.registry;
        (0..registry.slots()).filter_map(|index| registry.info(index)).collect()
    }

    /// Figures about the domain as a whole.
    pub fn stats(&self) -> DomainStats {
        let registry = self.inner.registry;
        DomainStats { slots: registry.slots(), rescues: registry.rescues(), owner_deaths: registry.owner_deaths() }
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

    /// Opens a named thing, or makes it.
    pub(crate) fn create_or_open(
        &self,
        name: &str,
        spec: &Spec,
        init: impl Fn(&Segment) -> Result<(), Error>,
    ) -> Result<Segment, Error> {
        check_name(name)?;
        Segment::create_or_open(self.folder(), name, spec, init)
    }

    /// Opens a named thing that must be there.
    pub(crate) fn open_segment(&self, name: &str) -> Result<Segment, Error> {
        check_name(name)?;
        Segment::open(self.folder(), name)
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

    /// A crowd of threads finds all slots in use at once. Each that grew what another had grown meanwhile would double
    /// it, to the largest registry and [`Error::NoToken`] beside thousands of free slots.
    #[test]
    fn who_comes_late_does_not_grow_the_registry_that_another_has_grown() {
        let folder = std::env::temp_dir().join(format!("outlive-growing-{}", std::process::id()));
        let domain = Domain::open_at(&folder).expect("opens");
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
