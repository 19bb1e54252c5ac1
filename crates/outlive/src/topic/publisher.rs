//! Publishing: plain stores into the publisher's own ring, and no locked instruction.
//!
//! | step | died just after |
//! | --- | --- |
//! | `list_op_pending` → `notifications.relay` | |
//! | `ready` = 0, the slot's other words | the slot's older message is gone, the new one is not there |
//! | `ready` = p + 1 | published: the ring's next owner counts it; the kernel wakes a subscriber, which wakes the rest |
//! | `published` | the same |
//! | wake | published; sleeping subscribers are woken by the kernel and by one another |
//! | the slot's previous object is in limbo | the ring's next owner finds it |

use core::cell::{Cell, UnsafeCell};
use core::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use super::back_pressure::Slow;
use super::due::{Due, Expected};
use super::durability::Terms;
use super::header::{Header, stamp};
use super::loan::{Left, LenderOfPublisher};
use super::mapping::Inner;
use super::publisher_options::PublisherOptions;
use super::ring::{self, Ring};
use super::slot::{INLINE, Metadata, Slot};
use super::subscriber_slot;
use crate::liveness::Me;
use crate::pool::ObjectRef;
use crate::shim::Ordering;
use crate::sys::map::prefetch_for_write;
use crate::sys::probe::probe;
use crate::sys::robust::WakeRelay;
use crate::{Error, Payload, SendError};

/// Publishes messages to a topic. A topic has up to 62 publishers at a time, or as many as its maker
/// [has asked for](super::TopicOptions::max_publishers); each may move between threads.
///
/// Publishing never waits, except for reliable subscribers, and for these as long as
/// [its options](PublisherOptions::max_blocking) say; its cost does not depend on the number
/// of subscribers.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-publisher-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::topic::Topic;
/// let topic = Topic::<[u8]>::open_or_create(&domain, "camera")?;
/// let mut subscriber = topic.subscriber()?;
///
/// let publisher = topic.publisher()?;
/// let mut frame = publisher.loan(640 * 480)?;     // in shared memory, to be written in place
/// frame.fill(128);
/// let published = publisher.publish(frame)?;
/// assert_eq!((published.sequence(), published.subscribers()), (0, 1));
///
/// assert_eq!(subscriber.recv()?.len(), 640 * 480);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If the publisher's process dies, at any instruction, what was published stays published and
/// whole, and no part of an unpublished message is seen. The next publisher uses its memory, once
/// its last thread has ended. If a subscriber dies, the publisher stops waiting for it at once.
pub struct Publisher<M: Payload + ?Sized = [u8]> {
    pub(super) inner: Arc<Inner>,
    ring: UnsafeCell<Ring>,
    /// The ring's slots.
    slots: *const [Slot],
    lender: LenderOfPublisher,
    /// The thread that was last seen to belong to the publisher's process.
    inside: Cell<u32>,
    /// Up to which message no reliable subscriber is in the way, as far as is known.
    pub(super) room_until: Cell<u64>,
    /// The subscribers that were in its way last.
    pub(super) slow: Cell<Slow>,
    /// Whether wait sets may wait for room: then all subscribers notify this publisher.
    pub(super) has_sets: Cell<bool>,
    pub(super) options: PublisherOptions,
    /// By when its next message is expected, if it has a period.
    pub(super) expected: Option<Arc<Expected>>,
    /// The message that a subscriber is in the way of, and since when.
    pub(super) blocked: Cell<Option<(u64, Instant)>>,
    /// What the ring's earlier publishers have counted.
    pub(super) marked_before: u64,
    stamps: bool,
    /// The most bytes of a message that lies in its slot. None where the topic's maker wants values
    /// to be aligned to more than a slot does, also if this side knows them as bytes only.
    pub(super) inline_most: usize,
    /// The expected length of the next value as msgpack.
    #[cfg(feature = "msgpack")]
    pub(super) guess: Cell<usize>,
    _message: PhantomData<*const M>,
}

