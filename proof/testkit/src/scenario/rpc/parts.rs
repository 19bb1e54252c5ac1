//! Requests of several parts. A client that dies while it sends them: the server that waits for the
//! next one is told at once, and has every part whole. A server that dies while it takes them: the
//! client that waits for room is told at once.

use outlive::rpc::Server;

use super::LONG;
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::rpc::{answer_to, client, server};
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// How many parts the victim sends.
const SENT: u64 = 3;
/// How many parts a client sends to the victim: more than lie in a slot at once.
const TAKEN: u64 = 10;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// The victim is the client.
    Send,
    /// The same, and its parts are written in place.
    Lend,
    /// The victim is the server.
    Take,
}

impl Parts {
    fn take(server: &mut Server, stage: &Stage) -> Result<(), String> {
        let request = server.try_next().map_err(|error| error.to_string())?;
        let mut request = request.ok_or("nobody asks")?;
        let answer = answer_to(&request, 48)?;
        while let Some(part) = request.next_part().map_err(|error| error.to_string())? {
            Stamp::of(&part)?;
        }
        request.reply(&answer).map_err(|error| error.to_string())?;
        stage.acknowledge(1);
        Ok(())
    }
}

impl Scenario for Parts {
    fn name(&self) -> &'static str {
        match self {
            Parts::Send => "rpc-parts-send",
            Parts::Lend => "rpc-parts-lend",
            Parts::Take => "rpc-parts-take",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Parts::Send => "send the parts of a request to a server that waits for them, asleep",
            Parts::Lend => {
                "send the parts of a request, written in place, to a server that waits for them, asleep"
            }
            Parts::Take => {
                "take the parts of a request, whose client waits for room, asleep, and reply"
            }
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        if *self == Parts::Take {
            return Ok(());
        }
        let name = world.fresh(self.stem());
        world.ask("server", &format!("rpc serve {name}")).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Parts::Take {
            let order = format!("rpc upload {name} 2 1 {TAKEN}");
            return world.survivor("second")?.tell_and_see_asleep(&order);
        }
        world.ask("server", &format!("rpc take {name}"))?;
        world.survivor("server")?.tell_and_see_asleep(&format!("rpc parts {name}"))
    }

    fn help(&self, _world: &mut World) -> Result<(), Failure> {
        // The other end goes on by itself; on a busy machine it comes to that after the victim sleeps.
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self != Parts::Take {
            let told = world.answer("server")?;
            let right = match told.split_once(' ') {
                Some((count, "ended")) => count == SENT.to_string(),
                Some((count, "cancelled")) => {
                    death.acknowledged == 0 && count.parse().is_ok_and(|count: u64| count <= SENT)
                }
                _ => false,
            };
            if !right {
                return Err(Failure::wrong(format!("the server has `{told}`")));
            }
            world.saw_many("all parts taken", u64::from(told.ends_with("ended")));
            return super::still_works(world, "server", "second", &name);
        }
        let told = world.answer("second")?;
        let right = match told.as_str() {
            "2:1" => true,
            "died-begun" | "died" => death.acknowledged == 0,
            // It was begun, and the answer could not be given: by a fault.
            "dropped" => death.acknowledged == 0 && !death.ended && world.has_stop(),
            _ => false,
        };
        if !right {
            return Err(Failure::wrong(format!(
                "the client is told `{told}`, {} were acknowledged",
                death.acknowledged
            )));
        }
        world.saw_many("told that it was begun", u64::from(told == "died-begun"));
        let become_server = world.ask("heir", &format!("rpc serve {name}"))?;
        if become_server != "mine" {
            return Err(Failure::wrong(format!("the server is dead, yet it is `{become_server}`")));
        }
        super::still_works(world, "heir", "second", &name)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        world.passes("fourth", &format!("rpc join {name}"))?;
        Ok(match self {
            Parts::Send | Parts::Lend => "keeps the thread that takes its parts waiting",
            Parts::Take => "is the server",
        })
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        if *self == Parts::Take {
            let mut server = server(&domain, place.name).map_err(|error| error.to_string())?;
            stage.begin();
            let taken = Parts::take(&mut server, stage);
            // Before it leaves.
            stage.end_of(&taken);
            return taken;
        }
        let client = client(&domain, place.name)?;
        let failed = |error: outlive::rpc::CallError| error.to_string();
        let message = |number, len| Stamp { sender: 1, number }.message(len);
        let mut stream = Some(client.stream(&message(1, 48)).map_err(failed)?);
        stage.perform(|| {
            let mut parts = stream.take().ok_or("sent already")?;
            for number in 0..SENT {
                let part = message(2 + number, if number == 1 { LONG } else { 48 });
                if *self == Parts::Lend {
                    let mut loan = parts.loan(part.len()).map_err(failed)?;
                    loan.copy_from_slice(&part);
                    loan.send().map_err(failed)?;
                } else {
                    parts.send(&part).map_err(failed)?;
                }
            }
            parts.finish().and_then(|call| call.wait()).map_err(failed).map(drop)
        })
    }

    fn stem(&self) -> &'static str {
        "service"
    }
}
