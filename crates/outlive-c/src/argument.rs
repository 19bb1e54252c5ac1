//! What comes from C: pointers that may be NULL, text that may be none, memory with its length.

use std::ffi::{CStr, c_char};

use crate::code::Failure;

#[cold]
fn missing(what: &str) -> Failure {
    Failure::new(libc::EINVAL, &format!("NULL in place of {what}"))
}

/// What a pointer points to.
///
/// # Safety
/// NULL, or a valid pointer to a `T` for as long as `'a`, which nobody changes meanwhile: the caller's caller's promise.
#[inline]
pub(crate) unsafe fn borrow<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| missing(what))
}

/// The same, to change.
///
/// # Safety
/// As [`borrow`], and nobody else uses it meanwhile.
#[inline]
pub(crate) unsafe fn borrow_mut<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| missing(what))
}

/// A place for a result, which may be uninitialised: it is written to only.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    #[inline]
    pub(crate) fn put(self, value: T) {
        // SAFETY: `out` and `out_or_none` have compared it with NULL; their caller vouched for the rest.
        unsafe { self.0.write(value) };
    }

    /// The same, for what is told also when the call fails.
    pub(crate) fn put_early(&self, value: T) {
        // SAFETY: as above.
        unsafe { self.0.write(value) };
    }
}

/// A place for a handle: set to NULL for now, so that a call that fails leaves nothing behind that looks like one.
///
/// # Safety
/// NULL, or a place for a pointer.
pub(crate) unsafe fn handle_out<T>(place: *mut *mut T) -> Result<Out<*mut T>, Failure> {
    // SAFETY: the caller's promise.
    let out = unsafe { out(place) }?;
    // SAFETY: not NULL, as seen just now.
    unsafe { out.0.write(core::ptr::null_mut()) };
    Ok(out)
}

/// A place for any other result; left alone by calls that fail.
///
/// # Safety
/// NULL, or a place for a `T`.
#[inline]
pub(crate) unsafe fn out<T>(place: *mut T) -> Result<Out<T>, Failure> {
    if place.is_null() { Err(missing("a place for the result")) } else { Ok(Out(place)) }
}

/// A place for a result that not everybody wants.
///
/// # Safety
/// NULL, or a place for a `T`.
#[inline]
pub(crate) unsafe fn out_or_none<T>(place: *mut T) -> Option<Out<T>> {
    (!place.is_null()).then_some(Out(place))
}

/// A text.
///
/// # Safety
/// NULL, or NUL-terminated, for as long as `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise.
    unsafe { text_or_none(text) }?.ok_or_else(|| missing(what))
}

/// A text that need not be.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn text_or_none<'a>(text: *const c_char) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL; the caller's promise.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map(Some).map_err(|_| Failure::new(libc::EINVAL, "a name that is not UTF-8"))
}

/// Bytes to read.
///
/// # Safety
/// `len` bytes can be read at `data` for as long as `'a`; NULL only without any.
#[inline]
pub(crate) unsafe fn bytes<'a>(data: *const libc::c_void, len: usize) -> Result<&'a [u8], Failure> {
    // SAFETY: the caller's promise.
    unsafe { items(data.cast(), len, "bytes") }
}

/// Several things in a row.
///
/// # Safety
/// `count` of them can be read at `data` for as long as `'a`; NULL only without any.
#[inline]
pub(crate) unsafe fn items<'a, T>(data: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(missing(what));
    }
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(Failure::new(libc::EINVAL, "a length that no memory has"));
    }
    // SAFETY: the caller's promise; the length is one that can be.
    Ok(unsafe { core::slice::from_raw_parts(data, count) })
}

/// An options struct, which begins with its size: a caller that was compiled with an older header has a shorter one, and the
/// rest is as by default. NULL is the default.
///
/// # Safety
/// NULL, or a struct of as many bytes as its first field says; all of `T`'s bit patterns are values.
pub(crate) unsafe fn options<T: Copy>(given: *const T, default: T) -> Result<T, Failure> {
    if given.is_null() {
        return Ok(default);
    }
    // SAFETY: every options struct begins with its size; the caller's promise.
    let size = unsafe { given.cast::<usize>().read() };
    if size < size_of::<usize>() || size > 4096 {
        return Err(Failure::new(libc::EINVAL, "an options struct without its size in front: use its INIT macro"));
    }
    let mut options = default;
    // SAFETY: as many bytes as both have.
    unsafe {
        let to = (&raw mut options).cast::<u8>();
        core::ptr::copy_nonoverlapping(given.cast::<u8>(), to, size.min(size_of::<T>()));
    }
    Ok(options)
}

/// Copies into a caller's buffer as much as fits, and tells how much there is.
///
/// # Safety
/// `capacity` bytes can be written at `buffer`.
pub(crate) unsafe fn fill(bytes: &[u8], buffer: *mut libc::c_void, capacity: usize) -> Result<(), Failure> {
    if bytes.len() > capacity {
        let message = format!("the buffer has {capacity} bytes, {} are needed", bytes.len());
        return Err(Failure::new(libc::EMSGSIZE, &message));
    }
    if !bytes.is_empty() {
        if buffer.is_null() {
            return Err(missing("a buffer"));
        }
        // SAFETY: it fits; the caller's promise. A buffer of the caller's and shared memory, or a copy, do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len()) };
    }
    Ok(())
}
