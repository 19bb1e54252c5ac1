//! The server.
//!
//! Requests lie in the clients' slots, and the server takes them there (accept.rs). If it is killed
//! afterwards, a successor finds a call that is begun, and skips it; if before, one that is not
//! begun.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::time::Duration;

use super::accept::Requests;
use super::client_watch::ClientWatch;
use super::layout::{SLOTS, ServiceFile, Types};
use super::places::Place;
use super::readiness::RequestReadiness;
use super::request::{RawRequest, Request};
use crate::liveness::TokenId;
use crate::wake::{Look, Source, Watched, wait_for};
use crate::{Deadline, Error, Payload, RecvError, WaitStrategy};

/// Receives a service's requests. A service has one server at a time, or as many as it was made for
/// ([`max_servers`](super::ServiceOptions::max_servers)); a server may move between threads.
///
/// Any thread of the process may reply to requests, in any order, at any time: hand the
/// [`Request`]s out.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-server-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::rpc::Service;
///
/// let service = Service::<[u8], [u8]>::open_or_create(&domain, "double")?;
/// let mut server = service.server()?;
/// let answering = std::thread::spawn(move || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     let request = server.next()?;
///     let answer = request.iter().map(|byte| byte * 2).collect::<Vec<u8>>();
///     Ok(request.reply(&answer)?)
/// });
/// let client = service.client()?;
/// assert_eq!(*client.call(&[1, 2, 3])?, [2, 4, 6]);
/// answering.join().unwrap().unwrap();
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If the server's process dies, all its clients are told at once; of several servers' clients, those
/// whose calls it had begun, and the other servers take the rest. The next process to call
/// [`Service::server`](super::Service::server) takes over the requests that were not begun and whose callers still wait.
/// If a client dies, its requests that were not begun are skipped, and replies to it fail with
/// [`SendError::ReceiverDied`](crate::SendError::ReceiverDied).
pub struct Server<Q: Payload + ?Sized = [u8], R: Payload + ?Sized = [u8]> {
    pub(super) service: ServiceFile,
    pub(super) place: Place,
    requests: Requests,
    process: TokenId,
    _types: PhantomData<Types<Q, R>>,
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Server<Q, R> {
    pub(super) fn new(service: ServiceFile, deadline: Deadline) -> Result<Server<Q, R>, Error> {
        let process = service.queue.registry().process_token()?;
        let place = Place::take(service.clone(), deadline)?;
        let requests = Requests::default();
        Ok(Server { service, place, requests, process, _types: PhantomData })
    }

    /// Sets how this server's waits wait.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.service.queue.set_wait_strategy(wait);
    }

    /// Takes the next request and returns it, waiting for one.
    ///
    /// # Errors
    /// [`RecvError::NotOwner`]; [`RecvError::Damaged`] and, when a request's length is not that of a
    /// `Q`, [`RecvError::Encoding`] (that request is skipped); [`RecvError::System`].
    ///
    /// # If a process dies
    /// If this process dies with the request taken, the client is told that it was begun, and no
    /// server begins it again.
    #[expect(clippy::should_implement_trait, reason = "it waits, and fails")]
    #[inline]
    pub fn next(&mut self) -> Result<Request<Q, R>, RecvError> {
        loop {
            if let Some(request) = self.take(Some(Deadline::NEVER))? {
                return Ok(request);
            }
        }
    }

    /// Takes the next request and returns it; `None` when none is there. Never waits.
    ///
    /// # Errors
    /// The errors of [`Server::next`].
    ///
    /// # If a process dies
    /// The same as with [`Server::next`].
    pub fn try_next(&mut self) -> Result<Option<Request<Q, R>>, RecvError> {
        self.take(None)
    }

    /// Takes the next request and returns it, waiting for one as long as `span`; `None` when that
    /// has passed.
    ///
    /// # Errors
    /// The errors of [`Server::next`].
    ///
    /// # If a process dies
    /// The same as with [`Server::next`].
    pub fn next_timeout(&mut self, span: Duration) -> Result<Option<Request<Q, R>>, RecvError> {
        self.take(Some(Deadline::after(span)))
    }

