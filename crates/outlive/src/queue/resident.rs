//! Bringing a queue's memory in before it is used.
//!
//! | step of `Queue::prefault` | died just after |
//! | --- | --- |
//! | a region has more slots | they stay |
//! | objects held(this thread) | `collect` frees them; their pages stay |
//! | all of them freed | |

use super::inner::Inner;
use super::layout::{CONTROL_AT, LARGEST_MESSAGE};
use super::queue::Queue;
use crate::segment::Resident;
use crate::sys::resident::Residency;
use crate::{Error, Payload, SendError};

impl Resident for Inner {
    fn make_resident(&self, residency: Residency) -> Result<(), Error> {
        let ring = &self.ring;
        let segment = &ring.segment;
        segment.make_part_resident(0, CONTROL_AT, residency)?;
        for region in 0..ring.regions() {
            let (at, bytes) = ring.part_of(region)?;
            segment.make_part_resident(at, bytes, residency)?;
        }
        if let Some(bytes) = self.annex_bytes.get() {
            let (at, end) = ring.annex();
            let bytes = bytes(segment, at).min(end - at);
            segment.make_part_resident(at, bytes, residency)?;
        }
        ring.pool.make_resident(segment, residency, |from, bytes| {
            segment.make_part_resident(from, bytes, residency)
        })
    }
}

impl<M: Payload + ?Sized> Queue<M> {
    /// Makes room for so many messages of up to so many bytes each, and brings it in, so that
    /// sending and receiving them is neither a page fault nor a system call, as long as no more of
    /// them wait at a time.
    ///
    /// Each process of the queue calls it, sender and receiver alike: it brings the memory into the
    /// calling process. More messages and longer ones still work: the queue grows as it always does.
    /// Memory for messages that do not fit a slot may go to messages of other lengths once the queue
    /// is as large as it may become.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-queue-prefault-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::queue::Queue;
    /// let queue = Queue::<[u8]>::open_or_create(&domain, "orders")?;
    /// let (sender, mut receiver) = (queue.sender()?, queue.receiver()?);
    /// queue.prefault(1000, 4096)?;
    /// let mut order = Vec::with_capacity(4096);
    /// sender.send(&[1; 4096])?;                   // no page of it is new
    /// receiver.recv_into(&mut order)?;            // and this allocates nothing
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError::NoSpace`] when the queue, or the file system, has no room for all of it; what
    /// was made stays. [`SendError::TooLarge`], [`SendError::System`].
    ///
    /// # If a process dies
    /// If this process dies during the call, the queue is larger than before; other processes use
    /// what was made.
    pub fn prefault(&self, messages: usize, bytes: usize) -> Result<(), SendError> {
        self.inner.ring.make_slots(messages as u64).map_err(no_space)?;
        if bytes > self.inner.ring.inline_bytes() {
            self.inner.make_objects(messages, bytes as u64)?;
        }
        Ok(self.inner.make_resident(Residency::Prefault)?)
    }
}

impl Inner {
    /// Makes so many objects of so many bytes, which are free afterwards.
    pub(super) fn make_objects(&self, objects: usize, len: u64) -> Result<(), SendError> {
        let (me, ring) = (self.registry.me()?, &self.ring);
        let most = ring.most_message_bytes().min(LARGEST_MESSAGE);
        if len > most {
            return Err(SendError::TooLarge { len, max: most });
        }
        let mut held = Vec::new();
        let mut made = Ok(());
        while held.len() < objects && made.is_ok() {
            let object = ring.pool.allocate(&ring.segment, me, len, ring);
            made = object.map(|object| held.push(object));
        }
        // The first one last: the next message takes it.
        for object in held.iter().rev() {
            ring.pool.free_held(&ring.segment, object, me, ring)?;
        }
        made.map_err(no_space)
    }
}

fn no_space(error: Error) -> SendError {
    match error {
        Error::NoSpace { wanted, .. } => SendError::NoSpace { wanted, held: 0 },
        other => other.into(),
    }
}
