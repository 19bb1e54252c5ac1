//! The latest value: made, set, got with a pin, waited for; the writer's role taken, taken over,
//! left.

use super::member::state;
use super::{Death, HOLDS_NOTHING, Place, Scenario, Stop, names_victim, nothing_left};
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::world::World;

/// All of them.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    use State::*;
    [Create, Set, Grow, Get, Take, TakeOver, Leave, Wait, WaitInSet]
        .into_iter()
        .map(|one| Box::new(one) as Box<dyn Scenario>)
        .collect()
}

/// The victim's operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Create,
    Set,
    Grow,
    Get,
    Take,
    TakeOver,
    Leave,
    Wait,
    WaitInSet,
}

impl State {
    /// The next writer sets so many values, and each is there.
    fn goes_on(world: &mut World, name: &str, numbers: &[u64]) -> Result<(), Failure> {
        for number in numbers {
            let version = world.ask("next", &format!("state set {name} {number}"))?;
            let got = world.ask("reader", &format!("state get {name}"))?;
            if got != format!("{number} {version}") {
                return Err(Failure::wrong(format!(
                    "{number} was set as version {version}, and {got} is there"
                )));
            }
        }
        Ok(())
    }

    /// What is there: the number, which `allowed` must have.
    fn got(world: &mut World, name: &str, allowed: &[u64]) -> Result<u64, Failure> {
        let answer = world.ask("reader", &format!("state get {name}"))?;
        let number = answer.split(' ').next().and_then(|number| number.parse().ok());
        number
            .filter(|number| allowed.contains(number))
            .ok_or_else(|| Failure::wrong(format!("the value and version are {answer}")))
    }

    /// The next writer has the buffer that the dead one may have made, and what the stopped readers
    /// have is as it was.
    fn has_grown(world: &mut World, name: &str, ended: bool) -> Result<(), Failure> {
        let more = world.ask("stopped", &format!("state more-buffers {name}"))?;
        world.saw(if more == "1" { "a buffer more" } else { "none more" });
        if more != "1" && (ended || more != "0") {
            return Err(Failure::wrong(format!("{more} buffers more than at first")));
        }
        State::goes_on(world, name, &[2, 3, 4])?;
        let more = world.ask("stopped", &format!("state more-buffers {name}"))?;
        if more != "1" {
            return Err(Failure::wrong(format!(
                "{more} buffers more than at first, and one was needed"
            )));
        }
        world.ask("stopped", &format!("state unpin-all {name}")).map(drop)
    }

    /// Both followers say that.
    fn told(world: &mut World, what: &str) -> Result<(), Failure> {
        for survivor in ["first", "second"] {
            let answer = world.answer(survivor)?;
            if answer != what {
                return Err(Failure::wrong(format!("{survivor} is told `{answer}`, not `{what}`")));
            }
        }
        Ok(())
    }

    /// The first plainly, the second in a wait set.
    fn follow(world: &mut World, name: &str) -> Result<(), Failure> {
        world.survivor("first")?.tell_and_see_asleep(&format!("state follow {name}"))?;
        world.survivor("second")?.tell_and_see_asleep(&format!("state follow-in-set {name}"))
    }
}

