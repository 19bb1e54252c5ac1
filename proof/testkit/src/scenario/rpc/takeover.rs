//! Taking over from a dead server that had begun one of two calls: cut short anywhere, the next one
//! takes over; the call that was not begun is carried out once at most, and the client that waits
//! for any server is never left waiting.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::rpc::{answer_to, server};
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, names_victim, passes_with};
use crate::world::World;

/// See the file's head.
pub struct Takeover;

impl Scenario for Takeover {
    fn name(&self) -> &'static str {
        "rpc-takeover"
    }

    fn about(&self) -> &'static str {
        "become the server after one that was killed with a call begun, answer the call of a client that waits for any server"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("old", &format!("rpc serve {name}"))?;
        world.ask("second", &format!("rpc begin {name} 2 1 48"))?;
        world.ask("old", &format!("rpc take {name}"))?;
        world.survivor("third")?.tell_and_see_asleep(&format!("rpc call {name} 3 1 48 wait"))?;
        world.dismiss("old");
        let told = world.ask("second", &format!("rpc wait {name}"))?;
        if told == "died-begun" {
            Ok(())
        } else {
            Err(Failure::wrong(format!("the first client is told `{told}`")))
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let become_server = world.ask("heir", &format!("rpc serve {name}"))?;
        if become_server != "mine" {
            return Err(Failure::wrong(format!("the server is dead, yet it is `{become_server}`")));
        }
        let served = world.ask("heir", &format!("rpc answer {name} 48"))?;
        let third = world.answer("third")?;
        let by_heir = super::times(&served, "3:1");
        let right = match third.as_str() {
            "3:1" => by_heir as u64 + death.acknowledged <= 1,
            "died-begun" => by_heir == 0 && death.acknowledged == 0,
            _ => false,
        };
        if !right || super::times(&served, "2:1") > 0 {
            let told = format!("the client is told `{third}`");
            return Err(Failure::wrong(format!("{told}, and the next server finds `{served}`")));
        }
        world.saw_many("served by the next", by_heir as u64);
        super::still_works(world, "heir", "second", &name)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        // Whether the victim is the server by now or not: a client that asks does not wait long to
        // learn it.
        world.passes("fourth", &format!("rpc join {name}"))?;
        if names_victim(world, &format!("rpc server {name}"))? {
            passes_with(world, "heir", &format!("rpc serve {name}"), "taken")?;
            let answered = super::answered_have_it(world, &name, &["third"])?;
            return Ok(if answered { "is the server, and has answered" } else { "is the server" });
        }
        // Another comes in the dead one's place, serves, and dies, so that it is as it was but for
        // the call.
        passes_with(world, "passer", &format!("rpc serve {name}"), "mine")?;
        passes_with(world, "passer", &format!("rpc answer {name} 48"), "3:1")?;
        world.gets_past("third")?;
        world.dismiss("passer");
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        domain.process_token().map_err(|error| error.to_string())?;
        let came = stage.perform(|| {
            let mut server = server(&domain, place.name).map_err(|error| error.to_string())?;
            let request = match server.try_next().map_err(|error| error.to_string())? {
                // Another server has answered it meanwhile.
                None if stage.is_overtaken() => return Ok(server),
                request => request.ok_or("the call that was not begun is not there")?,
            };
            if Stamp::of(&request)? != (Stamp { sender: 3, number: 1 }) {
                return Err("a call that was begun comes again".to_owned());
            }
            let answer = answer_to(&request, 48)?;
            request.reply(&answer).map_err(|error| error.to_string())?;
            stage.acknowledge(1);
            Ok(server)
        });
        came.map(drop)
    }

    fn stem(&self) -> &'static str {
        "service"
    }
}
