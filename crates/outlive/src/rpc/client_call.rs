//! A call in flight: taking its replies, and letting go of it. `client_wait.rs` has the wait for the next
//! reply.
//!
//! proof/models/rpc.pml.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use super::call::{After, Ready, State, TRIES, next};
use super::error::CallError;
use super::in_place::InPlace;
use super::layout::{CallSlot, INLINE_REQUEST, RING};
use super::own_slots::{OwnSlots, Turn};
use super::readiness::CallReadiness;
use super::reply::{Bytes, Reply};
use crate::shim::Ordering;
use crate::wake::{Source, Watched};
use crate::{Deadline, Error, Payload};

/// A call in flight, made by [`Client::begin`](super::Client::begin); it waits for the replies.
/// Dropping it cancels the call: if no server has begun it, none will.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-call-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// # let service = outlive::rpc::Service::<[u8], [u8]>::open_or_create(&domain, "count")?;
/// # let (mut server, client) = (service.server()?, service.client()?);
/// let mut call = client.begin(b"3")?;
/// let mut stream = server.next()?.stream();           // in another process, as a rule
/// for number in 0..3u8 {
///     stream.send(&[number])?;
/// }
/// stream.finish()?;
/// let mut numbers = Vec::new();
/// while let Some(reply) = call.next()? {
///     numbers.push(reply[0]);
/// }
/// assert_eq!(numbers, [0, 1, 2]);
/// assert!(call.is_over());
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If the server dies, a waiting client is told at once, and another one the next time that it
/// asks. Replies that had arrived are returned first.
#[must_use = "a call that is dropped is cancelled"]
pub struct Call<'c, R: Payload + ?Sized = [u8]> {
    pub(super) client: &'c OwnSlots,
    pub(super) slot: CallSlot<'c>,
    pub(super) number: u64,
    /// The number of replies taken.
    pub(super) taken: u32,
    is_over: bool,
    /// Whether parts of the request may lie in the slot. Then there is `told_over`.
    has_parts: bool,
    /// Tells wait sets that the call is over.
    told_over: OnceLock<Arc<AtomicBool>>,
    _reply: PhantomData<fn(&R)>,
    /// Of an owned call: its client. Dropped after all that uses it.
    keep: Option<Arc<dyn Send + Sync>>,
}

