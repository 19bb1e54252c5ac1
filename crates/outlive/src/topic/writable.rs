//! Whether a publisher would have to wait for reliable subscribers, as a wait set sees it: the words and the end that a waiting
//! publisher sleeps on (reliable.rs).

use std::sync::Arc;

use super::file::Shared;
use super::message::Message;
use super::publisher::Publisher;
use super::reliable;
use crate::TokenId;
use crate::liveness::Registry;
use crate::shim::Ordering;
use crate::wake::EventCount;

/// Whether a publisher has room for its next message: not while a reliable subscriber has yet to receive the message that
/// the next one would overwrite. Of [`Publisher::writable`].
#[derive(Clone)]
pub struct Writable {
    shared: Arc<Shared>,
    ring: u32,
    process: TokenId,
}

impl<M: Message + ?Sized> Publisher<M> {
    /// To wait for in a [`WaitSet`](crate::wait::WaitSet): ready when [`Publisher::try_publish_copy`] is worth a try.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-writable-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::topic::{PublishError, SubscriberOptions, Topic};
    /// use outlive::wait::{WaitSet, Readiness};
    /// let topic = Topic::<u64>::options().depth(1).open(&domain, "steps")?;
    /// let mut slow = topic.subscriber_with(SubscriberOptions { reliable: true, ..Default::default() })?;
    /// let publisher = topic.publisher()?;
    /// publisher.publish_copy(&1)?;
    /// assert!(matches!(publisher.try_publish_copy(&2), Err(PublishError::Full { .. })));
    ///
    /// let mut set = WaitSet::new(&domain);
    /// let room = set.add(&publisher.writable())?;
    /// assert_eq!(set.try_wait()?.count(), 0);
    /// assert_eq!(*slow.recv()?, 1);                          // in another process, as a rule; or it dies
    /// assert_eq!(set.wait(outlive::Deadline::NEVER)?.collect::<Vec<_>>(), [(room, Readiness::Writable)]);
    /// publisher.try_publish_copy(&2)?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn writable(&self) -> Writable {
        let (ring, process) = self.ring(|ring| (ring.index, ring.process));
        self.shared.ring(ring).wait_for_anybody();
        Writable { shared: Arc::clone(&self.shared), ring, process }
    }
}

impl Writable {
    pub(crate) fn registry(&self) -> &'static Registry {
        self.shared.registry
    }

    /// Room? Else: whose end would make it worth another look; nobody's, when the publisher is gone.
    pub(crate) fn look(&self) -> Result<(), Option<TokenId>> {
        // Acquire: how far its publisher has come. Taken by another, or given back: nothing will be published.
        if self.shared.ring(self.ring).owner.load(Ordering::Acquire) != self.process.as_u32() {
            return Err(None);
        }
        reliable::look(&self.shared, self.ring, self.shared.published(self.ring))
            .map(drop)
            .map_err(|line| Some(line.process))
    }

    /// What subscribers notify.
    pub(crate) fn space(&self) -> &EventCount {
        &self.shared.ring(self.ring).space
    }
}
