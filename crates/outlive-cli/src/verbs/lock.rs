//! `outlive lock NAME -- cmd`: run a command while holding a lock, as flock(1) does; no death leaves it locked.
//!
//! This process holds the lock and starts the command, and the lock's value names the command: {pid, start time, pid
//! namespace}, zeroes when there is none. A Rust program may take the same lock as `Mutex<[u64; 3]>`.
//!
//! | killed | then |
//! | --- | --- |
//! | we, waiting for the lock | nobody notices |
//! | we, before the command is started | the next is told, finds no command, goes on |
//! | we, between starting the command and naming it in the lock | the command waits for our go-ahead on a pipe, sees it closed and ends without having run |
//! | we, while it runs | the kernel kills the command (PR_SET_PDEATHSIG); the next is told, and first waits until the command named in the lock is gone |
//! | the command | we give the lock back and say so by our exit code |
//!
//! The command is this program again, under a hidden verb, until it has its go-ahead: then it becomes cmd. So the pid is
//! known before cmd's first instruction, and nothing needs to be done between a fork and an exec.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use clap::Args;
use outlive::sync::{Guard, LockError, Mutex};
use outlive::{Deadline, Domain};
use rustix::io::FdFlags;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::output::{is_watched, talk};
use crate::process::{self, Process};
use crate::signals::{Signals, wait_readable};
use crate::size;

/// Arguments of `lock`.
#[derive(Args, Debug)]
pub struct LockArgs {
    /// The lock's name; it is made when it is not there
    name: String,
    /// Give up with exit code 124 when the lock is not to be had for so long
    #[arg(long, short = 'w', value_name = "SECONDS", value_parser = size::parse_seconds)]
    timeout: Option<Duration>,
    /// Give up at once with exit code 124 when somebody holds the lock
    #[arg(long, short, conflicts_with = "timeout")]
    nonblock: bool,
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

/// The command that runs under the lock: pid, start time, pid namespace.
type Running = [u64; 3];
const NOBODY: Running = [0; 3];

/// Runs the verb.
pub fn run(args: &LockArgs, common: &Common) -> Result<(), Failure> {
    let own = |failure: Failure| failure.with_code(Code::LockFailed);
    let domain = common.domain.open().map_err(own)?;
    let mutex = open(args, common, &domain).map_err(own)?;
    let mut guard = acquire(args, &mutex)?;
    let status = run_locked(args, &mut guard)?;
    *guard = NOBODY;
    drop(guard);
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failure::Silent(code as u8)),
        (None, signal) => Err(Failure::Silent(128 + signal.unwrap_or(0) as u8)),
    }
}

fn open(args: &LockArgs, common: &Common, domain: &Domain) -> Result<Mutex<Running>, Failure> {
    if common.domain.no_create {
        // Says so when it is not there; what it is, the opening below compares.
        domain.entry(&args.name)?;
    }
    Ok(Mutex::<Running>::open(domain, &args.name, NOBODY)?)
}

/// Gets the lock, and makes sure that no command of a dead holder is left.
fn acquire<'a>(args: &LockArgs, mutex: &'a Mutex<Running>) -> Result<Guard<'a, Running>, Failure> {
    let until = args.timeout.map(|span| Instant::now() + span);
    let deadline = until.map_or(Deadline::NEVER, Deadline::at);
    let mut result = mutex.try_lock();
    if matches!(result, Err(LockError::WouldBlock)) && !args.nonblock {
        if is_watched() {
            let holder = mutex
                .holder()
                .map_or_else(String::new, |holder| format!(": process {} ({}) holds it", holder.pid, holder.program));
            talk("lock", format_args!("waiting for '{}'{holder}", args.name));
        }
        result = mutex.lock_until(deadline);
    }
    let mut guard = match result {
        Ok(guard) => guard,
        Err(LockError::OwnerDied(mut guard)) => {
            let text = "the last holder died while it held the lock; what the lock guards may be half done";
            talk("lock", format_args!("'{}': {text}", args.name));
            // The value says which command ran, whoever holds the lock: whole whatever happened.
            guard.mark_consistent();
            guard
        }
        Err(error @ (LockError::TimedOut | LockError::WouldBlock)) => {
            let text = format!("'{}': {error}", args.name);
            return Err(Failure::new(Code::LockTimedOut, text));
        }
        Err(error) => return Err(Failure::from(error).with_code(Code::LockFailed)),
    };
    if *guard != NOBODY {
        outwait(args, *guard, if args.nonblock { Some(Instant::now()) } else { until })?;
        *guard = NOBODY;
    }
    Ok(guard)
}

/// The holder is dead, its command perhaps not yet: it must not run beside ours.
fn outwait(args: &LockArgs, [pid, started, namespace]: Running, until: Option<Instant>) -> Result<(), Failure> {
    let failed = |error| Failure::system("wait for the dead holder's command", &error).with_code(Code::LockFailed);
    if namespace != process::pid_namespace() {
        // Its kernel kills it all the same; only we cannot watch it.
        let text = "the dead holder's command ran in another pid namespace; whether it has ended cannot be seen here";
        talk("lock", format_args!("'{}': {text}", args.name));
        return Ok(());
    }
    let pid = u32::try_from(pid).unwrap_or(0);
    let Some(command) = Process::find(pid, Some(started)).map_err(failed)? else { return Ok(()) };
    talk("lock", format_args!("'{}': waiting for the dead holder's command, process {pid}, to be gone", args.name));
    if command.wait(until).map_err(failed)? {
        return Ok(());
    }
    // The value stays: whoever comes next waits for it as well.
    let text = format!("'{}': the dead holder's command, process {pid}, still runs", args.name);
    Err(Failure::new(Code::LockTimedOut, text))
}

/// Starts the command, names it in the lock, and waits for its end.
fn run_locked(args: &LockArgs, guard: &mut Guard<'_, Running>) -> Result<ExitStatus, Failure> {
    let failed = |doing: &'static str| move |error| Failure::system(doing, &error).with_code(Code::LockFailed);
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed("make a pipe")(errno.into()))?;
    let mut child = start(args, read).map_err(failed("start the command"))?;
    // Not before the start: the command would inherit that they are blocked. Killed by one just here, the command does
    // not get its go-ahead.
    let mut signals = Signals::take(&PASSED_ON).map_err(failed("take over signals"))?;
    let named = [u64::from(child.id()), process::start_time(child.id()).unwrap_or(0), process::pid_namespace()];
    **guard = named;
    // Volatile would not do more: the write below is a system call, and the value is in memory before it.
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
    let Some(command) = Process::find(child.id(), None)? else { return child.wait() };
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
