//! The world around a victim: a folder, a domain in it, and the survivors.
//!
//! A world serves several rounds (deaths), so that survivors need not be started anew for each and
//! so that the domain carries the traces of earlier deaths, as a real one does; things under test
//! get a fresh name in each round. After some rounds, or a failure, a new world begins.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::failure::Failure;

pub mod affinity;
pub mod load;
pub mod scratch;
mod stopped;
pub mod survivor;

pub use survivor::Survivor;

/// Whether the domain makes the coarse timed recheck, the last resort under the protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recheck {
    /// Switched off: the protocols stand alone, a missed wake-up hangs.
    Off,
    /// As users have it. Whatever it rescues is counted and must be nothing.
    On,
}

impl Recheck {
    /// The word for arguments and reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Recheck::Off => "off",
            Recheck::On => "on",
        }
    }

    /// The other way round.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Recheck> {
        [Recheck::Off, Recheck::On].into_iter().find(|mode| mode.word() == word)
    }

    /// The domain in `folder`, opened in this mode.
    ///
    /// # Errors
    /// What opening reports.
    pub fn open(self, folder: &Path) -> Result<outlive::Domain, outlive::Error> {
        match self {
            Recheck::Off => outlive::Domain::options().recheck(None).open_or_create_at(folder),
            Recheck::On => outlive::Domain::open_or_create_at(folder),
        }
    }
}

/// The surroundings of some rounds.
pub struct World {
    folder: PathBuf,
    control: PathBuf,
    program: PathBuf,
    scenario: &'static str,
    recheck: Recheck,
    survivors: BTreeMap<&'static str, Survivor>,
    round: u64,
    died_at: Instant,
    patience: Duration,
    seen: BTreeMap<&'static str, u64>,
    victim: (u32, u32),
    remembered: u64,
    stop: stopped::Standstill,
}

