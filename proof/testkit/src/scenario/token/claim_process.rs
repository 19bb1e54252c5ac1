//! Claiming the process's token, by main itself or, first asked for by another thread, by a keeper
//! thread.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub enum ClaimProcess {
    /// Main asks first and holds it.
    ByMain,
    /// Another thread asks first: a keeper is started.
    ByKeeper,
}

impl Scenario for ClaimProcess {
    fn name(&self) -> &'static str {
        match self {
            ClaimProcess::ByMain => "token-claim-process",
            ClaimProcess::ByKeeper => "token-claim-keeper",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            ClaimProcess::ByMain => "claim the process's token from the main thread",
            ClaimProcess::ByKeeper => {
                "claim the process's token from another thread, which starts a keeper"
            }
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.ask("watcher", "token claim").map(drop)
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        let pid = world.victim_pid();
        match world.ask("watcher", &format!("token alive process {pid}"))?.as_str() {
            "1" => Ok(()),
            other => {
                Err(Failure::wrong(format!("the living victim has {other} living process tokens")))
            }
        }
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        super::none_alive(world)
    }

    fn help(&self, _world: &mut World) -> Result<(), Failure> {
        // It waits for its own keeper.
        Ok(())
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        super::others_claim(world)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let claim = || {
            domain.token().map_err(|error| error.to_string())?;
            let claimed = stage.perform(|| domain.process_token());
            claimed.map(drop).map_err(|error| error.to_string())
        };
        match self {
            ClaimProcess::ByMain => claim(),
            ClaimProcess::ByKeeper => std::thread::scope(|scope| scope.spawn(claim).join())
                .map_err(|_| "the claiming thread panicked")?,
        }
    }

    fn check_world(&self, world: &mut World) -> Result<(), Failure> {
        super::none_lost(world)
    }
}
