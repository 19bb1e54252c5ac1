//! Texts and lists that lie in a struct: a length and room for so many bytes or items.
//!
//! Every bit pattern is a value, because a message may be of any program: a length beyond the room
//! counts as the room, and a text is checked when it is read as one. In a description they are
//! structs of two fields, which other languages declare as they are.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::str::Utf8Error;

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::{Describe, Field, Item, Number, Struct};
use crate::Plain;

/// A text of at most `N` bytes that lies where it is declared.
///
/// In C it is `OUTLIVE_INLINE_STRING(N)`, in C++ `outlive::inline_string<N>`, in Python `"text[N]"`.
/// There it lies at a multiple of 4 bytes, so a type that is described has it there, too; one whose
/// `N` is no multiple of 4 does not compile with [`described`](crate::topic::TopicOptions::described).
///
/// ```
/// use outlive::describe::InlineString;
/// let name = InlineString::<32>::new("größe").expect("it has room");
/// assert_eq!((name.to_str(), name.as_bytes().len()), (Ok("größe"), 7));
/// assert!(InlineString::<4>::new("größe").is_none());
/// ```
/// ```compile_fail
/// use outlive::describe::{Describe, InlineString};
/// InlineString::<5>::describe();
/// ```
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InlineString<const N: usize> {
    /// In native byte order. Not a number, so that no `N` leaves padding behind the bytes.
    length: [u8; 4],
    bytes: [u8; N],
}

impl<const N: usize> InlineString<N> {
    /// Returns the text, or `None` if it has more than `N` bytes.
    #[must_use]
    pub fn new(text: &str) -> Option<InlineString<N>> {
        let mut this = InlineString::default();
        this.set(text).then_some(this)
    }

    /// Writes another text there; returns false, and leaves the old one, if it has more than `N`
    /// bytes.
    pub fn set(&mut self, text: &str) -> bool {
        let Some((used, rest)) = self.bytes.split_at_mut_checked(text.len()) else { return false };
        used.copy_from_slice(text.as_bytes());
        rest.fill(0);
        self.length = (text.len() as u32).to_ne_bytes();
        true
    }

    /// Returns its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..(u32::from_ne_bytes(self.length) as usize).min(N)]
    }

    /// Returns the text.
    ///
    /// # Errors
    /// [`Utf8Error`] when its writer has put other bytes there.
    pub fn to_str(&self) -> Result<&str, Utf8Error> {
        core::str::from_utf8(self.as_bytes())
    }
}

impl<const N: usize> Default for InlineString<N> {
    fn default() -> InlineString<N> {
        InlineString { length: [0; 4], bytes: [0; N] }
    }
}

impl<const N: usize> PartialEq for InlineString<N> {
    fn eq(&self, other: &InlineString<N>) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl<const N: usize> PartialEq<str> for InlineString<N> {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl<const N: usize> Eq for InlineString<N> {}

/// Writes the text; bytes that are no text become `U+FFFD`.
impl<const N: usize> fmt::Display for InlineString<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl<const N: usize> fmt::Debug for InlineString<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.as_bytes()), f)
    }
}

impl<const N: usize> Describe for InlineString<N> {
    const NAME: &'static str = "";

    fn describe() -> (Item, Vec<u32>) {
        const {
            assert!(N <= u32::MAX as usize - 4, "a length has 32 bits");
            // They pad a struct to its alignment, which is that of its length.
            assert!(
                N.is_multiple_of(4),
                "a text in place that is described has room for a multiple of 4 bytes: other \
                 languages cannot declare another one"
            );
        };
        (Item::Struct(Struct::text(N as u32)), Vec::new())
    }
}

