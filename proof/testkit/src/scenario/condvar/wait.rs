//! Waiting for an item, being notified, taking it: whichever waiter was notified and died, the
//! sleepers beside it get what is there, and no other process comes to lock.

use std::time::Duration;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, HOLDS_NOTHING, LET_ON, Place, Scenario, Stop};
use crate::world::World;

/// A wait under a mutex of that kind.
#[derive(Clone, Copy)]
pub struct Wait {
    pub when: When,
    pub under: Under,
}

/// The mutex of the shelf.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Under {
    Mutex,
    Pi,
    Ceiling,
    /// Locked twice.
    Reentrant,
}

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The victim was queued first: it is woken.
    First,
    /// Another process was queued before it.
    Between,
    /// Another process holds the mutex when the victim is woken.
    Contended,
}

impl Wait {
    /// One for the victim, and one for the process that was queued before it, if there is one.
    fn notifications(self) -> u64 {
        if self.when == When::Between { 2 } else { 1 }
    }

    /// Items that may be left when those of the notifications are taken. Where the victim can find
    /// the mutex held, it relays its wake-up before it queues for the mutex, and the sleeper after it
    /// may use the notification first: one more is brought for the other of the two, which may be
    /// dead.
    fn unnotified(self) -> u64 {
        if self.when == When::First { 0 } else { 1 }
    }
}

impl Wait {
    fn all_are_through(self, world: &mut World, death: &Death) -> Result<(), Failure> {
        if self.when == When::Between {
            world.answer("sleeper")?;
        }
        world.answer("late")?;
        world.saw(if death.ended { "taken by the victim" } else { "cut short" });
        super::still_works(world, self.stem())
    }
}

impl Scenario for Wait {
    fn name(&self) -> &'static str {
        match (self.when, self.under) {
            (When::First, Under::Mutex) => "condvar-wait",
            (When::Between, Under::Mutex) => "condvar-wait-between",
            (When::Contended, Under::Mutex) => "condvar-wait-contended",
            (When::First, Under::Pi) => "condvar-pi-wait",
            (When::Between, Under::Pi) => "condvar-pi-wait-between",
            (When::Contended, Under::Pi) => "condvar-pi-wait-contended",
            (When::First, Under::Ceiling) => "condvar-ceiling-wait",
            (When::Between, Under::Ceiling) => "condvar-ceiling-wait-between",
            (When::Contended, Under::Ceiling) => "condvar-ceiling-wait-contended",
            (When::First, Under::Reentrant) => "condvar-reentrant-wait",
            (When::Between, Under::Reentrant) => "condvar-reentrant-wait-between",
            (When::Contended, Under::Reentrant) => "condvar-reentrant-wait-contended",
        }
    }

    fn about(&self) -> &'static str {
        match self.when {
            When::First => "wait for an item, be notified, take it, with a sleeper after it",
            When::Between => "the same with a sleeper before it, too, and two notifications",
            When::Contended => {
                "wait for an item, be notified by a process that keeps the mutex a while, with a sleeper after it"
            }
        }
    }

    fn stem(&self) -> &'static str {
        match self.under {
            Under::Mutex => "thing",
            Under::Pi => "pi",
            Under::Ceiling => "ceiling",
            Under::Reentrant => "reentrant",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("next", &format!("condvar open {name}"))?;
        world.ask("holder", &format!("condvar open {name}"))?;
        if self.when == When::Between {
            world.survivor("sleeper")?.tell_and_see_asleep(&format!("condvar take {name}"))?;
        }
        Ok(())
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.survivor("late")?.tell_and_see_asleep(&format!("condvar take {name}"))?;
        match self.when {
            When::Contended => {
                world.survivor("holder")?.tell(&format!("condvar bring-slowly {name}"))
            }
            _ => {
                let notifications = self.notifications();
                let items = notifications + self.unnotified();
                world
                    .ask("holder", &format!("condvar bring {name} {items} {notifications}"))
                    .map(drop)
            }
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if !death.helped {
            self.help(world)?;
        }
        if self.when == When::Contended {
            world.answer("holder")?;
        }
        if !world.first_time("bring") {
            return self.all_are_through(world, death);
        }
        // A living process or the victim takes what was notified; no other process locks until
        // then.
        let let_on = u64::from(world.has_done(LET_ON));
        world.ask("next", &format!("condvar settle {name} {}", self.unnotified() + let_on))?;
        // A waiter that still sleeps now sleeps rightly.
        world.ask("next", &format!("condvar bring {name} {}", self.notifications()))?;
        self.all_are_through(world, death)
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        if super::has_mutex(world, self.stem())? {
            return Ok("holds the lock");
        }
        crate::scenario::help_beside(self, world, stop)?;
        // As many again, each with its notification: the first ones may be the victim's.
        let name = world.fresh(self.stem());
        if self.when == When::Contended {
            world.gets_past("holder")?;
        }
        if world.first_time("bring") {
            world.passes("next", &format!("condvar bring {name} {}", self.notifications()))?;
        }
        world.all_get_past()?;
        Ok(HOLDS_NOTHING)
    }

    /// The sleeper after it has used a notification that the victim relayed.
    fn was_passed_over(&self, world: &mut World) -> Result<bool, Failure> {
        Ok(self.when != When::First && world.survivor("late")?.has_answered(Duration::ZERO)?)
    }

    fn let_on(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("next", &format!("condvar bring {name} 1")).map(drop)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let shelf = super::victims(place)?;
        stage.perform(|| shelf.take())
    }
}
