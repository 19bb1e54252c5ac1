//! The end that messages go into, from a GPU: doc/protocols/gpu.md, "Loans".
//!
//! | a loan is | a death here |
//! | --- | --- |
//! | lent | its memory is the next publisher's |
//! | written: a copy is enqueued | the same, once no device can be writing any more |
//! | due: behind it a host function | the same: it was never published |
//! | published, by the host function | topic.md |

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive::Deadline;
use outlive::sync::Plain;
use outlive::topic::{Header, Loan, PublishError, Publisher};

use crate::pins::{self, Pins};
use crate::stream::Stream;
use crate::{DevicePointer, Error};

/// A publisher whose loans a GPU writes where they lie. May be used by all threads at once.
///
/// # If a process dies
/// As with [`Publisher`]: what was published stays, nothing of what was due is seen.
pub struct PinnedPublisher<T: Plain = u8> {
    lender: Arc<Lender<T>>,
}

/// What loans and host functions need of a publisher. It leaves its ring with the last of them.
struct Lender<T: Plain> {
    /// Before what it refers to.
    turn: Mutex<()>,
    publisher: Publisher<[T]>,
    /// Whether the topic has been told that a device writes.
    is_told: AtomicBool,
    /// How many messages are due. Changed by who has the turn.
    due: AtomicU64,
    /// Why one that was due was not published.
    failed: Mutex<Option<PublishError>>,
    pins: Arc<Pins>,
}

// SAFETY: the publisher is used by who has the turn only.
unsafe impl<T: Plain> Sync for Lender<T> {}

/// A loan, wherever it goes with its lender.
struct Lent<T: Plain> {
    /// Published or given back by who has the turn.
    loan: Option<Loan<'static, [T]>>,
    lender: Arc<Lender<T>>,
}

// SAFETY: it refers to the publisher, which is used by who has the turn only, and stays with the lender.
unsafe impl<T: Plain> Send for Lent<T> {}

/// Memory for one message, to be written by a GPU: [`PinnedPublisher::publish_on`] publishes it. Dropped, it is the publisher's again, once
/// all copies into it are over.
#[must_use = "a loan that is dropped is not published"]
pub struct PinnedLoan<T: Plain = u8> {
    /// Until it is published or dropped.
    lent: Option<Lent<T>>,
    at: *mut T,
    len: usize,
    /// Where copies into it are enqueued.
    streams: Vec<Stream>,
}

// SAFETY: the memory is the loan's alone, whichever thread has it.
unsafe impl<T: Plain> Send for PinnedLoan<T> {}

impl<T: Plain> Lender<T> {
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A device is about to write.
    fn tell(&self) {
        // Relaxed: told twice is told.
        if !self.is_told.load(Ordering::Relaxed) {
            let _turn = self.turn();
            self.publisher.expect_device_writes();
            self.is_told.store(true, Ordering::Relaxed);
        }
    }
}

impl<T: Plain> Lent<T> {
    /// In a host function, or for who enqueued nothing: publishes without waiting.
    fn publish(mut self) {
        let lender = Arc::clone(&self.lender);
        let turn = lender.turn();
        if let Some(loan) = self.loan.take() {
            // The way is clear: `publish_on` has seen to that. Not so (somebody scribbled): it fails, and nobody waits.
            let published = lender.publisher.publish_until(loan, Deadline::after(Duration::ZERO));
            if let Err(error) = published.map(drop) {
                *lender.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        }
        lender.due.fetch_sub(1, Ordering::Relaxed);
        drop(turn);
    }
}

impl<T: Plain> Drop for Lent<T> {
    fn drop(&mut self) {
        if let Some(loan) = self.loan.take() {
            let _turn = self.lender.turn();
            drop(loan);
        }
    }
}

impl<T: Plain> PinnedPublisher<T> {
    pub(crate) fn new(publisher: Publisher<[T]>, pins: Arc<Pins>) -> PinnedPublisher<T> {
        let (turn, due, failed) = (Mutex::new(()), AtomicU64::new(0), Mutex::new(None));
        let is_told = AtomicBool::new(false);
        PinnedPublisher { lender: Arc::new(Lender { turn, publisher, is_told, due, failed, pins }) }
    }

    /// Memory for a message of so many values. What is in it is not defined.
    ///
    /// # Errors
    /// [`Error::Publish`].
    ///
    /// # If a process dies
    /// With it: its memory is the next publisher's, once no device can be writing there any more.
    pub fn loan(&self, count: usize) -> Result<PinnedLoan<T>, Error> {
        let lender = Arc::clone(&self.lender);
        let turn = lender.turn();
        let mut loan = self.lender.publisher.loan(count)?;
        let (at, len) = (loan.as_mut_ptr(), loan.len());
        // SAFETY: only its lifetime: it refers to the publisher, which stays where it is in the lender as long as the loan
        // does; `Lent` has both.
        let loan = unsafe { core::mem::transmute::<Loan<'_, [T]>, Loan<'static, [T]>>(loan) };
        drop(turn);
        Ok(PinnedLoan { lent: Some(Lent { loan: Some(loan), lender }), at, len, streams: Vec::new() })
    }

