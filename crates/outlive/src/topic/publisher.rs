//! Publishing: plain stores into the publisher's own ring, and no locked instruction.
//!
//! | step | died just after |
//! | --- | --- |
//! | `list_op_pending` → `notifications.x` | |
//! | `ready` = 0, the slot's other words | the slot's older message is gone, the new one is not there |
//! | `ready` = p + 1 | published: the ring's next owner counts it; the kernel wakes a subscriber, which wakes the rest |
//! | `published` | the same |
//! | wake | published; sleeping subscribers are woken by the kernel and by one another |
//! | the slot's previous object is in limbo | the ring's next owner finds it |

use core::cell::{Cell, UnsafeCell};
use core::marker::PhantomData;
use std::sync::Arc;

use super::back_pressure;
use super::error::PublishError;
use super::header::Header;
use super::loan::{Loan, LoanCache};
use super::mapping::Inner;
use super::ring::{self, Ring};
use super::slot::{INLINE, Metadata, Slot};
use super::subscriber_slot;
use super::topic::LARGEST_PAYLOAD;
use crate::Payload;
use crate::liveness::Me;
use crate::pool::{Message as Still, ObjectRef};
use crate::shim::Ordering;
use crate::sys::robust::WakeRelay;
use crate::{Deadline, Error};

/// Publishes messages to a topic. A topic has up to 62 publishers at a time; each may move between
/// threads.
///
/// Publishing never waits, except for reliable subscribers; its cost does not depend on the number
/// of subscribers.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-publisher-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::topic::Topic;
/// let topic = Topic::<[u8]>::open(&domain, "camera")?;
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
    loan_cache: LoanCache,
    /// The thread that was last seen to belong to the publisher's process.
    inside: Cell<u32>,
    /// Up to which message no reliable subscriber is in the way, as far as is known.
    room_until: Cell<u64>,
    stamps: bool,
    /// The expected length of the next value as msgpack.
    #[cfg(feature = "msgpack")]
    guess: Cell<usize>,
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

impl<M: Payload + ?Sized> Publisher<M> {
    pub(super) fn new(inner: Arc<Inner>, stamps: bool) -> Result<Publisher<M>, Error> {
        let me = inner.registry.me()?;
        let process = inner.registry.process_token()?;
        let ring = ring::take(&inner, me, process)?;
        let slots = core::ptr::from_ref(inner.slots(ring.index)?);
        Ok(Publisher {
            inner,
            ring: UnsafeCell::new(ring),
            slots,
            loan_cache: LoanCache::new(),
            inside: Cell::new(me.id.as_u32()),
            room_until: Cell::new(0),
            stamps,
            #[cfg(feature = "msgpack")]
            guess: Cell::new(0),
            _message: PhantomData,
        })
    }

    /// Checks that the calling thread belongs to the publisher's process.
    #[inline]
    fn enter(&self) -> Result<Me, PublishError> {
        let me = self.inner.registry.me()?;
        if me.id.as_u32() != self.inside.get() {
            self.enter_slow(me)?;
        }
        Ok(me)
    }

