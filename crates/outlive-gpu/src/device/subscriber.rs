//! The end of a device topic that messages come out of.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use outlive::sync::Plain;
use outlive::topic::{Header, Sample, Subscriber};
use outlive::{Deadline, TokenId};

use super::blocks::Blocks;
use super::card::Card;
use super::mapping::Mapping;
use crate::stream::Stream;
use crate::{DevicePointer, Error, under_way};

/// How long who does not wait for messages waits for an answer.
const LONGEST_ANSWER: Duration = Duration::from_millis(100);

/// A subscriber whose samples are GPU memory of other processes' (or this one's). It is a [`Subscriber`] of cards, to be waited for like any.
///
/// The first message in a block asks the publisher's process for it, and maps it.
///
/// # If a process dies
/// This one: the samples that it held, also for work under way, are let go of once it has ended. A publisher's: [`Error::OwnerDied`], once for each of its messages
/// that lies in a block which is not mapped here; the others come as ever.
pub struct DeviceSubscriber<T: Plain = u8> {
    subscriber: Subscriber<Card<T>>,
    blocks: Arc<Blocks>,
    /// Taken, and not mapped yet: the next one.
    waiting: Option<Sample<Card<T>>>,
}

/// A message in GPU memory, to be read by work on streams; never to be written. Held until this and all clones are dropped, and all streams have got there of which
/// it was told ([`DeviceSample::hold_on`], [`DeviceSample::release_on`]).
///
/// # If a process dies
/// As with [`Sample`](outlive::topic::Sample); the publisher's: the bytes stay as long as this.
#[must_use = "what is dropped can be overwritten"]
pub struct DeviceSample<T: Plain = u8> {
    share: Arc<Share<T>>,
    blocks: Arc<Blocks>,
}

/// What is mapped, and the card that holds it: let go of in this order.
struct Share<T: Plain> {
    mapping: Arc<Mapping>,
    card: Sample<Card<T>>,
    len: usize,
}

impl<T: Plain> DeviceSubscriber<T> {
    /// What is next, if anything is there. Does not wait for messages; for the answer of a publisher whose block is not mapped yet, a tenth of
    /// a second at most.
    ///
    /// # Errors
    /// As [`DeviceSubscriber::recv_until`].
    ///
    /// # If a process dies
    /// As with [`DeviceSubscriber::recv_until`].
    pub fn try_recv(&mut self) -> Result<Option<DeviceSample<T>>, Error> {
        let card = match self.waiting.take() {
            Some(card) => card,
            None => match self.subscriber.try_recv()? {
                Some(card) => card,
                None => return Ok(None),
            },
        };
        self.map(card, Deadline::after(LONGEST_ANSWER)).map(Some)
    }

    /// What is next; waits for it.
    ///
    /// # Errors
    /// As [`DeviceSubscriber::recv_until`].
    ///
    /// # If a process dies
    /// As with [`DeviceSubscriber::recv_until`].
    pub fn recv(&mut self) -> Result<DeviceSample<T>, Error> {
        self.recv_until(Deadline::NEVER)
    }

    /// What is next; waits for it until the deadline.
    ///
    /// # Errors
    /// [`Error::Subscribe`]. Of a message that is there: [`Error::TimedOut`], its publisher's process (stopped, perhaps) has not answered until the deadline;
    /// [`Error::Driver`], its block was not mapped; [`Error::System`], for example because no descriptor is left: in these cases the message stays the next one. [`Error::OwnerDied`], [`Error::BlockGone`], [`Error::OtherGpu`]: it
    /// is passed over.
    ///
    /// # If a process dies
    /// A publisher's: what of it is in blocks that are mapped here comes as ever; of the rest this tells, at once.
    pub fn recv_until(&mut self, deadline: impl Into<Deadline>) -> Result<DeviceSample<T>, Error> {
        let deadline = deadline.into();
        let card = match self.waiting.take() {
            Some(card) => card,
            None => self.subscriber.recv_until(deadline)?,
        };
        self.map(card, deadline)
    }

    /// The newest message that there is, taken before or not.
    ///
    /// # Errors
    /// As [`DeviceSubscriber::recv_until`]; waits no longer than [`DeviceSubscriber::try_recv`].
    ///
    /// # If a process dies
    /// As with [`DeviceSubscriber::recv_until`].
    pub fn latest(&mut self) -> Result<Option<DeviceSample<T>>, Error> {
        let Some(card) = self.subscriber.latest()? else { return Ok(None) };
        // Older, or that one.
        self.waiting = None;
        self.map(card, Deadline::after(LONGEST_ANSWER)).map(Some)
    }

