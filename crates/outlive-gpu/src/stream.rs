//! Streams: the user's, and beside each a side stream of this crate's, on which host functions are
//! called when the user's has got there. So the user's stream does not stop for them.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::api::{self, Handle};
use crate::gpu::Gpu;
use crate::host_function::{self, Job, Work};
use crate::under_way::Keeps;
use crate::{DevicePointer, GpuError};

/// A stream of a GPU's work: work that is enqueued on it is done in order. Clones share it.
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
}

struct Inner {
    gpu: Gpu,
    stream: Handle,
    is_ours: bool,
    /// It waits for the stream, never the other way round.
    side: Handle,
    /// Recorded on the stream and waited for on a side stream, by one thread at a time: an event
    /// denotes what was recorded last.
    event: Mutex<Event>,
}

struct Event(Handle);

// SAFETY: all threads may call the driver's functions.
unsafe impl Send for Event {}
// SAFETY: all threads may call the driver's functions.
unsafe impl Send for Inner {}
// SAFETY: all threads may call the driver's functions.
unsafe impl Sync for Inner {}

impl Stream {
    /// Makes a new stream, which does not wait for the default stream.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn new(gpu: &Gpu) -> Result<Stream, GpuError> {
        Stream::finish(gpu, gpu.new_stream()?, true)
    }

    /// Uses another library's stream: a `CUstream`, or null, 1 and 2 for the default ones.
    ///
    /// The runtime's `cudaStream_t` is the same; PyTorch: `stream.cuda_stream`, CuPy: `stream.ptr`,
    /// cudarc: `cu_stream()`.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    ///
    /// # Safety
    /// The caller guarantees that it is of this GPU's context, and keeps it as long as this and all
    /// work enqueued through it.
    pub unsafe fn from_raw(gpu: &Gpu, stream: *mut c_void) -> Result<Stream, GpuError> {
        Stream::finish(gpu, stream, false)
    }

    fn finish(gpu: &Gpu, stream: Handle, is_ours: bool) -> Result<Stream, GpuError> {
        let none = || Mutex::new(Event(ptr::null_mut()));
        // From here on `drop` takes care of what has been made.
        let mut inner =
            Inner { gpu: gpu.clone(), stream, is_ours, side: ptr::null_mut(), event: none() };
        inner.side = gpu.new_stream()?;
        let mut event = ptr::null_mut();
        {
            let _current = gpu.enter()?;
            // SAFETY: `event` is a place for an event.
            let made = unsafe { (gpu.api().create_event)(&mut event, api::EVENT_DISABLE_TIMING) };
            gpu.checked("cuEventCreate", made)?;
        }
        inner.event = Mutex::new(Event(event));
        Ok(Stream { inner: Arc::new(inner) })
    }

    /// Returns the `CUstream`, for enqueuing work of one's own.
    #[must_use]
    pub fn raw(&self) -> *mut c_void {
        self.inner.stream
    }

    /// Returns its GPU.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.inner.gpu
    }

    /// Waits until all work enqueued on it has completed. What it publishes and releases may take
    /// effect a moment later: [`PinnedTopic::wait_over`](crate::PinnedTopic::wait_over).
    ///
    /// # Errors
    /// [`GpuError::Driver`], also for failures of work that was enqueued before.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        let gpu = &self.inner.gpu;
        let _current = gpu.enter()?;
        // SAFETY: the stream stays as long as this value.
        gpu.checked("cuStreamSynchronize", unsafe { (gpu.api().synchronize_stream)(self.raw()) })
    }

    /// Makes work that is enqueued here from now on wait until the other stream has completed all
    /// work enqueued so far. Does not wait itself.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn wait_for(&self, other: &Stream) -> Result<(), GpuError> {
        if self.is(other) {
            return Ok(());
        }
        let gpu = &self.inner.gpu;
        let _current = gpu.enter()?;
        other.be_waited_for(gpu, self.raw())
    }

    /// Makes another of the context's streams wait for the work enqueued on this one so far.
    fn be_waited_for(&self, gpu: &Gpu, waiting: Handle) -> Result<(), GpuError> {
        let event = self.inner.event.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the handles stay as long as this value; the lock keeps the event this thread's
        // until it is waited for.
        unsafe {
            gpu.checked("cuEventRecord", (gpu.api().record_event)(event.0, self.raw()))?;
            gpu.checked("cuStreamWaitEvent", (gpu.api().stream_wait_event)(waiting, event.0, 0))
        }
    }

    /// Copies from place to place on the device, after the work on the stream.
    ///
    /// # Safety
    /// The caller guarantees that both places exist, that no thread writes to `from`, and that none
    /// touches `to`, until the copy has completed.
    pub(crate) unsafe fn copy(
        &self,
        to: DevicePointer,
        from: DevicePointer,
        len: usize,
    ) -> Result<(), GpuError> {
        let gpu = &self.inner.gpu;
        let _current = gpu.enter()?;
        // SAFETY: the caller guarantees both places until the copy has completed.
        gpu.checked("cuMemcpyDtoDAsync", unsafe {
            (gpu.api().copy_on_device)(to, from, len, self.raw())
        })
    }

    /// Copies bytes from ordinary memory, and waits for that.
    pub(crate) fn write(&self, to: DevicePointer, bytes: &[u8]) -> Result<(), GpuError> {
        {
            let _current = self.inner.gpu.enter()?;
            // SAFETY: the caller's bytes are borrowed until the copy has completed, which this
            // waits for.
            unsafe { self.inner.gpu.copy_to_device(to, bytes.as_ptr(), bytes.len(), self.raw())? };
        }
        self.synchronize()
    }

    /// Copies bytes into ordinary memory, and waits for that.
    pub(crate) fn read(&self, from: DevicePointer, bytes: &mut [u8]) -> Result<(), GpuError> {
        {
            let _current = self.inner.gpu.enter()?;
            // SAFETY: the caller's bytes are borrowed until the copy has completed, which this
            // waits for.
            unsafe {
                self.inner.gpu.copy_from_device(
                    bytes.as_mut_ptr(),
                    from,
                    bytes.len(),
                    self.raw(),
                )?
            };
        }
        self.synchronize()
    }

    /// Fills memory of the device's, after the work on the stream.
    pub(crate) fn fill(&self, at: DevicePointer, byte: u8, len: usize) -> Result<(), GpuError> {
        let gpu = &self.inner.gpu;
        let _current = gpu.enter()?;
        // SAFETY: the caller has checked that `len` bytes of device memory lie at `at`.
        gpu.checked("cuMemsetD8Async", unsafe { (gpu.api().fill)(at, byte, len, self.raw()) })
    }

    /// Checks that work on the stream is done now, and not captured for a replay.
    pub(crate) fn expect_no_capture(&self) -> Result<(), GpuError> {
        let gpu = &self.inner.gpu;
        let _current = gpu.enter()?;
        let mut status = 0;
        // SAFETY: the stream stays as long as this value, and `status` is a place for the status.
        gpu.checked("cuStreamIsCapturing", unsafe {
            (gpu.api().stream_is_capturing)(self.raw(), &mut status)
        })?;
        if status == 0 { Ok(()) } else { Err(GpuError::Capturing) }
    }

    pub(crate) fn is(&self, other: &Stream) -> bool {
        ptr::eq(self.raw(), other.raw())
    }

    /// Has `work` done when these streams have completed all work enqueued so far; this one may be
    /// among them. On failure it returns the work.
    pub(crate) fn after(
        &self,
        streams: &[Stream],
        keeper: Arc<dyn Keeps>,
        work: Work,
    ) -> Result<(), (GpuError, Work)> {
        let gpu = &self.inner.gpu;
        let wait = || -> Result<(), GpuError> {
            let _current = gpu.enter()?;
            streams.iter().try_for_each(|stream| stream.be_waited_for(gpu, self.inner.side))
        };
        if let Err(error) = wait() {
            return Err((error, work));
        }
        let job = Box::into_raw(Box::new(Job { work, keeper: Arc::clone(&keeper) }));
        // Before it can be over.
        keeper.under_way().one_more();
        let launched = gpu.enter().and_then(|_current| {
            // SAFETY: `run` takes a `Box<Job>` once, and gets this one.
            let code = unsafe {
                (gpu.api().launch_host_function)(self.inner.side, host_function::run, job.cast())
            };
            gpu.checked("cuLaunchHostFunc", code)
        });
        launched.map_err(|error| {
            keeper.under_way().one_is_over();
            // SAFETY: the driver did not take it, so it is still this thread's.
            (error, unsafe { Box::from_raw(job) }.work)
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.gpu.is_ours() {
            return;
        }
        let Ok(_current) = self.gpu.enter() else { return };
        let api = self.gpu.api();
        let event = self.event.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: made here; the driver keeps what is still needed until the work on it has
        // completed. Errors: the context is gone.
        unsafe {
            if !event.0.is_null() {
                (api.destroy_event)(event.0);
            }
            if !self.side.is_null() {
                (api.destroy_stream)(self.side);
            }
            if self.is_ours {
                (api.destroy_stream)(self.stream);
            }
        }
    }
}
