//! `outlive lock NAME cmd`: run a command while holding a lock, as flock(1) does; no death leaves
//! it locked.
//!
//! This process holds the lock, alone or (`--shared`) beside others, and the lock's value names the
//! command. `under` says what a death at each moment does.

use std::ops::Range;

use clap::Args;
use outlive::Domain;
use outlive::sync::{LockError, ReadGuard, RwLock, WriteGuard};

use super::holding::held_by;
use super::running::{self, ALONE, Running};
use super::under::{ClusterArgs, Under, UnderArgs, exit_as, failed};
use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::output::is_watched;
use crate::verbs::attributes::AttributeArgs;

/// Run a command while holding a lock
///
/// lock waits until the lock is free, runs the command, and exits with the command's code. It
/// passes signals on to the command. With --shared, commands run beside each other, but never
/// beside one without it; a command that waits without --shared goes before those with it that come
/// later.
///
/// When lock is killed, its command is killed with it, and the next lock is told so on standard
/// error. The next command does not start before that command is gone. Processes that the command
/// has started in the background live on. The kernel does not kill commands that change their user
/// (set-user-ID programs): the next lock waits for their end.
///
/// The lock is one that 'outlive lock' has made. A lock that a program has made by the library is
/// refused: it has no room to say which command runs.
///
/// What follows the first word of the command belongs to the command, options too; options of lock
/// come before it.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive lock backup rsync -a /home /mnt\n  \
    outlive lock --nonblock cron-job ./job.sh || echo 'still running'\n  \
    outlive lock --shared archive tar -cf today.tar /archive\n  \
    outlive lock --cluster etcd://10.0.0.1:2379 migration ./migrate.sh")]
pub struct LockArgs {
    /// The lock's name; a lock that is not there is made
    name: String,
    /// Hold the lock beside others that hold it with --shared
    #[arg(long, short)]
    shared: bool,
    /// Hold the lock alone, which is the default
    #[arg(long, short = 'e', conflicts_with = "shared")]
    exclusive: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    under: UnderArgs,
    #[command(flatten)]
    attributes: AttributeArgs,
}

/// How the lock is held, and the entry for this process's command.
enum Held<'a> {
    Alone(WriteGuard<'a, Running>),
    Beside(ReadGuard<'a, Running>, usize),
}

impl Held<'_> {
    fn running(&self) -> &Running {
        match self {
            Held::Alone(guard) => guard,
            Held::Beside(guard, _) => guard,
        }
    }

    fn entry(&self) -> usize {
        match self {
            Held::Alone(_) => ALONE,
            Held::Beside(_, entry) => *entry,
        }
    }
}

/// Runs the verb.
pub fn run(args: &LockArgs, common: &Common) -> Result<(), Failure> {
    if args.shared && args.cluster.cluster.is_some() {
        let text = "--shared: a lock of several machines is held alone";
        return Err(Failure::new(Code::Usage, text));
    }
    let words = [args.name.as_str().into()];
    args.cluster.become_program("outlive-lock-cluster", &common.domain, &args.under, &words)?;
    let own = |failure: Failure| failure.with_code(Code::LockFailed);
    let domain = args.attributes.on(common.domain.open().map_err(own)?);
    let lock = open(args, common, &domain).map_err(own)?;
    let mut under = Under::new(&args.name, &args.under);
    under.domain = Some(domain.clone());
    let held = acquire(args, &under, &lock)?;
    let status = under.run(held.running(), &[held.entry()]);
    drop(held);
    exit_as(status?)
}

fn open(args: &LockArgs, common: &Common, domain: &Domain) -> Result<RwLock<Running>, Failure> {
    if common.domain.no_create {
        // Says so when it is not there; what it is, the opening below compares.
        domain.entry(&args.name)?;
    }
    Ok(RwLock::<Running>::options(running::empty()).open_or_create(domain, &args.name)?)
}

