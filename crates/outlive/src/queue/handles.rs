//! The two ends as their users hold them: each is a raw end, and the type of the messages.

use core::borrow::Borrow;
use core::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::Inner;
use super::batch;
use super::peek::Peeked;
use super::receiver::RawReceiver;
use super::send::RawSender;
use crate::{Deadline, Error, Payload, RecvError, SendError, WaitStrategy};

/// Puts messages into a queue. A queue has any number of senders, in any number of processes and
/// threads.
///
/// A sender may move between threads. Its messages arrive in the order in which it sent them.
///
/// # If a process dies
/// If the receiver dies, every send, also one that is waiting, fails with
/// [`SendError::ReceiverDied`] until another process takes over; a queue that was made to
/// [keep](super::OnReceiverDeath::Keep) messages for the next receiver goes on taking them, and a
/// send that is waiting waits on. If a sender dies during a send,
/// that message is dropped and counted as abandoned; the other senders and the receiver go on. A
/// sender that is *stopped* (`SIGSTOP`) during a send delays no other sender; but the receiver gets
/// past its slot only when it has gone on or died, while other messages keep arriving behind it.
pub struct Sender<M: Payload + ?Sized = [u8]> {
    pub(super) raw: RawSender,
    _message: PhantomData<fn(&M)>,
}

/// Takes messages out of a queue. A queue has one receiver at a time; it may move between threads.
///
/// A message comes out as a copy that the caller owns: a `Vec<u8>` of bytes, a `Vec` of a slice's
/// values, or the value itself.
///
/// # If a process dies
/// If the receiver's process dies, senders are told at once, and the next process to call
/// [`Queue::receiver`](super::Queue::receiver) goes on where it stopped. If a sender's process
/// dies, the messages that it had sent are received, and the one that it was sending is skipped.
pub struct Receiver<M: Payload + ?Sized = [u8]> {
    pub(super) raw: RawReceiver,
    _message: PhantomData<fn(&M)>,
}

impl<M: Payload + ?Sized> Sender<M> {
    pub(super) fn new(inner: Arc<Inner>) -> Result<Sender<M>, Error> {
        Ok(Sender { raw: RawSender::new(inner)?, _message: PhantomData })
    }

    /// Sends a message, waiting while the queue is full and at its largest size.
    ///
    /// # Errors
    /// [`SendError::ReceiverDied`], [`SendError::NoReceiver`], [`SendError::TooLarge`],
    /// [`SendError::Damaged`], [`SendError::System`].
    ///
    /// # If a process dies
    /// Once this returns `Ok`, the message is in the queue and outlives this process.
    #[inline]
    pub fn send(&self, message: &M) -> Result<(), SendError> {
        self.raw.send_message(message.bytes(), 0, Some(Deadline::NEVER))
    }

    /// Sends a message if there is room, growing the queue where it may.
    ///
    /// # Errors
    /// The errors of [`Sender::send`], and [`SendError::Full`].
    #[inline]
    pub fn try_send(&self, message: &M) -> Result<(), SendError> {
        self.raw.send_message(message.bytes(), 0, None)
    }

    /// Sends a message, waiting for so long at most while the queue is full and at its largest
    /// size.
    ///
    /// # Errors
    /// The errors of [`Sender::send`], and [`SendError::TimedOut`].
    #[inline]
    pub fn send_timeout(&self, message: &M, timeout: Duration) -> Result<(), SendError> {
        self.send_until(message, Deadline::after(timeout))
    }

    /// Sends a message, waiting until the deadline while the queue is full and at its largest size.
    ///
    /// # Errors
    /// The errors of [`Sender::send`], and [`SendError::TimedOut`].
    #[inline]
    pub fn send_until(&self, message: &M, deadline: Deadline) -> Result<(), SendError> {
        self.raw.send_message(message.bytes(), 0, Some(deadline))
    }

    /// Sends many messages in one step: either all of them are in the queue, one after the other,
    /// or none is. All together cost one claim and one wake-up.
    ///
    /// # Errors
    /// The errors of [`Sender::send`]. [`SendError::TooLarge`] when the messages together, with 4
    /// bytes each, are longer than the largest message.
    ///
    /// # If a process dies
    /// If this process dies during the call, none of the messages is received.
    pub fn send_batch<B: Borrow<M>>(&self, messages: &[B]) -> Result<(), SendError> {
        self.send_many(messages, Some(Deadline::NEVER))
    }

