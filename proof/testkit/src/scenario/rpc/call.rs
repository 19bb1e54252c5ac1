//! The client dies in a call, or in cancelling one: its request is carried out once at most,
//! others' answers are their own, and what was for it is freed.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::rpc::{client, wait_in_set};
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Asks and waits, in slots.
    Short,
    /// The same, in a wait set.
    InSet,
    /// With objects both ways.
    Long,
    /// Asks and lets go.
    Cancel,
}

impl Call {
    fn len(self) -> usize {
        if self == Call::Long { super::LONG } else { 48 }
    }
}

impl Call {
    /// The server answers what is there; how often it has served the victim's call, and the
    /// other's, is remembered.
    fn serve(self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh("service");
        let served = world.ask("server", &format!("rpc answer {name} {}", self.len()))?;
        let more = super::times(&served, "1:1") + 10 * super::times(&served, "2:1");
        world.remember(world.remembered() + more as u64);
        Ok(())
    }
}

impl Scenario for Call {
    fn name(&self) -> &'static str {
        match self {
            Call::Short => "rpc-call",
            Call::InSet => "rpc-call-in-set",
            Call::Long => "rpc-call-long",
            Call::Cancel => "rpc-cancel",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Call::Short => "ask, sleep, be woken by the answer, beside another client that waits",
            Call::InSet => "the same, asleep in a wait set",
            Call::Long => "the same with a long request and a long answer",
            Call::Cancel => "ask, and let go of the call before the server has begun it",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("server", &format!("rpc serve {name}"))?;
        world.survivor("second")?.tell_and_see_asleep(&format!("rpc call {name} 2 1 48 at-once"))
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        world.remember(0);
        self.serve(world)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let before = if death.helped { world.remembered() } else { 0 };
        let served = world.ask("server", &format!("rpc answer {name} {}", self.len()))?;
        let mine = before % 10 + super::times(&served, "1:1") as u64;
        let others = before / 10 + super::times(&served, "2:1") as u64;
        if others != 1 || mine > 1 || mine < death.acknowledged {
            return Err(Failure::wrong(format!(
                "the victim's call came {mine} times, the other's {others} times"
            )));
        }
        if *self == Call::Cancel && death.ended && mine != 0 && !world.has_stop() {
            return Err(Failure::wrong("a call came whose client was told that it never would"));
        }
        world.saw_many("carried out for the dead", mine);
        let told = world.answer("second")?;
        if told != "2:1" {
            return Err(Failure::wrong(format!("the other client is told `{told}`")));
        }
        super::still_works(world, "server", "second", &name)
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        crate::scenario::help_beside(self, world, stop)?;
        world.gets_past("second")?;
        // Another client asks now: behind whatever the victim has left half done.
        let name = world.fresh(self.stem());
        world.survivor("third")?.tell_and_see_asleep(&format!("rpc call {name} 3 1 48 at-once"))?;
        self.serve(world)?;
        world.stop();
        world.gets_past("third")?;
        match world.answer_by_now("third")?.as_str() {
            "3:1" => Ok(HOLDS_NOTHING),
            other => Err(Failure::wrong(format!("the third client is told `{other}`"))),
        }
    }

    fn let_on(&self, world: &mut World) -> Result<(), Failure> {
        self.serve(world)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let client = client(&domain, place.name)?;
        let message = Stamp { sender: 1, number: 1 }.message(self.len());
        let asked = stage.perform(|| {
            let mut call = client.begin(&message).map_err(|error| error.to_string())?;
            if *self == Call::Cancel {
                if call.cancel() && !stage.is_overtaken() {
                    return Err("nobody has begun it, and yet it says so".to_owned());
                }
                return Ok(None);
            }
            if *self == Call::InSet {
                let told = wait_in_set(&domain, &mut call)?;
                stage.acknowledge(1);
                return if told == "1:1" {
                    Ok(Some(call))
                } else {
                    Err(format!("the answer is {told}"))
                };
            }
            let reply = call.wait().map_err(|error| error.to_string())?;
            stage.acknowledge(1);
            if Stamp::of(&reply)? == (Stamp { sender: 1, number: 1 }) {
                Ok(None)
            } else {
                Err("the answer is another's".to_owned())
            }
        });
        asked.map(drop)
    }

    fn stem(&self) -> &'static str {
        "service"
    }
}
