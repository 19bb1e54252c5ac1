//! A device topic's publisher: doc/protocols/gpu.md, "Device topics".
//!
//! | a card is | its block | a death here |
//! | --- | --- | --- |
//! | in the free list | free; made by this process, or by an earlier owner of the ring | the ring's next owner lends the card, with a block of its own |
//! | lent | work on streams writes it | the same |
//! | due | the same | the same: it was never published |
//! | published, held, in limbo | each process that has it mapped reads it | topic.md; the block stays with the processes that have it mapped |

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use outlive::topic::{Header, LARGEST_PAYLOAD, Loan, Publisher};
use outlive::{Deadline, Plain, SendError};

use super::blocks::{Block, Blocks};
use super::card::Card;
use crate::stream::Stream;
use crate::under_way::Keeps as _;
use crate::{DevicePointer, GpuError, api, lender, under_way};

/// The most bytes that a publisher keeps in blocks which fit no present loan, one block aside.
const MOST_IDLE: u64 = 256 << 20;

type Lender<T> = lender::Lender<Card<T>, Blocks>;
type Lent<T> = lender::Lent<Card<T>, Blocks>;

/// A publisher whose loans are GPU memory. All threads may use it at once.
///
/// # If a process dies
/// The same as with [`Publisher`](outlive::topic::Publisher): published messages stay, and no part
/// of a message that was due is seen.
pub struct DevicePublisher<T: Plain = u8> {
    lender: Arc<Lender<T>>,
}

/// GPU memory for one message, written by work on a stream and published by
/// [`DevicePublisher::publish_on`].
///
/// A loan that is dropped goes back to the publisher, once all streams that it knows of
/// ([`DeviceLoan::written_on`]) have got there.
#[must_use = "a loan that is dropped is not published"]
pub struct DeviceLoan<T: Plain = u8> {
    /// Until it is published or dropped.
    lent: Option<Lent<T>>,
    block: Arc<Block>,
    len: usize,
    /// The streams that write it.
    streams: Vec<Stream>,
}

/// A card that was lent, its address, and its block, if it has one that fits.
type Found<T> = (Lent<T>, usize, Option<Arc<Block>>);

/// The same while the publisher's turn lasts.
type Chosen<T> = (Loan<Card<T>>, Option<Arc<Block>>);

fn place<T: Plain>(loan: &Loan<Card<T>>) -> usize {
    std::ptr::from_ref::<Card<T>>(loan).addr()
}

