//! Requests and replies that are written where the other side reads them: no byte of a long one is
//! copied. in_place.rs has the states of their memory.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use super::call::After;
use super::client::Client;
use super::client_call::Call;
use super::error::CallError;
use super::in_place::InPlace;
use super::layout::{INLINE, INLINE_REQUEST};
use super::reply::Reply;
use super::request::{RawRequest, Request};
use crate::queue::LARGEST_MESSAGE;
use crate::{Deadline, Payload, Plain, SendError};

/// Where a loan is written.
pub(super) enum Place {
    /// A short one, which is copied into the call's slot.
    Short {
        len: usize,
        words: [u64; INLINE_REQUEST / 8],
    },
    Long(InPlace),
}

impl Place {
    pub(super) fn short(len: usize) -> Place {
        Place::Short { len, words: [0; INLINE_REQUEST / 8] }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Place::Short { len, .. } => *len,
            Place::Long(object) => object.len(),
        }
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *const u8 {
        match self {
            Place::Short { words, .. } => words.as_ptr().cast(),
            Place::Long(object) => object.address(),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes have been initialized there, by zeroes or by other messages; no other
        // thread writes there.
        unsafe { core::slice::from_raw_parts(self.as_ptr(), self.len()) }
    }

    #[inline]
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        match self {
            Place::Short { words, .. } => words.as_mut_ptr().cast(),
            Place::Long(object) => object.address(),
        }
    }
}

/// The largest alignment of objects: their sizes are multiples of it.
pub(super) const MOST_ALIGNED: usize = 64;

/// Returns how many bytes so many values are.
pub(super) fn bytes_of<T>(count: usize) -> Result<usize, SendError> {
    let too_large = SendError::TooLarge { len: u64::MAX, max: LARGEST_MESSAGE };
    count.checked_mul(size_of::<T>()).ok_or(too_large)
}

/// Memory for one request, lent by [`Client::loan`] to be written in place; the server reads it there.
///
/// A loan that is dropped gives its memory back. It may move between threads.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-request-loan-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// let service = outlive::rpc::Service::<[u8]>::open_or_create(&domain, "blur")?;
/// let (mut server, client) = (service.server()?, service.client()?);
/// let mut image = client.loan(6_000_000)?;
/// image.fill(7);                                      // a camera writes here
/// let call = image.begin()?;
///
/// let request = server.next()?;                       // in another process, as a rule
/// let mut answer = request.loan(6_000_000)?;
/// let (from, to) = answer.split();
/// to.copy_from_slice(from);                           // a filter reads here, and writes there
/// answer.send()?;
/// assert_eq!(call.wait()?.len(), 6_000_000);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If this process dies, the service has the memory back once its last thread has ended.
#[must_use = "a loan that is dropped is not sent"]
pub struct RequestLoan<'c, Q: Payload + ?Sized = [u8], R: Payload + ?Sized = [u8]> {
    client: &'c Client<Q, R>,
    place: Place,
    /// Of a loan that borrows nothing: its client. Dropped after all that uses it.
    keep: Option<Arc<dyn Send + Sync>>,
}

