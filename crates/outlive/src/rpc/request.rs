//! A request that a server has taken, and one reply to it.
//!
//! 1. A reply that does not fit the slot: an object of the pool is written, held(this thread), or
//!    owned(this process): a loan, or the object of the request.
//! 2. TAKEN(process) → WRITING(this thread); failed: the client wants no reply any more.
//! 3. The bytes, or the object's reference, and its tag → the slot's.
//! 4. `ready`; more to come: → TAKEN(process).
//! 5. The client sleeps: wake it.
//!
//! | died after | the client | the object |
//! | --- | --- | --- |
//! | 1 | is told | held(dead) or owned(dead): `collect` |
//! | 2, 3 | is told | the slot's: freed by the client, or by the process that settles the slot |
//! | 4 | has the reply, woken by the thread's end | the client's |
//!
//! A failure is an end without a reply, in the same steps: its text goes into a place of its own,
//! and `ready` says END, DROPPED and FAILED.
//!
//! If a thread ends alone in 2 to 5, the kernel wakes the client by `relay`.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use super::call::{After, Claim, Ready};
use super::in_place::InPlace;
use super::layout::{CallSlot, INLINE, INLINE_FAILURE, ServiceFile, Types};
use super::reply::{Bytes, Reply};
use super::told::ToldReplies;
use crate::claim::Holder;
use crate::liveness::{Me, Registry, TokenId};
use crate::pool::ObjectRef;
use crate::queue::suits;
use crate::sys::robust::WakeRelay;
use crate::{Error, Payload, RecvError, SendError};

/// A request that the server has begun: a copy of a short one; a long one is read where the client
/// wrote it, in the service's memory, which has it back when the request is answered or dropped. Any
/// thread of the process may reply to it, at any time.
///
/// If it is dropped without a reply, the client gets
/// [`CallError::Dropped`](super::CallError::Dropped), or, if a panic drops it,
/// [`CallError::Failed`](super::CallError::Failed). [`Request::fail`] tells the client why it gets
/// no reply.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-request-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::rpc::{CallError, Service};
///
/// let service = Service::<[u8], [u8]>::open_or_create(&domain, "shop")?;
/// let (mut server, client) = (service.server()?, service.client()?);
/// let (bread, gold) = (client.begin(b"bread")?, client.begin(b"gold")?);
/// let (first, second) = (server.next()?, server.next()?);
/// assert_eq!(second.client().unwrap().pid, std::process::id());
/// drop(second);
/// first.reply(b"here")?;
/// assert_eq!(*bread.wait()?, *b"here");
/// assert_eq!(gold.wait().unwrap_err(), CallError::Dropped);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If the server's process dies, the client is told that the call was begun. If the client dies,
/// replying fails, and leaves nothing behind.
#[must_use = "a request that is dropped is not answered"]
pub struct Request<Q: Payload + ?Sized = [u8], R: Payload + ?Sized = [u8]> {
    pub(super) raw: RawRequest,
    _types: PhantomData<Types<Q, R>>,
}

/// A request of bytes, whatever they mean.
#[must_use = "a request that is dropped is not answered"]
pub(super) struct RawRequest {
    pub(super) service: ServiceFile,
    pub(super) slot: u32,
    pub(super) number: u64,
    pub(super) process: TokenId,
    /// The client's token. The client slot may belong to another client by now.
    pub(super) client: Option<TokenId>,
    pub(super) payload: Bytes,
    /// The last reply has been sent.
    pub(super) is_over: bool,
    /// Tells wait sets what is written, and that the request is answered.
    pub(super) told_replies: OnceLock<Arc<ToldReplies>>,
    /// Tells wait sets that the server has been told that there are no more parts.
    pub(super) told_parts_end: OnceLock<Arc<AtomicBool>>,
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Request<Q, R> {
    /// `Err`: its length is not that of a `Q`. Its client is told so.
    #[inline]
    pub(super) fn new(mut raw: RawRequest) -> Result<Request<Q, R>, RecvError> {
        if !Q::METADATA.fits(raw.payload.len()) {
            let why = Q::METADATA.other_length();
            // A failure: no client waits.
            let _ = raw.fail(0, &format!("no request of this service: {why}"));
            return Err(RecvError::Encoding(why));
        }
        Ok(Request { raw, _types: PhantomData })
    }

    pub(crate) fn registry(&self) -> &'static Registry {
        self.raw.service.queue.registry()
    }

