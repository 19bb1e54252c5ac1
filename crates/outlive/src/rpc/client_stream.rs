//! The client's end of a request of several parts.
//!
//! 1. `parts` = {n, 0}, before the call is asked: so the server knows that parts come.
//! 2. Fewer than eight parts lie there; else a wait, as for a reply, on `replies` and the call's owner.
//! 3. An object of the pool, held(this thread), and the bytes; a loan is owned(this process).
//! 4. In a turn: the part's place, the object's tag → the slot's, `parts` = {n, count + 1}.
//! 5. `space` is notified. After the last part: `parts` says END, and the same.
//!
//! | died after | the server | the object |
//! | --- | --- | --- |
//! | 3 | is told that the client died | held(dead) or owned(dead): `collect` |
//! | 4, the tag | the same | the slot's: freed by the process that settles the slot |
//! | 4, `parts` | takes the part first, unless the slot has been settled | the slot's, or the server's |
//!
//! parts.rs has the server's end. doc/protocols/rpc.md, proof/models/rpc_parts.pml.

use core::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use super::begin_readiness::Lack;
use super::call::{After, Claim, Ready};
use super::client::Client;
use super::client_call::Call;
use super::client_wait::Next;
use super::error::CallError;
use super::in_place::InPlace;
use super::layout::{INLINE_REQUEST, is_room};
use super::reply::Reply;
use super::told::ToldParts;
use crate::liveness::Me;
use crate::pool::ObjectRef;
use crate::queue::Counterpart;
use crate::sys::futex::Watch;
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Source, Ticket, Watched};
use crate::{Deadline, Error, Payload};

