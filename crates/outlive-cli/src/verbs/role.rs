//! Taking a role that one process at a time has: a queue's receiver, a service's server, a state's
//! writer.
//!
//! A process that was killed or told to end has its role until it has ended, a moment later. A
//! shell that says `kill -9 PID; outlive recv log` would be refused in that moment, so the verbs
//! wait for its end, and no longer than a second: a process that lives keeps its role. With
//! `--standby` they wait for as long as it takes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use outlive::{Deadline, Error};

use crate::exit::Failure;
use crate::signals::Signals;

/// How long a verb waits for the process that has the role. Help texts say so.
const MOMENT: Duration = Duration::from_secs(1);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Takes a role, trying again while another process has it.
pub fn take<T>(take: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    let until = Instant::now() + MOMENT;
    loop {
        match take() {
            Err(Error::Taken { .. }) if Instant::now() < until => sleep(BETWEEN_TRIES),
            other => return other,
        }
    }
}

/// The library's waits are not interrupted by a signal: so they are cut into slices of this length,
/// and an end that was asked for is noticed between two.
const SLICE: Duration = Duration::from_millis(100);

/// Takes a role by `wait`, which waits until a deadline for the process that has it. `None`: a
/// signal has told this process to end.
pub fn stand_by<T>(
    signals: &mut Signals,
    wait: impl Fn(Deadline) -> Result<Option<T>, Error>,
) -> Result<Option<T>, Failure> {
    while !signals.came()? {
        if let Some(role) = wait(Deadline::after(SLICE))? {
            return Ok(Some(role));
        }
    }
    Ok(None)
}
