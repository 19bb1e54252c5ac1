//! The server's end of a request of several parts.
//!
//! For the next part, when `parts` says that it is there:
//!
//! 1. TAKEN(process) → WRITING(this thread); failed: the client wants no reply any more.
//! 2. The object's tag: the slot's → owned(this process); `parts_taken` + 1.
//! 3. → TAKEN(process). `replies` is notified: a client that waits for room is woken.
//!
//! No part is there: a wait on {`space`, the client's process}, as for room in a stream of replies.
//!
//! | died after | the client | the object |
//! | --- | --- | --- |
//! | 1 | is told once the thread has stopped | the slot's: freed by the process that makes the call CANCELLED, or settles the slot |
//! | 2 | the same | owned(dead): `collect` |
//! | 3 | is told; woken by the end of this process | the same |
//!
//! WRITING keeps the slot this call's: a thread that goes on while its process's token reads dead would
//! take the part of another call else. doc/protocols/rpc.md, proof/models/rpc_parts.pml.

use std::marker::PhantomData;
use std::ops::Deref;
use std::task::Poll;
use std::time::Duration;

use super::call::Claim;
use super::in_place::InPlace;
use super::layout::RING;
use super::reply::Bytes;
use super::request::{RawRequest, Request};
use super::stream::Stream;
use crate::sys::robust::WakeRelay;
use crate::wake::Sleep;
use crate::{Deadline, Error, Payload, RecvError, SendError};

/// A further part of a request: read where the client wrote it, in the service's memory, which has it
/// back when the part is dropped. A part of bytes is a slice of them; one of another type has its
/// [`value`](Part::value). See [`RequestStream`](super::RequestStream) for an example.
pub struct Part<Q: Payload + ?Sized = [u8]> {
    bytes: Bytes,
    _type: PhantomData<fn(&Q)>,
}

