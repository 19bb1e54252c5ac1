//! One life of a victim: to its marker, observed from beginning to end, or to a chosen point and
//! killed there.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::belongings::Belongings;
use super::{Fate, LONGEST_LIFE, Orders, PATIENCE};
use crate::engine::control::Control;
use crate::engine::plan::{Moment, Route};
use crate::engine::victim::{Goal, Stand, Victim};
use crate::engine::watch::Watch;
use crate::failure::Failure;
use crate::scenario::{Death, LET_ON, Scenario};
use crate::world::{World, load, text};

/// How often a victim that went on is looked at while it sleeps, before it is said to hang.
const LOOKS: u32 = 10;

/// What threads may take to end that were told to. In a usual run, one that ends later is taken for
/// one that stays: the check is weaker then, and says nothing wrong.
pub(super) const ENDS_OF_THREADS: Duration = Duration::from_secs(1);

/// What all rounds of a campaign have in common.
pub(super) struct Round<'a> {
    pub(super) scenario: &'a dyn Scenario,
    pub(super) orders: &'a Orders,
    pub(super) control: Control,
    /// What the victim of an undisturbed life has open at its end.
    pub(super) usual: RefCell<Belongings>,
    /// What the latest victim had open before its operation.
    pub(super) before: RefCell<Belongings>,
}

/// A victim at a chosen point.
pub(super) struct Reached {
    pub(super) victim: Victim,
    pub(super) stand: Stand,
    /// It has slept, and [`Scenario::help`] was given.
    pub(super) helped: bool,
    /// The victim is at the point where the observed life was.
    pub(super) met: bool,
}

impl Reached {
    /// Returns whether the operation has returned.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.stand, Stand::Ended | Stand::Gone)
    }
}

