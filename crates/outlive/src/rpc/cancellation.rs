//! Whether the client still wants a reply to a request that the server has begun, and waiting until
//! it does not.
//!
//! | the client | the server sees |
//! | --- | --- |
//! | lets go of the call (drops it, or its deadline passes): claim → CANCELLED | at once; woken by `space` |
//! | lets go of it while a thread of the server writes a reply: `taken` says END | at once; woken by `space` |
//! | dies | its token's end; the sleeper watches it |
//! | is stopped after the change, before it notifies | at the recheck, a second later |
//!
//! A server that waits here sleeps on {`space`, the client's process}, as one that waits for space in
//! a stream does (stream.rs). proof/models/rpc.pml, CANCELLED.

use std::sync::Arc;
use std::time::Duration;

use super::call::{CallWords, Ready, State};
use super::layout::ServiceFile;
use super::request::{RawRequest, Request};
use super::stream::Stream;
use super::told::ToldReplies;
use crate::liveness::{Registry, TokenId};
use crate::shim::Ordering;
use crate::sys::robust::WakeRelay;
use crate::wake::{
    Asleep, EventCount, PreparedWait, Readiness, Sleep, Source, SourceState, WaitWords, Waited,
    Watched,
};
use crate::{Deadline, Error, Payload, WaitError};

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Request<Q, R> {
    /// Returns whether no client waits for a reply any more: it died, or it let go of the call, also
    /// because its deadline passed.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.raw.is_cancelled()
    }

    /// Waits until no client waits for a reply any more: a thread beside the one that works on the
    /// request can end that work. A wait set takes a request for the same
    /// ([`Readiness::Ended`](crate::wait::Readiness::Ended)).
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-cancelled-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::{WaitError, rpc::Service};
    /// use std::time::Duration;
    ///
    /// let service = Service::<[u8]>::open_or_create(&domain, "search")?;
    /// let (mut server, client) = (service.server()?, service.client()?);
    /// let call = client.begin(b"all primes")?;            // in another process, as a rule
    /// let request = server.next()?;
    /// let waited = request.wait_cancelled_timeout(Duration::from_millis(1));
    /// assert_eq!(waited, Err(WaitError::TimedOut), "the client still wants a reply");
    /// drop(call);
    /// request.wait_cancelled()?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`WaitError::System`] when the caller could not wait.
    ///
    /// # If a process dies
    /// If the client dies, the wait is over at once.
    pub fn wait_cancelled(&self) -> Result<(), WaitError> {
        self.wait_cancelled_until(Deadline::NEVER)
    }

    /// Returns at once: with success if no client waits for a reply any more.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] while a client waits for a reply.
    ///
    /// # If a process dies
    /// The same as with [`Request::wait_cancelled`].
    pub fn try_wait_cancelled(&self) -> Result<(), WaitError> {
        if self.is_cancelled() { Ok(()) } else { Err(WaitError::TimedOut) }
    }

    /// Waits as long as `span` until no client waits for a reply any more.
    ///
    /// # Errors
    /// The errors of [`Request::wait_cancelled`], and [`WaitError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`Request::wait_cancelled`].
    pub fn wait_cancelled_timeout(&self, span: Duration) -> Result<(), WaitError> {
        self.wait_cancelled_until(Deadline::after(span))
    }

    /// Waits until no client waits for a reply any more, until the deadline at most.
    ///
    /// # Errors
    /// The errors of [`Request::wait_cancelled`], and [`WaitError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`Request::wait_cancelled`].
    pub fn wait_cancelled_until(&self, deadline: Deadline) -> Result<(), WaitError> {
        self.raw.wait_cancelled(deadline)
    }
}

impl RawRequest {
    pub(super) fn is_cancelled(&self) -> bool {
        is_cancelled(&self.service, self.slot, self.number, self.client)
    }

    #[cold]
    fn wait_cancelled(&self, deadline: Deadline) -> Result<(), WaitError> {
        if self.is_cancelled() {
            return Ok(());
        }
        let registry = self.service.queue.registry();
        let me = registry.me().map_err(WaitError::System)?;
        let words = self.call().map_err(WaitError::System)?.words;
        let relay = WakeRelay::begin(me.list());
        loop {
            let ticket = words.space.prepare_wait();
            let slept = match self.client {
                Some(client) if !self.is_cancelled() => {
                    Sleep::on(registry, &[words.space.watch(ticket)])
                        .behind(&relay, &[client])
                        .until(ticket.until(deadline))
                }
                _ => Ok(Asleep::LookAgain),
            };
            words.space.cancel_wait(ticket);
            let slept = slept.map_err(|errno| WaitError::from_errno(registry, errno));
            if self.is_cancelled() {
                return Ok(());
            }
            slept?;
            if deadline.has_passed() {
                return Err(WaitError::TimedOut);
            }
        }
    }

