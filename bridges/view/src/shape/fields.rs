//! The fields of a message by their names, as its description has them: numbers of any type, texts, lists.
//!
//! The bytes are a publisher's, and may be anything. No length in them is believed beyond the bytes that
//! are there.

use outlive::describe::{Description, Field, Item, Number, Struct};

/// A struct within a message.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    shape: &'a Struct,
    bytes: &'a [u8],
    /// The items that follow the message's own struct.
    tail: Option<(&'a Field, &'a [u8])>,
}

/// Items that lie one behind the other.
#[derive(Clone, Copy)]
pub struct Items<'a> {
    /// What each consists of.
    pub item: &'a Item,
    /// The extents of each, if it is an array.
    pub extents: &'a [u32],
    /// The bytes of each.
    pub each: usize,
    /// All of them, whole.
    pub bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Returns the fields of a message, `None` if it is no struct, or not as long as its description says.
    pub fn of(description: &'a Description, bytes: &'a [u8]) -> Option<Fields<'a>> {
        if description.is_slice()
            || description.single().is_some()
            || !description.fits(bytes.len())
        {
            return None;
        }
        let (head, rest) = bytes.split_at_checked(usize::try_from(description.size()).ok()?)?;
        let tail = description.tail().map(|tail| (tail, rest));
        Some(Fields { shape: description.shape(), bytes: head, tail })
    }

    fn of_item(items: &Items<'a>, bytes: &'a [u8]) -> Option<Fields<'a>> {
        match items.item {
            Item::Struct(shape) if items.extents.is_empty() => {
                Some(Fields { shape, bytes, tail: None })
            }
            _ => None,
        }
    }

    fn field(&self, names: &[&str]) -> Option<(&'a Field, &'a [u8])> {
        let field = names
            .iter()
            .find_map(|name| self.shape.fields.iter().find(|field| field.name == *name))?;
        let end = u64::from(field.offset).checked_add(field.bytes())?;
        Some((field, self.bytes.get(field.offset as usize..usize::try_from(end).ok()?)?))
    }

    /// Returns the first field of these names that is a single number.
    pub fn number(&self, names: &[&str]) -> Option<f64> {
        let (field, bytes) = self.field(names)?;
        match &field.item {
            Item::Number(number) if field.extents.is_empty() => value(*number, bytes),
            _ => None,
        }
    }

    /// Returns the first field of these names that is a whole number without a sign.
    pub fn whole(&self, names: &[&str]) -> Option<u32> {
        let number = self.number(names)?;
        (number >= 0.0 && number <= f64::from(u32::MAX) && number.fract() == 0.0)
            .then_some(number as u32)
    }

    /// Returns a field that is a text: one of any language's, or an array of bytes that a zero ends.
    pub fn text(&self, names: &[&str]) -> Option<String> {
        if let Some((tail, rest)) = self.tail
            && names.contains(&&*tail.name)
            && is_bytes(&tail.item)
            && tail.extents.is_empty()
        {
            return Some(String::from_utf8_lossy(rest).into_owned());
        }
        let (field, bytes) = self.field(names)?;
        let text = match &field.item {
            Item::Struct(shape) if shape.is_text() && field.extents.is_empty() => {
                let (length, text) = bytes.split_first_chunk()?;
                let room = shape.fields.get(1)?.extents.first().copied()? as usize;
                text.get(..room.min(u32::from_ne_bytes(*length) as usize).min(text.len()))?
            }
            item if is_bytes(item) && field.extents.len() == 1 => {
                bytes.split(|byte| *byte == 0).next()?
            }
            _ => return None,
        };
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// Returns a field that is a struct.
    pub fn nested(&self, names: &[&str]) -> Option<Fields<'a>> {
        let (field, bytes) = self.field(names)?;
        match &field.item {
            Item::Struct(shape) if field.extents.is_empty() => {
                Some(Fields { shape, bytes, tail: None })
            }
            _ => None,
        }
    }

    /// Returns a field that has any number of items: an array, a list, or the tail.
    pub fn items(&self, names: &[&str]) -> Option<Items<'a>> {
        if let Some((tail, rest)) = self.tail
            && names.contains(&&*tail.name)
        {
            return Items::new(&tail.item, &tail.extents, u64::MAX, rest);
        }
        let (field, bytes) = self.field(names)?;
        match (&field.item, &field.extents[..]) {
            (Item::Struct(list), []) if list.is_list() => {
                let items = list.fields.get(1)?;
                let (room, inner) = items.extents.split_first()?;
                let (length, bytes) = bytes.split_first_chunk()?;
                let count = u64::from_ne_bytes(*length).min((*room).into());
                Items::new(&items.item, inner, count, bytes)
            }
            (item, [count, inner @ ..]) => Items::new(item, inner, (*count).into(), bytes),
            _ => None,
        }
    }

    /// Returns so many numbers by these names, of a nested struct, or of an array in this order.
    pub fn vector<const N: usize>(&self, names: &[&str], parts: [&str; N]) -> Option<[f64; N]> {
        let mut vector = [0.0; N];
        if let Some(nested) = self.nested(names) {
            for (at, part) in parts.iter().enumerate() {
                vector[at] = nested.number(&[part])?;
            }
            return Some(vector);
        }
        let items = self.items(names)?;
        for (at, number) in vector.iter_mut().enumerate() {
            *number = items.number(at)?;
        }
        (items.count() == N).then_some(vector)
    }
}