    /// Sends many messages in one step, as [`Sender::send_batch`], if there is room.
    ///
    /// # Errors
    /// The errors of [`Sender::send_batch`], and [`SendError::Full`].
    pub fn try_send_batch<B: Borrow<M>>(&self, messages: &[B]) -> Result<(), SendError> {
        self.send_many(messages, None)
    }

    /// Sends many messages in one step, as [`Sender::send_batch`], waiting for so long at most.
    ///
    /// # Errors
    /// The errors of [`Sender::send_batch`], and [`SendError::TimedOut`].
    pub fn send_batch_timeout<B: Borrow<M>>(
        &self,
        messages: &[B],
        timeout: Duration,
    ) -> Result<(), SendError> {
        self.send_batch_until(messages, Deadline::after(timeout))
    }

    /// Sends many messages in one step, as [`Sender::send_batch`], waiting until the deadline.
    ///
    /// # Errors
    /// The errors of [`Sender::send_batch`], and [`SendError::TimedOut`].
    pub fn send_batch_until<B: Borrow<M>>(
        &self,
        messages: &[B],
        deadline: Deadline,
    ) -> Result<(), SendError> {
        self.send_many(messages, Some(deadline))
    }

    fn send_many<B: Borrow<M>>(
        &self,
        messages: &[B],
        deadline: Option<Deadline>,
    ) -> Result<(), SendError> {
        match messages {
            [] => Ok(()),
            [one] => self.raw.send_message(one.borrow().bytes(), 0, deadline),
            many => {
                batch::pack(many, |packed, count| self.raw.send_message(packed, count, deadline))
            }
        }
    }

    /// Sets how this process waits on this queue, for all its handles of it.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.raw.inner.spin_wait.set(wait);
    }
}

impl Sender {
    /// Sends a message; `None` for a deadline does not wait. For bindings, whose calls have the
    /// deadline as a number.
    ///
    /// # Errors
    /// The errors of [`Sender::try_send`], or of [`Sender::send_until`].
    #[doc(hidden)]
    // Always inline: a binding's function is this and nothing else.
    #[inline(always)]
    pub fn send_or_try(&self, message: &[u8], deadline: Option<Deadline>) -> Result<(), SendError> {
        self.raw.send_here(message, 0, deadline)
    }
}

impl<M: Payload + ?Sized> Receiver<M> {
    pub(super) fn new(inner: Arc<Inner>, deadline: Deadline) -> Result<Receiver<M>, Error> {
        Ok(Receiver { raw: RawReceiver::new(inner, "receiver", deadline)?, _message: PhantomData })
    }

    /// Takes the next message out of the queue and returns it, waiting for one.
    ///
    /// The message is committed before it is returned, so it is received at most once.
    ///
    /// # Errors
    /// [`RecvError::Closed`], [`RecvError::NotOwner`], [`RecvError::Damaged`] or
    /// [`RecvError::Encoding`] (that message is skipped), [`RecvError::System`].
    ///
    /// # If a process dies
    /// If this process dies after the commit, the message is lost with it. [`Receiver::peek`] does
    /// not lose it.
    pub fn recv(&mut self) -> Result<M::Owned, RecvError> {
        let mut message = M::blank();
        self.recv_into(&mut message)?;
        Ok(message)
    }

