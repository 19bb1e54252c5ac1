//! A service as a whole: making and opening it.

use core::marker::PhantomData;
use std::time::Duration;

use super::client::Client;
use super::client_watch::ClientWatch;
use super::layout::{ANNEX, MOST_SERVERS, ServiceFile, Types};
use super::server::Server;
use crate::claim::{Holder, unless_taken};
use crate::describe::{Described, Description};
use crate::domain::{agree, check_range, three_openings};
use crate::payload::Recorded;
use crate::queue::{Annex, Queue};
use crate::segment::Opening;
use crate::{Deadline, Domain, Error, Kind, Payload, WaitStrategy};

/// A service, open in this process; makes its clients and its server.
///
/// A service has one [`Server`] at a time and any number of [`Client`]s, in any number of
/// processes. Its requests are of type `Q` and its replies of type `R`: bytes, a plain type, or a
/// slice of one ([`Payload`]). The file records both, and all its users must agree on them.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-service-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::rpc::Service;
///
/// let sums = Service::<[f64], f64>::options().max_bytes(1 << 20).open_or_create(&domain, "sum")?;
/// let mut server = sums.server()?;
/// let client = sums.client()?;                        // in another process, as a rule
/// let call = client.begin(&[1.5, 2.0])?;
/// let request = server.next()?;
/// let sum = request.value().iter().sum();
/// request.reply(&sum)?;
/// assert_eq!(call.wait()?.value(), 3.5);
///
/// let other = Service::<[f32], f64>::open(&domain, "sum");
/// assert!(matches!(other, Err(outlive::Error::OtherType { .. })));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// Requests that no server has begun stay; see [`Server`] and [`Client`].
pub struct Service<Q: Payload + ?Sized = [u8], R: Payload + ?Sized = [u8]> {
    pub(super) file: ServiceFile,
    _types: PhantomData<Types<Q, R>>,
}

/// Options for opening a service, or for making one.
///
/// An option that is not set takes what is there. [`wait_strategy`](Self::wait_strategy) concerns
/// this process alone, and is never compared with what is there.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-service-options-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::Error;
/// use outlive::rpc::Service;
///
/// let service = Service::<u32, u32>::options().max_bytes(1 << 20).create_new(&domain, "double")?;
/// assert_eq!(Service::<u32, u32>::open(&domain, "double")?.config(), service.config());
/// let other = Service::<u32, u32>::options().max_bytes(2 << 20).open(&domain, "double");
/// assert!(matches!(other, Err(Error::OtherOptions { what: "max_bytes", .. })));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "options do nothing until they open or make a service"]
pub struct ServiceOptions<Q: Payload + ?Sized = [u8], R: Payload + ?Sized = [u8]> {
    max_bytes: Option<u64>,
    max_servers: Option<u32>,
    wait: Option<WaitStrategy>,
    description: Option<Description>,
    _types: PhantomData<Types<Q, R>>,
}