impl World {
    /// A new world in `folder`, for the scenario of that name; `program` is the victim's.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(
        folder: PathBuf,
        program: &Path,
        scenario: &'static str,
        recheck: Recheck,
        patience: Duration,
    ) -> Result<World, Failure> {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        Ok(World {
            control: folder.join("control"),
            folder,
            program: program.to_owned(),
            scenario,
            recheck,
            survivors: BTreeMap::new(),
            round: 0,
            died_at: Instant::now(),
            patience,
            seen: BTreeMap::new(),
            victim: (0, 0),
            remembered: 0,
            stop: stopped::Standstill::default(),
        })
    }

    /// Begins a round: names are fresh from here on.
    pub fn next_round(&mut self) {
        self.round += 1;
        self.stop.next_round();
    }

    /// Which round of this world it is, from 1.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.round
    }

    /// A name that no earlier round has used.
    #[must_use]
    pub fn fresh(&self, stem: &str) -> String {
        format!("{stem}{}", self.round)
    }

    /// The world's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The domain's folder. No process has made it yet at the world's beginning.
    #[must_use]
    pub fn domain(&self) -> PathBuf {
        self.folder.join("domain")
    }

    /// The file of the page on which victim and engine meet.
    #[must_use]
    pub fn control(&self) -> &Path {
        &self.control
    }

    /// Has victims meet the engine on another page than the world's own, as one engine uses for all
    /// its worlds.
    pub fn meet_at(&mut self, control: &Path) {
        self.control = control.to_owned();
    }

    /// Returns the mode of the coarse recheck.
    #[must_use]
    pub fn recheck(&self) -> Recheck {
        self.recheck
    }

    /// The survivor of that name, started when it is not there yet.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn survivor(&mut self, name: &'static str) -> Result<&mut Survivor, Failure> {
        if !self.survivors.contains_key(name) {
            let domain = self.domain();
            let arguments = [self.scenario, "survivor", text(&domain)?, self.recheck.word(), name];
            let log = self.folder.join("survivors.log");
            self.survivors.insert(name, Survivor::start(name, &self.program, &arguments, &log)?);
        }
        self.survivors.get_mut(name).ok_or_else(|| Failure::broken("no such survivor"))
    }

    /// Ends the survivor of that name; the next use starts a new one.
    pub fn dismiss(&mut self, name: &'static str) {
        self.survivors.remove(name);
    }

    /// The names of all survivors that are there.
    #[must_use]
    pub fn survivors(&self) -> Vec<&'static str> {
        self.survivors.keys().copied().collect()
    }

    /// Returns what every process that has an order to answer is at, for reports.
    pub fn situation(&mut self) -> String {
        let all: Vec<String> =
            self.survivors.values_mut().filter_map(Survivor::situation).collect();
        all.join("; ")
    }

    /// Notes the round's victim: its process and the thread that performs.
    pub fn introduce(&mut self, pid: u32, tid: u32) {
        self.victim = (pid, tid);
    }

    /// Keeps a number from one part of a round for a later one.
    pub fn remember(&mut self, number: u64) {
        self.remembered = number;
    }

    /// The number kept.
    #[must_use]
    pub fn remembered(&self) -> u64 {
        self.remembered
    }

    /// The victim's process.
    #[must_use]
    pub fn victim_pid(&self) -> u32 {
        self.victim.0
    }

    /// The victim's performing thread.
    #[must_use]
    pub fn victim_tid(&self) -> u32 {
        self.victim.1
    }

    /// Notes the moment of death, from which on no process may stay blocked for longer than the
    /// world's patience.
    pub fn death(&mut self) {
        self.died_at = Instant::now();
    }

    /// When patience with survivors ends.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.died_at + load::stretched(self.patience)
    }

    /// The answer to an order given before the death.
    ///
    /// # Errors
    /// A hang when it does not come in time; what the survivor reports.
    pub fn answer(&mut self, name: &'static str) -> Result<String, Failure> {
        let deadline = self.deadline();
        self.survivor(name)?.answer(deadline)
    }

    /// The answer to an order given before, while the victim lives: within the patience from now
    /// on.
    ///
    /// # Errors
    /// As [`World::answer`].
    pub fn answer_by_now(&mut self, name: &'static str) -> Result<String, Failure> {
        let deadline = Instant::now() + load::stretched(self.patience);
        self.survivor(name)?.answer(deadline)
    }

    /// Waits until a survivor has answered its outstanding order, while the victim lives. The answer
    /// stays there to be fetched later.
    ///
    /// # Errors
    /// When it does not come within the patience.
    pub fn has_to_answer(&mut self, name: &'static str) -> Result<(), Failure> {
        let deadline = Instant::now() + load::stretched(self.patience);
        while !self.survivor(name)?.has_answered(Duration::from_millis(1))? {
            if Instant::now() > deadline {
                let order = self.survivor(name)?.order().unwrap_or_default().to_owned();
                return Err(Failure::Hang(format!("{name} does not answer `{order}`")));
            }
        }
        Ok(())
    }

    /// Gives an order after the death and fetches its answer within what is left of the patience
    /// (at least a part of it, for checks that take several orders one after the other).
    ///
    /// # Errors
    /// As [`World::answer`].
    pub fn ask(&mut self, name: &'static str, order: &str) -> Result<String, Failure> {
        let deadline = Instant::now() + load::stretched(self.patience);
        let survivor = self.survivor(name)?;
        survivor.tell(order)?;
        survivor.answer(deadline)
    }

    /// Counts something that was seen: an outcome, for the report.
    pub fn saw(&mut self, what: &'static str) {
        self.saw_many(what, 1);
    }

    /// Counts something seen several times.
    pub fn saw_many(&mut self, what: &'static str, times: u64) {
        *self.seen.entry(what).or_default() += times;
    }

    /// What was counted so far.
    #[must_use]
    pub fn seen(&self) -> &BTreeMap<&'static str, u64> {
        &self.seen
    }
}

/// A path as an argument.
///
/// # Errors
/// When it is not UTF-8, which our own folders always are.
pub fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| Failure::broken("a path that is not UTF-8"))
}
