//! Arguments from C: pointers that may be NULL, text that may be missing, memory with its length.
//!
//! Each function says what it does with NULL, so the SAFETY comments of its callers leave NULL out.

use std::ffi::{CStr, c_char};

use crate::code::Failure;

#[cold]
fn missing(what: &str) -> Failure {
    Failure::new(libc::EINVAL, &format!("NULL in place of {what}"))
}

/// Returns what a pointer points to, or EINVAL for NULL.
///
/// # Safety
/// The C caller guarantees that the pointer is NULL, or valid for as long as `'a`, and that no
/// thread changes the `T` meanwhile.
#[inline]
pub(crate) unsafe fn borrow<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller guarantees NULL or a valid pointer for `'a`.
    unsafe { pointer.as_ref() }.ok_or_else(|| missing(what))
}

/// Returns what a pointer points to, for writing, or EINVAL for NULL.
///
/// # Safety
/// The caller guarantees what [`borrow`] asks for, and that no other thread uses it meanwhile.
#[inline]
pub(crate) unsafe fn borrow_mut<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller guarantees NULL or a valid pointer that no other thread uses for `'a`.
    unsafe { pointer.as_mut() }.ok_or_else(|| missing(what))
}

/// A place for a result. It may be uninitialised: it is only written.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    #[inline]
    pub(crate) fn put(self, value: T) {
        // SAFETY: `out` and `out_or_none` have refused NULL; their caller guarantees a place for a
        // `T`.
        unsafe { self.0.write(value) };
    }

    /// Writes a result that the C caller gets even when the call fails.
    pub(crate) fn put_early(&self, value: T) {
        // SAFETY: `out` and `out_or_none` have refused NULL; their caller guarantees a place for a
        // `T`.
        unsafe { self.0.write(value) };
    }
}

/// Returns a place for a handle, and sets it to NULL, so that a call that fails leaves no invalid
/// handle there.
///
/// # Safety
/// The caller guarantees NULL, or a place for a pointer.
pub(crate) unsafe fn handle_out<T>(place: *mut *mut T) -> Result<Out<*mut T>, Failure> {
    // SAFETY: the caller guarantees NULL, or a place for a pointer.
    let out = unsafe { out(place) }?;
    // SAFETY: `out` has refused NULL, and the caller guarantees a place for a pointer.
    unsafe { out.0.write(core::ptr::null_mut()) };
    Ok(out)
}

/// Returns a place for any other result, which a failing call does not change.
///
/// # Safety
/// The caller guarantees NULL, or a place for a `T`.
#[inline]
pub(crate) unsafe fn out<T>(place: *mut T) -> Result<Out<T>, Failure> {
    if place.is_null() { Err(missing("a place for the result")) } else { Ok(Out(place)) }
}

/// Returns a place for a result that the C caller may leave out.
///
/// # Safety
/// The caller guarantees NULL, or a place for a `T`.
#[inline]
pub(crate) unsafe fn out_or_none<T>(place: *mut T) -> Option<Out<T>> {
    (!place.is_null()).then_some(Out(place))
}

/// Returns a text, or EINVAL for NULL.
///
/// # Safety
/// The caller guarantees NULL, or a NUL-terminated text, for as long as `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller guarantees NULL, or a NUL-terminated text for `'a`.
    unsafe { text_or_none(text) }?.ok_or_else(|| missing(what))
}

/// Returns a text that the C caller may leave out.
///
/// # Safety
/// The caller guarantees what [`text`] asks for.
pub(crate) unsafe fn text_or_none<'a>(text: *const c_char) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL, and the caller guarantees a NUL-terminated text for `'a`.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map(Some).map_err(|_| Failure::new(libc::EINVAL, "a text that is not UTF-8"))
}

/// Returns bytes to read.
///
/// # Safety
/// The caller guarantees that `len` bytes can be read at `data` for as long as `'a`; NULL only if
/// `len` is 0.
#[inline]
pub(crate) unsafe fn bytes<'a>(data: *const libc::c_void, len: usize) -> Result<&'a [u8], Failure> {
    // SAFETY: the caller guarantees `len` readable bytes at `data`.
    unsafe { items(data.cast(), len, "bytes") }
}

