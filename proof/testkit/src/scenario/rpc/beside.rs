//! A server comes beside another one that has its hands full, takes two calls, answers them, and
//! leaves: cut short anywhere, the other server answers what it had not begun, and nothing is begun
//! twice. No client is told "not begun", since one server lives all the time.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::rpc::{answer_to, server_beside};
use crate::scenario::{Death, Place, Scenario, Stop, names_victim, passes_with};
use crate::world::World;

/// See the file's head.
pub struct Beside;

impl Scenario for Beside {
    fn name(&self) -> &'static str {
        "rpc-serve-beside"
    }

    fn about(&self) -> &'static str {
        "become a server beside another, answer two calls, of a client that wants this server and one that wants any, and leave"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("beside", &format!("rpc serve-beside {name}")).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world
            .survivor("second")?
            .tell_and_see_asleep(&format!("rpc call {name} 2 1 48 at-once"))?;
        world.survivor("third")?.tell_and_see_asleep(&format!("rpc call {name} 3 1 48 wait"))
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let served = world.ask("beside", &format!("rpc answer {name} 48"))?;
        let (mut by_beside, mut by_victim) = (0, 0);
        for (client, stamp) in [("second", "2:1"), ("third", "3:1")] {
            let told = world.answer(client)?;
            let times = super::times(&served, stamp);
            let right = match told.as_str() {
                told if told == stamp => times <= 1,
                "died-begun" => times == 0,
                // It was begun, and the answer could not be given: by a fault.
                "dropped" => times == 0 && !death.ended && world.has_stop(),
                _ => false,
            };
            if !right {
                return Err(Failure::wrong(format!(
                    "the client is told `{told}`, and the other server finds `{served}`"
                )));
            }
            by_beside += times as u64;
            by_victim += u64::from(told == stamp && times == 0);
        }
        if by_victim < death.acknowledged {
            return Err(Failure::wrong(format!(
                "{} were acknowledged, and the other server finds `{served}`",
                death.acknowledged
            )));
        }
        world.saw_many("answered by the other", by_beside);
        let come = world.ask("heir", &format!("rpc serve-beside {name}"))?;
        if come != "mine" {
            return Err(Failure::wrong(format!("a place is free, yet it is `{come}`")));
        }
        world.ask("heir", &format!("rpc close {name}"))?;
        super::still_works(world, "beside", "second", &name)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        world.passes("fourth", &format!("rpc join {name}"))?;
        // The other server takes what the victim has not begun, and each client whose call was
        // answered has the answer.
        let served = world.passes("beside", &format!("rpc answer {name} 48"))?;
        let both = super::answered_have_it(world, &name, &["second", "third"])?;
        let has_place = names_victim(world, &format!("rpc servers {name}"))?;
        if has_place {
            passes_with(world, "heir", &format!("rpc serve-beside {name}"), "taken")?;
        }
        Ok(match (has_place, both, served.is_empty()) {
            (true, true, _) => "has a place, and both calls are answered",
            (true, false, _) => "has a place, and a call",
            (false, _, false) => "has no place; the other has answered",
            (false, _, true) => "has no place",
        })
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        domain.process_token().map_err(|error| error.to_string())?;
        stage.perform(|| {
            let mut server =
                server_beside(&domain, place.name).map_err(|error| error.to_string())?;
            for _ in 0..2 {
                let request = match server.try_next().map_err(|error| error.to_string())? {
                    // The other server has taken it meanwhile.
                    None if stage.is_overtaken() => return Ok(()),
                    request => request.ok_or("nobody asks")?,
                };
                let answer = answer_to(&request, 48)?;
                request.reply(&answer).map_err(|error| error.to_string())?;
                stage.acknowledge(1);
            }
            Ok(())
        })
    }

    fn stem(&self) -> &'static str {
        "service"
    }
}
