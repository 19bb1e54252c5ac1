//! CuPy and PyTorch, if they are there: arrays by DLPack, types by name.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::raise;
use crate::layout::{self, Layout};
use crate::sample::DTYPE;

/// An array's type and extents as the user says them. PyTorch's types are called as numpy's.
pub(crate) fn layout(py: Python<'_>, shape: &Bound<'_, PyAny>, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<Layout> {
    let extents = layout::extents(shape)?;
    let Some(dtype) = dtype else { return Layout::of_numpy("|u1", &extents) };
    let text = dtype.str()?.to_string();
    let of_torch = text.strip_prefix("torch.").filter(|_| !dtype.is_instance_of::<pyo3::types::PyString>());
    let name = match of_torch {
        Some(name) => DTYPE.get(py)?.call1((name,))?,
        None => DTYPE.get(py)?.call1((dtype,))?,
    };
    Layout::of_numpy(&name.getattr("str")?.extract::<String>()?, &extents)
}

/// How many bytes it has, if a message can have them.
pub(crate) fn len(py: Python<'_>, layout: &Layout) -> PyResult<usize> {
    layout.len().ok_or_else(|| raise(py, "TooLarge", "more bytes than a message can have"))
}

fn import<'py>(py: Python<'py>, name: &str, package: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(name).map_err(|error| {
        if !error.is_instance_of::<PyImportError>(py) {
            return error;
        }
        let why = format!("{error}: install {package}, or use sample.gpu(), which any library with DLPack takes");
        PyImportError::new_err(why)
    })
}

/// What a sample shows by `gpu(stream=…, device=…)`, as the library's.
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

/// Where it is to be.
#[derive(Clone, Copy)]
pub(crate) enum Where {
    /// On that GPU; None: the library's current one.
    Chosen(Option<u32>),
    /// There it is.
    There(u32),
}

impl Where {
    /// The GPU, and what is said of it to who makes the array.
    fn find<'py>(self, current: impl FnOnce() -> PyResult<Bound<'py, PyAny>>) -> PyResult<(u32, Option<u32>)> {
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

/// As a CuPy array.
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

/// As a PyTorch tensor.
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
