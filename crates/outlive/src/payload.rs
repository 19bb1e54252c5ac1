//! What may lie in shared memory, and what may be a message: bytes, values of a plain type, or
//! slices of one.

/// Marks values that may live in shared memory: plain data without padding or pointers, of which
/// every bit pattern is a value. Derive [`zerocopy`]'s `FromBytes`, `IntoBytes`, `Immutable` and
/// `KnownLayout`; numbers and arrays of numbers are plain already.
///
/// ```
/// use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Pose { x: f64, y: f64, heading: f64 }
/// fn takes_plain<T: outlive::Plain>(_: T) {}
/// takes_plain(Pose { x: 0.0, y: 0.0, heading: 0.0 });
/// ```
pub trait Plain:
    zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Send + 'static
{
}

impl<T: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Send + 'static> Plain
    for T
{
}

/// Marks values that several processes may read at once: [`Plain`] data, atomics, and structs and
/// arrays of both, without padding. An [`RwLock`](crate::sync::RwLock) guards such a value; its readers may change the
/// atomics in it.
///
/// ```
/// use std::sync::atomic::AtomicU64;
/// use zerocopy::{FromBytes, IntoBytes};
/// #[derive(FromBytes, IntoBytes)]
/// #[repr(C)]
/// struct Table { rows: [u64; 8], looked_at: AtomicU64 }
/// fn takes_shareable<T: outlive::Shareable>(_: T) {}
/// takes_shareable(Table { rows: [0; 8], looked_at: AtomicU64::new(0) });
/// ```
pub trait Shareable: zerocopy::FromBytes + zerocopy::IntoBytes + Send + Sync + 'static {}

impl<T: zerocopy::FromBytes + zerocopy::IntoBytes + Send + Sync + 'static> Shareable for T {}

mod sealed {
    pub trait Sealed {}
    impl<T: super::Plain> Sealed for T {}
    impl<T: super::Plain> Sealed for [T] {}
}

/// The type of a message, or of a state's value: `[u8]`, a [`Plain`] type, or a slice of one.
///
/// All users of a topic or a state must agree on it: its file records the type's name, size and
/// alignment.
pub trait Payload: sealed::Sealed {
    #[doc(hidden)]
    const METADATA: Metadata;

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

/// What a file records about its messages.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Metadata {
    pub(crate) name: fn() -> &'static str,
    pub(crate) size: u64,
    pub(crate) align: usize,
    pub(crate) is_slice: bool,
}

impl Metadata {
    /// The name in the header; bytes have none.
    pub(crate) fn type_name(self) -> String {
        match (self.name)() {
            "u8" if self.is_slice => String::new(),
            name if self.is_slice => format!("[{name}]"),
            name => name.to_owned(),
        }
    }
}

impl<T: Plain> Payload for T {
    const METADATA: Metadata = Metadata {
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

impl<T: Plain> Payload for [T] {
    const METADATA: Metadata = Metadata {
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