    /// Returns a copy of the request's value; of a slice, a `Vec`. A request of bytes needs no
    /// copy: it dereferences to them.
    #[must_use]
    pub fn value(&self) -> Q::Owned {
        self.raw.payload.value::<Q>()
    }

    /// Returns the client, dead or alive, also when another client has its slot by now; `None` when
    /// the request's words are damaged.
    #[must_use]
    pub fn client(&self) -> Option<Holder> {
        Some(Holder::of(self.raw.service.queue.registry(), self.raw.client?))
    }

    /// Sends the reply.
    ///
    /// # Errors
    /// [`SendError::Cancelled`], [`SendError::ReceiverDied`] (the client died);
    /// [`SendError::TooLarge`] and [`SendError::NoSpace`], after which the client gets
    /// [`CallError::Dropped`](super::CallError::Dropped); [`SendError::NotOwner`],
    /// [`SendError::Damaged`], [`SendError::System`].
    ///
    /// # If a process dies
    /// Once this returns `Ok`, the client has the reply, even if this process dies.
    #[inline]
    pub fn reply(self, answer: &R) -> Result<(), SendError> {
        self.raw.reply(answer.bytes())
    }

    /// Tells the client that what it asked for could not be done, and why: it gets
    /// [`CallError::Failed`](super::CallError::Failed) with this text. Never waits.
    ///
    /// The text is cut to 64 KiB, or, when the service has no memory for it, to 48 bytes.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-fail-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::rpc::{CallError, Service};
    ///
    /// let service = Service::<[u8], u64>::open_or_create(&domain, "parse")?;
    /// let (mut server, client) = (service.server()?, service.client()?);
    /// let call = client.begin(b"twelve")?;                // in another process, as a rule
    ///
    /// let request = server.next()?;
    /// match std::str::from_utf8(&request)?.parse() {
    ///     Ok(number) => request.reply(&number)?,
    ///     Err(error) => request.fail(&error.to_string())?,
    /// }
    /// let error = call.wait().unwrap_err();
    /// assert_eq!(error, CallError::Failed("invalid digit found in string".to_owned()));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError::Cancelled`], [`SendError::ReceiverDied`] (the client died);
    /// [`SendError::NotOwner`], [`SendError::Damaged`], [`SendError::System`].
    ///
    /// # If a process dies
    /// Once this returns `Ok`, the client has the text, even if this process dies. If this process
    /// dies before, the client is told that the server died.
    pub fn fail(mut self, text: &str) -> Result<(), SendError> {
        self.raw.fail(0, text)
    }
}

impl<R: Payload + ?Sized> Request<[u8], R> {
    /// Takes the request's bytes out, which so outlive the answer: for bindings. The request has none
    /// from then on.
    #[doc(hidden)]
    pub fn take_bytes(&mut self) -> Reply {
        Reply::of(core::mem::take(&mut self.raw.payload))
    }

    /// Keeps the service's memory mapped as long as it exists: for bindings.
    #[doc(hidden)]
    pub fn mapping(&self) -> impl Send + Sync + 'static {
        self.raw.service.clone()
    }
}

impl<Q: Payload + ?Sized> Request<Q> {
    /// Sends a reply of `len` bytes that `fill` writes: a long one straight into shared memory.
    ///
    /// # Errors
    /// The errors of [`Request::reply`].
    pub fn reply_with(mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<(), SendError> {
        if len <= INLINE {
            let mut answer = [0; INLINE];
            fill(&mut answer[..len]);
            return self.reply(&answer[..len]);
        }
        let me = self.raw.enter()?;
        self.raw.send_large(me, 0, len, After::End, fill)?;
        self.raw.is_over = true;
        Ok(())
    }
}

impl RawRequest {
    #[inline]
    pub(super) fn new(
        service: ServiceFile,
        slot: u32,
        number: u64,
        process: TokenId,
        client: Option<TokenId>,
        payload: Bytes,
    ) -> RawRequest {
        RawRequest {
            service,
            slot,
            number,
            process,
            client,
            payload,
            is_over: false,
            told_replies: OnceLock::new(),
            told_parts_end: OnceLock::new(),
        }
    }