/// A list of at most `N` items that lies where it is declared. The items are of a type whose
/// alignment is at most 8.
///
/// In C it is `OUTLIVE_INLINE_VEC(T, N)`, in C++ `outlive::inline_vec<T, N>`, in Python `"list[T][N]"`.
/// There it lies at a multiple of 8 bytes, so a type that is described has it there, too; one with room
/// for another number of bytes does not compile with
/// [`described`](crate::topic::TopicOptions::described).
///
/// ```
/// use outlive::describe::InlineVec;
/// let mut ranges = InlineVec::<f32, 4>::from_slice(&[0.5, 1.5]).expect("it has room");
/// ranges.push(2.5).expect("it has room");
/// assert_eq!(&ranges[..], [0.5, 1.5, 2.5]);
/// ranges[0] = 0.25;
/// assert!(ranges.push(3.5).is_ok() && ranges.push(4.5) == Err(4.5));
/// ```
/// ```compile_fail
/// use outlive::describe::{Describe, InlineVec};
/// InlineVec::<f32, 3>::describe();                    // 12 bytes
/// ```
#[derive(FromBytes, Immutable, KnownLayout)]
// No field is aligned to more than 8, so the items follow the length whatever they are.
#[repr(C, packed(8))]
pub struct InlineVec<T: Plain, const N: usize> {
    /// In native byte order.
    length: [u8; 8],
    items: [T; N],
}

// SAFETY: no padding: the items begin at 8 because of `packed(8)`, and have none themselves. The
// struct's alignment is that of `T`, at most 8, and 8 and the items' size are multiples of it. All
// of its bytes are initialised, because `T: Plain` has none that are not.
unsafe impl<T: Plain, const N: usize> IntoBytes for InlineVec<T, N> {
    fn only_derive_is_allowed_to_implement_this_trait() {}
}

impl<T: Plain + Copy, const N: usize> Copy for InlineVec<T, N> {}

impl<T: Plain + Copy, const N: usize> Clone for InlineVec<T, N> {
    fn clone(&self) -> InlineVec<T, N> {
        *self
    }
}

impl<T: Plain, const N: usize> InlineVec<T, N> {
    /// Items that want a larger alignment would not have it here.
    const ROOM: () = assert!(align_of::<T>() <= 8, "items are aligned to at most 8 bytes");

    /// Returns an empty list.
    #[must_use]
    pub fn new() -> InlineVec<T, N> {
        let () = Self::ROOM;
        Self::new_zeroed()
    }

    /// Returns a list of these items, or `None` if they are more than `N`.
    #[must_use]
    pub fn from_slice(items: &[T]) -> Option<InlineVec<T, N>>
    where
        T: Copy,
    {
        let mut this = InlineVec::new();
        this.room_mut().get_mut(..items.len())?.copy_from_slice(items);
        this.length = (items.len() as u64).to_ne_bytes();
        Some(this)
    }

    /// Adds an item.
    ///
    /// # Errors
    /// The item, when there is no room for it.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        let length = self.used();
        match self.room_mut().get_mut(length) {
            Some(place) => {
                *place = item;
                self.length = (length as u64 + 1).to_ne_bytes();
                Ok(())
            }
            None => Err(item),
        }
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.length = [0; 8];
    }

    /// How many items there are.
    fn used(&self) -> usize {
        usize::try_from(u64::from_ne_bytes(self.length)).unwrap_or(N).min(N)
    }

    /// The room for items, of which all are values.
    fn room(&self) -> &[T; N] {
        let () = Self::ROOM;
        let items = &raw const self.items;
        // SAFETY: the items lie in `self`, and are aligned: at an offset of 8 in a struct whose
        // alignment is that of `T`, which is at most 8 (`ROOM`).
        unsafe { &*items }
    }

    fn room_mut(&mut self) -> &mut [T; N] {
        let () = Self::ROOM;
        let items = &raw mut self.items;
        // SAFETY: the items lie in `self`, which is borrowed mutably for as long, and are aligned,
        // because their offset is 8 and `T` is aligned to at most 8 (`ROOM`).
        unsafe { &mut *items }
    }
}

impl<T: Plain, const N: usize> Default for InlineVec<T, N> {
    fn default() -> InlineVec<T, N> {
        InlineVec::new()
    }
}

impl<T: Plain, const N: usize> Deref for InlineVec<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.room()[..self.used()]
    }
}

