//! `Sample`: a received message, and all views of it.

use std::ffi::c_int;
use std::sync::Arc;

use outlive::topic;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use pyo3::{ffi, intern};

use crate::dlpack;
use crate::errors::raise;
use crate::gpu_array::GpuArray;
use crate::gpu_library::{self, Where};
use crate::gpu_topic::OnGpus;
use crate::layout::{Layout, extents};
use crate::msgpack;
use crate::open::{Left, Open};

/// A received message, where it lies in shared memory. It stays as it is as long as this object or
/// a view of it exists, whatever its publisher and the topic do meanwhile; then its memory can be
/// reused. A subscriber may hold 256.
///
/// It has read-only bytes by the buffer protocol: ``memoryview(sample)``, ``bytes(sample)``,
/// ``file.write(sample)``. A message that was published as an array is one: ``sample.numpy()``,
/// ``numpy.asarray(sample)``, ``numpy.from_dlpack(sample)``; so is one of records (numpy's
/// structured types). Messages of more than 168 bytes are aligned to 64 bytes, shorter ones to 8.
///
/// >>> topic = Topic("camera", folder)
/// >>> subscriber = topic.subscriber()
/// >>> topic.publisher().publish(np.eye(3), key=7)
/// 0
/// >>> sample = subscriber.recv()
/// >>> sample.shape, sample.dtype, sample.key, len(sample)
/// ((3, 3), '<f8', 7, 72)
/// >>> eye = sample.numpy()
/// >>> del sample, subscriber, topic           # the view is enough to keep it
/// >>> float(eye.trace()), eye.flags.writeable
/// (3.0, False)
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct Sample {
    /// Shared with views, tensors, and copies for a GPU.
    sample: Open<topic::Sample>,
    layout: Layout,
    is_array: bool,
    header: topic::Header,
    sequence: u64,
    order: u64,
    publisher: Option<u32>,
    session: u32,
    gpus: Arc<OnGpus>,
}

impl Sample {
    pub(crate) fn new(sample: topic::Sample, gpus: &Arc<OnGpus>) -> Sample {
        let header = sample.header();
        let bytes = sample.bytes();
        let array = Layout::of_message(&header.own, bytes);
        let is_array = array.is_some();
        let layout = array.unwrap_or_else(|| Layout::bytes(bytes.len()));
        Sample {
            layout,
            is_array,
            header,
            sequence: sample.sequence(),
            order: sample.order(),
            publisher: sample.publisher().map(|token| token.as_u32()),
            session: sample.session(),
            sample: Open::new(sample),
            gpus: Arc::clone(gpus),
        }
    }
}

