//! The parent's part: prepare, kill at random, show it, stop, drain, compare.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use outlive::Deadline;
use outlive::queue::Queue;
use outlive::sync::{Mutex, Record};

use super::audit::Audit;
use super::cast::Cast;
use super::consumer::monotonic_nanos;
use super::dice::Dice;
use super::ledger::{self, Ledger, STOP_LOGGING, STOP_SENDING, STOP_WHEN_EMPTY, Total};
use super::place::{self, Place};
use super::robot::Robot;
use super::table::{Figures, TICK, Table};
use super::verdict::{Killed, Verdict};
use super::watch::View;
use super::{DemoArgs, Role, material};
use crate::exit::{Code, Failure};
use crate::output::{self, counted};
use crate::signals::{Signals, wait_readable};

/// The queue grows to this and no further, so that senders also meet a full one.
const QUEUE_BYTES: u64 = 64 << 20;
/// Between two kills, on a machine where the processes start as quickly as they usually do.
const LEAST_PAUSE: Duration = Duration::from_millis(10);
const MOST_PAUSE: Duration = Duration::from_millis(120);
/// How long all processes usually take at most until the producers' first records are acknowledged.
/// Where they take longer (an emulated or a busy machine), the pauses are longer by as much: at the
/// usual pace, processes would be killed before they have begun to work.
const USUAL_START: Duration = Duration::from_millis(250);
/// They are waited for no longer; a process that has not begun by then is taken to hang.
const LONGEST_START: Duration = Duration::from_secs(60);
/// A process may do nothing for so many times a start longer than usual before it counts as hung.
const PATIENT_STARTS: u32 = 4;
/// One kill in so many is the consumer's.
const CONSUMER_ONCE_IN: u64 = 6;
/// Of the other kills, so many of a hundred are the robot's.
const ROBOT_OF_HUNDRED: u64 = 40;
/// How often members are looked at while they end.
const GLANCE: Duration = Duration::from_millis(5);

/// Runs the demo.
pub fn run(args: &DemoArgs) -> Result<Verdict, Failure> {
    // Before anything that must be removed again.
    let signals = Signals::that_end()?;
    let place = Place::make()?;
    let material = material::gather(place.path(), &args.files)?;
    let robot = if args.no_robot { "" } else { "; and a robot" };
    let mut stage = Stage::set(args, place.path(), signals)?;
    stage.await_work()?;
    let title = [
        format!(
            "{} ▸ one lock ▸ one queue ▸ one consumer{robot}",
            counted(u64::from(args.producers), "producer")
        ),
        format!(
            "{} of {}, {}; a kill every {} to {} ms",
            counted(material.records, "record"),
            counted(material.files.len() as u64, "file"),
            output::bytes(material.bytes),
            (LEAST_PAUSE * stage.slowness).as_millis(),
            (MOST_PAUSE * stage.slowness).as_millis(),
        ),
    ];
    if args.watch {
        stage.view = Some(View::open(&place.path().join("domain"))?);
    } else {
        stage.table = Some(Table::new(title, stage.begun.elapsed() + args.seconds));
    }
    stage.perform()?;
    // The screen is the terminal's own again before anything is said.
    stage.view = None;
    stage.stop_and_drain()?;
    stage.judge()
    // The stage ends first, with all its processes; then the folder.
}

struct Stage<'a> {
    args: &'a DemoArgs,
    signals: Signals,
    ledger: Record<Ledger>,
    mutex: Mutex<Total>,
    queue: Queue,
    audit: Audit,
    robot: Option<Robot>,
    cast: Cast,
    table: Option<Table>,
    view: Option<View>,
    dice: Dice,
    seed: u64,
    begun: Instant,
    /// How many times as long as usual the processes took to start.
    slowness: u32,
    /// How long a process may do nothing before it counts as hung.
    patience: Duration,
    /// How long producers sent.
    sent_for: Duration,
    watched: Instant,
    killed: Killed,
    hung: u64,
    interrupted: bool,
}

