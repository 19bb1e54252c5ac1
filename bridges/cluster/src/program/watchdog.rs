//! The watchdog: a process that ends the command when the lease's time is over.
//!
//! Its standard input is a pipe, by which it is told two moments: when the command is sent SIGTERM,
//! when SIGKILL. Later ones take their place, until the first has passed: from then on nothing is put
//! off. Two zeroes: the command has ended. The pipe's end: the process that renews the lease is dead.
//!
//! It is in a session of its own, so that no terminal stops it. Killed: another one is started.
//! Stopped: see `command`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ChildStdin, ExitCode};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::FAILED;
use super::command::{itself, kill};
use crate::clock::Moment;

pub(super) const WATCH: &str = "%watch";

/// The watchdog, as its parent sees it.
pub(super) struct Watchdog {
    child: Child,
    pidfd: OwnedFd,
    pipe: ChildStdin,
    told: [u64; 2],
    /// From SIGTERM to SIGKILL.
    grace: Duration,
}

impl Watchdog {
    /// Starts one for a child of this process that was not waited for, and returns when it watches.
    pub(super) fn start(
        speaker: &str,
        name: &str,
        command: u32,
        own_group: bool,
        end: Moment,
    ) -> io::Result<Watchdog> {
        let mut watchdog = itself(WATCH);
        watchdog
            .arg(speaker)
            .arg(name)
            .arg(command.to_string())
            .arg(u8::from(own_group).to_string());
        let mut child = watchdog.spawn()?;
        let pid = Pid::from_raw(child.id() as i32).ok_or(io::ErrorKind::NotFound)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let pipe = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        // So that what is told does not wait for one that is stopped.
        let flags = rustix::fs::fcntl_getfl(&pipe)? | rustix::fs::OFlags::NONBLOCK;
        rustix::fs::fcntl_setfl(&pipe, flags)?;
        // A tenth of what is left of the lease now, or so: it was renewed just before.
        let grace = (end.remaining() / 8).min(Duration::from_secs(5));
        let mut watchdog = Watchdog { child, pidfd, pipe, told: [0; 2], grace };
        watchdog.tell_end(end);
        let mut ready = watchdog.child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        ready.read_exact(&mut [0])?;
        Ok(watchdog)
    }

    /// Tells when the lease ends. The command is to be gone by then.
    pub(super) fn tell_end(&mut self, end: Moment) {
        let term = Moment(end.0.saturating_sub(self.grace.as_nanos() as u64).max(1));
        self.tell(term, end);
    }

    /// Tells when the command is to be ended.
    pub(super) fn tell(&mut self, term: Moment, kill: Moment) {
        let told = [term.0, kill.0.max(1)];
        if self.told != told {
            let [term, kill] = told.map(u64::to_ne_bytes);
            // One write of sixteen bytes is whole, or nothing: then it is stopped, or dead, which the
            // caller finds out. What was not told is told again.
            let written = self.pipe.write(&[term, kill].concat());
            if matches!(written, Ok(16)) {
                self.told = told;
            }
        }
    }

    /// Returns whether it has begun to end the command, by what it was told.
    pub(super) fn has_begun(&self) -> bool {
        Moment(self.told[0]).has_passed()
    }

    /// Ends it: the command has ended.
    pub(super) fn end(mut self) {
        let _ = self.pipe.write(&[0; 16]);
        // It has nothing more to do, and one that is stopped must not be waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl AsFd for Watchdog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Watches.
pub(super) fn watch(args: &[OsString]) -> ExitCode {
    let text = |which: usize| args.get(which).and_then(|arg| arg.to_str());
    let (Some(speaker), Some(name), Some(pid)) =
        (text(0), text(1), text(2).and_then(|text| text.parse().ok()))
    else {
        return FAILED.into();
    };
    match watch_command(speaker, name, pid, text(3) == Some("1")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{speaker}: '{}': the watchdog failed: {error}", name.escape_debug());
            FAILED.into()
        }
    }
}

fn watch_command(speaker: &str, name: &str, pid: u32, own_group: bool) -> io::Result<()> {
    rustix::process::setsid()?;
    // The parent's child, which it has not waited for: the number is the command's.
    let raw = Pid::from_raw(pid as i32).ok_or(io::ErrorKind::NotFound)?;
    let command = pidfd_open(raw, PidfdFlags::empty())?;
    let session = stat(pid).map(|[_, session]| session);
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
    File::from(rustix::io::dup(io::stdout())?).write_all(b"r")?;
    let signal = |signal: Signal| {
        // As long as it was not waited for, its number, and its group's, is its own.
        if pidfd_send_signal(&command, signal).is_ok() && own_group {
            kill(pid, Some(pid), signal.as_raw());
        }
    };
    let mut input = File::from(rustix::io::dup(io::stdin())?);
    let [mut term, mut end] = [Moment::NEVER, Moment::NEVER];
    let mut ending = false;
    loop {
        arm(&timer, if ending { end } else { term })?;
        let mut polled = [PollFd::new(&input, PollFlags::IN), PollFd::new(&timer, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let told = !polled[0].revents().is_empty();
        // The time first: one that was stopped finds a later moment in the pipe, and must not take it
        // for a reason to wait on... unless it came in time, which it cannot know.
        if term.has_passed() && !ending && !told {
            ending = true;
            eprintln!(
                "{speaker}: '{}': the lease cannot be kept; the command is ended",
                name.escape_debug()
            );
            signal(Signal::TERM);
            // A stopped one would not get it.
            signal(Signal::CONT);
        }
        if ending && end.has_passed() {
            signal(Signal::KILL);
            return Ok(());
        }
        if told {
            let mut moments = [0; 16];
            match input.read_exact(&mut moments) {
                Ok(()) if moments == [0; 16] => return Ok(()),
                Ok(()) if ending => {}
                Ok(()) => {
                    let (a, b) = moments.split_at(8);
                    let number =
                        |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or([0; 8]));
                    [term, end] = [Moment(number(a)), Moment(number(b))];
                }
                // The process that renews the lease is dead. The kernel kills the command, and this
                // its group.
                Err(_) => {
                    signal(Signal::KILL);
                    if own_group {
                        kill_rest(pid, session);
                    }
                    return Ok(());
                }
            }
        }
    }
}

/// Kills what is left of a group whose leader may be gone and waited for: then its number may be
/// another one's by now, so only those of the leader's session.
fn kill_rest(group: u32, session: Option<u32>) {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if session.is_some() && stat(pid) == session.map(|session| [group, session]) {
            kill(pid, None, libc::SIGKILL);
        }
    }
}

/// Returns a process's group and session.
fn stat(pid: u32) -> Option<[u32; 2]> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may hold anything: state, parent, group, session.
    let mut fields = stat.rsplit_once(") ")?.1.split_ascii_whitespace().skip(2);
    Some([fields.next()?.parse().ok()?, fields.next()?.parse().ok()?])
}

fn arm(timer: &OwnedFd, at: Moment) -> io::Result<()> {
    let never = at == Moment::NEVER;
    // All zeroes would disarm it.
    let nanos = if never { 0 } else { at.0.max(1) };
    let value = Timespec {
        tv_sec: (nanos / 1_000_000_000) as i64,
        tv_nsec: (nanos % 1_000_000_000) as i64,
    };
    let interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    let spec = Itimerspec { it_interval: interval, it_value: value };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &spec)?;
    Ok(())
}
