//! Futures, for any executor: what can be waited for in a set can be awaited.
//!
//! Each looks; finds nothing; registers with the reactor, which looks again by itself and wakes the
//! task once. Dropped before that, it leaves the list and has taken nothing.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::reactor::{Registration, Whom};
use super::set::{Ready, WaitSet};
use super::source::{Look, Source, Waited};
use crate::liveness::Registry;
use crate::queue::{Receiver, RecvError, TypedReceiver};
use crate::sync::{AwaitError, Event, Latch, Plain};
use crate::{Error, Peer, WaitError};

/// Ready when one of some sources is.
pub(super) struct UntilReady {
    registry: &'static Registry,
    sources: Vec<Arc<dyn Waited>>,
    registration: Option<Registration>,
}

impl UntilReady {
    fn of(registry: &'static Registry, sources: Vec<Arc<dyn Waited>>) -> UntilReady {
        UntilReady { registry, sources, registration: None }
    }

    pub(super) fn of_one(source: &impl Source, registry: &'static Registry) -> Result<UntilReady, Error> {
        Ok(UntilReady::of(registry, vec![source.watched()?.waited]))
    }
}

impl Future for UntilReady {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.sources.iter().any(|source| matches!(source.look(), Look::Ready(_))) {
            self.registration = None;
            return Poll::Ready(Ok(()));
        }
        if !self.registration.as_ref().is_some_and(|registration| registration.tell_instead(context.waker())) {
            let whom = Whom::Task(context.waker().clone());
            // The former one first: it is not on the list any more.
            self.registration = None;
            match Registration::take(self.registry, self.sources.clone(), whom) {
                Ok(registration) => self.registration = Some(registration),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Pending
    }
}

impl Receiver {
    /// [`Receiver::recv`] for `async`, under any executor: a thread of this process waits in its place, one for all of a domain,
    /// started here and named `outlive-wait`. Dropped before it is ready, it has taken nothing.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-recv-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let queue = outlive::queue::Queue::create(&domain, "orders")?;
    /// let mut receiver = queue.receiver()?;
    /// std::thread::spawn(move || queue.sender().unwrap().send(b"buy 10"));
    /// # runtime.block_on(async {
    /// assert_eq!(receiver.recv_async().await?, b"buy 10");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Receiver::recv`]; [`RecvError::System`] also when there is no thread to be had.
    ///
    /// # If a process dies
    /// As with [`Receiver::recv`]. A forked child's future registers with a thread of the child's own when it is polled.
    pub async fn recv_async(&mut self) -> Result<Vec<u8>, RecvError> {
        loop {
            match self.try_recv() {
                Err(RecvError::Empty) => {}
                received => return received,
            }
            UntilReady::of_one(self, self.readiness().registry())?.await?;
        }
    }
}

impl<T: Plain> TypedReceiver<T> {
    /// [`TypedReceiver::recv`] for `async`: see [`Receiver::recv_async`].
    ///
    /// # Errors
    /// As [`Receiver::recv_async`].
    pub async fn recv_async(&mut self) -> Result<T, RecvError> {
        loop {
            match self.try_recv() {
                Err(RecvError::Empty) => {}
                received => return received,
            }
            UntilReady::of_one(self, self.bytes().readiness().registry())?.await?;
        }
    }
}

impl Peer {
    /// [`Peer::wait_dead`] for `async`: see [`Receiver::recv_async`](crate::queue::Receiver::recv_async).
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// As with [`Peer::wait_dead`].
    pub async fn wait_dead_async(&self) -> Result<(), WaitError> {
        while self.registry().is_alive(self.id()) {
            let readiness = UntilReady::of_one(self, self.registry()).map_err(WaitError::System)?;
            readiness.await.map_err(WaitError::System)?;
        }
        Ok(())
    }
}

impl Event {
    /// [`Event::wait_any`] for `async`: see [`Receiver::recv_async`](crate::queue::Receiver::recv_async). With automatic reset, the
    /// bits are taken in the step that makes it ready.
    ///
    /// # Errors
    /// [`AwaitError::System`].
    pub async fn wait_any_async(&self, bits: u32) -> Result<u32, AwaitError> {
        loop {
            if let Some(got) = self.try_wait_any(bits) {
                return Ok(got);
            }
            opened(&self.any_of(bits)).await?;
        }
    }

    /// [`Event::wait_all`] for `async`: as [`Event::wait_any_async`].
    ///
    /// # Errors
    /// [`AwaitError::System`].
    pub async fn wait_all_async(&self, bits: u32) -> Result<u32, AwaitError> {
        loop {
            if let Some(got) = self.try_wait_all(bits) {
                return Ok(got);
            }
            opened(&self.all_of(bits)).await?;
        }
    }
}

impl Latch {
    /// [`Latch::wait`] for `async`: see [`Receiver::recv_async`](crate::queue::Receiver::recv_async).
    ///
    /// # Errors
    /// [`AwaitError::System`].
    pub async fn wait_async(&self) -> Result<(), AwaitError> {
        while !self.is_open() {
            opened(self).await?;
        }
        Ok(())
    }
}

/// Until an event or a latch is worth another try.
async fn opened(source: &impl Source) -> Result<(), AwaitError> {
    let watched = source.watched().map_err(AwaitError::System)?;
    match watched.registry {
        Some(registry) => UntilReady::of(registry, vec![watched.waited]).await.map_err(AwaitError::System),
        None => Ok(()),
    }
}

impl WaitSet {
    /// [`WaitSet::wait`] for `async`: see [`Receiver::recv_async`](crate::queue::Receiver::recv_async). Of any number of sources; a
    /// deadline is a [`Timer`](super::Timer) among them.
    ///
    /// # Errors
    /// [`AwaitError::System`].
    ///
    /// # If a process dies
    /// See [`WaitSet`].
    pub async fn wait_async(&mut self) -> Result<Ready<'_>, AwaitError> {
        while !self.look() {
            UntilReady::of(self.registry, self.sources()).await.map_err(AwaitError::System)?;
        }
        Ok(self.ready())
    }
}
