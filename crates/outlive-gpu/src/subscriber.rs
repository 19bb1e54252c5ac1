//! A pinned topic's subscriber, for messages to a GPU.

use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;
use std::time::Duration;

use outlive::Deadline;
use outlive::Plain;
use outlive::topic::{Sample, Subscriber};

use crate::pins::Pins;
use crate::stream::Stream;
use crate::under_way::{self, Keeps as _};
use crate::{DevicePointer, GpuError};

/// A subscriber whose samples a GPU reads in place. It is a [`Subscriber`], and a source for wait
/// sets.
///
/// # If a process dies
/// The same as with [`Subscriber`]: the samples that it held, also for copies under way, are
/// released once it has ended.
pub struct PinnedSubscriber<T: Plain = u8> {
    subscriber: Subscriber<[T]>,
    pins: Arc<Pins>,
}

/// A received message, for this process and its GPU to read. It is held until this and all clones
/// are dropped and all copies of it have completed.
///
/// # If a process dies
/// The same as with [`Sample`].
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

    /// Returns the next message, or `None` at once if there is none.
    ///
    /// # Errors
    /// [`GpuError::Subscribe`].
    ///
    /// # If a process dies
    /// The same as with [`Subscriber::try_recv`].
    pub fn try_recv(&mut self) -> Result<Option<PinnedSample<T>>, GpuError> {
        let sample = self.subscriber.try_recv()?;
        Ok(sample.map(|sample| self.pinned(sample)))
    }

    /// Returns the next message, waiting for one.
    ///
    /// # Errors
    /// [`GpuError::Subscribe`].
    ///
    /// # If a process dies
    /// The same as with [`Subscriber::recv`].
    pub fn recv(&mut self) -> Result<PinnedSample<T>, GpuError> {
        let sample = self.subscriber.recv()?;
        Ok(self.pinned(sample))
    }

    /// Returns the next message, waiting for one as long as `span` at most; `None` when that has
    /// passed.
    ///
    /// # Errors
    /// [`GpuError::Subscribe`].
    ///
    /// # If a process dies
    /// The same as with [`Subscriber::recv_timeout`].
    pub fn recv_timeout(&mut self, span: Duration) -> Result<Option<PinnedSample<T>>, GpuError> {
        self.recv_until(Deadline::after(span))
    }

    /// Returns the next message, waiting for one until the deadline at most; `None` when that has
    /// passed.
    ///
    /// # Errors
    /// [`GpuError::Subscribe`].
    ///
    /// # If a process dies
    /// The same as with [`Subscriber::recv_until`].
    pub fn recv_until(&mut self, deadline: Deadline) -> Result<Option<PinnedSample<T>>, GpuError> {
        let sample = self.subscriber.recv_until(deadline)?;
        Ok(sample.map(|sample| self.pinned(sample)))
    }

    /// Returns the newest message that is there, taken before or not.
    ///
    /// # Errors
    /// [`GpuError::Subscribe`].
    ///
    /// # If a process dies
    /// The same as with [`Subscriber::latest`].
    pub fn latest(&mut self) -> Result<Option<PinnedSample<T>>, GpuError> {
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

    /// Copies the message to the device: one asynchronous copy, after the work on the stream. The
    /// message stays held until the copy has completed.
    ///
    /// # Errors
    /// [`GpuError::Capturing`], [`GpuError::Driver`]. Where the driver fails in the middle, the message
    /// is held as long as this process lives.
    ///
    /// # Safety
    /// The caller guarantees that `to` is device memory for the whole message, which stays until
    /// the copy has completed.
    ///
    /// # If a process dies
    /// If this process dies, the message is held until it has ended.
    pub unsafe fn copy_to_device(
        &self,
        to: DevicePointer,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller guarantees `to` until the copy has completed.
        unsafe { self.copy_part_to_device(0..self.len(), to, stream) }
    }

    /// Copies some of its values to the device, as [`PinnedSample::copy_to_device`].
    ///
    /// # Errors
    /// The errors of [`PinnedSample::copy_to_device`], and [`GpuError::OutOfBounds`].
    ///
    /// # Safety
    /// The caller guarantees that `to` is device memory for that part, which stays until the copy
    /// has completed.
    ///
    /// # If a process dies
    /// The same as with [`PinnedSample::copy_to_device`].
    pub unsafe fn copy_part_to_device(
        &self,
        part: Range<usize>,
        to: DevicePointer,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        under_way::look_after_left();
        let values =
            self.sample.get(part).ok_or(GpuError::OutOfBounds { len: self.sample.len() })?;
        stream.expect_no_capture()?;
        let (from, len) = (values.as_ptr().cast::<u8>(), size_of_val(values));
        let gpu = self.pins.gpu();
        let copied = self.pins.copy(from, len, |at, len| {
            // SAFETY: the caller guarantees `to`; a share of the sample is kept until the copy has
            // completed.
            unsafe { gpu.copy_to_device(to + at as u64, from.wrapping_add(at), len, stream.raw()) }
        });
        let copied = match copied {
            Err(not) if !not.has_begun => return Err(not.error),
            other => other.map_err(|not| not.error),
        };
        let share = Arc::clone(&self.sample);
        let held = stream.after(
            std::slice::from_ref(stream),
            self.pins.clone(),
            Box::new(move || drop(share)),
        );
        copied.and(held.map_err(|(error, share)| {
            // The device may still be reading this registered memory, and no callback will tell
            // when it has finished.
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