/// Sends the parts of a request, one after the other, made by [`Client::stream`]. The server takes them
/// by [`Request::next_part`](super::Request::next_part). Dropping it cancels the call.
///
/// Eight parts may be under way; then a send waits for the server. The server may reply meanwhile:
/// [`RequestStream::next_reply`] takes its replies. A client that waits for room and takes no replies, and a
/// server that waits for room for its replies and takes no parts, wait for each other; deadlines and
/// [`try_send`](RequestStream::try_send) are the way out.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-parts-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// let service = outlive::rpc::Service::<[u8], u64>::open_or_create(&domain, "store")?;
/// let (mut server, client) = (service.server()?, service.client()?);
/// let mut upload = client.stream(b"holiday.mp4")?;
/// upload.send(&[7; 100_000])?;
/// upload.send(&[8; 50_000])?;
/// let call = upload.finish()?;
///
/// let mut request = server.next()?;                   // in another process, as a rule
/// assert_eq!(*request, *b"holiday.mp4");
/// let mut len = 0;
/// while let Some(part) = request.next_part()? {
///     len += part.len() as u64;
/// }
/// request.reply(&len)?;
/// assert_eq!(call.wait()?.value(), 150_000);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If the server dies, a waiting send fails at once with [`CallError::ServerDied`]. If this client dies,
/// the server takes the parts that are there or is told at once, as when the client lets go of the call.
#[must_use = "a stream that is dropped cancels its call"]
pub struct RequestStream<'c, Q: Payload + ?Sized = [u8], R: Payload + ?Sized = [u8]> {
    call: Call<'c, R>,
    client: &'c Client<Q, R>,
    pub(super) sent: u32,
    /// Why no part is sent any more, once a send has been told.
    ended: Option<CallError>,
    /// Tells wait sets and tasks what a try goes by.
    pub(super) told: OnceLock<Arc<ToldParts>>,
    _part: PhantomData<fn(&Q)>,
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Client<Q, R> {
    /// Sends a request of which further parts follow. The request itself is the first thing that the
    /// server gets; the parts come one after the other, while the server works on it.
    ///
    /// # Errors
    /// The errors of [`Client::begin`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn stream(&self, request: &Q) -> Result<RequestStream<'_, Q, R>, CallError> {
        self.stream_until(request, Deadline::NEVER)
    }

    /// Sends a request as [`Client::stream`] does, without waiting for memory or for a server.
    ///
    /// # Errors
    /// The errors of [`Client::try_begin`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn try_stream(&self, request: &Q) -> Result<RequestStream<'_, Q, R>, CallError> {
        self.stream_until(request, Deadline::at_nanos(0))
    }

    /// Sends a request as [`Client::stream`] does, waiting as long as `span` for memory or for a
    /// server.
    ///
    /// # Errors
    /// The errors of [`Client::begin_timeout`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn stream_timeout(
        &self,
        request: &Q,
        span: Duration,
    ) -> Result<RequestStream<'_, Q, R>, CallError> {
        self.stream_until(request, Deadline::after(span))
    }

    /// Sends a request as [`Client::stream`] does, waiting until the deadline for memory or for a
    /// server.
    ///
    /// # Errors
    /// The errors of [`Client::begin_until`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn stream_until(
        &self,
        request: &Q,
        deadline: Deadline,
    ) -> Result<RequestStream<'_, Q, R>, CallError> {
        let bytes = request.bytes();
        let me = self.slots.me()?;
        let call = if bytes.len() > INLINE_REQUEST {
            self.begin_large(me, bytes, deadline, |call, number| {
                call.words.set_parts(Ready::new(number, 0, After::More));
            })?
        } else {
            let ask = || {
                self.ask(me, bytes.len(), |call, number| {
                    call.words.set_parts(Ready::new(number, 0, After::More));
                    // SAFETY: the slot is free: its call is over, and the server's thread has stopped
                    // reading and writing there. The request is short.
                    unsafe { call.write_request(bytes) };
                    Ok(())
                })
            };
            match ask() {
                Ok(call) => call,
                Err(error) => self.begin_slow(me, error, deadline, ask)?,
            }
        };
        let (call, client, told) = (call.of_parts(), self, OnceLock::new());
        Ok(RequestStream { call, client, sent: 0, ended: None, told, _part: PhantomData })
    }

    /// Sends a request as [`Client::stream`] does; the stream, and the call that it becomes, keep their
    /// client, and borrow nothing: for tasks and threads of their own.
    ///
    /// # Errors
    /// The errors of [`Client::begin`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn stream_owned(
        self: &Arc<Self>,
        request: &Q,
    ) -> Result<RequestStream<'static, Q, R>, CallError>
    where
        Q: 'static,
        R: 'static,
    {
        self.stream_owned_until(request, Deadline::NEVER)
    }

    /// Sends a request as [`Client::stream_owned`] does, without waiting.
    ///
    /// # Errors
    /// The errors of [`Client::try_begin`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn try_stream_owned(
        self: &Arc<Self>,
        request: &Q,
    ) -> Result<RequestStream<'static, Q, R>, CallError>
    where
        Q: 'static,
        R: 'static,
    {
        self.stream_owned_until(request, Deadline::at_nanos(0))
    }

    /// Sends a request as [`Client::stream_owned`] does, waiting as long as `span` for memory or for a
    /// server.
    ///
    /// # Errors
    /// The errors of [`Client::begin_timeout`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn stream_owned_timeout(
        self: &Arc<Self>,
        request: &Q,
        span: Duration,
    ) -> Result<RequestStream<'static, Q, R>, CallError>
    where
        Q: 'static,
        R: 'static,
    {
        self.stream_owned_until(request, Deadline::after(span))
    }

    /// Sends a request as [`Client::stream_owned`] does, waiting until the deadline for memory or for a
    /// server.
    ///
    /// # Errors
    /// The errors of [`Client::begin_until`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn stream_owned_until(
        self: &Arc<Self>,
        request: &Q,
        deadline: Deadline,
    ) -> Result<RequestStream<'static, Q, R>, CallError>
    where
        Q: 'static,
        R: 'static,
    {
        // SAFETY: an Arc's value does not move as long as an Arc of it exists. All that borrows from
        // this is the stream and its call, which gets an Arc here, and drops it after all else; the
        // stream's own reference is not used when it is dropped.
        let client: &'static Client<Q, R> = unsafe { &*Arc::as_ptr(self) };
        let mut stream = client.stream_until(request, deadline)?;
        stream.call = stream.call.keeping(Arc::clone(self) as _);
        Ok(stream)
    }
}

