//! The end of a device topic that messages go into: doc/protocols/gpu.md, "Device topics".
//!
//! | a card is | its block | a death here |
//! | --- | --- | --- |
//! | in stock | nobody's; of this process, or of one before | the ring's next owner lends the card, with a block of his own |
//! | lent | work on streams writes it | the same |
//! | due | the same | the same: it was never published |
//! | published, held, in limbo | whoever has it mapped reads it | topic.md; the block stays with those who have it mapped |

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use outlive::Deadline;
use outlive::sync::Plain;
use outlive::topic::{Header, LARGEST_PAYLOAD, Loan, PublishError, Publisher};

use super::blocks::{Block, Blocks};
use super::card::Card;
use crate::stream::Stream;
use crate::under_way::Keeps as _;
use crate::{DevicePointer, Error, api, lender, under_way};

/// The most bytes that a publisher keeps in blocks which fit nothing just now, besides one.
const MOST_IDLE: u64 = 256 << 20;

type Lender<T> = lender::Lender<Card<T>, Blocks>;
type Lent<T> = lender::Lent<Card<T>, Blocks>;

/// A publisher whose loans are GPU memory. May be used by all threads at once.
///
/// # If a process dies
/// As with [`Publisher`](outlive::topic::Publisher): what was published stays, nothing of what was due is seen.
pub struct DevicePublisher<T: Plain = u8> {
    lender: Arc<Lender<T>>,
}

/// GPU memory for one message, to be written by work on a stream: [`DevicePublisher::publish_on`] publishes it. Dropped, it is the publisher's again, once all
/// streams that it knows of ([`DeviceLoan::written_on`]) have got there.
#[must_use = "a loan that is dropped is not published"]
pub struct DeviceLoan<T: Plain = u8> {
    /// Until it is published or dropped.
    lent: Option<Lent<T>>,
    block: Arc<Block>,
    len: usize,
    /// Those that write it.
    streams: Vec<Stream>,
}

/// A card that was lent, where it lies, and its block, if it has one that fits.
type Found<T> = (Lent<T>, usize, Option<Arc<Block>>);

/// The same while it is the publisher's turn.
type Chosen<'p, T> = (Loan<'p, Card<T>>, Option<Arc<Block>>);

fn place<T: Plain>(loan: &Loan<'_, Card<T>>) -> usize {
    std::ptr::from_ref::<Card<T>>(loan).addr()
}

/// One whose block fits; else one whose block may go, or none had yet; else a new one.
fn lend<'p, T: Plain>(
    publisher: &'p Publisher<Card<T>>,
    blocks: &Blocks,
    wanted: u64,
) -> Result<Chosen<'p, T>, PublishError> {
    let mut found = None;
    // By card, what is nobody's and does not fit.
    let mut idle = HashMap::new();
    let again = publisher.loan_again(|card| {
        let block = blocks.own(card.addr());
        let fits = block.as_ref().is_some_and(|block| block.fits(wanted));
        if fits {
            found = block;
        } else {
            idle.insert(card.addr(), block.map_or(0, |block| block.len()));
        }
        fits
    })?;
    if let Some(loan) = again {
        return Ok((loan, found));
    }
    let without = idle.iter().find(|(_, len)| **len == 0);
    let is_much = idle.values().sum::<u64>() > MOST_IDLE;
    let chosen = without.or_else(|| idle.iter().max_by_key(|(_, len)| **len).filter(|_| is_much));
    if let Some((&chosen, _)) = chosen
        && let Some(loan) = publisher.loan_again(|card| card.addr() == chosen)?
    {
        return Ok((loan, None));
    }
    Ok((publisher.loan_new()?, None))
}

impl<T: Plain> DevicePublisher<T> {
    pub(super) fn new(publisher: Publisher<Card<T>>, blocks: Arc<Blocks>) -> DevicePublisher<T> {
        DevicePublisher { lender: Lender::new(publisher, blocks) }
    }

    fn find(&self, wanted: u64) -> Result<Found<T>, Error> {
        let blocks = &self.lender.keeper;
        let lent = self.lender.lend(|publisher| {
            let (loan, block) = lend(publisher, blocks, wanted)?;
            let place = place(&loan);
            Ok::<_, PublishError>((loan, (place, block)))
        });
        let (lent, (place, block)) = lent?;
        Ok((lent, place, block))
    }

    /// The GPU has no memory left: blocks that are nobody's go. Those who have them mapped keep them still.
    #[cold]
    fn give_up_idle(&self) -> Result<(), Error> {
        let blocks = &self.lender.keeper;
        let cards = self.lender.publisher(|publisher| {
            let mut taken = Vec::new();
            while let Some(loan) = publisher.loan_again(|card| blocks.own(card.addr()).is_some())? {
                taken.push(loan);
                // Lent, they are in nobody's sight.
            }
            Ok::<HashSet<usize>, PublishError>(taken.iter().map(place).collect())
        })?;
        blocks.unbind(&cards);
        Ok(())
    }

