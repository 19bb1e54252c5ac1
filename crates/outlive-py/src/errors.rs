//! The core's errors as Python's: the classes of `outlive/errors.py`, each of Outlive's and of
//! Python's own kind.

use outlive::pool::PoolError;
use outlive::rpc::CallError;
use outlive::sync::{AcquireError, LockError};
use outlive::{Error, RecvError, SendError, WaitError};
use outlive_gpu::GpuError;
use pyo3::prelude::*;
use pyo3::types::PyType;

const ENOSPC: i32 = 28;

/// Makes an exception of that class.
pub(crate) fn raise(py: Python<'_>, class: &str, message: impl ToString) -> PyErr {
    match find(py, class) {
        Ok(class) => PyErr::from_type(class, (message.to_string(),)),
        Err(error) => error,
    }
}

/// Makes an `OSError` of that class.
pub(crate) fn raise_errno(
    py: Python<'_>,
    class: &str,
    errno: i32,
    message: impl ToString,
) -> PyErr {
    match find(py, class) {
        Ok(class) => PyErr::from_type(class, (errno, message.to_string())),
        Err(error) => error,
    }
}

fn find<'py>(py: Python<'py>, class: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(py.import("outlive.errors")?.getattr(class)?.cast_into::<PyType>()?)
}

/// Turns an error of the core's into an exception.
pub(crate) trait Raise {
    fn raise(self, py: Python<'_>) -> PyErr;
}

/// `result.raised(py)?`
pub(crate) trait Raised<T> {
    fn raised(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Raise> Raised<T> for Result<T, E> {
    fn raised(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| error.raise(py))
    }
}

impl Raise for Error {
    fn raise(self, py: Python<'_>) -> PyErr {
        let class = match &self {
            Error::InvalidName { .. } => "BadName",
            Error::OtherOptions { .. }
            | Error::InvalidOption { .. }
            | Error::InvalidConfig { .. } => "BadOption",
            Error::AlreadyExists { .. } => return raise_errno(py, "AlreadyExists", 17, self),
            Error::NotFound { .. } => return raise_errno(py, "NotFound", 2, self),
            Error::Untrusted { .. } | Error::Permission { .. } | Error::NoRealTime { .. } => {
                return raise_errno(py, "NotPermitted", 13, self);
            }
            Error::OtherKind { .. } | Error::OtherType { .. } | Error::OtherDomain { .. } => {
                "WrongKind"
            }
            Error::NoSpace { .. } | Error::NoAddressSpace { .. } => {
                return raise_errno(py, "NoSpace", ENOSPC, self);
            }
            Error::Damaged { .. } | Error::NotASegment { .. } | Error::OtherVersion { .. } => {
                "Damaged"
            }
            Error::Taken { .. } | Error::Ending { .. } => "Taken",
            Error::TooMany { .. } | Error::NoToken { .. } => "TooMany",
            Error::System { errno, .. } => return raise_errno(py, "Refused", *errno, self),
            _ => "OutliveError",
        };
        raise(py, class, self)
    }
}

impl<G> Raise for LockError<G> {
    fn raise(self, py: Python<'_>) -> PyErr {
        let class = match self {
            LockError::Failed(error) => return error.raise(py),
            LockError::OwnerDied(_) => "OwnerDied",
            _ => "OutliveError",
        };
        raise(py, class, self)
    }
}

impl Raise for AcquireError {
    fn raise(self, py: Python<'_>) -> PyErr {
        let class = match self {
            AcquireError::System(error) => return error.raise(py),
            AcquireError::OwnerDied => "OwnerDied",
            AcquireError::NotRecoverable => "NotRecoverable",
            AcquireError::Deadlock => "Deadlock",
            AcquireError::NotHeld => "NotYours",
            AcquireError::Broken => "BarrierBroken",
            AcquireError::Full => "TooMany",
            AcquireError::Damaged => "Damaged",
            _ => "OutliveError",
        };
        raise(py, class, self)
    }
}

impl Raise for WaitError {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            WaitError::System(error) => error.raise(py),
            other => raise(py, "Timeout", other),
        }
    }
}

impl Raise for GpuError {
    fn raise(self, py: Python<'_>) -> PyErr {
        let class = match &self {
            GpuError::Publish(error) => return error.clone().raise(py),
            GpuError::Subscribe(error) => return error.clone().raise(py),
            GpuError::Topic(error) => return error.clone().raise(py),
            GpuError::System { errno, .. } => return raise_errno(py, "Refused", *errno, self),
            GpuError::NoGpu { .. } => "NoGpu",
            GpuError::TimedOut => "Timeout",
            GpuError::OwnerDied { .. } => "PeerDied",
            GpuError::BlockGone { .. } => "Gone",
            GpuError::NoCard => "Damaged",
            GpuError::OtherGpu => "WrongKind",
            _ => "GpuError",
        };
        raise(py, class, self)
    }
}

