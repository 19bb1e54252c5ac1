//! A device topic's subscriber.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use outlive::Plain;
use outlive::topic::{Header, Sample, Subscriber};
use outlive::{Deadline, TokenId};

use super::blocks::Blocks;
use super::card::Card;
use super::mapping::Mapping;
use crate::stream::Stream;
use crate::{DevicePointer, GpuError, under_way};

/// How long `try_recv` and `latest` wait for an exporter's answer.
const LONGEST_ANSWER: Duration = Duration::from_millis(100);

/// A subscriber whose samples are GPU memory of other processes (or of this one). It is a
/// [`Subscriber`] of cards, and a source for wait sets.
///
/// For the first message in a block it asks the publisher's process for the block, and maps it.
///
/// # If a process dies
/// If this process dies, the samples that it held, also for work under way, are released once it
/// has ended. If a publisher's process dies: [`GpuError::OwnerDied`], once for each of its messages
/// that lies in a block which is not mapped here; the others are received as before.
pub struct DeviceSubscriber<T: Plain = u8> {
    subscriber: Subscriber<Card<T>>,
    blocks: Arc<Blocks>,
    /// Taken, and not mapped yet: the next message.
    waiting: Option<Sample<Card<T>>>,
}

/// A message in GPU memory, for work on streams to read, never to write. It is held until this and
/// all clones are dropped, and all streams have got there of which it was told
/// ([`DeviceSample::hold_on`], [`DeviceSample::release_on`]).
///
/// # If a process dies
/// The same as with [`Sample`](outlive::topic::Sample). If the publisher dies, the bytes stay as
/// long as this.
#[must_use = "what is dropped can be overwritten"]
pub struct DeviceSample<T: Plain = u8> {
    share: Arc<Share<T>>,
    blocks: Arc<Blocks>,
}

/// The mapping, and the card that holds it: released in this order.
struct Share<T: Plain> {
    mapping: Arc<Mapping>,
    card: Sample<Card<T>>,
    len: usize,
}

impl<T: Plain> DeviceSubscriber<T> {
    /// Returns the next message, if one is there. It does not wait for messages; it waits a tenth
    /// of a second at most for the answer of a publisher whose block is not mapped yet.
    ///
    /// # Errors
    /// The errors of [`DeviceSubscriber::recv_until`].
    ///
    /// # If a process dies
    /// The same as with [`DeviceSubscriber::recv_until`].
    pub fn try_recv(&mut self) -> Result<Option<DeviceSample<T>>, GpuError> {
        let card = match self.waiting.take() {
            Some(card) => card,
            None => match self.subscriber.try_recv()? {
                Some(card) => card,
                None => return Ok(None),
            },
        };
        self.map(card, Deadline::after(LONGEST_ANSWER)).map(Some)
    }

    /// Returns the next message, waiting for one.
    ///
    /// # Errors
    /// The errors of [`DeviceSubscriber::recv_until`].
    ///
    /// # If a process dies
    /// The same as with [`DeviceSubscriber::recv_until`].
    pub fn recv(&mut self) -> Result<DeviceSample<T>, GpuError> {
        let card = match self.waiting.take() {
            Some(card) => card,
            None => self.subscriber.recv()?,
        };
        self.map(card, Deadline::NEVER)
    }

    /// Returns the next message, waiting for one as long as `span` at most; `None` when that has
    /// passed.
    ///
    /// # Errors
    /// The errors of [`DeviceSubscriber::recv_until`].
    ///
    /// # If a process dies
    /// The same as with [`DeviceSubscriber::recv_until`].
    pub fn recv_timeout(&mut self, span: Duration) -> Result<Option<DeviceSample<T>>, GpuError> {
        self.recv_until(Deadline::after(span))
    }

    /// Returns the next message, waiting for one until the deadline at most; `None` when that has
    /// passed.
    ///
    /// # Errors
    /// [`GpuError::Subscribe`]. For a message that is there: [`GpuError::TimedOut`] when its publisher's
    /// process (stopped, perhaps) has not answered until the deadline; [`GpuError::Driver`] when its
    /// block was not mapped; [`GpuError::System`], for example because no descriptor is left: in these
    /// cases the message stays the next one. [`GpuError::OwnerDied`], [`GpuError::BlockGone`],
    /// [`GpuError::OtherGpu`]: the message is skipped.
    ///
    /// # If a process dies
    /// If a publisher's process dies, its messages in blocks that are mapped here are received as
    /// before; the others give [`GpuError::OwnerDied`], at once.
    pub fn recv_until(&mut self, deadline: Deadline) -> Result<Option<DeviceSample<T>>, GpuError> {
        let card = match self.waiting.take() {
            Some(card) => card,
            None => match self.subscriber.recv_until(deadline)? {
                Some(card) => card,
                None => return Ok(None),
            },
        };
        self.map(card, deadline).map(Some)
    }

    /// Returns the newest message that is there, taken before or not.
    ///
    /// # Errors
    /// The errors of [`DeviceSubscriber::recv_until`]; it waits no longer than
    /// [`DeviceSubscriber::try_recv`].
    ///
    /// # If a process dies
    /// The same as with [`DeviceSubscriber::recv_until`].
    pub fn latest(&mut self) -> Result<Option<DeviceSample<T>>, GpuError> {
        let Some(card) = self.subscriber.latest()? else { return Ok(None) };
        // That one is older, or the same.
        self.waiting = None;
        self.map(card, Deadline::after(LONGEST_ANSWER)).map(Some)
    }

