//! Sweeping a domain in which a lock's holder, a receiver with a message in hand and senders in the
//! middle of their work were killed: cut short anywhere, the next sweep goes on, and nothing that
//! was sent is lost.

use std::time::Duration;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, passes_with, queue};
use crate::world::World;

/// See the file's head.
pub struct Sweep;

const FRENZIED: [&str; 3] = ["frenzied-a", "frenzied-b", "frenzied-c"];

/// The mark of a round in which all that was sent has been received.
const RECEIVED: &str = "all has been received";

/// Another comes as the receiver, and receives what was sent, once in a round; remembered is how
/// much that was.
fn receive_all(world: &mut World, name: &str) -> Result<(), Failure> {
    if !world.first_time(RECEIVED) {
        return Ok(());
    }
    world.ask("heir", &format!("queue become-receiver {name}"))?;
    let all = queue::drain(world, "heir", name)?;
    queue::in_order(&all, 2, 1, 2, 2)?;
    for number in 0..FRENZIED.len() as u64 {
        queue::in_order(&all, 10 + number, 1, 0, u64::MAX)?;
    }
    world.remember(all.len() as u64);
    Ok(())
}

impl Scenario for Sweep {
    fn name(&self) -> &'static str {
        "domain-sweep"
    }

    fn about(&self) -> &'static str {
        "sweep after the deaths of a lock's holder, a receiver and senders, killed at random"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let (lock, name) = (world.fresh("lock"), world.fresh("queue"));
        world.ask("holder", &format!("mutex hold {lock}"))?;
        world.ask("holder", &format!("mutex hold {}", world.fresh("beside")))?;
        world.dismiss("holder");
        world.ask("second", &format!("queue create {name} 262144 4"))?;
        world.ask("old", &format!("queue become-receiver {name}"))?;
        world.ask("second", &format!("queue send {name} 2 1 2 48"))?;
        world.ask("old", &format!("queue peek {name}"))?;
        for (number, frenzied) in FRENZIED.into_iter().enumerate() {
            world.survivor(frenzied)?.tell(&format!("queue frenzy {name} {}", 10 + number))?;
        }
        // Long enough for all of them to be at it; where each is killed is left to chance.
        std::thread::sleep(Duration::from_millis(3));
        for frenzied in FRENZIED {
            world.dismiss(frenzied);
        }
        world.dismiss("old");
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let (lock, beside, name) =
            (world.fresh("lock"), world.fresh("beside"), world.fresh("queue"));
        let first = world.ask("sweeper", "domain sweep")?;
        world.saw(if first == "clean" { "nothing left to sweep" } else { "swept on" });
        // The victim's own token is what it may leave.
        if death.ended && (first.contains("claims: 0, objects: 0") == (first == "clean")) {
            return Err(Failure::wrong(format!("swept and acknowledged, yet there is: {first}")));
        }
        receive_all(world, &name)?;
        let counted = queue::counters(world, "heir", &name)?;
        queue::adds_up(&counted, world.remembered(), FRENZIED.len() as u64)?;
        world.saw_many("abandoned", counted.abandoned);
        let answer = world.ask("next", &format!("mutex use {lock}"))?;
        if answer != "died" {
            return Err(Failure::wrong(format!(
                "the lock's owner was killed, the next got it `{answer}`"
            )));
        }
        for survivor in world.survivors() {
            world.ask(survivor, &format!("queue close {name}"))?;
        }
        crate::scenario::nothing_left(world, &[&lock, &beside, &name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        // Others sweep beside it, and use what is there; of the two locks, the check wants one as
        // the dead left it.
        world.passes("passer", "domain sweep")?;
        let beside = world.fresh("beside");
        world.passes("passer", &format!("mutex use {beside}"))?;
        let name = world.fresh("queue");
        world.passes("passer", &format!("queue counters {name}"))?;
        // Its receiver is dead, and that is told; another comes, and finds everything.
        passes_with(world, "second", &format!("queue send {name} 2 3 1 48"), "receiver-died")?;
        world.passes("heir", &format!("queue become-receiver {name}"))?;
        world.passes("heir", &format!("queue leave-receiver {name}"))?;
        receive_all(world, &name)?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        stage.perform(|| crate::scenario::sweep_all(&domain))
    }
}
