//! `outlive.bag.Message`: a message of a file, and all views of it.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;

use outlive::describe::Encoding;
use outlive_mcap::MessageHeader;
use pyo3::exceptions::{PyRecursionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use pyo3::{ffi, intern};

use crate::bag_bytes::BagBytes;
use crate::bag_channel::BagChannel;
use crate::errors::raise;
use crate::layout::Layout;
use crate::sample::{Function, shown_as_array};

static LOADS: Function = Function::new("json", "loads");

/// A message of a recording. Its bytes lie in the chunk that was read, which the message and all views of
/// it keep.
///
/// ``value`` is what the message was in its topic: numpy's record, number or array if the topic describes its
/// messages; an array with its type and shape; the object that msgpack or JSON says; otherwise a
/// ``memoryview``. The buffer protocol gives its bytes as the file has them, read-only.
///
/// >>> with outlive.bag.Writer(folder + ".mcap") as bag:
/// ...     bag.write("camera", np.eye(2), log_time=7)
/// 0
/// >>> with outlive.bag.Reader(folder + ".mcap") as bag:
/// ...     message, = bag
/// >>> os.remove(folder + ".mcap")
/// >>> message.topic, message.log_time, message.value.tolist()
/// ('camera', 7, [[1.0, 0.0], [0.0, 1.0]])
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct BagMessage {
    of: Arc<BagChannel>,
    header: MessageHeader,
    chunk: Arc<Vec<u8>>,
    range: Range<usize>,
    layout: Layout,
}

impl BagMessage {
    pub(crate) fn new(
        of: Arc<BagChannel>,
        header: MessageHeader,
        chunk: Arc<Vec<u8>>,
        range: Range<usize>,
    ) -> PyResult<BagMessage> {
        let layout = Layout::bytes_checked(range.len())?;
        Ok(BagMessage { of, header, chunk, range, layout })
    }

    fn bytes(&self) -> &[u8] {
        &self.chunk[self.range.clone()]
    }

    fn encoding_of(&self) -> Option<Encoding> {
        self.of.described.encoding()
    }
}

/// Returns the error of bytes that are no JSON, no UTF-8, or lists in lists without end; others, as of memory, stay.
fn no_json(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyValueError>(py) && !error.is_instance_of::<PyRecursionError>(py) {
        return error;
    }
    let told = raise(py, "BadMessage", format!("no JSON: {}", error.value(py)));
    told.set_cause(py, Some(error));
    told
}

#[pymethods]
impl BagMessage {
    /// The topic's name in the file.
    #[getter]
    fn topic(&self) -> &str {
        &self.of.channel.topic
    }

    /// When it was recorded, in nanoseconds since 1970.
    #[getter]
    fn log_time(&self) -> u64 {
        self.header.log_time
    }

    /// When it was published, in nanoseconds since 1970: its stamp, where the topic has stamps.
    #[getter]
    fn publish_time(&self) -> u64 {
        self.header.publish_time
    }

    /// Its number among its publisher's messages, in 32 bits.
    #[getter]
    fn sequence(&self) -> u32 {
        self.header.sequence
    }

    /// The encoding that the file names: ``"cdr"``, ``"json"``, ``"msgpack"``; ``""`` for bytes and arrays.
    #[getter]
    fn encoding(&self) -> &str {
        &self.of.channel.message_encoding
    }

    /// The schema's name; None without a schema.
    #[getter]
    fn schema(&self) -> Option<&str> {
        self.of.schema.as_ref().map(|schema| schema.header.name.as_str())
    }

    /// The payload as the file has it, read-only, where it lies.
    #[getter]
    fn data<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(slf.as_any())
    }

    /// What the message was in its topic: see the class. If nothing is known of the bytes, it is ``data``.
    /// Raises ``BadMessage``, a ``ValueError``, if the bytes are not what the file says.
    #[getter]
    fn value<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        match this.encoding_of() {
            Some(Encoding::Json) => {
                let text = Self::data(slf)?.call_method0(intern!(py, "tobytes"))?;
                LOADS.get(py)?.call1((text,)).map_err(|error| no_json(py, error))
            }
            Some(Encoding::Msgpack) => crate::msgpack::read(py, this.bytes()),
            Some(Encoding::Raw) => Self::numpy(slf),
            _ if this.of.array.is_some() => Self::numpy(slf),
            _ => Ok(Self::data(slf)?.into_any()),
        }
    }

    /// Returns a read-only numpy array over the message, like ``Sample.numpy``; it keeps the chunk. Its type and
    /// shape are those of the topic or of the array; without these it is an array of bytes.
    ///
    /// A described value is a copy if C puts padding between its numbers or behind them, which the file omits.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if let Some(layout) = this.of.layout(this.range.len()) {
            let shown = BagBytes::in_chunk(&this.chunk, this.range.clone(), layout);
            return shown_as_array(Bound::new(py, shown)?.as_any(), None, None);
        }
        let described = &this.of.described;
        if let Some((bytes, len)) = this.of.value_of(&this.chunk, &this.range)
            && let Some(shown) = described.shown(Bound::new(py, bytes)?.as_any(), len)?
        {
            return Ok(shown);
        }
        let is_cdr = this.of.cdr.is_some();
        match described.shown(slf.as_any(), this.range.len())? {
            Some(shown) if !is_cdr => Ok(shown),
            _ => shown_as_array(slf.as_any(), None, None),
        }
    }

    fn __len__(&self) -> usize {
        self.range.len()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let bytes = this.bytes();
        let (data, len) = (bytes.as_ptr().cast_mut(), bytes.len());
        let layout = &raw const this.layout;
        // SAFETY: the view of `__getbuffer__`; the view keeps the object, which does not move and keeps the
        // chunk and the layout. A chunk that is shared is only read.
        unsafe { (*layout).show(view, flags, slf.into_any(), data, len, true) }
    }

    fn __repr__(&self) -> String {
        let topic = self.of.channel.topic.escape_debug();
        let (len, time) = (self.range.len(), self.header.log_time);
        format!("<Message of '{topic}': {len} bytes at {time}>")
    }
}
