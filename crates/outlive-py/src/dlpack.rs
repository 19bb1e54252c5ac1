//! DLPack, both ways: samples as tensors of other libraries, and their tensors as messages.
//!
//! A tensor that is given out keeps its message until its consumer calls the deleter, on any
//! thread. It is marked read-only, which only version 1 can say: a consumer of an older version (one
//! that gives no `max_version`, as JAX) gets a copy of its own, and is refused if it wants none.
//! Arrays in a GPU's memory are shown where they lie to consumers of both versions.

use std::any::Any;
use std::ffi::{CStr, c_void};
use std::sync::Arc;

use outlive::topic::Sample;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCapsule};

use crate::layout::{Layout, MOST_DIMENSIONS};

/// `(kDLCPU, 0)`.
pub(crate) const CPU: (i32, i32) = (1, 0);
/// `kDLCUDA`.
pub(crate) const CUDA: i32 = 2;
/// Memory of the host that a GPU can reach, too.
const CUDA_HOST: i32 = 3;

const VERSIONED: &CStr = c"dltensor_versioned";
const UNVERSIONED: &CStr = c"dltensor";
const READ_ONLY: u64 = 1;
const COPIED: u64 = 2;

#[repr(C)]
#[derive(Clone, Copy)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Tensor {
    data: *mut c_void,
    device: (i32, i32),
    dimensions: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    version: (u32, u32),
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

/// What a consumer has of an array, by either version.
struct Exported {
    versioned: ManagedVersioned,
    unversioned: Managed,
    shape: [i64; MOST_DIMENSIONS],
    strides: [i64; MOST_DIMENSIONS],
    /// Until the consumer has finished with it. Nothing of Python's: that may be on any thread.
    _kept: Arc<dyn Any + Send + Sync>,
}

/// What the older version cannot say.
pub(crate) const OLDER: &str = "a sample is read-only, which DLPack says from version 1 on: ask with max_version=(1, 0), or allow \
     a copy";

/// Memory of a copy. Other libraries use arrays without a further copy only if they are aligned to
/// so many bytes.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// Returns a sample's bytes as a capsule; a copy of them if the consumer wants one, or is of an
/// older version, which cannot be told that a tensor is read-only.
pub(crate) fn export<'py>(
    py: Python<'py>,
    sample: Arc<Sample>,
    layout: &Layout,
    max_version: Option<(u32, u32)>,
    device: Option<(i32, i32)>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    if device.is_some_and(|device| device != CPU) {
        return Err(PyBufferError::new_err("a sample is in the CPU's memory"));
    }
    let bytes = &sample.bytes()[..layout.len().unwrap_or(0)];
    let is_copy = copy.unwrap_or(!is_versioned(max_version));
    if !is_copy && !is_versioned(max_version) {
        return Err(PyBufferError::new_err(OLDER));
    }
    if !is_copy {
        let address = bytes.as_ptr().cast_mut().cast();
        return export_at(py, address, CPU, layout, READ_ONLY, max_version, sample);
    }
    let mut lines = vec![Line([0; 64]); bytes.len().div_ceil(64)];
    let address = lines.as_mut_ptr().cast::<u8>();
    // SAFETY: the lines are as long at least, and this call's alone. The consumer writes to them by
    // this pointer only, and no reference is made of them any more.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), address, bytes.len()) };
    export_at(py, address.cast(), CPU, layout, COPIED, max_version, Arc::new(lines))
}

/// Returns a GPU's memory as a capsule: of version 1 if the consumer knows it, else of the earlier
/// one, which cannot say that it is read-only.
pub(crate) fn export_on_device<'py>(
    py: Python<'py>,
    address: u64,
    device: (i32, i32),
    layout: &Layout,
    is_read_only: bool,
    max_version: Option<(u32, u32)>,
    kept: Arc<dyn Any + Send + Sync>,
) -> PyResult<Bound<'py, PyAny>> {
    // An address of the device's: invalid for the processor.
    let address = core::ptr::without_provenance_mut(address as usize);
    let flags = if is_read_only { READ_ONLY } else { 0 };
    export_at(py, address, device, layout, flags, max_version, kept)
}

