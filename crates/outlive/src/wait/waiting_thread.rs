//! Threads of the library's own that wait for sources: the reactor's, and those of a large set's
//! sections. Each has a token, as every sleeper on owners does.

use std::sync::mpsc;

use crate::Error;
use crate::liveness::{Me, Registry};
use crate::sys::{Errno, start_thread};

/// Starts a thread that claims a token of that domain and then does `body`.
///
/// # Errors
/// The error of starting it, or of its claim.
pub(super) fn start(
    registry: &'static Registry,
    body: impl FnOnce(Me) + Send + 'static,
) -> Result<(), Error> {
    let (tell, hear) = mpsc::channel();
    let claim = move || match registry.me() {
        Ok(me) => {
            if tell.send(Ok(())).is_ok() {
                body(me);
            }
        }
        Err(error) => drop(tell.send(Err(error))),
    };
    start_thread::start_thread(claim).map_err(|errno| refused(registry, errno))?;
    hear.recv().map_err(|_| refused(registry, Errno::AGAIN))?
}

/// Returns the error for a thread that could not be started.
pub(super) fn refused(registry: &Registry, errno: Errno) -> Error {
    Error::from_errno("start a thread that waits in", registry.path(), errno)
}