/// Lends a card whose block fits; else one whose block may go, or that had none yet; else a new
/// one.
fn lend<T: Plain>(
    publisher: &Publisher<Card<T>>,
    blocks: &Blocks,
    wanted: u64,
) -> Result<Chosen<T>, SendError> {
    let mut found = None;
    // By card: free blocks that do not fit.
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

    fn find(&self, wanted: u64) -> Result<Found<T>, GpuError> {
        let blocks = &self.lender.keeper;
        let lent = self.lender.lend(|publisher| {
            let (loan, block) = lend(publisher, blocks, wanted)?;
            let place = place(&loan);
            Ok::<_, SendError>((loan, (place, block)))
        });
        let (lent, (place, block)) = lent?;
        Ok((lent, place, block))
    }

    /// The GPU has no memory left: gives up free blocks. Processes that have them mapped keep them.
    #[cold]
    fn give_up_idle(&self) -> Result<(), GpuError> {
        let blocks = &self.lender.keeper;
        let cards = self.lender.publisher(|publisher| {
            let mut taken = Vec::new();
            while let Some(loan) = publisher.loan_again(|card| blocks.own(card.addr()).is_some())? {
                taken.push(loan);
                // Lent, no subscriber can see them.
            }
            Ok::<HashSet<usize>, SendError>(taken.iter().map(place).collect())
        })?;
        blocks.unbind(&cards);
        Ok(())
    }

    fn make(&self, len: u64) -> Result<Arc<Block>, GpuError> {
        let blocks = &self.lender.keeper;
        match blocks.make(len) {
            Err(GpuError::Driver { code: api::OUT_OF_MEMORY, .. }) => {
                self.give_up_idle()?;
                blocks.make(len)
            }
            other => other,
        }
    }

    /// Lends memory for a message of so many values. Its contents are arbitrary.
    ///
    /// # Errors
    /// [`GpuError::Publish`]; [`GpuError::Driver`]: usually `CUDA_ERROR_OUT_OF_MEMORY`.
    ///
    /// # If a process dies
    /// If this process dies, its memory goes with it.
    pub fn loan(&self, count: usize) -> Result<DeviceLoan<T>, GpuError> {
        under_way::look_after_left();
        let blocks = &self.lender.keeper;
        let len = count.checked_mul(size_of::<T>()).map(|len| len as u64);
        let wanted = len.and_then(|len| Some((len, blocks.block_len(len)?)));
        let too_large = SendError::TooLarge { len: u64::MAX, max: LARGEST_PAYLOAD as u64 };
        let (len, wanted) = wanted.ok_or(too_large)?;
        let (mut lent, place, block) = self.find(wanted)?;
        let block = match block {
            Some(block) => block,
            None => {
                // Outside the publisher's turn: it takes a while.
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

    /// Publishes a loan when the stream has completed all work enqueued so far; returns at once. It
    /// also waits for other streams that write the loan, if it knows of them
    /// ([`DeviceLoan::written_on`]).
    ///
    /// Messages that are due on one stream are published in order. The call waits only while a
    /// reliable subscriber has not taken messages that those which are due would overwrite, or more
    /// messages are due than the topic keeps.
    ///
    /// # Errors
    /// [`GpuError::Capturing`], [`GpuError::Driver`], and [`GpuError::Publish`] for a message that
    /// was due before. Where the driver fails, the loan's memory is not reused as long as this
    /// process lives; else the loan is given back.
    ///
    /// # If a process dies
    /// If this process dies before the stream has got there, the message is never seen.
    pub fn publish_on(&self, loan: DeviceLoan<T>, stream: &Stream) -> Result<(), GpuError> {
        self.publish_on_until(loan, stream, Deadline::NEVER)
    }

    /// Publishes a loan as [`DevicePublisher::publish_on`] does, waiting until the deadline at
    /// most.
    ///
    /// # Errors
    /// The errors of [`DevicePublisher::publish_on`], and [`GpuError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`DevicePublisher::publish_on`].
    pub fn publish_on_until(
        &self,
        mut loan: DeviceLoan<T>,
        stream: &Stream,
        deadline: Deadline,
    ) -> Result<(), GpuError> {
        let prepared = self.lender.prepare(stream, deadline);
        if prepared != Err(GpuError::Capturing) {
            // If it is not published, it is given back when that stream has got there.
            loan.written_on(stream);
        }
        prepared?;
        let streams = std::mem::take(&mut loan.streams);
        loan.lent.take().map_or(Ok(()), |lent| Lender::publish_after(lent, &streams, true))
    }

    /// Returns how many messages are due.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.lender.due()
    }
}

crate::forms::publisher_forms!(DevicePublisher, DeviceLoan);

impl<T: Plain> DeviceLoan<T> {
    /// Returns how many values it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it has no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns its address on the GPU, for kernels and copies to write to. It is aligned as the
    /// driver aligns blocks: usually to 2 MiB.
    #[must_use]
    pub fn address(&self) -> DevicePointer {
        self.block.address()
    }

    /// Sets the header that is published with the message.
    pub fn set_header(&mut self, header: Header) {
        if let Some(lent) = &mut self.lent {
            lent.set_header(header);
        }
    }

    /// Declares that work on this stream writes it, too: enqueued already, or until it is published
    /// or dropped.
    pub fn written_on(&mut self, stream: &Stream) {
        if !self.streams.iter().any(|known| known.is(stream)) {
            self.streams.push(stream.clone());
        }
    }

    /// Copies the whole message from elsewhere on the GPU, after the work on the stream.
    ///
    /// # Errors
    /// [`GpuError::Capturing`], [`GpuError::Driver`].
    ///
    /// # Safety
    /// The caller guarantees that `from` is device memory with as many values, which does not
    /// change until the copy has completed.
    pub unsafe fn copy_from_device(
        &mut self,
        from: DevicePointer,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        stream.expect_no_capture()?;
        // SAFETY: the caller guarantees `from`; the loan's memory stays until the copy has
        // completed.
        unsafe { stream.copy(self.address(), from, self.len * size_of::<T>()) }?;
        self.written_on(stream);
        Ok(())
    }
}

impl<T: Plain> Drop for DeviceLoan<T> {
    fn drop(&mut self) {
        let Some(lent) = self.lent.take() else { return };
        if !lent.lender.keeper.gpu().is_ours() {
            // A forked child's copy: the loan belongs to its parent.
            std::mem::forget(lent);
            return;
        }
        lent.give_back_after(&self.streams);
    }
}
