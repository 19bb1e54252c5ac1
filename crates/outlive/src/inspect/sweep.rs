//! Taking the names of the dead out of a whole domain.
//!
//! No process needs a sweep to go on, because each deals with the dead owners' claims that it
//! meets. A sweep frees the claims that no process meets, and ends the quarantine of token slots
//! whose numbers have been used once. It may be cut short anywhere; the next one goes on.

use std::path::Path;

use crate::domain::owner_of_extension;
use crate::queue::Queue;
use crate::segment::{Folder, Segment, control_file};
use crate::state::State;
use crate::sync::primitives;
use crate::sys::file::{self, Rights};
use crate::{Domain, Error, Kind, TokenId};

/// Says what a sweep found and, unless it was a dry run, cleaned up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Claims of the dead: locks, slots and ends of queues, writers and readers of states, doorbells
    /// of wait sets.
    pub claims: u32,
    /// Objects, of pools and of queues, that the dead held.
    pub objects: u32,
    /// Tokens of the dead. They stay for a later sweep if `ending` is not 0 or something `failed`.
    pub tokens: u32,
    /// Token slots that were in quarantine since their numbers were used up.
    pub quarantined: u32,
    /// Things that keep something of dead processes of which a thread may still be writing: a later
    /// sweep frees it. If the system tells nothing about such a process, that is a second later.
    pub ending: u32,
    /// Bytes of memory returned to the system: of pools, what was free and exceeded the recent
    /// need; of queues, what no message used. (What topics and services return is not counted.)
    pub bytes: u64,
    /// Things that could not be swept, and why.
    pub failed: Vec<(String, Error)>,
}

impl SweepReport {
    /// Returns whether the sweep found nothing that the dead had left.
    pub fn is_clean(&self) -> bool {
        *self == SweepReport { bytes: self.bytes, ..SweepReport::default() }
    }
}

impl Domain {
    /// Cleans up after the dead: their claims, objects and tokens. The next process to use what
    /// they guarded is still told. `dry_run` only looks.
    ///
    /// # Errors
    /// The system's error when the folder cannot be read. The report lists each thing that cannot
    /// be swept.
    ///
    /// # If a process dies
    /// The sweeper: the next sweep goes on. Others, meanwhile: this sweep frees some of what they
    /// leave, the next one the rest.
    pub fn sweep(&self, dry_run: bool) -> Result<SweepReport, Error> {
        let registry = self.registry();
        let mut report = SweepReport::default();
        // Before the first look: after it, only slots that were in quarantine and tokens that were
        // dead by then can be released.
        let quarantined = registry.quarantined();
        let dead = registry.dead();
        // Names of dead threads of living processes: their slots stay in quarantine, or another
        // thread would get their numbers.
        let mut kept = Vec::new();
        for name in self.names()? {
            match self.sweep_entry(&name, dry_run, &mut report, &mut kept) {
                Ok(left) => report.ending += u32::from(left),
                // Its own name goes first when a thing is removed.
                Err(Error::NotFound { path })
                    if control_file::is_path_of_one(&path)
                        && Segment::open_with(self.folder(), &name, Rights::Read).is_ok() =>
                {
                    let what = "its control file, which is missing";
                    let path = self.folder().file_path(&name);
                    report.failed.push((name, Error::Damaged { path, what }));
                }
                // Removed meanwhile.
                Err(Error::NotFound { .. }) => {}
                // Not a file of Outlive's: it holds no claims.
                Err(Error::NotASegment { .. }) => {}
                Err(error) => report.failed.push((name, error)),
            }
        }
        report.claims += registry.sweep_doorbells(dry_run);
        if !dry_run {
            self.sweep_extensions()?;
            control_file::sweep(self.folder())?;
        }
        report.quarantined = quarantined.len() as u32;
        let has_seen_all = report.failed.is_empty() && report.ending == 0;
        if !dry_run && has_seen_all {
            registry.end_quarantine(&quarantined, &kept);
        }
        // Only its token shows that a name left somewhere is a dead process's. Once the token is
        // retired, no process can ask whether that process has exited. A process that died after
        // the first look may have names where this sweep has been already, so its token stays for
        // the next sweep.
        report.tokens =
            if dry_run || !has_seen_all { dead.len() as u32 } else { registry.retire_dead(&dead) };
        Ok(report)
    }

