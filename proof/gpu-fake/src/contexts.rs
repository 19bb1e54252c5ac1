//! The driver itself, its one device, contexts.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::control::{self, Needs, enter};
use crate::{Code, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, code};

/// How often the primary context was retained and not released.
pub(crate) static RETAINED: AtomicU64 = AtomicU64::new(0);
/// The primary context: its address is its handle.
static PRIMARY: u8 = 0;

thread_local! {
    static CURRENT: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn primary() -> *mut c_void {
    ptr::from_ref(&PRIMARY).cast_mut().cast()
}

pub(crate) fn has_current() -> bool {
    CURRENT.with_borrow(|stack| !stack.is_empty())
}

/// Writes a result.
///
/// # Safety
/// `place` is null, or may be written.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) -> Result<(), Code> {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(flags: c_uint) -> Code {
    code(enter("cuInit", Needs::Nothing).and_then(|()| {
        control::INITIALIZED.store(true, Ordering::Relaxed);
        if flags == 0 { Ok(()) } else { Err(INVALID_VALUE) }
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: Code, name: *mut *const c_char) -> Code {
    let known = match error {
        0 => c"CUDA_SUCCESS",
        1 => c"CUDA_ERROR_INVALID_VALUE",
        2 => c"CUDA_ERROR_OUT_OF_MEMORY",
        3 => c"CUDA_ERROR_NOT_INITIALIZED",
        100 => c"CUDA_ERROR_NO_DEVICE",
        200 => c"CUDA_ERROR_INVALID_IMAGE",
        201 => c"CUDA_ERROR_INVALID_CONTEXT",
        218 => c"CUDA_ERROR_INVALID_PTX",
        400 => c"CUDA_ERROR_INVALID_HANDLE",
        500 => c"CUDA_ERROR_NOT_FOUND",
        600 => c"CUDA_ERROR_NOT_READY",
        700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        712 => c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        713 => c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        800 => c"CUDA_ERROR_NOT_PERMITTED",
        801 => c"CUDA_ERROR_NOT_SUPPORTED",
        _ => return INVALID_VALUE,
    };
    // SAFETY: the caller's.
    code(unsafe { put(name, known.as_ptr()) })
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(_error: Code, text: *mut *const c_char) -> Code {
    // SAFETY: the caller's.
    code(unsafe { put(text, c"as the fake driver was told, or found".as_ptr()) })
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Code {
    // SAFETY: the caller's.
    code(enter("cuDeviceGetCount", Needs::Driver).and_then(|()| unsafe { put(count, 1) }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, number: c_int) -> Code {
    code(enter("cuDeviceGet", Needs::Driver).and_then(|()| {
        // SAFETY: the caller's.
        if number == 0 { unsafe { put(device, 0) } } else { Err(INVALID_DEVICE) }
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, _device: c_int) -> Code {
    const NAME: &[u8] = b"no GPU, a fake driver\0";
    code(enter("cuDeviceGetName", Needs::Driver).and_then(|()| {
        if name.is_null() || (len as usize) < NAME.len() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: so many bytes are the caller's.
        unsafe { ptr::copy_nonoverlapping(NAME.as_ptr(), name.cast(), NAME.len()) };
        Ok(())
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], _device: c_int) -> Code {
    code(enter("cuDeviceGetUuid", Needs::Driver).and_then(|()| {
        // The same in all processes, unless a test says otherwise.
        let mut bytes = *b"no GPU at all, 0";
        bytes[15] = bytes[15].wrapping_add(control::attribute(-2) as u8);
        // SAFETY: the caller's.
        unsafe { put(uuid, bytes) }
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    which: c_int,
    _device: c_int,
) -> Code {
    // SAFETY: the caller's.
    code(
        enter("cuDeviceGetAttribute", Needs::Driver)
            .and_then(|()| unsafe { put(value, control::attribute(which)) }),
    )
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(
    context: *mut *mut c_void,
    _device: c_int,
) -> Code {
    code(enter("cuDevicePrimaryCtxRetain", Needs::Driver).and_then(|()| {
        RETAINED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { put(context, primary()) }
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(_device: c_int) -> Code {
    code(enter("cuDevicePrimaryCtxRelease", Needs::Driver).and_then(|()| {
        let released = RETAINED
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
        released.map(drop).map_err(|_| INVALID_CONTEXT)
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPushCurrent_v2(context: *mut c_void) -> Code {
    code(enter("cuCtxPushCurrent", Needs::Driver).and_then(|()| {
        if context != primary() || RETAINED.load(Ordering::Relaxed) == 0 {
            return Err(INVALID_CONTEXT);
        }
        CURRENT.with_borrow_mut(|stack| stack.push(context.addr()));
        Ok(())
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut *mut c_void) -> Code {
    code(enter("cuCtxPopCurrent", Needs::Context).and_then(|()| {
        CURRENT.with_borrow_mut(Vec::pop);
        // SAFETY: the caller's.
        unsafe { put(context, primary()) }
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(device: *mut c_int) -> Code {
    // SAFETY: the caller's.
    code(enter("cuCtxGetDevice", Needs::Context).and_then(|()| unsafe { put(device, 0) }))
}
