//! The client.
//!
//! A call: a slot of the client's own, its next number, and the request in that slot (asked.rs).
//! Its claim is one behind, which says "not begun". `client_call.rs` has the rest of its life.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::asked::Asked;
use super::call::next;
use super::client_call::Call;
use super::error::CallError;
use super::in_place::InPlace;
use super::layout::{CallSlot, INLINE_REQUEST, ServiceFile, Types};
use super::own_slots::OwnSlots;
use super::places::Servers;
use super::reply::Reply;
use crate::liveness::Me;
use crate::pool::ObjectRef;
use crate::queue::{Counterpart, LARGEST_MESSAGE};
use crate::shim::Ordering;
use crate::sys::futex::Watch;
use crate::sys::robust::WakeRelay;
use crate::wake::Asleep;
use crate::{Deadline, Error, Payload, WaitStrategy};

/// How often a client that waits for memory looks for what dead processes left, and for what its
/// own abandoned calls hold.
const LOOK_FOR_MEMORY: Duration = Duration::from_secs(1);

/// Calls a service. A service has any number of clients, in any number of processes; each may have
/// up to 1,024 calls in flight.
///
/// Any thread may use a client and its calls, several at a time; clients of their own spare them the
/// turns that they take. A call borrows its client; for a task of its own, [`Client::begin_owned`]
/// returns a call that borrows nothing.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-client-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::rpc::{CallError, Service};
/// use std::time::Duration;
///
/// let service = Service::<[u8], [u8]>::open_or_create(&domain, "clock")?;
/// let client = service.client()?;
/// assert_eq!(client.call(b"now").unwrap_err(), CallError::NoServer);
///
/// let mut server = service.server()?;
/// let late = client.call_timeout(b"now", Duration::from_millis(1));
/// assert_eq!(late.unwrap_err(), CallError::TimedOut { begun: false });
/// assert!(server.try_next()?.is_none(), "and no server will begin it");
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If the server dies, every call of every client ends at once with [`CallError::ServerDied`],
/// which says whether the server had begun it. With [`Client::set_wait_for_server`], calls that
/// were not begun wait for the next server instead. No call is ever begun twice. If this client's
/// process dies, no server begins those of its calls that were not begun, and its replies are
/// freed.
pub struct Client<Q: Payload + ?Sized = [u8], R: Payload + ?Sized = [u8]> {
    pub(super) slots: OwnSlots,
    _types: PhantomData<Types<Q, R>>,
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Client<Q, R> {
    pub(super) fn new(service: ServiceFile) -> Result<Client<Q, R>, Error> {
        Ok(Client { slots: OwnSlots::new(service)?, _types: PhantomData })
    }

    /// Sets whether calls wait for a server while there is none, or when it has died without having
    /// begun them. Default: no, they fail at once.
    pub fn set_wait_for_server(&self, wait: bool) {
        self.slots.set_waits_for_server(wait);
    }

    /// Says that this client is there, to those that
    /// [watch](super::Service::watch_clients) the service's clients. Needed by a client that has
    /// nothing to ask for longer than their lease; each call says so, too. Costs a store, and wakes
    /// nobody.
    ///
    /// # If a process dies
    /// The death is told at once, whatever was asserted.
    pub fn assert_liveliness(&self) {
        // An error: a forked child, or a client that was declared dead. Neither speaks for it.
        let _ = self.slots.assert_liveliness();
    }

    /// Waits until the service has a living server.
    ///
    /// # Errors
    /// [`CallError::NotClient`], [`CallError::Damaged`], [`CallError::System`].
    ///
    /// # If a process dies
    /// If the server dies, this waits for the next one. A server may die just after this returns.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-wait-server-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::rpc::{CallError, Service};
    /// let service = Service::<[u8], [u8]>::open_or_create(&domain, "clock")?;
    /// let client = service.client()?;
    /// assert_eq!(client.try_wait_for_server(), Err(CallError::NoServer));
    /// let _server = service.server()?;                    // in another process, as a rule
    /// client.wait_for_server()?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_for_server(&self) -> Result<(), CallError> {
        self.wait_for_server_until(Deadline::NEVER)
    }

