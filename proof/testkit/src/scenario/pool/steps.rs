//! One operation of a pool each, cut short anywhere.

use outlive::pool::{Object, Pool, PoolOptions};

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::pool::LEN;
use crate::scenario::{Death, Place, Scenario, Stop, member, passes_with};
use crate::world::World;

/// What the victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Create,
    Hit,
    Pop,
    Scan,
    Grow,
    Run,
    Free,
    Evict,
    Flush,
    Offer,
    Claim,
    Collect,
    Gc,
}

/// All of them.
pub const ALL: [Step; 13] = [
    Step::Create,
    Step::Hit,
    Step::Pop,
    Step::Scan,
    Step::Grow,
    Step::Run,
    Step::Free,
    Step::Evict,
    Step::Flush,
    Step::Offer,
    Step::Claim,
    Step::Collect,
    Step::Gc,
];

impl Step {
    fn options(self) -> PoolOptions {
        // Full with sixteen: objects of LEN bytes have 1,024.
        let cache_bytes = if self == Step::Evict { 16 << 10 } else { 1 << 20 };
        member::pool::OPTIONS.cache_bytes(cache_bytes)
    }

    /// Brings the pool to where the step begins; what the victim has then.
    fn set_up(self, pool: &Pool) -> Result<Vec<Object<'_>>, String> {
        let take = |count: usize, len: usize| -> Result<Vec<Object<'_>>, String> {
            (0..count).map(|_| pool.alloc(len).map_err(|error| error.to_string())).collect()
        };
        match self {
            Step::Create | Step::Claim | Step::Collect => Ok(Vec::new()),
            Step::Hit => take(1, LEN).map(|objects| {
                drop(objects);
                Vec::new()
            }),
            Step::Pop | Step::Flush => {
                let mut objects = take(12, LEN)?;
                let kept = objects.split_off(11);
                drop(objects);
                if self != Step::Flush {
                    pool.flush();
                }
                Ok(kept)
            }
            Step::Scan => {
                // Free objects without a hint: the hints to them are written over by those to
                // others, which are taken again.
                let mut objects = take(34, LEN)?;
                let others = objects.split_off(20);
                drop(objects);
                pool.flush();
                drop(others);
                pool.flush();
                take(14, LEN)
            }
            // So that its tokens are there.
            Step::Grow | Step::Run => take(1, LEN),
            Step::Free | Step::Offer => take(1, LEN),
            Step::Evict => {
                let mut objects = take(17, LEN)?;
                // What came into the cache beside them.
                pool.flush();
                let kept = objects.split_off(16);
                drop(objects);
                Ok(kept)
            }
            Step::Gc => {
                let mut objects = take(1, LEN)?;
                objects.extend(take(30, 5000)?);
                objects.extend(take(1, 3 << 20)?);
                let freed = objects.split_off(1);
                drop(freed);
                Ok(objects)
            }
        }
    }
}

