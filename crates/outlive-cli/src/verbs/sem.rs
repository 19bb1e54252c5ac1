//! `outlive sem NAME --permits N cmd`: run a command while holding one of N permits, or several.
//!
//! The permit comes back by itself when this process is killed, perhaps before its command is gone.
//! So a small table beside the semaphore, a record `NAME.commands`, says which command runs under
//! which permit. A process that gets a permit under which a command still runs does not use it
//! before that command is gone. `under` has the states and what each death does; here, too:
//!
//! | killed | then |
//! | --- | --- |
//! | this process, holding back permits of dead holders | they are free again, their entries still name the commands |

use std::ffi::OsString;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use clap::Args;
use outlive::sync::{AcquireError, Permit, Record, Semaphore};
use outlive::{Deadline, Domain, Error};

use super::holding::held_by;
use super::running::Entry;
use super::under::{ClusterArgs, LeftOver, Under, UnderArgs, exit_as};
use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::output::{counted, is_watched};
use crate::verbs::attributes::AttributeArgs;

/// Run a command while holding one of several permits, or more of them
///
/// At most --permits commands run at once; the others wait for a permit. All users of one name give
/// the same number, or none: a semaphore that is there has its own. A command that needs more room than the others takes more permits by --take. The
/// verb exits with the command's code, and passes signals on to the command.
///
/// When the verb is killed, its command is killed with it, and the permit comes back by itself,
/// once that command is gone. Processes that the command has started in the background live on. The
/// kernel does not kill commands that change their user (set-user-ID programs): their permit comes
/// back when they end. A record beside the semaphore, NAME.commands, says which command runs under
/// which permit.
///
/// What follows the first word of the command belongs to the command, options too; options of
/// outlive come before it.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    find . -name '*.flac' | xargs -P 100 -I{} outlive semaphore run --permits 4 encoders ./encode.sh {}\n  \
    outlive semaphore run --permits 8 --take 6 cores make -j6\n  \
    outlive semaphore run gpus --permits 2 --timeout 1m ./train.sh || echo 'no room'")]
pub struct SemArgs {
    /// The semaphore's name; a semaphore that is not there is made
    name: String,
    /// How many commands may run at once [default: as many as the semaphore, which is there, has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST as i64))]
    permits: Option<u32>,
    /// How many of the permits the command holds, all or none
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MOST as i64))]
    take: u32,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    under: UnderArgs,
    #[command(flatten)]
    attributes: AttributeArgs,
}

/// So many permits the table has room for.
const MOST: usize = 1024;

outlive::record! {
    /// Which command runs under which permit.
    struct Commands {
        entries: [[AtomicU64; 2]; MOST],
    }
}

/// Runs the verb.
pub fn run(args: &SemArgs, common: &Common) -> Result<(), Failure> {
    let mut under = Under::new(&args.name, &args.under);
    let too_few = |permits: usize| {
        let text = format!("--take {}: there are {permits} permits", args.take);
        Err(Failure::new(Code::Usage, text))
    };
    if args.permits.is_some_and(|permits| args.take > permits) {
        return too_few(args.permits.unwrap_or_default() as usize);
    }
    if args.take != 1 && args.cluster.cluster.is_some() {
        let text =
            format!("--take {}: of several machines' permits a command holds one", args.take);
        return Err(Failure::new(Code::Usage, text));
    }
    let permits = args.permits.map(|permits| ["--permits".into(), permits.to_string().into()]);
    let words: Vec<OsString> =
        permits.into_iter().flatten().chain([args.name.as_str().into()]).collect();
    args.cluster.become_program(
        "outlive-semaphore-cluster",
        &common.domain,
        &args.under,
        &words,
    )?;
    let own = |failure: Failure| failure.with_code(Code::LockFailed);
    let domain = args.attributes.on(common.domain.open().map_err(own)?);
    under.domain = Some(domain.clone());
    let semaphore = match args.permits {
        Some(permits) => made(args, permits, common, &domain).map_err(own)?,
        None => match Semaphore::open(&domain, &args.name) {
            Err(Error::NotFound { .. }) if !common.domain.no_create => {
                let name = args.name.escape_debug();
                let text =
                    format!("'{name}' is not there: say by --permits how many it is to have");
                return Err(Failure::new(Code::Usage, text));
            }
            opened => opened.map_err(|error| own(error.into()))?,
        },
    };
    if args.take as usize > semaphore.max_permits() {
        return too_few(semaphore.max_permits());
    }
    let name = format!("{}.commands", args.name);
    let commands = Record::<Commands>::open_or_create(&domain, &name);
    let commands = commands.map_err(|error| own(error.into()))?;
    let permits = acquire(args, &under, &semaphore, &commands.entries)?;
    let entries: Vec<usize> = permits.iter().map(Permit::index).collect();
    let status = under.run(&commands.entries, &entries);
    drop(permits);
    exit_as(status?)
}