    /// Returns whether the service has a living server, as an error if not. Never waits.
    ///
    /// # Errors
    /// [`CallError::NoServer`], also when the last one is dead; else the errors of
    /// [`Client::wait_for_server`].
    ///
    /// # If a process dies
    /// The same as with [`Client::wait_for_server`].
    pub fn try_wait_for_server(&self) -> Result<(), CallError> {
        if self.slots.service.server()?.is_living() { Ok(()) } else { Err(CallError::NoServer) }
    }

    /// Waits as long as `span` until the service has a living server.
    ///
    /// # Errors
    /// [`CallError::TimedOut`]; else the errors of [`Client::wait_for_server`].
    ///
    /// # If a process dies
    /// The same as with [`Client::wait_for_server`].
    pub fn wait_for_server_timeout(&self, span: Duration) -> Result<(), CallError> {
        self.wait_for_server_until(Deadline::after(span))
    }

    /// Waits for a living server of the service, until the deadline at most.
    ///
    /// # Errors
    /// [`CallError::TimedOut`]; else the errors of [`Client::wait_for_server`].
    ///
    /// # If a process dies
    /// The same as with [`Client::wait_for_server`].
    pub fn wait_for_server_until(&self, deadline: Deadline) -> Result<(), CallError> {
        let me = self.slots.me_of_owner()?;
        self.wait_for_a_server(me, deadline)
    }