    #[inline]
    fn reply(mut self, answer: &[u8]) -> Result<(), SendError> {
        match &self.payload {
            Bytes::Object(request)
                if answer.len() > INLINE && suits(request.object(), answer.len()) =>
            {
                self.reply_in_place(answer)?;
            }
            _ => return self.send_only(answer),
        }
        self.is_over = true;
        Ok(())
    }

    /// Sends the only reply.
    #[inline]
    pub(super) fn send_only(&mut self, answer: &[u8]) -> Result<(), SendError> {
        self.send(0, answer, After::End)?;
        self.is_over = true;
        Ok(())
    }

    /// Writes the only reply into the request's object, which no process reads any more.
    #[inline(never)]
    fn reply_in_place(&mut self, answer: &[u8]) -> Result<(), SendError> {
        let me = self.enter()?;
        self.check_client()?;
        let Bytes::Object(mut object) = core::mem::take(&mut self.payload) else {
            return Err(SendError::Cancelled);
        };
        // SAFETY: the object is this process's, and this its only handle; `suits` has found that the
        // answer fits. The answer may lie in it: C's callers may answer with what was asked.
        unsafe { core::ptr::copy(answer.as_ptr(), object.address(), answer.len()) };
        object.set_len(answer.len());
        self.send_in_place(me, &object, 0, After::End)?;
        object.sent();
        Ok(())
    }

    /// Does steps 2 to 5 for the reply of that number, which lies in an object of this process's; then
    /// [`InPlace::sent`] must be called.
    pub(super) fn send_in_place(
        &self,
        me: Me,
        object: &InPlace,
        number: u32,
        after: After,
    ) -> Result<(), SendError> {
        let call = self.call()?;
        self.write(me, call, number.wrapping_add(1), after, || {
            // `write` calls this only once the claim says that this thread writes.
            call.write_object(number, object.object(), object.len());
            object.put(call.reply_position(number))
        })
    }

    /// Takes memory for a reply, to be written in place.
    pub(super) fn lend(&self, len: usize) -> Result<InPlace, SendError> {
        let me = self.enter()?;
        self.check_client()?;
        if let Some(spare) = InPlace::again(&self.service, len, self.process) {
            return Ok(spare);
        }
        let object = self.find_memory(me, len)?;
        // A death just before: held(dead).
        Ok(InPlace::own(&self.service, me, object, len, self.process)?)
    }

    /// Tells wait sets, before anything that they look at changes, how many replies are written, or that
    /// the request is answered.
    #[inline]
    fn tell_written(&self, count: u32, after: After) {
        match self.told_replies.get() {
            Some(told) if after == After::More => told.set_written(count),
            Some(told) => told.answer(),
            None => {}
        }
    }

    pub(super) fn call(&self) -> Result<CallSlot<'_>, Error> {
        self.service.call(self.slot)
    }

    #[inline]
    fn is_client_alive(&self) -> bool {
        let registry = self.service.queue.registry();
        self.client.is_some_and(|id| registry.is_alive(id))
    }

    #[inline]
    pub(super) fn enter(&self) -> Result<Me, SendError> {
        let registry = self.service.queue.registry();
        if registry.process_token_if_any() != Some(self.process) {
            return Err(SendError::NotOwner);
        }
        Ok(registry.me()?)
    }

    /// Does steps 1 to 5 for the reply of that number.
    #[inline]
    pub(super) fn send(&self, number: u32, bytes: &[u8], after: After) -> Result<(), SendError> {
        let me = self.enter()?;
        if bytes.len() > INLINE {
            return self.send_large(me, number, bytes.len(), after, |to| to.copy_from_slice(bytes));
        }
        self.check_client()?;
        let call = self.call()?;
        // SAFETY: `write` calls this only once the claim says that this thread writes.
        self.write(me, call, number.wrapping_add(1), after, || unsafe {
            call.write(number, bytes);
            Ok(())
        })
    }

