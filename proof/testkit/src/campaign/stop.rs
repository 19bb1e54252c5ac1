//! A life in which the victim stands still at a chosen point, for as long as the survivors need to
//! get past everything that it does not hold. Then it goes on to its end, and everything has to add
//! up; or the engine kills it at that point.
//!
//! For every other process, a stop by the tracer is what SIGSTOP is: the victim takes no further
//! step. A victim that *sleeps* at the point is stopped in two ways. [`Sleep::Frozen`]: it stays
//! queued in the kernel, another process wakes it there, and it takes no step afterwards, as under
//! the freezer of control groups, version 1. [`Sleep::Stopped`]: SIGSTOP takes it out of the queue,
//! and its call begins anew when it goes on.

use super::round::Round;
use crate::engine::plan::{Moment, Route};
use crate::engine::victim::Stand;
use crate::failure::Failure;
use crate::scenario::Stop;
use crate::world::World;

/// What becomes of the victim after the stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It goes on to the end of its operation.
    GoesOn,
    /// The engine kills it at that point.
    IsKilled,
}

/// How a sleeping victim is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    /// It stays in the queue.
    Frozen,
    /// By SIGSTOP, which takes it out.
    Stopped,
}

impl Round<'_> {
    /// A life with a stop at a point of the observed one. Says whether it came there.
    pub(super) fn stop_at(
        &self,
        world: &mut World,
        route: Route,
        expected: &Moment,
        end: u64,
        (then, sleep): (Then, Sleep),
    ) -> Result<bool, Failure> {
        let mut reached = self.reach(world, route, expected, end)?;
        let asleep = reached.stand == Stand::Asleep;
        if asleep && sleep == Sleep::Stopped {
            reached.stand = reached.victim.suspend(&self.control)?;
        }
        self.control.set_overtaken();
        world.stop();
        let mut stop = Stop {
            ended: reached.has_ended(),
            helped: reached.helped,
            acknowledged: self.control.acknowledged(),
            asleep,
        };
        let held = self
            .scenario
            .stopped(world, &mut stop)
            .map_err(|failure| while_stopped(failure, stop))?;
        world.saw(held);
        reached.helped = stop.helped;
        if then == Then::GoesOn {
            self.go_on(world, &mut reached, end)?;
        }
        let ended = reached.has_ended();
        if ended {
            self.scenario.check_alive(world)?;
        }
        let death = self.kill(world, &mut reached.victim, reached.helped, ended)?;
        self.scenario.check_after_stop(world, &death)?;
        Ok(reached.met)
    }
}

fn while_stopped(failure: Failure, stop: Stop) -> Failure {
    let how = if stop.asleep { "asleep" } else { "stopped" };
    failure.with(&format!(
        "while the victim is {how} (helped: {}, ended: {})",
        stop.helped, stop.ended
    ))
}
