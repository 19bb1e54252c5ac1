//! Starts threads of the library's own.

use super::{Errno, check_pthread};

/// The name of these threads.
pub(crate) const NAME: &str = "outlive-wait";

/// Starts a thread of the library's, on which no signal handler of the user's runs.
pub(crate) fn start_thread(body: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    // SAFETY: `sigfillset` and `pthread_sigmask` fill both sets before they are read; only this
    // thread's mask changes.
    let before = unsafe {
        let (mut all, mut before) = (core::mem::zeroed(), core::mem::zeroed());
        libc::sigfillset(&raw mut all);
        check_pthread(libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before))?;
        before
    };
    let started =
        std::thread::Builder::new().name(NAME.to_owned()).stack_size(256 * 1024).spawn(body);
    // SAFETY: `before` holds this thread's own mask, from above.
    check_pthread(unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut())
    })?;
    started.map(drop).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
}
