//! Senders and receivers for values of one plain type.

use std::marker::PhantomData;

use super::error::{RecvError, SendError};
use super::{Queue, Receiver, Sender};
use crate::Plain;
use crate::wake::{Source, Watched};
use crate::{Deadline, Error};

/// Sends values of one plain type, each as the bytes of one message.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-typed-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// let queue = outlive::queue::Queue::create(&domain, "readings")?;
/// let sender = queue.typed_sender::<[f64; 3]>()?;
/// let mut receiver = queue.typed_receiver::<[f64; 3]>()?;
/// sender.send(&[1.0, 2.0, 3.0])?;
/// assert_eq!(receiver.recv()?, [1.0, 2.0, 3.0]);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TypedSender<T> {
    sender: Sender,
    _type: PhantomData<fn(T)>,
}

/// Receives values of one plain type.
pub struct TypedReceiver<T> {
    receiver: Receiver,
    buffer: Vec<u8>,
    queue: Queue,
    _type: PhantomData<fn() -> T>,
}

impl Queue {
    /// Makes a sender of values instead of bytes. All users of the queue must agree on the type:
    /// the queue itself holds bytes.
    ///
    /// # Errors
    /// The errors of [`Queue::sender`].
    pub fn typed_sender<T: Plain>(&self) -> Result<TypedSender<T>, Error> {
        Ok(TypedSender { sender: self.sender()?, _type: PhantomData })
    }

    /// Makes this process the receiver, of values instead of bytes.
    ///
    /// # Errors
    /// The errors of [`Queue::receiver`].
    pub fn typed_receiver<T: Plain>(&self) -> Result<TypedReceiver<T>, Error> {
        Ok(TypedReceiver {
            receiver: self.receiver()?,
            buffer: Vec::with_capacity(size_of::<T>()),
            queue: self.clone(),
            _type: PhantomData,
        })
    }
}

impl<T: Plain> TypedSender<T> {
    /// Sends a value, waiting while the queue is full and at its largest size.
    ///
    /// # Errors
    /// The errors of [`Sender::send`].
    pub fn send(&self, value: &T) -> Result<(), SendError> {
        self.sender.send(value.as_bytes())
    }

    /// Sends a value if there is room, else returns `Full` at once.
    ///
    /// # Errors
    /// The errors of [`Sender::try_send`].
    pub fn try_send(&self, value: &T) -> Result<(), SendError> {
        self.sender.try_send(value.as_bytes())
    }

    /// Sends a value, waiting until the deadline while the queue is full.
    ///
    /// # Errors
    /// The errors of [`Sender::send_until`].
    pub fn send_until(&self, value: &T, deadline: impl Into<Deadline>) -> Result<(), SendError> {
        self.sender.send_until(value.as_bytes(), deadline)
    }
}

impl<T: Plain> TypedReceiver<T> {
    /// Receives a value, waiting for one to arrive.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`]; [`RecvError::Damaged`] also for a message of another
    /// length, which is dropped.
    pub fn recv(&mut self) -> Result<T, RecvError> {
        self.recv_until(Deadline::NEVER)
    }

    /// Receives a value, or returns `Empty` at once.
    ///
    /// # Errors
    /// The errors of [`TypedReceiver::recv`], and [`RecvError::Empty`].
    pub fn try_recv(&mut self) -> Result<T, RecvError> {
        self.receiver.try_recv_into(&mut self.buffer)?;
        self.value()
    }

    /// Receives a value, waiting until the deadline.
    ///
    /// # Errors
    /// The errors of [`TypedReceiver::recv`], and [`RecvError::TimedOut`].
    pub fn recv_until(&mut self, deadline: impl Into<Deadline>) -> Result<T, RecvError> {
        self.receiver.recv_into_until(&mut self.buffer, deadline)?;
        self.value()
    }

    fn value(&self) -> Result<T, RecvError> {
        T::read_from_bytes(&self.buffer).map_err(|_| {
            RecvError::Damaged(self.queue.inner.ring.segment.damaged("a value of another size"))
        })
    }

    pub(crate) fn bytes(&self) -> &Receiver {
        &self.receiver
    }
}

impl<T: Plain> Source for TypedReceiver<T> {
    fn watched(&self) -> Result<Watched, Error> {
        self.bytes().watched()
    }
}
