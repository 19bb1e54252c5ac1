//! A publisher that host functions use: doc/protocols/gpu.md, "Loans".
//!
//! | a loan is | a death here |
//! | --- | --- |
//! | lent | its memory is the next publisher's |
//! | due: on a stream, behind its work, is a host function that has it | the same: it was never published |
//! | published, by the host function | topic.md |

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive::topic::{Header, Loan, Publisher};
use outlive::{Deadline, Payload, SendError};

use crate::GpuError;
use crate::stream::Stream;
use crate::under_way::{self, Keeps};

/// What loans and host functions need of a publisher. It leaves its ring with the last of them.
pub(crate) struct Lender<M: Payload + ?Sized, K> {
    /// No thread has it while it calls the driver or waits: host functions take it.
    publisher: Mutex<Publisher<M>>,
    /// How many messages are due. Changed by the thread that has the publisher.
    due: AtomicU64,
    /// Why a message that was due was not published.
    failed: Mutex<Option<SendError>>,
    pub(crate) keeper: Arc<K>,
}

/// A loan, together with its lender.
pub(crate) struct Lent<M: Payload + ?Sized + 'static, K: Keeps> {
    /// Until it is published.
    loan: Option<Loan<M>>,
    pub(crate) lender: Arc<Lender<M, K>>,
}

impl<M: Payload + ?Sized + 'static, K: Keeps + 'static> Lender<M, K> {
    pub(crate) fn new(publisher: Publisher<M>, keeper: Arc<K>) -> Arc<Lender<M, K>> {
        let (due, failed) = (AtomicU64::new(0), Mutex::new(None));
        Arc::new(Lender { publisher: Mutex::new(publisher), due, failed, keeper })
    }

    /// Takes the publisher.
    fn turn(&self) -> MutexGuard<'_, Publisher<M>> {
        self.publisher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `with` on the publisher, exclusively.
    pub(crate) fn publisher<R>(&self, with: impl FnOnce(&Publisher<M>) -> R) -> R {
        with(&self.turn())
    }

    /// Lends what `lend` returns, and passes on what else it returns.
    pub(crate) fn lend<R, E>(
        self: &Arc<Self>,
        lend: impl FnOnce(&Publisher<M>) -> Result<(Loan<M>, R), E>,
    ) -> Result<(Lent<M, K>, R), E> {
        let (loan, facts) = self.publisher(lend)?;
        Ok((Lent { loan: Some(loan), lender: Arc::clone(self) }, facts))
    }

    /// Waits until no reliable subscriber is in the way of one more message than are due; then that
    /// one is due.
    fn make_due(&self, deadline: Deadline) -> Result<(), GpuError> {
        self.keeper.wait_until(deadline, &mut |_| {
            let publisher = self.turn();
            let has_room = publisher.has_room_after(self.due.load(Ordering::Relaxed));
            self.due.fetch_add(u64::from(has_room), Ordering::Relaxed);
            has_room
        })
    }

    /// Waits until no reliable subscriber is in the way of one more message than are due.
    pub(crate) fn wait_writable(&self, deadline: Deadline) -> Result<(), GpuError> {
        self.keeper.wait_until(deadline, &mut |_| {
            self.turn().has_room_after(self.due.load(Ordering::Relaxed))
        })
    }

    fn one_less_due(&self) {
        let _turn = self.turn();
        self.due.fetch_sub(1, Ordering::Relaxed);
    }

    /// Prepares the publishing of a loan, before any work is enqueued: undoes what host functions
    /// left, reports a failed message, and waits until no reliable subscriber is in the way.
    pub(crate) fn prepare(&self, stream: &Stream, deadline: Deadline) -> Result<(), GpuError> {
        under_way::look_after_left();
        self.tell_failure()?;
        stream.expect_no_capture()?;
        // Due from here on: the next message needs room, too.
        self.make_due(deadline)
    }

    /// Publishes it, after [`Lender::prepare`], when these streams have completed all work enqueued
    /// so far. On failure it is not due any more; and where a device may still be writing it, its
    /// memory is not reused.
    pub(crate) fn publish_after(
        lent: Lent<M, K>,
        streams: &[Stream],
        may_be_written: bool,
    ) -> Result<(), GpuError> {
        let lender = Arc::clone(&lent.lender);
        let Some(last) = streams.last() else {
            lent.publish();
            return Ok(());
        };
        let due = last.after(streams, lender.keeper.clone(), Box::new(move || lent.publish()));
        due.map_err(|(error, work)| {
            lender.one_less_due();
            if may_be_written {
                // No callback will tell when the device has finished.
                std::mem::forget(work);
            }
            error
        })
    }

    pub(crate) fn wait_published(&self, deadline: Deadline) -> Result<(), GpuError> {
        self.keeper.wait_until(deadline, &mut |_| self.due.load(Ordering::Relaxed) == 0)?;
        self.tell_failure()
    }

    pub(crate) fn due(&self) -> u64 {
        self.due.load(Ordering::Relaxed)
    }

    fn tell_failure(&self) -> Result<(), GpuError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        failed.map_or(Ok(()), |error| Err(GpuError::Publish(error)))
    }
}

impl<M: Payload + ?Sized, K: Keeps + 'static> Lent<M, K> {
    pub(crate) fn set_header(&mut self, header: Header) {
        if let Some(loan) = &mut self.loan {
            loan.set_header(header);
        }
    }

    /// Returns the loan's memory, for this process to write.
    pub(crate) fn get_mut(&mut self) -> Option<&mut M> {
        self.loan.as_deref_mut()
    }

    /// Publishes without waiting: in a host function, or for a caller that enqueued no work.
    fn publish(mut self) {
        let lender = Arc::clone(&self.lender);
        let publisher = lender.turn();
        if let Some(loan) = self.loan.take() {
            // No subscriber is in the way: `prepare` has waited for that. Otherwise (a stray write)
            // it fails at once.
            let published = publisher.try_publish(loan);
            if let Err(error) = published.map(drop) {
                *lender.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        }
        lender.due.fetch_sub(1, Ordering::Relaxed);
        drop(publisher);
    }

    /// Gives an unpublished loan back when these streams have completed all work enqueued so far.
    pub(crate) fn give_back_after(self, streams: &[Stream]) {
        let Some(last) = streams.last() else { return };
        let keeper = Arc::clone(&self.lender.keeper);
        if let Err((_, work)) = last.after(streams, keeper, Box::new(move || drop(self))) {
            // The device may still be writing, and no callback will tell when it has finished.
            std::mem::forget(work);
        }
    }
}
