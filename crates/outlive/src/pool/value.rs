//! A value of a plain type in a pool, instead of bytes.
//!
//! Behind the value, at the next multiple of 8, is its type's stamp, 8 bytes. The offset of a value
//! is marked as one, so that it is not claimed as bytes by mistake; the stamp decides.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use super::error::PoolError;
use super::inner::LARGEST_OBJECT;
use super::object::Object;
use super::pool::Pool;
use super::share::Offset;
use crate::Peer;
use crate::Plain;
use crate::segment::fnv_1a;

const STAMP: usize = size_of::<u64>();

/// Returns the bytes of a value and its stamp.
const fn len_of<T>() -> usize {
    let len = size_of::<T>().next_multiple_of(STAMP) + STAMP;
    assert!(len <= LARGEST_OBJECT);
    len
}

/// Returns the stamp: a hash of the type's name, size and alignment.
fn stamp_of<T>() -> [u8; STAMP] {
    let facts = [size_of::<T>() as u64, align_of::<T>() as u64].map(u64::to_le_bytes);
    fnv_1a(core::any::type_name::<T>().bytes().chain(facts.into_iter().flatten())).to_le_bytes()
}

/// A value in a [`Pool`] that belongs to this process alone, until it is freed or handed over.
/// Dropping it frees its memory.
///
/// Every bit pattern of its type is a value ([`Plain`]), so nothing that another process writes
/// makes it unsound. The type goes with the offset: a value that was offered as one type, or as
/// plain bytes, is not claimed as another. The type is identified by 64 bits of its full name (as
/// [`core::any::type_name`] has it), size and alignment, so programs of the same crates agree.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-pooled-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// # use outlive::pool::{Pool, PoolError};
/// # let pool = Pool::open_or_create(&domain, "poses")?;
/// let mut pose = pool.alloc_value([0.0_f64; 3])?;
/// pose[2] = 1.5;
/// let offset = pose.into_offset()?;               // for the process that claims it
///
/// assert_eq!(pool.claim_value::<[u64; 3]>(offset).unwrap_err(), PoolError::OtherType);
/// let pose = pool.claim_value::<[f64; 3]>(offset)?;
/// assert_eq!(*pose, [0.0, 0.0, 1.5]);
/// # drop(pose);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// The same as with [`Object`].
#[must_use = "a value that is dropped is freed"]
pub struct Pooled<'p, T> {
    object: Object<'p>,
    _type: PhantomData<T>,
}

impl Pool {
    /// Allocates memory for a value, and moves the value there.
    ///
    /// # Errors
    /// The errors of [`Pool::alloc_aligned`].
    ///
    /// # If a process dies
    /// The same as with [`Pool::alloc`].
    pub fn alloc_value<T: Plain>(&self, value: T) -> Result<Pooled<'_, T>, PoolError> {
        let len = const { len_of::<T>() };
        let mut object = match align_of::<T>() {
            0..=16 => self.alloc(len)?,
            align => self.alloc_aligned(len, align)?,
        };
        object[len - STAMP..].copy_from_slice(&stamp_of::<T>());
        // SAFETY: `alloc_aligned` gave memory of that size and alignment, which this process alone
        // has.
        unsafe { object.as_mut_ptr().cast::<T>().write(value) };
        Ok(Pooled { object, _type: PhantomData })
    }

    /// Takes over a value that another process has handed over.
    ///
    /// # Errors
    /// The errors of [`Pool::claim`]; [`PoolError::OtherType`] when it was offered as another
    /// type, or as plain bytes: then it stays offered.
    ///
    /// # If a process dies
    /// The same as with [`Pool::claim`]. If this process dies while it looks at a value of another
    /// type, that one is free once the process has ended.
    pub fn claim_value<T: Plain>(&self, offset: Offset) -> Result<Pooled<'_, T>, PoolError> {
        let (object, offered) = self.claim_any(offset)?;
        let is_one = object.len() == len_of::<T>()
            && object[object.len() - STAMP..] == stamp_of::<T>()
            // The stamp was overwritten, or two types have the same one.
            && (object.as_ptr() as usize).is_multiple_of(align_of::<T>());
        if !is_one {
            object.offer_again(offered);
            return Err(PoolError::OtherType);
        }
        Ok(Pooled { object, _type: PhantomData })
    }
}

impl<'p, T: Plain> Pooled<'p, T> {
    /// Frees the value's memory, as a drop does, and returns whether that succeeded.
    ///
    /// # Errors
    /// The errors of [`Object::free`].
    ///
    /// # If a process dies
    /// The same as with [`Object::free`].
    pub fn free(self) -> Result<(), PoolError> {
        self.object.free()
    }

    /// Hands the value over to the process that claims it as a value of this type:
    /// [`Pool::claim_value`].
    ///
    /// # Errors
    /// The errors of [`Object::into_offset`].
    ///
    /// # If a process dies
    /// The same as with [`Object::into_offset`].
    pub fn into_offset(self) -> Result<Offset, PoolError> {
        Ok(self.object.into_offset()?.of_value())
    }

    /// Hands the value over to that process, or thread.
    ///
    /// # Errors
    /// The errors of [`Object::into_offset_for`].
    ///
    /// # If a process dies
    /// The same as with [`Object::into_offset_for`].
    pub fn into_offset_for(self, to: &Peer) -> Result<Offset, PoolError> {
        Ok(self.object.into_offset_for(to)?.of_value())
    }

    /// Returns its bytes, as an object like any other.
    pub fn into_object(self) -> Object<'p> {
        self.object.cut(size_of::<T>())
    }
}

impl<T: Plain> Deref for Pooled<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: of T's size and alignment, checked when it was made or claimed; all bit patterns
        // are values.
        unsafe { &*self.object.as_ptr().cast() }
    }
}

impl<T: Plain> DerefMut for Pooled<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: of T's size and alignment, checked when it was made or claimed; `&mut self` makes
        // this the only reference.
        unsafe { &mut *self.object.as_mut_ptr().cast() }
    }
}

impl<T: Plain + core::fmt::Debug> core::fmt::Debug for Pooled<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Pooled").field(&**self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_stamps_of_their_own() {
        let stamps = [
            stamp_of::<u64>(),
            stamp_of::<i64>(),
            stamp_of::<f64>(),
            stamp_of::<[u32; 2]>(),
            stamp_of::<()>(),
        ];
        for (at, one) in stamps.iter().enumerate() {
            assert_eq!(stamps.iter().position(|other| other == one), Some(at));
        }
        assert_eq!((len_of::<()>(), len_of::<u8>(), len_of::<[u64; 3]>()), (8, 16, 32));
    }
}
