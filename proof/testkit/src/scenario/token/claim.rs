//! Claiming the thread's token: a death in it leaves no token that reads alive and no slot that no
//! process can claim.
//!
//! In slots that were never used, in slots whose former owners are dead, and where all slots are
//! taken, so that the registry grows.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub enum Claim {
    /// Slots without a former owner.
    Fresh,
    /// Slots with a dead one.
    Reused,
    /// None is left.
    Growing,
}

impl Scenario for Claim {
    fn name(&self) -> &'static str {
        match self {
            Claim::Fresh => "token-claim-fresh",
            Claim::Reused => "token-claim-reused",
            Claim::Growing => "token-claim-growing",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Claim::Fresh => "claim a thread's token in a slot that was never used",
            Claim::Reused => "claim a thread's token in a slot whose former owner is dead",
            Claim::Growing => {
                "claim a thread's token when all slots are taken, so that the registry grows"
            }
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.ask("watcher", "token claim")?;
        match self {
            Claim::Reused if world.round() == 1 => world.ask("claimer", "token exhaust").map(drop),
            Claim::Growing => {
                // All survivors that will ask something have their tokens before none is left.
                world.ask("sweeper", "token claim")?;
                world.ask("taker", "token take-all").map(drop)
            }
            _ => Ok(()),
        }
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        let pid = world.victim_pid();
        match world.ask("watcher", &format!("token alive-of {pid}"))?.as_str() {
            "1" => Ok(()),
            other => Err(Failure::wrong(format!("the living victim has {other} living tokens"))),
        }
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        super::none_alive(world)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        super::others_claim(world)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let claimed = stage.perform(|| domain.token());
        claimed.map(drop).map_err(|error| error.to_string())
    }

    fn check_world(&self, world: &mut World) -> Result<(), Failure> {
        super::none_lost(world)
    }

    fn rounds_per_world(&self) -> u64 {
        match self {
            // So few that all of them find slots that were never used.
            Claim::Fresh => 40,
            Claim::Reused => 100,
            Claim::Growing => 1,
        }
    }
}
