//! What may lie in shared memory, and what may be a message: bytes, values of a plain type, or
//! slices of one.

use crate::describe::{Description, Encoding};

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
/// arrays of both, without padding. An [`RwLock`](crate::sync::RwLock) guards such a value; its
/// readers may change the atomics in it.
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

pub(crate) use sealed::Sealed;

/// The type of a message, a request, a reply or a state's value: `[u8]`, a [`Plain`] type, a slice
/// of one, or a head with a tail of items ([`WithTail`](crate::describe::WithTail)).
///
/// All users of a queue, a topic, a service or a state must agree on it: its file records the
/// type's name, size and alignment.
///
/// A slice of values without bytes has no length in memory, so no program that uses one compiles:
///
/// ```compile_fail
/// # fn main() -> Result<(), outlive::Error> {
/// let domain = outlive::Domain::open_default()?;
/// outlive::queue::Queue::<[()]>::open_or_create(&domain, "nothing")?;
/// # Ok(())
/// # }
/// ```
pub trait Payload: sealed::Sealed {
    #[doc(hidden)]
    const METADATA: Metadata;

    /// A copy of such a message that its reader owns: the value itself, or a `Vec` of a slice's
    /// values.
    type Owned: core::borrow::Borrow<Self> + Send + 'static;

    /// Returns a copy for [`Payload::replace`] to fill: zeroes, or no values.
    #[doc(hidden)]
    fn blank() -> Self::Owned;

    /// Copies the message of those bytes, which need not be aligned, into `copy`, in whose memory
    /// it lies if it fits. Returns false, and changes nothing, if the bytes cannot be such a
    /// message.
    #[doc(hidden)]
    fn replace(copy: &mut Self::Owned, bytes: &[u8]) -> bool;

    /// Lets `write` write a message of at most `most` bytes into the memory of `copy`. Returns what
    /// `write` returned beside the message's length; `None` if the bytes cannot be such a message.
    /// Then, and after an error, the copy has some value, or no values.
    ///
    /// # Safety
    /// The caller guarantees that `write` writes as many bytes as it returns, from its address on,
    /// and that these are no more than `most`; and no other bytes than the first `most`.
    #[doc(hidden)]
    unsafe fn fill<R, E>(
        copy: &mut Self::Owned,
        most: usize,
        write: impl FnOnce(*mut u8) -> Result<(R, usize), E>,
    ) -> Result<Option<R>, E>;

    /// Returns the message that `write` writes, as [`Payload::fill`] does.
    ///
    /// # Safety
    /// The caller guarantees what [`Payload::fill`] asks for.
    #[doc(hidden)]
    #[inline]
    unsafe fn make<R, E>(
        most: usize,
        write: impl FnOnce(*mut u8) -> Result<(R, usize), E>,
    ) -> Result<Option<(Self::Owned, R)>, E> {
        let mut copy = Self::blank();
        // SAFETY: the caller guarantees what `fill` asks for.
        let made = unsafe { Self::fill(&mut copy, most, write)? };
        Ok(made.map(|more| (copy, more)))
    }

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

/// Marks payloads of which each may have another length: slices, and heads with a tail.
pub trait AnyLength: Payload {}

impl<T: Plain> AnyLength for [T] {}

/// What a file records about its messages.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Metadata {
    pub(crate) name: fn() -> &'static str,
    pub(crate) size: u64,
    pub(crate) align: usize,
    pub(crate) is_slice: bool,
    /// The bytes of each of the items behind a value; 0: there are none.
    pub(crate) tail: u32,
}

impl Metadata {
    /// Returns whether all messages have the same number of bytes.
    pub(crate) const fn is_fixed(self) -> bool {
        !self.is_slice && self.tail == 0
    }

    /// Returns whether messages are bytes of which no more is known.
    pub(crate) fn is_bytes(self) -> bool {
        self.is_slice && self.size == 1 && (self.name)() == "u8"
    }

    /// The name in the header; bytes have none.
    pub(crate) fn type_name(self) -> String {
        match (self.name)() {
            "u8" if self.is_slice => String::new(),
            name if self.is_slice => format!("[{name}]"),
            name if self.tail > 0 => format!("{name} with a tail"),
            name => name.to_owned(),
        }
    }

    /// Returns whether so many bytes can be such a message.
    #[inline]
    pub(crate) fn fits(self, len: usize) -> bool {
        match (self.is_slice, self.size as usize) {
            (true, 1) => true,
            (true, size) => len.is_multiple_of(size),
            (false, size) if self.tail == 0 => len == size,
            (false, size) => {
                len.checked_sub(size).is_some_and(|tail| tail.is_multiple_of(self.tail as usize))
            }
        }
    }

    /// Says why bytes of another length are no such message.
    #[cold]
    pub(crate) fn other_length(self) -> String {
        format!("its length is not that of a {}", self.type_name())
    }
}

/// What a file's header says about the type of its messages.
pub(crate) struct Recorded {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) align: u64,
}

impl Recorded {
    /// Of messages of one type. Files of bytes name none.
    pub(crate) fn one(of: Metadata) -> Recorded {
        match of.type_name() {
            name if name.is_empty() => Recorded { name, size: 0, align: 1 },
            name => Recorded { name, size: of.size, align: of.align as u64 },
        }
    }

