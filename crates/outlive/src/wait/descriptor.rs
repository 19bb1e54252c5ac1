//! A set as a file descriptor, for `epoll` and `poll`.
//!
//! | the eventfd | the entry on the reactor's list | |
//! | --- | --- | --- |
//! | empty | taken | nothing was ready when the reactor looked last |
//! | readable | left | a source was ready: look |
//! | readable | taken | a late write: a look finds nothing, and empties it |
//!
//! A look that finds nothing empties the eventfd **and then** registers if it is not on the list.
//! If a source becomes ready in between, the reactor finds it, because it looks after the entry
//! came onto the list. In the other order the write would be lost.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::reactor::{Registration, Whom};
use super::source_list::SourceList;
use crate::Error;
use crate::liveness::Registry;
use crate::sys::identity;

/// A set's descriptor: see the file's head.
pub(super) struct Descriptor {
    fd: Arc<OwnedFd>,
    registration: Option<Registration>,
    /// The process to which it belongs: a forked child's copy is its parent's.
    of: u64,
}

impl Descriptor {
    /// Makes a descriptor, empty and without an entry on the reactor's list.
    pub(super) fn new() -> Result<Descriptor, Errno> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Descriptor { fd: Arc::new(fd), registration: None, of: identity::this_process()? })
    }

    /// Returns whether it is of this process, and no parent's.
    pub(super) fn is_ours(&self) -> bool {
        identity::this_process() == Ok(self.of)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Puts an entry for these sources onto the reactor's list, unless it is there.
    pub(super) fn register(
        &mut self,
        registry: &'static Registry,
        list: &SourceList,
    ) -> Result<(), Error> {
        if !self.registration.as_ref().is_some_and(Registration::is_there) {
            let whom = Whom::Descriptor(Arc::clone(&self.fd));
            let sources = list.sources().collect();
            self.registration = Some(Registration::take(registry, sources, whom)?);
        }
        Ok(())
    }

    /// Takes the entry off the list; returns whether there was one.
    pub(super) fn unregister(&mut self) -> bool {
        self.registration.take().is_some()
    }

    /// Empties the eventfd, which a look that found nothing does before it registers.
    pub(super) fn empty(&self) {
        let mut count = [0; 8];
        // Mostly empty already.
        let _ = rustix::io::read(&*self.fd, &mut count);
    }
}