impl<'c, Q: Payload + ?Sized, R: Payload + ?Sized> RequestStream<'c, Q, R> {
    /// Sends a part, waiting while eight are under way, or while the service's memory is in use.
    ///
    /// # Errors
    /// [`CallError::Answered`] when the server has replied already, or failed the request: see
    /// [`RequestStream::finish`]. [`CallError::TooLarge`], after which the stream goes on; else the
    /// errors of [`Call::next`].
    ///
    /// # If a process dies
    /// If the server dies, this fails at once with [`CallError::ServerDied`].
    pub fn send(&mut self, part: &Q) -> Result<(), CallError> {
        self.send_until(part, Deadline::NEVER)
    }

    /// Sends a part, and never waits.
    ///
    /// # Errors
    /// The errors of [`RequestStream::send`], and [`CallError::TimedOut`] when it would have to wait;
    /// the stream goes on then.
    ///
    /// # If a process dies
    /// The same as with [`RequestStream::send`].
    pub fn try_send(&mut self, part: &Q) -> Result<(), CallError> {
        self.make_room(None)?;
        self.send_next(part, Deadline::at_nanos(0))
    }

    /// Sends a part, waiting as long as `span`.
    ///
    /// # Errors
    /// The errors of [`RequestStream::send`], and [`CallError::TimedOut`], after which the stream goes
    /// on.
    ///
    /// # If a process dies
    /// The same as with [`RequestStream::send`].
    pub fn send_timeout(&mut self, part: &Q, span: Duration) -> Result<(), CallError> {
        self.send_until(part, Deadline::after(span))
    }

    /// Sends a part, waiting until the deadline.
    ///
    /// # Errors
    /// The errors of [`RequestStream::send_timeout`].
    ///
    /// # If a process dies
    /// The same as with [`RequestStream::send`].
    pub fn send_until(&mut self, part: &Q, deadline: Deadline) -> Result<(), CallError> {
        self.make_room(Some(deadline))?;
        self.send_next(part, deadline)
    }