fn is_versioned(max_version: Option<(u32, u32)>) -> bool {
    max_version.is_some_and(|(major, _)| major >= 1)
}

/// Returns memory as a capsule of the version that the consumer knows. The memory stays as long as
/// `kept`.
fn export_at<'py>(
    py: Python<'py>,
    data: *mut c_void,
    device: (i32, i32),
    layout: &Layout,
    flags: u64,
    max_version: Option<(u32, u32)>,
    kept: Arc<dyn Any + Send + Sync>,
) -> PyResult<Bound<'py, PyAny>> {
    let other = || PyBufferError::new_err("DLPack has no records: use numpy()");
    let (code, bits) = layout.dlpack().ok_or_else(other)?;
    let null: *mut c_void = core::ptr::null_mut();
    let tensor = Tensor {
        data,
        device,
        dimensions: layout.shape().len() as i32,
        dtype: DataType { code, bits, lanes: 1 },
        shape: null.cast(),
        strides: null.cast(),
        byte_offset: 0,
    };
    let (shape, strides) = extents_and_strides(layout);
    let given = Box::into_raw(Box::new(Exported {
        versioned: ManagedVersioned {
            version: (1, 0),
            context: null,
            deleter: Some(delete_versioned),
            flags,
            tensor,
        },
        unversioned: Managed { tensor, context: null, deleter: Some(delete_unversioned) },
        shape,
        strides,
        _kept: kept,
    }));
    // SAFETY: just made; its arrays lie in it, and it does not move until it is deleted.
    let (capsule, name) = unsafe {
        let (shape, strides) =
            ((&raw mut (*given).shape).cast(), (&raw mut (*given).strides).cast());
        for tensor in [&raw mut (*given).versioned.tensor, &raw mut (*given).unversioned.tensor] {
            ((*tensor).shape, (*tensor).strides) = (shape, strides);
        }
        (*given).versioned.context = given.cast();
        (*given).unversioned.context = given.cast();
        if is_versioned(max_version) {
            ((&raw mut (*given).versioned).cast::<c_void>(), VERSIONED)
        } else {
            ((&raw mut (*given).unversioned).cast::<c_void>(), UNVERSIONED)
        }
    };
    // SAFETY: the name is static; the destructor is called once; a new reference, or NULL with an
    // exception set.
    let capsule = unsafe {
        Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(capsule, name.as_ptr(), Some(destroy)))
    };
    if capsule.is_err() {
        // SAFETY: `Box::into_raw` made it, and no consumer has it.
        drop(unsafe { Box::from_raw(given) });
    }
    capsule
}

/// Called when the consumer has finished with the array, on any thread.
unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: `export_at` made it, and its context is the whole; a consumer calls this once.
    drop(unsafe { Box::from_raw((*managed).context.cast::<Exported>()) });
}

/// Called when the consumer of an unversioned tensor has finished with it, on any thread.
unsafe extern "C" fn delete_unversioned(managed: *mut Managed) {
    // SAFETY: `export_at` made it, and its context is the whole; a consumer calls this once.
    drop(unsafe { Box::from_raw((*managed).context.cast::<Exported>()) });
}

/// Called when the capsule goes; a consumer that took the array has renamed it.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: called with this capsule; under its original name it holds what `export_at` made,
    // which no consumer took.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        } else if ffi::PyCapsule_IsValid(capsule, UNVERSIONED.as_ptr()) == 1 {
            delete_unversioned(ffi::PyCapsule_GetPointer(capsule, UNVERSIONED.as_ptr()).cast());
        }
    }
}

/// Returns a row-major array's extents and strides, in items.
fn extents_and_strides(layout: &Layout) -> ([i64; MOST_DIMENSIONS], [i64; MOST_DIMENSIONS]) {
    let (mut extents, mut strides) = ([0; MOST_DIMENSIONS], [0; MOST_DIMENSIONS]);
    let mut stride = 1;
    for (at, extent) in layout.shape().iter().enumerate().rev() {
        extents[at] = *extent as i64;
        strides[at] = stride;
        stride *= (*extent as i64).max(1);
    }
    (extents, strides)
}

/// Another library's tensor, to be copied: kept by its capsule.
pub(crate) struct Taken<'py> {
    _capsule: Bound<'py, PyCapsule>,
    tensor: Tensor,
    extents: Vec<usize>,
    strides: Vec<isize>,
    pub(crate) layout: Layout,
}