// SAFETY: the ring belongs to this value alone, whichever thread has it.
unsafe impl<M: Payload + ?Sized> Send for Publisher<M> {}

/// Describes a published message.
#[derive(Clone, Copy)]
pub struct Published<'p> {
    inner: &'p Inner,
    sequence: u64,
}

impl Published<'_> {
    /// Returns its number among the publisher's messages:
    /// [`Sample::sequence`](super::Sample::sequence).
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns how many living subscribers there are now. One that joined after the message gets it
    /// only as history. This call counts them, with a few loads for each.
    #[must_use]
    pub fn subscribers(&self) -> u32 {
        subscriber_slot::count(self.inner)
    }
}

impl core::fmt::Debug for Published<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Published").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Publisher {
    /// Returns options, of which none is set, for [`Topic::publisher_with`].
    ///
    /// [`Topic::publisher_with`]: super::Topic::publisher_with
    pub fn options() -> PublisherOptions {
        PublisherOptions::default()
    }
}

impl<M: Payload + ?Sized> Publisher<M> {
    pub(super) fn new(
        inner: Arc<Inner>,
        options: PublisherOptions,
        stamps: bool,
    ) -> Result<Publisher<M>, Error> {
        let me = inner.registry.me()?;
        let process = inner.registry.process_token()?;
        if options.lifespan.is_some() && !stamps {
            return Err(Error::OtherOptions {
                path: inner.segment.path().into(),
                what: "option stamps",
                found: "false".into(),
                wanted: "true (without stamps no message has an age)".into(),
            });
        }
        let mut ring = ring::take(&inner, me, process, Terms::of(&options))?;
        let expected = options.period.map(|period| Arc::new(Expected::new(period)));
        ring.others.expect(expected.clone());
        let slots = core::ptr::from_ref(inner.slots(ring.index)?);
        let is_aligned = M::METADATA.align <= 8 && inner.segment.header().type_align() <= 8;
        let marked_before = inner.ring(ring.index).marked.load(Ordering::Relaxed);
        Ok(Publisher {
            inner,
            ring: UnsafeCell::new(ring),
            slots,
            lender: LenderOfPublisher::new(),
            inside: Cell::new(me.id.as_u32()),
            room_until: Cell::new(0),
            slow: Cell::default(),
            has_sets: Cell::new(false),
            options,
            expected,
            blocked: Cell::new(None),
            marked_before,
            stamps,
            inline_most: if is_aligned { INLINE } else { 0 },
            #[cfg(feature = "msgpack")]
            guess: Cell::new(0),
            _message: PhantomData,
        })
    }

    /// Checks that the calling thread belongs to the publisher's process.
    #[inline]
    pub(super) fn enter(&self) -> Result<Me, SendError> {
        let me = self.inner.registry.me()?;
        if me.id.as_u32() != self.inside.get() {
            self.enter_slow(me)?;
        }
        Ok(me)
    }

    #[cold]
    fn enter_slow(&self, me: Me) -> Result<(), SendError> {
        // A forked child has its parent's handle, and is not its parent.
        if self.inner.registry.process_token_if_any() != Some(self.ring(|ring| ring.process)) {
            return Err(SendError::NotOwner);
        }
        self.inside.set(me.id.as_u32());
        Ok(())
    }

    #[inline]
    pub(super) fn ring<R>(&self, with: impl FnOnce(&mut Ring) -> R) -> R {
        // SAFETY: the publisher is not `Sync`, and nothing called in `with` calls this function
        // again.
        with(unsafe { &mut *self.ring.get() })
    }

    #[inline]
    pub(super) fn lender(&self) -> &LenderOfPublisher {
        &self.lender
    }

    #[inline]
    fn slots(&self) -> &[Slot] {
        // SAFETY: the slots lie in the segment that `inner` keeps mapped.
        unsafe { &*self.slots }
    }

