//! The bytes of a request or a reply: a copy of short ones; long ones where they lie.

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;

use super::error::CallError;
use super::in_place::InPlace;
use super::layout::INLINE;
use crate::Payload;

/// See the file's head.
pub(super) enum Bytes {
    Short {
        len: u8,
        bytes: [MaybeUninit<u8>; INLINE],
    },
    /// A copy of what a slot holds.
    Long(Vec<u8>),
    Object(InPlace),
}

impl Bytes {
    /// # Safety
    /// The caller guarantees that `len` bytes lie at `from`.
    #[inline]
    pub(super) unsafe fn copy(from: *const u8, len: usize) -> Bytes {
        if len <= INLINE {
            let mut bytes = [MaybeUninit::uninit(); INLINE];
            // SAFETY: the caller guarantees `len` bytes at `from`, and the array has room for
            // INLINE.
            unsafe { core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr().cast(), len) };
            return Bytes::Short { len: len as u8, bytes };
        }
        let mut bytes = Vec::with_capacity(len);
        // SAFETY: the caller guarantees `len` bytes at `from`, and `with_capacity` made room for as
        // many.
        unsafe {
            core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len);
            bytes.set_len(len);
        }
        Bytes::Long(bytes)
    }

    /// Returns the value of these bytes, whose length fits.
    pub(super) fn value<M: Payload + ?Sized>(&self) -> M::Owned {
        let mut value = M::blank();
        let fits = M::replace(&mut value, self);
        debug_assert!(fits, "`fits` has said so");
        value
    }
}

/// No bytes.
impl Default for Bytes {
    fn default() -> Bytes {
        Bytes::Long(Vec::new())
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            // SAFETY: `copy` has initialized the first `len` bytes.
            Bytes::Short { len, bytes } => unsafe {
                core::slice::from_raw_parts(bytes.as_ptr().cast(), usize::from(*len))
            },
            Bytes::Long(bytes) => bytes,
            Bytes::Object(object) => object,
        }
    }
}

/// A server's reply: a copy of a short one; a long one lies in the service's memory, which has it
/// back when the reply is dropped. A reply of bytes is a slice of them;
/// one of another type has its [`value`](Reply::value).
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-reply-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// # let service = outlive::rpc::Service::<[u8], [u8]>::open_or_create(&domain, "echo")?;
/// # let (mut server, client) = (service.server()?, service.client()?);
/// # let call = client.begin(b"abc")?;
/// # let request = server.next()?;
/// # let payload = request.to_vec();
/// # request.reply(&payload)?;
/// let reply = call.wait()?;
/// assert_eq!(reply.len(), 3);
/// assert_eq!(reply.into_vec(), b"abc");
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reply<R: Payload + ?Sized = [u8]> {
    bytes: Bytes,
    _type: PhantomData<fn(&R)>,
}

impl<R: Payload + ?Sized> Reply<R> {
    #[inline]
    pub(super) fn new(bytes: Bytes) -> Result<Reply<R>, CallError> {
        if !R::METADATA.fits(bytes.len()) {
            return Err(CallError::Encoding(R::METADATA.other_length()));
        }
        Ok(Reply { bytes, _type: PhantomData })
    }

    /// Returns a copy of the reply's value; of a slice, a `Vec`.
    #[must_use]
    pub fn value(&self) -> R::Owned {
        self.bytes.value::<R>()
    }
}

impl Reply {
    pub(super) fn of(bytes: Bytes) -> Reply {
        Reply { bytes, _type: PhantomData }
    }

    /// Returns a copy of the bytes as a vector, and gives the service its memory back.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.bytes {
            Bytes::Long(bytes) => bytes,
            other => other.to_vec(),
        }
    }
}

impl Deref for Reply {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Reply {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<R: Payload + ?Sized> fmt::Debug for Reply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reply").field(&&*self.bytes).finish()
    }
}