impl Scenario for Step {
    fn name(&self) -> &'static str {
        match self {
            Step::Create => "pool-create",
            Step::Hit => "pool-alloc-hit",
            Step::Pop => "pool-alloc-pop",
            Step::Scan => "pool-alloc-scan",
            Step::Grow => "pool-alloc-grow",
            Step::Run => "pool-alloc-run",
            Step::Free => "pool-free",
            Step::Evict => "pool-free-evict",
            Step::Flush => "pool-flush",
            Step::Offer => "pool-offer",
            Step::Claim => "pool-claim",
            Step::Collect => "pool-collect",
            Step::Gc => "pool-gc",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Step::Create => "make a pool: file, pages, configuration, name",
            Step::Hit => "take an object from the thread's cache",
            Step::Pop => "take an object when the cache is empty and there are hints",
            Step::Scan => {
                "take an object when cache and lists are empty and free objects are there"
            }
            Step::Grow => "take an object of a size of which there is none",
            Step::Run => "take an object of 3 MiB",
            Step::Free => "free an object into the cache",
            Step::Evict => "free an object when the cache is full, so that eight go to a list",
            Step::Flush => "empty the cache",
            Step::Offer => "hand an object over to the process that claims it",
            Step::Claim => "claim an object",
            Step::Collect => {
                "sweep a pool whose user was killed with objects in use and in its cache"
            }
            Step::Gc => "give free memory back to the system",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Step::Create {
            return world.ask("other", "domain open").map(drop);
        }
        world.ask("other", &format!("pool hold {name} 3"))?;
        world.ask("other", &format!("pool offer {name}"))?;
        if *self == Step::Collect {
            world.ask("dying", &format!("pool hold {name} 5"))?;
            world.ask("dying", &format!("pool use {name} 9"))?;
            world.dismiss("dying");
        }
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Step::Create {
            let there = world.domain().join(&name).exists();
            if death.ended && !there {
                return Err(Failure::wrong("made and acknowledged, yet it is not there"));
            }
            world.saw(if there { "made" } else { "nothing made" });
            world.ask("other", &format!("pool hold {name} 3"))?;
            world.ask("other", &format!("pool offer {name}"))?;
        }
        if *self == Step::Collect {
            crate::scenario::sweep_after_a_fault(world)?;
        }
        super::use_beside_the_dead(world, &name)?;
        let offered = match (self, death.ended) {
            (Step::Offer, true) => 2..=2,
            (Step::Offer, false) => 1..=2,
            (Step::Claim, true) => 0..=0,
            (Step::Claim, false) => 0..=1,
            _ => 1..=1,
        };
        super::three_are_held(world, &name, offered)?;
        super::all_are_whole(world, &name, &["claim-all", "check", "drop"])?;
        super::all_is_free(world, &name)?;
        super::super::nothing_left(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        // Others get objects of the victim's size, whatever the victim has in hand.
        let len = match self {
            Step::Run => 3 << 20,
            Step::Grow | Step::Gc => 5000,
            _ => LEN,
        };
        passes_with(world, "next", &format!("pool use-of {name} {len}"), "whole")?;
        if *self == Step::Collect {
            world.passes("passer", "domain sweep")?;
        }
        super::use_beside_the_stopped(world, &name)
    }

    fn has_sleepers(&self) -> bool {
        false
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let text = |error: outlive::pool::PoolError| error.to_string();
        if *self == Step::Create {
            domain.token().map_err(|error| error.to_string())?;
            let made = stage.perform(|| self.options().open_or_create(&domain, place.name));
            return made.map(drop).map_err(|error| error.to_string());
        }
        let pool = self
            .options()
            .open_or_create(&domain, place.name)
            .map_err(|error| error.to_string())?;
        let mut objects = self.set_up(&pool)?;
        let mut taken = None;
        match self {
            Step::Hit | Step::Pop | Step::Scan => {
                taken = Some(stage.perform(|| pool.alloc(LEN)).map_err(text)?);
            }
            Step::Grow | Step::Run => {
                let len = if *self == Step::Run { 3 << 20 } else { 5000 };
                taken = Some(stage.perform(|| pool.alloc(len)).map_err(text)?);
            }
            Step::Free | Step::Evict => {
                let last = objects.pop().ok_or("it has none")?;
                let freed = stage.perform(|| last.free());
                freed.map_err(text)?;
            }
            Step::Flush => {
                stage.begin();
                pool.flush();
                stage.end();
            }
            Step::Offer => {
                let mut last = objects.pop().ok_or("it has none")?;
                last.fill(member::pool::MARK);
                let offset = stage.perform(|| last.into_offset());
                offset.map_err(text)?;
            }
            Step::Claim => {
                domain.process_token().map_err(|error| error.to_string())?;
                let offers = pool.offers().map_err(|error| error.to_string())?;
                let offset = offers.first().ok_or("nothing is offered")?.offset;
                taken = Some(stage.perform(|| pool.claim(offset)).map_err(text)?);
            }
            Step::Collect => {
                domain.token().map_err(|error| error.to_string())?;
                let swept = stage.perform(|| crate::scenario::sweep_all(&domain));
                swept?;
            }
            Step::Gc => {
                let trimmed = stage.perform(|| pool.gc());
                trimmed.map_err(text)?;
            }
            Step::Create => {}
        }
        // It dies with what it has.
        std::mem::forget(taken);
        std::mem::forget(objects);
        Ok(())
    }
}
