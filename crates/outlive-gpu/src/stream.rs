//! Streams: the user's, and beside each one of ours, on which host functions are called when the user's has got there. So his does
//! not stop for them.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::api::{self, Handle};
use crate::gpu::Gpu;
use crate::host_function::{self, Job, Work};
use crate::under_way::Keeps;
use crate::{DevicePointer, Error};

/// A stream of a GPU's work: what is enqueued on it is done in order. Clones are the same.
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
    /// Recorded on the stream and waited for on a side, by one thread at a time: an event stands for what was recorded last.
    event: Mutex<Event>,
}

struct Event(Handle);

// SAFETY: the driver's functions may be called by all threads.
unsafe impl Send for Event {}
// SAFETY: the same.
unsafe impl Send for Inner {}
// SAFETY: the same.
unsafe impl Sync for Inner {}

impl Stream {
    /// A new stream, which does not wait for the default stream.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn new(gpu: &Gpu) -> Result<Stream, Error> {
        Stream::finish(gpu, gpu.new_stream()?, true)
    }

    /// Another library's stream: a `CUstream`, or null, 1 and 2 for the default ones. (The runtime's `cudaStream_t` is the same; PyTorch: `stream.cuda_stream`, CuPy: `stream.ptr`, cudarc:
    /// `cu_stream()`.)
    ///
    /// # Errors
    /// [`Error::Driver`].
    ///
    /// # Safety
    /// It is of this GPU's context, and stays as long as this or anything that was enqueued by it.
    pub unsafe fn from_raw(gpu: &Gpu, stream: *mut c_void) -> Result<Stream, Error> {
        Stream::finish(gpu, stream, false)
    }

    fn finish(gpu: &Gpu, stream: Handle, is_ours: bool) -> Result<Stream, Error> {
        let none = || Mutex::new(Event(ptr::null_mut()));
        // From here on `drop` sees to what there is.
        let mut inner = Inner { gpu: gpu.clone(), stream, is_ours, side: ptr::null_mut(), event: none() };
        inner.side = gpu.new_stream()?;
        let mut event = ptr::null_mut();
        {
            let _current = gpu.enter()?;
            // SAFETY: a place for it.
            let made = unsafe { (gpu.api().create_event)(&mut event, api::EVENT_DISABLE_TIMING) };
            gpu.checked("cuEventCreate", made)?;
        }
        inner.event = Mutex::new(Event(event));
        Ok(Stream { inner: Arc::new(inner) })
    }

    /// The `CUstream`, to enqueue work of one's own.
    #[must_use]
    pub fn raw(&self) -> *mut c_void {
        self.inner.stream
    }

    /// The GPU that it is of.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.inner.gpu
    }

    /// Waits until all that was enqueued is done. What is published and let go by then may be so a moment later:
    /// [`PinnedTopic::wait_over`](crate::PinnedTopic::wait_over).
    ///
    /// # Errors
    /// [`Error::Driver`], also with what went wrong in work that was enqueued before.
    pub fn synchronize(&self) -> Result<(), Error> {
        let gpu = &self.inner.gpu;
        let _current = gpu.enter()?;
        // SAFETY: a stream that stays.
        gpu.checked("cuStreamSynchronize", unsafe { (gpu.api().synchronize_stream)(self.raw()) })
    }

    /// What is enqueued here from now on begins when the other one has got to where it is now. Does not wait.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn wait_for(&self, other: &Stream) -> Result<(), Error> {
        if self.is(other) {
            return Ok(());
        }
        let gpu = &self.inner.gpu;
        let _current = gpu.enter()?;
        other.be_waited_for(gpu, self.raw())
    }

    /// Has another of the context's streams wait for where this one is now.
    fn be_waited_for(&self, gpu: &Gpu, waiting: Handle) -> Result<(), Error> {
        let event = self.inner.event.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: handles that stay; the event is ours alone until it is waited for.
        unsafe {
            gpu.checked("cuEventRecord", (gpu.api().record_event)(event.0, self.raw()))?;
            gpu.checked("cuStreamWaitEvent", (gpu.api().stream_wait_event)(waiting, event.0, 0))
        }
    }

    /// Copies from place to place on the device, behind what is on the stream.
    ///
    /// # Safety
    /// Both places are there, nobody writes to the one or touches the other, until the copy is over.
    pub(crate) unsafe fn copy(&self, to: DevicePointer, from: DevicePointer, len: usize) -> Result<(), Error> {
        let gpu = &self.inner.gpu;
        let _current = gpu.enter()?;
        // SAFETY: the caller's promise.
        gpu.checked("cuMemcpyDtoDAsync", unsafe { (gpu.api().copy_on_device)(to, from, len, self.raw()) })
    }

    /// Copies bytes from ordinary memory, and waits for it.
    pub(crate) fn write(&self, to: DevicePointer, bytes: &[u8]) -> Result<(), Error> {
        {
            let _current = self.inner.gpu.enter()?;
            // SAFETY: the caller's memory, borrowed until it is over, which is waited for.
            unsafe { self.inner.gpu.copy_to_device(to, bytes.as_ptr(), bytes.len(), self.raw())? };
        }
        self.synchronize()
    }

    /// Copies bytes into ordinary memory, and waits for it.
    pub(crate) fn read(&self, from: DevicePointer, bytes: &mut [u8]) -> Result<(), Error> {
        {
            let _current = self.inner.gpu.enter()?;
            // SAFETY: as above.
            unsafe { self.inner.gpu.copy_from_device(bytes.as_mut_ptr(), from, bytes.len(), self.raw())? };
        }
        self.synchronize()
    }

    /// Fills memory of the device's, behind what is on the stream.
    pub(crate) fn fill(&self, at: DevicePointer, byte: u8, len: usize) -> Result<(), Error> {
        let gpu = &self.inner.gpu;
        let _current = gpu.enter()?;
        // SAFETY: memory of the device's, as the caller has seen.
        gpu.checked("cuMemsetD8Async", unsafe { (gpu.api().fill)(at, byte, len, self.raw()) })
    }

    /// What is on it is done, and not kept to be done again.
    pub(crate) fn expect_no_capture(&self) -> Result<(), Error> {
        let gpu = &self.inner.gpu;
        let _current = gpu.enter()?;
        let mut status = 0;
        // SAFETY: a stream that stays, a place for the status.
        gpu.checked("cuStreamIsCapturing", unsafe { (gpu.api().stream_is_capturing)(self.raw(), &mut status) })?;
        if status == 0 { Ok(()) } else { Err(Error::Capturing) }
    }

    pub(crate) fn is(&self, other: &Stream) -> bool {
        ptr::eq(self.raw(), other.raw())
    }

    /// Has `work` done when these streams have got to where they are now, this one among them or not. Not done: given back.
    pub(crate) fn after(&self, streams: &[Stream], keeper: Arc<dyn Keeps>, work: Work) -> Result<(), (Error, Work)> {
        let gpu = &self.inner.gpu;
        let wait = || -> Result<(), Error> {
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
            // SAFETY: the function takes a job, once: this one.
            let code = unsafe { (gpu.api().launch_host_function)(self.inner.side, host_function::run, job.cast()) };
            gpu.checked("cuLaunchHostFunc", code)
        });
        launched.map_err(|error| {
            keeper.under_way().one_is_over();
            // SAFETY: the driver did not take it.
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
        // SAFETY: ours; the driver keeps what is still needed until the work on it is done. Errors: the context is gone.
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