    #[cold]
    fn enter_slow(&self, me: Me) -> Result<(), PublishError> {
        // A forked child has its parent's handle, and is not its parent.
        if self.inner.registry.process_token_if_any() != Some(self.ring(|ring| ring.process)) {
            return Err(PublishError::NotPublisher);
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
    pub(super) fn loan_cache(&self) -> &LoanCache {
        &self.loan_cache
    }

    #[inline]
    fn slots(&self) -> &[Slot] {
        // SAFETY: the slots lie in the segment that `inner` keeps mapped.
        unsafe { &*self.slots }
    }

    /// Publishes a loan. Waits while a reliable subscriber has not taken the message that would be
    /// overwritten.
    ///
    /// # Errors
    /// [`PublishError::NotPublisher`], [`PublishError::Damaged`], [`PublishError::System`]. The
    /// loan's memory goes back to the publisher then.
    ///
    /// # If a process dies
    /// If this process dies during the call, the message is published, or no part of it is seen. If
    /// the subscriber that it waits for dies, the call goes on at once.
    #[inline]
    pub fn publish(&self, loan: Loan<'_, M>) -> Result<Published<'_>, PublishError> {
        self.publish_until(loan, Deadline::NEVER)
    }

    /// Publishes a loan, waiting until the deadline. A deadline that has passed does not wait.
    ///
    /// # Errors
    /// The errors of [`Publisher::publish`], and [`PublishError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`Publisher::publish`].
    #[inline]
    pub fn publish_until(
        &self,
        mut loan: Loan<'_, M>,
        deadline: impl Into<Deadline>,
    ) -> Result<Published<'_>, PublishError> {
        let me = self.enter()?;
        self.wait_for_room(me, || deadline.into())?;
        let header = self.header(loan.header());
        match loan.take_object(self) {
            Some((block, len)) => {
                self.put(me, len, Some(block), header.as_ref(), |_| {});
                Ok(self.published())
            }
            // A short message, or a loan of another publisher of this type, whose memory it is:
            // copied.
            None => self.write(me, loan.bytes(), header),
        }
    }

    /// Publishes a copy. Waits as [`Publisher::publish`] does.
    ///
    /// # Errors
    /// The errors of [`Publisher::publish`], and those of [`Publisher::loan`].
    ///
    /// # If a process dies
    /// The same as with [`Publisher::publish`].
    #[inline]
    pub fn publish_copy(&self, message: &M) -> Result<Published<'_>, PublishError> {
        self.copy(None, message, || Deadline::NEVER)
    }

    /// Publishes a copy, with a header.
    ///
    /// # Errors
    /// The errors of [`Publisher::publish_copy`].
    ///
    /// # If a process dies
    /// The same as with [`Publisher::publish`].
    pub fn publish_with(&self, header: Header, message: &M) -> Result<Published<'_>, PublishError> {
        self.copy(Some(header), message, || Deadline::NEVER)
    }

