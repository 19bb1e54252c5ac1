//! Futures, for any executor: each thing that a set can wait for can be awaited. Only this file of
//! the layer, and rpc_futures.rs for services, know each kind by name.
//!
//! Each future looks; if it finds nothing, it registers with the reactor, which looks again by
//! itself and wakes the task once. A future that is dropped before that leaves the list and has
//! taken nothing.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::reactor::{Registration, Whom};
use super::set::{Ready, WaitSet};
use super::timer::Timer;
use crate::liveness::Registry;
use crate::node::{DomainContents, DomainWatch};
use crate::notify::{Listener, Notices};
use crate::queue::{Queue, Receiver};
use crate::state::{Change, State, Watch, Writer};
use crate::sync::{Event, Latch};
use crate::topic::{
    Due, Participants, Presence, Publishable, Published, Publisher, Sample, Subscriber,
};
use crate::wake::{Source, SourceState, Waited};
use crate::{Error, Payload, Peer, RecvError, WaitError};

/// Ready when one of some sources is.
pub(super) struct UntilReady {
    registry: &'static Registry,
    sources: Vec<Arc<dyn Waited>>,
    registration: Option<Registration>,
}

impl UntilReady {
    pub(super) fn of(registry: &'static Registry, sources: Vec<Arc<dyn Waited>>) -> UntilReady {
        UntilReady { registry, sources, registration: None }
    }

    pub(super) fn of_one(
        source: &impl Source,
        registry: &'static Registry,
    ) -> Result<UntilReady, Error> {
        Ok(UntilReady::of(registry, vec![source.watched()?.waited]))
    }
}

impl Future for UntilReady {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.sources.iter().any(|source| matches!(source.look(), SourceState::Ready(_))) {
            self.registration = None;
            return Poll::Ready(Ok(()));
        }
        if !self
            .registration
            .as_ref()
            .is_some_and(|registration| registration.tell_instead(context.waker()))
        {
            let whom = Whom::Task(context.waker().clone());
            // The former registration first: it is no longer on the list.
            self.registration = None;
            match Registration::take(self.registry, self.sources.clone(), whom) {
                Ok(registration) => self.registration = Some(registration),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Pending
    }
}

impl<M: Payload + ?Sized> Receiver<M> {
    /// Receives like [`Receiver::recv`], for `async` under any executor. A thread of this process
    /// waits in its place: one for each domain, started here and named `outlive-wait`. A future
    /// that is dropped before it is ready has taken nothing.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-recv-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let queue = outlive::queue::Queue::<[u8]>::open_or_create(&domain, "orders")?;
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
    /// As [`Receiver::recv`]; [`RecvError::System`] also when no thread can be started.
    ///
    /// # If a process dies
    /// As with [`Receiver::recv`]. A forked child's future registers with a thread of the child's
    /// own when it is polled.
    pub async fn recv_async(&mut self) -> Result<M::Owned, RecvError> {
        loop {
            if let Some(message) = self.try_recv()? {
                return Ok(message);
            }
            UntilReady::of_one(self, self.registry())?.await?;
        }
    }
}

impl Peer {
    /// Waits like [`Peer::wait_dead`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async).
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
    /// Waits like [`Event::wait_any`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async). With automatic reset, the step
    /// that makes it ready clears the bits.
    ///
    /// # Errors
    /// [`WaitError::System`].
    pub async fn wait_any_async(&self, bits: u32) -> Result<u32, WaitError> {
        loop {
            if let Some(got) = self.try_wait_any(bits)? {
                return Ok(got);
            }
            opened(&self.any_of(bits)).await?;
        }
    }

