//! Calls: made, in several parts, answered (short, long, streamed, by a failure), cancelled, taken
//! over, and places of dead clients taken; clients that are watched.
//!
//! Senders are 1 the victim, 2 and 3 the surviving clients.

mod beside;
mod call;
mod join;
mod let_go;
mod parts;
mod reply;
mod stand_by;
mod takeover;
mod watched;

use super::Scenario;
use crate::failure::Failure;
use crate::world::World;

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(call::Call::Short),
        Box::new(call::Call::InSet),
        Box::new(call::Call::Long),
        Box::new(call::Call::Cancel),
        Box::new(let_go::LetGo),
        Box::new(reply::Reply::Short),
        Box::new(reply::Reply::Long),
        Box::new(reply::Reply::Stream),
        Box::new(reply::Reply::StreamLend),
        Box::new(reply::Reply::Fail),
        Box::new(reply::Reply::StreamFail),
        Box::new(parts::Parts::Send),
        Box::new(parts::Parts::Lend),
        Box::new(parts::Parts::Take),
        Box::new(takeover::Takeover),
        Box::new(stand_by::StandBy::Plain),
        Box::new(stand_by::StandBy::InSet),
        Box::new(beside::Beside),
        Box::new(join::Join),
        Box::new(watched::Watched::Asserts),
        Box::new(watched::Watched::ComesAndGoes),
    ]
}

/// Bytes of what fits neither a request's slot nor a reply's place.
const LONG: usize = 300;

/// How often that stamp is among the answers of a server.
fn times(answers: &str, stamp: &str) -> usize {
    answers.split(' ').filter(|word| *word == stamp).count()
}

/// Beside the stopped server: those of these clients whose calls have been answered, by what their
/// slots say, have the answer. Returns whether all of these clients have one.
fn answered_have_it(
    world: &mut World,
    name: &str,
    clients: &[&'static str],
) -> Result<bool, Failure> {
    let mut all = true;
    for &client in clients {
        if super::names_survivor(world, client, &format!("rpc answered {name}"))? {
            world.gets_past(client)?;
        } else {
            all = false;
        }
    }
    Ok(all)
}

/// A server answers one more call of a client; then everything is closed, swept, and all memory is
/// there again.
fn still_works(
    world: &mut World,
    server: &'static str,
    client: &'static str,
    name: &str,
) -> Result<(), Failure> {
    // As many long answers as fit only if nothing is left of earlier ones.
    for number in 0..8 {
        let begun = world.ask(client, &format!("rpc begin {name} 2 {} 48", 100 + number))?;
        if begun != "sent" {
            return Err(Failure::wrong(format!("afterwards a call is `{begun}`")));
        }
    }
    world.ask("sweeper", "domain sweep")?;
    let served = world.ask(server, &format!("rpc answer {name} 50000"))?;
    let told = world.ask(client, &format!("rpc wait {name}"))?;
    let right: Vec<String> = (0..8).map(|number| format!("2:{}", 100 + number)).collect();
    if told != right.join(" ") || served != told {
        return Err(Failure::wrong(format!(
            "afterwards `{served}` is served, and the client is told `{told}`"
        )));
    }
    for survivor in world.survivors() {
        world.ask(survivor, &format!("rpc close {name}"))?;
    }
    super::nothing_left(world, &[name])
}