impl<T: Plain, R: Payload + ?Sized> Client<[T], R> {
    /// Lends memory for a request of so many values, to be written in place, waiting while the
    /// service's memory is in use. Its contents are arbitrary: zeroes, or an earlier message.
    ///
    /// # Errors
    /// [`CallError::TooLarge`] when the request is longer than a request may be, or than the service
    /// may grow; [`CallError::NotClient`], [`CallError::Damaged`], [`CallError::System`].
    ///
    /// # If a process dies
    /// See [`RequestLoan`].
    pub fn loan(&self, count: usize) -> Result<RequestLoan<'_, [T], R>, CallError> {
        self.loan_until(count, Deadline::NEVER)
    }

    /// Lends memory for a request as [`Client::loan`] does, without waiting.
    ///
    /// # Errors
    /// The errors of [`Client::loan`], and [`CallError::TimedOut`] when it would have to wait.
    ///
    /// # If a process dies
    /// See [`RequestLoan`].
    pub fn try_loan(&self, count: usize) -> Result<RequestLoan<'_, [T], R>, CallError> {
        self.loan_until(count, Deadline::at_nanos(0))
    }

    /// Lends memory for a request as [`Client::loan`] does, waiting as long as `span`.
    ///
    /// # Errors
    /// The errors of [`Client::loan`], and [`CallError::TimedOut`].
    ///
    /// # If a process dies
    /// See [`RequestLoan`].
    pub fn loan_timeout(
        &self,
        count: usize,
        span: Duration,
    ) -> Result<RequestLoan<'_, [T], R>, CallError> {
        self.loan_until(count, Deadline::after(span))
    }

    /// Lends memory for a request as [`Client::loan`] does, waiting until the deadline.
    ///
    /// # Errors
    /// The errors of [`Client::loan`], and [`CallError::TimedOut`].
    ///
    /// # If a process dies
    /// See [`RequestLoan`].
    pub fn loan_until(
        &self,
        count: usize,
        deadline: Deadline,
    ) -> Result<RequestLoan<'_, [T], R>, CallError> {
        self.lend(bytes_of::<T>(count)?, deadline)
    }

    /// Lends memory that keeps its client: for bindings.
    #[doc(hidden)]
    pub fn loan_keeping(
        self: &Arc<Self>,
        count: usize,
        deadline: Deadline,
    ) -> Result<RequestLoan<'static, [T], R>, CallError>
    where
        T: 'static,
        R: 'static,
    {
        // SAFETY: an Arc's value does not move as long as an Arc of it exists. All that borrows from
        // this is the loan, which gets an Arc here, and drops it after all else.
        let client: &'static Client<[T], R> = unsafe { &*Arc::as_ptr(self) };
        let mut loan = client.loan_until(count, deadline)?;
        loan.keep = Some(Arc::clone(self) as _);
        Ok(loan)
    }
}

impl<T: Plain, R: Payload + ?Sized> Client<T, R> {
    /// Lends memory for a request of one value as [`Client::loan`] does for several.
    ///
    /// # Errors
    /// The errors of [`Client::loan`].
    ///
    /// # If a process dies
    /// See [`RequestLoan`].
    pub fn loan_value(&self) -> Result<RequestLoan<'_, T, R>, CallError> {
        self.lend(size_of::<T>(), Deadline::NEVER)
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Client<Q, R> {
    fn lend(&self, len: usize, deadline: Deadline) -> Result<RequestLoan<'_, Q, R>, CallError> {
        const { assert!(Q::METADATA.align <= MOST_ALIGNED, "no object is aligned to more") };
        let place = if len <= INLINE_REQUEST && Q::METADATA.align <= 8 {
            Place::short(len)
        } else {
            Place::Long(self.lend_long(len, deadline)?)
        };
        Ok(RequestLoan { client: self, place, keep: None })
    }
}

impl<'c, Q: Payload + ?Sized, R: Payload + ?Sized> RequestLoan<'c, Q, R> {
    /// Sends the request and waits for the reply; of several replies, it returns the first.
    ///
    /// # Errors
    /// The errors of [`Client::call`].
    ///
    /// # If a process dies
    /// The same as with [`Client::call`].
    pub fn call(self) -> Result<Reply<R>, CallError> {
        self.begin()?.wait()
    }

    /// Sends the request and waits for the reply as long as `span`; then it cancels the call.
    ///
    /// # Errors
    /// The errors of [`Client::call_timeout`].
    ///
    /// # If a process dies
    /// The same as with [`Client::call`].
    pub fn call_timeout(self, span: Duration) -> Result<Reply<R>, CallError> {
        self.call_until(Deadline::after(span))
    }

    /// Sends the request and waits for the reply until the deadline; then it cancels the call.
    ///
    /// # Errors
    /// The errors of [`Client::call_timeout`].
    ///
    /// # If a process dies
    /// The same as with [`Client::call`].
    pub fn call_until(self, deadline: Deadline) -> Result<Reply<R>, CallError> {
        self.begin_until(deadline)?.wait_until(deadline)
    }

