//! A pinned topic's publisher, for messages from a GPU: doc/protocols/gpu.md, "Loans".
//!
//! | a loan is | a death here |
//! | --- | --- |
//! | lent | its memory is the next publisher's |
//! | written: a copy is enqueued | the same, once no device can be writing any more |
//! | due: behind it a host function | the same: it was never published |
//! | published, by the host function | topic.md |

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlive::topic::{Header, Publisher};
use outlive::{Deadline, Plain, SendError};

use crate::lender;
use crate::pins::Pins;
use crate::stream::Stream;
use crate::under_way::{self, Keeps as _};
use crate::{DevicePointer, GpuError};

/// A publisher whose loans a GPU writes in place. All threads may use it at once.
///
/// # If a process dies
/// The same as with [`Publisher`]: published messages stay, and no part of a message that was due
/// is seen.
pub struct PinnedPublisher<T: Plain = u8> {
    lender: Arc<Lender<T>>,
    /// Whether the topic has been told that a device writes.
    is_told: Arc<AtomicBool>,
}

type Lender<T> = lender::Lender<[T], Pins>;
type Lent<T> = lender::Lent<[T], Pins>;

/// Memory for one message, written by a GPU and published by [`PinnedPublisher::publish_on`].
///
/// A loan that is dropped goes back to the publisher, once all copies into it have completed.
#[must_use = "a loan that is dropped is not published"]
pub struct PinnedLoan<T: Plain = u8> {
    /// Until it is published or dropped.
    lent: Option<Lent<T>>,
    at: *mut T,
    len: usize,
    /// The streams on which copies into it are enqueued.
    streams: Vec<Stream>,
    is_told: Arc<AtomicBool>,
}

// SAFETY: the memory belongs to the loan alone, whichever thread has it.
unsafe impl<T: Plain> Send for PinnedLoan<T> {}

impl<T: Plain> PinnedPublisher<T> {
    pub(crate) fn new(publisher: Publisher<[T]>, pins: Arc<Pins>) -> PinnedPublisher<T> {
        PinnedPublisher { lender: Lender::new(publisher, pins), is_told: Arc::default() }
    }

    /// Lends memory for a message of so many values. Its contents are arbitrary.
    ///
    /// # Errors
    /// [`GpuError::Publish`].
    ///
    /// # If a process dies
    /// If this process dies, the next publisher gets the memory, once no device can be writing
    /// there any more.
    pub fn loan(&self, count: usize) -> Result<PinnedLoan<T>, GpuError> {
        let lent = self.lender.lend(|publisher| {
            let mut loan = publisher.loan(count)?;
            let place = (loan.as_mut_ptr(), loan.len());
            Ok::<_, SendError>((loan, place))
        });
        let (lent, (at, len)) = lent?;
        Ok(PinnedLoan {
            lent: Some(lent),
            at,
            len,
            streams: Vec::new(),
            is_told: Arc::clone(&self.is_told),
        })
    }

    /// Publishes a loan when the stream has completed all work enqueued so far; returns at once. It
    /// also waits for copies into the loan on other streams.
    ///
    /// Messages that are due on one stream are published in order. The call waits only while a
    /// reliable subscriber has not taken messages that those which are due would overwrite, or more
    /// messages are due than the topic keeps.
    ///
    /// # Errors
    /// [`GpuError::Capturing`], [`GpuError::Driver`], and [`GpuError::Publish`] for a message that was due
    /// before. The loan is given back then; where the driver fails after a copy, its memory is not
    /// reused as long as this process lives.
    ///
    /// # If a process dies
    /// If this process dies before the stream has got there, the message is never seen.
    pub fn publish_on(&self, loan: PinnedLoan<T>, stream: &Stream) -> Result<(), GpuError> {
        self.publish_on_until(loan, stream, Deadline::NEVER)
    }

