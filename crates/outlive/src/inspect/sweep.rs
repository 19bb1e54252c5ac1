//! Taking the names of the dead out of a whole domain.
//!
//! Nobody needs a sweep to go on: whoever meets a dead owner's claim deals with it. A sweep gives back what nobody
//! happens to meet, and lets token slots be used again whose numbers have gone round once. It may be cut short anywhere;
//! the next one goes on.

use std::path::Path;

use crate::queue::Queue;
use crate::segment::Segment;
use crate::state::StateBytes;
use crate::sync::primitives;
use crate::sys::file;
use crate::{Domain, Error, Kind, TokenId, WaitStrategy};

/// What a sweep found, and (unless it was a dry run) cleaned up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Locks, slots and ends of queues, writers and readers of states that the dead claimed.
    pub claims: u32,
    /// Objects, of pools and of queues, that the dead held.
    pub objects: u32,
    /// Tokens of the dead. They stay for a later sweep where something is `ending`, or has `failed`.
    pub tokens: u32,
    /// Token slots that had rested since their numbers went round.
    pub rested: u32,
    /// Things in which something is left of processes that are dead, and of whom a thread may be writing still: for a later sweep. Of a process that
    /// cannot be asked after, a second later.
    pub ending: u32,
    /// Bytes of memory that the system has back: of pools, what was free and more than was needed lately; of queues, what no
    /// message has. (What topics and services give back is not counted.)
    pub bytes: u64,
    /// Things that could not be swept, and why.
    pub failed: Vec<(String, Error)>,
}

impl SweepReport {
    /// Whether the dead had left nothing, and have not.
    pub fn is_clean(&self) -> bool {
        *self == SweepReport { bytes: self.bytes, ..SweepReport::default() }
    }
}

impl Domain {
    /// Cleans up after the dead: their claims, objects and tokens. What they guarded is still told to whoever comes
    /// next. `dry_run` only looks.
    ///
    /// # Errors
    /// What the system says when the folder cannot be read; a thing that cannot be swept is listed in the report.
    ///
    /// # If a process dies
    /// The sweeper: the next sweep goes on. Others, meanwhile: some of what they leave is swept, the rest next time.
    pub fn sweep(&self, dry_run: bool) -> Result<SweepReport, Error> {
        let registry = self.registry();
        let mut report = SweepReport::default();
        // Before the first look: only slots that rested and tokens that were dead by then can be let go after it.
        let resting = registry.quarantined();
        let dead = registry.dead();
        // Names of dead threads under their living processes: their slots rest on, or a stranger would get their numbers.
        let mut kept = Vec::new();
        for name in self.names()? {
            match self.sweep_entry(&name, dry_run, &mut report, &mut kept) {
                Ok(left) => report.ending += u32::from(left),
                // Removed meanwhile.
                Err(Error::NotFound { .. }) => {}
                // Not ours: it bears no claims.
                Err(Error::NotASegment { .. }) => {}
                Err(error) => report.failed.push((name, error)),
            }
        }
        if !dry_run {
            self.sweep_sockets()?;
        }
        report.rested = resting.len() as u32;
        let has_seen_all = report.failed.is_empty() && report.ending == 0;
        if !dry_run && has_seen_all {
            registry.end_quarantine(&resting, &kept);
        }
        // A name that is left somewhere is known for a dead process's by its token alone. Once the token is retired, no
        // process can ask whether that process has ended. A process that died after the first look may have names where
        // this sweep has been already, so its token stays for the next sweep.
        report.tokens = if dry_run || !has_seen_all { dead.len() as u32 } else { registry.retire_dead(&dead) };
        Ok(report)
    }

    /// Removes the sockets on which the dead answered for GPU memory: `.gpu-` and the token, see doc/protocols/gpu.md.
    ///
    /// # Errors
    /// [`Error::System`]: the folder cannot be listed.
    #[doc(hidden)]
    pub fn sweep_sockets(&self) -> Result<(), Error> {
        let folder = self.folder();
        let fd = folder.fd()?;
        let names = file::names(fd).map_err(|errno| Error::from_errno("list", folder.path(), errno))?;
        for name in names {
            let token = name.strip_prefix(".gpu-").and_then(|token| u32::from_str_radix(token, 16).ok());
            if token.and_then(TokenId::from_u32).is_some_and(|token| !self.registry().is_alive(token)) {
                // Somebody else has.
                let _ = file::unlink(fd, &name);
            }
        }
        Ok(())
    }

    /// Says whether names of the dead are left in it for a later sweep. Those of dead threads that stay for as long as their
    /// processes live go into `kept`.
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
                let queue = Queue::finish(segment, self.registry(), WaitStrategy::Adaptive)?;
                let before = queue.segment().facts()?.allocated;
                let (claims, found) = crate::queue::sweep(queue.inner(), me, dry_run, kept)?;
                report.claims += claims;
                report.objects += found.count();
                report.bytes += before.saturating_sub(queue.segment().facts()?.allocated);
                Ok(false)
            }
            Kind::State => {
                report.claims += StateBytes::finish(segment, self.registry())?.inner().sweep(me, dry_run, kept);
                Ok(false)
            }
            Kind::Pool => {
                let swept = crate::pool::sweep(segment, me, dry_run)?;
                report.claims += swept.claims;
                report.objects += swept.objects;
                report.bytes += swept.bytes;
                // Those of whom threads may still write: the next sweep's.
                Ok(swept.names_left)
            }
            Kind::Topic => {
                let swept = crate::topic::sweep(segment, me, dry_run)?;
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
            _ => Ok(false),
        }
    }
}

/// Called when many slots of a registry rest: a sweep by whoever happens to claim a token.
#[cold]
pub(crate) fn sweep_quarantined(folder: &Path) {
    // Failed: the slots rest on, and the registry grows meanwhile.
    let _ = Domain::options().create(false).open_at(folder).and_then(|domain| domain.sweep(false));
}
