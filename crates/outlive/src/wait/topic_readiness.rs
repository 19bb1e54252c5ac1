//! Topics as sources: messages for a subscriber, who comes and goes, room for a publisher.

use std::sync::Arc;

use super::futures::UntilReady;
use super::source::{Announced, Look, Readiness, Source, Waited, Watched};
use crate::Error;
use crate::liveness::TokenId;
use crate::shim::Ordering;
use crate::sys::futex::Watch;
use crate::topic::{
    Message, Participants, Presence, PresenceReadiness, PublishError, Published, Publisher, Sample, SubscribeError,
    Subscriber, SubscriberReadiness, Writable,
};
use crate::wake::EventCount;
use crate::wake::WaitWords;

/// Ready when a receive is worth a try: what is there may not be among its keys.
impl<M: Message + ?Sized> Source for Subscriber<M> {
    fn watched(&self) -> Result<Watched, Error> {
        let readiness = self.readiness();
        let registry = Some(readiness.registry());
        Ok(Watched { waited: Arc::new(readiness), registry })
    }
}

impl Waited for SubscriberReadiness {
    fn look(&self) -> Look {
        if self.has_something() { Look::Ready(Readiness::Readable) } else { Look::Nothing }
    }

    fn event_count(&self) -> Option<&EventCount> {
        Some(SubscriberReadiness::event_count(self))
    }

    fn add_words<'a>(&'a self, announced: &mut Announced, words: &mut WaitWords<'a>) {
        self.add_to(announced.ticket, words);
    }

    fn needs_recheck(&self, _: &Announced) -> bool {
        true
    }

    fn woken(&self, announced: &Announced) {
        SubscriberReadiness::woken(self, announced.ticket);
    }
}

/// Ready when others are there than were told last, until [`Presence::try_changed`] has told it.
impl Source for Presence {
    fn watched(&self) -> Result<Watched, Error> {
        let readiness = self.readiness();
        let registry = Some(readiness.registry());
        Ok(Watched { waited: Arc::new(readiness), registry })
    }
}

impl Waited for PresenceReadiness {
    fn look(&self) -> Look {
        if self.has_news() { Look::Ready(Readiness::Changed) } else { Look::Several }
    }

    fn owners(&self, into: &mut Vec<TokenId>) {
        PresenceReadiness::owners(self, into);
    }

    // A process that comes or goes may be stopped between the two steps of that, and nobody watches it.
    fn needs_recheck(&self, _: &Announced) -> bool {
        true
    }

    fn add_words<'a>(&'a self, _announced: &mut Announced, words: &mut WaitWords<'a>) {
        // Acquire: who has come is seen by the look. Whoever comes or goes wakes, whether anybody is asleep or not.
        let expected = self.changes().load(Ordering::Acquire);
        words.add(&[Watch { word: self.changes(), expected }]);
    }
}

impl Presence {
    /// [`Presence::changed`] for `async`: see [`Receiver::recv_async`](crate::queue::Receiver::recv_async).
    ///
    /// # Errors
    /// [`SubscribeError::System`].
    ///
    /// # If a process dies
    /// As with [`Presence::changed`].
    pub async fn changed_async(&mut self) -> Result<Participants, SubscribeError> {
        loop {
            if let Some(present) = self.try_changed() {
                return Ok(present);
            }
            UntilReady::of_one(self, self.readiness().registry())?.await?;
        }
    }
}

/// Ready when a publish is worth a try: no reliable subscriber that lives is in the way.
impl Source for Writable {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched { waited: Arc::new(self.clone()), registry: Some(self.registry()) })
    }
}

impl Waited for Writable {
    fn look(&self) -> Look {
        match Writable::look(self) {
            Ok(()) => Look::Ready(Readiness::Writable),
            Err(Some(slowest)) => Look::Owner(slowest),
            Err(None) => Look::Nothing,
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        Some(self.space())
    }

    fn add_words<'a>(&'a self, announced: &mut Announced, words: &mut WaitWords<'a>) {
        words.add(&[self.space().watch(announced.ticket)]);
    }
}

impl<M: Message + ?Sized> Publisher<M> {
    /// [`Publisher::publish_copy`] for `async`: waits for reliable subscribers as
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async) does for messages.
    ///
    /// # Errors
    /// As [`Publisher::publish_copy`]; [`PublishError::System`] also when there is no thread to be had.
    ///
    /// # If a process dies
    /// As with [`Publisher::publish`].
    pub async fn publish_copy_async(&mut self, message: &M) -> Result<Published<'_>, PublishError> {
        loop {
            match self.try_publish_copy(message) {
                Err(PublishError::Full { .. }) => {}
                Err(error) => return Err(error),
                Ok(_) => break,
            }
            let room = self.writable();
            UntilReady::of_one(&room, room.registry())?.await?;
        }
        Ok(self.published())
    }
}

impl<M: Message + ?Sized> Subscriber<M> {
    /// [`Subscriber::recv`] for `async`, under any executor: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async). Of [`period`](crate::topic::SubscriberOptions::period) it knows nothing.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-topic-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let topic = outlive::topic::Topic::<[u8]>::open(&domain, "camera")?;
    /// let mut subscriber = topic.subscriber()?;
    /// std::thread::spawn(move || drop(topic.publisher().unwrap().publish_copy(b"frame")));
    /// # runtime.block_on(async {
    /// assert_eq!(*subscriber.recv_async().await?, *b"frame");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Subscriber::try_recv`]; [`SubscribeError::System`] also when there is no thread to be had.
    ///
    /// # If a process dies
    /// As with [`Subscriber::recv`].
    pub async fn recv_async(&mut self) -> Result<Sample<M>, SubscribeError> {
        loop {
            if let Some(sample) = self.try_recv()? {
                return Ok(sample);
            }
            UntilReady::of_one(self, self.readiness().registry())?.await?;
        }
    }
}
