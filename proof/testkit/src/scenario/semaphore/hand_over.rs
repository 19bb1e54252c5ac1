//! Handing a permit to a survivor that sleeps for it, while another sleeps for any: at each moment
//! it is one's or the other's, and once it was handed over, the death of the giver is nothing.
//!
//! No giver's death ends the receiver's wait (it cannot know which process ought to give). A giver
//! that dies before it has woken the receiver leaves it asleep until the next notification, as its
//! documentation says; the check gives it another.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::semaphore::{offer, receiver};
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct HandOver;

impl Scenario for HandOver {
    fn name(&self) -> &'static str {
        "semaphore-hand-over"
    }

    fn about(&self) -> &'static str {
        "hand a permit to a survivor asleep for it, with another asleep for any"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("taker", &format!("semaphore offer {name}"))?;
        world.ask("bystander", &format!("semaphore hold {name}")).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.survivor("taker")?.tell_and_see_asleep(&format!("semaphore take-up {name}"))?;
        world.survivor("sleeper")?.tell_and_see_asleep(&format!("semaphore acquire {name}"))
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        super::expect_got(world, &["taker", "sleeper"], true)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if !death.ended {
            // Handed over or not, another one comes.
            world.ask("bystander", &format!("semaphore release {name}"))?;
            world.ask("next", &format!("semaphore give {name}"))?;
            super::expect_got(world, &["taker", "sleeper"], false)?;
        }
        let second = world.ask("taker", &format!("semaphore try-take-up {name}"))?;
        if death.ended {
            if second != "none" {
                return Err(Failure::wrong("handed over once, taken up twice"));
            }
            world.ask("bystander", &format!("semaphore release {name}"))?;
        }
        world.saw(if second == "got" {
            "handed over before the death"
        } else {
            "handed over once"
        });
        super::still_works(world, &name, 2, &[&name, &offer(&name)])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        super::pass(world, &name)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let semaphore = super::victims(place)?;
        let to = receiver(&place.open()?, place.name)?;
        let permit = semaphore.acquire().map_err(|error| error.to_string())?;
        stage.begin();
        permit.hand_to(to);
        stage.end();
        Ok(())
    }
}
