//! Standing by for a server that dies, with a call begun and one that was not, while another process
//! stands by as well: cut short anywhere, the other one takes over at once; the call that was not begun
//! is carried out once at most, and its client is never left waiting.

use outlive::rpc::{Server, Service};
use outlive::{Domain, Error};

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::rpc::{answer_to, service};
use crate::scenario::stand_by::wait_in_set;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, help_beside, names_victim};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StandBy {
    /// Sleeps until it can serve.
    Plain,
    /// The same by a wait set.
    InSet,
}

impl StandBy {
    fn wait(self, domain: &Domain, service: &Service) -> Result<Server, Error> {
        if self == StandBy::Plain {
            return service.wait_to_serve();
        }
        wait_in_set(domain, &service.stand_by(), || service.try_wait_to_serve())
    }
}

impl Scenario for StandBy {
    fn name(&self) -> &'static str {
        match self {
            StandBy::Plain => "rpc-stand-by",
            StandBy::InSet => "rpc-stand-by-in-set",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            StandBy::Plain => {
                "sleep until the server dies, beside another that does, serve the call that was not begun, and leave"
            }
            StandBy::InSet => "the same in a wait set",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("old", &format!("rpc serve {name}"))?;
        world.ask("second", &format!("rpc begin {name} 2 1 48"))?;
        world.ask("old", &format!("rpc take {name}"))?;
        world.survivor("third")?.tell_and_see_asleep(&format!("rpc call {name} 3 1 48 wait"))
    }

    /// The other one sleeps behind the victim: the kernel wakes the victim first, which wakes it.
    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.survivor("other")?.tell_and_see_asleep(&format!("rpc stand-by {name} 48"))?;
        world.dismiss("old");
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if !death.helped {
            self.help(world)?;
        }
        let by_other = world.answer("other")?;
        let told = world.ask("second", &format!("rpc wait {name}"))?;
        if told != "died-begun" {
            return Err(Failure::wrong(format!("the first client is told `{told}`")));
        }
        let third = world.answer("third")?;
        let times = super::times(&by_other, "3:1") as u64;
        let right = match third.as_str() {
            "3:1" => times + death.acknowledged <= 1,
            "died-begun" => times + death.acknowledged == 0,
            _ => false,
        };
        if !right || super::times(&by_other, "2:1") > 0 {
            let told = format!("the client is told `{third}`");
            return Err(Failure::wrong(format!("{told}, and the other served `{by_other}`")));
        }
        world.saw_many("served by the other", times);
        let heir = world.ask("heir", &format!("rpc serve {name}"))?;
        if heir != "mine" {
            return Err(Failure::wrong(format!("no process serves, yet it is `{heir}`")));
        }
        super::still_works(world, "heir", "second", &name)
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        world.passes("fourth", &format!("rpc join {name}"))?;
        if !stop.ended {
            help_beside(self, world, stop)?;
        }
        if names_victim(world, &format!("rpc server {name}"))? {
            let answered = super::answered_have_it(world, &name, &["third"])?;
            return Ok(if answered { "is the server, and has answered" } else { "is the server" });
        }
        world.gets_past("other")?;
        world.gets_past("third")?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        domain.process_token().map_err(|error| error.to_string())?;
        let service = service(&domain, place.name).map_err(|error| error.to_string())?;
        stage.perform(|| {
            let mut server = self.wait(&domain, &service).map_err(|error| error.to_string())?;
            // None: the other one was faster.
            if let Some(request) = server.try_next().map_err(|error| error.to_string())? {
                if Stamp::of(&request)? != (Stamp { sender: 3, number: 1 }) {
                    return Err("a call that was begun comes again".to_owned());
                }
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
