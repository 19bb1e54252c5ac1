//! Taking a name in the domain and giving it up, beside a process that follows what comes and goes.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Name;

impl Scenario for Name {
    fn name(&self) -> &'static str {
        "node-register"
    }

    fn about(&self) -> &'static str {
        "take a name in the domain, and give it up"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.ask("next", "domain open").map(drop)
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        // Whole or not there; and a dead process has none.
        let answer = world.ask("next", "domain nodes")?;
        if answer != "0" {
            return Err(Failure::wrong(format!("a dead process has a name: {answer}")));
        }
        // What it left goes with the next sweep: a look changes nothing.
        world.ask("next", "domain sweep")?;
        let left = std::fs::read_dir(world.domain()).into_iter().flatten().flatten();
        let left = left.filter(|file| file.file_name().to_string_lossy().starts_with(".node-"));
        match left.count() {
            0 => Ok(()),
            count => Err(Failure::wrong(format!("{count} files of dead nodes are left"))),
        }
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        world.passes("next", "domain nodes")?;
        Ok(HOLDS_NOTHING)
    }

    fn has_sleepers(&self) -> bool {
        false
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.process_token().map_err(|error| error.to_string())?;
        let done = stage.perform(|| {
            let node = domain.node("victim").attribute("key", "value").register()?;
            drop(node);
            Ok::<(), outlive::Error>(())
        });
        done.map_err(|error| error.to_string())
    }
}
