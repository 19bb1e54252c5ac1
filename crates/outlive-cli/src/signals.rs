//! Signals as something to read, not as something that interrupts.
//!
//! The signals asked for are blocked and read from a descriptor, so no handler ever runs in the
//! middle of anything. What the user had ignored (`nohup`) stays ignored.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;
use std::{io, mem, ptr};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::exit::Failure;

/// The library's waits are not interrupted by a signal: so verbs cut them into slices of this length,
/// and notice between two that they were asked to end.
pub const SLICE: Duration = Duration::from_millis(100);

/// A signal that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// Its number.
    pub signal: i32,
    /// Whether a process sent it. A key press is the terminal's doing, which sends it to the whole
    /// foreground group.
    pub sent_by_process: bool,
}

/// What asks a program that goes on and on to end.
const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Signals that are read from here, from now until the process ends: one that comes when the verb
/// ends already changes nothing about its exit code.
pub struct Signals {
    fd: File,
    before: libc::sigset_t,
}

impl Signals {
    /// Takes over the signals that ask a program to end, for a verb that goes on until one comes.
    /// To be called before any thread is started.
    pub fn that_end() -> Result<Signals, Failure> {
        Signals::take(&ENDING).map_err(|error| Failure::system("take over signals", &error))
    }

    /// Takes these signals over. To be called before any thread is started.
    pub fn take(signals: &[i32]) -> io::Result<Signals> {
        // SAFETY: sets are plain bits, filled by sigemptyset before use; every pointer is to a
        // local of the right type.
        unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&mut set);
            for &signal in signals {
                let mut action: libc::sigaction = mem::zeroed();
                libc::sigaction(signal, ptr::null(), &mut action);
                if action.sa_sigaction != libc::SIG_IGN {
                    libc::sigaddset(&mut set, signal);
                }
            }
            let mut before: libc::sigset_t = mem::zeroed();
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before);
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd == -1 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals { fd: File::from(OwnedFd::from_raw_fd(fd)), before })
        }
    }

    /// Has a command that is started from now on heed the signals as this process did before.
    pub fn spare(&self, command: &mut Command) {
        let before = self.before;
        // SAFETY: in the child, between fork and exec: pthread_sigmask is async-signal-safe, and
        // the set is the closure's own.
        unsafe {
            command.pre_exec(move || {
                match libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) {
                    0 => Ok(()),
                    error => Err(io::Error::from_raw_os_error(error)),
                }
            });
        }
    }

    /// Stops the process as Ctrl-Z would, until it is continued. A process that no shell could
    /// continue, as one that a terminal has started itself, goes on at once: the kernel sees to that.
    #[cfg(any(feature = "image", feature = "plot", feature = "top"))]
    pub fn stop(&self) -> io::Result<()> {
        // SAFETY: the set is plain bits, filled by sigemptyset before use; every pointer is to a
        // local of the right type. No handler runs: SIGTSTP has its default action, or is ignored.
        unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGTSTP);
            let mut before: libc::sigset_t = mem::zeroed();
            let error = libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, &mut before);
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            libc::raise(libc::SIGTSTP);
            match libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) {
                0 => Ok(()),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }

    /// Returns whether a signal has come.
    pub fn came(&mut self) -> Result<bool, Failure> {
        let next = self.next().map_err(|error| Failure::system("read a signal", &error))?;
        Ok(next.is_some())
    }

    /// Returns the next signal, if one has come.
    pub fn next(&mut self) -> io::Result<Option<Came>> {
        let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
        match self.fd.read(&mut bytes) {
            Ok(len) if len == bytes.len() => {
                // SAFETY: the kernel fills the structure whole or not at all; it is plain integers.
                let info: libc::signalfd_siginfo =
                    unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) };
                // SI_USER, SI_QUEUE, SI_TKILL are 0 and below; the kernel's own codes are above.
                Ok(Some(Came {
                    signal: info.ssi_signo as i32,
                    sent_by_process: info.ssi_code <= 0,
                }))
            }
            Ok(_) => Err(io::Error::from(ErrorKind::UnexpectedEof)),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sleeps until one of the descriptors can be read, or the time is over. Tells which can.
pub fn wait_readable(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut polls: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = timeout.map(|span| Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    });
    match poll(&mut polls, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {
            Ok(polls.iter().map(|poll| !poll.revents().is_empty()).collect())
        }
        Err(errno) => Err(errno.into()),
    }
}
