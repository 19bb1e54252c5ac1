//! The types of a topic's messages: bytes, values of a plain type, or slices of one.

use crate::sync::Plain;

mod sealed {
    pub trait Sealed {}
    impl<T: super::Plain> Sealed for T {}
    impl<T: super::Plain> Sealed for [T] {}
}

/// The type of a topic's messages: `[u8]`, a [`Plain`] type, or a slice of one.
///
/// All users of a topic must agree on it: the topic's file records its name, size and alignment.
pub trait Message: sealed::Sealed {
    #[doc(hidden)]
    const FACTS: Facts;

    /// Returns the message at `at`, if the bytes there can be one.
    ///
    /// # Safety
    /// The caller guarantees that `at` is aligned to 8, or to the type's alignment if that is more,
    /// and that `len` bytes can be read there for `'a`.
    #[doc(hidden)]
    unsafe fn at<'a>(at: *const u8, len: usize) -> Option<&'a Self>;

    /// Returns the message at `at` for writing.
    ///
    /// # Safety
    /// The caller guarantees what `at` asks for, and that no other reference to those bytes exists.
    #[doc(hidden)]
    unsafe fn at_mut<'a>(at: *mut u8, len: usize) -> Option<&'a mut Self>;

    /// Returns its bytes.
    #[doc(hidden)]
    fn bytes(&self) -> &[u8];
}

/// What the topic's file records about its messages.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Facts {
    pub(super) name: fn() -> &'static str,
    pub(super) size: u64,
    pub(super) align: usize,
    pub(super) is_slice: bool,
}

impl Facts {
    /// The name in the header; bytes have none.
    pub(super) fn type_name(self) -> String {
        match (self.name)() {
            "u8" if self.is_slice => String::new(),
            name if self.is_slice => format!("[{name}]"),
            name => name.to_owned(),
        }
    }
}

impl<T: Plain> Message for T {
    const FACTS: Facts = Facts {
        name: core::any::type_name::<T>,
        size: size_of::<T>() as u64,
        align: align_of::<T>(),
        is_slice: false,
    };

    unsafe fn at<'a>(at: *const u8, len: usize) -> Option<&'a T> {
        if size_of::<T>() == 0 {
            // SAFETY: a type of size 0, of which every pattern is a value; a dangling pointer is
            // aligned.
            return (len == 0).then(|| unsafe { core::ptr::NonNull::dangling().as_ref() });
        }
        // SAFETY: the caller guarantees alignment and `len` readable bytes; all bit patterns are
        // values.
        (len == size_of::<T>()).then(|| unsafe { &*at.cast() })
    }

    unsafe fn at_mut<'a>(at: *mut u8, len: usize) -> Option<&'a mut T> {
        if size_of::<T>() == 0 {
            // SAFETY: a type of size 0, of which every pattern is a value; a dangling pointer is
            // aligned.
            return (len == 0).then(|| unsafe { core::ptr::NonNull::dangling().as_mut() });
        }
        // SAFETY: the caller guarantees alignment, `len` bytes and no other reference; all bit
        // patterns are values.
        (len == size_of::<T>()).then(|| unsafe { &mut *at.cast() })
    }

    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl<T: Plain> Message for [T] {
    const FACTS: Facts = Facts {
        name: core::any::type_name::<T>,
        size: size_of::<T>() as u64,
        align: align_of::<T>(),
        is_slice: true,
    };

    unsafe fn at<'a>(at: *const u8, len: usize) -> Option<&'a [T]> {
        let count = len.checked_div(size_of::<T>())?;
        if count == 0 {
            return (len == 0).then_some(&[]);
        }
        // SAFETY: the caller guarantees alignment and `len` readable bytes; all bit patterns are
        // values.
        (count * size_of::<T>() == len)
            .then(|| unsafe { core::slice::from_raw_parts(at.cast(), count) })
    }

    unsafe fn at_mut<'a>(at: *mut u8, len: usize) -> Option<&'a mut [T]> {
        let count = len.checked_div(size_of::<T>())?;
        if count == 0 {
            return (len == 0).then_some(&mut []);
        }
        // SAFETY: the caller guarantees alignment, `len` bytes and no other reference; all bit
        // patterns are values.
        (count * size_of::<T>() == len)
            .then(|| unsafe { core::slice::from_raw_parts_mut(at.cast(), count) })
    }

    fn bytes(&self) -> &[u8] {
        zerocopy::IntoBytes::as_bytes(self)
    }
}
