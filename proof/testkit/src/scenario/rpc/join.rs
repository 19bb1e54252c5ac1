//! Coming as a client into the place of a dead one that had unread answers, a call that was not
//! begun, and one in a server's hands; and leaving it: cut short anywhere, the next one settles
//! what is left.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::rpc::client;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Join;

impl Scenario for Join {
    fn name(&self) -> &'static str {
        "rpc-join"
    }

    fn about(&self) -> &'static str {
        "take the place of a dead client that had unread long answers and calls in flight, and leave it"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("server", &format!("rpc serve {name}"))?;
        for number in 1..4 {
            world.ask("old", &format!("rpc begin {name} 3 {number} 48"))?;
        }
        world.ask("server", &format!("rpc answer {name} 50000"))?;
        world.ask("old", &format!("rpc begin {name} 3 4 48"))?;
        world.ask("server", &format!("rpc take {name}"))?;
        world.ask("old", &format!("rpc begin {name} 3 5 48"))?;
        world.dismiss("old");
        Ok(())
    }

    fn check(&self, world: &mut World, _: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("second", &format!("rpc join {name}"))?;
        let served = world.ask("server", &format!("rpc answer {name} 48"))?;
        if super::times(&served, "3:5") > 1 {
            return Err(Failure::wrong(format!(
                "a dead client's call comes more than once: `{served}`"
            )));
        }
        super::still_works(world, "server", "second", &name)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        let order = format!("rpc call {name} 2 50 48 at-once");
        world.survivor("second")?.tell_and_see_asleep(&order)?;
        world.passes("server", &format!("rpc answer {name} 48"))?;
        world.gets_past("second")?;
        match world.answer_by_now("second")?.as_str() {
            "2:50" => Ok(HOLDS_NOTHING),
            other => Err(Failure::wrong(format!("the second client is told `{other}`"))),
        }
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        domain.process_token().map_err(|error| error.to_string())?;
        stage.perform(|| {
            drop(client(&domain, place.name)?);
            Ok(())
        })
    }

    fn stem(&self) -> &'static str {
        "service"
    }
}
