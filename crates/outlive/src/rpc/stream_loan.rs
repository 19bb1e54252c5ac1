//! Parts of a request, and replies of a stream, that are written where the other side reads them: no byte
//! of a long one is copied. in_place.rs has the states of their memory; client_stream.rs and stream.rs have
//! the steps.

use core::ops::{Deref, DerefMut};
use std::time::Duration;

use super::client_stream::RequestStream;
use super::error::CallError;
use super::in_place::InPlace;
use super::layout::INLINE;
use super::loan::{MOST_ALIGNED, Place, bytes_of};
use super::stream::Stream;
use crate::{Deadline, Payload, Plain, SendError};

/// Memory for one part of a request, lent by [`RequestStream::loan`] to be written in place; the server
/// reads it there.
///
/// A loan that is dropped gives its memory back, and the stream goes on.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-part-loan-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// let service = outlive::rpc::Service::<[u8]>::open_or_create(&domain, "film")?;
/// let (mut server, client) = (service.server()?, service.client()?);
/// let mut film = client.stream(b"holiday")?;
/// let mut image = film.loan(6_000_000)?;
/// image.fill(7);                                      // a camera writes here
/// image.send()?;
///
/// let mut replies = server.next()?.stream();          // in another process, as a rule
/// let image = replies.next_part()?.expect("it was sent");
/// let mut smaller = replies.loan(image.len() / 2)?;
/// smaller.copy_from_slice(&image[..3_000_000]);       // a filter reads there, and writes here
/// smaller.send()?;
/// assert_eq!(film.next_reply()?.expect("it was sent").len(), 3_000_000);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If this process dies, the service has the memory back once its last thread has ended. If the server
/// dies, the next wait for room, for memory or for a reply tells; a part for which there is room is sent
/// all the same, and the service has its memory back when the call is over.
#[must_use = "a loan that is dropped is not sent"]
pub struct PartLoan<'s, 'c, Q: Payload + ?Sized = [u8], R: Payload + ?Sized = [u8]> {
    stream: &'s mut RequestStream<'c, Q, R>,
    object: InPlace,
}

/// Memory for one reply of a stream, lent by [`Stream::loan`] to be written in place; the client reads it
/// there. See [`PartLoan`] for an example.
///
/// A loan that is dropped gives its memory back, and the stream goes on.
///
/// # If a process dies
/// If this process dies before the reply is sent, the client is told that the server died; the service
/// has the memory back once the last thread of this process has ended.
#[must_use = "a loan that is dropped is not sent"]
pub struct StreamLoan<'s, Q: Payload + ?Sized = [u8], R: Payload + ?Sized = [u8]> {
    stream: &'s mut Stream<Q, R>,
    place: Place,
}

/// Memory for a part, apart from its stream: for bindings.
#[doc(hidden)]
pub struct LentPart(InPlace);

/// Memory for a reply of a stream, apart from it: for bindings.
#[doc(hidden)]
pub struct LentReply(Place);

impl LentPart {
    /// Returns the bytes to write.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the object is this process's, and `&mut self` its only handle; it has room for `len`
        // bytes, whose pages exist.
        unsafe { core::slice::from_raw_parts_mut(self.0.address(), self.0.len()) }
    }
}

impl LentReply {
    /// Returns the bytes to write.
    pub fn bytes(&mut self) -> &mut [u8] {
        let len = self.0.len();
        // SAFETY: so many bytes have been initialized there, and `&mut self` is the only handle.
        unsafe { core::slice::from_raw_parts_mut(self.0.as_mut_ptr(), len) }
    }
}

impl<'c, T: Plain, R: Payload + ?Sized> RequestStream<'c, [T], R> {
    /// Lends memory for a part of so many values, to be written in place, waiting while eight parts are
    /// under way, or while the service's memory is in use. Its contents are arbitrary: zeroes, or an
    /// earlier message.
    ///
    /// # Errors
    /// The errors of [`RequestStream::send`].
    ///
    /// # If a process dies
    /// If the server dies, this fails at once with [`CallError::ServerDied`].
    pub fn loan(&mut self, count: usize) -> Result<PartLoan<'_, 'c, [T], R>, CallError> {
        self.loan_until(count, Deadline::NEVER)
    }

    /// Lends memory for a part as [`RequestStream::loan`] does, and never waits.
    ///
    /// # Errors
    /// The errors of [`RequestStream::try_send`].
    ///
    /// # If a process dies
    /// The same as with [`RequestStream::loan`].
    pub fn try_loan(&mut self, count: usize) -> Result<PartLoan<'_, 'c, [T], R>, CallError> {
        self.lend(bytes_of::<T>(count)?, None)
    }