    /// Waits like [`Event::wait_all`], for `async`: see [`Event::wait_any_async`].
    ///
    /// # Errors
    /// [`WaitError::System`].
    pub async fn wait_all_async(&self, bits: u32) -> Result<u32, WaitError> {
        loop {
            if let Some(got) = self.try_wait_all(bits)? {
                return Ok(got);
            }
            opened(&self.all_of(bits)).await?;
        }
    }
}

impl Latch {
    /// Waits like [`Latch::wait`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async).
    ///
    /// # Errors
    /// [`WaitError::System`].
    pub async fn wait_async(&self) -> Result<(), WaitError> {
        while !self.is_open() {
            opened(self).await?;
        }
        Ok(())
    }
}

/// Waits until an event or a latch is worth another try.
pub(super) async fn opened(source: &impl Source) -> Result<(), WaitError> {
    worth_a_try(source).await.map_err(WaitError::System)
}

/// Waits until a source that knows its registry is worth another try.
pub(super) async fn worth_a_try(source: &impl Source) -> Result<(), Error> {
    let watched = source.watched()?;
    match watched.registry {
        Some(registry) => UntilReady::of(registry, vec![watched.waited]).await,
        None => Ok(()),
    }
}

impl<M: Payload + ?Sized> Queue<M> {
    /// Makes this process the receiver like [`Queue::wait_to_receive`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async). A future that is dropped before
    /// it is ready has taken nothing, and stands by no more.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-stand-by-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let queue = outlive::queue::Queue::<[u8]>::open_or_create(&domain, "log")?;
    /// let receiver = queue.receiver()?;                   // in another process, as a rule
    /// std::thread::spawn(move || drop(receiver));
    /// # runtime.block_on(async {
    /// let mut next = queue.wait_to_receive_async().await?;
    /// assert!(next.try_recv()?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Queue::wait_to_receive`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`Queue::wait_to_receive`].
    pub async fn wait_to_receive_async(&self) -> Result<Receiver<M>, Error> {
        loop {
            if let Some(receiver) = self.try_wait_to_receive()? {
                return Ok(receiver);
            }
            worth_a_try(&self.stand_by()).await?;
        }
    }
}

impl<M: Payload + ?Sized> State<M> {
    /// Makes this process the writer like [`State::wait_to_write`], for `async`: see
    /// [`Queue::wait_to_receive_async`].
    ///
    /// # Errors
    /// The errors of [`State::wait_to_write`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`State::wait_to_write`].
    pub async fn wait_to_write_async(&self) -> Result<Writer<M>, Error> {
        loop {
            if let Some(writer) = self.try_wait_to_write()? {
                return Ok(writer);
            }
            worth_a_try(&self.stand_by()).await?;
        }
    }
}

impl Due {
    /// Waits until the publisher has published nothing for its period, for `async`, and returns how
    /// many periods have passed, as [`Due::take`] does. Never ready for a publisher without a period.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-due-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// use outlive::topic::{Publisher, Topic};
    /// use std::time::Duration;
    /// let topic = Topic::<u64>::open_or_create(&domain, "steps")?;
    /// let often = Publisher::options().period(Duration::from_millis(2));
    /// let publisher = topic.publisher_with(often)?;
    /// # runtime.block_on(async {
    /// assert!(publisher.due().wait_async().await? >= 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`WaitError::System`].
    pub async fn wait_async(&self) -> Result<u64, WaitError> {
        loop {
            let periods = self.take();
            if periods > 0 {
                return Ok(periods);
            }
            let until = UntilReady::of_one(self, self.registry()).map_err(WaitError::System)?;
            until.await.map_err(WaitError::System)?;
        }
    }
}

impl Listener {
    /// Waits like [`Listener::wait`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async). A future that is dropped
    /// before it is ready has taken nothing.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-listen-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// use outlive::notify::{Listener, Notifier};
    /// let mut listener = Listener::open_or_create(&domain, "doors")?;
    /// let notifier = Notifier::open(&domain, "doors")?;
    /// std::thread::spawn(move || notifier.notify(3));
    /// # runtime.block_on(async {
    /// assert_eq!(listener.wait_async().await?.count(3), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Listener::wait`]; [`RecvError::System`] also when no thread can be started.
    ///
    /// # If a process dies
    /// As with [`Listener::wait`].
    pub async fn wait_async(&mut self) -> Result<Notices, RecvError> {
        loop {
            if let Some(notices) = self.try_wait()? {
                return Ok(notices);
            }
            UntilReady::of_one(self, self.readiness().registry())?.await?;
        }
    }
}

impl Watch {
    /// Waits like [`Watch::changed`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async).
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-state-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// use outlive::state::{Change, State};
    /// let level = State::<u64>::open_or_create(&domain, "level")?;
    /// let mut watch = level.watch();
    /// # runtime.block_on(async {
    /// assert_eq!(watch.changed_async().await?, Change::Value { version: 1 });
    /// std::thread::spawn(move || level.writer().unwrap().set(&11));
    /// assert_eq!(watch.changed_async().await?, Change::Value { version: 2 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Watch::changed`], also when no thread can be started.
    ///
    /// # If a process dies
    /// As with [`Watch::changed`].
    pub async fn changed_async(&mut self) -> Result<Change, Error> {
        loop {
            if let Some(change) = self.try_changed()? {
                return Ok(change);
            }
            UntilReady::of_one(self, self.readiness().registry())?.await?;
        }
    }
}

impl DomainWatch {
    /// Waits like [`DomainWatch::changed`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async).
    ///
    /// # Errors
    /// The errors of [`DomainWatch::changed`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`DomainWatch::changed`].
    pub async fn changed_async(&mut self) -> Result<DomainContents, Error> {
        loop {
            if let Some(now) = self.try_changed()? {
                return Ok(now);
            }
            UntilReady::of_one(self, self.registry())?.await?;
        }
    }
}

impl Presence {
    /// Waits like [`Presence::changed`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async).
    ///
    /// # Errors
    /// The errors of [`Presence::changed`], also when no thread can be started.
    ///
    /// # If a process dies
    /// As with [`Presence::changed`].
    pub async fn changed_async(&mut self) -> Result<Participants, Error> {
        loop {
            if let Some(present) = self.try_changed()? {
                return Ok(present);
            }
            UntilReady::of_one(self, self.readiness().registry())?.await?;
        }
    }
}

impl<M: Payload + ?Sized> Publisher<M> {
    /// Publishes like [`Publisher::publish`], for `async`: waits for reliable subscribers as
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async) waits for messages.
    ///
    /// # Errors
    /// As [`Publisher::publish`]; [`SendError::System`](crate::SendError::System) also when no
    /// thread can be started.
    ///
    /// # If a process dies
    /// As with [`Publisher::publish`].
    pub async fn publish_async(
        &mut self,
        message: impl Publishable<M>,
    ) -> Result<Published<'_>, crate::SendError> {
        while let Err(error) = self.try_wait_writable() {
            if !matches!(error, crate::SendError::Full { .. }) {
                return Err(error);
            }
            let room = self.writable();
            let mut sources = vec![room.watched()?.waited];
            // Then the next try marks the subscriber that is in the way.
            if let Some(moment) = self.next_mark() {
                sources.push(Timer::at(moment).watched()?.waited);
            }
            UntilReady::of(room.registry(), sources).await?;
        }
        // There is room, and this publisher alone can use it.
        self.publish(message)
    }
}