    /// Passes over the message that could not be mapped and is still the next one. Whether there was one.
    pub fn pass_over(&mut self) -> bool {
        self.waiting.take().is_some()
    }

    pub(super) fn new(subscriber: Subscriber<Card<T>>, blocks: Arc<Blocks>) -> DeviceSubscriber<T> {
        DeviceSubscriber { subscriber, blocks, waiting: None }
    }

    fn map(&mut self, card: Sample<Card<T>>, deadline: Deadline) -> Result<DeviceSample<T>, Error> {
        under_way::look_after_left();
        let Some(says) = card.read() else { return Err(Error::NoCard) };
        // Where it lies is the card's as long as it is held.
        let place = card.bytes().as_ptr().addr();
        match self.blocks.find(place, &says, deadline) {
            Ok(mapping) => {
                let len = says.len as usize / size_of::<T>().max(1);
                let share = Arc::new(Share { card, mapping, len });
                Ok(DeviceSample { share, blocks: Arc::clone(&self.blocks) })
            }
            Err(error) => {
                let is_lost = matches!(error, Error::OwnerDied { .. } | Error::BlockGone { .. } | Error::OtherGpu);
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
    /// How many values it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.share.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it lies, on this process's GPU.
    #[must_use]
    pub fn address(&self) -> DevicePointer {
        self.share.mapping.address()
    }

    /// What its publisher said besides.
    #[must_use]
    pub fn header(&self) -> Header {
        self.share.card.header()
    }

    /// As [`Sample::sequence`](outlive::topic::Sample::sequence).
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.share.card.sequence()
    }

    /// As [`Sample::order`](outlive::topic::Sample::order).
    #[must_use]
    pub fn order(&self) -> u64 {
        self.share.card.order()
    }

    /// As [`Sample::publisher`](outlive::topic::Sample::publisher).
    #[must_use]
    pub fn publisher(&self) -> Option<TokenId> {
        self.share.card.publisher()
    }

    /// Held until the stream has got to where it is now, too: to be called behind the work that reads it.
    ///
    /// # Errors
    /// [`Error::Capturing`]: nothing is held. [`Error::Driver`]: the message is held as long as this process lives.
    ///
    /// # If a process dies
    /// This one: the message is held until it has ended.
    pub fn hold_on(&self, stream: &Stream) -> Result<(), Error> {
        under_way::look_after_left();
        stream.expect_no_capture()?;
        let share = Arc::clone(&self.share);
        let held = stream.after(std::slice::from_ref(stream), self.blocks.clone(), Box::new(move || drop(share)));
        held.map_err(|(error, share)| {
            // The device may be reading still, and nobody will tell when it has done.
            std::mem::forget((share, Arc::clone(&self.blocks)));
            error
        })
    }

    /// Lets go of it when the stream has got to where it is now: to be called behind the work that reads it. Returns at once.
    ///
    /// # Errors
    /// As [`DeviceSample::hold_on`].
    ///
    /// # If a process dies
    /// As with [`DeviceSample::hold_on`].
    pub fn release_on(self, stream: &Stream) -> Result<(), Error> {
        self.hold_on(stream)
    }

    /// Copies the message to elsewhere on the GPU, behind what is on the stream. It stays held until that is over.
    ///
    /// # Errors
    /// As [`DeviceSample::hold_on`].
    ///
    /// # Safety
    /// `to` is device memory for the whole message, which stays until the copy is over.
    ///
    /// # If a process dies
    /// As with [`DeviceSample::hold_on`].
    pub unsafe fn copy_to_device(&self, to: DevicePointer, stream: &Stream) -> Result<(), Error> {
        stream.expect_no_capture()?;
        // SAFETY: the caller's promise; here: of the sample, a share of which is kept until it is over.
        unsafe { stream.copy(to, self.address(), self.len() * size_of::<T>()) }?;
        self.hold_on(stream)
    }
}

impl<T: Plain> Clone for DeviceSample<T> {
    fn clone(&self) -> DeviceSample<T> {
        DeviceSample { share: Arc::clone(&self.share), blocks: Arc::clone(&self.blocks) }
    }
}