    /// Removes the files of dead processes that extensions have registered by
    /// [`Domain::extension_file`]. A program that knows nothing of an extension removes them, too.
    ///
    /// # Errors
    /// [`Error::System`]: the folder cannot be listed.
    #[doc(hidden)]
    pub fn sweep_extensions(&self) -> Result<(), Error> {
        let folder = self.folder();
        let fd = folder.fd()?;
        let names =
            file::names(fd).map_err(|errno| Error::from_errno("list", folder.path(), errno))?;
        for name in names {
            if owner_of_extension(&name).is_some_and(|token| !self.registry().is_alive(token)) {
                // Failed: another sweep has removed it.
                let _ = file::unlink(fd, &name);
            }
        }
        Ok(())
    }

    /// Sweeps one thing, and returns whether names of the dead are left in it for a later sweep.
    /// Names of dead threads that stay as long as their processes live go into `kept`.
    fn sweep_entry(
        &self,
        name: &str,
        dry_run: bool,
        report: &mut SweepReport,
        kept: &mut Vec<TokenId>,
    ) -> Result<bool, Error> {
        let me = self.me()?;
        let segment = Segment::open(self.folder(), name)?;
        let kind = segment.header().check(segment.path())?;
        for (_, primitive) in primitives(&segment, kind)? {
            report.claims += primitive.sweep(me, dry_run);
        }
        match kind {
            Kind::Queue => {
                let queue = Queue::finish(segment, self.registry())?;
                let before = queue.segment().facts()?.allocated;
                let (claims, found) = crate::queue::sweep(queue.inner(), me, dry_run, kept)?;
                report.claims += claims;
                report.objects += found.count();
                report.bytes += before.saturating_sub(queue.segment().facts()?.allocated);
                Ok(false)
            }
            Kind::State => {
                report.claims += State::<[u8]>::finish(segment, self.registry())?
                    .inner()
                    .sweep(me, dry_run, kept);
                Ok(false)
            }
            Kind::Pool => {
                let swept = crate::pool::sweep(segment, me, dry_run)?;
                report.claims += swept.claims;
                report.objects += swept.objects;
                report.bytes += swept.bytes;
                // A thread of their owners may still write: left for the next sweep.
                Ok(swept.names_left)
            }
            Kind::Topic => {
                let swept = crate::topic::sweep(segment, self.folder(), me, dry_run)?;
                report.claims += swept.claims;
                report.objects += swept.objects;
                Ok(swept.names_left)
            }
            Kind::Service => {
                let swept = crate::rpc::sweep(segment, me, dry_run, kept)?;
                report.claims += swept.claims;
                report.objects += swept.objects;
                Ok(swept.names_left)
            }
            Kind::JobQueue => {
                report.claims += crate::jobs::sweep(segment, me, dry_run)?;
                Ok(false)
            }
            Kind::Notifier => {
                let swept = crate::notify::sweep(segment, me, dry_run)?;
                report.claims += swept.claims;
                Ok(swept.names_left)
            }
            _ => Ok(false),
        }
    }
}

/// Sweeps when many slots of a registry are in quarantine; called by the next thread that claims a
/// token.
#[cold]
pub(crate) fn sweep_quarantined(folder: &Path) {
    // Failed: the slots stay in quarantine, and the registry grows meanwhile.
    let options = Domain::options().group(Folder::group_of(folder));
    let _ = options.open_at(folder).and_then(|domain| domain.sweep(false));
}