impl Scenario for State {
    fn name(&self) -> &'static str {
        match self {
            State::Create => "state-create",
            State::Set => "state-set",
            State::Grow => "state-grow",
            State::Get => "state-get",
            State::Take => "state-take",
            State::TakeOver => "state-take-over",
            State::Leave => "state-leave",
            State::Wait => "state-wait",
            State::WaitInSet => "state-wait-in-set",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            State::Create => "make a state",
            State::Set => "set a value, with two sleepers, one in a wait set",
            State::Grow => {
                "set a value that needs another buffer, since readers that are stopped have all the others"
            }
            State::Get => "get a value as a reader does that a writer overtook",
            State::Take => "become the writer, with two sleepers, one in a wait set",
            State::TakeOver => "take a dead writer's place and set a value",
            State::Leave => {
                "leave as the writer, while one process sleeps until it can write, and one until a value comes"
            }
            State::Wait => "wait for another value, with a sleeper before and one after",
            State::WaitInSet => "the same in a wait set, the sleeper after in another",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == State::Create {
            return Ok(());
        }
        world.ask("reader", &format!("state get {name}"))?;
        match self {
            State::Take => State::follow(world, &name),
            State::Grow => world.ask("stopped", &format!("state pin-all {name}")).map(drop),
            State::TakeOver => {
                world.ask("old", &format!("state hold {name}"))?;
                world.dismiss("old");
                Ok(())
            }
            State::Wait | State::WaitInSet => {
                world.survivor("sleeper")?.tell_and_see_asleep(&format!("state follow {name}"))
            }
            _ => Ok(()),
        }
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            State::Set | State::Grow => {
                State::follow(world, &name)?;
                world.survivor("beyond")?.tell_and_see_asleep(&format!("state beyond {name}"))
            }
            State::Leave => {
                world
                    .survivor("heir")?
                    .tell_and_see_asleep(&format!("state set-in-turn {name} 9"))?;
                world.survivor("sleeper")?.tell_and_see_asleep(&format!("state follow {name}"))
            }
            _ => Ok(()),
        }
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if !matches!(self, State::Wait | State::WaitInSet) {
            return Err(Failure::Hang(
                "the victim sleeps and nobody is there to wake it".to_owned(),
            ));
        }
        let how = if *self == State::Wait { "follow" } else { "follow-in-set" };
        world.survivor("late")?.tell_and_see_asleep(&format!("state {how} {name}"))?;
        world.ask("next", &format!("state set {name} 9")).map(drop)
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if matches!(self, State::Set | State::Grow | State::Take | State::TakeOver) {
            let answer = world.ask("next", &format!("state set {name} 7"))?;
            if answer != "taken" {
                return Err(Failure::wrong(format!(
                    "a second writer set version {answer} while the first lives"
                )));
            }
        }
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            State::Create => {
                if world.domain().join(&name).exists() {
                    world.saw("made");
                } else if death.ended {
                    return Err(Failure::wrong("made, and not there".to_owned()));
                }
                State::got(world, &name, &[1])?;
            }
            State::Set | State::Grow => {
                let number = State::got(world, &name, if death.ended { &[2] } else { &[1, 2] })?;
                world.saw(if number == 2 { "set" } else { "not set" });
                State::told(world, &format!("{number} died"))?;
                match (world.answer("beyond")?.as_str(), number) {
                    ("2", 2) | ("died", 1) => {}
                    // Both are true.
                    ("died", _) if !death.ended => {}
                    (other, _) => {
                        return Err(Failure::wrong(format!(
                            "{number} is there, and a sleeper is told `{other}`"
                        )));
                    }
                }
                if *self == State::Grow {
                    State::has_grown(world, &name, death.ended)?;
                }
            }
            State::Get => {
                // Its pin, if it had one, delays no process: the writer sets more values than there
                // are buffers.
                State::goes_on(world, &name, &[2, 3, 4, 5, 6])?;
                world.ask("reader", &format!("state get-pinned {name}"))?;
            }
            State::Take => {
                match (world.ask("reader", &format!("state writer {name}"))?.as_str(), death.ended)
                {
                    ("none", false) => {
                        world.saw("not taken");
                        world.ask("next", &format!("state set {name} 9"))?;
                        State::told(world, "9")?;
                    }
                    ("dead", _) => {
                        world.saw("taken");
                        State::told(world, "1 died")?;
                    }
                    (other, _) => return Err(Failure::wrong(format!("the writer is `{other}`"))),
                }
            }
            State::TakeOver => {
                let number = State::got(world, &name, if death.ended { &[2] } else { &[1, 2] })?;
                world.saw(if number == 2 { "set" } else { "not set" });
            }
            State::Leave => {
                let version = world.answer("heir")?;
                if version != "2" {
                    return Err(Failure::wrong(format!(
                        "who wanted to be the writer has set version {version}"
                    )));
                }
                match world.answer("sleeper")?.as_str() {
                    "9" => world.saw("no death"),
                    "1 died" if !death.ended => world.saw("a death"),
                    other => return Err(Failure::wrong(format!("who waited is told `{other}`"))),
                }
            }
            State::Wait | State::WaitInSet => {
                if !death.helped {
                    self.help(world)?;
                }
                for survivor in ["sleeper", "late"] {
                    if world.answer(survivor)? != "9" {
                        return Err(Failure::wrong(format!("{survivor} is not told of the value")));
                    }
                }
            }
        }
        State::goes_on(world, &name, &[11, 12])?;
        nothing_left(world, &[&name])
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        match self {
            State::Wait | State::WaitInSet => {
                super::help_beside(self, world, stop)?;
                world.all_get_past()?;
            }
            State::Set | State::Grow => {
                // A process that reads the value may act on it, and then the waiters must get on,
                // too.
                if !world.passes("reader", &format!("state get {name}"))?.starts_with("1 ") {
                    world.gets_past("beyond")?;
                }
                let told = world.passes("next", &format!("state set {name} 7"))?;
                return if told == "taken" {
                    Ok("is the writer")
                } else {
                    Err(Failure::wrong("two writers"))
                };
            }
            State::Leave => {
                if names_victim(world, &format!("state writer-pid {name}"))? {
                    return Ok("is the writer");
                }
                world.all_get_past()?;
            }
            State::Get => {
                // More sets than there are buffers.
                for number in 2..=6 {
                    world.passes("next", &format!("state set {name} {number}"))?;
                }
            }
            State::Create | State::Take | State::TakeOver => {
                world.passes("reader", &format!("state get {name}"))?;
                if names_victim(world, &format!("state writer-pid {name}"))? {
                    return Ok("is the writer");
                }
                // Another writes in its place; the same value, so that it is as it was.
                if world.passes("next", &format!("state set {name} 1"))? == "taken" {
                    return Err(Failure::wrong(
                        "no living process is the writer, and none can become it",
                    ));
                }
            }
        }
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        domain.process_token().map_err(|error| error.to_string())?;
        if *self == State::Create {
            let made = stage.perform(|| state::open(&domain, place.name));
            return made.map(drop);
        }
        let state = state::open(&domain, place.name)?;
        let writer = || state.writer().map_err(|error| error.to_string());
        match self {
            State::Set | State::Grow => {
                let mut writer = writer()?;
                let set = stage.perform(|| writer.set(&state::eight(2)));
                std::mem::forget(writer);
                set.map(drop).map_err(|error| error.to_string())
            }
            State::Get => {
                let got = stage.perform(|| state::get_pinned(&domain, place.name));
                if got? == 1 || stage.is_overtaken() {
                    Ok(())
                } else {
                    Err("another value".to_owned())
                }
            }
            State::Take => {
                let taken = stage.perform(writer);
                taken.map(std::mem::forget)
            }
            State::TakeOver => {
                let taken = stage.perform(|| -> Result<_, String> {
                    let mut writer = writer()?;
                    writer.set(&state::eight(2)).map_err(|error| error.to_string())?;
                    Ok(writer)
                });
                taken.map(std::mem::forget)
            }
            State::Leave => {
                let writer = writer()?;
                stage.begin();
                drop(writer);
                stage.end();
                Ok(())
            }
            State::Wait | State::WaitInSet => {
                let told = stage.perform(|| match self {
                    State::Wait => state::follow(&state),
                    _ => state::follow_in_set(&domain, &state),
                });
                if told? == "9" { Ok(()) } else { Err("not told of the value".to_owned()) }
            }
            State::Create => Ok(()),
        }
    }
}
