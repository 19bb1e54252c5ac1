//! Signals that ask the bridge to end, and the runtime of one session.
//!
//! Each session (a connection, and what is done with it) has a runtime of its own, which is dropped
//! with it. So nothing of a connection outlives the session: the client would send what it still
//! holds on its next connection, in front of what the bridge sends there, although what came before
//! it was lost with the former connection. The signals outlive the sessions.

use std::cell::Cell;
use std::os::fd::{FromRawFd, OwnedFd};
use std::{io, mem, ptr};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The signals that ask the bridge to end: it commits what is answered, leaves, and exits with 0.
pub struct Signals {
    fd: OwnedFd,
    asked: Cell<bool>,
}

/// The same, within a session.
pub struct Ending<'s> {
    signals: &'s Signals,
    fd: AsyncFd<OwnedFd>,
}

impl Signals {
    /// Takes them over, before any thread is started. One that the user had ignored (`nohup`) stays
    /// ignored.
    pub fn take() -> io::Result<Signals> {
        // SAFETY: all zeroes is a valid set, and `sigemptyset` fills it.
        let mut set: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: the set is this function's own.
        unsafe { libc::sigemptyset(&raw mut set) };
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            if !is_ignored(signal) {
                // SAFETY: the set is this function's own, and the signal a valid one.
                unsafe { libc::sigaddset(&raw mut set, signal) };
            }
        }
        // SAFETY: the set is filled; the former mask is not asked for.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) } {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the set is filled; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &raw const set, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made the descriptor, and nothing else owns it.
        Ok(Signals { fd: unsafe { OwnedFd::from_raw_fd(fd) }, asked: Cell::new(false) })
    }

    /// Runs a session.
    pub fn session<T>(&self, run: impl AsyncFnOnce(&mut Ending<'_>) -> T) -> io::Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ran = runtime.block_on(async {
            let fd = self.fd.try_clone()?;
            // SAFETY: the descriptor is open, and the `AsyncFd` owns it until it is dropped.
            let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
            Ok(run(&mut Ending { signals: self, fd }).await)
        });
        // A look-up of a name that takes its time is not waited for.
        runtime.shutdown_background();
        ran
    }
}

impl Ending<'_> {
    /// Waits until the bridge is asked to end; at once if it has been.
    pub async fn asked(&mut self) {
        while !self.signals.asked.get() {
            let Ok(mut ready) = self.fd.readable().await else { return };
            let mut record = [0_u8; size_of::<libc::signalfd_siginfo>()];
            match rustix::io::read(&self.signals.fd, &mut record) {
                Ok(_) => self.signals.asked.set(true),
                Err(_) => ready.clear_ready(),
            }
        }
    }
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zeroes is a valid `sigaction`, which the kernel fills.
    let mut now: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: no new action is set; the kernel writes the present one to `now`.
    let read = unsafe { libc::sigaction(signal, ptr::null(), &raw mut now) };
    read == 0 && now.sa_sigaction == libc::SIG_IGN
}
