//! The signals that ask a program to end, as something to read: no handler runs in the middle of anything.

use std::os::fd::{FromRawFd, OwnedFd};
use std::{io, mem, ptr};

/// Blocks SIGINT, SIGTERM and SIGHUP in this thread and all that it starts from now on, and returns the
/// descriptor from which they are read, which does not wait. One that the user had ignored (`nohup`) stays
/// ignored.
///
/// # Errors
/// The system refused.
pub fn block_ending_signals() -> io::Result<OwnedFd> {
    block_signals(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
}

/// Does the same with these signals. What is read begins with the signal's number, in four bytes.
///
/// # Errors
/// The system refused.
pub fn block_signals(signals: &[i32]) -> io::Result<OwnedFd> {
    // SAFETY: all zeroes is a valid set, and `sigemptyset` fills it.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: the set is this function's own.
    unsafe { libc::sigemptyset(&raw mut set) };
    for &signal in signals {
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
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zeroes is a valid `sigaction`, which the kernel fills.
    let mut now: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: no new action is set; the kernel writes the present one to `now`.
    let read = unsafe { libc::sigaction(signal, ptr::null(), &raw mut now) };
    read == 0 && now.sa_sigaction == libc::SIG_IGN
}
