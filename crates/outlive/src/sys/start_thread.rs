//! Threads of the library's own.

use super::{Errno, check_pthread};

/// What the threads are called.
pub(crate) const NAME: &str = "outlive-wait";

/// Starts a thread that is ours, in which the user's signal handlers do not run.
pub(crate) fn start_thread(body: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    // SAFETY: both sets are written before they are read; a mask of the calling thread's own.
    let before = unsafe {
        let (mut all, mut before) = (core::mem::zeroed(), core::mem::zeroed());
        libc::sigfillset(&raw mut all);
        check_pthread(libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before))?;
        before
    };
    let started = std::thread::Builder::new().name(NAME.to_owned()).stack_size(256 * 1024).spawn(body);
    // SAFETY: as above.
    check_pthread(unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut()) })?;
    started.map(drop).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
}