impl<'a> Stage<'a> {
    fn set(args: &'a DemoArgs, folder: &Path, signals: Signals) -> Result<Stage<'a>, Failure> {
        let domain = place::domain(folder)?;
        // Made here, so that no member makes one with other figures.
        let queue =
            Queue::<[u8]>::options().max_bytes(QUEUE_BYTES).open_or_create(&domain, "queue")?;
        let robot = if args.no_robot { None } else { Some(Robot::set(args, folder, &domain)?) };
        let seed = args.seed.unwrap_or_else(Dice::any_seed);
        let begun = Instant::now();
        Ok(Stage {
            args,
            signals,
            ledger: Ledger::open(&domain)?,
            mutex: ledger::total(&domain)?,
            queue,
            audit: Audit::new(folder, args.producers)
                .map_err(|error| Failure::system("open the journals", &error))?,
            robot,
            cast: Cast::start(args, folder)?,
            table: None,
            view: None,
            dice: Dice::new(seed),
            seed,
            begun,
            slowness: 1,
            patience: args.patience,
            sent_for: Duration::ZERO,
            watched: Instant::now(),
            killed: Killed::default(),
            hung: 0,
            interrupted: false,
        })
    }

    /// Waits until each producer has had a record acknowledged, which takes a consumer, too; how
    /// long that takes sets the pace of the kills.
    fn await_work(&mut self) -> Result<(), Failure> {
        let sources = self.args.producers as usize;
        let is_at_work = |ledger: &Ledger| {
            ledger.acknowledged[..sources].iter().all(|sent| sent.load(Ordering::Relaxed) > 0)
        };
        while !is_at_work(&self.ledger) && self.begun.elapsed() < LONGEST_START && !self.interrupted
        {
            self.cast.check()?;
            self.sleep(GLANCE)?;
        }
        let start = self.begun.elapsed();
        self.slowness = slowness(start);
        self.patience += PATIENT_STARTS * start.saturating_sub(USUAL_START);
        Ok(())
    }

    /// Kills and shows until the time is over.
    fn perform(&mut self) -> Result<(), Failure> {
        let end = Instant::now() + self.args.seconds;
        let mut next_kill = Instant::now() + self.pause();
        let mut next_look = Instant::now();
        loop {
            let now = Instant::now();
            if now >= end || self.interrupted {
                self.sent_for = self.begun.elapsed();
                return Ok(());
            }
            if now >= next_kill {
                self.kill_one()?;
                next_kill = Instant::now() + self.pause();
            }
            if now >= next_look {
                self.cast.check()?;
                self.look(None)?;
                self.interrupted |= self.view.as_mut().is_some_and(View::has_ended);
                next_look = now + TICK;
            }
            self.sleep(
                next_kill.min(next_look).min(end).saturating_duration_since(Instant::now()),
            )?;
        }
    }

    fn pause(&mut self) -> Duration {
        let span = (MOST_PAUSE - LEAST_PAUSE).as_nanos() as u64;
        self.slowness * (LEAST_PAUSE + Duration::from_nanos(self.dice.below(span)))
    }

    fn kill_one(&mut self) -> Result<(), Failure> {
        let consumer = self.args.producers as usize;
        let producer = self.dice.below(consumer as u64) as usize;
        let victim = if self.dice.below(CONSUMER_ONCE_IN) == 0 { consumer } else { producer };
        let robots = self.cast.members.len() - consumer - 1;
        let victim = if robots > 0 && self.dice.below(100) < ROBOT_OF_HUNDRED {
            consumer + 1 + self.dice.below(robots as u64) as usize
        } else {
            victim
        };
        if let Some(pid) = self.cast.kill_and_replace(victim)? {
            match (self.cast.members[victim].role, &mut self.robot) {
                (Role::Producer, _) => self.killed.producers += 1,
                (Role::Consumer, _) => self.killed.consumers += 1,
                (_, Some(robot)) => robot.was_killed(pid),
                _ => {}
            }
        }
        Ok(())
    }

    /// Sleeps, but not through a signal.
    fn sleep(&mut self, span: Duration) -> Result<(), Failure> {
        let failed = |error| Failure::system("wait", &error);
        if wait_readable(&[self.signals.as_fd()], Some(span)).map_err(failed)?[0] {
            while self.signals.next().map_err(failed)?.is_some() {
                if self.interrupted {
                    // Asked twice: no comparison, but nothing is left behind.
                    return Err(Failure::new(
                        Code::CheckFailed,
                        "ended before anything was compared",
                    ));
                }
                self.interrupted = true;
            }
        }
        Ok(())
    }

    /// Compares, shows, and looks for members that hang (of one role, or all). Returns how many
    /// hung.
    fn look(&mut self, only: Option<Role>) -> Result<u64, Failure> {
        self.audit
            .follow(&self.ledger)
            .map_err(|error| Failure::system("read the journals", &error))?;
        let figures = self.figures()?;
        if let Some(table) = self.table.as_mut().filter(|_| only.is_none()) {
            table.show(&figures);
        }
        let passed = self.watched.elapsed();
        self.watched = Instant::now();
        let mut hung = 0;
        for at in 0..self.cast.members.len() {
            let member = &mut self.cast.members[at];
            if only.is_some_and(|role| role != member.role) {
                continue;
            }
            let done = match member.role {
                Role::Producer => {
                    self.ledger.acknowledged[member.index as usize].load(Ordering::Relaxed)
                }
                // With nothing sent there is nothing to receive: it is watched while it drains the
                // queue.
                Role::Consumer if only.is_none() => monotonic_nanos(),
                Role::Consumer => self.ledger.progress_at.load(Ordering::Relaxed),
                role => self.robot.as_ref().map_or(0, |robot| robot.done(role, member.index)),
            };
            if member.still(done, passed) > self.patience {
                hung += 1;
                if only.is_none() {
                    self.cast.kill_and_replace(at)?;
                }
            }
        }
        self.hung += hung;
        Ok(hung)
    }

    fn figures(&self) -> Result<Figures, Failure> {
        let counters = self.queue.counters()?;
        let compared = self.audit.compared();
        let (frames, robots_killed) = self.robot.as_ref().map_or((0, 0), Robot::figures);
        Ok(Figures {
            frames: self.robot.is_some().then_some(frames),
            robots_killed,
            elapsed: self.begun.elapsed(),
            records: compared.records,
            bytes: compared.bytes,
            producers_killed: self.killed.producers,
            consumers_killed: self.killed.consumers,
            owner_deaths: self.ledger.owner_deaths.load(Ordering::Relaxed),
            abandoned: counters.abandoned,
            redelivered: counters.redelivered,
            longest_stall: Duration::from_nanos(self.ledger.longest_stall.load(Ordering::Relaxed)),
        })
    }

    /// Producers and sensors end; then the receivers, when nothing is left; then the logger. Only a
    /// member that hangs is still killed.
    fn stop_and_drain(&mut self) -> Result<(), Failure> {
        let stages = [
            (STOP_SENDING, Role::Producer),
            (STOP_SENDING, Role::Sensor),
            (STOP_WHEN_EMPTY, Role::Consumer),
            (STOP_WHEN_EMPTY, Role::Watcher),
            (STOP_LOGGING, Role::Logger),
        ];
        for (stage, role) in stages {
            // Release: a member that sees the stage finds all that was sent before it.
            self.ledger.stage.store(stage, Ordering::Release);
            while !self.cast.all_ended(role)? {
                if self.look(Some(role))? > 0 {
                    for member in self.cast.members.iter_mut().filter(|member| member.role == role)
                    {
                        member.kill();
                    }
                }
                self.sleep(GLANCE)?;
            }
        }
        Ok(())
    }

    /// Compares what must be equal.
    fn judge(mut self) -> Result<Verdict, Failure> {
        let reading = |error| Failure::system("read the journals", &error);
        self.audit.follow(&self.ledger).map_err(reading)?;
        let lost = self.audit.finish(&self.ledger).map_err(reading)?;
        let figures = self.figures()?;
        if let Some(mut table) = self.table.take() {
            table.show_last(&Figures { elapsed: self.sent_for, ..figures });
        }
        let counters = self.queue.counters()?;
        // The last owner may have been killed, and no later owner told yet.
        let total =
            ledger::lock(&self.mutex, &self.ledger, Deadline::after(self.patience))?.figures();
        let compared = self.audit.compared();
        let torn = self.ledger.total_torn.load(Ordering::Relaxed);
        let missed =
            total.records.abs_diff(compared.records) + u64::from(total.bytes != compared.bytes);
        let mut verdict = Verdict {
            ok: false,
            interrupted: self.interrupted,
            seed: self.seed,
            producers: self.args.producers,
            seconds: self.sent_for.as_secs_f64(),
            messages: compared.records,
            bytes: compared.bytes,
            messages_per_second: compared.records as f64 / self.sent_for.as_secs_f64().max(1e-9),
            killed: self.killed,
            owner_deaths: self.ledger.owner_deaths.load(Ordering::Relaxed),
            abandoned: counters.abandoned,
            redelivered: counters.redelivered,
            sent_again: self.ledger.sent_again.load(Ordering::Relaxed),
            grown: counters.grown,
            longest_stall_ms: figures.longest_stall.as_secs_f64() * 1e3,
            // What is still in the queue was not received either: no consumer is left.
            lost,
            corrupted: self.ledger.corrupted.load(Ordering::Relaxed) + self.audit.differing(),
            duplicates_not_marked: self.ledger.unmarked.load(Ordering::Relaxed),
            out_of_order: self.ledger.out_of_order.load(Ordering::Relaxed),
            total_wrong: missed + torn,
            robot: self.robot.as_ref().map(Robot::judge),
            hung: self.hung,
        };
        verdict.ok = verdict.zeroes().iter().all(|(_, figure)| *figure == 0);
        Ok(verdict)
    }
}

/// Returns how many times as long as usual a start was.
fn slowness(start: Duration) -> u32 {
    start.as_nanos().div_ceil(USUAL_START.as_nanos()).max(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_start_slows_the_kills_and_a_quick_one_does_not_hasten_them() {
        assert_eq!((slowness(Duration::ZERO), slowness(USUAL_START)), (1, 1));
        assert_eq!(slowness(USUAL_START + Duration::from_nanos(1)), 2);
        assert_eq!(slowness(LONGEST_START), 240);
    }
}