/// What a service was made with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceConfig {
    /// The most bytes that requests and replies may take together.
    pub max_bytes: u64,
    /// The most servers at a time.
    pub max_servers: u32,
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> ServiceOptions<Q, R> {
    /// Sets the most bytes that requests and replies may take together, records included, besides
    /// 24 KiB for each client. 64 KiB to 6 GiB; default for a new service: 1 GiB. The file may take
    /// up to 64 KiB more for each 2 MiB of it, where memory of short messages is reused for long
    /// ones.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Sets the most servers that the service may have at a time. 1 to 64; default for a new service:
    /// one. Several share the load: each call is taken by one that is free. A client's calls are then
    /// carried out at once, in no order. Servers may be threads of one process, each with a
    /// [`Server`] of its own.
    pub fn max_servers(mut self, servers: u32) -> Self {
        self.max_servers = Some(servers);
        self
    }

    /// Sets how this process's ends of the service wait. Default: [`WaitStrategy::Adaptive`].
    pub fn wait_strategy(mut self, wait: WaitStrategy) -> Self {
        self.wait = Some(wait);
        self
    }

    three_openings!(
        Service<Q, R>,
        "service",
        "[`Error::OtherType`](crate::Error::OtherType) when its requests or replies are of another
         type, [`Error::InvalidOption`](crate::Error::InvalidOption) for an option out of its range."
    );

    fn open_as(
        self,
        domain: &Domain,
        name: &str,
        opening: Opening,
    ) -> Result<Service<Q, R>, Error> {
        check_range("max_servers", self.max_servers, 1..=MOST_SERVERS, "1 to 64")?;
        let annex = Annex { word: self.max_servers.unwrap_or(1), ..ANNEX };
        // Requests lie in their clients' slots.
        let mut options =
            Queue::options().slots(4).slot_bytes(64).maybe_wait(self.wait).need_receiver(true);
        if let Some(bytes) = self.max_bytes {
            options = options.max_bytes(bytes);
        }
        let types = Recorded::pair(Q::METADATA, R::METADATA, self.description.as_ref());
        let options = options.maybe_description(self.description);
        let queue = options.open_kind(domain, name, opening, Kind::Service, types, annex)?;
        let file = ServiceFile::new(queue)?;
        agree(file.segment(), "max_servers", file.servers(), self.max_servers)?;
        Ok(Service::of(file))
    }
}

impl<Q: Described + ?Sized, R: Described + ?Sized> ServiceOptions<Q, R> {
    /// Keeps the description of the requests' and the replies' types in a new service, and wants an
    /// existing service to have the same one: as
    /// [`TopicOptions::described`](crate::topic::TopicOptions::described).
    ///
    /// Together the two have at most 512 fields, whose names fit into 4 KiB; otherwise opening is
    /// refused with [`Error::InvalidOption`].
    pub fn described(mut self) -> Self {
        self.description = Some(Q::description().and_reply(R::description()));
        self
    }
}

impl ServiceOptions {
    /// Sets the description of the requests' and the replies' types, of which they are the bytes: for
    /// types that are known at run time alone. [`Description::with_reply`] makes it.
    pub fn description(mut self, description: Description) -> Self {
        self.description = Some(description);
        self
    }

    /// Opens the existing service of that name as [`Service::open_as_bytes`] does, with these
    /// options.
    ///
    /// # Errors
    /// As [`ServiceOptions::open`], without [`Error::OtherType`].
    pub fn open_as_bytes(self, domain: &Domain, name: &str) -> Result<Service, Error> {
        let mut options = Queue::options().maybe_wait(self.wait);
        if let Some(bytes) = self.max_bytes {
            options = options.max_bytes(bytes);
        }
        let options = options.maybe_description(self.description);
        let queue = options.open_kind_as_bytes(domain, name, Kind::Service)?;
        let file = ServiceFile::new(queue)?;
        agree(file.segment(), "max_servers", file.servers(), self.max_servers)?;
        Ok(Service::of(file))
    }
}

