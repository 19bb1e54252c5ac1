//! Notices: a notifier comes, notifies, leaves; a listener comes, waits, is told of a death.

use super::create::{Create, Makes};
use super::member::notifier::{self, CAME, DIED, LEFT};
use super::{Death, HOLDS_NOTHING, Place, Scenario, Stop, help_beside, nothing_left};
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::world::World;

/// All of them.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    use Notices::*;
    let mut all = vec![Create::<OfNotices>::scenario()];
    all.extend(
        [Come, ComeAfterDead, Notify, Leave, Listen, Wait, WaitInSet, Told]
            .into_iter()
            .map(|one| Box::new(one) as Box<dyn Scenario>),
    );
    all
}

struct OfNotices;

impl Makes for OfNotices {
    const NAME: &'static str = "notifier-create";
    const ABOUT: &'static str = "make a notifier: file, header, words, name; and come";
    type Thing = outlive::notify::Notifier;

    fn make(domain: &outlive::Domain, name: &str) -> Result<outlive::notify::Notifier, String> {
        notifier::notifier(domain, name)
    }

    fn still_works(world: &mut World, name: &str) -> Result<(), Failure> {
        goes_on(world, name)?;
        nothing_left(world, &[name])
    }

    fn passes(world: &mut World, name: &str) -> Result<&'static str, Failure> {
        world.passes("reader", &format!("notifier listen {name}"))?;
        world.passes("next", &format!("notifier notify {name} 8"))?;
        world.passes("reader", &format!("notifier wait {name}"))?;
        Ok(HOLDS_NOTHING)
    }
}

/// The victim's operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notices {
    Come,
    ComeAfterDead,
    Notify,
    Leave,
    Listen,
    Wait,
    WaitInSet,
    Told,
}

const SLEEPERS: [&str; 2] = ["first", "second"];

/// What the victim notifies, and what the others do.
const BY_VICTIM: u32 = 5;
const BY_OTHERS: u32 = 9;

fn told(world: &mut World, survivor: &'static str, name: &str, id: u32) -> Result<u64, Failure> {
    let answer = world.ask(survivor, &format!("notifier told {name} {id}"))?;
    answer.parse().map_err(|_| Failure::wrong(format!("{survivor} was told `{answer}` times")))
}

/// A new listener is told what is notified from now on.
fn goes_on(world: &mut World, name: &str) -> Result<(), Failure> {
    world.ask("reader", &format!("notifier listen {name}"))?;
    let before = told(world, "reader", name, 7)?;
    for _ in 0..3 {
        world.ask("next", &format!("notifier notify {name} 7"))?;
    }
    match told(world, "reader", name, 7)? - before {
        3 => Ok(()),
        other => Err(Failure::wrong(format!("{other} of 3 notices were told"))),
    }
}

impl Notices {
    /// The first plainly, the second in a wait set.
    fn fall_asleep(world: &mut World, name: &str) -> Result<(), Failure> {
        world.survivor("first")?.tell_and_see_asleep(&format!("notifier wait {name}"))?;
        world.survivor("second")?.tell_and_see_asleep(&format!("notifier wait-in-set {name}"))
    }

    fn others_sleep(self) -> bool {
        matches!(self, Notices::Come | Notices::ComeAfterDead | Notices::Notify | Notices::Leave)
    }

    /// Each was told as often as that, and both alike.
    fn told_both(
        world: &mut World,
        name: &str,
        id: u32,
        allowed: &[u64],
    ) -> Result<[u64; 2], Failure> {
        let mut found = [0; 2];
        for (survivor, found) in SLEEPERS.into_iter().zip(&mut found) {
            *found = told(world, survivor, name, id)?;
            if !allowed.contains(found) {
                let text = format!("{survivor} was told {found} times of {id}, not {allowed:?}");
                return Err(Failure::wrong(text));
            }
        }
        Ok(found)
    }
}