    /// Sets how this client's waits wait.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.slots.service.queue.set_wait_strategy(wait);
    }

    /// Sends a request and waits for the reply; of several replies, it returns the first.
    ///
    /// A call has no form that does not wait: [`Client::begin`] is that.
    ///
    /// # Errors
    /// [`CallError::NoServer`], [`CallError::ServerDied`], [`CallError::Dropped`],
    /// [`CallError::Failed`] with the server's words, [`CallError::TooLarge`],
    /// [`CallError::TooMany`], [`CallError::NotClient`], [`CallError::Encoding`] when the reply is no
    /// `R`, [`CallError::Damaged`], [`CallError::System`].
    ///
    /// # If a process dies
    /// If the server dies, the call ends at once with [`CallError::ServerDied`].
    #[inline]
    pub fn call(&self, request: &Q) -> Result<Reply<R>, CallError> {
        self.begin(request)?.wait()
    }

    /// Sends a request and waits for the reply as long as `span`; then it cancels the call.
    ///
    /// # Errors
    /// The errors of [`Client::call`], and [`CallError::TimedOut`], which says whether a server had
    /// begun the call.
    ///
    /// # If a process dies
    /// The same as with [`Client::call`].
    #[inline]
    pub fn call_timeout(&self, request: &Q, span: Duration) -> Result<Reply<R>, CallError> {
        self.call_until(request, Deadline::after(span))
    }

    /// Sends a request and waits for the reply until the deadline; then it cancels the call.
    ///
    /// # Errors
    /// The errors of [`Client::call_timeout`].
    ///
    /// # If a process dies
    /// The same as with [`Client::call`].
    #[inline]
    pub fn call_until(&self, request: &Q, deadline: Deadline) -> Result<Reply<R>, CallError> {
        self.begin_until(request, deadline)?.wait_until(deadline)
    }

    /// Sends a request and returns before the reply is there: the [`Call`] waits for it. Up to
    /// 1,024 calls may be in flight.
    ///
    /// It waits for memory for a long request, and, with [`Client::set_wait_for_server`], for a
    /// server.
    ///
    /// # Errors
    /// The errors of [`Client::call`].
    ///
    /// # If a process dies
    /// The same as with [`Client::call`]; the `Call` returns the error.
    #[inline]
    pub fn begin(&self, request: &Q) -> Result<Call<'_, R>, CallError> {
        self.begin_until(request, Deadline::NEVER)
    }

    /// Sends a request as [`Client::begin`] does, without waiting for memory or for a server.
    ///
    /// # Errors
    /// The errors of [`Client::begin`], and [`CallError::TimedOut`] when it would have to wait.
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn try_begin(&self, request: &Q) -> Result<Call<'_, R>, CallError> {
        self.begin_until(request, Deadline::at_nanos(0))
    }

    /// Sends a request as [`Client::begin`] does, waiting as long as `span` for memory or for a
    /// server.
    ///
    /// # Errors
    /// The errors of [`Client::begin`], and [`CallError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn begin_timeout(&self, request: &Q, span: Duration) -> Result<Call<'_, R>, CallError> {
        self.begin_until(request, Deadline::after(span))
    }

    /// Sends a request as [`Client::begin`] does, waiting until the deadline for memory or for a
    /// server.
    ///
    /// # Errors
    /// The errors of [`Client::begin`], and [`CallError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    #[inline]
    pub fn begin_until(&self, request: &Q, deadline: Deadline) -> Result<Call<'_, R>, CallError> {
        let request = request.bytes();
        let me = self.slots.me()?;
        if request.len() > INLINE_REQUEST {
            return self.begin_large(me, request, deadline, |_, _| {});
        }
        self.begin_short(me, request, deadline)
    }

    /// Sends a request that fits the slot.
    #[inline]
    pub(super) fn begin_short(
        &self,
        me: Me,
        request: &[u8],
        deadline: Deadline,
    ) -> Result<Call<'_, R>, CallError> {
        let ask = || {
            self.ask(me, request.len(), |call, _| {
                // SAFETY: the slot is free: its call is over, and the server's thread has stopped
                // reading and writing there. The request is short.
                unsafe { call.write_request(request) };
                Ok(())
            })
        };
        match ask() {
            Ok(call) => Ok(call),
            Err(error) => self.begin_slow(me, error, deadline, ask),
        }
    }

    /// Sends a request as [`Client::begin`] does; the call keeps its client, and borrows nothing: for
    /// tasks and threads of their own.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-begin-owned-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// use std::sync::Arc;
    /// let service = outlive::rpc::Service::<[u8]>::open_or_create(&domain, "upper")?;
    /// let (mut server, client) = (service.server()?, Arc::new(service.client()?));
    /// # runtime.block_on(async {
    /// let call = client.begin_owned(b"hello")?;
    /// let answer = tokio::spawn(call.wait_async());
    /// server.next_async().await?.reply(b"HELLO")?;        // in another process, as a rule
    /// assert_eq!(*answer.await??, *b"HELLO");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Client::begin`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn begin_owned(self: &Arc<Self>, request: &Q) -> Result<Call<'static, R>, CallError>
    where
        Q: 'static,
        R: 'static,
    {
        self.begin_owned_until(request, Deadline::NEVER)
    }

    /// Sends a request as [`Client::try_begin`] does; the call keeps its client.
    ///
    /// # Errors
    /// The errors of [`Client::try_begin`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn try_begin_owned(self: &Arc<Self>, request: &Q) -> Result<Call<'static, R>, CallError>
    where
        Q: 'static,
        R: 'static,
    {
        self.begin_owned_until(request, Deadline::at_nanos(0))
    }

    /// Sends a request as [`Client::begin_timeout`] does; the call keeps its client.
    ///
    /// # Errors
    /// The errors of [`Client::begin_timeout`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn begin_owned_timeout(
        self: &Arc<Self>,
        request: &Q,
        span: Duration,
    ) -> Result<Call<'static, R>, CallError>
    where
        Q: 'static,
        R: 'static,
    {
        self.begin_owned_until(request, Deadline::after(span))
    }

    /// Sends a request as [`Client::begin_until`] does; the call keeps its client.
    ///
    /// # Errors
    /// The errors of [`Client::begin_until`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn begin_owned_until(
        self: &Arc<Self>,
        request: &Q,
        deadline: Deadline,
    ) -> Result<Call<'static, R>, CallError>
    where
        Q: 'static,
        R: 'static,
    {
        // SAFETY: an Arc's value does not move as long as an Arc of it exists. All that borrows from
        // this is the call, which gets an Arc here, and drops it after all else.
        let client: &'static Client<Q, R> = unsafe { &*Arc::as_ptr(self) };
        Ok(client.begin_until(request, deadline)?.keeping(Arc::clone(self) as _))
    }

    /// Does steps 1 to 3 of asked.rs, in a free slot into which `write` writes the request of the call
    /// of that number, and wakes the server.
    #[inline]
    pub(super) fn ask(
        &self,
        me: Me,
        len: usize,
        write: impl FnOnce(CallSlot<'_>, u64) -> Result<(), Error>,
    ) -> Result<Call<'_, R>, CallError> {
        let service = &self.slots.service;
        service.check_server()?;
        let mut turn = self.slots.turn()?;
        let (slot, last) = turn.free_slot(me)?;
        let number = next(last);
        let call = match service.call(slot) {
            Ok(call) => call,
            Err(error) => {
                turn.give_back(slot, last);
                return Err(error.into());
            }
        };
        if let Err(error) = write(call, number) {
            turn.give_back(slot, last);
            return Err(error.into());
        }
        let asks = service.asks();
        call.question.ask(Asked::new(number, len), asks.draw(), self.slots.process);
        drop(turn);
        asks.set(slot);
        service.queue.wake_server();
        Ok(Call::new(&self.slots, call, number))
    }

    /// Writes a request into an object, and sends it. A death before the object's tag: it is the dead
    /// thread's, for `collect`. After: the process that settles the slot frees it.
    #[inline(never)]
    pub(super) fn begin_large(
        &self,
        me: Me,
        request: &[u8],
        deadline: Deadline,
        more: impl Fn(CallSlot<'_>, u64),
    ) -> Result<Call<'_, R>, CallError> {
        let service = &self.slots.service;
        if let Some(mut spare) = InPlace::again(service, request.len(), self.slots.process) {
            spare.write(request);
            let call = self.begin_in_place(&spare, deadline, more);
            if matches!(call, Ok(_) | Err(CallError::Damaged(_))) {
                // The slot's by now, or, after a stray write, another's: not to be kept.
                spare.sent();
            }
            return call;
        }
        let object = self.copied(me, request, deadline, &mut Servers::of(&self.slots))?;
        let sent = self.ask_with(me, &object, request.len(), deadline, more);
        if sent.is_err() {
            service.queue.free_held(me, &object)?;
        }
        sent
    }

    /// Takes an object that holds those bytes.
    #[inline]
    pub(super) fn copied(
        &self,
        me: Me,
        bytes: &[u8],
        deadline: Deadline,
        counterpart: &mut impl Counterpart<Error = CallError>,
    ) -> Result<ObjectRef, CallError> {
        let object = self.allocate(me, bytes.len(), deadline, counterpart)?;
        // SAFETY: the object belongs to this thread alone (its tag says so), its pages exist, and
        // it has room for `len` bytes.
        unsafe {
            let to = self.slots.service.segment().address(object.offset);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        Ok(object)
    }

    pub(super) fn allocate(
        &self,
        me: Me,
        len: usize,
        deadline: Deadline,
        counterpart: &mut impl Counterpart<Error = CallError>,
    ) -> Result<ObjectRef, CallError> {
        let len = len as u64;
        if len > LARGEST_MESSAGE {
            return Err(CallError::TooLarge { len, max: LARGEST_MESSAGE });
        }
        match self.slots.service.queue.allocate(me, len) {
            Err(Error::NoSpace { .. }) => self.wait_for_memory(me, len, deadline, counterpart),
            other => Ok(other?),
        }
    }

    /// Takes memory for a request that is written in place.
    pub(super) fn lend_long(&self, len: usize, deadline: Deadline) -> Result<InPlace, CallError> {
        let me = self.slots.me_of_owner()?;
        if let Some(spare) = InPlace::again(&self.slots.service, len, self.slots.process) {
            return Ok(spare);
        }
        let object = self.allocate(me, len, deadline, &mut Servers::of(&self.slots))?;
        // A death just before: held(dead).
        Ok(InPlace::own(&self.slots.service, me, object, len, self.slots.process)?)
    }

    /// Sends the request that has been written in place; then [`InPlace::sent`] must be called.
    pub(super) fn begin_in_place(
        &self,
        object: &InPlace,
        deadline: Deadline,
        more: impl Fn(CallSlot<'_>, u64),
    ) -> Result<Call<'_, R>, CallError> {
        let me = self.slots.me_of_owner()?;
        let ask = || {
            self.ask(me, object.len(), |call, number| {
                call.write_request_object(object.object());
                object.put(call.request_position())?;
                more(call, number);
                Ok(())
            })
        };
        match ask() {
            Ok(call) => Ok(call),
            Err(error) => self.begin_slow(me, error, deadline, ask),
        }
    }

    /// Sends the request that lies in an object of the calling thread's. After an error the object
    /// is still that thread's.
    fn ask_with(
        &self,
        me: Me,
        object: &ObjectRef,
        len: usize,
        deadline: Deadline,
        more: impl Fn(CallSlot<'_>, u64),
    ) -> Result<Call<'_, R>, CallError> {
        let ask = || {
            self.ask(me, len, |call, number| {
                call.write_request_object(object);
                self.slots.service.queue.put(me, object, call.request_position())?;
                // Nothing fails from here on: the next call of the same number has no parts.
                more(call, number);
                Ok(())
            })
        };
        match ask() {
            Ok(call) => Ok(call),
            Err(error) => self.begin_slow(me, error, deadline, ask),
        }
    }

    /// The memory that is missing may be what dead clients left, or replies to calls that this client
    /// let go of. No process wakes the client for either, so it looks for both once a second.
    #[cold]
    fn wait_for_memory(
        &self,
        me: Me,
        len: u64,
        deadline: Deadline,
        counterpart: &mut impl Counterpart<Error = CallError>,
    ) -> Result<ObjectRef, CallError> {
        loop {
            // A failure to settle something is an error only if there is no memory without it.
            let dead = self.slots.service.settle_dead(me, self.slots.process, false);
            let settled = self.slots.settle_parked(me).and(dead.map_err(CallError::from));
            let soon = deadline.earlier(Deadline::after(LOOK_FOR_MEMORY));
            match self.slots.service.queue.allocate_until(me, len, soon, counterpart) {
                Err(CallError::TimedOut { .. }) => {
                    settled?;
                    if deadline.has_passed() {
                        return Err(CallError::TimedOut { begun: false });
                    }
                }
                other => return other,
            }
        }
    }

    /// The request was not sent: waits for a server, if the client asked for that.
    #[cold]
    pub(super) fn begin_slow<'c>(
        &'c self,
        me: Me,
        mut error: CallError,
        deadline: Deadline,
        ask: impl Fn() -> Result<Call<'c, R>, CallError>,
    ) -> Result<Call<'c, R>, CallError> {
        while self.slots.waits_for_server()
            && matches!(error, CallError::ServerDied { begun: false } | CallError::NoServer)
        {
            self.wait_for_a_server(me, deadline)?;
            match ask() {
                Ok(call) => return Ok(call),
                Err(other) => error = other,
            }
        }
        Err(error)
    }

    #[cold]
    fn wait_for_a_server(&self, me: Me, deadline: Deadline) -> Result<(), CallError> {
        let relay = WakeRelay::begin(me.list());
        let queue = &self.slots.service.queue;
        // A server may come to another place than the first.
        let serving = &self.slots.service.head().serving;
        loop {
            // Acquire pairs with a server that comes: it is seen by the look that follows.
            let also = Watch { word: serving, expected: serving.load(Ordering::Acquire) };
            let first = queue.server()?;
            if first.is_living() || self.slots.service.server()?.is_living() {
                return Ok(());
            }
            match queue.server_role().sleep(&relay, &[also], first, deadline) {
                Ok(Asleep::LookAgain) if !deadline.has_passed() => {}
                Ok(_) if self.slots.service.server()?.is_living() => return Ok(()),
                Ok(_) => return Err(CallError::TimedOut { begun: false }),
                Err(errno) => return Err(self.slots.refused(errno)),
            }
        }
    }
}
