//! GPUs and their streams: the beginning of `outlive_gpu.h`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;

use outlive_gpu::{Driver, Gpu, Stream};

use crate::argument::{borrow, handle_out, out_or_none, text_or_none};
use crate::code::{Failure, entry, entry_or};
use crate::domain::close;

/// A GPU, by one context of the CUDA driver, which is loaded on demand: the library is not linked
/// with it. All threads may use it at once. A forked child needs a GPU handle of its own, and CUDA
/// gives it none if its parent had one before: start such programs by `exec`.
pub struct outlive_gpu_t {
    pub(crate) gpu: Gpu,
    name: CString,
}

/// A stream of a GPU's work, and what Outlive needs for it. All threads may use it at once.
pub struct outlive_gpu_stream_t(pub(crate) Stream);

fn driver(library: Option<&str>) -> Result<Driver, Failure> {
    Ok(library.map_or_else(Driver::open, |library| Driver::load(Path::new(library)))?)
}

fn handle(gpu: Gpu) -> *mut outlive_gpu_t {
    let name = CString::new(gpu.name()).unwrap_or_default();
    Box::into_raw(Box::new(outlive_gpu_t { gpu, name }))
}

/// Opens the GPU of that number, by its primary context: the one that the CUDA runtime
/// (`cudaSetDevice`), PyTorch and CuPy use. `library`: the driver's shared library; NULL: the
/// machine's own, libcuda.so.1.
///
/// Owner: `*gpu` is the caller's, until `outlive_gpu_close`. What is made with it may outlive it.
///
/// Errors: ENODEV: there is no driver here, none that can be used, or no such GPU; the rest of the
/// library works without. OUTLIVE_DRIVER, EINVAL.
///
/// If the process dies, the kernel takes back what its driver had.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_gpu_open(
    library: *const c_char,
    number: u32,
    gpu: *mut *mut outlive_gpu_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `gpu` and NULL or a NUL-terminated `library`.
        let (out, library) = unsafe { (handle_out(gpu)?, text_or_none(library)?) };
        out.put(handle(driver(library)?.gpu(number)?));
        Ok(())
    })
}

/// Opens the GPU of a context of the caller's, a `CUcontext`, which the caller keeps as long as
/// anything exists that was made with it. `library`: as in `outlive_gpu_open`.
///
/// Owner: as `outlive_gpu_open`.
///
/// Errors: as `outlive_gpu_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_gpu_open_context(
    library: *const c_char,
    context: *mut c_void,
    gpu: *mut *mut outlive_gpu_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `gpu` and NULL or a NUL-terminated `library`.
        let (out, library) = unsafe { (handle_out(gpu)?, text_or_none(library)?) };
        if context.is_null() {
            return Err(Failure::new(libc::EINVAL, "NULL in place of a context"));
        }
        // SAFETY: the C caller passes a context of that driver's, and keeps it.
        out.put(handle(unsafe { driver(library)?.gpu_of_context(context) }?));
        Ok(())
    })
}

/// Closes a GPU. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_gpu_close(gpu: *mut outlive_gpu_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(gpu) }
}

/// Returns the device's name. Empty for NULL.
///
/// Owner: the GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_gpu_name(gpu: *const outlive_gpu_t) -> *const c_char {
    // SAFETY: the C caller passes a live GPU.
    entry_or(c"".as_ptr(), || Ok(unsafe { borrow(gpu, "a GPU") }?.name.as_ptr()))
}

/// Returns its context, a `CUcontext`, for other libraries. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_gpu_context(gpu: *const outlive_gpu_t) -> *mut c_void {
    // SAFETY: the C caller passes a live GPU.
    entry_or(core::ptr::null_mut(), || Ok(unsafe { borrow(gpu, "a GPU") }?.gpu.context()))
}

/// Returns whether this process's copies from (`reads`) and to (`writes`) a topic's memory are
/// direct: 1; or go through the driver's own buffers: 0. Each place may be NULL.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_gpu_pins(
    gpu: *const outlive_gpu_t,
    reads: *mut u32,
    writes: *mut u32,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live GPU.
        let gpu = unsafe { &borrow(gpu, "a GPU")?.gpu };
        // SAFETY: the C caller passes NULL or a place for `reads`.
        if let Some(out) = unsafe { out_or_none(reads) } {
            out.put(gpu.reads_pinned().into());
        }
        // SAFETY: the C caller passes NULL or a place for `writes`.
        if let Some(out) = unsafe { out_or_none(writes) } {
            out.put(gpu.writes_pinned().into());
        }
        Ok(())
    })
}

/// Checks that the context has no error: 0. After an error, no work that was enqueued in it is done
/// any more.
///
/// Errors: OUTLIVE_DRIVER, with that error in the message. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_gpu_check(gpu: *const outlive_gpu_t) -> c_int {
    // SAFETY: the C caller passes a live GPU.
    entry(|| Ok(unsafe { borrow(gpu, "a GPU") }?.gpu.check()?))
}

/// Opens a stream of the caller's, a `CUstream` or `cudaStream_t` of that GPU's context: NULL and 1
/// are the legacy default stream, 2 is the thread's own.
///
/// The caller keeps the stream until this handle is closed and all work enqueued through it has
/// completed. Outlive adds a stream of its own, on which it publishes messages and releases
/// samples: so make one handle and keep it.
///
/// Owner: `*made` is the caller's, until `outlive_gpu_stream_close`.
///
/// Errors: OUTLIVE_DRIVER, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_gpu_stream_open(
    gpu: *const outlive_gpu_t,
    stream: *mut c_void,
    made: *mut *mut outlive_gpu_stream_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `made` and a live GPU.
        let (out, gpu) = unsafe { (handle_out(made)?, borrow(gpu, "a GPU")?) };
        // SAFETY: the C caller passes a stream of that GPU's context, and keeps it.
        out.put(Box::into_raw(Box::new(outlive_gpu_stream_t(unsafe {
            Stream::from_raw(&gpu.gpu, stream)
        }?))));
        Ok(())
    })
}

/// Makes a new stream, which does not wait for the default one.
///
/// Owner, errors: as `outlive_gpu_stream_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_gpu_stream_new(
    gpu: *const outlive_gpu_t,
    made: *mut *mut outlive_gpu_stream_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `made` and a live GPU.
        let (out, gpu) = unsafe { (handle_out(made)?, borrow(gpu, "a GPU")?) };
        out.put(Box::into_raw(Box::new(outlive_gpu_stream_t(Stream::new(&gpu.gpu)?))));
        Ok(())
    })
}

/// Closes a stream; one of the caller's stays. Work that was enqueued is done all the same. Passing
/// NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_gpu_stream_close(stream: *mut outlive_gpu_stream_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(stream) }
}

/// Returns the stream itself, a `CUstream`. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_gpu_stream_raw(
    stream: *const outlive_gpu_stream_t,
) -> *mut c_void {
    // SAFETY: the C caller passes a live stream.
    entry_or(core::ptr::null_mut(), || Ok(unsafe { borrow(stream, "a stream") }?.0.raw()))
}

/// Waits until all work enqueued on the stream has completed. What it publishes and releases may
/// take effect a moment later.
///
/// Errors: OUTLIVE_DRIVER, also for failures of work that was enqueued before. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_gpu_stream_synchronize(
    stream: *const outlive_gpu_stream_t,
) -> c_int {
    // SAFETY: the C caller passes a live stream.
    entry(|| Ok(unsafe { borrow(stream, "a stream") }?.0.synchronize()?))
}