    /// Lends memory for a part as [`RequestStream::loan`] does, waiting as long as `span`.
    ///
    /// # Errors
    /// The errors of [`RequestStream::send_timeout`].
    ///
    /// # If a process dies
    /// The same as with [`RequestStream::loan`].
    pub fn loan_timeout(
        &mut self,
        count: usize,
        span: Duration,
    ) -> Result<PartLoan<'_, 'c, [T], R>, CallError> {
        self.loan_until(count, Deadline::after(span))
    }

    /// Lends memory for a part as [`RequestStream::loan`] does, waiting until the deadline.
    ///
    /// # Errors
    /// The errors of [`RequestStream::send_until`].
    ///
    /// # If a process dies
    /// The same as with [`RequestStream::loan`].
    pub fn loan_until(
        &mut self,
        count: usize,
        deadline: Deadline,
    ) -> Result<PartLoan<'_, 'c, [T], R>, CallError> {
        self.lend(bytes_of::<T>(count)?, Some(deadline))
    }
}

impl<'c, T: Plain, R: Payload + ?Sized> RequestStream<'c, T, R> {
    /// Lends memory for a part of one value as [`RequestStream::loan`] does for several.
    ///
    /// # Errors
    /// The errors of [`RequestStream::loan`].
    ///
    /// # If a process dies
    /// The same as with [`RequestStream::loan`].
    pub fn loan_value(&mut self) -> Result<PartLoan<'_, 'c, T, R>, CallError> {
        self.lend(size_of::<T>(), Some(Deadline::NEVER))
    }
}

impl<'c, Q: Payload + ?Sized, R: Payload + ?Sized> RequestStream<'c, Q, R> {
    fn lend(
        &mut self,
        len: usize,
        deadline: Option<Deadline>,
    ) -> Result<PartLoan<'_, 'c, Q, R>, CallError> {
        const { assert!(Q::METADATA.align <= MOST_ALIGNED, "no object is aligned to more") };
        let object = self.lend_object(len, deadline)?;
        Ok(PartLoan { stream: self, object })
    }

    /// Lends memory of so many bytes, apart from the stream: for bindings. Without a deadline it does
    /// not wait.
    #[doc(hidden)]
    pub fn lend_part(
        &mut self,
        len: usize,
        deadline: Option<Deadline>,
    ) -> Result<LentPart, CallError> {
        self.lend_object(len, deadline).map(LentPart)
    }

    /// Sends a part that [`RequestStream::lend_part`] of this stream has lent; after an error it is
    /// still the caller's. `None`: it is sent.
    #[doc(hidden)]
    pub fn send_lent(&mut self, part: LentPart) -> Option<(CallError, LentPart)> {
        match self.send_object(&part.0) {
            Ok(()) => {
                part.0.sent();
                None
            }
            Err(error) => Some((error, part)),
        }
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> PartLoan<'_, '_, Q, R> {
    /// Sends the part. Never waits.
    ///
    /// # Errors
    /// [`CallError::Answered`], [`CallError::NotClient`], [`CallError::Damaged`],
    /// [`CallError::System`]; the part is not sent then.
    ///
    /// # If a process dies
    /// The same as with [`RequestStream::send`].
    pub fn send(self) -> Result<(), CallError> {
        self.stream.send_object(&self.object)?;
        self.object.sent();
        Ok(())
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Deref for PartLoan<'_, '_, Q, R> {
    type Target = Q;

    #[inline]
    fn deref(&self) -> &Q {
        // SAFETY: `lend` made room for a part, aligned for it; no other thread writes there.
        unsafe { Q::at(self.object.address(), self.object.len()).unwrap_unchecked() }
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> DerefMut for PartLoan<'_, '_, Q, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Q {
        // SAFETY: `lend` made room for a part, aligned for it, and no other thread writes there;
        // `&mut self` makes this the only reference.
        unsafe { Q::at_mut(self.object.address(), self.object.len()).unwrap_unchecked() }
    }
}

impl<Q: Payload + ?Sized, T: Plain> Stream<Q, [T]> {
    /// Lends memory for a reply of so many values, to be written in place, waiting while eight replies
    /// are under way. Its contents are arbitrary: zeroes, or an earlier message.
    ///
    /// # Errors
    /// The errors of [`Stream::send`].
    ///
    /// # If a process dies
    /// If the client dies, this fails at once with [`SendError::ReceiverDied`].
    pub fn loan(&mut self, count: usize) -> Result<StreamLoan<'_, Q, [T]>, SendError> {
        self.loan_until(count, Deadline::NEVER)
    }

    /// Lends memory for a reply as [`Stream::loan`] does, unless eight are under way. Never waits.
    ///
    /// # Errors
    /// The errors of [`Stream::try_send`].
    ///
    /// # If a process dies
    /// The same as with [`Stream::loan`].
    pub fn try_loan(&mut self, count: usize) -> Result<StreamLoan<'_, Q, [T]>, SendError> {
        self.lend(bytes_of::<T>(count)?, None)
    }

    /// Lends memory for a reply as [`Stream::loan`] does, waiting as long as `span`.
    ///
    /// # Errors
    /// The errors of [`Stream::send_timeout`].
    ///
    /// # If a process dies
    /// The same as with [`Stream::loan`].
    pub fn loan_timeout(
        &mut self,
        count: usize,
        span: Duration,
    ) -> Result<StreamLoan<'_, Q, [T]>, SendError> {
        self.loan_until(count, Deadline::after(span))
    }

    /// Lends memory for a reply as [`Stream::loan`] does, waiting until the deadline.
    ///
    /// # Errors
    /// The errors of [`Stream::send_until`].
    ///
    /// # If a process dies
    /// The same as with [`Stream::loan`].
    pub fn loan_until(
        &mut self,
        count: usize,
        deadline: Deadline,
    ) -> Result<StreamLoan<'_, Q, [T]>, SendError> {
        self.lend(bytes_of::<T>(count)?, Some(deadline))
    }
}

impl<Q: Payload + ?Sized, T: Plain> Stream<Q, T> {
    /// Lends memory for a reply of one value as [`Stream::loan`] does for several.
    ///
    /// # Errors
    /// The errors of [`Stream::loan`].
    ///
    /// # If a process dies
    /// The same as with [`Stream::loan`].
    pub fn loan_value(&mut self) -> Result<StreamLoan<'_, Q, T>, SendError> {
        self.lend(size_of::<T>(), Some(Deadline::NEVER))
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Stream<Q, R> {
    fn lend(
        &mut self,
        len: usize,
        deadline: Option<Deadline>,
    ) -> Result<StreamLoan<'_, Q, R>, SendError> {
        const { assert!(R::METADATA.align <= MOST_ALIGNED, "no object is aligned to more") };
        let place = self.lend_place(len, deadline)?;
        Ok(StreamLoan { stream: self, place })
    }

