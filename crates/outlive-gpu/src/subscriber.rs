//! The end that messages come out of, into a GPU.

use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use outlive::Deadline;
use outlive::sync::Plain;
use outlive::topic::{Sample, Subscriber};

use crate::pins::Pins;
use crate::stream::Stream;
use crate::under_way::{self, Keeps as _};
use crate::{DevicePointer, Error};

/// A subscriber whose samples a GPU reads where they lie. It is a [`Subscriber`], to be waited for like any.
///
/// # If a process dies
/// As with [`Subscriber`]: the samples that it held, also for copies under way, are let go of once it has ended.
pub struct PinnedSubscriber<T: Plain = u8> {
    subscriber: Subscriber<[T]>,
    pins: Arc<Pins>,
}

/// A message, to read: by this process, and by its GPU. Held until this and all clones are dropped and all copies of it over.
///
/// # If a process dies
/// As with [`Sample`].
pub struct PinnedSample<T: Plain = u8> {
    sample: Arc<Sample<[T]>>,
    pins: Arc<Pins>,
}

impl<T: Plain> PinnedSubscriber<T> {
    pub(crate) fn new(subscriber: Subscriber<[T]>, pins: Arc<Pins>) -> PinnedSubscriber<T> {
        PinnedSubscriber { subscriber, pins }
    }

    fn pinned(&self, sample: Sample<[T]>) -> PinnedSample<T> {
        PinnedSample::new(Arc::new(sample), Arc::clone(&self.pins))
    }

    /// What is next, if anything is there.
    ///
    /// # Errors
    /// [`Error::Subscribe`].
    ///
    /// # If a process dies
    /// As with [`Subscriber::try_recv`].
    pub fn try_recv(&mut self) -> Result<Option<PinnedSample<T>>, Error> {
        let sample = self.subscriber.try_recv()?;
        Ok(sample.map(|sample| self.pinned(sample)))
    }

    /// What is next; waits for it.
    ///
    /// # Errors
    /// [`Error::Subscribe`].
    ///
    /// # If a process dies
    /// As with [`Subscriber::recv`].
    pub fn recv(&mut self) -> Result<PinnedSample<T>, Error> {
        self.recv_until(Deadline::NEVER)
    }

    /// What is next; waits for it until the deadline.
    ///
    /// # Errors
    /// [`Error::Subscribe`].
    ///
    /// # If a process dies
    /// As with [`Subscriber::recv_until`].
    pub fn recv_until(&mut self, deadline: impl Into<Deadline>) -> Result<PinnedSample<T>, Error> {
        let sample = self.subscriber.recv_until(deadline)?;
        Ok(self.pinned(sample))
    }

    /// The newest message that there is, taken before or not.
    ///
    /// # Errors
    /// [`Error::Subscribe`].
    ///
    /// # If a process dies
    /// As with [`Subscriber::latest`].
    pub fn latest(&mut self) -> Result<Option<PinnedSample<T>>, Error> {
        let sample = self.subscriber.latest()?;
        Ok(sample.map(|sample| self.pinned(sample)))
    }
}

impl<T: Plain> Deref for PinnedSubscriber<T> {
    type Target = Subscriber<[T]>;

    fn deref(&self) -> &Subscriber<[T]> {
        &self.subscriber
    }
}

impl<T: Plain> DerefMut for PinnedSubscriber<T> {
    fn deref_mut(&mut self) -> &mut Subscriber<[T]> {
        &mut self.subscriber
    }
}

impl<T: Plain> PinnedSample<T> {
    pub(crate) fn new(sample: Arc<Sample<[T]>>, pins: Arc<Pins>) -> PinnedSample<T> {
        PinnedSample { sample, pins }
    }

    /// Copies the message to the device, behind what is on the stream: one asynchronous copy. It stays held until that is over.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::Driver`]. Where the driver fails in the middle, the message is held as long as this process lives.
    ///
    /// # Safety
    /// `to` is device memory for the whole message, which stays until the copy is over.
    ///
    /// # If a process dies
    /// This one: the message is held until it has ended.
    pub unsafe fn copy_to_device(&self, to: DevicePointer, stream: &Stream) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.copy_part_to_device(0..self.len(), to, stream) }
    }

    /// The same for some of its values.
    ///
    /// # Errors
    /// As [`PinnedSample::copy_to_device`], and [`Error::OutOfBounds`].
    ///
    /// # Safety
    /// `to` is device memory for that part, which stays until the copy is over.
    ///
    /// # If a process dies
    /// As with [`PinnedSample::copy_to_device`].
    pub unsafe fn copy_part_to_device(
        &self,
        part: Range<usize>,
        to: DevicePointer,
        stream: &Stream,
    ) -> Result<(), Error> {
        under_way::look_after_left();
        let values = self.sample.get(part).ok_or(Error::OutOfBounds { len: self.sample.len() })?;
        stream.expect_no_capture()?;
        let (from, len) = (values.as_ptr().cast::<u8>(), size_of_val(values));
        let gpu = self.pins.gpu();
        let copied = self.pins.copy(from, len, |at, len| {
            // SAFETY: the caller's promise for the device; here: of the sample, a share of which is kept until it is over.
            unsafe { gpu.copy_to_device(to + at as u64, from.wrapping_add(at), len, stream.raw()) }
        });
        let copied = match copied {
            Err(not) if !not.has_begun => return Err(not.error),
            other => other.map_err(|not| not.error),
        };
        let share = Arc::clone(&self.sample);
        let held = stream.after(std::slice::from_ref(stream), self.pins.clone(), Box::new(move || drop(share)));
        copied.and(held.map_err(|(error, share)| {
            // The device may be reading still, registered memory as it is, and nobody will tell when it has done.
            std::mem::forget((share, Arc::clone(&self.pins)));
            error
        }))
    }
}

impl<T: Plain> Deref for PinnedSample<T> {
    type Target = Sample<[T]>;

    fn deref(&self) -> &Sample<[T]> {
        &self.sample
    }
}

impl<T: Plain> Clone for PinnedSample<T> {
    fn clone(&self) -> PinnedSample<T> {
        PinnedSample { sample: Arc::clone(&self.sample), pins: Arc::clone(&self.pins) }
    }
}
