//! `outlive lock NAME -- cmd`: run a command while holding a lock, as flock(1) does; no death leaves it locked.
//!
//! This process holds the lock, alone or (`--shared`) beside others, and starts the command, and the lock's value names
//! the command: see `running`.
//!
//! | killed | then |
//! | --- | --- |
//! | we, waiting for the lock | nobody notices |
//! | we, before the command is started | the next finds no command, goes on |
//! | we, between starting the command and naming it in the lock | the command waits for our go-ahead on a pipe, sees it closed and ends without having run |
//! | we, while it runs | the kernel kills the command (PR_SET_PDEATHSIG); whoever may not run beside it first waits until it is gone |
//! | the command | we give the lock back and say so by our exit code |
//!
//! The command is this program again, under a hidden verb, until it has its go-ahead: then it becomes cmd. So the pid is
//! known before cmd's first instruction, and nothing needs to be done between a fork and an exec.

mod running;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use clap::Args;
use outlive::sync::{LockError, ReadGuard, RwLock, WriteGuard};
use outlive::{Deadline, Domain};
use rustix::io::FdFlags;
use rustix::pipe::{PipeFlags, pipe_with};

use self::running::{ALONE, Named, Running};
use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::output::{counted, is_watched, talk};
use crate::process;
use crate::signals::{Signals, wait_readable};
use crate::size;

/// Arguments of `lock`.
#[derive(Args, Debug)]
pub struct LockArgs {
    /// The lock's name; it is made when it is not there
    name: String,
    /// Hold the lock beside others who hold it with --shared
    #[arg(long, short)]
    shared: bool,
    /// Hold the lock alone (what is done without --shared, too)
    #[arg(long, short = 'x', visible_short_alias = 'e', conflicts_with = "shared")]
    exclusive: bool,
    /// Give up when the lock is not to be had for so long
    #[arg(long, short = 'w', value_name = "SECONDS", value_parser = size::parse_seconds)]
    timeout: Option<Duration>,
    /// Give up at once when somebody holds the lock
    #[arg(long, short, conflicts_with = "timeout")]
    nonblock: bool,
    /// What to exit with after giving up
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = Code::LockTimedOut as u8)]
    conflict_exit_code: u8,
    /// The command to run, and its arguments
    #[arg(required = true, last = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<std::ffi::OsString>,
}

/// Arguments of the hidden verb that becomes the command.
#[derive(Args, Debug)]
pub struct BecomeArgs {
    /// The process that holds the lock
    holder: u32,
    /// The descriptor by which the go-ahead comes
    go_ahead: i32,
    #[arg(required = true, last = true)]
    command: Vec<std::ffi::OsString>,
}

/// How the lock is held, and the entry for our command.
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
    let own = |failure: Failure| failure.with_code(Code::LockFailed);
    let domain = common.domain.open().map_err(own)?;
    let lock = open(args, common, &domain).map_err(own)?;
    let held = acquire(args, &lock)?;
    let status = run_locked(args, &held);
    if let Some((named, _)) = running::named(held.running(), held.entry()) {
        running::clear(held.running(), held.entry(), named);
    }
    drop(held);
    let status = status?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failure::Silent(code as u8)),
        (None, signal) => Err(Failure::Silent(128 + signal.unwrap_or(0) as u8)),
    }
}

fn open(args: &LockArgs, common: &Common, domain: &Domain) -> Result<RwLock<Running>, Failure> {
    if common.domain.no_create {
        // Says so when it is not there; what it is, the opening below compares.
        domain.entry(&args.name)?;
    }
    Ok(RwLock::<Running>::open(domain, &args.name, running::nobody())?)
}

