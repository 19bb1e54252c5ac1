//! Becoming a queue's receiver: at once, or when the process that receives has left or died.

use std::sync::Arc;
use std::time::Duration;

use super::handles::Receiver;
use super::{Inner, Queue};
use crate::claim::{HasRole, Holder, Role, StandBy, unless_taken};
use crate::{Deadline, Error, Payload};

impl<M: Payload + ?Sized> Queue<M> {
    /// Makes this process the queue's receiver if there is none, or if it is dead.
    ///
    /// The new receiver goes on where its predecessor stopped: the message that the predecessor had
    /// peeked at and not committed comes first.
    ///
    /// Never waits for a living receiver: see [`Queue::wait_to_receive`]. A process that was killed a
    /// moment ago still lives until the kernel has ended it: then this is [`Error::Taken`].
    ///
    /// # Errors
    /// [`Error::Taken`] while another receiver lives, [`Error::Ending`] when a thread of the dead
    /// one has not exited after two seconds, for which this waits, [`Error::NoToken`],
    /// [`Error::NoSpace`].
    ///
    /// # If a process dies
    /// If this process dies while it takes over, the next process to call this function takes over.
    pub fn receiver(&self) -> Result<Receiver<M>, Error> {
        self.receiver_by(Deadline::NEVER)
    }

    /// Makes this process the receiver; waits for the last thread of a dead receiver until the
    /// deadline, and two seconds at most. For bindings, whose errors say which process is in the way.
    #[doc(hidden)]
    pub fn receiver_by(&self, deadline: Deadline) -> Result<Receiver<M>, Error> {
        Receiver::new(Arc::clone(&self.inner), deadline)
    }

    /// Makes this process the receiver, waiting for a living receiver to leave or to end, and for the
    /// last thread of a dead one. So several processes may stand by: when the receiver dies, one of
    /// them takes over at once, and the others wait on.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-stand-by-queue-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use std::time::Duration;
    /// use outlive::queue::Queue;
    ///
    /// let queue = Queue::<[u8]>::open_or_create(&domain, "log")?;
    /// let receiver = queue.receiver()?;
    /// assert!(queue.wait_to_receive_timeout(Duration::from_millis(1))?.is_none());
    /// drop(receiver);
    /// let mut next = queue.wait_to_receive()?;
    /// assert!(next.try_recv()?.is_none());
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A receiver of this process is in the way like any other: this call waits until another thread
    /// drops it, and for ever where the calling thread has it.
    ///
    /// # Errors
    /// The errors of [`Queue::receiver`], but neither [`Error::Taken`] nor [`Error::Ending`].
    ///
    /// # If a process dies
    /// If the receiver dies, the wait is over at once. If this process dies while it takes over, the
    /// next process takes over.
    pub fn wait_to_receive(&self) -> Result<Receiver<M>, Error> {
        Deadline::never(|deadline| self.wait_to_receive_until(deadline))
    }

    /// Makes this process the receiver; `None` at once while another receiver lives, or while the last
    /// thread of a dead one has not exited.
    ///
    /// # Errors
    /// The errors of [`Queue::wait_to_receive`].
    ///
    /// # If a process dies
    /// The same as with [`Queue::receiver`].
    pub fn try_wait_to_receive(&self) -> Result<Option<Receiver<M>>, Error> {
        unless_taken(self.receiver_by(Deadline::at_nanos(0)))
    }

    /// Makes this process the receiver, waiting for a living receiver as long as `span`; `None` when
    /// that has passed.
    ///
    /// # Errors
    /// The errors of [`Queue::wait_to_receive`].
    ///
    /// # If a process dies
    /// The same as with [`Queue::wait_to_receive`].
    pub fn wait_to_receive_timeout(&self, span: Duration) -> Result<Option<Receiver<M>>, Error> {
        self.wait_to_receive_until(Deadline::after(span))
    }

    /// Makes this process the receiver, waiting for a living receiver until the deadline; `None` when
    /// that has passed.
    ///
    /// # Errors
    /// The errors of [`Queue::wait_to_receive`].
    ///
    /// # If a process dies
    /// The same as with [`Queue::wait_to_receive`].
    pub fn wait_to_receive_until(&self, deadline: Deadline) -> Result<Option<Receiver<M>>, Error> {
        let (role, path) = (self.inner.role(), self.inner.registry.path());
        role.wait_to_take(path, deadline, || self.receiver_by(deadline))
    }

    /// Returns what a wait set waits for that stands by: it is ready while no process receives.
    #[must_use]
    pub fn stand_by(&self) -> StandBy {
        StandBy::of_role(Arc::clone(&self.inner))
    }

    /// Returns the process that receives, dead or alive.
    pub fn current_receiver(&self) -> Option<Holder> {
        self.inner.role().holder().map(|token| Holder::of(self.inner.registry, token))
    }
}

impl HasRole for Arc<Inner> {
    fn role(&self) -> Role<'_> {
        Inner::role(self)
    }
}
