//! Waiting for another thread's end, with sleepers queued after it, or before it, too: whichever of
//! the waiters dies and whenever, the others are told. The kernel wakes one sleeper when a thread
//! ends: here it is the victim, or one queued before it. Or the victim waits in a wait set, for the
//! ends of all there are.
//!
//! In the large set there are more words than one `futex_waitv` takes: the victim sleeps on them by
//! helper threads as well. One of the sleepers behind it has a set of as many words.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WaitDead {
    /// The victim was queued first: the kernel wakes it.
    First,
    /// Another process was queued before it.
    Between,
    /// It waits in a set.
    InSet,
    /// It waits in a set that one call of `futex_waitv` is too small for: by helper threads.
    InLargeSet,
}

/// How many threads live beside the mortal one, with three words each: more than one call watches.
const CROWD: u32 = 44;

/// About as much as a helper has (`start_thread` in `sys/wait_threads.rs`): the C library uses it
/// for one again.
const HELPERS_STACK: usize = 256 << 10;

impl Scenario for WaitDead {
    fn name(&self) -> &'static str {
        match self {
            WaitDead::First => "peer-wait-dead",
            WaitDead::Between => "peer-wait-dead-between",
            WaitDead::InSet => "peer-wait-dead-in-set",
            WaitDead::InLargeSet => "peer-wait-dead-in-large-set",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            WaitDead::First => {
                "wait for another thread's end and be told, with two sleepers after it"
            }
            WaitDead::Between => "the same with a sleeper before it, too",
            WaitDead::InSet => {
                "wait in a wait set for the ends of several threads and be told, with two sleepers after it"
            }
            WaitDead::InLargeSet => {
                "the same for the ends of more threads than one futex_waitv watches"
            }
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.ask("watcher", "token claim")?;
        if *self == WaitDead::InLargeSet {
            world.ask("crowd", &format!("token keep-threads {CROWD}"))?;
        }
        let tid = world.ask("mortal", "token start-thread")?;
        world.remember(tid.parse().map_err(|_| Failure::broken("no thread number"))?);
        if *self == WaitDead::Between {
            world
                .survivor("sleeper")?
                .tell_and_see_asleep(&format!("token wait-dead thread {tid}"))?;
        }
        Ok(())
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let tid = world.remembered();
        world.survivor("late")?.tell_and_see_asleep(&format!("token wait-dead thread {tid}"))?;
        let how = if *self == WaitDead::InLargeSet { "wait-dead-in-set" } else { "wait-dead" };
        world.survivor("later")?.tell_and_see_asleep(&format!("token {how} thread {tid}"))?;
        world.ask("mortal", &format!("token end-thread {tid}")).map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        if !death.helped {
            self.help(world)?;
        }
        if *self == WaitDead::Between {
            world.answer("sleeper")?;
        }
        world.answer("late")?;
        world.answer("later")?;
        world.saw_many("told of an end", 2);
        if *self == WaitDead::InLargeSet {
            let pid = world.survivor("crowd")?.pid();
            let alive = world.ask("watcher", &format!("token alive-of {pid}"))?;
            if alive != CROWD.to_string() {
                return Err(Failure::wrong(format!(
                    "{alive} of {CROWD} threads that live are said to"
                )));
            }
        }
        super::none_alive(world)
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        crate::scenario::help_beside(self, world, stop)?;
        world.all_get_past()?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        let tokens = domain.tokens();
        // The mortal thread is the newest living token but the victim's own.
        let own = std::process::id();
        let mortal = tokens
            .iter()
            .filter(|info| info.alive && info.pid != own && info.pid != info.tid)
            .min_by_key(|info| info.age)
            .ok_or("nobody to wait for")?;
        let peer = domain.peer(mortal.id);
        if *self == WaitDead::InSet || *self == WaitDead::InLargeSet {
            if *self == WaitDead::InLargeSet {
                crate::scenario::has_had_a_thread(HELPERS_STACK)?;
            }
            let mut set = outlive::wait::WaitSet::new(&domain);
            set.set_wait_strategy(outlive::WaitStrategy::Block);
            for other in tokens.iter().filter(|info| info.alive && info.pid != own) {
                set.add(&domain.peer(other.id)).map_err(|error| error.to_string())?;
            }
            stage.begin();
            let waited = set.wait().map(Iterator::count);
            // With its threads: what it has open then is the victim's for good.
            drop(set);
            stage.end_of(&waited);
            return waited.map(drop).map_err(|error| error.to_string());
        }
        let waited = stage.perform(|| peer.wait_dead());
        waited.map_err(|error| error.to_string())
    }

    fn check_world(&self, world: &mut World) -> Result<(), Failure> {
        super::none_lost(world)
    }
}
