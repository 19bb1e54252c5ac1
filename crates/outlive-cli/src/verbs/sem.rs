//! `outlive sem NAME --permits N cmd`: run a command while holding one of N permits.
//!
//! The permit comes back by itself when this process is killed, perhaps before its command is gone.
//! So a small table beside the semaphore, a record `NAME.commands`, says which command runs under
//! which permit. A process that gets a permit under which a command still runs does not use it
//! before that command is gone. `under` has the states and what each death does; here, too:
//!
//! | killed | then |
//! | --- | --- |
//! | this process, holding back permits of dead holders | they are free again, their entries still name the commands |

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use clap::Args;
use outlive::Domain;
use outlive::sync::{Permit, Record, Semaphore};

use super::holding::held_by;
use super::running::Entry;
use super::under::{LeftOver, Under, UnderArgs, exit_as};
use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::output::{counted, is_watched};

/// Run a command while holding one of several permits
///
/// At most --permits commands run at once; the others wait for a permit. All users of one name give
/// the same number. The verb exits with the command's code, and passes signals on to the command.
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
    outlive semaphore run gpus --permits 2 --timeout 1m ./train.sh || echo 'no room'")]
pub struct SemArgs {
    /// The semaphore's name; a semaphore that is not there is made
    name: String,
    /// How many commands may run at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST as i64))]
    permits: u32,
    #[command(flatten)]
    under: UnderArgs,
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
    let mut under = Under::new("sem", &args.name, &args.under);
    let own = |failure: Failure| failure.with_code(Code::LockFailed);
    let domain = common.domain.open().map_err(own)?;
    under.domain = Some(domain.clone());
    let (semaphore, commands) = open(args, common, &domain).map_err(own)?;
    let permit = acquire(&under, &semaphore, &commands.entries)?;
    let status = under.run(&commands.entries, permit.index());
    drop(permit);
    exit_as(status?)
}

fn open(
    args: &SemArgs,
    common: &Common,
    domain: &Domain,
) -> Result<(Semaphore, Record<Commands>), Failure> {
    if common.domain.no_create {
        // Says so when it is not there; what it is, the opening below compares.
        domain.entry(&args.name)?;
    }
    let semaphore = Semaphore::options(args.permits).open_or_create(domain, &args.name)?;
    if semaphore.max_permits() != args.permits as usize {
        // Going on would break a promise of how many run at once: this command's, or the other
        // users'.
        let room = counted(semaphore.max_permits() as u64, "permit");
        let text = format!(
            "'{}' was made with {room}: say that, or remove it first (outlive rm)",
            args.name
        );
        return Err(Failure::new(Code::LockFailed, text));
    }
    let commands = Record::<Commands>::open_or_create(domain, &format!("{}.commands", args.name))?;
    Ok((semaphore, commands))
}

/// While dead holders' commands keep the permits that this process has: how often to look whether
/// another one has become free.
const SLICE: Duration = Duration::from_millis(20);

/// Gets a permit under which no command runs.
fn acquire<'a>(
    under: &Under<'_>,
    semaphore: &'a Semaphore,
    running: &[Entry],
) -> Result<Permit<'a>, Failure> {
    let mut result = semaphore.try_acquire();
    if matches!(result, Ok(None)) && !under.is_nonblocking() {
        if is_watched() {
            let held = held_by(&semaphore.holders(), under.domain.as_ref())
                .unwrap_or_else(|| "held".to_owned());
            under.say(format_args!("waiting for a permit: all are {held}"));
        }
        result = semaphore.acquire_until(under.deadline());
    }
    // Those of dead holders whose commands still run: held back, so that the semaphore does not
    // return them again.
    let mut held_back: Vec<(Permit<'a>, LeftOver)> = Vec::new();
    loop {
        match result {
            Ok(Some(permit)) => match under.left_over(running, permit.index())? {
                None => return Ok(permit),
                Some(left_over) => {
                    under.say_waiting(&left_over);
                    held_back.push((permit, left_over));
                }
            },
            Ok(None) => {
                let Some((_, left_over)) = held_back.first() else {
                    let held = held_by(&semaphore.holders(), under.domain.as_ref())
                        .unwrap_or_else(|| "held".to_owned());
                    return Err(if under.is_nonblocking() {
                        let text = "wait for one, or try later";
                        under.gave_up(format_args!("all permits are {held}; {text}"))
                    } else {
                        under.gave_up(format_args!("the time is over, and all permits are {held}"))
                    });
                };
                if under.until.is_some_and(|until| until <= Instant::now()) {
                    return Err(under.still_runs(left_over));
                }
                let slice = Instant::now() + SLICE;
                left_over
                    .outwait(running, Some(under.until.map_or(slice, |until| until.min(slice))))?;
                if let Some(at) = gone(&held_back, running)? {
                    return Ok(held_back.swap_remove(at).0);
                }
            }
            Err(error) => return Err(Failure::from(error).with_code(Code::LockFailed)),
        }
        result = semaphore.try_acquire();
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
