//! Survivors beside a victim that stands still: which of them it keeps waiting, and for how long.
//!
//! The promise has a time in it, and no test may fail because the machine is busy. So time counts
//! only while the victim alone is at fault: the time for which survivors waited for a processor
//! (`/proc/PID/schedstat`) is taken off. A survivor that waits for a wake-up that never comes waits
//! for no processor, however busy the machine is.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use super::World;
use crate::failure::Failure;

/// Within this every operation that completes takes effect for every other process, whichever
/// process is stopped.
pub const PROMISE: Duration = Duration::from_secs(2);

/// What is allowed beyond it: timers that are late, processes that start, pages that are made.
const GRACE: Duration = Duration::from_millis(700);

/// However busy the machine is, the world waits for no process longer than this.
const LONGEST: Duration = Duration::from_secs(60);

/// Marks a round in which one of the victim's system calls was made to fail.
const FAULT: &str = "a system call failed";

/// How often the clock is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a world knows of its present stop, and of all of them.
#[derive(Default)]
pub(super) struct Standstill {
    clock: Option<Clock>,
    done: Vec<&'static str>,
    slowest: Duration,
    rescues: u64,
}

impl Standstill {
    pub(super) fn next_round(&mut self) {
        self.clock = None;
        self.done.clear();
    }
}

/// Begins when something happened that must take effect now.
struct Clock {
    begun: Instant,
    delays: BTreeMap<u32, Duration>,
}

/// For how long a process has waited for a processor in its life.
fn delay(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    Duration::from_nanos(stat.split(' ').nth(1).and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

impl World {
    /// All processes whose waiting for a processor is the machine's fault.
    fn delays(&self) -> BTreeMap<u32, Duration> {
        let survivors = self.survivors.values().map(super::Survivor::pid);
        survivors.chain([std::process::id()]).map(|pid| (pid, delay(pid))).collect()
    }

    fn start_clock(&mut self) {
        self.stop.clock = Some(Clock { begun: Instant::now(), delays: self.delays() });
    }

    /// For how long a process has been kept waiting, by the clock and without the machine's part.
    fn waited(&self) -> (Duration, Duration) {
        let Some(clock) = &self.stop.clock else { return Default::default() };
        let waited = clock.begun.elapsed();
        let of_machine = self.delays().into_iter().map(|(pid, now)| {
            let before = clock.delays.get(&pid).copied().unwrap_or_default();
            now.saturating_sub(before)
        });
        (waited, waited.saturating_sub(of_machine.sum()))
    }

    /// Notes that the victim stands still from now on.
    pub fn stop(&mut self) {
        self.start_clock();
    }

    /// Returns whether the round's victim stands still or stood still.
    #[must_use]
    pub fn has_stop(&self) -> bool {
        self.stop.clock.is_some()
    }

    /// Returns whether this is the first time in the round that something is done, which must be
    /// done once: beside the stopped victim, or else after its death.
    pub fn first_time(&mut self, what: &'static str) -> bool {
        let first = !self.stop.done.contains(&what);
        if first {
            self.stop.done.push(what);
        }
        first
    }

    /// Returns whether that has been done in the round. As opposed to [`World::first_time`], asking
    /// notes nothing.
    #[must_use]
    pub fn has_done(&self, what: &str) -> bool {
        self.stop.done.contains(&what)
    }

    /// Notes that one of the victim's system calls has failed, whether its caller was told or not.
    pub fn note_a_fault(&mut self) {
        self.first_time(FAULT);
    }

    /// Returns whether one of the victim's system calls has failed.
    #[must_use]
    pub fn has_fault(&self) -> bool {
        self.stop.done.contains(&FAULT)
    }

    /// Takes back that this was the first time.
    pub fn forget(&mut self, what: &'static str) {
        self.stop.done.retain(|done| *done != what);
    }

    /// Checks that the wait is still within the promise, since the clock was last set back.
    ///
    /// # Errors
    /// When the wait is late.
    pub fn is_in_time(&mut self, what: &str) -> Result<(), Failure> {
        let (waited, kept) = self.waited();
        if kept > PROMISE + GRACE || waited > LONGEST {
            return Err(Failure::Late(format!(
                "{what}, and is not after {:.1} s",
                kept.as_secs_f64()
            )));
        }
        Ok(())
    }

    /// Waits until a survivor has answered its outstanding order, as it must within the promise.
    /// The answer stays there to be fetched later.
    ///
    /// # Errors
    /// When the answer is late.
    pub fn gets_past(&mut self, name: &'static str) -> Result<(), Failure> {
        loop {
            if self.survivor(name)?.has_answered(LOOK_EVERY)? {
                let (waited, _) = self.waited();
                // A look at the processes' figures is dear, and short waits are short with the
                // machine's part, too.
                let kept = if waited < LOOK_EVERY { waited } else { self.waited().1 };
                self.stop.slowest = self.stop.slowest.max(kept);
                return Ok(());
            }
            let (waited, kept) = self.waited();
            if kept > PROMISE + GRACE || waited > LONGEST {
                self.stop.slowest = self.stop.slowest.max(kept);
                let order = self.survivor(name)?.order().unwrap_or_default().to_owned();
                let (waited, kept) = (waited.as_secs_f64(), kept.as_secs_f64());
                return Err(Failure::Late(format!(
                    "{name} was kept waiting for {kept:.1} s ({waited:.1} s) in `{order}`"
                )));
            }
        }
    }

    /// The same of all survivors that have an order to answer, save those whose order names one of
    /// these things, which the victim holds.
    ///
    /// # Errors
    /// As [`World::gets_past`].
    pub fn others_get_past(&mut self, held: &[&str]) -> Result<(), Failure> {
        for name in self.survivors() {
            let Some(order) = self.survivor(name)?.order() else { continue };
            if !order.split(' ').any(|word| held.contains(&word)) {
                self.gets_past(name)?;
            }
        }
        Ok(())
    }

    /// The same of all survivors that have an order to answer.
    ///
    /// # Errors
    /// As [`World::gets_past`].
    pub fn all_get_past(&mut self) -> Result<(), Failure> {
        self.others_get_past(&[])
    }

    /// Gives an order that the stopped victim may not delay, and fetches its answer.
    ///
    /// # Errors
    /// As [`World::gets_past`], and what the survivor reports.
    pub fn passes(&mut self, name: &'static str, order: &str) -> Result<String, Failure> {
        self.survivor(name)?.tell(order)?;
        self.start_clock();
        self.gets_past(name)?;
        self.survivor(name)?.answer(Instant::now())
    }

    /// The longest time for which a survivor was kept waiting, without the machine's part.
    #[must_use]
    pub fn slowest(&self) -> Duration {
        self.stop.slowest
    }

    /// Returns whether the coarse recheck may have rescued so many sleepers in this world so far:
    /// beside a stopped victim it may, and they are counted.
    pub(crate) fn allows_rescues(&mut self, rescues: &str) -> bool {
        let now = rescues.parse().unwrap_or(0);
        let new = now - std::mem::replace(&mut self.stop.rescues, now).min(now);
        if self.has_stop() && new > 0 {
            self.saw_many("rescued by the recheck", new);
        }
        new == 0 || self.has_stop()
    }
}
