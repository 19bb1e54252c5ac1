//! A cluster, from which locks are got.

use std::sync::Arc;
use std::time::Duration;

use outlive::Domain;

use crate::address::Address;
use crate::client::Client;
use crate::clock::Moment;
use crate::error::Error;
use crate::etcd;
use crate::mutex::Mutex;
use crate::semaphore::Semaphore;
use crate::session::Session;

/// Servers that keep the locks of several machines, and the domain in which the processes of this one
/// wait for each other.
pub struct Cluster {
    session: Arc<Session>,
    domain: Domain,
    digest: u32,
}

impl Cluster {
    /// Connects to `etcd://HOST:PORT[,HOST:PORT]`; see [`Address`].
    ///
    /// # Errors
    /// [`Error::Address`]; [`Error::Unreachable`] if no server answers within five seconds;
    /// [`Error::Denied`].
    pub fn connect(domain: &Domain, address: &str) -> Result<Cluster, Error> {
        Cluster::connect_to(domain, &Address::parse(address)?)
    }

    /// Does the same, with an address that was read already.
    ///
    /// # Errors
    /// As [`connect`](Cluster::connect).
    pub fn connect_to(domain: &Domain, address: &Address) -> Result<Cluster, Error> {
        Cluster::connect_before(domain, address, Moment::now().after(Cluster::HELLO))
    }

    /// So long a server may take for its first answer: a wrong address is told, and not waited for.
    pub(crate) const HELLO: Duration = Duration::from_secs(5);

    pub(crate) fn connect_before(
        domain: &Domain,
        address: &Address,
        limit: Moment,
    ) -> Result<Cluster, Error> {
        let client = Client::new(address)?;
        etcd::taken(&client, "outlive/hello", limit)?;
        let session = Arc::new(Session::new(client, address.ttl));
        Ok(Cluster { session, domain: domain.clone(), digest: address.digest() })
    }

    /// Returns the lock of that name; it comes to be when it is first locked.
    ///
    /// # Errors
    /// [`Error::Local`]: the name cannot be one, or the domain has no room.
    pub fn mutex(&self, name: &str) -> Result<Mutex, Error> {
        Mutex::open(self, &self.domain, name)
    }

    /// Returns the semaphore of that name, and makes it with so many permits if it is not there.
    ///
    /// # Errors
    /// [`Error::OtherPermits`]; as [`mutex`](Cluster::mutex); as [`connect`](Cluster::connect).
    pub fn semaphore(&self, name: &str, permits: u32) -> Result<Semaphore, Error> {
        let opened = Semaphore::open(self, &self.domain, name, Some(permits))?;
        opened.ok_or_else(|| Error::Refused("the semaphore was not made".to_owned()))
    }

    /// Returns the semaphore of that name, `None` if it is not there.
    ///
    /// # Errors
    /// As [`semaphore`](Cluster::semaphore).
    pub fn existing_semaphore(&self, name: &str) -> Result<Option<Semaphore>, Error> {
        Semaphore::open(self, &self.domain, name, None)
    }

    pub(crate) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }

    pub(crate) fn digest(&self) -> u32 {
        self.digest
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("digest", &self.digest).finish_non_exhaustive()
    }
}