    /// Sends the request and returns before the reply is there: see [`Client::begin`].
    ///
    /// # Errors
    /// The errors of [`Client::begin`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn begin(self) -> Result<Call<'c, R>, CallError> {
        self.begin_until(Deadline::NEVER)
    }

    /// Sends the request as [`RequestLoan::begin`] does, without waiting for a server.
    ///
    /// # Errors
    /// The errors of [`Client::try_begin`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn try_begin(self) -> Result<Call<'c, R>, CallError> {
        self.begin_until(Deadline::at_nanos(0))
    }

    /// Sends the request as [`RequestLoan::begin`] does, waiting as long as `span` for a server.
    ///
    /// # Errors
    /// The errors of [`Client::begin_timeout`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn begin_timeout(self, span: Duration) -> Result<Call<'c, R>, CallError> {
        self.begin_until(Deadline::after(span))
    }

    /// Sends the request as [`RequestLoan::begin`] does, waiting until the deadline for a server.
    ///
    /// # Errors
    /// The errors of [`Client::begin_until`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn begin_until(self, deadline: Deadline) -> Result<Call<'c, R>, CallError> {
        let RequestLoan { client, place, keep } = self;
        let call = match place {
            Place::Long(object) if object.len() > INLINE_REQUEST => {
                let call = client.begin_in_place(&object, deadline, |_, _| {})?;
                object.sent();
                call
            }
            // Copied into the slot: a request's length tells the server where it lies, also that of a
            // short one that lies in an object for its alignment.
            short => client.begin_short(client.slots.me()?, short.bytes(), deadline)?,
        };
        Ok(match keep {
            Some(keep) => call.keeping(keep),
            None => call,
        })
    }

    /// Sends the request as [`RequestLoan::begin_until`] does; after an error the loan is still there,
    /// to be sent later: for bindings.
    #[doc(hidden)]
    pub fn begin_or_keep(&mut self, deadline: Deadline) -> Result<Call<'c, R>, CallError> {
        let client = self.client;
        match &self.place {
            Place::Long(object) if object.len() > INLINE_REQUEST => {
                let call = client.begin_in_place(object, deadline, |_, _| {})?;
                if let Place::Long(object) = core::mem::replace(&mut self.place, Place::short(0)) {
                    object.sent();
                }
                Ok(call)
            }
            short => client.begin_short(client.slots.me()?, short.bytes(), deadline),
        }
    }
}