impl<Q: Payload + ?Sized> Part<Q> {
    /// Returns a copy of the part's value; of a slice, a `Vec`.
    #[must_use]
    pub fn value(&self) -> Q::Owned {
        self.bytes.value::<Q>()
    }
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<Q: Payload + ?Sized> std::fmt::Debug for Part<Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Part").field(&&*self.bytes).finish()
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Request<Q, R> {
    /// Returns the next part of the request, waiting for one; `None` after the last. A request that was
    /// not sent by [`Client::stream`](super::Client::stream) has none.
    ///
    /// # Errors
    /// [`RecvError::Cancelled`] when no client waits for a reply any more: it let go of the call, or
    /// died; parts that were there are returned first, as a rule. [`RecvError::Encoding`] when the part
    /// is no `Q`; the next one may be taken. [`RecvError::NotOwner`], [`RecvError::Damaged`],
    /// [`RecvError::System`].
    ///
    /// # If a process dies
    /// If the client dies, this fails at once. If this process dies, the client is told at once.
    pub fn next_part(&mut self) -> Result<Option<Part<Q>>, RecvError> {
        match self.next_part_by(Some(Deadline::NEVER))? {
            Poll::Ready(part) => Ok(part),
            Poll::Pending => unreachable!("its deadline never passes"),
        }
    }

    /// Looks for the next part, and never waits: [`Poll::Pending`] when none is there yet, else what
    /// [`Request::next_part`] returns.
    ///
    /// # Errors
    /// The errors of [`Request::next_part`].
    ///
    /// # If a process dies
    /// The same as with [`Request::next_part`].
    pub fn try_next_part(&mut self) -> Result<Poll<Option<Part<Q>>>, RecvError> {
        self.next_part_by(None)
    }

    /// Returns the next part, waiting for one as long as `span`; [`Poll::Pending`] when that has passed.
    ///
    /// # Errors
    /// The errors of [`Request::next_part`].
    ///
    /// # If a process dies
    /// The same as with [`Request::next_part`].
    pub fn next_part_timeout(
        &mut self,
        span: Duration,
    ) -> Result<Poll<Option<Part<Q>>>, RecvError> {
        self.next_part_by(Some(Deadline::after(span)))
    }

    /// Returns the next part, waiting for one until the deadline; [`Poll::Pending`] when that has
    /// passed.
    ///
    /// # Errors
    /// The errors of [`Request::next_part`].
    ///
    /// # If a process dies
    /// The same as with [`Request::next_part`].
    pub fn next_part_until(
        &mut self,
        deadline: Deadline,
    ) -> Result<Poll<Option<Part<Q>>>, RecvError> {
        self.next_part_by(Some(deadline))
    }

    fn next_part_by(
        &mut self,
        deadline: Option<Deadline>,
    ) -> Result<Poll<Option<Part<Q>>>, RecvError> {
        let found = loop {
            match self.raw.look_for_part()? {
                Some(found) => break found,
                None if self.raw.wait_for_part(deadline)? => {}
                None => return Ok(Poll::Pending),
            }
        };
        let Some(object) = found else {
            self.raw.tell_parts_end();
            return Ok(Poll::Ready(None));
        };
        if !Q::METADATA.fits(object.len()) {
            return Err(RecvError::Encoding(Q::METADATA.other_length()));
        }
        Ok(Poll::Ready(Some(Part { bytes: Bytes::Object(object), _type: PhantomData })))
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Stream<Q, R> {
    /// Returns the next part of the request, between two replies, as [`Request::next_part`] does.
    ///
    /// # Errors
    /// The errors of [`Request::next_part`].
    ///
    /// # If a process dies
    /// The same as with [`Request::next_part`].
    pub fn next_part(&mut self) -> Result<Option<Part<Q>>, RecvError> {
        self.request.next_part()
    }

    /// Looks for the next part, as [`Request::try_next_part`] does.
    ///
    /// # Errors
    /// The errors of [`Request::next_part`].
    ///
    /// # If a process dies
    /// The same as with [`Request::next_part`].
    pub fn try_next_part(&mut self) -> Result<Poll<Option<Part<Q>>>, RecvError> {
        self.request.try_next_part()
    }

    /// Returns the next part, waiting for one as long as `span`, as [`Request::next_part_timeout`] does.
    ///
    /// # Errors
    /// The errors of [`Request::next_part`].
    ///
    /// # If a process dies
    /// The same as with [`Request::next_part`].
    pub fn next_part_timeout(
        &mut self,
        span: Duration,
    ) -> Result<Poll<Option<Part<Q>>>, RecvError> {
        self.request.next_part_timeout(span)
    }

    /// Returns the next part, waiting for one until the deadline, as [`Request::next_part_until`] does.
    ///
    /// # Errors
    /// The errors of [`Request::next_part`].
    ///
    /// # If a process dies
    /// The same as with [`Request::next_part`].
    pub fn next_part_until(
        &mut self,
        deadline: Deadline,
    ) -> Result<Poll<Option<Part<Q>>>, RecvError> {
        self.request.next_part_until(deadline)
    }

    /// Returns the request, for bindings.
    ///
    /// # Safety
    /// The caller leaves the request in its place: the replies that the stream has counted are its.
    #[doc(hidden)]
    pub unsafe fn request_mut(&mut self) -> &mut Request<Q, R> {
        &mut self.request
    }
}

impl RawRequest {
    /// Takes the next part, if it is there. `None`: not yet. `Some(None)`: there are no more.
    fn look_for_part(&self) -> Result<Option<Option<InPlace>>, RecvError> {
        let words = self.call()?.words;
        let parts = words.parts();
        // Behind that load: the client gives the slot to another call only after the claim has said so.
        let is_ours = || words.claim() == Claim::taken(self.number, self.process);
        if parts.number() != self.number {
            // A request without parts, or one whose client has let go of it, and asked again.
            return if is_ours() { Ok(Some(None)) } else { Err(RecvError::Cancelled) };
        }
        let taken = words.parts_taken(self.number);
        match parts.beyond(taken) {
            0 if parts.is_end() => Ok(Some(None)),
            0 => Ok(None),
            there if there <= RING => self.take_part(taken).map(|part| Some(Some(part))),
            // What has been taken is of another call by now.
            _ if !is_ours() => Err(RecvError::Cancelled),
            _ => Err(self.service.segment().damaged("a request's parts").into()),
        }
    }

    /// Does steps 1 to 3 for the part of that number.
    fn take_part(&self, number: u32) -> Result<InPlace, RecvError> {
        let me = self.enter().map_err(|error| match error {
            SendError::System(error) => RecvError::System(error),
            _ => RecvError::NotOwner,
        })?;
        let call = self.call()?;
        // An error leaves the part where it is.
        let found = self.service.found_part(call, number)?;
        let relay = WakeRelay::begin(me.list());
        if !call.words.begin_writing(&relay, self.number, self.process, me.id) {
            return Err(RecvError::Cancelled);
        }
        // The place was this call's: the claim has said TAKEN since it was read.
        let part = match found {
            Some(found) => match found.object {
                Some(object) => {
                    let place = call.part_position(number);
                    InPlace::take(&self.service, object, found.len, place, self.process)
                }
                None => Err(self.service.segment().damaged("a request's part")),
            },
            None => Err(self.service.segment().damaged("a request's part")),
        };
        if !matches!(part, Err(Error::System { .. })) {
            // Damaged: the next part may be well.
            call.words.set_parts_taken(self.number, number.wrapping_add(1));
        }
        call.words.hand_back(Claim::taken(self.number, self.process));
        call.words.wake_client();
        drop(relay);
        Ok(part?)
    }

    /// Waits for the next part or the end, and returns whether one of them is there. Without a deadline
    /// it does not wait.
    #[cold]
    fn wait_for_part(&self, deadline: Option<Deadline>) -> Result<bool, RecvError> {
        let registry = self.service.queue.registry();
        let words = self.call()?.words;
        let there = || {
            let parts = words.parts();
            parts.is_end() || parts.beyond(words.parts_taken(self.number)) > 0
        };
        if let Some(deadline) = deadline {
            let changed = || there() || self.is_cancelled();
            if self.service.queue.spin_wait().spin_until(deadline, changed) && there() {
                return Ok(true);
            }
        }
        let me = registry.me()?;
        let relay = WakeRelay::begin(me.list());
        let mut out_of_time = deadline.is_none();
        let deadline = deadline.unwrap_or(Deadline::NEVER);
        loop {
            let ticket = words.space.prepare_wait();
            let slept = match self.client {
                _ if there() => Ok(Some(true)),
                Some(client) if !self.is_cancelled() => {
                    if out_of_time {
                        Ok(Some(false))
                    } else {
                        Sleep::on(registry, &[words.space.watch(ticket)])
                            .behind(&relay, &[client])
                            .until(ticket.until(deadline))
                            .map(|_| None)
                            .map_err(|errno| {
                                Error::from_errno("wait in", registry.path(), errno).into()
                            })
                    }
                }
                _ => Err(RecvError::Cancelled),
            };
            words.space.cancel_wait(ticket);
            if let Some(there) = slept? {
                return Ok(there);
            }
            out_of_time = deadline.has_passed();
        }
    }
}