    /// Declares that a device (a GPU's copy engine, a network card) will write into loans of this
    /// publisher. It must be called once, before the device is told to.
    ///
    /// From then on the publisher's memory counts as used until its process is gone, not only until
    /// its threads have ended: a device does not stop with them.
    ///
    /// # If a process dies
    /// If this process dies, the next publisher gets its memory as soon as the kernel has closed
    /// the last of its files.
    pub fn expect_device_writes(&self) {
        let words = self.inner.ring(self.ring(|ring| ring.index));
        // Release pairs with `ring_owner::has_ended`. If this thread died just after, no device has been
        // told yet, and the next publisher waits for the process in vain.
        words.device.store(1, Ordering::Release);
    }

    /// Returns whether any living subscriber is there. Costs a load or two, and a few for each
    /// subscriber that has died.
    #[must_use]
    #[inline]
    pub fn has_subscribers(&self) -> bool {
        subscriber_slot::living(&self.inner).next().is_some()
    }

    /// Returns how many living subscribers there are: correct at once after any of them was killed.
    #[must_use]
    pub fn subscriber_count(&self) -> u32 {
        subscriber_slot::count(&self.inner)
    }

    /// Returns the stamp that goes with a message: its header's, or the time if the topic's messages
    /// are stamped; 0: none.
    #[inline]
    fn stamp(&self, header: Option<&Header>) -> u64 {
        match header {
            Some(header) if header.stamp != 0 => header.stamp,
            _ if self.stamps => stamp(),
            _ => 0,
        }
    }

    /// Writes a message into the slot, or into an object.
    #[inline]
    pub(super) fn write(
        &self,
        me: Me,
        bytes: &[u8],
        header: Option<&Header>,
    ) -> Result<(), SendError> {
        if bytes.len() <= self.inline_most {
            self.put(me, bytes.len(), None, header, |slot| slot.write(bytes));
            return Ok(());
        }
        self.write_long(me, bytes, header)
    }

    #[inline(never)]
    fn write_long(&self, me: Me, bytes: &[u8], header: Option<&Header>) -> Result<(), SendError> {
        let (block, at) = self.take_object(me, bytes.len())?;
        // SAFETY: the loan has at least `bytes.len()` bytes and is this publisher's alone.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
        self.put(me, bytes.len(), Some(block), header, |_| {});
        Ok(())
    }

    /// Publishes the next message, in its slot.
    #[inline]
    pub(super) fn put(
        &self,
        me: Me,
        len: usize,
        object: Option<ObjectRef>,
        header: Option<&Header>,
        fill: impl FnOnce(&Slot),
    ) {
        let inner = &*self.inner;
        let notifications = &inner.shared().notifications;
        // SAFETY: the publisher is not `Sync`, and nothing that is called here calls `put` again.
        let ring = unsafe { &mut *self.ring.get() };
        let position = ring.published;
        let slots = self.slots();
        let at = (position & (slots.len() as u64 - 1)) as usize;
        let slot = &slots[at];
        let order = match ring.others.is_alone(inner) {
            // A damaged order may have any value: but no overflow.
            true => ring.order.wrapping_add(1),
            false => next_order(inner, ring),
        };
        let stamp = self.stamp(header);
        let relay = WakeRelay::begin(me.list());
        relay.to(notifications.relay());
        slot.begin();
        slot.describe(Metadata {
            order,
            origin: ring.origin,
            len: len as u32,
            object: object.map(|block| block.reference),
            stamp,
            has_header: header.is_some(),
        });
        fill(slot);
        if let Some(header) = header {
            slot.write_header(&header.words());
        }
        let words = inner.ring(ring.index);
        // Before the message: a publisher that sees this message, and publishes next, sees its
        // order. If this thread died just after, one order is skipped.
        words.order.store(order, Ordering::Relaxed);
        slot.publish(position);
        ring.order = order;
        ring.published = position + 1;
        // Release pairs with joining subscribers: the slot is written.
        words.published.store(position + 1, Ordering::Release);
        probe!(topic_publish, inner.segment.path(), len as u64, position);
        notifications.notify_all();
        drop(relay);
        // The slot has been overwritten: its previous object is in limbo.
        ring.retire(at);
        ring.places[at] = object;
        // The next message's first line, which a subscriber has read last, comes while the caller does
        // something else: a twelfth of the time of a message one way.
        if object.is_some()
            && let Some(next) = ring.free_list.next()
        {
            prefetch_for_write(inner.payload(next));
        }
    }