    /// Skips the message that could not be mapped and is still the next one. Returns whether there
    /// was one.
    pub fn pass_over(&mut self) -> bool {
        self.waiting.take().is_some()
    }

    pub(super) fn new(subscriber: Subscriber<Card<T>>, blocks: Arc<Blocks>) -> DeviceSubscriber<T> {
        DeviceSubscriber { subscriber, blocks, waiting: None }
    }

    fn map(
        &mut self,
        card: Sample<Card<T>>,
        deadline: Deadline,
    ) -> Result<DeviceSample<T>, GpuError> {
        under_way::look_after_left();
        let Some(says) = card.read() else { return Err(GpuError::NoCard) };
        // The address is the card's as long as it is held.
        let place = card.bytes().as_ptr().addr();
        match self.blocks.find(place, &says, deadline) {
            Ok(mapping) => {
                let len = says.len as usize / size_of::<T>().max(1);
                let share = Arc::new(Share { card, mapping, len });
                Ok(DeviceSample { share, blocks: Arc::clone(&self.blocks) })
            }
            Err(error) => {
                let is_lost = matches!(
                    error,
                    GpuError::OwnerDied { .. } | GpuError::BlockGone { .. } | GpuError::OtherGpu
                );
                self.waiting = (!is_lost).then_some(card);
                Err(error)
            }
        }
    }
}

impl<T: Plain> Deref for DeviceSubscriber<T> {
    type Target = Subscriber<Card<T>>;

    fn deref(&self) -> &Subscriber<Card<T>> {
        &self.subscriber
    }
}

impl<T: Plain> DeviceSample<T> {
    /// Returns how many values it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.share.len
    }

    /// Returns whether it has no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns its address on this process's GPU.
    #[must_use]
    pub fn address(&self) -> DevicePointer {
        self.share.mapping.address()
    }

    /// Returns the header that its publisher sent along.
    #[must_use]
    pub fn header(&self) -> Header {
        self.share.card.header()
    }

    /// Returns its number, as [`Sample::sequence`](outlive::topic::Sample::sequence).
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.share.card.sequence()
    }

    /// Returns its order, as [`Sample::order`](outlive::topic::Sample::order).
    #[must_use]
    pub fn order(&self) -> u64 {
        self.share.card.order()
    }

    /// Returns its publisher's token, as [`Sample::publisher`](outlive::topic::Sample::publisher).
    #[must_use]
    pub fn publisher(&self) -> Option<TokenId> {
        self.share.card.publisher()
    }

    /// Returns which start of a publisher it is of, as
    /// [`Sample::session`](outlive::topic::Sample::session).
    #[must_use]
    pub fn session(&self) -> u32 {
        self.share.card.session()
    }

    /// Returns whether the process that published it is alive, as
    /// [`Sample::publisher_alive`](outlive::topic::Sample::publisher_alive).
    #[must_use]
    pub fn publisher_alive(&self) -> bool {
        self.share.card.publisher_alive()
    }

    /// Returns how long ago it was published, as [`Sample::age`](outlive::topic::Sample::age).
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.share.card.age()
    }

    /// Holds the message until the stream has completed all work enqueued so far, too: call it
    /// after enqueuing the work that reads it.
    ///
    /// # Errors
    /// [`GpuError::Capturing`]: the stream holds nothing. [`GpuError::Driver`]: the message is held as
    /// long as this process lives.
    ///
    /// # If a process dies
    /// If this process dies, the message is held until it has ended.
    pub fn hold_on(&self, stream: &Stream) -> Result<(), GpuError> {
        under_way::look_after_left();
        stream.expect_no_capture()?;
        let share = Arc::clone(&self.share);
        let held = stream.after(
            std::slice::from_ref(stream),
            self.blocks.clone(),
            Box::new(move || drop(share)),
        );
        held.map_err(|(error, share)| {
            // The device may still be reading, and no callback will tell when it has finished.
            std::mem::forget((share, Arc::clone(&self.blocks)));
            error
        })
    }

    /// Releases the message when the stream has completed all work enqueued so far: call it after
    /// enqueuing the work that reads it. Returns at once.
    ///
    /// # Errors
    /// The errors of [`DeviceSample::hold_on`].
    ///
    /// # If a process dies
    /// The same as with [`DeviceSample::hold_on`].
    pub fn release_on(self, stream: &Stream) -> Result<(), GpuError> {
        self.hold_on(stream)
    }

    /// Copies the message to elsewhere on the GPU, after the work on the stream. It stays held
    /// until the copy has completed.
    ///
    /// # Errors
    /// The errors of [`DeviceSample::hold_on`].
    ///
    /// # Safety
    /// The caller guarantees that `to` is device memory for the whole message, which stays until
    /// the copy has completed.
    ///
    /// # If a process dies
    /// The same as with [`DeviceSample::hold_on`].
    pub unsafe fn copy_to_device(
        &self,
        to: DevicePointer,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        stream.expect_no_capture()?;
        // SAFETY: the caller guarantees `to`; a share of the sample is kept until the copy has
        // completed.
        unsafe { stream.copy(to, self.address(), self.len() * size_of::<T>()) }?;
        self.hold_on(stream)
    }
}

impl<T: Plain> Clone for DeviceSample<T> {
    fn clone(&self) -> DeviceSample<T> {
        DeviceSample { share: Arc::clone(&self.share), blocks: Arc::clone(&self.blocks) }
    }
}