    /// Publishes a loan when the stream has got to where it is now; returns at once. Copies into it on other streams are waited for, too.
    ///
    /// Messages that are due on one stream are published in order. It waits only as long as a reliable subscriber has not taken what
    /// lies in the way of all that are due, or more messages are due than the topic keeps.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::Driver`], and [`Error::Publish`] with what became of one that was due before. The loan is given back
    /// then; where the driver fails after a copy, its memory is used no more as long as this process lives.
    ///
    /// # If a process dies
    /// Before the stream has got there: the message is never seen.
    pub fn publish_on(&self, loan: PinnedLoan<T>, stream: &Stream) -> Result<(), Error> {
        self.publish_on_until(loan, stream, Deadline::NEVER)
    }

    /// As [`PinnedPublisher::publish_on`], waiting until the deadline at most.
    ///
    /// # Errors
    /// As there, and [`Error::TimedOut`].
    ///
    /// # If a process dies
    /// As there.
    pub fn publish_on_until(
        &self,
        mut loan: PinnedLoan<T>,
        stream: &Stream,
        deadline: impl Into<Deadline>,
    ) -> Result<(), Error> {
        pins::look_after_left();
        self.tell_failure()?;
        stream.expect_no_capture()?;
        let lender = &self.lender;
        // Due from here on: what comes after it needs a clear way, too.
        lender.pins.wait_until(deadline.into(), |_| {
            let _turn = lender.turn();
            let is_clear = lender.publisher.clear_messages() > lender.due.load(Ordering::Relaxed);
            lender.due.fetch_add(u64::from(is_clear), Ordering::Relaxed);
            is_clear
        })?;
        let not_due = || {
            let _turn = lender.turn();
            lender.due.fetch_sub(1, Ordering::Relaxed);
        };
        let has_copies = !loan.streams.is_empty();
        let mut streams = std::mem::take(&mut loan.streams);
        if !streams.iter().any(|written| written.is(stream)) {
            streams.push(stream.clone());
        }
        let Some(lent) = loan.lent.take() else {
            not_due();
            return Ok(());
        };
        let due = stream.after(&streams, &lender.pins, Box::new(move || lent.publish()));
        due.map_err(|(error, work)| {
            not_due();
            if has_copies {
                // The device may be writing still, and nobody will tell when it has done.
                std::mem::forget(work);
            }
            error
        })
    }

    /// Waits until all messages that are due have been published.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Driver`], and [`Error::Publish`] with what became of one that was due.
    pub fn wait_published(&self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        let lender = &self.lender;
        lender.pins.wait_until(deadline.into(), |_| lender.due.load(Ordering::Relaxed) == 0)?;
        self.tell_failure()
    }

    /// How many messages are due.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.lender.due.load(Ordering::Relaxed)
    }

    fn tell_failure(&self) -> Result<(), Error> {
        let failed = self.lender.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        failed.map_or(Ok(()), |error| Err(Error::Publish(error)))
    }
}

impl<T: Plain> PinnedLoan<T> {
    /// How many values it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it lies in this process. A device writes there: what the processor sees is anything, until the message is published.
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        self.at
    }

    /// What is to go with it.
    pub fn set_header(&mut self, header: Header) {
        if let Some(Lent { loan: Some(loan), .. }) = &mut self.lent {
            loan.set_header(header);
        }
    }

    /// Copies the whole message from the device, behind what is on the stream: one asynchronous copy.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::Driver`].
    ///
    /// # Safety
    /// `from` is device memory with as many values, which stays as it is until the copy is over.
    ///
    /// # If a process dies
    /// This one: the memory is used again once no device can be writing there.
    pub unsafe fn copy_from_device(&mut self, from: DevicePointer, stream: &Stream) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.copy_part_from_device(0..self.len, from, stream) }
    }

    /// The same for some of its values.
    ///
    /// # Errors
    /// As [`PinnedLoan::copy_from_device`], and [`Error::OutOfBounds`].
    ///
    /// # Safety
    /// `from` is device memory with as many values as the part has, which stays as it is until the copy is over; parts that are copied on
    /// different streams at a time do not overlap.
    ///
    /// # If a process dies
    /// As with [`PinnedLoan::copy_from_device`].
    pub unsafe fn copy_part_from_device(
        &mut self,
        part: Range<usize>,
        from: DevicePointer,
        stream: &Stream,
    ) -> Result<(), Error> {
        pins::look_after_left();
        if part.start > part.end || part.end > self.len {
            return Err(Error::OutOfBounds { len: self.len });
        }
        stream.expect_no_capture()?;
        let Some(lent) = &self.lent else { return Ok(()) };
        lent.lender.tell();
        let to = self.at.wrapping_add(part.start).cast::<u8>();
        let len = part.len() * size_of::<T>();
        let pins = &lent.lender.pins;
        let copied = pins.copy(to, len, |at, len| {
            // SAFETY: the caller's promise for the device; here: of the loan, which stays until it is over.
            unsafe { pins.gpu().copy_from_device(to.wrapping_add(at), from + at as u64, len, stream.raw()) }
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
        if !lent.lender.pins.gpu().is_ours() {
            // A forked child's copy: its parent's.
            std::mem::forget(lent);
            return;
        }
        let Some(last) = self.streams.last() else { return };
        let pins = Arc::clone(&lent.lender.pins);
        if let Err((_, work)) = last.after(&self.streams, &pins, Box::new(move || drop(lent))) {
            // The device may be writing still, and nobody will tell when it has done.
            std::mem::forget(work);
        }
    }
}