    /// Publishes a copy, waiting until the deadline.
    ///
    /// # Errors
    /// The errors of [`Publisher::publish_copy`], and [`PublishError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`Publisher::publish`].
    pub fn publish_copy_until(
        &self,
        message: &M,
        deadline: impl Into<Deadline>,
    ) -> Result<Published<'_>, PublishError> {
        self.copy(None, message, || deadline.into())
    }

    /// Publishes a copy with a header, waiting until the deadline.
    ///
    /// # Errors
    /// The errors of [`Publisher::publish_copy`], and [`PublishError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`Publisher::publish`].
    pub fn publish_with_until(
        &self,
        header: Header,
        message: &M,
        deadline: impl Into<Deadline>,
    ) -> Result<Published<'_>, PublishError> {
        self.copy(Some(header), message, || deadline.into())
    }

    /// Publishes a copy if no reliable subscriber is in the way, else returns `Full` at once.
    ///
    /// # Errors
    /// The errors of [`Publisher::publish_copy`], and [`PublishError::Full`].
    ///
    /// # If a process dies
    /// The same as with [`Publisher::publish`].
    pub fn try_publish_copy(&self, message: &M) -> Result<Published<'_>, PublishError> {
        let me = self.enter()?;
        if let Err(slowest) = self.is_clear() {
            return Err(PublishError::Full {
                slowest: crate::claim::Holder::of(self.inner.registry, slowest),
            });
        }
        self.write(me, message.bytes(), self.header(None))
    }

    /// Waits until no reliable subscriber is in the way of the next message: this publisher's next
    /// publish does not wait.
    ///
    /// This is for callers that borrow a loan first, and keep it when the deadline passes.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-wait-clear-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::topic::{PublishError, SubscriberOptions, Topic};
    /// use std::time::Duration;
    /// let topic = Topic::<[u8]>::options().depth(1).open(&domain, "camera")?;
    /// let mut slow = topic.subscriber_with(SubscriberOptions { reliable: true, ..SubscriberOptions::default() })?;
    /// let publisher = topic.publisher()?;
    /// publisher.publish_copy(b"first")?;
    /// let mut loan = publisher.loan(6)?;
    /// loan.copy_from_slice(b"second");
    /// let clear = publisher.wait_clear_until(Duration::from_millis(1));
    /// assert!(matches!(clear, Err(PublishError::TimedOut { .. })));
    /// drop(slow.recv()?);
    /// publisher.wait_clear_until(Duration::from_secs(1))?;
    /// publisher.publish(loan)?;
    /// assert_eq!(*slow.recv()?, *b"second");
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PublishError::TimedOut`], [`PublishError::NotPublisher`], [`PublishError::Damaged`],
    /// [`PublishError::System`].
    ///
    /// # If a process dies
    /// If the subscriber that it waits for dies, the call goes on at once.
    pub fn wait_clear_until(&self, deadline: impl Into<Deadline>) -> Result<(), PublishError> {
        let me = self.enter()?;
        self.wait_for_room(me, || deadline.into())
    }

    /// Returns how many messages can be published from now on without waiting for a reliable
    /// subscriber: at most the topic's depth.
    ///
    /// Subscribers that join later do not lower that number. It is for callers that commit
    /// themselves to several messages and must not wait then.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-clear-messages-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::topic::{SubscriberOptions, Topic};
    /// let topic = Topic::<u64>::options().depth(4).open(&domain, "steps")?;
    /// let mut slow = topic.subscriber_with(SubscriberOptions { reliable: true, ..Default::default() })?;
    /// let publisher = topic.publisher()?;
    /// publisher.publish_copy(&1)?;
    /// assert_eq!(publisher.clear_messages(), 3);
    /// drop(slow.recv()?);
    /// assert_eq!(publisher.clear_messages(), 4);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # If a process dies
    /// If a subscriber dies, it is no longer in the way, at once.
    #[must_use]
    pub fn clear_messages(&self) -> u64 {
        let (index, position) = self.ring(|ring| (ring.index, ring.published));
        let until = back_pressure::look(&self.inner, index, position).unwrap_or(position);
        self.room_until.set(until);
        until.saturating_sub(position)
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
        // Release pairs with `ring::has_ended`. If this thread died just after, no device has been
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

    /// Publishes a copy, once there is room.
    #[inline]
    fn copy(
        &self,
        header: Option<Header>,
        message: &M,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<Published<'_>, PublishError> {
        let me = self.enter()?;
        self.wait_for_room(me, deadline)?;
        self.write(me, message.bytes(), self.header(header))
    }

    #[inline]
    fn header(&self, given: Option<Header>) -> Option<Header> {
        match given {
            Some(header) if header.stamp == 0 && self.stamps => {
                Some(Header { stamp: Header::now().stamp, ..header })
            }
            None if self.stamps => Some(Header::now()),
            given => given,
        }
    }

    /// Writes a message into the slot, or into an object.
    #[inline]
    fn write(
        &self,
        me: Me,
        bytes: &[u8],
        header: Option<Header>,
    ) -> Result<Published<'_>, PublishError> {
        if bytes.len() <= INLINE && (M::METADATA.align <= 8 || bytes.is_empty()) {
            self.put(me, bytes.len(), None, header.as_ref(), |slot| slot.write(bytes));
            return Ok(self.published());
        }
        self.write_long(me, bytes, header)
    }

    #[inline(never)]
    fn write_long(
        &self,
        me: Me,
        bytes: &[u8],
        header: Option<Header>,
    ) -> Result<Published<'_>, PublishError> {
        let (block, at) = self.take_object(me, bytes.len())?;
        // SAFETY: the loan has at least `bytes.len()` bytes and is this publisher's alone.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
        self.put(me, bytes.len(), Some(block), header.as_ref(), |_| {});
        Ok(self.published())
    }

    /// Publishes the next message, in its slot.
    #[inline]
    fn put(
        &self,
        me: Me,
        len: usize,
        object: Option<ObjectRef>,
        header: Option<&Header>,
        fill: impl FnOnce(&Slot),
    ) {
        let inner = &*self.inner;
        let head = inner.head();
        // SAFETY: the publisher is not `Sync`, and nothing that is called here calls `put` again.
        let ring = unsafe { &mut *self.ring.get() };
        let position = ring.published;
        let slots = self.slots();
        let at = (position & (slots.len() as u64 - 1)) as usize;
        let slot = &slots[at];
        // Relaxed: a ring that begins just now has published nothing before this message.
        let order = match head.rings.load(Ordering::Relaxed) {
            // A damaged order may have any value: but no overflow.
            1 => ring.order.wrapping_add(1),
            _ => next_order(inner, ring),
        };
        let relay = WakeRelay::begin(me.list());
        relay.to(head.notifications.relay());
        slot.begin();
        let publisher = ring.process.as_u32();
        slot.describe(Metadata {
            order,
            publisher,
            len: len as u32,
            object: object.map(|block| block.reference),
            has_header: header.is_some(),
        });
        fill(slot);
        if let Some(header) = header {
            slot.write_header(&header.to_words());
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
        head.notifications.notify_all();
        drop(relay);
        // The slot has been overwritten: its previous object is in limbo.
        ring.retire(at);
        ring.places[at] = object;
    }

    /// Returns how the last message was published, for a publisher that has published.
    #[inline]
    pub(crate) fn published(&self) -> Published<'_> {
        Published { inner: &self.inner, sequence: self.ring(|ring| ring.published) - 1 }
    }

    /// Waits until no reliable subscriber is in the way of the next message.
    #[inline]
    fn wait_for_room(
        &self,
        me: Me,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), PublishError> {
        if self.ring(|ring| ring.published) < self.room_until.get() {
            Ok(())
        } else {
            self.wait_for_room_slow(me, deadline())
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_for_room_slow(&self, me: Me, deadline: Deadline) -> Result<(), PublishError> {
        let (index, position) = self.ring(|ring| (ring.index, ring.published));
        self.room_until.set(back_pressure::wait(&self.inner, me, index, position, deadline)?);
        Ok(())
    }

    fn is_clear(&self) -> Result<(), crate::TokenId> {
        let (index, position) = self.ring(|ring| (ring.index, ring.published));
        if position < self.room_until.get() {
            return Ok(());
        }
        self.room_until.set(
            back_pressure::look(&self.inner, index, position).map_err(|slowest| slowest.process)?,
        );
        Ok(())
    }

    /// Returns an object for so many bytes, and where to write them.
    pub(super) fn take_object(
        &self,
        me: Me,
        len: usize,
    ) -> Result<(ObjectRef, *mut u8), PublishError> {
        if len > LARGEST_PAYLOAD {
            return Err(PublishError::TooLarge { len: len as u64, most: LARGEST_PAYLOAD as u64 });
        }
        let inner = &*self.inner;
        let view = inner.writable()?;
        let block = self.ring(|ring| {
            if let Some(block) = ring.free_list.take(len as u64) {
                return Ok(block);
            }
            if ring.free_list.is_due() && ring.free_list.look(inner, Some(me)) {
                ring.free_list.trim(inner, ring.index, false);
                if let Some(block) = ring.free_list.take(len as u64) {
                    return Ok(block);
                }
            }
            match inner.heap.allocate_for(&inner.segment, me, len as u64, ring.index, inner) {
                Err(Error::NoSpace { .. }) => self.find_memory(me, ring, len as u64),
                other => other.map_err(PublishError::from),
            }
        })?;
        // SAFETY: the heap returns only objects that lie in the mapping; the view is as long.
        let at = unsafe { view.address(block.offset) };
        Ok((block, at))
    }

    /// There is no room: frees what is not needed any more.
    #[cold]
    fn find_memory(&self, me: Me, ring: &mut Ring, len: u64) -> Result<ObjectRef, PublishError> {
        let inner = &*self.inner;
        let index = ring.index;
        let try_again = || match inner.heap.allocate_for(&inner.segment, me, len, index, inner) {
            Err(Error::NoSpace { .. }) => Ok(None),
            other => other.map(Some),
        };
        ring.free_list.look(inner, Some(me));
        if let Some(block) = ring.free_list.take(len) {
            return Ok(block);
        }
        ring.free_list.trim(inner, ring.index, true);
        let ends = inner.ends();
        subscriber_slot::sweep(inner, me, &ends, false);
        ring::sweep(inner, ring.process, &ends, false)?;
        inner.heap.collect(&inner.segment, me, false, &|_| Still::There)?;
        if let Some(block) = try_again()? {
            return Ok(block);
        }
        if let Some(block) = ring.give_up_oldest(inner, try_again)? {
            return Ok(block);
        }
        if let Some(block) = ring::give_up_left(inner, ring.process, &ends, try_again)? {
            return Ok(block);
        }
        Err(PublishError::NoSpace {
            wanted: len,
            held: inner.subscriber_slots().map(|words| words.hazard_pointers().count()).sum(),
        })
    }
}

/// Returns one more than the highest order of all rings.
#[cold]
#[inline(never)]
fn next_order(inner: &Inner, ring: &Ring) -> u64 {
    // Acquire: an order is written before its message is.
    let order = |other: u32| inner.ring(other).order.load(Ordering::Acquire);
    let highest = (0..inner.rings()).filter(|other| *other != ring.index).map(order).max();
    // A damaged order may have any value: but no overflow.
    highest.unwrap_or(0).max(ring.order).saturating_add(1)
}

impl<T: crate::Plain> Publisher<[T]> {
    /// Lends memory for a message of so many values, to be written in place. Its contents are
    /// arbitrary: zeroes, or an earlier message.
    ///
    /// # Errors
    /// [`PublishError::NoSpace`] when the topic's memory is at its largest,
    /// [`PublishError::TooLarge`], [`PublishError::NotPublisher`], [`PublishError::Damaged`],
    /// [`PublishError::System`].
    ///
    /// # If a process dies
    /// If this process dies, its loans' memory goes to the next publisher.
    pub fn loan(&self, count: usize) -> Result<Loan<'_, [T]>, PublishError> {
        let too_large = PublishError::TooLarge { len: u64::MAX, most: LARGEST_PAYLOAD as u64 };
        self.lend(count.checked_mul(size_of::<T>()).ok_or(too_large)?)
    }
}

impl<T: crate::Plain> Publisher<T> {
    /// Lends memory for a value, to be written in place. Its contents are arbitrary: zeroes, or an
    /// earlier message.
    ///
    /// # Errors
    /// The errors of `loan` for slices.
    ///
    /// # If a process dies
    /// If this process dies, its loans' memory goes to the next publisher.
    pub fn loan_value(&self) -> Result<Loan<'_, T>, PublishError> {
        self.lend(size_of::<T>())
    }
}

/// For values that describe something else which is reused together with them: device memory.
impl<T: crate::Plain> Publisher<T> {
    /// Lends memory that this publisher has lent before and that no subscriber holds any more, if
    /// `fits` accepts one, by its address. If `fits` rejects all, it is called again after a scan
    /// of what is held. `fits` must not call this publisher.
    ///
    /// # Errors
    /// The errors of [`Publisher::loan_value`].
    #[doc(hidden)]
    pub fn loan_again(
        &self,
        mut fits: impl FnMut(*const T) -> bool,
    ) -> Result<Option<Loan<'_, T>>, PublishError> {
        let me = self.enter()?;
        let inner = &*self.inner;
        let view = inner.writable()?;
        // SAFETY: the heap returns only objects that lie in the mapping; the view is as long.
        let at = |block: &ObjectRef| unsafe { view.address(block.offset) };
        let len = size_of::<T>();
        let block = self.ring(|ring| {
            let mut take = |ring: &mut Ring| {
                ring.free_list.take_that(len as u64, |block| fits(at(block).cast_const().cast()))
            };
            take(ring).or_else(|| {
                ring.free_list.look(inner, Some(me));
                take(ring)
            })
        });
        Ok(block.map(|block| Loan::new(self, len, Some((block, at(&block))))))
    }

    /// Lends memory that this publisher has not lent before, as long as there is any.
    ///
    /// # Errors
    /// The errors of [`Publisher::loan_value`].
    #[doc(hidden)]
    pub fn loan_new(&self) -> Result<Loan<'_, T>, PublishError> {
        let me = self.enter()?;
        let inner = &*self.inner;
        let view = inner.writable()?;
        let len = size_of::<T>();
        let block = self.ring(|ring| {
            match inner.heap.allocate_for(&inner.segment, me, len as u64, ring.index, inner) {
                Err(Error::NoSpace { .. }) => self.find_memory(me, ring, len as u64),
                other => other.map_err(PublishError::from),
            }
        })?;
        // SAFETY: the heap returns only objects that lie in the mapping; the view is as long.
        let at = unsafe { view.address(block.offset) };
        Ok(Loan::new(self, len, Some((block, at))))
    }
}

impl<M: Payload + ?Sized> Publisher<M> {
    fn lend(&self, len: usize) -> Result<Loan<'_, M>, PublishError> {
        let me = self.enter()?;
        let is_short = len <= INLINE && M::METADATA.align <= 8;
        let object = if is_short { None } else { Some(self.take_object(me, len)?) };
        Ok(Loan::new(self, len, object))
    }
}

#[cfg(feature = "msgpack")]
impl Publisher<[u8]> {
    /// Returns the length of the last value that was published as msgpack.
    pub(super) fn msgpack_guess(&self) -> usize {
        self.guess.get()
    }

    pub(super) fn guess_msgpack(&self, len: usize) {
        self.guess.set(len);
    }
}

impl<M: Payload + ?Sized> Drop for Publisher<M> {
    fn drop(&mut self) {
        let inner = &*self.inner;
        let ring = self.ring.get_mut();
        // In a forked child the ring is its parent's.
        if inner.registry.process_token_if_any() == Some(ring.process) {
            ring.leave(inner);
            subscriber_slot::note_change(inner);
        }
    }
}