impl Raise for SendError {
    fn raise(self, py: Python<'_>) -> PyErr {
        let class = match &self {
            SendError::Damaged(error) | SendError::System(error) => return error.clone().raise(py),
            // A topic's: a subscriber is in the way.
            SendError::Full { slowest: Some(slowest) }
            | SendError::TimedOut { slowest: Some(slowest) } => {
                let error = raise(py, "Timeout", &self);
                // An exception has room for attributes.
                let _ = error.value(py).setattr("pid", slowest.pid);
                return error;
            }
            SendError::Full { slowest: None } | SendError::TimedOut { slowest: None } => "Full",
            SendError::NoSpace { .. } => return raise_errno(py, "NoSpace", ENOSPC, self),
            SendError::ReceiverDied => "ReceiverDied",
            SendError::NoReceiver => "NoReceiver",
            SendError::Cancelled => "Cancelled",
            SendError::TooLarge { .. } | SendError::OtherLength { .. } => "TooLarge",
            SendError::NotOwner => "NotYours",
            SendError::Encoding(_) => {
                return pyo3::exceptions::PyTypeError::new_err(self.to_string());
            }
            _ => "OutliveError",
        };
        raise(py, class, self)
    }
}

impl Raise for PoolError {
    fn raise(self, py: Python<'_>) -> PyErr {
        let class = match &self {
            PoolError::System(error) => return error.clone().raise(py),
            PoolError::NoSpace { .. } => return raise_errno(py, "NoSpace", ENOSPC, self),
            PoolError::NotForUs { .. } => return raise_errno(py, "NotPermitted", 13, self),
            PoolError::TooLarge { .. } => "TooLarge",
            PoolError::Stale | PoolError::Freed => "Gone",
            PoolError::NotOurs => "NotYours",
            PoolError::TooManyHolders { .. } => "TooMany",
            PoolError::OtherType | PoolError::OtherPool { .. } => "WrongKind",
            PoolError::Alignment { .. } | PoolError::NotAnObject { .. } => "BadOption",
            PoolError::Fault(_) => "Damaged",
            _ => "OutliveError",
        };
        raise(py, class, self)
    }
}

impl Raise for RecvError {
    fn raise(self, py: Python<'_>) -> PyErr {
        let class = match &self {
            RecvError::Damaged(error) | RecvError::System(error) => return error.clone().raise(py),
            RecvError::Closed => "SendersGone",
            RecvError::Missed => "Missed",
            RecvError::Lagged { lost } => return with_number(py, "Lagged", &self, *lost),
            RecvError::NewSession { session } => {
                return with_number(py, "NewSession", &self, u64::from(*session));
            }
            RecvError::NotLively { session, publisher } => {
                return of_publisher(py, "NotLively", &self, *session, publisher.pid);
            }
            RecvError::Lively { session, publisher } => {
                return of_publisher(py, "Lively", &self, *session, publisher.pid);
            }
            RecvError::PublisherDied { session, publisher } => {
                return of_publisher(py, "PublisherDied", &self, *session, publisher.pid);
            }
            RecvError::TooManyHeld => "TooMany",
            RecvError::Cancelled => "Cancelled",
            RecvError::NotOwner => "NotYours",
            _ => "OutliveError",
        };
        raise(py, class, self)
    }
}

/// Raises what has a number beside its text.
fn with_number(py: Python<'_>, class: &str, text: &RecvError, number: u64) -> PyErr {
    match find(py, class) {
        Ok(found) => PyErr::from_type(found, (text.to_string(), number)),
        Err(_) => raise(py, class, text),
    }
}

/// Raises what is told of a publisher.
fn of_publisher(py: Python<'_>, class: &str, text: &RecvError, session: u32, pid: u32) -> PyErr {
    match find(py, class) {
        Ok(found) => PyErr::from_type(found, (text.to_string(), session, pid)),
        Err(_) => raise(py, class, text),
    }
}

impl Raise for CallError {
    fn raise(self, py: Python<'_>) -> PyErr {
        let (class, begun) = match &self {
            CallError::Damaged(error) | CallError::System(error) => return error.clone().raise(py),
            CallError::NoServer => ("NoServer", None),
            CallError::ServerDied { begun } => ("ServerDied", Some(*begun)),
            CallError::TimedOut { begun } => ("CallTimeout", Some(*begun)),
            CallError::Dropped => ("Dropped", None),
            CallError::Answered => ("Answered", None),
            CallError::Failed(text) => return raise(py, "ServiceError", text),
            CallError::TooLarge { .. } => ("TooLarge", None),
            CallError::TooMany => ("TooMany", None),
            CallError::NotClient => ("NotYours", None),
            _ => ("OutliveError", None),
        };
        match (begun, find(py, class)) {
            (Some(begun), Ok(class)) => PyErr::from_type(class, (self.to_string(), begun)),
            _ => raise(py, class, self),
        }
    }
}

/// Raises the error of a reply: the receiver that died is the client.
pub(crate) fn reply_failed(py: Python<'_>, error: SendError) -> PyErr {
    match error {
        died @ SendError::ReceiverDied => raise(py, "ClientDied", died),
        SendError::TimedOut { .. } => raise(
            py,
            "Timeout",
            "the client had not taken earlier replies when the deadline passed",
        ),
        other => other.raise(py),
    }
}