    /// Says that no more parts come, and returns the call, which waits for the reply. Never waits. Also
    /// after [`CallError::Answered`] the call has the reply.
    ///
    /// # Errors
    /// The error that has ended the call, if a send has returned one already;
    /// [`CallError::NotClient`], [`CallError::System`].
    ///
    /// # If a process dies
    /// If a send has been told, this fails with the same error; else the call does.
    pub fn finish(self) -> Result<Call<'c, R>, CallError> {
        if let Some(ended) = self.ended {
            return Err(ended);
        }
        if let Some(told) = self.told.get() {
            told.finish();
        }
        if !self.call.is_over() {
            let ended = Ready::new(self.call.number, self.sent, After::End);
            let turn = self.call.client.inside(self.call.slot.slot)?;
            self.call.slot.words.set_parts(ended);
            drop(turn);
            self.call.slot.words.wake_server();
            if self.told.get().is_some() {
                // A thread of this process that waits for room: no room comes.
                self.call.slot.words.wake_client();
            }
        }
        Ok(self.call)
    }

    /// Cancels the call, and returns whether a server had begun it. If not, none will.
    ///
    /// # If a process dies
    /// The same as with [`Call::cancel`].
    pub fn cancel(self) -> bool {
        self.call.cancel()
    }

    /// Returns the next reply, waiting for one, as [`Call::next`] does: a server may reply before it has
    /// all parts.
    ///
    /// # Errors
    /// The errors of [`Call::next`].
    ///
    /// # If a process dies
    /// The same as with [`Call::next`].
    pub fn next_reply(&mut self) -> Result<Option<Reply<R>>, CallError> {
        self.call.next()
    }

    /// Looks for the next reply, as [`Call::try_next`] does.
    ///
    /// # Errors
    /// The errors of [`Call::next`].
    ///
    /// # If a process dies
    /// The same as with [`Call::next`].
    pub fn try_next_reply(&mut self) -> Result<Poll<Option<Reply<R>>>, CallError> {
        self.call.try_next()
    }

    /// Returns the next reply, waiting for one as long as `span`, as [`Call::next_timeout`] does.
    ///
    /// # Errors
    /// The errors of [`Call::next`].
    ///
    /// # If a process dies
    /// The same as with [`Call::next`].
    pub fn next_reply_timeout(
        &mut self,
        span: Duration,
    ) -> Result<Poll<Option<Reply<R>>>, CallError> {
        self.call.next_timeout(span)
    }

    /// Returns the next reply, waiting for one until the deadline, as [`Call::next_until`] does.
    ///
    /// # Errors
    /// The errors of [`Call::next`].
    ///
    /// # If a process dies
    /// The same as with [`Call::next`].
    pub fn next_reply_until(
        &mut self,
        deadline: Deadline,
    ) -> Result<Poll<Option<Reply<R>>>, CallError> {
        self.call.next_until(deadline)
    }

    /// Returns the call: a wait set takes it, or this stream, for its replies.
    pub fn call(&self) -> &Call<'c, R> {
        &self.call
    }

    /// Returns the call, for bindings.
    ///
    /// # Safety
    /// The caller leaves the call in its place: what the stream has counted and keeps is that call's.
    #[doc(hidden)]
    pub unsafe fn call_mut(&mut self) -> &mut Call<'c, R> {
        &mut self.call
    }

    pub(crate) fn client(&self) -> &'c Client<Q, R> {
        self.client
    }

    /// Returns whether fewer than eight parts lie there.
    fn has_room(&self) -> Result<bool, CallError> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        let (words, number) = (self.call.slot.words, self.call.number);
        let ready = words.ready();
        if self.call.is_over() || ready.number() == number && ready.is_end() {
            return Err(CallError::Answered);
        }
        Ok(is_room(self.sent, words.parts_taken(number)))
    }

    /// Waits until fewer than eight parts lie there. Without a deadline it does not wait.
    fn make_room(&mut self, deadline: Option<Deadline>) -> Result<(), CallError> {
        if self.has_room()? { Ok(()) } else { self.wait_for_room(deadline) }
    }

    /// Does steps 3 to 5.
    fn send_next(&mut self, part: &Q, deadline: Deadline) -> Result<(), CallError> {
        let bytes = part.bytes();
        let me = self.call.client.me_of_owner()?;
        let object =
            self.with_memory(me, |client, server| client.copied(me, bytes, deadline, server))?;
        let call = &self.call;
        let queue = &call.client.service.queue;
        let put = call.client.inside(call.slot.slot).and_then(|_turn| {
            call.slot.write_part(self.sent, &object, bytes.len());
            queue.put(me, &object, call.slot.part_position(self.sent))?;
            self.tell_sent();
            Ok(())
        });
        if put.is_err() {
            queue.free_held(me, &object)?;
        }
        put?;
        self.sent = self.sent.wrapping_add(1);
        call.slot.words.wake_server();
        Ok(())
    }

    /// Says that the part whose place is written is sent.
    fn tell_sent(&self) {
        let count = self.sent.wrapping_add(1);
        if let Some(told) = self.told.get() {
            told.set_sent(count);
        }
        self.call.slot.words.set_parts(Ready::new(self.call.number, count, After::More));
    }

    /// Takes memory for a part that is written in place.
    pub(super) fn lend_object(
        &mut self,
        len: usize,
        deadline: Option<Deadline>,
    ) -> Result<InPlace, CallError> {
        self.make_room(deadline)?;
        let deadline = deadline.unwrap_or(Deadline::at_nanos(0));
        let me = self.call.client.me_of_owner()?;
        let (service, process) = (&self.call.client.service, self.call.client.process);
        if let Some(spare) = InPlace::again(service, len, process) {
            if let Some(told) = self.told.get() {
                told.note(None);
            }
            return Ok(spare);
        }
        let object =
            self.with_memory(me, |client, server| client.allocate(me, len, deadline, server))?;
        // A death just before: held(dead).
        Ok(InPlace::own(service, me, object, len, process)?)
    }

    /// Does steps 4 and 5 for a part that has been written in place; then [`InPlace::sent`] must be
    /// called.
    pub(super) fn send_object(&mut self, object: &InPlace) -> Result<(), CallError> {
        // Since it was lent the server may have replied, and, of bindings' loans, other parts have gone.
        self.make_room(None)?;
        let call = &self.call;
        object.check_of(&call.client.service, call.client.process)?;
        call.client.me_of_owner()?;
        call.client.inside(call.slot.slot).and_then(|_turn| {
            call.slot.write_part(self.sent, object.object(), object.len());
            object.put(call.slot.part_position(self.sent))?;
            self.tell_sent();
            Ok(())
        })?;
        self.sent = self.sent.wrapping_add(1);
        call.slot.words.wake_server();
        Ok(())
    }

    /// Takes memory by `take`, which waits for it as long as the call goes on.
    fn with_memory(
        &mut self,
        me: Me,
        take: impl Fn(&Client<Q, R>, &mut Sending<'_, 'c, Q, R>) -> Result<ObjectRef, CallError>,
    ) -> Result<ObjectRef, CallError> {
        let client = self.client;
        let mut taken = take(client, &mut Sending { stream: self, me, seen: None });
        if let Some(told) = self.told.get().cloned() {
            let is_missing = |taken: &_| matches!(taken, Err(CallError::TimedOut { .. }));
            if is_missing(&taken) {
                told.note(Some(Lack::begin(&client.slots.service)));
                taken = take(client, &mut Sending { stream: self, me, seen: None });
            }
            if !is_missing(&taken) {
                told.note(None);
            }
        }
        if let Err(CallError::TimedOut { .. }) = taken {
            // What ends the call comes before what the caller may try again.
            self.has_room()?;
            self.check(me)?;
            return Err(CallError::TimedOut { begun: self.call.is_begun() });
        }
        taken
    }

    /// Returns the claim that the call has, and what a wait for its server sleeps on; fails when no
    /// server goes on with it.
    #[cold]
    fn check(&mut self, me: Me) -> Result<(Claim, Next), CallError> {
        let seen = self.call.slot.words.claim();
        let next = if self.call.is_anything_ready() {
            // Replies that the caller has not taken: it gets them from the call, also when their
            // server is dead.
            match seen.owner() {
                Some(owner) if me.is_alive(owner) => Next::Watch(owner),
                _ => {
                    // It may have replied in full since the caller looked for that, and ended: the
                    // END comes before the end of its thread.
                    self.has_room()?;
                    return Err(CallError::ServerDied { begun: true });
                }
            }
        } else {
            self.call.judge(me, seen)?
        };
        match next {
            Next::Over(error) => {
                self.ended = Some(error.clone());
                Err(error)
            }
            next => Ok((seen, next)),
        }
    }

    /// Waits for room. Without a deadline it does not wait.
    #[cold]
    fn wait_for_room(&mut self, deadline: Option<Deadline>) -> Result<(), CallError> {
        let me = self.call.client.me_of_owner()?;
        let words = self.call.slot.words;
        if let Some(deadline) = deadline {
            let changed = || !matches!(self.has_room(), Ok(false));
            let spun = self.call.client.service.queue.spin_wait().spin_until(deadline, changed);
            if spun && self.has_room()? {
                return Ok(());
            }
        }
        let relay = WakeRelay::begin(me.list());
        let mut out_of_time = deadline.is_none();
        let deadline = deadline.unwrap_or(Deadline::NEVER);
        loop {
            let ticket = self.call.prepare_wait();
            let slept = (|| {
                if self.has_room()? {
                    return Ok(true);
                }
                let (seen, next) = self.check(me)?;
                if out_of_time {
                    return Err(CallError::TimedOut { begun: self.call.is_begun() });
                }
                self.call.sleep(&relay, None, ticket, seen, next, deadline)?;
                Ok(false)
            })();
            words.replies.cancel_wait(ticket);
            if slept? {
                return Ok(());
            }
            out_of_time = deadline.has_passed();
        }
    }
}