#[pymethods]
impl Sample {
    /// Returns a read-only numpy array over the message, which keeps the message, as do all views
    /// of it.
    ///
    /// A message that was published as an array has that type and shape; one of another ``dtype``
    /// than a given one raises ``WrongKind``, and one of another ``shape`` a ``ValueError``. (To read
    /// the same bytes as another type: ``sample.numpy().view(dtype)``.) Of bytes, ``dtype`` and
    /// ``shape`` say what they are. A message of a topic that describes them is a value of that
    /// type: a record, a number, or an array of them.
    #[pyo3(signature = (dtype=None, shape=None))]
    fn numpy<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        shape: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        // Of an object without a buffer numpy would make an array of one object.
        this.sample.get()?;
        if !this.is_array {
            let whole = match (dtype, shape) {
                (None, None) => this.gpus.described.shown(slf.as_any(), this.__len__())?,
                _ => None,
            };
            return match whole {
                Some(whole) => Ok(whole),
                None => shown_as_array(slf.as_any(), dtype, shape),
            };
        }
        let array = shown_as_array(slf.as_any(), None, None)?;
        if let Some(dtype) = dtype {
            let (asked, found) =
                (DTYPE.get(py)?.call1((dtype,))?, array.getattr(intern!(py, "dtype"))?);
            if !asked.eq(&found)? {
                let why = format!(
                    "the message is an array of {found}, not of {asked}; numpy().view({:?}) reads its bytes as that",
                    asked.str()?.to_string()
                );
                return Err(raise(py, "WrongKind", why));
            }
        }
        if let Some(shape) = shape {
            let asked = PyTuple::new(py, extents(shape)?)?;
            let found = this.shape(py)?;
            if !asked.eq(&found)? {
                let why = format!(
                    "the message is an array of shape {found}, not {asked}; numpy().reshape({asked}) changes it"
                );
                return Err(PyValueError::new_err(why));
            }
        }
        Ok(array)
    }

    /// Returns the message in a GPU's memory: a copy, made after the work on the ``stream``. No
    /// thread waits for it, and the message stays held until it has completed.
    ///
    /// ``stream``: a number as CUDA has them, or an object of PyTorch's, CuPy's or another
    /// library's; None: the legacy default stream.
    #[pyo3(signature = (*, stream=None, device=0))]
    fn gpu(
        &self,
        py: Python<'_>,
        stream: Option<&Bound<'_, PyAny>>,
        device: u32,
    ) -> PyResult<GpuArray> {
        if self.layout.is_of_records() {
            return Err(PyTypeError::new_err("GPUs have no arrays of records: use numpy()"));
        }
        self.gpus.copy_of(py, &self.sample.get()?, &self.layout, stream, device)
    }

    /// Returns the message as a CuPy array: a copy in the memory of the ``device`` (None: CuPy's
    /// current one), made on the ``stream`` (None: CuPy's current one).
    #[pyo3(signature = (*, stream=None, device=None))]
    fn cupy<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<Bound<'py, PyAny>>,
        device: Option<u32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        gpu_library::cupy(slf.as_any(), stream, Where::Chosen(device))
    }

    /// Returns the message as a PyTorch tensor: a copy in the memory of the ``device`` (None:
    /// PyTorch's current one), made on the ``stream`` (None: PyTorch's current one).
    #[pyo3(signature = (*, stream=None, device=None))]
    fn torch<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<Bound<'py, PyAny>>,
        device: Option<u32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        gpu_library::torch(slf.as_any(), stream, Where::Chosen(device))
    }

    /// The array's shape; of bytes: how many.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.layout.shape())
    }

    /// The array's type in numpy's short form; None of bytes.
    #[getter]
    fn dtype(&self) -> Option<String> {
        self.is_array.then(|| self.layout.numpy())
    }

    /// Deserializes the value from msgpack.
    fn msgpack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        msgpack::read(py, self.sample.get()?.bytes())
    }

    /// Its number among the messages of its publisher's ring, without gaps except for lost
    /// messages.
    #[getter]
    fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Its order among all messages of the topic.
    #[getter]
    fn order(&self) -> u64 {
        self.order
    }

    /// The token of the process that published it: for ``Domain.peer``.
    #[getter]
    fn publisher(&self) -> Option<u32> {
        self.publisher
    }

    /// The number of the session that it is of: each start of a publisher has a higher one.
    #[getter]
    fn session(&self) -> u32 {
        self.session
    }

    /// Whether the process that published it is alive.
    #[getter]
    fn publisher_alive(&self) -> PyResult<bool> {
        Ok(self.sample.get()?.publisher_alive())
    }

    /// How many seconds ago it was published, by its stamp; None without a stamp.
    #[getter]
    fn age(&self) -> PyResult<Option<f64>> {
        Ok(self.sample.get()?.age().map(|age| age.as_secs_f64()))
    }

    /// When it was published, in nanoseconds since 1970; 0 if that was not given.
    #[getter]
    fn stamp(&self) -> u64 {
        self.header.stamp
    }

    /// The number that its publisher gave to what it shows, as ``frame``.
    #[getter]
    fn frame(&self) -> u64 {
        self.header.frame
    }

    /// The key by which subscribers may select messages.
    #[getter]
    fn key(&self) -> u64 {
        self.header.key
    }

    /// The header's 32 bytes for the application's own use; an array's type and extents are in
    /// there.
    #[getter]
    fn own<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.header.own)
    }

    fn __len__(&self) -> usize {
        self.layout.len().unwrap_or(0)
    }

    /// Returns the message as a tensor for ``from_dlpack`` of another library: where it lies,
    /// read-only. ``copy=True``: a copy, which that library may write to. So does one that does not
    /// know version 1 of DLPack (``max_version``), which alone can say that a tensor is read-only;
    /// with ``copy=False`` it gets a ``BufferError``.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // Of a GPU's streams a tensor in the CPU's memory has none.
        let _ = stream;
        dlpack::export(py, self.sample.get()?, &self.layout, max_version, dl_device, copy)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::CPU
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let sample = this.sample.get()?;
        let (data, len) = (sample.bytes().as_ptr().cast_mut(), this.__len__());
        let layout = &raw const this.layout;
        // SAFETY: the view of `__getbuffer__`; the object does not move, and keeps the layout. The
        // view keeps the sample.
        unsafe {
            (*layout).show(view, flags, slf.into_any(), data, len, true)?;
            (*view).internal = Arc::into_raw(sample).cast_mut().cast();
        }
        Ok(())
    }

    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `__getbuffer__` has put it there, and each view is released once.
        drop(unsafe { Arc::from_raw((*view).internal.cast::<topic::Sample>()) });
    }

    /// Closes the sample: its message's memory can be reused when the last view of it is gone, and
    /// using it raises ``ValueError``; what was told of it (``key``, ``shape``) is still there.
    fn close(&self) {
        self.sample.close();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().sample.get()?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(&self, exc_type: Left<'_, '_>, exc_value: Left<'_, '_>, traceback: Left<'_, '_>) {
        let _ = (exc_type, exc_value, traceback);
        self.close();
    }

    fn __repr__(&self) -> String {
        let what = match self.dtype() {
            Some(dtype) => format!("message {}, {dtype} {:?}", self.sequence, self.layout.shape()),
            None => format!("message {}, {} bytes", self.sequence, self.__len__()),
        };
        self.gpus.named.repr("Sample", self.sample.get().map(|_| what))
    }
}