impl<'c, R: Payload + ?Sized> Call<'c, R> {
    #[inline]
    pub(super) fn new(client: &'c OwnSlots, slot: CallSlot<'c>, number: u64) -> Call<'c, R> {
        let (told_over, _reply, keep) = (OnceLock::new(), PhantomData, None);
        let (taken, is_over, has_parts) = (0, false, false);
        Call { client, slot, number, taken, is_over, has_parts, told_over, _reply, keep }
    }

    /// Returns the call, of which parts are sent.
    pub(super) fn of_parts(mut self) -> Call<'c, R> {
        self.has_parts = true;
        // So the end of a plain call asks for nothing more than it does anyway.
        self.told_over.get_or_init(Arc::default);
        self
    }

    /// Returns the call with what it borrows from.
    pub(super) fn keeping(mut self, client: Arc<dyn Send + Sync>) -> Call<'c, R> {
        self.keep = Some(client);
        self
    }

    /// Waits for the reply and returns it; of several, the first.
    ///
    /// # Errors
    /// The errors of [`Client::call`](super::Client::call).
    ///
    /// # If a process dies
    /// The same as with [`Client::call`](super::Client::call).
    #[inline]
    pub fn wait(mut self) -> Result<Reply<R>, CallError> {
        self.next()?.ok_or(CallError::Dropped)
    }

    /// Waits for the reply as long as `span` and returns it; then it cancels the call.
    ///
    /// # Errors
    /// The errors of [`Client::call_timeout`](super::Client::call_timeout).
    ///
    /// # If a process dies
    /// The same as with [`Client::call`](super::Client::call).
    pub fn wait_timeout(self, span: Duration) -> Result<Reply<R>, CallError> {
        self.wait_until(Deadline::after(span))
    }

    /// Waits for the reply until the deadline and returns it; then it cancels the call.
    ///
    /// # Errors
    /// The errors of [`Client::call_timeout`](super::Client::call_timeout).
    ///
    /// # If a process dies
    /// The same as with [`Client::call`](super::Client::call).
    #[inline]
    pub fn wait_until(mut self, deadline: Deadline) -> Result<Reply<R>, CallError> {
        match self.next_until(deadline)? {
            Poll::Ready(reply) => reply.ok_or(CallError::Dropped),
            // Whether it was begun is known once the call is over.
            Poll::Pending => Err(CallError::TimedOut { begun: self.cancel() }),
        }
    }

    /// Returns the next reply, waiting for one; `None` after the last. A call with a single reply
    /// has one.
    ///
    /// # Errors
    /// The errors of [`Client::call`](super::Client::call). [`CallError::Dropped`] when the server
    /// dropped the request, or the stream, without its last reply; [`CallError::Failed`] when it
    /// said why. Replies that were sent before are returned first.
    ///
    /// # If a process dies
    /// The same as with [`Client::call`](super::Client::call).
    #[expect(clippy::should_implement_trait, reason = "it waits, and fails")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Reply<R>>, CallError> {
        match self.look()? {
            Some(found) => Ok(found),
            None => self.wait_slow(Some(Deadline::NEVER)),
        }
    }

    /// Looks for the next reply, and never waits: [`Poll::Pending`] when none is there yet, else
    /// what [`Call::next`] returns. (That the replies have ended and that the next one has not
    /// come yet are two things, so an `Option` would not do.)
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-try-next-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # let service = outlive::rpc::Service::<[u8], [u8]>::open_or_create(&domain, "count")?;
    /// # let (mut server, client) = (service.server()?, service.client()?);
    /// use std::task::Poll;
    /// let mut call = client.begin(b"2")?;
    /// assert!(call.try_next()?.is_pending());
    /// server.next()?.reply(b"4")?;                        // in another process, as a rule
    /// let Poll::Ready(Some(reply)) = call.try_next()? else { panic!("the reply is there") };
    /// assert_eq!(*reply, *b"4");
    /// assert!(matches!(call.try_next()?, Poll::Ready(None)), "it was the last one");
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Call::next`].
    ///
    /// # If a process dies
    /// The same as with [`Call::next`].
    pub fn try_next(&mut self) -> Result<Poll<Option<Reply<R>>>, CallError> {
        match self.look()? {
            Some(found) => Ok(Poll::Ready(found)),
            None => poll(self.wait_slow(None)),
        }
    }

    /// Returns the next reply, waiting for one as long as `span`; [`Poll::Pending`] when that has
    /// passed. The call goes on then, and may be waited for again.
    ///
    /// # Errors
    /// The errors of [`Call::next`].
    ///
    /// # If a process dies
    /// The same as with [`Call::next`].
    pub fn next_timeout(&mut self, span: Duration) -> Result<Poll<Option<Reply<R>>>, CallError> {
        self.next_until(Deadline::after(span))
    }

    /// Returns the next reply, waiting for one until the deadline; [`Poll::Pending`] when that has
    /// passed. The call goes on then, and may be waited for again.
    ///
    /// # Errors
    /// The errors of [`Call::next`].
    ///
    /// # If a process dies
    /// The same as with [`Call::next`].
    #[inline]
    pub fn next_until(&mut self, deadline: Deadline) -> Result<Poll<Option<Reply<R>>>, CallError> {
        match self.look()? {
            Some(found) => Ok(Poll::Ready(found)),
            None => poll(self.wait_slow(Some(deadline))),
        }
    }

    /// Returns whether the call is over: its last reply was taken, or it ended by an error.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns whether a server has begun the call. If not, it may do so at any moment.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.is_over || next(self.slot.words.claim().number()) != self.number
    }

    /// Cancels the call, and returns whether a server had begun it. If not, none will.
    ///
    /// # If a process dies
    /// If this process dies, its calls are cancelled.
    pub fn cancel(mut self) -> bool {
        self.let_go()
    }

    /// Does step 1. `None`: nothing yet.
    #[inline]
    pub(super) fn look(&mut self) -> Result<Option<Option<Reply<R>>>, CallError> {
        if self.is_over {
            return Ok(Some(None));
        }
        let ready = self.slot.words.ready();
        if ready.number() != self.number {
            return Ok(None);
        }
        match ready.beyond(self.taken) {
            0 if !ready.is_end() => Ok(None),
            0 if ready.is_dropped() => Err(self.unanswered(ready)),
            0 => {
                self.finish();
                Ok(Some(None))
            }
            there if there <= RING => self.take(ready, there).map(|reply| Some(Some(reply))),
            _ => Err(self.damaged()),
        }
    }

    /// Ends the call, which has no last reply, and returns why.
    #[cold]
    fn unanswered(&mut self, ready: Ready) -> CallError {
        if !ready.is_failed() {
            self.finish();
            return CallError::Dropped;
        }
        let service = &self.client.service;
        // An error leaves the text where it is.
        let found = match service.found_failure(self.slot) {
            Ok(Some(found)) => found,
            Ok(None) => return self.damaged(),
            Err(error) => return error.into(),
        };
        // SAFETY: `found_failure` has checked that `len` bytes lie there; the server writes there no
        // more, because the call has ended.
        let text = unsafe { Bytes::copy(found.bytes, found.len) };
        if let Some(object) = &found.object {
            // A death just before: the process that settles the slot frees it, once.
            let freed = self.client.inside(self.slot.slot).and_then(|_turn| {
                Ok(service.queue.free_put(object, self.slot.failure_position())?)
            });
            if let Err(error) = freed {
                return error;
            }
        }
        self.finish();
        CallError::Failed(String::from_utf8_lossy(&text).into_owned())
    }

    #[inline]
    fn take(&mut self, ready: Ready, there: u32) -> Result<Reply<R>, CallError> {
        let service = &self.client.service;
        // An error leaves the reply where it is.
        let Some(found) = service.found(self.slot, self.taken)? else { return Err(self.damaged()) };
        let is_last = there == 1 && ready.is_end() && !ready.is_dropped();
        let (bytes, mut turn) = match found.object {
            None => {
                // SAFETY: `found` has checked that `len` bytes lie there; the server writes there
                // again only when the reply is taken.
                let bytes = unsafe { Bytes::copy(found.bytes, found.len) };
                if is_last {
                    self.finish();
                    return Reply::new(bytes);
                }
                (bytes, self.client.inside(self.slot.slot)?)
            }
            Some(object) => {
                let turn = self.client.inside(self.slot.slot)?;
                // A death just before: the process that settles the slot frees it. Just after: it is
                // the dead client's, for `collect`.
                let place = self.slot.reply_position(self.taken);
                let process = self.client.process;
                match InPlace::take(service, object, found.len, place, process) {
                    Ok(taken) => (Bytes::Object(taken), turn),
                    Err(Error::Damaged { .. }) => {
                        drop(turn);
                        return Err(self.damaged());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        self.taken = self.taken.wrapping_add(1);
        if is_last {
            self.finish_in(&mut turn);
        } else {
            // Release: the server may write to the place in the ring again. Pairs with the server's
            // look.
            let taken = Ready::new(self.number, self.taken, After::More);
            self.slot.words.taken.store(taken.0, Ordering::Release);
            drop(turn);
            self.slot.words.wake_server();
        }
        Reply::new(bytes)
    }

    #[inline]
    fn end(&mut self) {
        self.is_over = true;
        if let Some(told) = self.told_over.get() {
            told.store(true, StdOrdering::Relaxed);
        }
    }

    /// Ends a call of which wait sets know, or parts were sent, in a turn.
    #[cold]
    fn finish_told(&mut self, turn: &mut Turn<'_>) {
        self.end();
        // Parts that the server has not taken. One that could not be freed is freed when the slot is
        // settled.
        if self.has_parts && self.client.service.free_parts(self.slot).is_err() {
            turn.park(self.slot.slot);
        } else {
            turn.give_back(self.slot.slot, self.number);
        }
    }

    /// For a wait set.
    pub(crate) fn readiness(&self) -> CallReadiness {
        let over = self.told_over.get_or_init(|| Arc::new(AtomicBool::new(self.is_over)));
        let service = self.client.service.clone();
        CallReadiness::new(
            service,
            self.slot.slot,
            self.number,
            self.client.waits_for_server(),
            Arc::clone(over),
        )
    }

    #[inline]
    fn finish(&mut self) {
        if self.told_over.get().is_some() {
            return self.finish_slow();
        }
        self.is_over = true;
        // The server has read the request, and the next one is written there: its lines come while the
        // caller looks at the reply.
        self.slot.fetch_request();
        self.client.give_back(self.slot.slot, self.number);
    }

    #[cold]
    fn finish_slow(&mut self) {
        match self.client.inside(self.slot.slot) {
            Ok(mut turn) => self.finish_told(&mut turn),
            // A thread that gets no token. A forked child's copy has no slot to park.
            Err(_) => {
                self.end();
                self.client.park(self.slot.slot);
            }
        }
    }

    /// Does [`Call::finish`] in a turn.
    fn finish_in(&mut self, turn: &mut Turn<'_>) {
        if self.told_over.get().is_some() {
            return self.finish_told(turn);
        }
        self.is_over = true;
        turn.give_back(self.slot.slot, self.number);
    }

    #[cold]
    pub(super) fn damaged(&mut self) -> CallError {
        self.end();
        self.client.park(self.slot.slot);
        self.client.service.segment().damaged("a reply").into()
    }

    /// The call is CANCELLED, and no server had begun it.
    pub(super) fn take_back(&mut self, turn: &mut Turn<'_>) {
        let freed = match self.slot.question.asked().len() {
            0..=INLINE_REQUEST => Ok(()),
            _ => self.client.service.free_request(self.slot),
        };
        let freed = match self.has_parts {
            true => freed.and(self.client.service.free_parts(self.slot)),
            false => freed,
        };
        self.finish_freed(turn, freed);
    }

    /// The call is CANCELLED: frees the objects in its slot.
    pub(super) fn free_rest(&mut self, turn: &mut Turn<'_>) {
        let freed = self.client.service.free_objects(self.slot);
        self.finish_freed(turn, freed);
    }

    /// An object that could not be freed is freed when the slot is settled: no word leads to it
    /// once the slot is used again.
    fn finish_freed(&mut self, turn: &mut Turn<'_>, freed: Result<(), Error>) {
        match freed {
            Ok(()) => self.finish_in(turn),
            Err(_) => self.park_in(turn),
        }
    }

    /// Ends the call, whose slot is settled later.
    fn park_in(&mut self, turn: &mut Turn<'_>) {
        self.end();
        turn.park(self.slot.slot);
    }

    /// Lets go of the call; returns whether it was begun.
    #[cold]
    fn let_go(&mut self) -> bool {
        if self.is_over {
            return true;
        }
        let (Ok(me), Ok(mut turn)) = (self.client.me(), self.client.inside(self.slot.slot)) else {
            // A forked child's copy; or a thread that gets no token. That one can cancel a call that
            // is not begun, for which no name is needed, and leaves the rest to the next settling.
            let mut was_begun = true;
            if self.client.is_ours() {
                let seen = self.slot.words.claim();
                was_begun = next(seen.number()) != self.number
                    || !self.slot.words.cancel(seen, self.number);
                self.client.park(self.slot.slot);
            }
            self.end();
            return was_begun;
        };
        let words = self.slot.words;
        // A sweep may change the claim in between, and the server take the call or begin to write.
        // There is a limit because a hostile process could change it for ever.
        for _ in 0..TRIES {
            let seen = words.claim();
            let begun = seen.number() == self.number;
            let not_begun = next(seen.number()) == self.number;
            let ended = || {
                let ready = words.ready();
                ready.number() == self.number && ready.is_end()
            };
            let is_busy = seen.state() == State::Writing
                && seen.owner().is_some_and(|thread| me.is_alive(thread));
            let goes = match seen.state() {
                _ if not_begun => words.cancel(seen, self.number),
                // Damaged, or a living thread writes there.
                _ if !begun => break,
                State::Writing if ended() => true,
                State::Writing if is_busy => break,
                State::Taken | State::Writing => words.cancel(seen, self.number),
                State::Over | State::Cancelled => true,
            };
            if goes && not_begun {
                self.take_back(&mut turn);
                return false;
            }
            if goes {
                self.free_rest(&mut turn);
                return !seen.is_undone();
            }
        }
        // A server's thread writes there: a stream learns that the client wants no more, and the
        // slot is settled later.
        words.taken.store(Ready::new(self.number, self.taken, After::End).0, Ordering::Release);
        self.park_in(&mut turn);
        drop(turn);
        words.wake_server();
        true
    }
}

/// Ready when [`Call::try_next`] has something to return: a reply or the call's end
/// ([`Readiness::Readable`](crate::wait::Readiness::Readable)), or that there is no server any more
/// to reply ([`Readiness::Ended`](crate::wait::Readiness::Ended)). After the last of these it is
/// not ready again.
impl<R: Payload + ?Sized> Source for Call<'_, R> {
    fn watched(&self) -> Result<Watched, Error> {
        let readiness = self.readiness();
        let registry = readiness.registry();
        Ok(Watched::of(readiness, registry))
    }
}

impl<R: Payload + ?Sized> Drop for Call<'_, R> {
    fn drop(&mut self) {
        if !self.is_over {
            self.let_go();
        }
    }
}

/// That the time is over is no error: the call goes on.
fn poll<R: Payload + ?Sized>(
    waited: Result<Option<Reply<R>>, CallError>,
) -> Result<Poll<Option<Reply<R>>>, CallError> {
    match waited {
        Ok(found) => Ok(Poll::Ready(found)),
        Err(CallError::TimedOut { .. }) => Ok(Poll::Pending),
        Err(error) => Err(error),
    }
}
