//! A value that is made once: by the victim, while other processes that need it sleep.

use std::hint::black_box;

use super::member::once;
use super::{Death, HOLDS_NOTHING, Place, Scenario, Stop, names_victim, nothing_left};
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::world::World;

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![Box::new(Make::Alone), Box::new(Make::Needed)]
}

/// The victim makes it; the next process that needs it finds it whole, or makes it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Make {
    /// No other process is near.
    Alone,
    /// Two sleep for it: they came while the victim was at it.
    Needed,
}

impl Scenario for Make {
    fn name(&self) -> &'static str {
        match self {
            Make::Alone => "once-make",
            Make::Needed => "once-make-needed",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Make::Alone => "make a value that is made once",
            Make::Needed => "put a value in place that is made once, with two who sleep for it",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.ask("first", "domain open")?;
        world.ask("second", "domain open").map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Make::Needed {
            for survivor in ["first", "second"] {
                world.survivor(survivor)?.tell_and_see_asleep(&format!("once get {name}"))?;
            }
        }
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let mut answers = Vec::new();
        for survivor in ["first", "second"] {
            answers.push(match self {
                Make::Alone => world.ask(survivor, &format!("once get {name}"))?,
                Make::Needed => world.answer(survivor)?,
            });
        }
        let whose = answers[0].split(' ').next_back().unwrap_or_default().to_owned();
        let makers = answers.iter().filter(|answer| !answer.starts_with("found")).count();
        if makers > usize::from(!death.ended)
            || answers.iter().any(|answer| !answer.ends_with(&whose))
        {
            return Err(Failure::wrong(format!("{answers:?}, ended: {}", death.ended)));
        }
        world.saw(if makers == 0 { "found whole" } else { "made by the next" });
        nothing_left(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if names_victim(world, &format!("once maker {name}"))? {
            return Ok("is the maker");
        }
        world.all_get_past()?;
        world.passes("passer", &format!("once get {name}"))?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        let once = once::open(&domain, place.name)?;
        let value = [u64::from(std::process::id()); 8];
        if *self == Make::Alone {
            stage.begin();
        }
        let made = once.get_or_init(|_| {
            if *self == Make::Needed {
                stage.begin();
            }
            black_box(value)
        });
        stage.end_of(&made);
        made.map(drop).map_err(|error| error.to_string())
    }
}
