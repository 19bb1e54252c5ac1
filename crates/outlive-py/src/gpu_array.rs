//! `GpuArray`: an array in a GPU's memory, which other libraries can use as their own.

use std::any::Any;
use std::sync::Arc;

use outlive_gpu::{DevicePointer, GpuError, Stream};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::dlpack;
use crate::errors::Raised;
use crate::gpu::{Buffer, LEGACY, OnGpu};
use crate::layout::Layout;
use crate::waiting::detached;

/// Where an array lies. The memory stays as long as any object has it.
pub(crate) trait Place: Any + Send + Sync {
    fn address(&self) -> DevicePointer;
    /// Declares that work on that stream uses it, too: from now on, until it is dropped.
    fn used_on(&self, stream: &Stream);
    /// Returns whether other processes read it, too.
    fn is_read_only(&self) -> bool {
        false
    }
    /// Returns why no library may take it any more.
    fn over(&self) -> Option<&'static str> {
        None
    }
}

impl Place for Buffer {
    fn address(&self) -> DevicePointer {
        self.address()
    }

    fn used_on(&self, stream: &Stream) {
        self.used_on(stream);
    }
}

/// An array in a GPU's memory: what ``loan_gpu`` and ``gpu`` of topics and samples return. Other
/// libraries use it as their own, without a copy: ``cupy.from_dlpack(array)``,
/// ``torch.from_dlpack(array)`` (DLPack, which says on which stream they will use it), or by
/// ``__cuda_array_interface__`` (Numba and others), for use on ``array.stream``.
///
/// Its memory stays as long as this or what was made of it exists, and is reused once the streams
/// that took it have got there.
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct GpuArray {
    pub(crate) place: Arc<dyn Place>,
    on: Arc<OnGpu>,
    /// Its contents are there when this has got there.
    stream: Stream,
    layout: Layout,
}

impl GpuArray {
    pub(crate) fn new(
        place: Arc<dyn Place>,
        on: &Arc<OnGpu>,
        stream: Stream,
        layout: Layout,
    ) -> GpuArray {
        GpuArray { place, on: Arc::clone(on), stream, layout }
    }

    fn expect_there(&self) -> PyResult<()> {
        self.place.over().map_or(Ok(()), |why| Err(PyBufferError::new_err(why)))
    }

    fn address(&self) -> DevicePointer {
        if self.layout.len() == Some(0) { 0 } else { self.place.address() }
    }
}

#[pymethods]
impl GpuArray {
    /// The array's shape.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.layout.shape())
    }

    /// The type in numpy's short form.
    #[getter]
    fn dtype(&self) -> String {
        self.layout.numpy()
    }

    /// How many bytes it has.
    #[getter]
    fn nbytes(&self) -> usize {
        self.layout.len().unwrap_or(0)
    }

    /// The GPU's number.
    #[getter]
    fn device(&self) -> u32 {
        self.on.number
    }

    /// The stream, by CUDA's number: the array's contents are there when it has got there.
    #[getter]
    fn stream(&self) -> usize {
        self.stream.raw().addr()
    }

    /// ``stream``: the consumer's, which is made to wait for the array's: None or 1 for the legacy
    /// default stream, 2 for the thread's own, -1: it waits for none.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.expect_there()?;
        if dl_device.is_some_and(|asked| asked != self.__dlpack_device__()) || copy == Some(true) {
            return Err(PyBufferError::new_err(
                "it is shown where it lies: copy what was made of it",
            ));
        }
        let consumer = match stream {
            None => Some(LEGACY),
            Some(-1) => None,
            Some(0) => {
                return Err(PyValueError::new_err(
                    "stream 0 can be two: say 1 (legacy default) or 2 (per thread)",
                ));
            }
            Some(number) => Some(
                usize::try_from(number)
                    .map_err(|_| PyValueError::new_err("no stream has that number"))?,
            ),
        };
        if let Some(number) = consumer {
            let waited = detached(py, || {
                let stream = self.on.stream(number)?;
                stream.wait_for(&self.stream)?;
                self.place.used_on(&stream);
                Ok::<_, GpuError>(())
            });
            waited.raised(py)?;
        }
        let kept: Arc<dyn Any + Send + Sync> = Arc::new(Arc::clone(&self.place));
        let is_read_only = self.place.is_read_only();
        let (at, device) = (self.address(), self.__dlpack_device__());
        dlpack::export_on_device(py, at, device, &self.layout, is_read_only, max_version, kept)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CUDA, self.on.number as i32)
    }

    /// Version 3. The consumer makes its own work wait for ``stream``, and ``stream`` for its work:
    /// best by using that stream.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.expect_there()?;
        let interface = PyDict::new(py);
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", self.layout.numpy())?;
        interface.set_item("data", (self.address(), self.place.is_read_only()))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("version", 3)?;
        interface.set_item("stream", self.stream())?;
        Ok(interface)
    }

    fn __repr__(&self) -> String {
        format!(
            "<GpuArray {} {:?} on GPU {}>",
            self.layout.numpy(),
            self.layout.shape(),
            self.on.number
        )
    }
}
