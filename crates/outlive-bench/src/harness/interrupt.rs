//! Ctrl-C and the overall alarm: both set a word that every wait of the parent looks at, so that
//! what the benchmark made (processes, files, System V objects) is removed on the way out.

use super::error::Error;
use std::sync::atomic::{AtomicI32, Ordering};
use std::{mem, ptr};

static CAUGHT: AtomicI32 = AtomicI32::new(0);

/// What is caught while a benchmark runs; children put these back to their defaults.
const SIGNALS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGALRM];

extern "C" fn note(signal: i32) {
    // A handler may do little: a relaxed store of a word that the main flow polls.
    CAUGHT.store(signal, Ordering::Relaxed);
}

/// While this lives, signals end the benchmark tidily and an alarm ends it after its time.
pub struct Guard {
    before: [libc::sigaction; SIGNALS.len()],
}

impl Guard {
    /// Catches the signals and sets the alarm.
    pub fn new(limit_seconds: u32) -> Result<Self, Error> {
        CAUGHT.store(0, Ordering::Relaxed);
        // SAFETY: sigaction is plain data; zero means the default action, no flags, an empty mask.
        let mut before: [libc::sigaction; SIGNALS.len()] = unsafe { mem::zeroed() };
        for (signal, old) in SIGNALS.into_iter().zip(&mut before) {
            // SAFETY: zero is valid; no SA_RESTART, so that a wait in the kernel returns at once.
            let mut action: libc::sigaction = unsafe { mem::zeroed() };
            action.sa_sigaction = note as extern "C" fn(i32) as libc::sighandler_t;
            // SAFETY: both structures are valid, and `note` only stores an atomic.
            if unsafe { libc::sigaction(signal, &action, old) } == -1 {
                return Err(Error::last("catching signals"));
            }
        }
        // SAFETY: no memory is touched.
        unsafe { libc::alarm(limit_seconds) };
        Ok(Self { before })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: `before` holds what sigaction gave us.
        unsafe {
            libc::alarm(0);
            for (signal, old) in SIGNALS.into_iter().zip(&self.before) {
                libc::sigaction(signal, old, ptr::null_mut());
            }
        }
    }
}

/// Returns an error once a signal has come.
pub fn check() -> Result<(), Error> {
    match CAUGHT.load(Ordering::Relaxed) {
        0 => Ok(()),
        libc::SIGALRM => Err(Error::TimedOut("the whole benchmark".into())),
        signal => Err(Error::Interrupted(signal)),
    }
}

/// Restores the signals' defaults in a child: they kill it again, as they would any program.
pub fn defaults_in_child() {
    for signal in SIGNALS {
        // SAFETY: the default action runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
