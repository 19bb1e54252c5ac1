//! Topics as sources: subscribers.

use std::sync::Arc;

use super::futures::Readiness;
use super::source::{Announced, Look, Source, Waited, Watched, What};
use crate::Error;
use crate::liveness::{Net, Words};
use crate::topic::{Inbox, Message, Sample, SubscribeError, Subscriber};

/// Ready when a receive is worth a try: what is there may not be among its keys.
impl<M: Message + ?Sized> Source for Subscriber<M> {
    fn watched(&self) -> Result<Watched, Error> {
        let inbox = self.inbox();
        let registry = Some(inbox.registry());
        Ok(Watched { waited: Arc::new(inbox), registry })
    }
}

impl Waited for Inbox {
    fn look(&self) -> Look {
        if self.has_something() { Look::Ready(What::Readable) } else { Look::Nothing }
    }

    fn announce(&self, announced: &mut Announced) {
        if !announced.made || !self.stands(announced.enlisted) {
            announced.enlisted = self.enlist();
            announced.made = true;
        }
    }

    fn add_words<'a>(&'a self, announced: &mut Announced, words: &mut Words<'a>) {
        self.add_to(&mut announced.enlisted, words);
    }

    fn net(&self, announced: &Announced, alone: bool) -> Net {
        Inbox::net(self, announced.enlisted, alone)
    }

    fn woken(&self, announced: &Announced) {
        Inbox::woken(self, announced.enlisted);
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
            Readiness::of_one(self, self.inbox().registry())?.await?;
        }
    }
}