impl Scenario for Notices {
    fn name(&self) -> &'static str {
        match self {
            Notices::Come => "notifier-come",
            Notices::ComeAfterDead => "notifier-come-after-dead",
            Notices::Notify => "notifier-notify",
            Notices::Leave => "notifier-leave",
            Notices::Listen => "notifier-listen",
            Notices::Wait => "notifier-wait",
            Notices::WaitInSet => "notifier-wait-in-set",
            Notices::Told => "notifier-told",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Notices::Come => "come as a notifier, with two sleepers, one in a wait set",
            Notices::ComeAfterDead => "the same, in a dead notifier's slot",
            Notices::Notify => "notify two sleepers, one in a wait set",
            Notices::Leave => "leave as a notifier, with two sleepers, one in a wait set",
            Notices::Listen => "come as a listener",
            Notices::Wait => "wait for a notice, with a sleeper before and one after",
            Notices::WaitInSet => "the same in a wait set",
            Notices::Told => "be told of a notifier's death that another has not been told yet",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            Notices::Come => Notices::fall_asleep(world, &name),
            Notices::ComeAfterDead => {
                world.ask("old", &format!("notifier come {name}"))?;
                world.dismiss("old");
                Notices::fall_asleep(world, &name)
            }
            Notices::Told => {
                world.ask("first", &format!("notifier listen {name}"))?;
                world.ask("second", &format!("notifier listen {name}"))?;
                world.ask("old", &format!("notifier come {name}"))?;
                Ok(())
            }
            Notices::Wait | Notices::WaitInSet => {
                world.survivor("first")?.tell_and_see_asleep(&format!("notifier wait {name}"))
            }
            // The domain is there in each round, not from the second one on.
            Notices::Notify | Notices::Leave | Notices::Listen => {
                world.ask("next", "topic token -").map(drop)
            }
        }
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            Notices::Notify | Notices::Leave => Notices::fall_asleep(world, &name),
            Notices::Told => {
                world.dismiss("old");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if !matches!(self, Notices::Wait | Notices::WaitInSet) {
            let text = "the victim sleeps and nobody is there to wake it".to_owned();
            return Err(Failure::Hang(text));
        }
        let how = if *self == Notices::Wait { "wait" } else { "wait-in-set" };
        world.survivor("second")?.tell_and_see_asleep(&format!("notifier {how} {name}"))?;
        world.ask("next", &format!("notifier notify {name} {BY_OTHERS}")).map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if matches!(self, Notices::Wait | Notices::WaitInSet) && !death.helped {
            self.help(world)?;
        }
        if matches!(self, Notices::Come | Notices::ComeAfterDead) {
            // One that died before it had told that it came was not watched.
            world.ask("next", &format!("notifier notify {name} {BY_OTHERS}"))?;
        }
        if self.others_sleep() || matches!(self, Notices::Wait | Notices::WaitInSet) {
            for survivor in SLEEPERS {
                world.answer(survivor)?;
            }
        }
        let maybe = |ended: bool| if ended { &[1][..] } else { &[0, 1][..] };
        match self {
            Notices::Come | Notices::ComeAfterDead => {
                // `next` comes as well.
                let came: &[u64] = if death.ended { &[2] } else { &[1, 2] };
                let came = Notices::told_both(world, &name, CAME, came)?;
                let died = Notices::told_both(world, &name, DIED, maybe(death.ended))?;
                world.saw(if died == [1; 2] { "came" } else { "did not come" });
                if died[0] != died[1] || came.iter().zip(died).any(|(came, died)| came - 1 > died) {
                    let text = format!("came {came:?} times, died {died:?} times");
                    return Err(Failure::wrong(text));
                }
            }
            Notices::Notify => {
                let told = Notices::told_both(world, &name, BY_VICTIM, maybe(death.ended))?;
                world.saw(if told == [1; 2] { "told both" } else { "not both" });
                Notices::told_both(world, &name, DIED, &[1])?;
            }
            Notices::Leave => {
                let left = Notices::told_both(world, &name, LEFT, maybe(death.ended))?;
                let allowed: &[u64] = if death.ended { &[0] } else { &[0, 1] };
                let died = Notices::told_both(world, &name, DIED, allowed)?;
                world.saw(if died == [0; 2] { "left" } else { "died" });
                if died[0] != died[1] || left.iter().zip(died).any(|(left, died)| left + died == 0)
                {
                    let text = format!("left {left:?} times, died {died:?} times");
                    return Err(Failure::wrong(text));
                }
            }
            Notices::Wait | Notices::WaitInSet => {
                Notices::told_both(world, &name, BY_OTHERS, &[1])?;
            }
            Notices::Told => {
                Notices::told_both(world, &name, DIED, &[1])?;
            }
            Notices::Listen => {}
        }
        goes_on(world, &name)?;
        nothing_left(world, &[&name])
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        match self {
            Notices::Wait | Notices::WaitInSet => help_beside(self, world, stop)?,
            _ => {
                world.passes("next", &format!("notifier notify {name} 3"))?;
            }
        }
        if self.others_sleep() || matches!(self, Notices::Wait | Notices::WaitInSet) {
            world.all_get_past()?;
        }
        if *self == Notices::Told {
            // Beside one that stands still in the middle of being told.
            for survivor in SLEEPERS {
                super::passes_with(world, survivor, &format!("notifier told {name} {DIED}"), "1")?;
            }
        }
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        domain.process_token().map_err(|error| error.to_string())?;
        let name = place.name;
        match self {
            Notices::Come | Notices::ComeAfterDead => {
                stage.perform(|| notifier::notifier(&domain, name)).map(std::mem::forget)
            }
            Notices::Notify => {
                let notifier = notifier::notifier(&domain, name)?;
                let told = stage.perform(|| notifier.notify(BY_VICTIM));
                std::mem::forget(notifier);
                told.map(drop).map_err(|error| error.to_string())
            }
            Notices::Leave => {
                let notifier = notifier::notifier(&domain, name)?;
                stage.begin();
                drop(notifier);
                stage.end();
                Ok(())
            }
            Notices::Listen => {
                stage.perform(|| notifier::listener(&domain, name)).map(std::mem::forget)
            }
            Notices::Wait | Notices::WaitInSet => {
                let mut listener = notifier::listener(&domain, name)?;
                let told = stage.perform(|| match self {
                    Notices::Wait => listener.wait().map_err(|error| error.to_string()),
                    _ => notifier::wait_in_set(&domain, &mut listener),
                });
                std::mem::forget(listener);
                told.map(drop)
            }
            Notices::Told => {
                let mut listener = notifier::listener(&domain, name)?;
                let told = stage.perform(|| listener.try_wait());
                std::mem::forget(listener);
                match told.map_err(|error| error.to_string())? {
                    Some(notices) if notices.count(DIED) == 1 => Ok(()),
                    other => Err(format!("told {other:?}")),
                }
            }
        }
    }
}