impl<M: Payload + ?Sized> Subscriber<M> {
    /// Receives like [`Subscriber::recv`], for `async` under any executor: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async).
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-topic-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let topic = outlive::topic::Topic::<[u8]>::open_or_create(&domain, "camera")?;
    /// let mut subscriber = topic.subscriber()?;
    /// std::thread::spawn(move || drop(topic.publisher().unwrap().publish(b"frame")));
    /// # runtime.block_on(async {
    /// assert_eq!(*subscriber.recv_async().await?, *b"frame");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Subscriber::try_recv`]; [`RecvError::System`](crate::RecvError::System) also when no
    /// thread can be started.
    ///
    /// # If a process dies
    /// As with [`Subscriber::recv`].
    pub async fn recv_async(&mut self) -> Result<Sample<M>, crate::RecvError> {
        loop {
            if let Some(sample) = self.try_recv()? {
                return Ok(sample);
            }
            UntilReady::of_one(self, self.readiness().registry())?.await?;
        }
    }
}

impl WaitSet {
    /// Waits like [`WaitSet::wait`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async). The set may hold any number of
    /// sources; for a deadline, add a [`Timer`](super::Timer).
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// See [`WaitSet`].
    pub async fn wait_async(&mut self) -> Result<Ready<'_>, WaitError> {
        while !self.look() {
            UntilReady::of(self.registry, self.source_list.sources().collect())
                .await
                .map_err(WaitError::System)?;
        }
        Ok(self.ready())
    }
}