    #[inline(never)]
    pub(super) fn send_large(
        &self,
        me: Me,
        number: u32,
        len: usize,
        after: After,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        self.check_client()?;
        let call = self.call()?;
        let held = self.allocate(me, len, fill)?;
        self.write(me, call, number.wrapping_add(1), after, || {
            // `write` calls this only once the claim says that this thread writes.
            call.write_object(number, &held.object, len);
            self.service.queue.put(me, &held.object, call.reply_position(number))
        })?;
        held.sent();
        Ok(())
    }

    /// Takes an object of the pool.
    fn find_memory(&self, me: Me, len: usize) -> Result<ObjectRef, SendError> {
        let queue = &self.service.queue;
        let most = queue.most_bytes();
        if len as u64 > most {
            return Err(SendError::TooLarge { len: len as u64, max: most });
        }
        match queue.allocate(me, len as u64) {
            Err(Error::NoSpace { .. }) => {
                // Perhaps only what dead processes left is missing. A failure to free some of it is
                // an error only if there is no memory without it.
                let settled = self.service.settle_dead(me, self.process, false).map(drop);
                let freed = settled.and(queue.collect(me));
                let again = queue.allocate(me, len as u64);
                if matches!(again, Err(Error::NoSpace { .. })) {
                    freed.map_err(no_space)?;
                }
                again.map_err(no_space)
            }
            other => Ok(other?),
        }
    }

    /// Does step 1: takes an object of the pool, which `fill` writes.
    fn allocate(
        &self,
        me: Me,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Held<'_>, SendError> {
        let object = self.find_memory(me, len)?;
        let held = Held { request: self, me, object };
        // SAFETY: the object belongs to this thread alone (its tag says so), its pages exist, and
        // it has room for `len` bytes; the memory reads as some bytes, whatever they are.
        let bytes = unsafe {
            core::slice::from_raw_parts_mut(self.service.segment().address(object.offset), len)
        };
        fill(bytes);
        Ok(held)
    }

    /// Ends the call, or the stream after so many replies, with a text in place of a reply.
    #[cold]
    pub(super) fn fail(&mut self, count: u32, text: &str) -> Result<(), SendError> {
        self.send_failure(count, text)?;
        self.is_over = true;
        Ok(())
    }

    /// Does steps 1 to 5 for a failure's text.
    #[cold]
    fn send_failure(&self, count: u32, text: &str) -> Result<(), SendError> {
        let me = self.enter()?;
        self.check_client()?;
        let call = self.call()?;
        let text = cut(text, LONGEST_FAILURE);
        let held = if text.len() <= INLINE_FAILURE {
            None
        } else {
            match self.allocate(me, text.len(), |to| to.copy_from_slice(text.as_bytes())) {
                Ok(held) => Some(held),
                // There is no memory for the text: the slot has room for its beginning.
                Err(SendError::NoSpace { .. } | SendError::TooLarge { .. }) => None,
                Err(error) => return Err(error),
            }
        };
        self.write(me, call, count, After::Failed, || {
            // `write` calls this only once the claim says that this thread writes.
            if let Some(held) = &held {
                call.write_failure_object(&held.object, text.len());
                return self.service.queue.put(me, &held.object, call.failure_position());
            }
            // SAFETY: `write` calls this only once the claim says that this thread writes.
            unsafe { call.write_failure(cut(text, INLINE_FAILURE).as_bytes()) };
            Ok(())
        })?;
        if let Some(held) = held {
            held.sent();
        }
        Ok(())
    }

    /// Lets go of a call, or of a stream after so many replies, that has not ended yet: its client
    /// is told.
    #[cold]
    pub(super) fn abandon(&mut self, count: u32) {
        if self.is_over {
            return;
        }
        // A failure of either: no client waits.
        if std::thread::panicking() {
            let _ = self.fail(count, "the server's thread panicked");
        }
        if !self.is_over {
            if let Err(SendError::System(_)) = self.end(count, After::Dropped) {
                self.end_nameless(Claim::cancelled(self.number));
            }
            self.is_over = true;
            // Wait sets, also if the client had let go before.
            self.tell_written(count, After::Dropped);
        }
    }