/// Gets the lock, and makes sure that no command of a dead holder runs beside ours that may not.
fn acquire<'a>(args: &LockArgs, lock: &'a RwLock<Running>) -> Result<Held<'a>, Failure> {
    let until = if args.nonblock { Some(Instant::now()) } else { args.timeout.map(|span| Instant::now() + span) };
    let failed = |error| Failure::system("look for the commands that run", &error).with_code(Code::LockFailed);
    if !args.shared {
        return Ok(Held::Alone(alone(args, lock, until)?));
    }
    let read = |wait: bool| if wait { lock.read_until(deadline(until)) } else { lock.try_read() };
    let guard = match settle(args, lock, read)? {
        Got::Clean(guard) => {
            // Died as the exclusive holder, then somebody was told, and gave up waiting for its command.
            outwait(args, &guard, ALONE..ALONE + 1, until)?;
            guard
        }
        Got::Repairing(guard) => {
            let all = 0..guard.len();
            outwait(args, &guard, all, until)?;
            guard.downgrade().map_err(|_| Failure::new(Code::LockFailed, "the lock could not be shared"))?
        }
    };
    match running::reserve(&guard).map_err(failed)? {
        Some(entry) => Ok(Held::Beside(guard, entry)),
        None => {
            // More than the table has room for: the last of them waits for all the others.
            drop(guard);
            Ok(Held::Alone(alone(args, lock, until)?))
        }
    }
}

fn alone<'a>(
    args: &LockArgs,
    lock: &'a RwLock<Running>,
    until: Option<Instant>,
) -> Result<WriteGuard<'a, Running>, Failure> {
    let write = |wait: bool| if wait { lock.write_until(deadline(until)) } else { lock.try_write() };
    let (Got::Clean(guard) | Got::Repairing(guard)) = settle(args, lock, write)?;
    // All holders are gone; what the table still names are commands of dead ones.
    let all = 0..guard.len();
    outwait(args, &guard, all, until)?;
    Ok(guard)
}

fn deadline(until: Option<Instant>) -> Deadline {
    until.map_or(Deadline::NEVER, Deadline::at)
}

/// The lock as it was asked for, or to repair.
enum Got<G, W> {
    Clean(G),
    Repairing(W),
}

/// Tries, then waits, saying for whom.
fn settle<'a, G>(
    args: &LockArgs,
    lock: &'a RwLock<Running>,
    take: impl Fn(bool) -> Result<G, LockError<WriteGuard<'a, Running>>>,
) -> Result<Got<G, WriteGuard<'a, Running>>, Failure> {
    let mut result = take(false);
    if matches!(result, Err(LockError::WouldBlock)) && !args.nonblock {
        if is_watched() {
            talk("lock", format_args!("waiting for '{}'{}", args.name, in_the_way(lock)));
        }
        result = take(true);
    }
    match result {
        Ok(guard) => Ok(Got::Clean(guard)),
        Err(LockError::OwnerDied(mut guard)) => {
            let text = "the last holder died while it held the lock; what the lock guards may be half done";
            talk("lock", format_args!("'{}': {text}", args.name));
            // The value says which commands run, whoever holds the lock: whole whatever happened.
            guard.mark_consistent();
            Ok(Got::Repairing(guard))
        }
        Err(error @ (LockError::TimedOut | LockError::WouldBlock)) => {
            Err(gave_up(args, &format!("'{}': {error}", args.name)))
        }
        Err(error) => Err(Failure::from(error).with_code(Code::LockFailed)),
    }
}

fn in_the_way(lock: &RwLock<Running>) -> String {
    match lock.holders().as_slice() {
        [] => String::new(),
        [holder] => format!(": process {} ({}) holds it", holder.pid, holder.program.escape_debug()),
        holders => format!(": {} hold it or wait for it", counted(holders.len() as u64, "thread")),
    }
}

/// What whoever gave up says and exits with.
fn gave_up(args: &LockArgs, text: &str) -> Failure {
    talk("lock", format_args!("{text}"));
    Failure::Silent(args.conflict_exit_code)
}

