//! Letting go of a call that the server has begun, and whose server waits until no client wants the
//! reply: cut short anywhere, the server is told.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::rpc::client;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct LetGo;

impl Scenario for LetGo {
    fn name(&self) -> &'static str {
        "rpc-let-go"
    }

    fn about(&self) -> &'static str {
        "let go of a call that the server has begun, and whose cancellation it waits for"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("server", &format!("rpc serve {name}")).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("server", &format!("rpc take {name}"))?;
        world.survivor("server")?.tell_and_see_asleep(&format!("rpc cancelled {name}"))
    }

    fn check(&self, world: &mut World, _: &Death) -> Result<(), Failure> {
        let told = world.answer("server")?;
        if told != "cancelled" {
            return Err(Failure::wrong(format!("the server is told `{told}`")));
        }
        let name = world.fresh(self.stem());
        super::still_works(world, "server", "second", &name)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if world.ask("second", &format!("rpc begun {name}"))? != "0" {
            return Ok("has not let go of its call");
        }
        world.gets_past("server")?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let client = client(&domain, place.name)?;
        let message = Stamp { sender: 1, number: 1 }.message(48);
        let call = client.begin(&message).map_err(|error| error.to_string())?;
        let mut call = Some(call);
        stage.perform(|| {
            drop(call.take());
            Ok(())
        })
    }

    fn stem(&self) -> &'static str {
        "service"
    }
}