    /// Ends the call, or the stream after so many replies, without a last reply: its client is told as
    /// after a death of the server.
    #[cold]
    pub(super) fn disown(&mut self, count: u32) {
        self.disown_as(count, Claim::cancelled(self.number));
    }

    /// Gives the call back, for which nothing was done: its client is told so.
    #[cold]
    pub(super) fn give_back(&mut self) {
        self.disown_as(0, Claim::undone(self.number));
    }

    fn disown_as(&mut self, count: u32, to: Claim) {
        if self.is_over {
            return;
        }
        self.end_nameless(to);
        self.is_over = true;
        // Wait sets, also if the client had let go before.
        self.tell_written(count, After::Dropped);
    }

    /// Ends the call without a thread's name: its client is told as after a death of the server. For
    /// [`disown`](Self::disown), and for a thread that has no token, and gets none, whose client would
    /// wait for ever else.
    fn end_nameless(&self, to: Claim) {
        if self.service.queue.registry().process_token_if_any() != Some(self.process) {
            return;
        }
        let Ok(call) = self.call() else { return };
        let words = call.words;
        if words.end_by(Claim::taken(self.number, self.process), to) {
            // Died just before: a client that sleeps watches this process's end. Stopped: its
            // recheck finds the claim.
            words.wake_client();
        }
    }

    /// Ends the stream, or the call without a reply.
    #[cold]
    pub(super) fn end(&self, count: u32, after: After) -> Result<(), SendError> {
        let me = self.enter()?;
        self.check_client()?;
        let call = self.call()?;
        self.write(me, call, count, after, || Ok(()))
    }

    #[inline]
    pub(super) fn check_client(&self) -> Result<(), SendError> {
        if self.is_client_alive() { Ok(()) } else { Err(self.gone()) }
    }

    #[cold]
    fn gone(&self) -> SendError {
        if self.client.is_some() { SendError::ReceiverDied } else { SendError::Cancelled }
    }

    /// Does steps 2 to 5.
    #[inline]
    fn write(
        &self,
        me: Me,
        call: CallSlot<'_>,
        count: u32,
        after: After,
        put: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), SendError> {
        let words = call.words;
        let relay = WakeRelay::begin(me.list());
        if !words.begin_writing(&relay, self.number, self.process, me.id) {
            return Err(SendError::Cancelled);
        }
        let taken = Claim::taken(self.number, self.process);
        if let Err(error) = put() {
            // Damaged: there is nothing to read, and the call goes back to its earlier state.
            words.hand_back(taken);
            return Err(error.into());
        }
        self.tell_written(count, after);
        words.publish(
            Ready::new(self.number, count, after),
            (after == After::More).then_some(taken),
        );
        drop(relay);
        Ok(())
    }
}

/// An error of taking memory, as a reply's.
fn no_space(error: Error) -> SendError {
    match error {
        Error::NoSpace { wanted, .. } => SendError::NoSpace { wanted, held: 0 },
        other => other.into(),
    }
}

/// The longest text of a failure, in bytes.
const LONGEST_FAILURE: usize = 64 << 10;

/// Returns as much of a text as so many bytes hold, in whole characters.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// An object that is freed unless it is sent, also when `fill` panics.
struct Held<'r> {
    request: &'r RawRequest,
    me: Me,
    object: ObjectRef,
}

impl Held<'_> {
    fn sent(self) {
        core::mem::forget(self);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let _ = self.request.service.queue.free_held(self.me, &self.object);
    }
}

impl<R: Payload + ?Sized> Deref for Request<[u8], R> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.raw.payload
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> std::fmt::Debug for Request<Q, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Request").field(&&*self.raw.payload).finish()
    }
}

impl Drop for RawRequest {
    fn drop(&mut self) {
        self.abandon(0);
    }
}