impl<'c, Q: Payload + ?Sized, R: Payload + ?Sized> RequestLoan<'c, Q, R> {
    pub(crate) fn client(&self) -> &'c Client<Q, R> {
        self.client
    }

    /// Returns the call of this loan with what it borrows from.
    pub(crate) fn hand_on(self, call: Call<'c, R>) -> Call<'c, R> {
        match self.keep {
            Some(keep) => call.keeping(keep),
            None => call,
        }
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Deref for RequestLoan<'_, Q, R> {
    type Target = Q;

    #[inline]
    fn deref(&self) -> &Q {
        // SAFETY: `lend` made room for a request, aligned for it; no other thread writes there.
        unsafe { Q::at(self.place.as_ptr(), self.place.len()).unwrap_unchecked() }
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> DerefMut for RequestLoan<'_, Q, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Q {
        let len = self.place.len();
        // SAFETY: `lend` made room for the value, aligned for it, and no other thread writes there;
        // `&mut self` makes this the only reference.
        unsafe { Q::at_mut(self.place.as_mut_ptr(), len).unwrap_unchecked() }
    }
}

/// Memory for the reply to a request, lent by [`Request::loan`] to be written in place; the client
/// reads it there. See [`RequestLoan`] for an example.
///
/// A loan that is dropped is no reply: the client gets
/// [`CallError::Dropped`](super::CallError::Dropped). It may move between threads.
///
/// # If a process dies
/// If this process dies before the reply is sent, the client is told that the server died; the service
/// has the memory back once the last thread of this process has ended.
#[must_use = "a loan that is dropped is not sent"]
pub struct ReplyLoan<Q: Payload + ?Sized = [u8], R: Payload + ?Sized = [u8]> {
    request: Request<Q, R>,
    place: Place,
    _reply: PhantomData<fn(&R)>,
}

/// An error, and the request that is still to be answered.
type Kept<Q, R> = Box<(SendError, Request<Q, R>)>;

impl<Q: Payload + ?Sized, T: Plain> Request<Q, [T]> {
    /// Lends memory for a reply of so many values, to be written in place. Its contents are arbitrary:
    /// zeroes, or an earlier message.
    ///
    /// # Errors
    /// [`SendError::ReceiverDied`] (the client died); [`SendError::TooLarge`] and
    /// [`SendError::NoSpace`], after which the client gets
    /// [`CallError::Dropped`](super::CallError::Dropped); [`SendError::NotOwner`],
    /// [`SendError::Damaged`], [`SendError::System`].
    ///
    /// # If a process dies
    /// See [`ReplyLoan`].
    pub fn loan(self, count: usize) -> Result<ReplyLoan<Q, [T]>, SendError> {
        let len = bytes_of::<T>(count)?;
        self.lend(len)
    }

    /// Lends memory for a reply as [`Request::loan`] does; after an error the caller has the request
    /// again, to answer it in another way: for bindings.
    #[doc(hidden)]
    pub fn loan_or_keep(self, count: usize) -> Result<ReplyLoan<Q, [T]>, Kept<Q, [T]>> {
        match bytes_of::<T>(count).and_then(|len| self.place(len)) {
            Ok(place) => Ok(ReplyLoan { request: self, place, _reply: PhantomData }),
            Err(error) => Err(Box::new((error, self))),
        }
    }
}

impl<Q: Payload + ?Sized, T: Plain> Request<Q, T> {
    /// Lends memory for a reply of one value as [`Request::loan`] does for several.
    ///
    /// # Errors
    /// The errors of [`Request::loan`].
    ///
    /// # If a process dies
    /// See [`ReplyLoan`].
    pub fn loan_value(self) -> Result<ReplyLoan<Q, T>, SendError> {
        self.lend(size_of::<T>())
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Request<Q, R> {
    fn lend(self, len: usize) -> Result<ReplyLoan<Q, R>, SendError> {
        let place = self.place(len)?;
        Ok(ReplyLoan { request: self, place, _reply: PhantomData })
    }

    /// Finds a place for a reply.
    fn place(&self, len: usize) -> Result<Place, SendError> {
        const { assert!(R::METADATA.align <= MOST_ALIGNED, "no object is aligned to more") };
        if len <= INLINE && R::METADATA.align <= 8 {
            return Ok(Place::short(len));
        }
        Ok(Place::Long(self.raw.lend(len)?))
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> ReplyLoan<Q, R> {
    /// Returns the request.
    pub fn request(&self) -> &Request<Q, R> {
        &self.request
    }

    /// Gives the memory back, and tells the client why it gets no reply, as [`Request::fail`] does.
    ///
    /// # Errors
    /// The errors of [`Request::fail`].
    ///
    /// # If a process dies
    /// The same as with [`Request::fail`].
    pub fn fail(self, text: &str) -> Result<(), SendError> {
        self.request.fail(text)
    }

    /// Sends the reply.
    ///
    /// # Errors
    /// The errors of [`Request::reply`].
    ///
    /// # If a process dies
    /// Once this returns `Ok`, the client has the reply, even if this process dies.
    pub fn send(self) -> Result<(), SendError> {
        let ReplyLoan { mut request, place, .. } = self;
        let raw: &mut RawRequest = &mut request.raw;
        match place {
            Place::Short { .. } => raw.send_only(place.bytes()),
            Place::Long(object) => {
                let me = raw.enter()?;
                raw.check_client()?;
                raw.send_in_place(me, &object, 0, After::End)?;
                object.sent();
                raw.is_over = true;
                Ok(())
            }
        }
    }
}

impl<R: Payload + ?Sized> ReplyLoan<[u8], R> {
    /// Returns the request's bytes, and the reply to write.
    pub fn split(&mut self) -> (&[u8], &mut R) {
        let (at, len) = (self.place.as_mut_ptr(), self.place.len());
        // SAFETY: `lend` made room for the value, aligned for it, and no other thread writes there;
        // `&mut self` makes this the only reference. The request lies elsewhere.
        (&self.request, unsafe { R::at_mut(at, len).unwrap_unchecked() })
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Deref for ReplyLoan<Q, R> {
    type Target = R;

    #[inline]
    fn deref(&self) -> &R {
        // SAFETY: `lend` made room for a reply, aligned for it; no other thread writes there.
        unsafe { R::at(self.place.as_ptr(), self.place.len()).unwrap_unchecked() }
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> DerefMut for ReplyLoan<Q, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut R {
        let len = self.place.len();
        // SAFETY: `lend` made room for the value, aligned for it, and no other thread writes there;
        // `&mut self` makes this the only reference.
        unsafe { R::at_mut(self.place.as_mut_ptr(), len).unwrap_unchecked() }
    }
}