impl Service {
    /// Opens the existing service of that name for requests and replies as bytes, whatever types
    /// they have.
    ///
    /// # Errors
    /// The errors of [`ServiceOptions::open`], [`Error::OtherType`] aside.
    pub fn open_as_bytes(domain: &Domain, name: &str) -> Result<Service, Error> {
        Service::options().open_as_bytes(domain, name)
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Service<Q, R> {
    fn of(file: ServiceFile) -> Service<Q, R> {
        Service { file, _types: PhantomData }
    }

    /// Returns options for opening a service or making one.
    pub fn options() -> ServiceOptions<Q, R> {
        ServiceOptions {
            max_bytes: None,
            max_servers: None,
            wait: None,
            description: None,
            _types: PhantomData,
        }
    }

    /// Opens the existing service of that name.
    ///
    /// # Errors
    /// The errors of [`ServiceOptions::open`].
    pub fn open(domain: &Domain, name: &str) -> Result<Service<Q, R>, Error> {
        Service::options().open(domain, name)
    }

    /// Opens the service of that name, or makes it with default options if there is none.
    ///
    /// # Errors
    /// The errors of [`ServiceOptions::open_or_create`].
    ///
    /// # If a process dies
    /// If this process dies while it makes the service, nothing is left of it.
    pub fn open_or_create(domain: &Domain, name: &str) -> Result<Service<Q, R>, Error> {
        Service::options().open_or_create(domain, name)
    }

    /// Returns the description of the requests' and the replies' types, if the service's maker gave
    /// one. It is read from the file.
    ///
    /// # Errors
    /// [`Error::Damaged`] when a stray write hit it; errors of the system.
    pub fn description(&self) -> Result<Option<Description>, Error> {
        self.file.segment().description()
    }

    /// Returns what the service was made with.
    #[must_use]
    pub fn config(&self) -> ServiceConfig {
        ServiceConfig {
            max_bytes: self.file.segment().header().max_bytes(),
            max_servers: self.file.servers(),
        }
    }

    /// Makes a new client.
    ///
    /// # Errors
    /// [`Error::TooMany`] when the service has 1,024 clients; [`Error::NoSpace`],
    /// [`Error::NoToken`], [`Error::Damaged`].
    ///
    /// # If a process dies
    /// If this process dies during the call, the next client takes the place.
    pub fn client(&self) -> Result<Client<Q, R>, Error> {
        Client::new(self.file.clone())
    }

    /// Makes this process the service's server, if there is none or it is dead. Never waits for a
    /// living server: see [`Service::wait_to_serve`]. One that was killed a moment ago still lives
    /// until the kernel has ended it. A gateway, which serves for a server elsewhere, gives way: this
    /// waits for it, two seconds at most.
    ///
    /// # Errors
    /// [`Error::Taken`] while another server lives, [`Error::Ending`] when a thread of the dead one
    /// has not exited after two seconds, for which this waits, [`Error::NoToken`],
    /// [`Error::NoSpace`], [`Error::Damaged`].
    ///
    /// # If a process dies
    /// If this process dies while it takes over, the next process to call this function takes over.
    pub fn server(&self) -> Result<Server<Q, R>, Error> {
        self.server_by(Deadline::NEVER)
    }

    /// Makes this process the server; waits for the last thread of a dead server until the deadline,
    /// and two seconds at most. For bindings, whose errors say which process is in the way.
    #[doc(hidden)]
    pub fn server_by(&self, deadline: Deadline) -> Result<Server<Q, R>, Error> {
        match Server::new(self.file.clone(), deadline) {
            Err(Error::Taken { .. }) if self.file.stand_in().is_some() => {
                self.server_after_stand_in(deadline)
            }
            other => other,
        }
    }

    /// Makes this process the server, waiting for a living server to leave or to end, and for the
    /// last thread of a dead one. So several processes may stand by: when the server dies, one of
    /// them takes over at once, and the others wait on.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-stand-by-service-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use std::time::Duration;
    /// use outlive::rpc::Service;
    ///
    /// let service = Service::<[u8]>::open_or_create(&domain, "sum")?;
    /// let server = service.server()?;
    /// assert!(service.wait_to_serve_timeout(Duration::from_millis(1))?.is_none());
    /// drop(server);
    /// let mut next = service.wait_to_serve()?;
    /// assert!(next.try_next()?.is_none());
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A server of this process is in the way like any other: this call waits until another thread
    /// drops it, and for ever where the calling thread has it.
    ///
    /// # Errors
    /// The errors of [`Service::server`], but neither [`Error::Taken`] nor [`Error::Ending`].
    ///
    /// # If a process dies
    /// If the server dies, the wait is over at once. If this process dies while it takes over, the
    /// next process takes over.
    pub fn wait_to_serve(&self) -> Result<Server<Q, R>, Error> {
        Deadline::never(|deadline| self.wait_to_serve_until(deadline))
    }

    /// Makes this process the server; `None` at once while another server lives, or while the last
    /// thread of a dead one has not exited.
    ///
    /// # Errors
    /// The errors of [`Service::wait_to_serve`].
    ///
    /// # If a process dies
    /// The same as with [`Service::server`].
    pub fn try_wait_to_serve(&self) -> Result<Option<Server<Q, R>>, Error> {
        unless_taken(self.server_by(Deadline::at_nanos(0)))
    }

    /// Makes this process the server, waiting for a living server as long as `span`; `None` when
    /// that has passed.
    ///
    /// # Errors
    /// The errors of [`Service::wait_to_serve`].
    ///
    /// # If a process dies
    /// The same as with [`Service::wait_to_serve`].
    pub fn wait_to_serve_timeout(&self, span: Duration) -> Result<Option<Server<Q, R>>, Error> {
        self.wait_to_serve_until(Deadline::after(span))
    }

    /// Makes this process the server, waiting for a living server until the deadline; `None` when
    /// that has passed.
    ///
    /// # Errors
    /// The errors of [`Service::wait_to_serve`].
    ///
    /// # If a process dies
    /// The same as with [`Service::wait_to_serve`].
    pub fn wait_to_serve_until(&self, deadline: Deadline) -> Result<Option<Server<Q, R>>, Error> {
        // One that serves already is asked for its place; one that comes later finds this process there.
        if self.file.stand_in().is_some()
            && let Some(server) = unless_taken(self.server_by(deadline))?
        {
            return Ok(Some(server));
        }
        if self.file.servers() > 1 {
            return self.file.wait_to_serve(deadline, || self.server_by(deadline));
        }
        let (role, path) = (self.file.queue.server_role(), self.file.queue.registry().path());
        role.wait_to_take(path, deadline, || self.server_by(deadline))
    }

    /// Returns the server, dead or alive; of several, the first that lives.
    #[must_use]
    pub fn current_server(&self) -> Option<Holder> {
        self.file.current_server()
    }

    /// Returns the servers, dead or alive.
    #[must_use]
    pub fn current_servers(&self) -> Vec<Holder> {
        self.file.current_servers()
    }

    /// Follows what becomes of the clients: which of them live and have done nothing for `lease`, and
    /// which have died. It tells nothing of clients that are dead by now.
    ///
    /// A client does something when it makes a call, sends a part of a request, takes a reply of a
    /// stream, or [asserts](Client::assert_liveliness) that it is there. One that only waits for a
    /// reply does nothing. A lease of less than a millisecond counts as one.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-watch-clients-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::rpc::{ClientEvent, Service};
    /// use std::time::Duration;
    ///
    /// let service = Service::<[u8]>::open_or_create(&domain, "arm")?;
    /// let mut watch = service.watch_clients(Duration::from_millis(2))?;
    /// let client = service.client()?;                     // in another process, as a rule
    /// assert!(matches!(watch.next()?, ClientEvent::NotLively(_)));
    /// client.assert_liveliness();
    /// assert!(matches!(watch.next()?, ClientEvent::Lively(_)));
    /// assert_eq!((watch.lapses(), watch.deaths()), (1, 0));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged), and errors of the system.
    ///
    /// # If a process dies
    /// A client's death is told at once.
    pub fn watch_clients(&self, lease: Duration) -> Result<ClientWatch, Error> {
        ClientWatch::new(self.file.clone(), lease)
    }

    /// Sets how this process's ends of the service wait from now on.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.file.queue.set_wait_strategy(wait);
    }

    /// Returns whether the service's name has been removed: processes that have it open go on, no
    /// other process finds it.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.file.segment().header().is_removed()
    }

    /// Returns the attributes that its maker gave it.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) when a process wrote over them, and errors of the
    /// system.
    pub fn attributes(&self) -> Result<crate::Attributes, crate::Error> {
        self.file.segment().attributes()
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Clone for Service<Q, R> {
    fn clone(&self) -> Service<Q, R> {
        Service::of(self.file.clone())
    }
}
