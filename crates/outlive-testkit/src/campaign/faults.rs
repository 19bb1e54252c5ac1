//! A life in which one system call fails: it is not carried out, and the caller gets an error that it may get on any
//! machine. Then the operation has to end, by coping or by an error of its own; and everybody else finds what they would
//! find beside a process that was killed there, or that is done. Nothing of the caller's leaks, and nobody who lives is
//! called dead.

use std::fs;

use libc::{EFBIG, ENOSPC, c_int};

use super::round::Round;
use crate::engine::plan::{Moment, Route};
use crate::engine::victim::Stand;
use crate::engine::{errnos, trace};
use crate::failure::Failure;
use crate::world::{World, text};

/// What goes wrong at a system call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The call is not carried out, and returns this error.
    Call(c_int),
    /// The call is carried out, and the first of the requests that it hands to a ring of io_uring is answered with this error.
    Request(c_int),
}

/// What a victim has open.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Belongings {
    files: usize,
    /// Of the domain's files, and of rings of io_uring.
    mappings: usize,
}

impl Belongings {
    /// Of that process, in the world's domain; nothing when it is gone.
    pub(super) fn of(pid: u32, world: &World) -> Result<Belongings, Failure> {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let domain = world.domain();
        let domain = text(&domain)?;
        let is_counted = |line: &&str| line.contains(domain) || line.ends_with("[io_uring]");
        Ok(Belongings { files, mappings: maps.lines().filter(is_counted).count() })
    }

    pub(super) fn most(self, other: Belongings) -> Belongings {
        Belongings { files: self.files.max(other.files), mappings: self.mappings.max(other.mappings) }
    }
}

impl Round<'_> {
    /// A life in which the system call at a point of the observed one fails so. Says whether it came there.
    pub(super) fn fail_at(
        &self,
        world: &mut World,
        route: Route,
        expected: &Moment,
        end: u64,
        fault: Fault,
    ) -> Result<bool, Failure> {
        let mut reached = self.reach(world, route, expected, end)?;
        let call = trace::call_number(reached.victim.tid()).ok();
        let here = reached.met && reached.stand == Stand::Within && call == expected.call.map(|call| call.number);
        if !here {
            // Another life than the observed one: no call to fail.
            let ended = reached.has_ended();
            self.finish(world, &mut reached.victim, reached.helped, ended)?;
            return Ok(false);
        }
        // The survivors may be rescued by the re-check, where the caller had to do without a call that wakes.
        world.stop();
        match fault {
            Fault::Call(errno) => reached.victim.fail_call(errno)?,
            Fault::Request(errno) => reached.victim.refuse_first_request(errno)?,
        }
        let call = expected.call.map_or(0, |call| call.number);
        let name = |failure: Failure| failure.with(&format!("system call {call} failed"));
        let waits_for_room =
            |error: &Failure| matches!((error, fault), (Failure::Hang(_), Fault::Call(ENOSPC | EFBIG)));
        match self.go_on(world, &mut reached, end) {
            Err(failure) if waits_for_room(&failure) => {
                // On a full file system it has to do with what there is, and waits for that as it does where it may grow
                // no further.
                world.saw("waited for room");
                return self.finish(world, &mut reached.victim, true, false).map(|()| true).map_err(name);
            }
            gone_on => gone_on.map_err(name)?,
        }
        let failed = self.control.has_failed();
        world.saw(if failed { "told its caller" } else { "coped" });
        // Whether its caller was told or not: a sweep that cannot ask whether a process has ended leaves that
        // process's memory to the next sweep.
        world.note_a_fault();
        let most = self.before.get().most(self.usual.get());
        let now = Belongings::of(world.victim_pid(), world)?;
        if now.files > most.files || now.mappings > most.mappings {
            let leaks = format!("leaks: {now:?}, and before or without the fault {most:?} at most");
            return Err(name(Failure::wrong(leaks)));
        }
        self.nobody_living_is_dead(world).map_err(name)?;
        let ended = reached.has_ended() && !failed;
        self.finish(world, &mut reached.victim, reached.helped, ended).map_err(name)?;
        Ok(true)
    }

    /// The main threads and processes of all survivors live, and so say all.
    fn nobody_living_is_dead(&self, world: &mut World) -> Result<(), Failure> {
        for name in world.everybody() {
            let pid = world.survivor(name)?.pid();
            let told = world.ask("token-watcher", &format!("token called-dead {pid}"))?;
            if told != "0" {
                return Err(Failure::wrong(format!("{told} tokens of {name}, which lives, are called dead")));
            }
        }
        Ok(())
    }
}

/// Calls of a life with what is tried at each.
pub(super) fn faults(life: &[Moment], every: bool) -> Vec<(u64, Fault)> {
    let mut seen = std::collections::HashMap::new();
    let mut all = Vec::new();
    for (point, moment) in life.iter().enumerate() {
        let Some(call) = moment.call else { continue };
        // The same call from the same place: the first, the second (where the first has told something), no more.
        // A ring's calls are others by how much they hand in: else the two of the first ring may stand for all of them.
        let handed_in = if call.number == libc::SYS_io_uring_enter { call.arguments[1] } else { 0 };
        let times: &mut u32 = seen.entry((moment.address, call.number, call.caller, handed_in)).or_default();
        *times += 1;
        if every || *times <= 2 {
            let calls = errnos::of(call.number, call.arguments).iter().map(|&errno| Fault::Call(errno));
            let requests = errnos::of_requests(call.number, call.arguments).iter().map(|&errno| Fault::Request(errno));
            all.extend(calls.chain(requests).map(|fault| (point as u64, fault)));
        }
    }
    all
}