/// Ready when [`RequestStream::try_next_reply`] has something to return, as a [`Call`] is.
impl<Q: Payload + ?Sized, R: Payload + ?Sized> Source for RequestStream<'_, Q, R> {
    fn watched(&self) -> Result<Watched, Error> {
        self.call.watched()
    }
}

/// What makes room for a part: the call's server. What fills the memory may be the call's own parts, which
/// a server that is dead, or has replied, never takes: the wait ends when the call does.
struct Sending<'s, 'c, Q: Payload + ?Sized, R: Payload + ?Sized> {
    stream: &'s mut RequestStream<'c, Q, R>,
    me: Me,
    /// The wait that is prepared on `replies`, and what the sleep is behind.
    seen: Option<(Ticket, Claim, Next)>,
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Counterpart for Sending<'_, '_, Q, R> {
    type Error = CallError;

    fn judge(&mut self) -> Result<bool, CallError> {
        let ticket = self.stream.call.prepare_wait();
        self.stream.has_room()?;
        let (seen, next) = self.stream.check(self.me)?;
        self.seen = Some((ticket, seen, next));
        // What a dead server has left is looked for once a second.
        Ok(false)
    }

    fn sleep(
        &mut self,
        relay: &WakeRelay,
        room: Watch<'_>,
        deadline: Deadline,
    ) -> Result<Asleep, CallError> {
        let Some((ticket, seen, next)) = self.seen.take() else { return Ok(Asleep::LookAgain) };
        let call = &self.stream.call;
        let slept = call.sleep(relay, Some(room), ticket, seen, next, deadline);
        call.slot.words.replies.cancel_wait(ticket);
        slept
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> std::fmt::Debug for RequestStream<'_, Q, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestStream").field("sent", &self.sent).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::Lack;
    use crate::rpc::{CallError, Service};
    use crate::{Deadline, Domain};

    #[test]
    fn memory_that_was_found_is_not_missing() {
        let folder = std::env::temp_dir().join(format!("outlive-found-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
        let (_server, client) =
            (service.server().expect("none yet"), service.client().expect("room"));
        let mut stream = client.stream(b"much").expect("sent");
        let _room = stream.room();
        let me = domain.me().expect("a token");
        // Some is freed between the two tries.
        let tries = Cell::new(0);
        let object = stream.with_memory(me, |client, server| {
            tries.set(tries.get() + 1);
            match tries.get() {
                1 => Err(CallError::TimedOut { begun: false }),
                _ => client.allocate(me, 5_000, Deadline::at_nanos(0), server),
            }
        });
        client.slots.service.queue.free_held(me, &object.expect("the second try")).expect("freed");
        let told = stream.told.get().expect("there is a room").clone();
        assert_eq!((tries.get(), told.lack().is_some()), (2, false));
        // A spare serves a loan: it was kept before the lack, of which its keeper would see the wait.
        drop(stream.try_loan(5_000).expect("memory"));
        told.note(Some(Lack::begin(&client.slots.service)));
        drop(stream.try_loan(5_000).expect("a spare"));
        assert!(told.lack().is_none());
        let _ = std::fs::remove_dir_all(&folder);
    }

    #[test]
    fn a_thread_that_has_replied_in_full_and_ended_is_no_dead_server() {
        let folder = std::env::temp_dir().join(format!("outlive-in-full-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
        let (mut server, client) =
            (service.server().expect("none yet"), service.client().expect("room"));
        let mut stream = client.stream(b"asked").expect("sent");
        assert!(stream.has_room().expect("no reply yet"));
        let replying = || {
            let mut replies = server.next().expect("served").stream();
            replies.send(b"a reply").expect("room");
            replies.finish().expect("it waits");
        };
        std::thread::scope(|scope| scope.spawn(replying).join()).expect("joined");
        // A client that was stopped behind its look for room.
        let me = domain.me().expect("a token");
        assert!(matches!(stream.check(me), Err(CallError::Answered)));
        assert_eq!(stream.next_reply().expect("it came").as_deref(), Some(&b"a reply"[..]));
        let _ = std::fs::remove_dir_all(&folder);
    }
}
