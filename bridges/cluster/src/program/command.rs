//! The command that runs while the lock is held.
//!
//! Three processes: this one, which has the lock and renews the lease; the command, its child; the
//! watchdog, its other child, which ends the command when the lease's time is over.
//!
//! | killed | then |
//! | --- | --- |
//! | this process | the kernel kills the command; the watchdog sees its pipe closed, and kills the command's group |
//! | this process, before the go-ahead | the command sees its pipe closed, and ends without having run |
//! | the watchdog | this process starts another one |
//! | the command | this process unlocks, and says so by its exit code |
//!
//! | stopped | then |
//! | --- | --- |
//! | this process | the lease is not renewed: the watchdog ends the command before the lease's end |
//! | the watchdog | this process ends the command itself if the lock is lost |
//! | this process and the watchdog | **the command goes on**: only its fence keeps it from doing harm |
//! | the command | it keeps the lock, as it does when it runs |

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::FdFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use super::args::Common;
use super::watchdog::Watchdog;
use super::{FAILED, Held};
use crate::Lost;
use crate::clock::Moment;

pub(super) const BECOME: &str = "%become";

/// How long a command has for its end, between SIGTERM and SIGKILL, once the lock is lost already.
const GRACE: Duration = Duration::from_millis(200);

/// Runs the command under what is held, and returns its code. `lost` is set if the lock was lost while
/// it ran.
pub(super) fn run(
    common: &Common,
    name: &str,
    held: &impl Held,
    lost: &mut Option<Lost>,
) -> io::Result<u8> {
    let (read, go_ahead) = pipe_with(PipeFlags::CLOEXEC)?;
    // On a terminal the command stays in the foreground's group, where Ctrl-C and Ctrl-Z reach it.
    let own_group = !io::stdin().is_terminal();
    OWN_GROUP.store(own_group, Ordering::Relaxed);
    let mut child = start(common, held.fence(), read, own_group)?;
    let group = own_group.then(|| child.id());
    let started = (|| {
        let command = pidfd(&child)?;
        let watchdog = Watchdog::start(&common.speaker, name, child.id(), own_group, held.end())?;
        let signals = take_signals()?;
        // A child that has ended already says so by its status.
        let _ = File::from(go_ahead).write_all(b"g");
        Ok((command, watchdog, signals))
    })();
    let (command, mut watchdog, signals) = match started {
        Ok(started) => started,
        Err(error) => {
            // It has no go-ahead: it did not run.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    };
    let (pid, grouped) = (child.id(), own_group);
    let again = || Watchdog::start(&common.speaker, name, pid, grouped, held.end());
    if let Err(error) = attend(held, pid, group, &command, &mut watchdog, &signals, again, lost) {
        // No process would see to it any more.
        kill(pid, group, libc::SIGKILL);
        watchdog.end();
        child.wait()?;
        return Err(error);
    }
    if lost.is_none() {
        // Ended by the watchdog: by SIGTERM before the lock is lost, or while this process was stopped.
        *lost = held.lost().or(watchdog.has_begun().then_some(Lost::OutOfTime));
    }
    // Before the command's number is free again.
    watchdog.end();
    let status = child.wait()?;
    Ok(status.code().map_or_else(|| 128 + status.signal().unwrap_or(0) as u8, |code| code as u8))
}

/// Waits for the command's end, and sees to it that it comes in time.
#[allow(clippy::too_many_arguments)]
fn attend(
    held: &impl Held,
    pid: u32,
    group: Option<u32>,
    command: &OwnedFd,
    watchdog: &mut Watchdog,
    signals: &OwnedFd,
    again: impl Fn() -> io::Result<Watchdog>,
    lost: &mut Option<Lost>,
) -> io::Result<()> {
    let mut lost_at = None;
    loop {
        // How often a renewed lease's end is told to the watchdog: often enough for each renewal.
        let tell = held.end().remaining() / 16;
        let tell = tell.clamp(Duration::from_millis(50), Duration::from_secs(1));
        let ready = wait([command.as_fd(), watchdog.as_fd(), signals.as_fd()], tell)?;
        if ready[0] {
            return Ok(());
        }
        if ready[1] {
            *watchdog = again()?;
        }
        if ready[2] {
            pass_on(signals, pid);
        }
        if let Some(why) = held.lost() {
            let since = *lost_at.get_or_insert_with(Moment::now);
            *lost = Some(why);
            watchdog.tell(since, since.after(GRACE));
            if since.after(GRACE * 2).has_passed() {
                // The watchdog is stopped.
                kill(pid, group, libc::SIGKILL);
            }
        } else {
            watchdog.tell_end(held.end());
        }
    }
}

/// Sends a signal to the command, and to its group where that is its own. The command was not waited
/// for: its number is still its own.
pub(super) fn kill(pid: u32, group: Option<u32>, signal: i32) {
    let target = group.map_or(pid as i32, |group| -(group as i32));
    // SAFETY: no memory is touched.
    unsafe { libc::kill(target, signal) };
}

fn pidfd(child: &Child) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(child.id() as i32).ok_or(ErrorKind::NotFound)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

fn start(common: &Common, fence: u64, go_ahead: OwnedFd, own_group: bool) -> io::Result<Child> {
    // The one descriptor that it inherits.
    rustix::io::fcntl_setfd(&go_ahead, FdFlags::empty())?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(BECOME)
        .arg(&common.speaker)
        .arg(std::process::id().to_string())
        .arg(go_ahead.as_raw_fd().to_string())
        .args(&common.command)
        // The command holds the lock; it is not the cluster's user.
        .env_remove("OUTLIVE_CLUSTER_PASSWORD")
        .env("OUTLIVE_FENCE", fence.to_string());
    if own_group {
        command.process_group(0);
    }
    command.spawn()
}

/// Waits for a go-ahead, then becomes the command.
pub(super) fn become_command(args: &[OsString]) -> ExitCode {
    let number = |which: usize| args.get(which)?.to_str()?.parse::<i32>().ok();
    let (Some(speaker), Some(parent), Some(descriptor), Some((program, arguments))) =
        (args.first(), number(1), number(2), args.get(3..).and_then(<[_]>::split_first))
    else {
        return FAILED.into();
    };
    let asked = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // Looked at afterwards: a parent that died before would never be noticed.
    let lives = rustix::process::getppid().is_some_and(|pid| pid.as_raw_nonzero().get() == parent);
    if asked.is_err() || !lives {
        return FAILED.into();
    }
    // SAFETY: the parent left this descriptor open for this program; nothing else here owns it.
    let mut go_ahead = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    if go_ahead.read_exact(&mut [0]).is_err() {
        return FAILED.into();
    }
    drop(go_ahead);
    let error = Command::new(program).args(arguments).exec();
    let speaker = speaker.to_string_lossy();
    eprintln!("{speaker}: could not run '{}': {error}", program.to_string_lossy());
    if error.kind() == ErrorKind::NotFound { 127.into() } else { 126.into() }
}

/// What is sent to this process is meant for the command.
const PASSED_ON: [i32; 7] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCONT,
];

/// Where the handler writes.
static SIGNALS: AtomicI32 = AtomicI32::new(-1);

/// Whether the command is in a group of its own.
static OWN_GROUP: AtomicBool = AtomicBool::new(false);

extern "C" fn note(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // What the terminal sent went to a command of the same group as well.
    // SAFETY: the kernel passes a valid one.
    if unsafe { (*info).si_code } > 0 && !OWN_GROUP.load(Ordering::Relaxed) {
        return;
    }
    let byte = signal as u8;
    // SAFETY: one byte on the stack, to a pipe that is never closed and does not block; the error
    // number is put back.
    unsafe {
        let before = *libc::__errno_location();
        libc::write(SIGNALS.load(Ordering::Relaxed), (&raw const byte).cast(), 1);
        *libc::__errno_location() = before;
    }
}

/// From now on signals come by the pipe that is returned. Handlers rather than a mask: the thread that
/// renews the lease is there already, and would be given them.
fn take_signals() -> io::Result<OwnedFd> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    SIGNALS.store(std::os::fd::IntoRawFd::into_raw_fd(write), Ordering::Relaxed);
    // SAFETY: the action is zeroed and filled in; the handler calls what may be called there.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = note;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        for signal in PASSED_ON {
            if libc::sigaction(signal, &action, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(read)
}

fn pass_on(signals: &OwnedFd, pid: u32) {
    let mut came = [0; 64];
    if let Ok(read) = rustix::io::read(signals, &mut came) {
        for signal in &came[..read] {
            kill(pid, None, i32::from(*signal));
        }
    }
}

/// Waits until one of them is readable, at most so long.
pub(super) fn wait<const N: usize>(
    of: [BorrowedFd<'_>; N],
    limit: Duration,
) -> io::Result<[bool; N]> {
    let mut polled = of.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    match poll(&mut polled, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.map(|fd| !fd.revents().is_empty()))
}

/// Starts this program as something else.
pub(super) fn itself(as_what: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(as_what).stdout(Stdio::piped()).stdin(Stdio::piped());
    command
}