impl<T: Plain, const N: usize> DerefMut for InlineVec<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        let used = self.used();
        &mut self.room_mut()[..used]
    }
}

impl<T: Plain + PartialEq, const N: usize> PartialEq for InlineVec<T, N> {
    fn eq(&self, other: &InlineVec<T, N>) -> bool {
        self[..] == other[..]
    }
}

impl<T: Plain + fmt::Debug, const N: usize> fmt::Debug for InlineVec<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self[..], f)
    }
}

impl<T: Describe, const N: usize> Describe for InlineVec<T, N> {
    const NAME: &'static str = "";

    fn describe() -> (Item, Vec<u32>) {
        const {
            assert!(size_of::<Self>() <= 1 << 30 && N <= 1 << 30, "at most 1 GiB");
            // They pad a struct to its alignment, which is that of its length.
            assert!(
                size_of::<Self>().is_multiple_of(8),
                "a list in place that is described has room for a multiple of 8 bytes: other \
                 languages cannot declare another one"
            );
        };
        let (item, inner) = T::describe();
        let extents = core::iter::once(N as u32).chain(inner).collect();
        let items = Field { name: "items".into(), offset: 8, extents, item };
        let fields = vec![length(Number::U64), items];
        let (size, align) = (size_of::<Self>() as u32, align_of::<Self>() as u32);
        (Item::Struct(Struct { size, align, fields }), Vec::new())
    }
}

fn length(number: Number) -> Field {
    Field { name: "length".into(), offset: 0, extents: Vec::new(), item: Item::Number(number) }
}

impl Struct {
    /// Returns the fields of a text of at most so many bytes: [`InlineString`].
    #[must_use]
    pub fn text(bytes: u32) -> Struct {
        let item = Item::Number(Number::U8);
        let text = Field { name: "bytes".into(), offset: 4, extents: vec![bytes], item };
        Struct { size: bytes.saturating_add(4), align: 1, fields: vec![length(Number::U32), text] }
    }

    /// Returns whether it is a text, whatever language has declared it: a `length` of 32 bits and
    /// `bytes` behind it.
    #[must_use]
    pub fn is_text(&self) -> bool {
        match &self.fields[..] {
            [head, text] => {
                *head == length(Number::U32)
                    && (text.name.as_str(), text.offset) == ("bytes", 4)
                    && text.item == Item::Number(Number::U8)
                    && text.extents.len() == 1
            }
            _ => false,
        }
    }

    /// Returns whether it is a list, whatever language has declared it: a `length` of 64 bits and an
    /// array of `items` behind it.
    #[must_use]
    pub fn is_list(&self) -> bool {
        match &self.fields[..] {
            [head, items] => {
                *head == length(Number::U64)
                    && (items.name.as_str(), items.offset) == ("items", 8)
                    && !items.extents.is_empty()
            }
            _ => false,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Any bytes are a value, and no length makes a read go beyond the room.
    #[test]
    fn a_length_beyond_the_room_counts_as_the_room() {
        let text = InlineString::<8>::read_from_bytes(&[0xff; 12]).expect("as long as it is");
        assert_eq!(text.as_bytes(), [0xff; 8]);
        assert!(text.to_str().is_err());
        let mut list = InlineVec::<u32, 4>::read_from_bytes(&[0xff; 24]).expect("as long as it is");
        assert_eq!(&list[..], [u32::MAX; 4]);
        assert_eq!(list.push(1), Err(1));
        list.clear();
        assert_eq!((list.push(1), list.len()), (Ok(()), 1));
    }

    #[test]
    fn another_text_leaves_nothing_of_the_one_before() {
        let mut text = InlineString::<8>::new("longer").expect("room");
        assert!(text.set("ab") && !text.set("much longer"));
        assert_eq!(
            zerocopy::IntoBytes::as_bytes(&text),
            [2, 0, 0, 0, b'a', b'b', 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(
            (text == *"ab", text.to_string(), format!("{text:?}")),
            (true, "ab".into(), "\"ab\"".into())
        );
    }
}
