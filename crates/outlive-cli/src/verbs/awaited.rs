//! Waiting for a thing that is not there yet: what the verbs that follow a name over time share.
//!
//! They make neither the thing, because only its maker knows what it is to be, nor its domain,
//! because looking changes nothing. The kernel tells by inotify when a name comes: in the domain's
//! folder, or, as long as there is no such folder, in the one where it will lie.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use outlive::{Domain, Error};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::domain::DomainArgs;
use crate::exit::{Code, Failure};
use crate::names;
use crate::output::talk;
use crate::signals::{Signals, wait_readable};

/// A thing that may not be there, and whose domain may not be there.
pub struct Awaited {
    /// The process that makes it, as in "a publisher".
    maker: &'static str,
    name: String,
    args: DomainArgs,
    /// Whether it was said that it is waited for.
    told: bool,
}

/// What ended a wait.
pub enum Found<T> {
    /// The thing is there, and open.
    Thing(T),
    /// The moment came first.
    Late,
    /// A signal came that asks the verb to end.
    End,
}

impl Awaited {
    /// Nothing is looked for yet.
    pub fn new(maker: &'static str, name: &str, args: &DomainArgs) -> Awaited {
        Awaited { maker, name: name.to_owned(), args: args.clone(), told: false }
    }

    /// The domain itself is waited for.
    pub fn domain(args: &DomainArgs) -> Awaited {
        Awaited::new("a process", "", args)
    }

    /// Says that the wait for the domain was in vain.
    pub fn no_domain(&self) -> Failure {
        let text = format!("there is no domain {}", self.args.path().display());
        Failure::new(Code::NotFound, text)
    }

    /// Says that the wait was in vain: what was looked for, by its noun, is still not there.
    pub fn not_there(&self, noun: &str) -> Failure {
        let (name, path) = (self.name.escape_debug(), self.args.path());
        let meant = self.meant(&path);
        let text = format!("there is no {noun} '{name}' in {}{meant}", path.display());
        Failure::new(Code::NotFound, text)
    }

    /// Asks whether another name was meant, if there is one that is much like it.
    fn meant(&self, domain: &Path) -> String {
        let name = names::similar(&domain.join(&self.name));
        name.map_or_else(String::new, |name| format!("; is '{}' meant?", name.escape_debug()))
    }

    /// Says that the thing has been removed. The next one of its name is waited for.
    pub fn removed(&mut self) {
        talk(format_args!("'{}' has been removed", self.name.escape_debug()));
        self.told = false;
    }

    /// Opens the thing, if it is there. That it is not is an error with `--no-create` alone.
    pub fn open<T>(
        &mut self,
        open: impl FnOnce(&Domain, &str) -> Result<T, Error>,
    ) -> Result<Option<T>, Failure> {
        let opened = self.args.open_existing().and_then(|domain| open(&domain, &self.name));
        match opened {
            Ok(thing) => Ok(Some(thing)),
            Err(Error::NotFound { .. }) if !self.args.no_create => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sleeps until the thing is there and opens it, or until that moment or a signal comes.
    /// Without `signals`, they do what they do to every program.
    pub fn wait<T>(
        &mut self,
        mut signals: Option<&mut Signals>,
        until: Option<Instant>,
        open: impl Fn(&Domain, &str) -> Result<T, Error>,
    ) -> Result<Found<T>, Failure> {
        loop {
            // The watch begins before the look: what is made in between is found by the look.
            let watch = self.watch()?;
            if let Some(thing) = self.open(&open)? {
                return Ok(Found::Thing(thing));
            }
            // At a moment that has passed there is no wait to tell of.
            if until.is_none_or(|until| Instant::now() < until) {
                self.tell();
            }
            let failed = |error: io::Error| Failure::system("wait for a name", &error);
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let signals_fd = signals.as_deref().map(Signals::as_fd);
            let fds: Vec<BorrowedFd<'_>> = signals_fd.into_iter().chain([watch.as_fd()]).collect();
            wait_readable(&fds, left).map_err(failed)?;
            if let Some(signals) = &mut signals
                && signals.came()?
            {
                return Ok(Found::End);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(Found::Late);
            }
        }
    }

    fn tell(&mut self) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        let (maker, name, path) = (self.maker, self.name.escape_debug(), self.args.path());
        if self.name.is_empty() {
            talk(format_args!("waiting for {maker} to make the domain {}", path.display()));
            return;
        }
        let in_domain =
            if path.is_dir() { String::new() } else { format!(" in {}", path.display()) };
        let meant = self.meant(&path);
        talk(format_args!("waiting for {maker} to make '{name}'{in_domain}{meant}"));
    }

    /// Watches the folder in which something must come next.
    fn watch(&self) -> Result<OwnedFd, Failure> {
        let path = self.args.path();
        let path = std::path::absolute(&path).unwrap_or(path);
        let folder = self.nearest(path)?;
        let doing = format!("watch {}", folder.display());
        let failed = |errno: rustix::io::Errno| Failure::system(&doing, &errno.into());
        let watch = inotify::init(CreateFlags::CLOEXEC).map_err(failed)?;
        let news = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        match inotify::add_watch(&watch, &folder, news) {
            Ok(_) => Ok(watch),
            // It went just now: the opening that follows says so, or the next watch finds another.
            Err(rustix::io::Errno::NOENT) => {
                let parent = folder.parent().unwrap_or(&folder);
                inotify::add_watch(&watch, parent, news).map_err(failed)?;
                Ok(watch)
            }
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Returns the domain's folder or, while there is none, the folder in which it will be made.
    fn nearest(&self, path: PathBuf) -> Result<PathBuf, Failure> {
        if path.is_dir() {
            return Ok(path);
        }
        match path.parent().filter(|parent| parent.is_dir()) {
            Some(parent) => Ok(parent.to_owned()),
            // A user's or group's own folder of domains is made with the first of them. Where a
            // path was given, no process makes its parents.
            None if self.args.is_path() => Err(Error::NotFound { path }.into()),
            None => Ok(PathBuf::from("/dev/shm")),
        }
    }
}