    fn make(&self, len: u64) -> Result<Arc<Block>, Error> {
        let blocks = &self.lender.keeper;
        match blocks.make(len) {
            Err(Error::Driver { code: api::OUT_OF_MEMORY, .. }) => {
                self.give_up_idle()?;
                blocks.make(len)
            }
            other => other,
        }
    }

    /// Memory for a message of so many values. What is in it is not defined.
    ///
    /// # Errors
    /// [`Error::Publish`]; [`Error::Driver`]: `CUDA_ERROR_OUT_OF_MEMORY`, as a rule.
    ///
    /// # If a process dies
    /// With it.
    pub fn loan(&self, count: usize) -> Result<DeviceLoan<T>, Error> {
        under_way::look_after_left();
        let blocks = &self.lender.keeper;
        let len = count.checked_mul(size_of::<T>()).map(|len| len as u64);
        let wanted = len.and_then(|len| Some((len, blocks.block_len(len)?)));
        let too_large = PublishError::TooLarge { len: u64::MAX, most: LARGEST_PAYLOAD as u64 };
        let (len, wanted) = wanted.ok_or(too_large)?;
        let (mut lent, place, block) = self.find(wanted)?;
        let block = match block {
            Some(block) => block,
            None => {
                // Without the publisher's turn: it takes a while.
                let block = self.make(wanted)?;
                blocks.bind(place, Arc::clone(&block));
                block
            }
        };
        if let Some(card) = lent.get_mut() {
            card.write(&blocks.says(&block, len));
        }
        Ok(DeviceLoan { lent: Some(lent), block, len: count, streams: Vec::new() })
    }

    /// Publishes a loan when the stream has got to where it is now; returns at once. Other streams that write it are waited for, if it
    /// knows of them ([`DeviceLoan::written_on`]).
    ///
    /// Messages that are due on one stream are published in order. It waits only as long as a reliable subscriber has not taken what
    /// lies in the way of all that are due, or more messages are due than the topic keeps.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::Driver`], and [`Error::Publish`] with what became of one that was due before. Where the driver fails, the loan's memory
    /// is used no more as long as this process lives; else the loan is given back.
    ///
    /// # If a process dies
    /// Before the stream has got there: the message is never seen.
    pub fn publish_on(&self, loan: DeviceLoan<T>, stream: &Stream) -> Result<(), Error> {
        self.publish_on_until(loan, stream, Deadline::NEVER)
    }

    /// As [`DevicePublisher::publish_on`], waiting until the deadline at most.
    ///
    /// # Errors
    /// As there, and [`Error::TimedOut`].
    ///
    /// # If a process dies
    /// As there.
    pub fn publish_on_until(
        &self,
        mut loan: DeviceLoan<T>,
        stream: &Stream,
        deadline: impl Into<Deadline>,
    ) -> Result<(), Error> {
        let prepared = self.lender.prepare(stream, deadline.into());
        if prepared != Err(Error::Capturing) {
            // Not published, it is given back when that one has got there.
            loan.written_on(stream);
        }
        prepared?;
        let streams = std::mem::take(&mut loan.streams);
        loan.lent.take().map_or(Ok(()), |lent| Lender::publish_after(lent, &streams, true))
    }

    /// Waits until all messages that are due have been published.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Driver`], and [`Error::Publish`] with what became of one that was due.
    pub fn wait_published(&self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        self.lender.wait_published(deadline.into())
    }

    /// How many messages are due.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.lender.due()
    }
}

impl<T: Plain> DeviceLoan<T> {
    /// How many values it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it lies on the GPU: for kernels and copies to write to. Aligned as the driver aligns blocks: to 2 MiB, as a rule.
    #[must_use]
    pub fn address(&self) -> DevicePointer {
        self.block.address()
    }

    /// What is to go with it.
    pub fn set_header(&mut self, header: Header) {
        if let Some(lent) = &mut self.lent {
            lent.set_header(header);
        }
    }

    /// Says that work on this stream writes it, too: enqueued already, or until it is published or dropped.
    pub fn written_on(&mut self, stream: &Stream) {
        if !self.streams.iter().any(|known| known.is(stream)) {
            self.streams.push(stream.clone());
        }
    }

    /// Copies the whole message from elsewhere on the GPU, behind what is on the stream.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::Driver`].
    ///
    /// # Safety
    /// `from` is device memory with as many values, which stays as it is until the copy is over.
    pub unsafe fn copy_from_device(&mut self, from: DevicePointer, stream: &Stream) -> Result<(), Error> {
        stream.expect_no_capture()?;
        // SAFETY: the caller's promise; here: of the loan, which stays until it is over.
        unsafe { stream.copy(self.address(), from, self.len * size_of::<T>()) }?;
        self.written_on(stream);
        Ok(())
    }
}

impl<T: Plain> Drop for DeviceLoan<T> {
    fn drop(&mut self) {
        let Some(lent) = self.lent.take() else { return };
        if !lent.lender.keeper.gpu().is_ours() {
            // A forked child's copy: its parent's.
            std::mem::forget(lent);
            return;
        }
        lent.give_back_after(&self.streams);
    }
}
