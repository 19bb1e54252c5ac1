//! The errors of files as exceptions.

use std::io::ErrorKind;

use outlive_mcap::Error;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::{Raise, raise, raise_errno};

impl Raise for Error {
    fn raise(self, py: Python<'_>) -> PyErr {
        let class = match &self {
            Error::Io { error, .. } => {
                let errno = error.raw_os_error().unwrap_or(0);
                let class = match error.kind() {
                    ErrorKind::NotFound => "NotFound",
                    ErrorKind::AlreadyExists => "AlreadyExists",
                    ErrorKind::PermissionDenied => "NotPermitted",
                    _ => "Refused",
                };
                return raise_errno(py, class, errno, self);
            }
            Error::NoSpace { error, .. } => {
                let errno = error.raw_os_error().unwrap_or(28);
                return raise_errno(py, "NoSpace", errno, self);
            }
            Error::Locked { .. } => "Taken",
            Error::NotMcap { .. }
            | Error::OtherVersion { .. }
            | Error::NotResumable { .. }
            | Error::UnknownCompression { .. } => "WrongKind",
            Error::Damaged { .. } | Error::TwoChannels { .. } | Error::Cut { .. } => "Damaged",
            Error::TooLarge { .. } | Error::GroupFull => "TooLarge",
            Error::TooMany(_) => "TooMany",
            Error::Finished => return PyValueError::new_err(self.to_string()),
            _ => "OutliveError",
        };
        raise(py, class, self)
    }
}
