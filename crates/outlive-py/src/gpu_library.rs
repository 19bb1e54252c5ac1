//! CuPy and PyTorch, if they are installed: arrays by DLPack, types by name.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::raise;
use crate::layout::{self, Layout};
use crate::sample::DTYPE;

/// Returns an array's type and extents from what the user gave. PyTorch's types have numpy's names.
pub(crate) fn layout(
    py: Python<'_>,
    shape: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
) -> PyResult<Layout> {
    let extents = layout::extents(shape)?;
    let Some(dtype) = dtype else { return Layout::of_numpy("|u1", &extents) };
    let text = dtype.str()?.to_string();
    let of_torch =
        text.strip_prefix("torch.").filter(|_| !dtype.is_instance_of::<pyo3::types::PyString>());
    let name = match of_torch {
        Some(name) => DTYPE.get(py)?.call1((name,))?,
        None => DTYPE.get(py)?.call1((dtype,))?,
    };
    Layout::of_numpy(&name.getattr("str")?.extract::<String>()?, &extents)
}

/// Returns how many bytes it has, if a message can have them.
pub(crate) fn len(py: Python<'_>, layout: &Layout) -> PyResult<usize> {
    layout.len().ok_or_else(|| raise(py, "TooLarge", "more bytes than a message can have"))
}

fn import<'py>(py: Python<'py>, name: &str, package: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(name).map_err(|error| {
        if !error.is_instance_of::<PyImportError>(py) {
            return error;
        }
        let why = format!(
            "{error}: install {package}, or use sample.gpu(), which any library with DLPack takes"
        );
        PyImportError::new_err(why)
    })
}

/// Returns what a sample's `gpu(stream=…, device=…)` returns, as the library's array.
fn shown<'py>(
    sample: &Bound<'py, PyAny>,
    library: &Bound<'py, PyModule>,
    stream: Bound<'py, PyAny>,
    device: Option<u32>,
) -> PyResult<Bound<'py, PyAny>> {
    let how = PyDict::new(sample.py());
    how.set_item("stream", stream)?;
    if let Some(device) = device {
        how.set_item("device", device)?;
    }
    library.call_method1("from_dlpack", (sample.call_method("gpu", (), Some(&how))?,))
}

/// On which GPU an array has to be.
#[derive(Clone, Copy)]
pub(crate) enum Where {
    /// On that GPU; None: the library's current one.
    Chosen(Option<u32>),
    /// It is on that GPU already.
    There(u32),
}

impl Where {
    /// Returns the GPU, and what to tell the library that makes the array.
    fn find<'py>(
        self,
        current: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<(u32, Option<u32>)> {
        match self {
            Where::There(device) => Ok((device, None)),
            Where::Chosen(Some(device)) => Ok((device, Some(device))),
            Where::Chosen(None) => {
                let device = current()?.extract()?;
                Ok((device, Some(device)))
            }
        }
    }
}

/// Returns it as a CuPy array.
pub(crate) fn cupy<'py>(
    sample: &Bound<'py, PyAny>,
    stream: Option<Bound<'py, PyAny>>,
    place: Where,
) -> PyResult<Bound<'py, PyAny>> {
    let cupy = import(sample.py(), "cupy", "cupy-cuda12x (or another of CuPy's)")?;
    let cuda = cupy.getattr("cuda")?;
    let (_, said) = place.find(|| cuda.getattr("runtime")?.call_method0("getDevice"))?;
    let stream = stream.map_or_else(|| cuda.call_method0("get_current_stream"), Ok)?;
    shown(sample, &cupy, stream, said)
}

/// Returns it as a PyTorch tensor.
pub(crate) fn torch<'py>(
    sample: &Bound<'py, PyAny>,
    stream: Option<Bound<'py, PyAny>>,
    place: Where,
) -> PyResult<Bound<'py, PyAny>> {
    let torch = import(sample.py(), "torch", "torch")?;
    let cuda = torch.getattr("cuda")?;
    let (device, said) = place.find(|| cuda.call_method0("current_device"))?;
    let stream = stream.map_or_else(|| cuda.call_method1("current_stream", (device,)), Ok)?;
    shown(sample, &torch, stream, said)
}
