//! A set as a file descriptor, for `epoll` and `poll`.
//!
//! | the eventfd | the entry on the reactor's list | |
//! | --- | --- | --- |
//! | empty | taken | nothing was ready when the reactor looked last |
//! | readable | left | a source was ready: look |
//! | readable | taken | a call that came late: a look finds nothing, and empties it |
//!
//! A look that finds nothing empties the eventfd **and then** registers if it is not on the list: a
//! source that becomes ready in between is found by the reactor, which looks after the entry came
//! onto the list. In the other order its call would be wiped away.

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
    /// The process that it is of: a forked child's copy is its parent's.
    of: u64,
}

impl WaitSet {
    /// A descriptor that is readable when something is ready, for `epoll`, `poll` and what is built on them: until a
    /// [`WaitSet::try_wait`] has found nothing. So call that in a loop until it tells of nothing, or come back when the
    /// descriptor is still readable. It is the set's, do not read from it.
    ///
    /// A thread of this process waits for it, one for all sets of a domain, started here and named `outlive-wait`.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-fd-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::{queue::Queue, wait::WaitSet};
    /// use rustix::event::{PollFd, PollFlags, poll};
    ///
    /// let queue = Queue::create(&domain, "orders")?;
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
    /// [`Error::System`] when there are no descriptors or threads to be had, [`Error::NoToken`].
    ///
    /// # If a process dies
    /// As with [`WaitSet::wait`]. A forked child asks for a descriptor of its own.
    pub fn as_fd(&mut self) -> Result<BorrowedFd<'_>, Error> {
        let failed = |errno| Error::from_errno("make a descriptor for", self.registry.path(), errno);
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

    /// A look has found nothing.
    pub(super) fn watch_again(&mut self) -> Result<(), Error> {
        let Some(descriptor) = &self.descriptor else { return Ok(()) };
        if identity::this_process() != Ok(descriptor.of) {
            return Ok(());
        }
        let mut count = [0; 8];
        // Empty already, as a rule.
        let _ = rustix::io::read(&*descriptor.fd, &mut count);
        self.register()
    }

    /// The sources have changed.
    pub(super) fn watch_others(&mut self) {
        let Some(descriptor) = &mut self.descriptor else { return };
        if descriptor.registration.take().is_some() {
            // There is a reactor already. Should it not do, the next `try_wait` says so.
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
