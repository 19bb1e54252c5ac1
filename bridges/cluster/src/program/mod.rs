//! The programs: a command runs while a lock or a permit of several machines is held.

mod args;
mod command;
mod watchdog;

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use outlive::Domain;

use crate::clock::Moment;
use crate::session::LEAST;
use crate::{Cluster, Error, LockError, Lost, MutexGuard, Permit};
use args::{Common, LockArgs, SemaphoreArgs};

/// `outlive lock`'s own codes: exit.rs of the program `outlive` has them all.
const USAGE: u8 = 2;
const FAILED: u8 = 125;

/// Why the command did not run, or that it did.
enum Ended {
    Code(u8),
    Told(u8, String),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Ended {
        Ended::Told(FAILED, error.to_string())
    }
}

/// What the command runs under.
trait Held {
    fn fence(&self) -> u64;
    fn end(&self) -> Moment;
    fn lost(&self) -> Option<Lost>;
    /// `clean`: the command ended by itself.
    fn give_back(self, clean: bool) -> Result<(), Error>;
}

impl Held for MutexGuard<'_> {
    fn fence(&self) -> u64 {
        MutexGuard::fence(self)
    }

    fn end(&self) -> Moment {
        MutexGuard::end(self)
    }

    fn lost(&self) -> Option<Lost> {
        MutexGuard::lost(self)
    }

    fn give_back(self, clean: bool) -> Result<(), Error> {
        if clean { self.unlock() } else { self.abandon() }
    }
}

impl Held for Permit<'_> {
    fn fence(&self) -> u64 {
        Permit::fence(self)
    }

    fn end(&self) -> Moment {
        Permit::end(self)
    }

    fn lost(&self) -> Option<Lost> {
        Permit::lost(self)
    }

    fn give_back(self, clean: bool) -> Result<(), Error> {
        if clean { self.release() } else { self.abandon() }
    }
}

/// The program `outlive-lock-cluster`.
pub fn lock() -> ExitCode {
    if let Some(code) = hidden() {
        return code;
    }
    let args = LockArgs::parse();
    finish(&args.common, &args.name, run_lock(&args))
}

/// The program `outlive-semaphore-cluster`.
pub fn semaphore() -> ExitCode {
    if let Some(code) = hidden() {
        return code;
    }
    let args = SemaphoreArgs::parse();
    finish(&args.common, &args.name, run_semaphore(&args))
}

/// Runs what this program starts itself as.
fn hidden() -> Option<ExitCode> {
    let args: Vec<OsString> = env::args_os().collect();
    match args.get(1)?.to_str()? {
        command::BECOME => Some(command::become_command(&args[2..])),
        watchdog::WATCH => Some(watchdog::watch(&args[2..])),
        _ => None,
    }
}

fn finish(common: &Common, name: &str, ended: Result<u8, Ended>) -> ExitCode {
    match ended {
        Ok(code) | Err(Ended::Code(code)) => code.into(),
        Err(Ended::Told(code, text)) => {
            common.say(name, text);
            code.into()
        }
    }
}

impl Common {
    fn say(&self, name: &str, text: impl Display) {
        eprintln!("{}: '{}': {text}", self.speaker, name.escape_debug());
    }

    fn domain(&self) -> Result<Domain, Ended> {
        outlive_program::open_domain(self.domain.as_deref(), self.group.as_deref(), true)
            .map_err(|error| Ended::Told(FAILED, error.to_string()))
    }

    fn cluster(&self, begun: Moment) -> Result<Cluster, Ended> {
        let address = crate::Address::parse(&self.cluster)
            .map_err(|error| Ended::Told(USAGE, error.to_string()))?;
        let most = Cluster::HELLO;
        let limit = match (self.nonblock, self.timeout) {
            (true, _) => LEAST,
            (_, Some(timeout)) => timeout.min(most),
            _ => most,
        };
        Ok(Cluster::connect_before(&self.domain()?, &address, begun.after(limit))?)
    }

    /// Until when is waited; the second time, behind a first look.
    fn until(&self, begun: Moment) -> Moment {
        match (self.nonblock, self.timeout) {
            (true, _) => Moment(0),
            (_, Some(timeout)) => begun.after(timeout),
            _ => Moment::NEVER,
        }
    }

    fn gave_up(&self, name: &str, holder: Option<String>) -> Ended {
        let why = if self.nonblock { "" } else { "the time is over; " };
        match holder {
            Some(holder) => self.say(name, format_args!("{why}it is held by {holder}")),
            None => self.say(name, format_args!("{why}it is not free")),
        }
        Ended::Code(self.conflict_exit_code)
    }
}

/// Waits as the library does, which takes spans: a day is one after another.
fn wait<T, E>(
    until: Moment,
    mut take: impl FnMut(Duration) -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    loop {
        let got = take(until.remaining())?;
        if got.is_some() || until.has_passed() {
            return Ok(got);
        }
    }
}

fn run_lock(args: &LockArgs) -> Result<u8, Ended> {
    let begun = Moment::now();
    let common = &args.common;
    let mutex = common.cluster(begun)?.mutex(&args.name)?;
    let until = common.until(begun);
    let guard = match wait(until, |span| mutex.lock_timeout(span)) {
        Ok(Some(guard)) => guard,
        Ok(None) => return Err(common.gave_up(&args.name, mutex.holder().unwrap_or(None))),
        Err(LockError::OwnerDied(mut guard)) => {
            let who = guard.dead_owner().unwrap_or("the last holder").to_owned();
            common.say(
                &args.name,
                format_args!(
                    "the last holder died or lost its lease while it held the lock: {who}; what \
                     the lock guards may be half done"
                ),
            );
            // As `outlive lock` does: the command was told. If it dies, the next one is.
            guard.mark_consistent();
            guard
        }
        Err(LockError::Failed(error)) => return Err(error.into()),
    };
    run(common, &args.name, guard)
}

fn run_semaphore(args: &SemaphoreArgs) -> Result<u8, Ended> {
    let begun = Moment::now();
    let common = &args.common;
    let cluster = common.cluster(begun)?;
    let semaphore = match args.permits {
        Some(permits) => cluster.semaphore(&args.name, permits)?,
        None => cluster.existing_semaphore(&args.name)?.ok_or_else(|| {
            let text = "it is not there: say by --permits how many it is to have";
            Ended::Told(USAGE, text.to_owned())
        })?,
    };
    let until = common.until(begun);
    match wait(until, |span| semaphore.acquire_timeout(span))? {
        Some(permit) => {
            if let Some(who) = permit.dead_owner() {
                let text = format!("the permit's last holder died or lost its lease: {who}");
                common.say(&args.name, text);
            }
            run(common, &args.name, permit)
        }
        None => Err(common.gave_up(&args.name, None)),
    }
}

/// Runs the command, gives the lock back, and returns the command's code.
fn run(common: &Common, name: &str, held: impl Held) -> Result<u8, Ended> {
    let mut lost = None;
    let ended = command::run(common, name, &held, &mut lost).map_err(|error| {
        Ended::Told(FAILED, format!("the command did not run, or not to its end: {error}"))
    });
    // A command that was ended has not finished: the next holder is told, also if the server comes back
    // before the lease's end.
    let given_back = held.give_back(lost.is_none());
    let code = ended?;
    if let Some(why) = lost {
        common.say(name, format_args!("the lock was lost while the command ran: {why}"));
        // Whatever it says of itself: it did not hold the lock up to its end.
        return Ok(if code == 0 { FAILED } else { code });
    }
    if let Err(error) = given_back {
        // It ran in time. That it was not given back in order is the next holder's news.
        common.say(name, error);
    }
    Ok(code)
}