    /// Takes the next request and returns it, waiting for one until the deadline; `None` when that
    /// has passed.
    ///
    /// # Errors
    /// The errors of [`Server::next`].
    ///
    /// # If a process dies
    /// The same as with [`Server::next`].
    #[inline]
    pub fn next_until(&mut self, deadline: Deadline) -> Result<Option<Request<Q, R>>, RecvError> {
        self.take(Some(deadline))
    }

    /// Follows what becomes of the service's clients:
    /// [`Service::watch_clients`](super::Service::watch_clients).
    ///
    /// # Errors
    /// The errors of [`Service::watch_clients`](super::Service::watch_clients).
    ///
    /// # If a process dies
    /// A client's death is told at once.
    pub fn watch_clients(&self, lease: Duration) -> Result<ClientWatch, Error> {
        ClientWatch::new(self.service.clone(), lease)
    }

    /// For a wait set.
    pub(crate) fn readiness(&self) -> RequestReadiness {
        RequestReadiness::new(self.service.clone(), self.place.others().clone())
    }

    #[inline]
    fn take(&mut self, deadline: Option<Deadline>) -> Result<Option<Request<Q, R>>, RecvError> {
        let (service, requests, process) = (&self.service, &mut self.requests, self.process);
        let me = self.place.enter()?;
        if let Some(request) = requests.next(service, me, process)? {
            return Request::new(request).map(Some);
        }
        let others = self.place.others();
        let Some(deadline) = deadline else {
            if !others.look_after() {
                return Ok(None);
            }
            return requests.next(service, me, process)?.map(Request::new).transpose();
        };
        let is_any_set = || service.asks().is_any_set(service.client_slots() * SLOTS);
        let requests = RefCell::new(requests);
        let look = || -> Result<Look<RawRequest>, RecvError> {
            let next = || requests.borrow_mut().next(service, me, process);
            let found = match next()? {
                None if others.look_after() => next()?,
                found => found,
            };
            Ok(found.map_or_else(|| Look::Nothing(others.watched()), Look::Got))
        };
        let (spin, messages) = (service.queue.spin_wait(), service.queue.messages().count());
        loop {
            // Beside others it looks at all calls now and then, whatever the recheck interval is.
            let until = match service.servers() {
                1 => deadline,
                _ => deadline.earlier(others.look_at()),
            };
            let found = wait_for(me, Some(spin), messages, until, is_any_set, look)?;
            if found.is_some() || until == deadline || deadline.has_passed() {
                return found.map(Request::new).transpose();
            }
        }
    }
}

/// Ready when [`Server::try_next`] is worth a try.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-set-server-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::rpc::Service;
/// use outlive::wait::{WaitSet, Readiness};
/// use std::task::Poll;
///
/// let first = Service::<[u8], [u8]>::open_or_create(&domain, "one")?;
/// let second = Service::<[u8], [u8]>::open_or_create(&domain, "two")?;
/// let (mut one, mut two) = (first.server()?, second.server()?);
/// let client = second.client()?;                         // in another process, as a rule
/// let mut set = WaitSet::new(&domain);
/// let (_ones, twos) = (set.add(&one)?, set.add(&two)?);
/// let mut call = client.begin(b"2 + 2")?;
/// assert_eq!(set.wait()?.collect::<Vec<_>>(), [(twos, Readiness::Readable)]);
///
/// let mut answers = WaitSet::new(&domain);
/// let answer = answers.add(&call)?;
/// assert_eq!(answers.try_wait()?.count(), 0);
/// two.next()?.reply(b"4")?;
/// assert_eq!(answers.wait()?.collect::<Vec<_>>(), [(answer, Readiness::Readable)]);
/// let Poll::Ready(Some(reply)) = call.try_next()? else { panic!("the reply is there") };
/// assert_eq!(*reply, *b"4");
/// assert!(one.try_next()?.is_none());
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<Q: Payload + ?Sized, R: Payload + ?Sized> Source for Server<Q, R> {
    fn watched(&self) -> Result<Watched, Error> {
        let readiness = self.readiness();
        let registry = readiness.registry();
        Ok(Watched::of(readiness, registry))
    }
}