    /// Publishes a loan as [`PinnedPublisher::publish_on`] does, waiting until the deadline at most.
    ///
    /// # Errors
    /// The errors of [`PinnedPublisher::publish_on`], and [`GpuError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`PinnedPublisher::publish_on`].
    pub fn publish_on_until(
        &self,
        mut loan: PinnedLoan<T>,
        stream: &Stream,
        deadline: Deadline,
    ) -> Result<(), GpuError> {
        self.lender.prepare(stream, deadline)?;
        let has_copies = !loan.streams.is_empty();
        let mut streams = std::mem::take(&mut loan.streams);
        if !streams.iter().any(|written| written.is(stream)) {
            streams.push(stream.clone());
        }
        loan.lent.take().map_or(Ok(()), |lent| Lender::publish_after(lent, &streams, has_copies))
    }

    /// Returns how many messages are due.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.lender.due()
    }
}

crate::forms::publisher_forms!(PinnedPublisher, PinnedLoan);

impl<T: Plain> PinnedLoan<T> {
    /// Returns how many values it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it has no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns its address in this process. A device writes there: the processor may see any bytes
    /// until the message is published.
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        self.at
    }

    /// Sets the header that is published with the message.
    pub fn set_header(&mut self, header: Header) {
        if let Some(lent) = &mut self.lent {
            lent.set_header(header);
        }
    }

    /// Copies the whole message from the device: one asynchronous copy, after the work on the
    /// stream.
    ///
    /// # Errors
    /// [`GpuError::Capturing`], [`GpuError::Driver`].
    ///
    /// # Safety
    /// The caller guarantees that `from` is device memory with as many values, which does not
    /// change until the copy has completed.
    ///
    /// # If a process dies
    /// If this process dies, the memory is reused once no device can be writing there.
    pub unsafe fn copy_from_device(
        &mut self,
        from: DevicePointer,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller guarantees `from` until the copy has completed.
        unsafe { self.copy_part_from_device(0..self.len, from, stream) }
    }

    /// Copies some of its values from the device, as [`PinnedLoan::copy_from_device`].
    ///
    /// # Errors
    /// The errors of [`PinnedLoan::copy_from_device`], and [`GpuError::OutOfBounds`].
    ///
    /// # Safety
    /// The caller guarantees that `from` is device memory with as many values as the part has,
    /// which does not change until the copy has completed, and that parts which are copied on
    /// different streams at a time do not overlap.
    ///
    /// # If a process dies
    /// The same as with [`PinnedLoan::copy_from_device`].
    pub unsafe fn copy_part_from_device(
        &mut self,
        part: Range<usize>,
        from: DevicePointer,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        under_way::look_after_left();
        if part.start > part.end || part.end > self.len {
            return Err(GpuError::OutOfBounds { len: self.len });
        }
        stream.expect_no_capture()?;
        let Some(lent) = &self.lent else { return Ok(()) };
        // Relaxed: telling it twice does no harm.
        if !self.is_told.load(Ordering::Relaxed) {
            lent.lender.publisher(outlive::topic::Publisher::expect_device_writes);
            self.is_told.store(true, Ordering::Relaxed);
        }
        let to = self.at.wrapping_add(part.start).cast::<u8>();
        let len = part.len() * size_of::<T>();
        let pins = &lent.lender.keeper;
        let copied = pins.copy(to, len, |at, len| {
            // SAFETY: the caller guarantees the device's memory; the loan's stays until the copy
            // has completed.
            unsafe {
                pins.gpu().copy_from_device(
                    to.wrapping_add(at),
                    from + at as u64,
                    len,
                    stream.raw(),
                )
            }
        });
        let has_begun = copied.as_ref().err().is_none_or(|not| not.has_begun);
        if has_begun && !self.streams.iter().any(|written| written.is(stream)) {
            self.streams.push(stream.clone());
        }
        copied.map_err(|not| not.error)
    }
}

impl<T: Plain> Drop for PinnedLoan<T> {
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