/// Returns the object as a tensor, if it is one.
pub(crate) fn take<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Taken<'py>>> {
    let py = object.py();
    if !object.hasattr("__dlpack__")? || !object.hasattr("__dlpack_device__")? {
        return Ok(None);
    }
    let (device, _): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    if device != CPU.0 && device != CUDA_HOST {
        return Err(PyTypeError::new_err(
            "only tensors in the CPU's memory can be published: copy it there first",
        ));
    }
    let asked = [("max_version", (1, 0))].into_py_dict(py)?;
    let capsule = match object.call_method("__dlpack__", (), Some(&asked)) {
        // A version before 1.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            object.call_method0("__dlpack__")?
        }
        other => other?,
    };
    let capsule = capsule.cast_into::<PyCapsule>()?;
    // SAFETY: a capsule with that name holds such a tensor, by DLPack's rules.
    let tensor = unsafe {
        let pointer = |name: &CStr| {
            let is = ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) == 1;
            is.then(|| ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()))
        };
        match (pointer(VERSIONED), pointer(UNVERSIONED)) {
            (Some(managed), _) if (*managed.cast::<ManagedVersioned>()).version.0 == 1 => {
                (*managed.cast::<ManagedVersioned>()).tensor
            }
            (None, Some(managed)) => (*managed.cast::<Managed>()).tensor,
            _ => {
                return Err(PyTypeError::new_err(
                    "a tensor of a DLPack version that is not known here",
                ));
            }
        }
    };
    let dimensions = tensor.dimensions.max(0) as usize;
    let words = |at: *mut i64| match at.is_null() || dimensions == 0 {
        true => Vec::new(),
        // SAFETY: by DLPack's rules there are as many as dimensions.
        false => unsafe { core::slice::from_raw_parts(at, dimensions) }.to_vec(),
    };
    let extents: Vec<usize> =
        words(tensor.shape).into_iter().map(|extent| extent.max(0) as usize).collect();
    let DataType { code, bits, lanes } = tensor.dtype;
    let layout = Layout::of_dlpack(code, bits, lanes, &extents)?;
    let item = isize::from(bits / 8);
    let mut strides: Vec<isize> =
        words(tensor.strides).into_iter().map(|stride| stride as isize * item).collect();
    if strides.is_empty() {
        // NULL stands for row-major.
        strides = vec![0; dimensions];
        let mut stride = item;
        for at in (0..dimensions).rev() {
            strides[at] = stride;
            stride = stride.saturating_mul(extents[at].max(1) as isize);
        }
    }
    Ok(Some(Taken { _capsule: capsule, tensor, extents, strides, layout }))
}

impl Taken<'_> {
    /// Copies its items, row by row.
    ///
    /// # Safety
    /// The caller guarantees that as many bytes as the layout says can be written at `to`.
    pub(crate) unsafe fn copy_to(&self, mut to: *mut u8) {
        let item = usize::from(self.tensor.dtype.bits / 8);
        let Some(count) = self.layout.len().map(|len| len / item).filter(|count| *count > 0) else {
            return;
        };
        let from = self.tensor.data.cast::<u8>().wrapping_add(self.tensor.byte_offset as usize);
        let mut index = vec![0; self.extents.len()];
        // The last dimension is copied at once where it is contiguous.
        let row = match (self.extents.last(), self.strides.last()) {
            (Some(extent), Some(stride)) if *stride == item as isize => *extent,
            _ => 1,
        };
        for _ in 0..count / row {
            let at =
                index.iter().zip(&self.strides).map(|(at, stride)| *at as isize * stride).sum();
            // SAFETY: DLPack's rules guarantee the source, the caller the destination, which gets
            // `count` items in all.
            unsafe {
                core::ptr::copy_nonoverlapping(from.wrapping_offset(at), to, item * row);
                to = to.add(item * row);
            }
            let outer = index.len() - usize::from(row > 1);
            for (at, extent) in index[..outer].iter_mut().zip(&self.extents).rev() {
                *at += 1;
                if *at < *extent {
                    break;
                }
                *at = 0;
            }
        }
    }
}