/// Holders are dead, their commands perhaps not yet: they must not run beside ours. The entries of those that are gone
/// are cleared.
fn outwait(
    args: &LockArgs,
    running: &Running,
    entries: std::ops::Range<usize>,
    until: Option<Instant>,
) -> Result<(), Failure> {
    let failed = |error| Failure::system("wait for the dead holder's command", &error).with_code(Code::LockFailed);
    for entry in entries {
        let Some((named, of_our_namespace)) = running::named(running, entry) else { continue };
        let pid = named.pid();
        if !of_our_namespace {
            // Its kernel kills it all the same; only we cannot watch it.
            let text = "a dead holder's command ran in another pid namespace; whether it has ended cannot be seen here";
            talk("lock", format_args!("'{}': {text}", args.name));
        } else if let Some(command) = named.find().map_err(failed)? {
            let text =
                format_args!("'{}': waiting for the dead holder's command, process {pid}, to be gone", args.name);
            talk("lock", text);
            if !command.wait(until).map_err(failed)? {
                // The entry stays: whoever comes next waits for it as well.
                return Err(gave_up(
                    args,
                    &format!("'{}': the dead holder's command, process {pid}, still runs", args.name),
                ));
            }
        }
        running::clear(running, entry, named);
    }
    Ok(())
}

/// Starts the command, names it in the lock, and waits for its end.
fn run_locked(args: &LockArgs, held: &Held<'_>) -> Result<ExitStatus, Failure> {
    let failed = |doing: &'static str| move |error| Failure::system(doing, &error).with_code(Code::LockFailed);
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed("make a pipe")(errno.into()))?;
    let mut child = start(args, read).map_err(failed("start the command"))?;
    // Not before the start: the command would inherit that they are blocked. Killed by one just here, the command does
    // not get its go-ahead.
    let mut signals = Signals::take(&PASSED_ON).map_err(failed("take over signals"))?;
    // In memory before the write below, which is a system call.
    running::name(held.running(), held.entry(), Named::of(child.id()));
    let mut write = File::from(write);
    // A child that has ended already says so by its status.
    let _ = write.write_all(b"!");
    drop(write);
    wait_for(&mut child, &mut signals).map_err(failed("wait for the command"))
}

/// What a supervisor sends to the process that it started is meant for the command.
const PASSED_ON: [i32; 7] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGCONT];

fn start(args: &LockArgs, go_ahead: OwnedFd) -> std::io::Result<Child> {
    // Inherited by this one child: it is this process's only one.
    rustix::io::fcntl_setfd(&go_ahead, FdFlags::empty())?;
    Command::new("/proc/self/exe")
        .arg0("outlive")
        .arg("become")
        .arg(std::process::id().to_string())
        .arg(go_ahead.as_raw_fd().to_string())
        .arg("--")
        .args(&args.command)
        .spawn()
}

fn wait_for(child: &mut Child, signals: &mut Signals) -> std::io::Result<ExitStatus> {
    let Some(command) = process::Process::find(child.id(), None)? else { return child.wait() };
    loop {
        let ready = wait_readable(&[command.as_fd(), signals.as_fd()], None)?;
        while let Some(came) = signals.next()? {
            // What the terminal sent went to the command as well.
            if came.sent_by_process {
                // SAFETY: no memory is touched; the child is not yet waited for, so its pid is its own.
                unsafe { libc::kill(child.id() as i32, came.signal) };
            }
        }
        if ready[0] {
            return child.wait();
        }
    }
}

/// Runs the hidden verb: waits for the go-ahead, then becomes the command.
pub fn become_command(args: &BecomeArgs) -> Result<(), Failure> {
    let failed = |error| Failure::system("start the command", &error).with_code(Code::LockFailed);
    if !process::die_with_parent(args.holder).map_err(failed)? {
        return Err(Failure::Silent(Code::LockFailed as u8));
    }
    // SAFETY: the holder left this descriptor open for us; nobody else in this new program owns it.
    let mut go_ahead = File::from(unsafe { OwnedFd::from_raw_fd(args.go_ahead) });
    let mut byte = [0];
    // Closed without a byte: the holder is dead, and nobody knows of us.
    go_ahead.read_exact(&mut byte).map_err(|_| Failure::Silent(Code::LockFailed as u8))?;
    drop(go_ahead);
    let (program, arguments) = args.command.split_first().ok_or(Failure::Silent(Code::LockFailed as u8))?;
    let error = Command::new(program).args(arguments).exec();
    let code = match error.kind() {
        ErrorKind::NotFound => Code::CommandNotFound,
        _ => Code::NotExecutable,
    };
    talk("lock", format_args!("could not run '{}': {error}", program.to_string_lossy()));
    Err(Failure::Silent(code as u8))
}