/// Takes the lock, and makes sure that no command of a dead holder runs beside this one's that may
/// not.
fn acquire<'a>(
    args: &LockArgs,
    under: &Under<'_>,
    lock: &'a RwLock<Running>,
) -> Result<Held<'a>, Failure> {
    if !args.shared {
        return Ok(Held::Alone(alone(under, lock)?));
    }
    let read = |wait: bool| if wait { lock.read_until(under.deadline()) } else { lock.try_read() };
    let guard = match settle(under, lock, read)? {
        Got::Clean(guard) => {
            // It died as the exclusive holder; then a later holder was told, and gave up waiting
            // for its command.
            outwait(under, &guard, ALONE..ALONE + 1)?;
            guard
        }
        Got::Repairing(guard) => {
            let all = 0..guard.len();
            outwait(under, &guard, all)?;
            guard
                .downgrade()
                .map_err(|_| Failure::new(Code::LockFailed, "the lock could not be shared"))?
        }
    };
    match running::reserve(&guard[..]).map_err(failed("look for the commands that run"))? {
        Some(entry) => Ok(Held::Beside(guard, entry)),
        None => {
            // More than the table has room for: the last of them waits for all the others.
            drop(guard);
            Ok(Held::Alone(alone(under, lock)?))
        }
    }
}

fn alone<'a>(
    under: &Under<'_>,
    lock: &'a RwLock<Running>,
) -> Result<WriteGuard<'a, Running>, Failure> {
    let write =
        |wait: bool| if wait { lock.write_until(under.deadline()) } else { lock.try_write() };
    let (Got::Clean(guard) | Got::Repairing(guard)) = settle(under, lock, write)?;
    // All holders are gone; what the table still names are commands of dead ones.
    let all = 0..guard.len();
    outwait(under, &guard, all)?;
    Ok(guard)
}

/// The lock as it was asked for, or to repair.
enum Got<G, W> {
    Clean(G),
    Repairing(W),
}

/// Tries, then waits, and says for which holder.
fn settle<'a, G>(
    under: &Under<'_>,
    lock: &'a RwLock<Running>,
    take: impl Fn(bool) -> Result<Option<G>, LockError<WriteGuard<'a, Running>>>,
) -> Result<Got<G, WriteGuard<'a, Running>>, Failure> {
    let mut result = take(false);
    if matches!(result, Ok(None)) && !under.is_nonblocking() {
        if is_watched() {
            match in_the_way(under, lock) {
                Some(held) => under.say(format_args!("waiting: it is {held}")),
                None => under.say("waiting"),
            }
        }
        result = take(true);
    }
    match result {
        Ok(Some(guard)) => Ok(Got::Clean(guard)),
        Ok(None) if under.is_nonblocking() => {
            let held = in_the_way(under, lock).unwrap_or_else(|| "not free".to_owned());
            Err(under.gave_up(format_args!("the lock is {held}; wait for it, or try later")))
        }
        Ok(None) => {
            let held = in_the_way(under, lock).unwrap_or_else(|| "not free".to_owned());
            Err(under.gave_up(format_args!("the time is over, and the lock is {held}")))
        }
        Err(LockError::OwnerDied(mut guard)) => {
            let text = "the last holder died while it held the lock; what the lock guards may be half done";
            under.say(text);
            // The value says which commands run, also after a death: it is whole at any time.
            guard.mark_consistent();
            Ok(Got::Repairing(guard))
        }
        Err(error) => Err(Failure::from(error).with_code(Code::LockFailed)),
    }
}

/// Returns by which processes the lock is held; `None` when none can be seen any more.
fn in_the_way(under: &Under<'_>, lock: &RwLock<Running>) -> Option<String> {
    held_by(&lock.holders(), under.domain.as_ref())
}

/// Holders are dead, their commands perhaps not yet: they must not run beside this one's.
fn outwait(under: &Under<'_>, running: &Running, entries: Range<usize>) -> Result<(), Failure> {
    for entry in entries {
        if let Some(left_over) = under.left_over(running, entry)? {
            under.say_waiting(&left_over);
            if !left_over.outwait(running, under.until)? {
                return Err(under.still_runs(&left_over));
            }
        }
    }
    Ok(())
}
