//! Bringing a service's memory in before it is used.

use super::client::Client;
use super::server::Server;
use super::service::Service;
use crate::{Payload, SendError};

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Service<Q, R> {
    /// Makes memory for so many requests and replies of up to so many bytes each, and brings it in,
    /// so that calls of that length are no page faults. Requests of up to 232 bytes and replies of up
    /// to 112 lie in their client's slot, and need none.
    ///
    /// Each process of the service calls it, after it has made its clients or its server. A client
    /// that waits for its reply sleeps, which is a system call; one that polls makes none.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-service-prefault-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::rpc::Service;
    /// let service = Service::<[u8], [u8]>::open_or_create(&domain, "plan")?;
    /// let client = service.client()?;
    /// service.prefault(2, 64 << 10)?;
    /// # drop(client);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError::NoSpace`] when the service, or the file system, has no room for all of it; what
    /// was made stays. [`SendError::TooLarge`], [`SendError::System`].
    ///
    /// # If a process dies
    /// If this process dies during the call, other processes use what was made.
    pub fn prefault(&self, messages: usize, bytes: usize) -> Result<(), SendError> {
        self.file.queue.prefault_objects(messages, bytes)
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Client<Q, R> {
    /// Makes memory for requests and replies, and brings it in, as [`Service::prefault`] does.
    ///
    /// # Errors
    /// The errors of [`Service::prefault`].
    ///
    /// # If a process dies
    /// The same as with [`Service::prefault`].
    pub fn prefault(&self, messages: usize, bytes: usize) -> Result<(), SendError> {
        self.slots.service.queue.prefault_objects(messages, bytes)
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Server<Q, R> {
    /// Makes memory for requests and replies, and brings it in, as [`Service::prefault`] does.
    ///
    /// # Errors
    /// The errors of [`Service::prefault`].
    ///
    /// # If a process dies
    /// The same as with [`Service::prefault`].
    pub fn prefault(&self, messages: usize, bytes: usize) -> Result<(), SendError> {
        self.service.queue.prefault_objects(messages, bytes)
    }
}