    fn lend_place(&mut self, len: usize, deadline: Option<Deadline>) -> Result<Place, SendError> {
        self.make_space(deadline)?;
        if len <= INLINE && R::METADATA.align <= 8 {
            return Ok(Place::short(len));
        }
        Ok(Place::Long(self.request.raw.lend(len)?))
    }

    /// Lends memory of so many bytes, apart from the stream: for bindings. Without a deadline it does
    /// not wait.
    #[doc(hidden)]
    pub fn lend_reply(
        &mut self,
        len: usize,
        deadline: Option<Deadline>,
    ) -> Result<LentReply, SendError> {
        self.lend_place(len, deadline).map(LentReply)
    }

    /// Sends a reply that [`Stream::lend_reply`] of this stream has lent; after an error it is still the
    /// caller's. `None`: it is sent.
    #[doc(hidden)]
    pub fn send_lent(&mut self, reply: LentReply) -> Option<(SendError, LentReply)> {
        let LentReply(place) = reply;
        self.send_place(place).map(|(error, place)| (error, LentReply(place)))
    }

    /// Sends what was written at that place. `None`: it is sent.
    fn send_place(&mut self, place: Place) -> Option<(SendError, Place)> {
        // Since it was lent the client may have let go, and, of bindings' loans, another reply have gone.
        let sent = self.make_space(None).and_then(|()| match &place {
            Place::Short { .. } => self.send_bytes(place.bytes()),
            Place::Long(object) => self.send_object(object),
        });
        match (sent, place) {
            (Err(error), place) => return Some((error, place)),
            (Ok(()), Place::Long(object)) => object.sent(),
            (Ok(()), Place::Short { .. }) => {}
        }
        None
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> StreamLoan<'_, Q, R> {
    /// Sends the reply. Never waits.
    ///
    /// # Errors
    /// [`SendError::Cancelled`], [`SendError::ReceiverDied`] (the client died), [`SendError::NotOwner`],
    /// [`SendError::Damaged`], [`SendError::System`]; the reply is not sent then.
    ///
    /// # If a process dies
    /// Once this returns `Ok`, the client has the reply, even if this process dies.
    pub fn send(self) -> Result<(), SendError> {
        let StreamLoan { stream, place } = self;
        match stream.send_place(place) {
            None => Ok(()),
            Some((error, _)) => Err(error),
        }
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Deref for StreamLoan<'_, Q, R> {
    type Target = R;

    #[inline]
    fn deref(&self) -> &R {
        // SAFETY: `lend` made room for a reply, aligned for it; no other thread writes there.
        unsafe { R::at(self.place.as_ptr(), self.place.len()).unwrap_unchecked() }
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> DerefMut for StreamLoan<'_, Q, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut R {
        let len = self.place.len();
        // SAFETY: `lend` made room for a reply, aligned for it, and no other thread writes there;
        // `&mut self` makes this the only reference.
        unsafe { R::at_mut(self.place.as_mut_ptr(), len).unwrap_unchecked() }
    }
}
