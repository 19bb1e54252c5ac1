//! Bytes of a recording as the buffer protocol shows them: a part of a chunk, or memory of their own.
//!
//! Each view keeps this object, and this object its chunk: so a numpy array outlives its message, the
//! iterator and the reader.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::layout::Layout;

/// See the file's head.
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct BagBytes {
    data: *mut u8,
    len: usize,
    /// `None`: bytes, of which there may be more than a message has.
    layout: Option<Layout>,
    is_writable: bool,
    _keeps: Keeps,
}

/// What `data` points into. Neither is changed or moved by this crate.
enum Keeps {
    Chunk { _chunk: Arc<Vec<u8>> },
    Own { _bytes: Vec<u8> },
}

// SAFETY: `data` points into what the object keeps. Of a chunk, which others share, it is only read; memory of
// its own is written by Python's means alone.
unsafe impl Send for BagBytes {}
// SAFETY: the methods of a shared one only read `data`, which the object keeps alive; what Python writes through the
// buffer is ordered by the programs that share it, as with numpy's own arrays.
unsafe impl Sync for BagBytes {}

impl BagBytes {
    /// Shows a part of a chunk, read-only.
    pub(crate) fn shared(chunk: &Arc<Vec<u8>>, range: Range<usize>) -> BagBytes {
        let part = &chunk[range];
        BagBytes {
            data: part.as_ptr().cast_mut(),
            len: part.len(),
            layout: None,
            is_writable: false,
            _keeps: Keeps::Chunk { _chunk: Arc::clone(chunk) },
        }
    }

    /// Shows a part of a chunk as an array, whose layout has that length.
    pub(crate) fn in_chunk(chunk: &Arc<Vec<u8>>, range: Range<usize>, layout: Layout) -> BagBytes {
        BagBytes { layout: Some(layout), ..BagBytes::shared(chunk, range) }
    }

    /// Shows bytes that were made for this.
    pub(crate) fn own(mut bytes: Vec<u8>, is_writable: bool) -> BagBytes {
        // A vector's bytes stay where they are when it is moved.
        let (data, len) = (bytes.as_mut_ptr(), bytes.len());
        BagBytes { data, len, layout: None, is_writable, _keeps: Keeps::Own { _bytes: bytes } }
    }

    /// Shows such bytes as an array, whose layout has their length.
    pub(crate) fn with_layout(bytes: Vec<u8>, layout: Layout) -> BagBytes {
        BagBytes { layout: Some(layout), ..BagBytes::own(bytes, false) }
    }
}

#[pymethods]
impl BagBytes {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let (data, len, readonly) = (this.data, this.len, !this.is_writable);
        let Some(layout) = &this.layout else {
            // SAFETY: the view of `__getbuffer__`, which keeps the object, and the object its bytes.
            let filled = unsafe {
                let (owner, data, len) = (slf.as_ptr(), data.cast(), len as isize);
                ffi::PyBuffer_FillInfo(view, owner, data, len, c_int::from(readonly), flags)
            };
            return if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) };
        };
        let layout = &raw const *layout;
        // SAFETY: the view of `__getbuffer__`; the view keeps the object, which does not move and keeps the
        // bytes and the layout.
        unsafe { (*layout).show(view, flags, slf.into_any(), data, len, readonly) }
    }
}