    /// For a wait set.
    pub(crate) fn cancellation(&self) -> Cancellation {
        let told = self.told_replies.get_or_init(|| Arc::new(ToldReplies::of(self.is_over)));
        Cancellation {
            service: self.service.clone(),
            slot: self.slot,
            number: self.number,
            client: self.client,
            told: Arc::clone(told),
        }
    }
}

fn is_cancelled(service: &ServiceFile, slot: u32, number: u64, client: Option<TokenId>) -> bool {
    let Ok(call) = service.call(slot) else { return false };
    let seen = call.words.claim();
    // While the request is not answered, only its client, and the process that settles a dead
    // client's slot, change the number.
    if seen.number() != number || matches!(seen.state(), State::Cancelled | State::Over) {
        return true;
    }
    // Acquire as in stream.rs.
    let taken = Ready(call.words.taken.load(Ordering::Acquire));
    let registry = service.queue.registry();
    taken.number() == number && taken.is_end() || !client.is_some_and(|id| registry.is_alive(id))
}

/// What waits for something of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    /// A set: once another thread has answered, or has been told of the end, nothing more is to be told.
    Set,
    /// A task, which waits once: then it tries again, and the try tells it so.
    Task,
}

/// Whether a request's client waits for a reply, as a wait set sees it. It keeps the service mapped.
#[derive(Clone)]
pub(crate) struct Cancellation {
    service: ServiceFile,
    slot: u32,
    number: u64,
    client: Option<TokenId>,
    told: Arc<ToldReplies>,
}

impl Cancellation {
    pub(crate) fn registry(&self) -> &'static Registry {
        self.service.queue.registry()
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn is_answered(&self) -> bool {
        self.told.is_answered()
    }

    /// Returns what the server tells of its replies.
    pub(super) fn told(&self) -> &ToldReplies {
        &self.told
    }

    /// Returns the call's words. If the request is answered, the slot may be another call's.
    pub(super) fn words(&self) -> Option<&CallWords> {
        let answered = self.told.is_answered();
        self.service.call(self.slot).ok().filter(|_| !answered).map(|call| call.words)
    }

    fn space(&self) -> Option<&EventCount> {
        self.words().map(|words| &words.space)
    }
}

impl Cancellation {
    /// Looks for that asker.
    pub(super) fn look_of(&self, asker: Asker) -> SourceState {
        let cancelled = is_cancelled(&self.service, self.slot, self.number, self.client);
        // Asked afterwards: an answer changes what was looked at.
        match cancelled {
            _ if self.is_answered() => asker.over(),
            true => SourceState::Ready(Readiness::Ended),
            false => SourceState::behind(self.client),
        }
    }
}

impl Asker {
    /// Returns what it is told once nothing more comes.
    pub(super) fn over(self) -> SourceState {
        match self {
            Asker::Set => SourceState::Waiting,
            Asker::Task => SourceState::Ready(Readiness::Ended),
        }
    }
}

impl Waited for Cancellation {
    fn look(&self) -> SourceState {
        self.look_of(Asker::Set)
    }

    fn event_count(&self) -> Option<&EventCount> {
        self.space()
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        if let Some(space) = self.space() {
            words.add(&[space.watch(prepared.ticket)]);
        }
    }
}

/// Ready when no client waits for a reply any more
/// ([`Readiness::Ended`](crate::wait::Readiness::Ended)). Once it is answered, it is not ready again.
impl<Q: Payload + ?Sized, R: Payload + ?Sized> Source for Request<Q, R> {
    fn watched(&self) -> Result<Watched, Error> {
        let cancellation = self.raw.cancellation();
        let registry = cancellation.registry();
        Ok(Watched::of(cancellation, registry))
    }
}

/// Ready when no client waits for further replies
/// ([`Readiness::Ended`](crate::wait::Readiness::Ended)). Once it has ended, it is not ready again.
impl<Q: Payload + ?Sized, R: Payload + ?Sized> Source for Stream<Q, R> {
    fn watched(&self) -> Result<Watched, Error> {
        self.request().watched()
    }
}
