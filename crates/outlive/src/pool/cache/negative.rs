//! The negative cache: what this process knows of a pool that was full when it last looked, so that
//! a thread that asks again and again does not scan all tags each time.
//!
//! | since then | scanned |
//! | --- | --- |
//! | nothing was freed (`File::changes`) | the hints, some tags, the room for new memory: what every miss scans |
//! | objects were freed that have hints | besides: spans that are free as a whole |
//! | more objects of that size were freed than a line has hints, or objects became free without a hint, a holder died, or it is a while ago | all of it; dead processes' objects are collected |
//!
//! "A while" is eight times what the scan took, and not less than 10 ms: not everything that makes
//! room says so, a file system least of all. So no more than a ninth of the time goes into vain
//! scans.
//!
//! In a pool of 64 MiB that is full of objects of 4 KiB, a scan of everything takes 0.85 ms, and a
//! request that scans nothing 3 to 6 µs. Without the middle row, a request after each free of
//! another size would scan everything.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::Cache;
use crate::liveness::{Me, TokenId};
use crate::pool::error::HasMost;
use crate::pool::heap::{BUCKETS, CLASSES, HINTS};
use crate::pool::inner::{Inner, Taken};
use crate::shim::Ordering;
use crate::{Error, sync::Holder};

/// By class, and at last for runs. No thread waits for it: one that finds it locked does without.
#[derive(Default)]
pub(in crate::pool) struct NegativeCache(Mutex<Vec<Option<Refusal>>>);

struct Refusal {
    /// The bytes that the pool did not have.
    wanted: u64,
    changes: u32,
    /// Those of the changes that left no hint.
    frees: u32,
    /// Those that left hints of this size, by line: of more than a line has, some are written over.
    hinted: [u32; BUCKETS],
    /// The processes that had objects then.
    holders: Vec<TokenId>,
    most: Option<HasMost>,
    ended: Instant,
    took: Duration,
}

/// Whether so many were freed with hints since that some hints may have been written over.
fn is_written_over((now, then): (&u32, u32)) -> bool {
    now.wrapping_sub(then) > HINTS as u32
}

const LEAST: Duration = Duration::from_millis(10);

/// What is worth scanning.
enum Scan {
    Nothing,
    Spans,
    Everything,
}

impl Inner {
    /// Scans as far as that may help, after the fast steps found nothing.
    #[cold]
    pub(in crate::pool) fn scan_slow(
        &self,
        me: Me,
        class: Option<u32>,
        wanted: u64,
        take: &dyn Fn(bool) -> Result<Taken, Error>,
    ) -> Result<Taken, (Error, Option<HasMost>)> {
        let kind = class.unwrap_or(CLASSES) as usize;
        let plainly = |error| (error, None);
        let before = self.file.changes();
        let (scan, most) = self.worth(kind, wanted, before);
        if !matches!(scan, Scan::Everything) {
            self.flush_own();
        }
        let changes = self.file.changes();
        let taken = match scan {
            Scan::Nothing if changes == before => take(true),
            Scan::Nothing | Scan::Spans => {
                self.file.heap.reclaim(&self.file.segment, me, &self.file).map_err(plainly)?;
                take(true)
            }
            Scan::Everything => return self.scan_everything(me, kind, wanted, take),
        };
        if let Err(Error::NoSpace { .. }) = taken
            && let Ok(mut all) = self.negative.0.try_lock()
            && let Some(Some(shortage)) = all.get_mut(kind)
        {
            shortage.changes = changes;
        }
        taken.map_err(|error| (error, most))
    }

    /// Gives back what this thread has kept for itself.
    pub(in crate::pool) fn flush_own(&self) {
        // SAFETY: the reference ends with this statement, before other code can ask for the cache.
        if let Some(cache) = unsafe { Cache::find(self) } {
            cache.flush();
        }
    }

    fn worth(&self, kind: usize, wanted: u64, changes: u32) -> (Scan, Option<HasMost>) {
        let Ok(all) = self.negative.0.try_lock() else { return (Scan::Everything, None) };
        let Some(Some(known)) = all.get(kind) else { return (Scan::Everything, None) };
        let scan = if wanted < known.wanted
            || known.frees != self.file.header().frees.load(Ordering::Relaxed)
            || self.hinted(kind).iter().zip(known.hinted).any(is_written_over)
            || known.ended.elapsed() >= (known.took * 8).max(LEAST)
            || known.holders.iter().any(|&holder| !self.registry.is_alive(holder))
        {
            Scan::Everything
        } else if known.changes != changes {
            Scan::Spans
        } else {
            Scan::Nothing
        };
        (scan, known.most.clone())
    }

    /// Returns how many objects of a class have left hints, by line; of runs none do.
    fn hinted(&self, kind: usize) -> [u32; BUCKETS] {
        match u32::try_from(kind) {
            Ok(class) if class < CLASSES => {
                self.file.hints(class).each_ref().map(|line| line.freed.load(Ordering::Relaxed))
            }
            _ => [0; BUCKETS],
        }
    }

    fn scan_everything(
        &self,
        me: Me,
        kind: usize,
        wanted: u64,
        take: &dyn Fn(bool) -> Result<Taken, Error>,
    ) -> Result<Taken, (Error, Option<HasMost>)> {
        let begun = Instant::now();
        let plainly = |error| (error, None);
        match take(false) {
            Err(Error::NoSpace { .. }) => {}
            other => return other.map_err(plainly),
        }
        self.collect(me, false).map_err(plainly)?;
        self.flush_own();
        // Objects freed from here on may be overlooked, and are worth another scan.
        let changes = self.file.changes();
        let frees = self.file.header().frees.load(Ordering::Relaxed);
        let hinted = self.hinted(kind);
        let error = match take(false) {
            Err(error @ Error::NoSpace { .. }) => error,
            other => return other.map_err(plainly),
        };
        let (most, holders) = self.who_has_most();
        if let Ok(mut all) = self.negative.0.try_lock() {
            all.resize_with(CLASSES as usize + 1, || None);
            if let Some(known) = all.get_mut(kind) {
                let (most, ended) = (most.clone(), Instant::now());
                let took = ended - begun;
                let refusal =
                    Refusal { wanted, changes, frees, hinted, holders, most, ended, took };
                *known = Some(refusal);
            }
        }
        Err((error, most))
    }

    /// Returns the process that has most of the pool, and all living ones that have something. No
    /// more exact than an error message needs.
    pub(in crate::pool) fn who_has_most(&self) -> (Option<HasMost>, Vec<TokenId>) {
        let Ok(usage) = crate::pool::usage::usage(&self.file, self.registry) else {
            return (None, Vec::new());
        };
        let most = usage.holders.first().map(|most| {
            let Holder { pid, program, alive, .. } = most.who.clone();
            HasMost { pid, program, alive, bytes: most.bytes, unclaimed: usage.unclaimed }
        });
        // Processes that are dead already, and whose threads may not have ended: a while later.
        let living =
            usage.holders.iter().filter(|holder| holder.who.alive).map(|holder| holder.who.token);
        let unclaimed = usage.unclaimed;
        // No process has anything: all of it may be handed over and waiting.
        let nobody =
            || (unclaimed > 0).then(|| HasMost { alive: false, unclaimed, ..HasMost::default() });
        (most.or_else(nobody), living.collect())
    }
}