/// Returns a numpy array over an object's buffer, which keeps the object.
pub(crate) fn shown_as_array<'py>(
    object: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    shape: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let array = match dtype {
        None => ASARRAY.get(py)?.call1((object,))?,
        Some(dtype) => FROMBUFFER.get(py)?.call1((object, dtype))?,
    };
    match shape {
        None => Ok(array),
        Some(shape) => array.call_method1(intern!(py, "reshape"), (shape,)),
    }
}

/// A function of a module, looked up once.
pub(crate) struct Function {
    module: &'static str,
    name: &'static str,
    found: pyo3::sync::PyOnceLock<Py<PyAny>>,
}

impl Function {
    pub(crate) const fn new(module: &'static str, name: &'static str) -> Function {
        Function { module, name, found: pyo3::sync::PyOnceLock::new() }
    }

    pub(crate) fn get<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        let find = || {
            let module = match self.module {
                // Which says how it is installed, if it is not.
                "numpy" => py.import("outlive._numpy")?.getattr("numpy")?.call0()?,
                module => py.import(module)?.into_any(),
            };
            Ok::<_, PyErr>(module.getattr(self.name)?.unbind())
        };
        Ok(self.found.get_or_try_init(py, find)?.bind(py))
    }
}

pub(crate) static ASARRAY: Function = Function::new("numpy", "asarray");
pub(crate) static DTYPE: Function = Function::new("numpy", "dtype");
static FROMBUFFER: Function = Function::new("numpy", "frombuffer");
pub(crate) static WEAK_REFERENCE: Function = Function::new("weakref", "ref");