    /// Takes the next message out of the queue and returns it, or returns `None` if there is none.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    pub fn try_recv(&mut self) -> Result<Option<M::Owned>, RecvError> {
        let mut message = M::blank();
        Ok(self.try_recv_into(&mut message)?.map(|()| message))
    }

    /// Takes the next message out of the queue and returns it; `None` if none comes within that
    /// time.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<M::Owned>, RecvError> {
        self.recv_until(Deadline::after(timeout))
    }

    /// Takes the next message out of the queue and returns it; `None` if none comes until the
    /// deadline.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    pub fn recv_until(&mut self, deadline: Deadline) -> Result<Option<M::Owned>, RecvError> {
        let mut message = M::blank();
        Ok(self.recv_into_until(&mut message, deadline)?.map(|()| message))
    }

    /// Receives a message into a buffer, whose contents it replaces; it allocates nothing once the
    /// buffer is large enough.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    #[inline]
    pub fn recv_into(&mut self, message: &mut M::Owned) -> Result<(), RecvError> {
        Deadline::never(|deadline| self.raw.take::<M>(message, Some(deadline)))
    }

    /// Receives a message into a buffer, or returns `None` if there is none.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    #[inline]
    pub fn try_recv_into(&mut self, message: &mut M::Owned) -> Result<Option<()>, RecvError> {
        self.raw.take::<M>(message, None)
    }

    /// Receives a message into a buffer; `None` if none comes within that time.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    #[inline]
    pub fn recv_into_timeout(
        &mut self,
        message: &mut M::Owned,
        timeout: Duration,
    ) -> Result<Option<()>, RecvError> {
        self.recv_into_until(message, Deadline::after(timeout))
    }

    /// Receives a message into a buffer; `None` if none comes until the deadline.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    #[inline]
    pub fn recv_into_until(
        &mut self,
        message: &mut M::Owned,
        deadline: Deadline,
    ) -> Result<Option<()>, RecvError> {
        self.raw.take::<M>(message, Some(deadline))
    }

    /// Returns the next message without taking it out of the queue, waiting for one.
    ///
    /// The message stays in the queue until [`Peeked::commit`]. Dropped without a commit, it is the
    /// next message again. So each message is processed at least once.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    ///
    /// # If a process dies
    /// If this process dies before the commit, the next receiver gets the same message, marked
    /// [`redelivered`](Peeked::redelivered).
    pub fn peek(&mut self) -> Result<Peeked<'_, M>, RecvError> {
        let raw = &self.raw;
        Deadline::never(|deadline| raw.peeked(Some(deadline)))
    }

    /// Returns the next message without taking it out of the queue, or `None` if there is none.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    pub fn try_peek(&mut self) -> Result<Option<Peeked<'_, M>>, RecvError> {
        self.raw.peeked(None)
    }

    /// Returns the next message without taking it out of the queue; `None` if none comes within
    /// that time.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    pub fn peek_timeout(&mut self, timeout: Duration) -> Result<Option<Peeked<'_, M>>, RecvError> {
        self.peek_until(Deadline::after(timeout))
    }

    /// Returns the next message without taking it out of the queue; `None` if none comes until the
    /// deadline.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    pub fn peek_until(&mut self, deadline: Deadline) -> Result<Option<Peeked<'_, M>>, RecvError> {
        self.raw.peeked(Some(deadline))
    }

    /// Iterates over the messages as they arrive, waiting for each, until [`RecvError::Closed`].
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-iter-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// let queue = outlive::queue::Queue::<u32>::open_or_create(&domain, "numbers")?;
    /// let mut receiver = queue.receiver()?;
    /// receiver.end_when_senders_gone(true);
    /// queue.sender()?.send_batch(&[1, 2, 3])?;
    /// assert_eq!(receiver.iter().collect::<Result<Vec<u32>, _>>()?, [1, 2, 3]);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&mut self) -> impl Iterator<Item = Result<M::Owned, RecvError>> + '_ {
        core::iter::from_fn(|| match self.recv() {
            Err(RecvError::Closed) => None,
            received => Some(received),
        })
    }

    /// Sets whether a receive that finds nothing ends with [`RecvError::Closed`] once there have
    /// been senders and all of them have died or been dropped. Default: no, it waits for the next
    /// sender.
    pub fn end_when_senders_gone(&self, end: bool) {
        self.raw.end_when_gone.set(end);
    }

    /// Sets how this process waits on this queue, for all its handles of it.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.raw.inner.spin_wait.set(wait);
    }
}

impl Receiver {
    /// Receives a message into the caller's memory, which may be uninitialised, and returns its
    /// length. `None` for a deadline does not wait; `None` is returned when no message came.
    ///
    /// A length greater than `room` means that nothing was received: the message stays. This
    /// function is for bindings to languages that bring their own buffers.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-recv-to-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// let queue = outlive::queue::Queue::<[u8]>::open_or_create(&domain, "orders")?;
    /// let mut receiver = queue.receiver()?;
    /// queue.sender()?.send_batch(&["buy 10", "sell", "buy 9"].map(str::as_bytes))?;
    /// let mut buffer = [0; 6];
    /// for (room, len) in [(5, 6), (6, 6), (4, 4), (4, 5), (5, 5)] {
    ///     // SAFETY: `buffer` has `room` bytes or more.
    ///     assert_eq!(unsafe { receiver.recv_to(buffer.as_mut_ptr(), room, None) }?, Some(len));
    /// }
    /// assert_eq!(&buffer, b"buy 90");
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    ///
    /// # Safety
    /// The caller guarantees that `room` bytes can be written at `to`.
    ///
    /// # If a process dies
    /// The same as with [`Receiver::recv`].
    #[inline]
    pub unsafe fn recv_to(
        &mut self,
        to: *mut u8,
        room: usize,
        deadline: Option<Deadline>,
    ) -> Result<Option<usize>, RecvError> {
        // SAFETY: the caller guarantees what `take_to` asks for.
        unsafe { self.raw.take_to(to, room, deadline) }
    }
}
