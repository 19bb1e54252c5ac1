//! Waiting without the interpreter, and Ctrl-C in every wait.
//!
//! A wait consists of slices: the thread detaches from the interpreter, waits in the core until the
//! slice is over, attaches again, and runs the signal handlers that are due. Only the main thread
//! runs handlers, so only its slices are short. A slice that ends has lost nothing: the core's
//! waits are by deadline, and return what is there at the last moment. Some would give back at their
//! deadline what they have: a wait for several permits (the turn, and the permits that it has by
//! then), and one to become the writer (new readers would enter). These are begun once
//! (`begin_acquire_many`, `begin_upgrade`), and keep between the slices what they have.

use std::time::{Duration, Instant};

use outlive::Deadline;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

/// How long a signal may wait for its handler.
const SLICE: Duration = Duration::from_millis(50);
/// The slice of threads that run no handlers: for the case that the interpreter's main thread is
/// not the process's.
const LONG_SLICE: Duration = Duration::from_millis(500);

/// Until when to wait; without a point in time, for ever.
#[derive(Clone, Copy)]
pub(crate) struct Until(Option<Instant>);

impl Until {
    pub(crate) const NEVER: Until = Until(None);

    /// Returns the end of so many seconds from now, as Python's `timeout` has them; `None` is for
    /// ever.
    pub(crate) fn timeout(seconds: Option<f64>) -> PyResult<Until> {
        let Some(seconds) = seconds else { return Ok(Until::NEVER) };
        if seconds.is_nan() || seconds < 0.0 {
            return Err(PyValueError::new_err(
                "a timeout is a number of seconds, not negative, or None for ever",
            ));
        }
        if seconds == f64::INFINITY {
            return Ok(Until::NEVER);
        }
        // As threading does: more than its clock counts is a mistake in the unit.
        let end = Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|span| span.as_nanos() <= i64::MAX as u128)
            .and_then(|span| Instant::now().checked_add(span))
            .ok_or_else(|| {
                PyOverflowError::new_err("the timeout is too large; None is for ever")
            })?;
        Ok(Until(Some(end)))
    }

    /// Returns the end of so many seconds after this one, or from now on if this has passed; `None`
    /// is for ever, and without an end it is from now on.
    pub(crate) fn and_longer(self, seconds: Option<f64>) -> PyResult<Until> {
        let from_now = Until::timeout(seconds)?;
        let (Some(end), Some(longer)) = (self.0, from_now.0) else { return Ok(from_now) };
        // More than the clock counts is for ever.
        Ok(Until(longer.checked_add(end.saturating_duration_since(Instant::now()))))
    }

    pub(crate) fn now() -> Until {
        Until(Some(Instant::now()))
    }

    pub(crate) fn has_passed(self) -> bool {
        self.0.is_some_and(|moment| moment <= Instant::now())
    }

    /// Returns the end of the slice that begins now.
    pub(crate) fn slice(self) -> Deadline {
        Deadline::at(self.slice_end())
    }

    /// Returns the end of a long slice, and that of a short one after it.
    pub(crate) fn long_slice_and_short(self) -> (Deadline, Deadline) {
        let end = Instant::now() + LONG_SLICE;
        let end = self.0.map_or(end, |moment| moment.min(end));
        (Deadline::at(end), Deadline::at(end + SLICE))
    }

    /// Returns whether there is an end to it.
    pub(crate) fn is_limited(self) -> bool {
        self.0.is_some()
    }

    fn slice_end(self) -> Instant {
        let end = Instant::now() + if is_main_thread() { SLICE } else { LONG_SLICE };
        self.0.map_or(end, |moment| moment.min(end))
    }
}

/// Returns a deadline that has passed: for calls that must not wait, and have no other form.
pub(crate) fn passed() -> Deadline {
    Deadline::at_time_of_day(std::time::SystemTime::UNIX_EPOCH)
}

fn is_main_thread() -> bool {
    outlive::futex::thread_id() == std::process::id()
}

/// Calls `once`, which waits until the deadline that it gets and returns `None` when that passed
/// first, until it has an answer. `None`: `until` has passed.
pub(crate) fn wait<T>(
    py: Python<'_>,
    until: Until,
    mut once: impl FnMut(Deadline) -> Option<T>,
) -> PyResult<Option<T>> {
    loop {
        if let Some(got) = detached(py, || once(until.slice())) {
            return Ok(Some(got));
        }
        py.check_signals()?;
        if until.has_passed() {
            return Ok(None);
        }
    }
}

/// Calls `once`, which waits until the deadline that it gets, for one slice: for what another thread may
/// take, or end, without a sign to this one, which looks again after each.
pub(crate) fn one_slice<T>(
    py: Python<'_>,
    until: Until,
    once: impl FnOnce(Deadline) -> T,
) -> PyResult<T> {
    let got = detached(py, || once(until.slice()));
    py.check_signals()?;
    Ok(got)
}

/// Waits until `until`, for what cannot come, and returns False.
pub(crate) fn sleep_out(py: Python<'_>, until: Until) -> PyResult<bool> {
    while !until.has_passed() {
        let left = until.slice_end().saturating_duration_since(Instant::now());
        detached(py, || std::thread::sleep(left));
        py.check_signals()?;
    }
    Ok(false)
}

/// Makes a call of the core's detached from the interpreter, so that other Python threads run
/// meanwhile.
///
/// The closure must touch nothing of Python's: those of this crate call the core, and copy bytes
/// whose buffers are held.
pub(crate) fn detached<R>(py: Python<'_>, call: impl FnOnce() -> R) -> R {
    let mut result = None;
    let work = Here(|| result = Some(call()));
    py.detach(move || work.run());
    match result {
        Some(result) => result,
        None => unreachable!("`detach` has called it"),
    }
}

/// Work of the calling thread.
struct Here<F>(F);

// SAFETY: `Python::detach` asks for Send to keep what belongs to the interpreter out, and makes the
// call on the calling thread; the callers of `detached` pass closures that touch nothing of
// Python's.
unsafe impl<F> Send for Here<F> {}

impl<F: FnOnce()> Here<F> {
    fn run(self) {
        (self.0)();
    }
}
