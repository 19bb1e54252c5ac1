//! Opening a named mutex that another process uses: the opener's death touches nothing.

use outlive::sync::Mutex;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Open;

impl Scenario for Open {
    fn name(&self) -> &'static str {
        "segment-open"
    }

    fn about(&self) -> &'static str {
        "open a named mutex that is there and close it again, while another process holds it and one sleeps on it"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("holder", &format!("mutex hold {name}"))?;
        world.survivor("sleeper")?.tell_and_see_asleep(&format!("mutex use {name}"))
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if world.first_time("release") {
            world.ask("holder", &format!("mutex release {name}"))?;
        }
        let answer = world.answer("sleeper")?;
        if answer != "clean" {
            return Err(Failure::wrong(format!(
                "the sleeper got the lock `{answer}`, the victim only opened it"
            )));
        }
        super::count(world, &answer)?;
        super::still_works(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if world.first_time("release") {
            world.passes("holder", &format!("mutex release {name}"))?;
        }
        super::pass(world, &[&name])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        let opened = stage.perform(|| {
            Mutex::<[u64; 2]>::options([7, 7]).open_or_create(&domain, place.name).map(drop)
        });
        opened.map_err(|error| error.to_string())
    }
}