/// Opens the semaphore, which is to have so many permits, or makes it.
fn made(
    args: &SemArgs,
    permits: u32,
    common: &Common,
    domain: &Domain,
) -> Result<Semaphore, Failure> {
    if common.domain.no_create {
        // Says so when it is not there; what it is, the opening below compares.
        domain.entry(&args.name)?;
    }
    let semaphore = Semaphore::options(permits).open_or_create(domain, &args.name)?;
    if semaphore.max_permits() != permits as usize {
        // Going on would break a promise of how many run at once: this command's, or the other
        // users'.
        let room = counted(semaphore.max_permits() as u64, "permit");
        let text = format!(
            "'{}' was made with {room}: say that, or remove it first (outlive rm)",
            args.name
        );
        return Err(Failure::new(Code::LockFailed, text));
    }
    Ok(semaphore)
}

/// While dead holders' commands keep the permits that this process has: how often to look whether
/// another one has become free.
const SLICE: Duration = Duration::from_millis(20);

/// Gets so many permits, all or none, under which no command runs.
fn acquire<'a>(
    args: &SemArgs,
    under: &Under<'_>,
    semaphore: &'a Semaphore,
    running: &[Entry],
) -> Result<Vec<Permit<'a>>, Failure> {
    let own = |error: AcquireError| Failure::from(error).with_code(Code::LockFailed);
    let mut got = try_take(args, semaphore);
    if matches!(got, Ok(None)) && !under.is_nonblocking() {
        if is_watched() {
            let wanted = if args.take == 1 { "a permit" } else { "permits" };
            under.say(format_args!("waiting for {wanted}: {}", shortage(args, under, semaphore)));
        }
        got = take_until(args, semaphore, under.deadline());
    }
    let Some(mut offered) = got.map_err(own)? else {
        let short = shortage(args, under, semaphore);
        return Err(if under.is_nonblocking() {
            under.gave_up(format_args!("{short}; wait, or try later"))
        } else {
            under.gave_up(format_args!("the time is over, and {short}"))
        });
    };
    let mut usable = Vec::new();
    // Those of dead holders whose commands still run: held back, so that the semaphore does not
    // return them again. With the usable ones they are as many as are wanted, or more: so this
    // process waits for commands of the dead alone, and for no holder that waits for its part.
    let mut held_back: Vec<(Permit<'a>, LeftOver)> = Vec::new();
    loop {
        for permit in offered.drain(..) {
            match under.left_over(running, permit.index())? {
                None => usable.push(permit),
                Some(left_over) => {
                    under.say_waiting(&left_over);
                    held_back.push((permit, left_over));
                }
            }
        }
        let (Some((_, left_over)), true) = (held_back.first(), usable.len() < args.take as usize)
        else {
            return Ok(usable);
        };
        if let Some(permit) = semaphore.try_acquire().map_err(own)? {
            offered.push(permit);
            continue;
        }
        if under.until.is_some_and(|until| until <= Instant::now()) {
            return Err(under.still_runs(left_over));
        }
        let slice = Instant::now() + SLICE;
        left_over.outwait(running, Some(under.until.map_or(slice, |until| until.min(slice))))?;
        if let Some(at) = gone(&held_back, running)? {
            usable.push(held_back.swap_remove(at).0);
        }
    }
}

fn try_take<'a>(
    args: &SemArgs,
    semaphore: &'a Semaphore,
) -> Result<Option<Vec<Permit<'a>>>, AcquireError> {
    if args.take == 1 {
        return Ok(semaphore.try_acquire()?.map(|permit| vec![permit]));
    }
    let permits = semaphore.try_acquire_many(args.take as usize)?;
    Ok(permits.map(|permits| permits.into_iter().collect()))
}

fn take_until<'a>(
    args: &SemArgs,
    semaphore: &'a Semaphore,
    deadline: Deadline,
) -> Result<Option<Vec<Permit<'a>>>, AcquireError> {
    if args.take == 1 {
        return Ok(semaphore.acquire_until(deadline)?.map(|permit| vec![permit]));
    }
    let permits = semaphore.acquire_many_until(args.take as usize, deadline)?;
    Ok(permits.map(|permits| permits.into_iter().collect()))
}

/// Says why this process has not got what it wants.
fn shortage(args: &SemArgs, under: &Under<'_>, semaphore: &Semaphore) -> String {
    let held =
        held_by(&semaphore.holders(), under.domain.as_ref()).unwrap_or_else(|| "held".to_owned());
    match semaphore.available_permits() {
        free if free > 0 && args.take > 1 => {
            let (free, all) = (counted(free as u64, "permit"), semaphore.max_permits());
            format!("{free} of {all} free, {} wanted; the others are {held}", args.take)
        }
        _ => format!("all permits are {held}"),
    }
}

/// Returns which of them has a command that is gone by now.
fn gone(held_back: &[(Permit<'_>, LeftOver)], running: &[Entry]) -> Result<Option<usize>, Failure> {
    for (at, (_, left_over)) in held_back.iter().enumerate() {
        if left_over.outwait(running, Some(Instant::now()))? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}
