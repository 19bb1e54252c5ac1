//! The end of a device topic that messages go into.

use std::marker::PhantomData;

use outlive::Deadline;
use outlive::sync::Plain;
use outlive::topic::Header;

use crate::stream::Stream;
use crate::{DevicePointer, Error};

/// A publisher whose loans are GPU memory. May be used by all threads at once.
///
/// # If a process dies
/// As with [`Publisher`](outlive::topic::Publisher): what was published stays, nothing of what was due is seen.
pub struct DevicePublisher<T: Plain = u8> {
    _values: PhantomData<T>,
}

/// GPU memory for one message, to be written by work on a stream: [`DevicePublisher::publish_on`] publishes it. Dropped, it is the publisher's again, once all
/// streams that it knows of ([`DeviceLoan::written_on`]) have got there.
#[must_use = "a loan that is dropped is not published"]
pub struct DeviceLoan<T: Plain = u8> {
    _values: PhantomData<T>,
}

impl<T: Plain> DevicePublisher<T> {
    /// Memory for a message of so many values. What is in it is not defined.
    ///
    /// # Errors
    /// [`Error::Publish`]; [`Error::Driver`]: `CUDA_ERROR_OUT_OF_MEMORY`, as a rule.
    ///
    /// # If a process dies
    /// With it.
    pub fn loan(&self, _count: usize) -> Result<DeviceLoan<T>, Error> {
        unimplemented!()
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
        _loan: DeviceLoan<T>,
        _stream: &Stream,
        _deadline: impl Into<Deadline>,
    ) -> Result<(), Error> {
        unimplemented!()
    }

    /// Waits until all messages that are due have been published.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Driver`], and [`Error::Publish`] with what became of one that was due.
    pub fn wait_published(&self, _deadline: impl Into<Deadline>) -> Result<(), Error> {
        unimplemented!()
    }

    /// How many messages are due.
    #[must_use]
    pub fn due(&self) -> u64 {
        unimplemented!()
    }
}

impl<T: Plain> DeviceLoan<T> {
    /// How many values it has.
    #[must_use]
    pub fn len(&self) -> usize {
        unimplemented!()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it lies on the GPU: for kernels and copies to write to. Aligned to 64 KiB and more.
    #[must_use]
    pub fn address(&self) -> DevicePointer {
        unimplemented!()
    }

    /// What is to go with it.
    pub fn set_header(&mut self, _header: Header) {
        unimplemented!()
    }

    /// Says that work on this stream writes it, too: enqueued already, or until it is published or dropped.
    pub fn written_on(&mut self, _stream: &Stream) {
        unimplemented!()
    }

    /// Copies the whole message from elsewhere on the GPU, behind what is on the stream.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::Driver`].
    ///
    /// # Safety
    /// `from` is device memory with as many values, which stays as it is until the copy is over.
    pub unsafe fn copy_from_device(&mut self, _from: DevicePointer, _stream: &Stream) -> Result<(), Error> {
        unimplemented!()
    }
}
