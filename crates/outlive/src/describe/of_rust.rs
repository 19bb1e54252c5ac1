//! Descriptions of Rust types.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Description, Encoding, Item, Number, Struct};
use crate::{Payload, Plain};

/// Marks types of which a [`Description`](super::Description) can be made: numbers, arrays of
/// described types, and structs that derive [`Payload`](macro@crate::Payload).
pub trait Describe: Plain {
    /// The type's name, the same in all languages; numbers and arrays have none.
    const NAME: &'static str;

    /// Returns what the type consists of, and its extents if it is an array.
    fn describe() -> (Item, Vec<u32>);
}

macro_rules! numbers {
    ($($number:ident $of:ident),*) => { $(
        impl Describe for $number {
            const NAME: &'static str = "";

            fn describe() -> (Item, Vec<u32>) {
                (Item::Number(Number::$of), Vec::new())
            }
        }
    )* };
}

numbers!(u8 U8, i8 I8, u16 U16, i16 I16, u32 U32, i32 I32, u64 U64, i64 I64, f32 F32, f64 F64);

impl<T: Describe, const N: usize> Describe for [T; N] {
    const NAME: &'static str = "";

    fn describe() -> (Item, Vec<u32>) {
        const { assert!(N <= u32::MAX as usize, "an extent has 32 bits") };
        let (item, inner) = T::describe();
        (item, core::iter::once(N as u32).chain(inner).collect())
    }
}

/// A `bool` of a payload: what C, C++ and Python call `bool` in their structs. A Rust `bool` can
/// be no part of a payload, because a byte that is neither 0 nor 1 would be no value of it; here
/// every byte but 0 is true.
///
/// ```
/// use outlive::describe::{Description, Flag};
/// let mut is_open = Flag::from(true);
/// assert!(is_open.get());
/// is_open.set(false);
/// assert_eq!(is_open, false.into());
/// assert_eq!(Description::of::<[Flag; 3]>().to_string(), "bool[3]");
/// ```
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Flag(u8);

impl Flag {
    /// Returns whether it is true.
    #[must_use]
    pub const fn get(self) -> bool {
        self.0 != 0
    }

    /// Sets it to 0 or 1.
    pub const fn set(&mut self, to: bool) {
        self.0 = to as u8;
    }
}

impl From<bool> for Flag {
    fn from(of: bool) -> Flag {
        Flag(of.into())
    }
}

impl From<Flag> for bool {
    fn from(of: Flag) -> bool {
        of.get()
    }
}

impl PartialEq for Flag {
    fn eq(&self, other: &Flag) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Flag {}

impl fmt::Debug for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

impl Describe for Flag {
    const NAME: &'static str = "";

    fn describe() -> (Item, Vec<u32>) {
        (Item::Number(Number::Bool), Vec::new())
    }
}

/// Marks messages whose type has a [`Description`]: values of a [`Describe`] type, and slices of
/// one. Of `[u8]` it says that these are bytes.
pub trait Described: Payload {
    /// Returns the description.
    fn description() -> Description;
}

impl<T: Describe> Described for T {
    fn description() -> Description {
        Description::of::<T>()
    }
}

impl<T: Describe> Described for [T] {
    fn description() -> Description {
        let one = Description::of::<T>();
        if Self::METADATA.is_bytes() {
            let shape = Struct { size: 0, align: 1, fields: Vec::new() };
            return Description { encoding: Encoding::Bytes, shape, ..one };
        }
        Description { is_slice: true, ..one }
    }
}
