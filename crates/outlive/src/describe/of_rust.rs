//! Descriptions of Rust types.

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
        let (item, inner) = T::describe();
        (item, core::iter::once(N as u32).chain(inner).collect())
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