    /// Returns how many [periods](super::PublisherOptions::period) have passed without a message of
    /// this publisher: those before its last message, and those that a [`Due`] has taken since.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.expected.as_ref().map_or(0, |expected| expected.missed())
    }

    /// Returns a source for a [`WaitSet`](crate::wait::WaitSet): ready when this publisher has
    /// published nothing for its [period](super::PublisherOptions::period), never if it has none.
    /// Another thread can wait for it, and so tell that this one hangs.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-due-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::topic::{Publisher, Topic};
    /// use outlive::wait::{Readiness, WaitSet};
    /// use std::time::Duration;
    /// let topic = Topic::<u64>::open_or_create(&domain, "steps")?;
    /// let often = Publisher::options().period(Duration::from_millis(2));
    /// let publisher = topic.publisher_with(often)?;
    /// let due = publisher.due();
    /// let mut set = WaitSet::new(&domain);
    /// let key = set.add(&due)?;
    /// publisher.publish(&1)?;
    /// assert_eq!(set.wait()?.collect::<Vec<_>>(), [(key, Readiness::Missed)]);
    /// let periods = due.take();
    /// assert!(periods >= 1 && publisher.missed() >= periods);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn due(&self) -> Due {
        Due::new(self.expected.clone(), self.inner.registry)
    }

    /// Says that this publisher is there, although it has nothing to publish: to subscribers that
    /// ask for its [liveliness](super::SubscriberOptions::liveliness) it is as if it had published.
    /// Costs one store, and wakes no process.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-assert-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::RecvError;
    /// use outlive::topic::{Subscriber, Topic};
    /// use std::time::Duration;
    /// let topic = Topic::<u64>::open_or_create(&domain, "steps")?;
    /// let publisher = topic.publisher()?;
    /// let options = Subscriber::options().liveliness(Duration::from_millis(2));
    /// let mut subscriber = topic.subscriber_with(options)?;
    /// assert!(matches!(subscriber.recv(), Err(RecvError::NotLively { session: 1, .. })));
    /// publisher.assert_liveliness();
    /// assert!(matches!(subscriber.recv(), Err(RecvError::Lively { session: 1, .. })));
    /// assert_eq!(subscriber.lapses(), 1);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn assert_liveliness(&self) {
        // A forked child says nothing of its parent.
        if self.enter().is_err() {
            return;
        }
        let asserted = &self.inner.ring(self.ring(|ring| ring.index)).asserted;
        // Relaxed: only this publisher writes it, and nothing comes with it. If this process died
        // just before or just after, its token says so.
        asserted.store(asserted.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns how the last message was published, for a publisher that has published.
    #[inline]
    pub(crate) fn published(&self) -> Published<'_> {
        Published { inner: &self.inner, sequence: self.ring(|ring| ring.published) - 1 }
    }
}

/// Returns one more than the highest order of all rings.
#[cold]
#[inline(never)]
fn next_order(inner: &Inner, ring: &mut Ring) -> u64 {
    // A damaged order may have any value: but no overflow.
    ring.others.highest_order(inner, ring.index, ring.order).saturating_add(1)
}

impl<M: Payload + ?Sized> Drop for Publisher<M> {
    fn drop(&mut self) {
        let ring = self.ring.get_mut().take();
        if let Some(expected) = &self.expected {
            expected.end();
        }
        // Now, not when the last loan goes: this publisher publishes nothing any more.
        ring.end_session(&self.inner);
        self.lender.leave(Left { inner: Arc::clone(&self.inner), ring });
    }
}
