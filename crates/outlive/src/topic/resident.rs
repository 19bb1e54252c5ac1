//! Bringing a topic's memory in before it is used.
//!
//! | step of `Publisher::prefault` | died just after |
//! | --- | --- |
//! | an object is the ring's | the ring's next owner finds it, and lends it |
//! | its pages are mapped | |

use super::free_list::objects_in_turn;
use super::layout::{LARGEST_PAYLOAD, ring_bytes};
use super::mapping::Inner;
use super::publisher::Publisher;
use crate::segment::Resident;
use crate::sys::resident::Residency;
use crate::{Error, Payload, SendError};

impl Resident for Inner {
    fn make_resident(&self, residency: Residency) -> Result<(), Error> {
        let (segment, plan) = (&self.segment, &self.plan);
        self.control.make_resident(self.subscriber_slot_count(), plan, residency)?;
        segment.make_part_resident(0, plan.initial(), residency)?;
        let rings = u64::from(self.rings()) * ring_bytes(plan.depth);
        segment.make_part_resident(plan.slots_at(0), rings, residency)?;
        self.heap.make_resident(segment, residency, |from, bytes| {
            segment.make_part_resident(from, bytes, residency)
        })
    }
}

impl<M: Payload + ?Sized> Publisher<M> {
    /// Makes memory for messages of up to so many bytes, brings it in, and keeps it for this
    /// publisher, so that lending and publishing them is neither a page fault nor a system call.
    ///
    /// `held` says how many messages are in use at a time beside those in the ring: loans that are
    /// not published yet, and samples that subscribers hold. The call makes memory for these, for as
    /// many messages as the topic's depth, and for a few more, which wait until this publisher looks
    /// whether they are still held. Longer messages, and more of them at a time, still work: they
    /// get memory as they always do.
    ///
    /// Subscribers see the memory in mappings of their own: each calls
    /// [`Domain::prefault`](crate::Domain::prefault) after this.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-publisher-prefault-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::topic::Topic;
    /// let topic = Topic::<[u8]>::options().depth(4).open_or_create(&domain, "camera")?;
    /// let publisher = topic.publisher()?;
    /// publisher.prefault(2, 640 * 480)?;
    /// let mut frame = publisher.loan(640 * 480)?;     // no page of it is new
    /// frame.fill(128);
    /// publisher.publish(frame)?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError::NoSpace`] when the topic, or the file system, has no room for all of it; no
    /// message is given up for it. [`SendError::TooLarge`], [`SendError::NotOwner`],
    /// [`SendError::System`].
    ///
    /// # If a process dies
    /// If this process dies during the call, the next publisher has the memory that was made.
    pub fn prefault(&self, held: usize, bytes: usize) -> Result<(), SendError> {
        let me = self.enter()?;
        let inner = &*self.inner;
        if bytes > LARGEST_PAYLOAD {
            return Err(SendError::TooLarge { len: bytes as u64, max: LARGEST_PAYLOAD as u64 });
        }
        if bytes > self.inline_most {
            let slots = inner.subscriber_slot_count();
            let wanted = (inner.plan.depth as usize)
                .saturating_add(held)
                .saturating_add(objects_in_turn(held, bytes as u64, slots));
            self.ring(|ring| {
                self.lender().take_back(|object| ring.free_list.put_back(object));
                let there = ring.places.iter().flatten();
                let there = there.filter(|object| object.capacity >= bytes as u64).count();
                let there = there + ring.free_list.prepare(wanted, bytes as u64, slots);
                for _ in there..wanted {
                    let len = bytes as u64;
                    let made = inner.heap.allocate_for(&inner.segment, me, len, ring.tag(), inner);
                    let object = made.map_err(|error| match error {
                        Error::NoSpace { wanted, .. } => SendError::NoSpace { wanted, held: 0 },
                        other => other.into(),
                    })?;
                    ring.free_list.put_back(object);
                }
                Ok::<(), SendError>(())
            })?;
        }
        Ok(inner.make_resident(Residency::Prefault)?)
    }
}
