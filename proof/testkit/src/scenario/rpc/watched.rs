//! Clients that are watched. The service tells watchers with a lease that the victim has died, at once
//! and once. It tells them of a victim that stands still, which then is not lively, and tells them again
//! when the victim goes on. Of a client that leaves in order it tells nothing.

use outlive::rpc::Client;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::rpc::client;
use crate::scenario::told::{
    Life, Told, is_lively_again, last_of, life, times_lively, when, when_beside,
};
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// What the victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// It is a client: it asserts that, begins a call, and asserts it again.
    Asserts,
    /// It becomes a client, begins a call, lets go of it, and leaves in order.
    ComesAndGoes,
}

const WATCHER: &str = "watcher";

/// In milliseconds: what it takes to lead a victim to a point, more or less, so that a lapse is told at
/// some points, and not at others. With a shorter one, watchers that look change words so often that
/// each instruction seems to be one at which something differs.
const LEASE: &str = "20";

/// A watcher with a lease of an hour: nothing but the victim's death wakes it.
const PATIENT: &str = "patient";

/// The mark of a round in which the stopped victim will still do something before its operation
/// ends.
const TO_COME: &str = "the victim will do something";

fn log_of(name: &str) -> String {
    format!("watches log {name}")
}

impl Watched {
    /// It has come, and has not begun to leave, by what is acknowledged to it.
    fn is_there(self, acknowledged: u64) -> bool {
        self == Watched::Asserts || acknowledged == 1
    }
}

impl Scenario for Watched {
    fn name(&self) -> &'static str {
        match self {
            Watched::Asserts => "rpc-watched",
            Watched::ComesAndGoes => "rpc-watched-comes-and-goes",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Watched::Asserts => {
                "assert that a client is there, begin a call, assert it again; watched with a lease"
            }
            Watched::ComesAndGoes => {
                "become a client, begin a call and let go of it, leave; watched with a lease"
            }
        }
    }

    fn stem(&self) -> &'static str {
        "service"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        for survivor in ["server", "second", "third", WATCHER, PATIENT, "sweeper"] {
            world.ask(survivor, "topic token -")?;
        }
        world.ask("server", &format!("rpc serve {name}"))?;
        world.ask(PATIENT, &format!("watches clients {name} 3600000"))?;
        world.ask(WATCHER, &format!("watches clients {name} {LEASE}")).map(drop)
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        if !world.has_done(TO_COME) {
            return Ok(());
        }
        let name = world.fresh(self.stem());
        let (victim, before) = (world.victim_pid(), world.remembered());
        is_lively_again(world, WATCHER, &log_of(&name), |_| victim, before)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let victim = world.victim_pid();
        let has_died = |log: &[Told]| log.contains(&Told::Died(victim));
        let left = *self == Watched::ComesAndGoes && death.ended;
        if self.is_there(death.acknowledged) && !left {
            // Nothing else happens that could wake a watcher.
            for watcher in [PATIENT, WATCHER] {
                when(world, watcher, &log_of(&name), "the victim's death", has_died)?;
            }
        }
        // Another one comes, does nothing, asserts that it is there, and leaves in order.
        let third = world.ask("third", &format!("watches join {name}"))?;
        let third = third.parse().map_err(|_| Failure::broken(format!("`{third}` is no pid")))?;
        let lapsed = |log: &[Told]| last_of(log, third) == Some(Told::NotLively(third));
        let logs = when(world, WATCHER, &log_of(&name), "that the third lapsed", lapsed)?;
        for log in &logs {
            let life = life(log, victim)?;
            world.saw(match life {
                Life { died: false, .. } => "left, or never came",
                Life { lapses: 0, .. } => "died",
                _ => "died after a lapse",
            });
            if left && life.died {
                return Err(Failure::wrong(format!("it has left, and is told as dead: {log:?}")));
            }
        }
        world.ask("third", &format!("watches assert {name}"))?;
        let lively = |log: &[Told]| log.contains(&Told::Lively(third));
        when(world, WATCHER, &log_of(&name), "that the third is lively", lively)?;
        world.ask("third", &format!("watches leave {name}"))?;
        world.ask("second", &format!("rpc join {name}"))?;
        let second = world.survivor("second")?.pid();
        let lapsed = |log: &[Told]| last_of(log, second) == Some(Told::NotLively(second));
        for log in when(world, WATCHER, &log_of(&name), "that the second lapsed", lapsed)? {
            if life(&log, third)?.died || life(&log, second)?.died {
                return Err(Failure::wrong(format!("a living client is told as dead: {log:?}")));
            }
        }
        world.ask(WATCHER, &format!("watches end-clients {name}"))?;
        // It would wait for an hour.
        world.dismiss(PATIENT);
        let served = world.ask("server", &format!("rpc answer {name} 48"))?;
        if super::times(&served, "1:1") > 1 {
            return Err(Failure::wrong(format!("the victim's call comes twice: `{served}`")));
        }
        super::still_works(world, "server", "second", &name)
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        let victim = world.victim_pid();
        if !self.is_there(stop.acknowledged) || stop.ended && *self == Watched::ComesAndGoes {
            return Ok(HOLDS_NOTHING);
        }
        let is_told = |log: &[Told]| last_of(log, victim) == Some(Told::NotLively(victim));
        let wanted = "that the victim is not lively";
        let logs = when_beside(world, WATCHER, &log_of(&name), wanted, is_told)?;
        for log in &logs {
            if life(log, victim)?.died {
                return Err(Failure::wrong(format!(
                    "the victim lives, and is told as dead: {log:?}"
                )));
            }
        }
        if *self == Watched::Asserts && stop.acknowledged < 2 {
            world.first_time(TO_COME);
            let times = |log: &[Told]| times_lively(log, victim);
            world.remember(times(&logs[0]) | times(&logs[1]) << 16);
        }
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().and_then(|_| domain.process_token()).map_err(|error| error.to_string())?;
        let request = Stamp { sender: 1, number: 1 }.message(48);
        let works = |client: &Client| -> Result<(), String> {
            let call = client.begin(&request).map_err(|error| error.to_string())?;
            stage.acknowledge(1);
            drop(call);
            Ok(())
        };
        match self {
            Watched::Asserts => {
                let client = client(&domain, place.name)?;
                let done = stage.perform(|| -> Result<(), String> {
                    client.assert_liveliness();
                    stage.acknowledge(1);
                    works(&client)?;
                    client.assert_liveliness();
                    stage.acknowledge(1);
                    Ok(())
                });
                std::mem::forget(client);
                done
            }
            Watched::ComesAndGoes => stage.perform(|| -> Result<(), String> {
                let client = client(&domain, place.name)?;
                stage.acknowledge(1);
                works(&client)?;
                stage.acknowledge(1);
                drop(client);
                Ok(())
            }),
        }
    }
}
