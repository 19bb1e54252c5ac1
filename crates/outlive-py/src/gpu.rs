//! This process's GPUs: each opened when it is first used, with streams by number, and memory that
//! is reused.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive_gpu::{DeviceMemory, DevicePointer, Driver, Gpu, GpuError, Stream};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;

use crate::errors::{Raised, raise};
use crate::handle_mutex::process;
use crate::waiting::detached;

/// In the environment: the path of a driver's library other than the machine's own.
const DRIVER: &str = "OUTLIVE_GPU_DRIVER";
/// Streams that are remembered. Other libraries make and destroy them as they like.
const MOST_STREAMS: usize = 64;
/// Pieces of memory that are kept for the next array.
const MOST_SPARE: usize = 8;
const MOST_SPARE_BYTES: usize = 256 << 20;

/// The legacy default stream: `CU_STREAM_LEGACY`.
pub(crate) const LEGACY: usize = 1;

pub(crate) struct OnGpu {
    pub(crate) gpu: Gpu,
    pub(crate) number: u32,
    /// The process that opened it: a forked child has none.
    process: u32,
    streams: Mutex<HashMap<usize, Stream>>,
    spare: Mutex<Vec<Spare>>,
}

/// Memory that no array has; work that was enqueued on these streams may still use it.
struct Spare {
    memory: DeviceMemory,
    streams: Vec<Stream>,
}

/// By number. Locked without the interpreter.
static OPENED: Mutex<Vec<Arc<OnGpu>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(number: u32) -> Result<Result<Arc<OnGpu>, GpuError>, Forked> {
    let mut opened = lock(&OPENED);
    if opened.iter().any(|other| other.process != process()) {
        return Err(Forked);
    }
    if let Some(known) = opened.iter().find(|known| known.number == number) {
        return Ok(Ok(Arc::clone(known)));
    }
    let library = std::env::var_os(DRIVER).filter(|path| !path.is_empty());
    let driver = library.map_or_else(Driver::open, |library| Driver::load(Path::new(&library)));
    Ok(driver.and_then(|driver| driver.gpu(number)).map(|gpu| {
        let made = OnGpu {
            gpu,
            number,
            process: process(),
            streams: Mutex::default(),
            spare: Mutex::default(),
        };
        let made = Arc::new(made);
        opened.push(Arc::clone(&made));
        made
    }))
}

/// The driver belongs to the parent.
struct Forked;

/// Returns the GPU of that number.
pub(crate) fn on_gpu(py: Python<'_>, number: u32) -> PyResult<Arc<OnGpu>> {
    match detached(py, || open(number)) {
        Ok(opened) => opened.raised(py),
        Err(Forked) => {
            let why = "a forked child cannot use its parent's GPU: start processes by 'spawn' (multiprocessing.set_start_method)";
            Err(raise(py, "NotYours", why))
        }
    }
}

/// Returns a stream's number, from None, a number, an object of PyTorch's or CuPy's, or one that
/// has CUDA's own protocol.
pub(crate) fn stream_number(stream: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
    let Some(stream) = stream.filter(|stream| !stream.is_none()) else { return Ok(LEGACY) };
    let py = stream.py();
    let other = || {
        PyTypeError::new_err(
            "a stream is a number, or an object with '__cuda_stream__', 'cuda_stream' or 'ptr'",
        )
    };
    let number = if let Ok(number) = stream.extract::<i128>() {
        number
    } else if let Some(given) = stream.getattr_opt(intern!(py, "__cuda_stream__"))? {
        let given = if given.is_callable() { given.call0()? } else { given };
        given.extract::<(i32, i128)>()?.1
    } else if let Some(number) = stream.getattr_opt(intern!(py, "cuda_stream"))? {
        number.extract()?
    } else {
        stream.getattr_opt(intern!(py, "ptr"))?.ok_or_else(other)?.extract()?
    };
    match usize::try_from(number) {
        Ok(0) => Ok(LEGACY),
        Ok(number) => Ok(number),
        Err(_) => Err(PyValueError::new_err("no stream has that number")),
    }
}

impl OnGpu {
    /// Returns false in a forked child, where nothing of the driver's may be touched.
    pub(crate) fn is_ours(&self) -> bool {
        self.process == process()
    }

    /// Returns another library's stream: one that it keeps as long as there is work on it.
    pub(crate) fn stream(&self, number: usize) -> Result<Stream, GpuError> {
        let mut streams = lock(&self.streams);
        if let Some(known) = streams.get(&number) {
            return Ok(known.clone());
        }
        if streams.len() >= MOST_STREAMS {
            // An array that uses one still has it.
            streams.clear();
        }
        // SAFETY: the protocols that hand streams over guarantee that its library keeps it.
        let stream =
            unsafe { Stream::from_raw(&self.gpu, std::ptr::without_provenance_mut(number)) }?;
        streams.insert(number, stream.clone());
        Ok(stream)
    }

    /// Returns memory for an array that is written on that stream next. The stream waits for what
    /// used the memory before.
    pub(crate) fn buffer(
        self: &Arc<Self>,
        len: usize,
        stream: &Stream,
    ) -> Result<Buffer, GpuError> {
        let found = {
            let mut spare = lock(&self.spare);
            let fits = |spare: &Spare| spare.memory.len() >= len && spare.memory.len() / 2 <= len;
            let best = (0..spare.len())
                .filter(|&at| fits(&spare[at]))
                .min_by_key(|&at| spare[at].memory.len());
            best.map(|at| spare.swap_remove(at))
        };
        let memory = match found {
            Some(Spare { memory, streams }) => {
                streams.iter().try_for_each(|before| stream.wait_for(before))?;
                memory
            }
            None => DeviceMemory::new(&self.gpu, len)?,
        };
        let used_on = Mutex::new(vec![stream.clone()]);
        Ok(Buffer { memory: Some(memory), used_on, home: Arc::clone(self) })
    }
}

/// An array's memory. Dropped, it is for the next array, once the streams that use it have got
/// there.
pub(crate) struct Buffer {
    /// Until it is dropped.
    memory: Option<DeviceMemory>,
    used_on: Mutex<Vec<Stream>>,
    home: Arc<OnGpu>,
}

impl Buffer {
    pub(crate) fn address(&self) -> DevicePointer {
        self.memory.as_ref().map_or(0, DeviceMemory::address)
    }

    pub(crate) fn used_on(&self, stream: &Stream) {
        lock(&self.used_on).push(stream.clone());
    }

    /// Makes the stream wait for all that uses the memory.
    pub(crate) fn gather(&self, stream: &Stream) -> Result<(), GpuError> {
        lock(&self.used_on).iter().try_for_each(|other| stream.wait_for(other))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else { return };
        let streams = std::mem::take(&mut *lock(&self.used_on));
        let mut spare = lock(&self.home.spare);
        let bytes: usize = spare.iter().map(|spare| spare.memory.len()).sum();
        if spare.len() < MOST_SPARE && bytes + memory.len() <= MOST_SPARE_BYTES {
            spare.push(Spare { memory, streams });
        }
        // Else it is freed: the driver waits for the device.
    }
}
