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

use super::reactor::{Registration, Whom};
use super::set::WaitSet;
use crate::Error;
use crate::sys::identity;

/// See the file's head.
pub(super) struct Descriptor {
    fd: Arc<OwnedFd>,
    registration: Option<Registration>,
    /// The process to which it belongs: a forked child's copy is its parent's.
    of: u64,
}

impl WaitSet {
    /// Returns a descriptor for `epoll`, `poll` and the like that is readable when a source is
    /// ready, until a [`WaitSet::try_wait`] finds nothing. So call `try_wait` in a loop until it
    /// returns nothing, or come back when the descriptor is still readable. The descriptor belongs
    /// to the set: do not read from it.
    ///
    /// A thread of this process waits for it: one for all sets of a domain, started here and named
    /// `outlive-wait`.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-fd-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::{queue::Queue, wait::WaitSet};
    /// use rustix::event::{PollFd, PollFlags, poll};
    ///
    /// let queue = Queue::<[u8]>::open_or_create(&domain, "orders")?;
    /// let receiver = queue.receiver()?;
    /// let mut set = WaitSet::new(&domain);
    /// set.add(&receiver)?;
    /// queue.sender()?.send(b"buy 10")?;
    /// let mut polled = [PollFd::from_borrowed_fd(set.as_fd()?, PollFlags::IN)];
    /// poll(&mut polled, None)?;
    /// assert_eq!(set.try_wait()?.count(), 1);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::System`] when there are no free descriptors or no thread can be started,
    /// [`Error::NoToken`].
    ///
    /// # If a process dies
    /// As with [`WaitSet::wait`]. A forked child asks for a descriptor of its own.
    pub fn as_fd(&mut self) -> Result<BorrowedFd<'_>, Error> {
        let failed =
            |errno| Error::from_errno("make a descriptor for", self.registry.path(), errno);
        let of = identity::this_process().map_err(failed)?;
        if self.descriptor.as_ref().is_none_or(|known| known.of != of) {
            let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?;
            self.descriptor = Some(Descriptor { fd: Arc::new(fd), registration: None, of });
        }
        self.register()?;
        match &self.descriptor {
            Some(descriptor) => Ok(descriptor.fd.as_fd()),
            None => Err(Error::TooManyDomains),
        }
    }

    /// Empties the descriptor and registers again, after a look has found nothing.
    pub(super) fn watch_again(&mut self) -> Result<(), Error> {
        let Some(descriptor) = &self.descriptor else { return Ok(()) };
        if identity::this_process() != Ok(descriptor.of) {
            return Ok(());
        }
        let mut count = [0; 8];
        // Mostly empty already.
        let _ = rustix::io::read(&*descriptor.fd, &mut count);
        self.register()
    }

    /// Registers the new sources, after a change.
    pub(super) fn watch_others(&mut self) {
        let Some(descriptor) = &mut self.descriptor else { return };
        if descriptor.registration.take().is_some() {
            // There is a reactor already. If this fails, the next `try_wait` says so.
            let _ = self.register();
        }
    }

    fn register(&mut self) -> Result<(), Error> {
        let sources = self.sources();
        let Some(descriptor) = &mut self.descriptor else { return Ok(()) };
        if !descriptor.registration.as_ref().is_some_and(Registration::is_there) {
            let whom = Whom::Descriptor(Arc::clone(&descriptor.fd));
            descriptor.registration = Some(Registration::take(self.registry, sources, whom)?);
        }
        Ok(())
    }
}
