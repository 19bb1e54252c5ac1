//! A life in which one system call fails: the kernel does not carry it out, and the caller gets an
//! error that it may get on any machine. Then the operation has to end, by coping or by an error of
//! its own; and every other process finds what it would find beside a process that was killed
//! there, or that is done. Nothing of the caller's leaks, and no living process is called dead.

use std::time::{Duration, Instant};

use libc::{EFBIG, ENOSPC, c_int};

use super::belongings::Belongings;
use super::round::{ENDS_OF_THREADS, Round};
use crate::engine::plan::{Moment, Route};
use crate::engine::victim::Stand;
use crate::engine::{errnos, trace};
use crate::failure::Failure;
use crate::world::{World, load};

impl Round<'_> {
    /// A life in which the system call at a point of the observed one fails so. Says whether it
    /// came there.
    pub(super) fn fail_at(
        &self,
        world: &mut World,
        route: Route,
        expected: &Moment,
        end: u64,
        errno: c_int,
    ) -> Result<bool, Failure> {
        let mut reached = self.reach(world, route, expected, end)?;
        let call = trace::call_number(reached.victim.tid()).ok();
        let here = reached.met
            && reached.stand == Stand::Within
            && call == expected.call.map(|call| call.number);
        if !here {
            // Another life than the observed one: no call to fail.
            let ended = reached.has_ended();
            self.finish(world, &mut reached.victim, reached.helped, ended)?;
            return Ok(false);
        }
        // The survivors may be rescued by the recheck, where the caller had to do without a call
        // that wakes.
        world.stop();
        reached.victim.fail_call(errno)?;
        let call = expected.call.map_or(0, |call| call.number);
        let name = |failure: Failure| failure.with(&format!("system call {call} failed"));
        let waits_for_room =
            |error: &Failure| matches!((error, errno), (Failure::Hang(_), ENOSPC | EFBIG));
        match self.go_on(world, &mut reached, end) {
            Err(failure) if waits_for_room(&failure) => {
                // On a full file system it has to do with what there is, and waits for that as it
                // does where it may grow no further.
                world.saw("waited for room");
                return self
                    .finish(world, &mut reached.victim, true, false)
                    .map(|()| true)
                    .map_err(name);
            }
            gone_on => gone_on.map_err(name)?,
        }
        let failed = self.control.has_failed();
        world.saw(if failed { "told its caller" } else { "coped" });
        let told = self.control.told();
        if failed && !errnos::tells_of(errno, &told) {
            let wrong =
                format!("the caller is told of something else than of errno {}: {told}", errno);
            return Err(name(Failure::wrong(wrong)));
        }
        // Whether its caller was told or not: a sweep that cannot ask whether a process has ended
        // leaves that process's memory to the next sweep.
        world.note_a_fault();
        self.nothing_is_left(world, failed).map_err(name)?;
        self.nobody_living_is_dead(world).map_err(name)?;
        let ended = reached.has_ended() && !failed;
        self.finish(world, &mut reached.victim, reached.helped, ended).map_err(name)?;
        Ok(true)
    }

    /// The victim holds what it may hold after its operation.
    fn nothing_is_left(&self, world: &World, failed: bool) -> Result<(), Failure> {
        let (before, usual) = (self.before.borrow(), self.usual.borrow());
        let deadline = Instant::now() + load::stretched(ENDS_OF_THREADS);
        loop {
            let now = Belongings::of(world.victim_pid(), world)?;
            let wrong = if failed {
                now.wrong_after_an_error(&before, &usual, self.scenario.lasting_mappings())
            } else {
                now.wrong_after_success(&before, &usual)
            };
            match wrong {
                None => return Ok(()),
                // A thread that was told to end ends by itself.
                Some(_) if now.threads() > before.threads() && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Some(wrong) => {
                    let since = if failed { "an error" } else { "success" };
                    return Err(Failure::wrong(format!("leaks, after {since}: {wrong}")));
                }
            }
        }
    }

    /// The main threads and processes of all survivors live, and so say all.
    fn nobody_living_is_dead(&self, world: &mut World) -> Result<(), Failure> {
        for name in world.survivors() {
            let pid = world.survivor(name)?.pid();
            let told = world.ask("token-watcher", &format!("token called-dead {pid}"))?;
            if told != "0" {
                return Err(Failure::wrong(format!(
                    "{told} tokens of {name}, which lives, are called dead"
                )));
            }
        }
        Ok(())
    }
}

/// Calls of a life with the errors that are tried at each.
pub(super) fn faults(life: &[Moment], every: bool) -> Vec<(u64, c_int)> {
    let mut seen = std::collections::HashMap::new();
    let mut all = Vec::new();
    for (point, moment) in life.iter().enumerate() {
        let Some(call) = moment.call else { continue };
        // The same call from the same place: the first, the second (where the first has told
        // something), no more.
        let times: &mut u32 = seen.entry((moment.address, call.number, call.caller)).or_default();
        *times += 1;
        if every || *times <= 2 {
            let errors = errnos::of(call.number, call.arguments);
            all.extend(errors.iter().map(|&errno| (point as u64, errno)));
        }
    }
    all
}