impl<'a> Items<'a> {
    fn new(item: &'a Item, extents: &'a [u32], most: u64, bytes: &'a [u8]) -> Option<Items<'a>> {
        let inner = extents.iter().fold(1_u64, |count, one| count.saturating_mul((*one).into()));
        let each = usize::try_from(inner.checked_mul(item.bytes().into())?).ok()?;
        let count = bytes.len().checked_div(each)?.min(usize::try_from(most).unwrap_or(usize::MAX));
        Some(Items { item, extents, each, bytes: bytes.get(..count * each)? })
    }

    /// Returns the values of a slice, or the items of an array that is all there is.
    pub fn of(description: &'a Description, bytes: &'a [u8]) -> Option<Items<'a>> {
        if !description.fits(bytes.len()) {
            return None;
        }
        let single = description.single();
        match (description.is_slice(), single) {
            (true, Some(field)) => Items::new(&field.item, &field.extents, u64::MAX, bytes),
            (false, Some(field)) => {
                let (count, inner) = field.extents.split_first()?;
                Items::new(&field.item, inner, (*count).into(), bytes)
            }
            _ => None,
        }
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.bytes.len() / self.each.max(1)
    }

    /// Returns one of them that is a number.
    pub fn number(&self, at: usize) -> Option<f64> {
        match self.item {
            Item::Number(number) if self.extents.is_empty() => {
                value(*number, self.bytes.get(at * self.each..(at + 1) * self.each)?)
            }
            _ => None,
        }
    }

    /// Returns them, if they are numbers.
    pub fn numbers(&self) -> Option<Vec<f64>> {
        let Item::Number(number) = self.item else { return None };
        if !self.extents.is_empty() {
            return None;
        }
        self.bytes.chunks_exact(self.each).map(|bytes| value(*number, bytes)).collect()
    }

    /// Whether an empty item of this kind is that.
    pub fn is_each(&self, is: impl Fn(&Fields<'_>) -> bool) -> bool {
        let empty = vec![0; self.each];
        let one = Items { bytes: &empty, ..*self };
        one.structs().is_some_and(|all| all.iter().all(is))
    }

    /// Returns them, if they are structs.
    pub fn structs(&self) -> Option<Vec<Fields<'a>>> {
        self.bytes.chunks_exact(self.each).map(|bytes| Fields::of_item(self, bytes)).collect()
    }
}

/// The values of a slice of structs.
pub fn values<'a>(description: &'a Description, bytes: &'a [u8]) -> Option<Vec<Fields<'a>>> {
    let is_it = description.is_slice() && description.single().is_none();
    if !is_it || !description.fits(bytes.len()) {
        return None;
    }
    let each = usize::try_from(description.size()).ok()?;
    let value = |bytes| Fields { shape: description.shape(), bytes, tail: None };
    Some(bytes.chunks_exact(each.max(1)).map(value).collect())
}

/// Whether these are bytes.
pub fn is_bytes(item: &Item) -> bool {
    *item == Item::Number(Number::U8)
}

fn value(number: Number, bytes: &[u8]) -> Option<f64> {
    macro_rules! of {
        ($type:ty) => {
            <$type>::from_ne_bytes(bytes.try_into().ok()?) as f64
        };
    }
    Some(match number {
        Number::Bool | Number::U8 => of!(u8),
        Number::I8 => of!(i8),
        Number::U16 => of!(u16),
        Number::I16 => of!(i16),
        Number::U32 => of!(u32),
        Number::I32 => of!(i32),
        Number::U64 => of!(u64),
        Number::I64 => of!(i64),
        Number::F32 => of!(f32),
        Number::F64 => of!(f64),
        _ => return None,
    })
}
