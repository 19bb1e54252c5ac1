//! Real-time scheduling, for locks that are made for it.

use super::error::{Error, check};

/// The priority of a process that uses a lock with a ceiling: the lowest.
pub const USER: libc::c_int = 1;
/// The ceiling: above it, so that each lock and unlock changes the holder's priority, as it does
/// for all but the highest.
pub const CEILING: libc::c_int = 2;

/// Puts this process under SCHED_FIFO.
pub fn enter(priority: libc::c_int) -> Result<(), Error> {
    schedule(libc::SCHED_FIFO, priority).map(drop)
}

/// Returns why this process may not enter, if it may not.
pub fn refuses() -> Option<String> {
    // SAFETY: touches no memory of ours.
    let before = unsafe { libc::sched_getscheduler(0) };
    match schedule(libc::SCHED_FIFO, CEILING).and_then(|_| schedule(before, 0)) {
        Ok(_) => None,
        Err(_) => {
            Some("real-time scheduling is not permitted (CAP_SYS_NICE, or ulimit -r 2)".into())
        }
    }
}

fn schedule(policy: libc::c_int, priority: libc::c_int) -> Result<libc::c_int, Error> {
    // SAFETY: plain data.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: valid parameters.
    check(
        unsafe { libc::sched_setscheduler(0, policy, &parameters) },
        "asking for real-time scheduling",
    )
}