/// Returns an array.
///
/// # Safety
/// The caller guarantees that `count` items can be read at `data` for as long as `'a`; NULL only if
/// `count` is 0.
#[inline]
pub(crate) unsafe fn items<'a, T>(
    data: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(missing(what));
    }
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(Failure::new(libc::EINVAL, "a length that no memory has"));
    }
    // SAFETY: the caller guarantees `count` readable items at `data`; the length does not overflow.
    Ok(unsafe { core::slice::from_raw_parts(data, count) })
}

/// Returns an options struct, which begins with its size: that of a caller compiled with an older
/// header is shorter, and the rest has default values. NULL stands for the default.
///
/// # Safety
/// The caller guarantees NULL, or a struct of as many bytes as its first field says; all of `T`'s
/// bit patterns are values.
pub(crate) unsafe fn options<T: Copy>(given: *const T, default: T) -> Result<T, Failure> {
    if given.is_null() {
        return Ok(default);
    }
    // SAFETY: every options struct begins with its size, and the caller guarantees a struct.
    let size = unsafe { given.cast::<usize>().read() };
    if size < size_of::<usize>() || size > 4096 {
        return Err(Failure::new(
            libc::EINVAL,
            "an options struct without its size in front: use its INIT macro",
        ));
    }
    let mut options = default;
    // SAFETY: `size` is no more than either struct has, and all bit patterns of `T` are values.
    unsafe {
        let to = (&raw mut options).cast::<u8>();
        core::ptr::copy_nonoverlapping(given.cast::<u8>(), to, size.min(size_of::<T>()));
    }
    Ok(options)
}

/// Changes an options struct of the C caller's, as much of it as its size says.
///
/// # Safety
/// As [`options`]; no other thread uses the struct.
pub(crate) unsafe fn with_options<T: Copy>(
    given: *mut T,
    change: impl FnOnce(&mut T),
) -> Result<(), Failure> {
    if given.is_null() {
        return Err(missing("options"));
    }
    // SAFETY: all bit patterns of `T` are values, as the caller guarantees: so are zeroes.
    let default = unsafe { core::mem::zeroed::<T>() };
    // SAFETY: the caller guarantees a struct of as many bytes as its first field says.
    let mut now = unsafe { options(given, default) }?;
    // SAFETY: every options struct begins with its size, and the caller guarantees a struct; `options`
    // has refused a size that cannot be.
    let size = unsafe { given.cast::<usize>().read() };
    change(&mut now);
    // SAFETY: `size` is no more than either struct has, and no other thread uses it. The size, which
    // is the first field, is written as it was read.
    unsafe {
        let from = (&raw const now).cast::<u8>();
        core::ptr::copy_nonoverlapping(from, given.cast::<u8>(), size.min(size_of::<T>()));
    }
    Ok(())
}

/// Copies a text with its NUL into the C caller's buffer.
///
/// # Safety
/// The C caller passes `capacity` writable bytes at `buffer`.
pub(crate) unsafe fn give(
    value: &str,
    buffer: *mut c_char,
    capacity: usize,
) -> Result<(), Failure> {
    let mut bytes = value.as_bytes().to_vec();
    bytes.push(0);
    // SAFETY: the caller guarantees `capacity` writable bytes at `buffer`.
    unsafe { fill(&bytes, buffer.cast(), capacity) }
}

/// Copies as much as fits into the C caller's buffer, and returns EMSGSIZE if not all does.
///
/// # Safety
/// The caller guarantees that `capacity` bytes can be written at `buffer`.
pub(crate) unsafe fn fill(
    bytes: &[u8],
    buffer: *mut libc::c_void,
    capacity: usize,
) -> Result<(), Failure> {
    if bytes.len() > capacity {
        let message = format!("the buffer has {capacity} bytes, {} are needed", bytes.len());
        return Err(Failure::new(libc::EMSGSIZE, &message));
    }
    if !bytes.is_empty() {
        if buffer.is_null() {
            return Err(missing("a buffer"));
        }
        // SAFETY: it fits into `capacity`, which the caller guarantees. The buffer is private
        // memory and does not overlap `bytes`.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len()) };
    }
    Ok(())
}

/// Takes a handle over.
///
/// # Safety
/// The C caller guarantees NULL, or a handle of this library's, which it gives up.
pub(crate) unsafe fn used_up<T>(handle: *mut T, what: &str) -> Result<Box<T>, Failure> {
    if handle.is_null() {
        return Err(Failure::new(libc::EINVAL, &format!("NULL in place of {what}")));
    }
    // SAFETY: the library made every handle as a box; the C caller gives this one up.
    Ok(unsafe { Box::from_raw(handle) })
}
