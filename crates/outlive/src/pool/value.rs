//! A value of a plain type in a pool, instead of bytes.
//!
//! What is handed over says of which type it is: in its note, where that of plain bytes has their length.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use super::error::PoolError;
use super::object::{Object, Offset};
use super::pool::Pool;
use crate::Peer;
use crate::sync::Plain;

/// A type, as a note has it: bit 31, and as much of the type's name, size and alignment as fits besides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    note: u32,
    size: u32,
}

const TYPED: u32 = 1 << 31;

impl PartialEq for Stamp {
    fn eq(&self, other: &Stamp) -> bool {
        self.note == other.note
    }
}

impl Stamp {
    fn of<T>() -> Stamp {
        const { assert!(size_of::<T>() <= super::pool::LARGEST_OBJECT) };
        let facts = [size_of::<T>() as u64, align_of::<T>() as u64].map(u64::to_le_bytes);
        let bytes = core::any::type_name::<T>().bytes().chain(facts.into_iter().flatten());
        // FNV-1a.
        let hash =
            bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Stamp { note: TYPED | (hash >> 32 ^ hash) as u32, size: size_of::<T>() as u32 }
    }

    /// `None` of plain bytes. Its size is only known to who has the type.
    pub(super) fn of_note(note: u32) -> Option<Stamp> {
        (note & TYPED != 0).then_some(Stamp { note, size: 0 })
    }

    pub(super) fn size(self) -> u32 {
        self.size
    }
}

/// A value in a [`Pool`]: this process's alone until it is dropped, which frees its memory, or handed over.
///
/// Its type is one of which every bit pattern is a value ([`Plain`]), so nothing that another process writes makes it
/// unsound. The type goes with the offset: what was offered as one type, or as plain bytes, is not claimed as another. It is
/// known by its full name (as [`core::any::type_name`] has it), size and alignment, so programs of the same crates agree; of
/// the name 31 bits are kept.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-pooled-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// # use outlive::pool::{Pool, PoolError, PoolOptions};
/// # let pool = Pool::open(&domain, "poses", PoolOptions::default())?;
/// let mut pose = pool.alloc_value([0.0_f64; 3])?;
/// pose[2] = 1.5;
/// let offset = pose.into_offset()?;               // to whoever claims it
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
/// As with [`Object`].
#[must_use = "a value that is dropped is freed"]
pub struct Pooled<'p, T> {
    object: Object<'p>,
    _type: PhantomData<T>,
}

impl Pool {
    /// Takes memory for a value, and puts it there.
    ///
    /// # Errors
    /// As [`Pool::alloc_aligned`].
    ///
    /// # If a process dies
    /// As with [`Pool::alloc`].
    pub fn alloc_value<T: Plain>(&self, value: T) -> Result<Pooled<'_, T>, PoolError> {
        let mut object = match align_of::<T>() {
            0..=16 => self.alloc(size_of::<T>())?,
            align => self.alloc_aligned(size_of::<T>(), align)?,
        };
        // SAFETY: of that size, at an address of that alignment; this process's alone.
        unsafe { object.as_mut_ptr().cast::<T>().write(value) };
        Ok(Pooled { object, _type: PhantomData })
    }

    /// Takes over a value that somebody has handed over.
    ///
    /// # Errors
    /// As [`Pool::claim`]; [`PoolError::OtherType`] when it was offered as another type, or as plain bytes: it is offered
    /// still.
    ///
    /// # If a process dies
    /// As with [`Pool::claim`].
    pub fn claim_value<T: Plain>(&self, offset: Offset) -> Result<Pooled<'_, T>, PoolError> {
        let object = self.claim_as(offset, Some(Stamp::of::<T>()))?;
        // Somebody has written over the note, or two types have one stamp: their alignments may differ.
        if !(object.as_ptr() as usize).is_multiple_of(align_of::<T>()) {
            return Err(PoolError::OtherType);
        }
        Ok(Pooled { object, _type: PhantomData })
    }
}

impl<'p, T: Plain> Pooled<'p, T> {
    /// Frees it, as dropping it does, and says whether that was in order.
    ///
    /// # Errors
    /// As [`Object::free`].
    ///
    /// # If a process dies
    /// As with [`Object::free`].
    pub fn free(self) -> Result<(), PoolError> {
        self.object.free()
    }

    /// Hands it to whoever claims it as a value of this type: [`Pool::claim_value`].
    ///
    /// # Errors
    /// As [`Object::into_offset`].
    ///
    /// # If a process dies
    /// As with [`Object::into_offset`].
    pub fn into_offset(self) -> Result<Offset, PoolError> {
        self.object.offer(None, Stamp::of::<T>().note)
    }

    /// Hands it to that process, or thread.
    ///
    /// # Errors
    /// As [`Object::into_offset_for`].
    ///
    /// # If a process dies
    /// As with [`Object::into_offset_for`].
    pub fn into_offset_for(self, to: &Peer) -> Result<Offset, PoolError> {
        self.object.offer(Some(to.id()), Stamp::of::<T>().note)
    }

    /// Its bytes, as an object like any other.
    pub fn into_object(self) -> Object<'p> {
        self.object
    }
}

impl<T: Plain> Deref for Pooled<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: of that size and alignment, which was checked when it was made; all bit patterns are values.
        unsafe { &*self.object.as_ptr().cast() }
    }
}

impl<T: Plain> DerefMut for Pooled<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and borrowed for us alone.
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
        let stamps =
            [Stamp::of::<u64>(), Stamp::of::<i64>(), Stamp::of::<f64>(), Stamp::of::<[u32; 2]>(), Stamp::of::<()>()];
        for (at, one) in stamps.iter().enumerate() {
            assert_eq!(stamps.iter().position(|other| other == one), Some(at));
            assert_eq!(Stamp::of_note(one.note), Some(*one));
        }
        assert_eq!(Stamp::of_note(1 << 30), None, "the length of the largest object");
    }
}