    /// Of messages that have a description; those of one in an encoding of its own are bytes.
    pub(crate) fn described(of: Metadata, description: Option<&Description>) -> Recorded {
        match description {
            Some(one) if of.is_bytes() && one.encoding() == Encoding::Raw => {
                Recorded { name: one.header_name(), size: one.size(), align: one.align() }
            }
            _ => Recorded::one(of),
        }
    }

    /// Of requests and replies, with a description or without.
    pub(crate) fn pair(
        request: Metadata,
        reply: Metadata,
        description: Option<&Description>,
    ) -> Recorded {
        let q = Recorded::described(request, description);
        let r = Recorded::described(reply, description.and_then(Description::reply));
        if q.name.is_empty() && r.name.is_empty() {
            return q;
        }
        let name_of = |name: String| if name.is_empty() { "[u8]".to_owned() } else { name };
        Recorded {
            name: format!("{} -> {}", name_of(q.name), name_of(r.name)),
            size: q.size + r.size,
            align: q.align.max(r.align),
        }
    }
}

impl<T: Plain> Payload for T {
    const METADATA: Metadata = Metadata {
        name: core::any::type_name::<T>,
        size: size_of::<T>() as u64,
        align: align_of::<T>(),
        is_slice: false,
        tail: 0,
    };

    type Owned = T;

    fn blank() -> T {
        T::new_zeroed()
    }

    #[inline]
    fn replace(copy: &mut T, bytes: &[u8]) -> bool {
        T::read_from_bytes(bytes).map(|value| *copy = value).is_ok()
    }

    #[inline]
    unsafe fn fill<R, E>(
        copy: &mut T,
        most: usize,
        write: impl FnOnce(*mut u8) -> Result<(R, usize), E>,
    ) -> Result<Option<R>, E> {
        if most > size_of::<T>() {
            return Ok(None);
        }
        // Whatever is written there is a T: every pattern of its bytes is a value.
        let (more, len) = write((&raw mut *copy).cast())?;
        Ok((len == size_of::<T>()).then_some(more))
    }

    #[inline]
    unsafe fn make<R, E>(
        most: usize,
        write: impl FnOnce(*mut u8) -> Result<(R, usize), E>,
    ) -> Result<Option<(T, R)>, E> {
        if most > size_of::<T>() {
            return Ok(None);
        }
        let mut value = core::mem::MaybeUninit::<T>::uninit();
        let (more, len) = write(value.as_mut_ptr().cast())?;
        // SAFETY: the caller guarantees that `write` has written `len` bytes, which are all of the
        // value's, and every pattern of them is a T.
        Ok((len == size_of::<T>()).then(|| (unsafe { value.assume_init() }, more)))
    }

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
        size: {
            assert!(size_of::<T>() > 0, "a slice of values without bytes has no length in memory");
            size_of::<T>() as u64
        },
        align: align_of::<T>(),
        is_slice: true,
        tail: 0,
    };

    type Owned = Vec<T>;

    fn blank() -> Vec<T> {
        Vec::new()
    }

    #[inline]
    fn replace(copy: &mut Vec<T>, bytes: &[u8]) -> bool {
        let Some(count) = bytes.len().checked_div(size_of::<T>()) else { return false };
        if count * size_of::<T>() != bytes.len() {
            return false;
        }
        copy.clear();
        copy.reserve(count);
        // SAFETY: `reserve` made room for `count` values, which these bytes are: all bit patterns
        // are values. The bytes are borrowed and the buffer is borrowed mutably, so they do not
        // overlap.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.as_mut_ptr().cast(), bytes.len());
            copy.set_len(count);
        }
        true
    }

    #[inline]
    unsafe fn fill<R, E>(
        copy: &mut Vec<T>,
        most: usize,
        write: impl FnOnce(*mut u8) -> Result<(R, usize), E>,
    ) -> Result<Option<R>, E> {
        copy.clear();
        if size_of::<T>() == 0 {
            return Ok(None);
        }
        copy.reserve(most.div_ceil(size_of::<T>()));
        let (more, len) = write(copy.as_mut_ptr().cast())?;
        let count = len / size_of::<T>();
        if count * size_of::<T>() != len {
            return Ok(None);
        }
        // SAFETY: `reserve` made room for `most` bytes, and the caller guarantees that `write` has
        // written `len` of them, which are `count` values: all bit patterns are values.
        unsafe { copy.set_len(count) };
        Ok(Some(more))
    }

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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_made_of_bytes_that_can_be_a_message_and_of_no_others() {
        let bytes = [0, 1, 0, 0, 0, 2, 0, 0, 0];
        let mut number = <u32 as Payload>::blank();
        assert!(u32::replace(&mut number, &bytes[1..5]));
        assert_eq!(number.to_le(), 1);
        assert!(!u32::replace(&mut number, &bytes[1..4]));
        let mut numbers = <[u32] as Payload>::blank();
        assert!(<[u32]>::replace(&mut numbers, &bytes[1..]));
        assert_eq!(numbers, [1_u32.to_le(), 2_u32.to_le()]);
        assert!(!<[u32]>::replace(&mut numbers, &bytes));
        assert_eq!(numbers.len(), 2);
        assert!(<[u32]>::replace(&mut numbers, &[]));
        assert_eq!(numbers, []);
        assert!(!<[()]>::replace(&mut Vec::new(), &[]), "a slice of nothing has no length");
    }
}
