//! The four forms of publishing. What is published: outgoing.rs; how: publisher.rs.

use core::cell::OnceCell;
use std::time::Duration;

use super::outgoing::{Entered, Publishable};
use super::publisher::{Published, Publisher};
use crate::{Deadline, Payload, SendError};

impl<M: Payload + ?Sized> Publisher<M> {
    /// Publishes a message: a [`Loan`](super::Loan) that this publisher has lent, or a copy of what
    /// a reference refers to; with a header of its own, an [`Outgoing`](super::Outgoing); as msgpack,
    /// `Msgpack(&value)`. Waits while a reliable subscriber has not taken the message that would be
    /// overwritten.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-publish-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::topic::{Header, Outgoing, Topic};
    /// let topic = Topic::<[u8]>::open_or_create(&domain, "words")?;
    /// let (mut subscriber, publisher) = (topic.subscriber()?, topic.publisher()?);
    ///
    /// let mut loan = publisher.loan(2)?;
    /// loan.copy_from_slice(b"in");
    /// publisher.publish(loan)?;                               // where it was written
    /// publisher.publish(b"copied")?;                          // a copy
    /// let header = Header { key: 7, ..Header::default() };
    /// publisher.publish(Outgoing::new(b"with a key").header(header))?;
    ///
    /// assert_eq!((&*subscriber.recv()?, &*subscriber.recv()?), (&b"in"[..], &b"copied"[..]));
    /// assert_eq!(subscriber.recv()?.header().key, 7);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError::NotOwner`], [`SendError::Damaged`], [`SendError::System`]; for a copy also
    /// [`SendError::NoSpace`], [`SendError::TooLarge`], and as msgpack [`SendError::Encoding`]. After
    /// an error a loan's memory goes back to its publisher.
    ///
    /// # If a process dies
    /// If this process dies during the call, the message is published, or no part of it is seen. If
    /// the subscriber that it waits for dies, the call goes on at once.
    #[inline]
    pub fn publish(&self, message: impl Publishable<M>) -> Result<Published<'_>, SendError> {
        self.publish_before(message, || Deadline::NEVER)
    }

    /// Publishes a message as [`Publisher::publish`] does, if no reliable subscriber is in the way,
    /// else returns `Full` at once.
    ///
    /// # Errors
    /// The errors of [`Publisher::publish`], and [`SendError::Full`].
    ///
    /// # If a process dies
    /// The same as with [`Publisher::publish`].
    #[inline]
    pub fn try_publish(&self, message: impl Publishable<M>) -> Result<Published<'_>, SendError> {
        message.publish_by(self, || {
            let me = self.enter()?;
            self.try_room()?;
            Ok(Entered(me))
        })?;
        Ok(self.published())
    }

    /// Publishes a message as [`Publisher::publish`] does, waiting as long as `span` at most.
    ///
    /// # Errors
    /// The errors of [`Publisher::publish`], and [`SendError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`Publisher::publish`].
    #[inline]
    pub fn publish_timeout(
        &self,
        message: impl Publishable<M>,
        span: Duration,
    ) -> Result<Published<'_>, SendError> {
        // One for all that a message waits for; a message that finds room costs no look at the clock.
        let deadline = OnceCell::new();
        self.publish_before(message, || *deadline.get_or_init(|| Deadline::after(span)))
    }

    /// Publishes a message as [`Publisher::publish`] does, waiting until the deadline at most. A
    /// deadline that has passed does not wait.
    ///
    /// # Errors
    /// The errors of [`Publisher::publish`], and [`SendError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`Publisher::publish`].
    #[inline]
    pub fn publish_until(
        &self,
        message: impl Publishable<M>,
        deadline: Deadline,
    ) -> Result<Published<'_>, SendError> {
        self.publish_before(message, || deadline)
    }

    /// Publishes a message, once there is room for it.
    #[inline]
    fn publish_before(
        &self,
        message: impl Publishable<M>,
        deadline: impl Fn() -> Deadline,
    ) -> Result<Published<'_>, SendError> {
        message.publish_by(self, || {
            let me = self.enter()?;
            self.wait_for_room(me, &deadline)?;
            Ok(Entered(me))
        })?;
        Ok(self.published())
    }
}
