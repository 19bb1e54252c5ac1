//! Signals that ask the bridge to end, and the runtime of one session.
//!
//! Each session (a connection, and what is done with it) has a runtime of its own, which is dropped
//! with it. So nothing of a connection outlives the session: the client would send what it still
//! holds on its next connection, in front of what the bridge sends there, although what came before
//! it was lost with the former connection. The signals outlive the sessions.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;

use outlive_program::block_ending_signals;
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
        Ok(Signals { fd: block_ending_signals()?, asked: Cell::new(false) })
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
