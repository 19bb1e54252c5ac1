//! The server dies between taking a call and having answered it: a client that waits is told at
//! once, a client that wants another server has one, and nothing is begun twice.

use outlive::rpc::Server;

use super::LONG;
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::rpc::{answer_to, failure_of, server};
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// In the slot.
    Short,
    /// In an object.
    Long,
    /// Three of them.
    Stream,
    /// The same, written in place; a fourth one is lent, and not sent.
    StreamLend,
    /// A failure's text, in the slot.
    Fail,
    /// Two replies, and a failure's text in an object.
    StreamFail,
}

impl Reply {
    fn answer(self, server: &mut Server, stage: &Stage) -> Result<(), String> {
        let failed = |error: outlive::SendError| error.to_string();
        // The longer ones are for one client; the other's is for the next server.
        let calls = if matches!(self, Reply::Short | Reply::Fail) { 2 } else { 1 };
        for _ in 0..calls {
            let request = server.try_next().map_err(|error| error.to_string())?;
            let request = request.ok_or("nobody asks")?;
            if self == Reply::Stream {
                let (short, long) = (answer_to(&request, 48)?, answer_to(&request, LONG)?);
                let mut stream = request.stream();
                for answer in [&short, &long, &short] {
                    stream.send(answer).map_err(failed)?;
                }
                stream.finish().map_err(failed)?;
            } else if self == Reply::StreamLend {
                let (short, long) = (answer_to(&request, 48)?, answer_to(&request, LONG)?);
                let mut stream = request.stream();
                for answer in [&short, &long, &short] {
                    let mut loan = stream.loan(answer.len()).map_err(failed)?;
                    loan.copy_from_slice(answer);
                    loan.send().map_err(failed)?;
                }
                drop(stream.loan(LONG).map_err(failed)?);
                stream.finish().map_err(failed)?;
            } else if self == Reply::StreamFail {
                let (short, long) = (answer_to(&request, 48)?, answer_to(&request, LONG)?);
                let text = failure_of(&request, LONG)?;
                let mut stream = request.stream();
                for answer in [&long, &short] {
                    stream.send(answer).map_err(failed)?;
                }
                stream.fail(&text).map_err(failed)?;
            } else if self == Reply::Fail {
                let text = failure_of(&request, 48)?;
                request.fail(&text).map_err(failed)?;
            } else {
                let answer = answer_to(&request, if self == Reply::Short { 48 } else { LONG })?;
                request.reply(&answer).map_err(failed)?;
            }
            stage.acknowledge(1);
        }
        Ok(())
    }

    /// What a client of that stamp is told by the victim.
    fn told(self, stamp: &str) -> String {
        let fails = matches!(self, Reply::Fail | Reply::StreamFail);
        format!("{}{stamp}", if fails { "failed-" } else { "" })
    }
}

impl Scenario for Reply {
    fn name(&self) -> &'static str {
        match self {
            Reply::Short => "rpc-reply",
            Reply::Long => "rpc-reply-long",
            Reply::Stream => "rpc-stream",
            Reply::StreamLend => "rpc-stream-lend",
            Reply::Fail => "rpc-fail",
            Reply::StreamFail => "rpc-stream-fail",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Reply::Short => {
                "take two calls and answer them, of a client that wants this server and one that wants any, asleep"
            }
            Reply::Long => {
                "the same for the first of them, with a long answer, asleep in wait sets"
            }
            Reply::Stream => {
                "the same for the first of them, with three answers, short and long, asleep in wait sets"
            }
            Reply::StreamLend => {
                "the same with three answers that are written in place, asleep in wait sets"
            }
            Reply::Fail => "take the two calls and say that they failed, and why",
            Reply::StreamFail => {
                "two answers for the first of them, and then a failure with a long text, asleep in wait sets"
            }
        }
    }

    fn prepare(&self, _: &mut World) -> Result<(), Failure> {
        Ok(())
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let call = if matches!(self, Reply::Short | Reply::Fail) { "call" } else { "call-in-set" };
        world
            .survivor("second")?
            .tell_and_see_asleep(&format!("rpc {call} {name} 2 1 48 at-once"))?;
        world.survivor("third")?.tell_and_see_asleep(&format!("rpc {call} {name} 3 1 48 wait"))
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match world.ask("heir", &format!("rpc serve {name}"))?.as_str() {
            "taken" => Ok(()),
            other => Err(Failure::wrong(format!(
                "a second server is told `{other}` while the first lives"
            ))),
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        // At once, without another server.
        let second = world.answer("second")?;
        let (told_second, told_third) = (self.told("2:1"), self.told("3:1"));
        let right = match second.as_str() {
            told if told == told_second => true,
            "died-begun" => true,
            "died" => death.acknowledged == 0,
            // It was begun, and the answer could not be given: by a fault.
            "dropped" => death.acknowledged == 0 && !death.ended && world.has_stop(),
            _ => false,
        };
        if !right || death.acknowledged > 0 && second != told_second {
            return Err(Failure::wrong(format!(
                "the client is told `{second}`, {} were acknowledged",
                death.acknowledged
            )));
        }
        let become_server = world.ask("heir", &format!("rpc serve {name}"))?;
        if become_server != "mine" {
            return Err(Failure::wrong(format!("the server is dead, yet it is `{become_server}`")));
        }
        let served = world.ask("heir", &format!("rpc answer {name} 48"))?;
        let third = world.answer("third")?;
        let by_heir = super::times(&served, "3:1");
        let right = match third.as_str() {
            "3:1" => by_heir == 1 || by_heir == 0 && told_third == "3:1",
            told if told == told_third => by_heir == 0,
            "died-begun" => by_heir == 0,
            "dropped" => by_heir == 0 && !death.ended && world.has_stop(),
            _ => false,
        };
        if !right
            || death.acknowledged > 1 && (third != told_third || by_heir > 0)
            || super::times(&served, "2:1") > 0
        {
            let told = format!("told `{second}` and `{third}`");
            return Err(Failure::wrong(format!(
                "the clients are {told}, and the next server finds `{served}`"
            )));
        }
        world.saw_many("served by the next", by_heir as u64);
        world.saw_many(
            "told that it was begun",
            u64::from(third == "died-begun") + u64::from(second == "died-begun"),
        );
        super::still_works(world, "heir", "second", &name)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        // The clients that asked have every answer that was given.
        super::answered_have_it(world, &name, &["second", "third"])?;
        world.passes("fourth", &format!("rpc join {name}"))?;
        match world.passes("heir", &format!("rpc serve {name}"))?.as_str() {
            "taken" => Ok("is the server"),
            other => Err(Failure::wrong(format!(
                "a second server is told `{other}` while the first stands still"
            ))),
        }
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let mut server = server(&domain, place.name).map_err(|error| error.to_string())?;
        stage.begin();
        let answered = self.answer(&mut server, stage);
        // Before it leaves.
        stage.end_of(&answered);
        answered
    }

    fn stem(&self) -> &'static str {
        "service"
    }
}