impl Round<'_> {
    /// A victim at its marker, in prepared surroundings.
    pub(super) fn victim(&self, world: &mut World) -> Result<Victim, Failure> {
        world.next_round();
        self.scenario.prepare(world)?;
        let (domain, control) = (world.domain(), world.control().to_owned());
        let name = world.fresh(self.scenario.stem());
        let cpu = self.orders.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
        let recheck = world.recheck().word();
        let arguments =
            [self.scenario.name(), "victim", text(&domain)?, recheck, &name, text(&control)?, &cpu];
        let log = world.folder().join("victim.log");
        let victim = Victim::start(&self.orders.victim, &arguments, &self.control, &log)
            .map_err(|error| Failure::broken(format!("the victim: {error}")))?;
        world.introduce(victim.pid() as u32, victim.tid() as u32);
        self.scenario.gather(world)?;
        Ok(victim)
    }

    /// The victim sleeps: help, once in its life.
    pub(super) fn help(&self, world: &mut World, helped: &mut bool) -> Result<(), Failure> {
        if std::mem::replace(helped, true) { Ok(()) } else { self.scenario.help(world) }
    }

    /// After [`Stand::Asleep`] in a step: help, and wait until the sleeper is back.
    fn wake(
        &self,
        world: &mut World,
        victim: &mut Victim,
        helped: &mut bool,
    ) -> Result<Stand, Failure> {
        self.help(world, helped)?;
        self.woken(world, |deadline| victim.awaken(&self.control, deadline))
    }

    /// Waits until the victim, which was helped, is awake. Where another process has rightly taken
    /// what it was to have, it is let on, once.
    fn woken(
        &self,
        world: &mut World,
        mut wait: impl FnMut(Instant) -> std::io::Result<Stand>,
    ) -> Result<Stand, Failure> {
        let patience = || Instant::now() + load::stretched(PATIENCE);
        match wait(patience()) {
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                if self.scenario.was_passed_over(world)? && world.first_time(LET_ON) {
                    self.scenario.let_on(world)?;
                    wait(patience()).map_err(not_woken)
                } else {
                    Err(not_woken(error))
                }
            }
            stand => stand.map_err(not_woken),
        }
    }

    /// One life from beginning to end, without a look at each step: what the first life in a world
    /// makes is there for the others.
    pub(super) fn pass_through(&self, world: &mut World) -> Result<(), Failure> {
        let mut victim = self.victim(world)?;
        let mut goal = Goal { address: self.control.end(), arrivals: 1, end: 0 };
        let mut helped = false;
        // A victim in another language has not told where its end is.
        let mut stand = Stand::Within;
        if goal.address != 0 {
            stand = victim.run(&self.control, &mut goal, None)?;
            while stand == Stand::Asleep {
                self.help(world, &mut helped)?;
                let deadline = Some(Instant::now() + load::stretched(PATIENCE));
                stand = victim.run(&self.control, &mut goal, deadline).map_err(not_woken)?;
            }
        }
        let mut steps = 0;
        loop {
            stand = match stand {
                Stand::Within if steps == LONGEST_LIFE => {
                    return Err(Failure::broken(format!(
                        "the operation does not end within {LONGEST_LIFE} steps"
                    )));
                }
                Stand::Within => {
                    steps += 1;
                    victim.step(&self.control)?
                }
                Stand::Asleep => self.wake(world, &mut victim, &mut helped)?,
                Stand::Ended | Stand::Gone => break,
            };
        }
        self.finish(world, &mut victim, helped, true)
    }

    /// One life from beginning to end, observed after each step.
    pub(super) fn observe(&self, world: &mut World) -> Result<Vec<Moment>, Failure> {
        let mut victim = self.victim(world)?;
        let before = Belongings::of(world.victim_pid(), world)?;
        let mut watch = Watch::new(&world.domain(), victim.tid())?;
        let mut life =
            vec![Moment { address: victim.address(), telling: true, ..Moment::default() }];
        let mut helped = false;
        loop {
            if let Some(here) = life.last_mut() {
                here.call = victim.next_call()?;
            }
            let mut stand = victim.step(&self.control)?;
            if stand == Stand::Asleep {
                life.push(Moment {
                    address: victim.address(),
                    telling: true,
                    asleep: true,
                    ..Moment::default()
                });
                stand = self.wake(world, &mut victim, &mut helped)?;
            }
            if stand == Stand::Gone {
                life.push(Moment { telling: true, ..Moment::default() });
                break;
            }
            let changed = watch.changed(victim.tid(), victim.entered_kernel())?;
            life.push(Moment {
                address: victim.address(),
                telling: changed || victim.entered_kernel(),
                repeating: victim.repeating(),
                ..Moment::default()
            });
            if stand == Stand::Ended {
                break;
            }
            if life.len() > LONGEST_LIFE {
                let slept = life.iter().filter(|moment| moment.asleep).count();
                let calls = life.iter().filter(|moment| moment.call.is_some()).count();
                return Err(Failure::broken(format!(
                    "the operation does not end under single steps: {LONGEST_LIFE} instructions with {calls} system \
                     calls; it slept {slept} times"
                )));
            }
        }
        *self.usual.borrow_mut() = self.left_by(world, &before)?;
        self.finish(world, &mut victim, helped, true)?;
        Ok(life)
    }

    /// What the victim has at its end. Threads that it has told to end are given the time.
    fn left_by(&self, world: &World, before: &Belongings) -> Result<Belongings, Failure> {
        let deadline = Instant::now() + ENDS_OF_THREADS;
        loop {
            let left = Belongings::of(world.victim_pid(), world)?;
            if self.orders.fate != Fate::Failing
                || left.threads() <= before.threads()
                || Instant::now() > deadline
            {
                return Ok(left);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills the victim at the point that it has reached; returns how it died.
    pub(super) fn kill(
        &self,
        world: &mut World,
        victim: &mut Victim,
        helped: bool,
        ended: bool,
    ) -> Result<Death, Failure> {
        if ended && self.control.has_failed() {
            return Err(Failure::wrong(
                "the victim was told of an error, and nothing had failed; see victim.log",
            ));
        }
        victim.kill()?;
        world.death();
        let mut notes = [0; 8];
        for (place, note) in notes.iter_mut().enumerate() {
            *note = self.control.note(place);
        }
        Ok(Death { ended, helped, acknowledged: self.control.acknowledged(), notes })
    }

    /// Kills the victim at the point that it has reached and checks the survivors.
    pub(super) fn finish(
        &self,
        world: &mut World,
        victim: &mut Victim,
        helped: bool,
        ended: bool,
    ) -> Result<(), Failure> {
        if ended {
            self.scenario.check_alive(world)?;
        }
        let death = self.kill(world, victim, helped, ended)?;
        self.scenario.check(world, &death)
    }

    /// A victim at a point of the observed life; it may have ended before, or stand elsewhere.
    pub(super) fn reach(
        &self,
        world: &mut World,
        route: Route,
        expected: &Moment,
        end: u64,
    ) -> Result<Reached, Failure> {
        let mut victim = self.victim(world)?;
        *self.before.borrow_mut() = Belongings::of(world.victim_pid(), world)?;
        let mut helped = false;
        let mut stand = Stand::Within;
        if route.arrivals > 0 {
            let mut goal = Goal { address: route.address, arrivals: route.arrivals, end };
            stand = victim.run(&self.control, &mut goal, None)?;
            while stand == Stand::Asleep {
                self.help(world, &mut helped)?;
                stand = self.woken(world, |deadline| {
                    victim.run(&self.control, &mut goal, Some(deadline))
                })?;
            }
        }
        for _ in 0..route.steps {
            stand = match stand {
                Stand::Ended | Stand::Gone => break,
                Stand::Asleep => self.wake(world, &mut victim, &mut helped)?,
                Stand::Within => victim.step(&self.control)?,
            };
        }
        let met =
            expected.address == victim.address() || (expected.address == 0 && stand == Stand::Gone);
        Ok(Reached { victim, stand, helped, met })
    }

    /// The victim, which stood still or was told of a fault, goes on to the end of its operation;
    /// where it sleeps, it is helped as ever.
    pub(super) fn go_on(
        &self,
        world: &mut World,
        reached: &mut Reached,
        end: u64,
    ) -> Result<(), Failure> {
        let Reached { victim, stand, helped, .. } = reached;
        let mut goal = Goal { address: end, arrivals: 1, end };
        for _ in 0..2 * LOOKS {
            match stand {
                Stand::Ended | Stand::Gone => return Ok(()),
                Stand::Within => *stand = victim.run(&self.control, &mut goal, None)?,
                Stand::Asleep => {
                    self.help(world, helped)?;
                    self.scenario.let_on(world)?;
                    match victim
                        .awaken(&self.control, Instant::now() + load::stretched(PATIENCE) / LOOKS)
                    {
                        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {}
                        stands => *stand = stands?,
                    }
                }
            }
        }
        Err(Failure::Hang("the victim, which goes on, sleeps".to_owned()))
    }

    /// A life that ends at a point of the observed one. Says whether it came there; otherwise the
    /// operation had ended first, or the victim was elsewhere when it was killed.
    pub(super) fn kill_at(
        &self,
        world: &mut World,
        route: Route,
        expected: &Moment,
        end: u64,
    ) -> Result<bool, Failure> {
        let mut reached = self.reach(world, route, expected, end)?;
        let ended = reached.has_ended();
        self.finish(world, &mut reached.victim, reached.helped, ended)?;
        Ok(reached.met)
    }
}

pub(super) fn not_woken(error: std::io::Error) -> Failure {
    Failure::Hang(format!("the victim, alive and helped: {error}"))
}
