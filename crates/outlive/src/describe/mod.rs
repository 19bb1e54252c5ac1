//! The description of a payload's type, the same for all languages: what lies where in a message.
//!
//! A thing whose maker gave a description keeps it in its file, and opens for the same description
//! alone, whatever language it comes from; [`Error::OtherType`] names the first field that differs.
//! Where either side has none, the name, size and alignment of the type are compared, as ever.
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("outlive-doc-describe-{}", std::process::id()));
//! # let domain = outlive::Domain::open_or_create_at(&folder)?;
//! use outlive::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
//! use outlive::{Error, Payload, topic::Topic};
//!
//! #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
//! #[repr(C)]
//! struct Pose {
//!     position: [f64; 3],
//!     heading: f32,
//!     frame: u32,
//! }
//!
//! let topic = Topic::<Pose>::options().described().open_or_create(&domain, "pose")?;
//! let description = topic.description()?.expect("its maker gave one");
//! assert_eq!(description.to_string(), "Pose { position: f64[3], heading: f32, frame: u32 }");
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), Error>(())
//! ```

mod binary;
mod compare;
mod flaws;
mod inline;
mod of_rust;
mod shown;
mod tail;

pub use inline::{InlineString, InlineVec};
pub use of_rust::{Describe, Described, Flag};
pub use tail::{HasTail, Tail, WithTail, WithTailBuf};

use crate::{Error, Kind};

/// The most bytes that a description takes in a file.
pub const MOST_DESCRIPTION_BYTES: usize = crate::segment::MOST_PAGE_BYTES;
/// The most fields of a type, those of nested types included.
pub const MOST_FIELDS: usize = 512;
/// How deeply types may be nested.
pub const MOST_DEPTH: usize = 8;
/// The most extents of an array.
pub const MOST_EXTENTS: usize = 4;
/// The most bytes of a name of a type or field.
pub const MOST_NAME: usize = 120;
/// The largest value that a description can be of.
const MOST_BYTES: u64 = 1 << 30;
const MOST_ALIGN: u32 = 4096;

/// The description of a payload's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    name: String,
    encoding: Encoding,
    is_slice: bool,
    shape: Struct,
    /// The items that follow a value, any number of them.
    tail: Option<Field>,
    /// Of a service: its replies. The rest is then of its requests.
    reply: Option<Box<Description>>,
}

/// In what form a payload has its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// As they lie in memory; the description has their fields.
    Raw,
    /// msgpack.
    Msgpack,
    /// CDR, as DDS and ROS 2 have it.
    Cdr,
    /// Protocol Buffers.
    Protobuf,
    /// JSON.
    Json,
    /// Bytes of which no more is known than the name.
    Bytes,
}

/// Encodings, each with its number in files and its name.
const ENCODINGS: [(Encoding, u8, &str); 6] = [
    (Encoding::Raw, 1, "raw"),
    (Encoding::Msgpack, 2, "msgpack"),
    (Encoding::Cdr, 3, "cdr"),
    (Encoding::Protobuf, 4, "protobuf"),
    (Encoding::Json, 5, "json"),
    (Encoding::Bytes, 6, "bytes"),
];

impl Encoding {
    /// Returns the encoding of that name: `raw`, `msgpack`, `cdr`, `protobuf`, `json` or `bytes`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Encoding> {
        ENCODINGS.iter().find(|known| known.2 == name).map(|known| known.0)
    }

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        ENCODINGS.iter().find(|known| known.0 == self).map_or("", |known| known.2)
    }
}

/// A field of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name; the one field of a type that is no struct has none.
    pub name: String,
    /// Where it begins, in bytes from the beginning of the type that it belongs to.
    pub offset: u32,
    /// Of an array its extents, the outermost first; of a single item none.
    pub extents: Vec<u32>,
    /// What it consists of.
    pub item: Item,
}

/// What a field consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item {
    /// A number in native byte order.
    Number(Number),
    /// A nested type.
    Struct(Struct),
}

/// The fields of a type, and its place in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Its size in bytes.
    pub size: u32,
    /// Its alignment in bytes.
    pub align: u32,
    /// Its fields, in the order of their places.
    pub fields: Vec<Field>,
}

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Number {
    /// A byte that is 0 or 1 where its writer keeps to that.
    Bool,
    /// 8 bits, without a sign.
    U8,
    /// 8 bits.
    I8,
    /// 16 bits, without a sign.
    U16,
    /// 16 bits.
    I16,
    /// 32 bits, without a sign.
    U32,
    /// 32 bits.
    I32,
    /// 64 bits, without a sign.
    U64,
    /// 64 bits.
    I64,
    /// A floating-point number of 32 bits.
    F32,
    /// A floating-point number of 64 bits.
    F64,
}

/// Numbers, each with its number in files, its name and its size.
const NUMBERS: [(Number, u8, &str, u32); 11] = [
    (Number::Bool, 1, "bool", 1),
    (Number::U8, 2, "u8", 1),
    (Number::I8, 3, "i8", 1),
    (Number::U16, 4, "u16", 2),
    (Number::I16, 5, "i16", 2),
    (Number::U32, 6, "u32", 4),
    (Number::I32, 7, "i32", 4),
    (Number::U64, 8, "u64", 8),
    (Number::I64, 9, "i64", 8),
    (Number::F32, 10, "f32", 4),
    (Number::F64, 11, "f64", 8),
];

impl Number {
    fn known(self) -> (Number, u8, &'static str, u32) {
        // Each is in the table.
        NUMBERS.into_iter().find(|known| known.0 == self).unwrap_or(NUMBERS[0])
    }

    /// Returns the numbers' type of that name: `bool`, `u8` to `i64`, `f32` or `f64`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Number> {
        NUMBERS.iter().find(|known| known.2 == name).map(|known| known.0)
    }

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.known().2
    }

    /// Returns its bytes, which are also its alignment.
    #[must_use]
    pub fn bytes(self) -> u32 {
        self.known().3
    }
}

impl Item {
    /// Returns the bytes of one item.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        match self {
            Item::Number(number) => number.bytes(),
            Item::Struct(nested) => nested.size,
        }
    }

    /// Returns the alignment of an item.
    #[must_use]
    pub fn align(&self) -> u32 {
        match self {
            Item::Number(number) => number.bytes(),
            Item::Struct(nested) => nested.align,
        }
    }
}

impl Field {
    /// Returns a field of a Rust type: for [`Payload`](macro@crate::Payload).
    #[doc(hidden)]
    #[must_use]
    pub fn of<T: Describe>(name: &str, offset: usize) -> Field {
        const { assert!(size_of::<T>() as u64 <= MOST_BYTES, "at most 1 GiB") };
        let (item, extents) = T::describe();
        Field { name: name.to_owned(), offset: offset as u32, extents, item }
    }

    /// Returns how many items it has: 1 if it is no array.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.extents.iter().fold(1, |count: u64, extent| count.saturating_mul((*extent).into()))
    }

    /// Returns its bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.count().saturating_mul(self.item.bytes().into())
    }
}

impl Description {
    /// Returns the description of a Rust type.
    ///
    /// ```
    /// use outlive::describe::Description;
    /// assert_eq!(Description::of::<[f64; 3]>().to_string(), "f64[3]");
    /// ```
    #[must_use]
    pub fn of<T: Describe>() -> Description {
        const { assert!(size_of::<T>() as u64 <= MOST_BYTES, "at most 1 GiB") };
        let (item, extents) = T::describe();
        let shape = match item {
            Item::Struct(shape) if extents.is_empty() => shape,
            item => Struct {
                size: size_of::<T>() as u32,
                align: align_of::<T>() as u32,
                fields: vec![Field { name: String::new(), offset: 0, extents, item }],
            },
        };
        Description::of_shape(T::NAME, shape)
    }

    /// Returns the description of values of that shape, which is not checked.
    fn of_shape(name: &str, shape: Struct) -> Description {
        Description {
            name: name.to_owned(),
            encoding: Encoding::Raw,
            is_slice: false,
            shape,
            tail: None,
            reply: None,
        }
    }

    /// Makes the description of a type whose values lie in messages as they lie in memory. The name
    /// may be empty, and then matches every name. A type that is no struct has one field without a
    /// name.
    ///
    /// # Errors
    /// [`Error::InvalidOption`], which says what is wrong with the fields.
    pub fn raw(name: &str, shape: Struct) -> Result<Description, Error> {
        Description::of_shape(name, shape).checked()
    }

    /// Makes the description of messages in an encoding of their own; the name says of what, as
    /// `geometry_msgs/msg/Pose`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for [`Encoding::Raw`], whose fields are to be described, and for a
    /// name that is too long.
    pub fn encoded(name: &str, encoding: Encoding) -> Result<Description, Error> {
        if encoding == Encoding::Raw {
            return Err(refused(encoding.name(), "raw values are described by their fields"));
        }
        let shape = Struct { size: 0, align: 1, fields: Vec::new() };
        Description { encoding, ..Description::of_shape(name, shape) }.checked()
    }

    /// Returns the description of a slice of such values: a message has any number of them.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when it is one of a slice already, or not of raw values.
    pub fn slice(mut self) -> Result<Description, Error> {
        if self.reply.is_some() {
            return Err(refused(&self.name, "requests and replies are described by themselves"));
        }
        self.is_slice = !self.is_slice;
        if self.is_slice { self.checked() } else { Err(refused(&self.name, "a slice of slices")) }
    }

    /// Returns the description of such a value with a tail: any number of items behind it, of which
    /// `tail` has the name and the type, and its extents if each is an array. The tail begins where
    /// the value ends.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when it has a tail already, is no struct, or does not end where the
    /// items can begin.
    pub fn with_tail(mut self, tail: Field) -> Result<Description, Error> {
        if self.tail.is_some() || self.reply.is_some() {
            return Err(refused(&self.name, "a value has one tail"));
        }
        self.tail = Some(tail);
        self.checked()
    }

    /// Returns it, unless there is something wrong with it. Descriptions of Rust types are checked
    /// when a file is made with one.
    pub(crate) fn checked(self) -> Result<Description, Error> {
        match self.flaw() {
            Some((what, why)) => Err(refused(&what, why)),
            None if self.to_bytes().len() > MOST_DESCRIPTION_BYTES => {
                Err(refused(&self.name, "the description takes more than 4,080 bytes"))
            }
            None => Ok(self),
        }
    }

    /// Does so for a file of that kind.
    pub(crate) fn checked_for(self, kind: Kind) -> Result<Description, Error> {
        if self.reply.is_some() == (kind == Kind::Service) {
            return self.checked();
        }
        Err(refused(&self.name, "a service's has a reply, and no other has"))
    }

    /// Returns the description of a service whose requests are these, and whose replies are those.
    ///
    /// ```
    /// use outlive::describe::{Description, Encoding};
    /// let poses = Description::encoded("geometry_msgs/msg/Pose", Encoding::Cdr)?;
    /// let both = Description::of::<u32>().with_reply(poses)?;
    /// assert_eq!(both.to_string(), "u32 -> geometry_msgs/msg/Pose (cdr)");
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when one of them has a reply already, or when both together have more
    /// than 512 fields or take more than 4,080 bytes.
    pub fn with_reply(self, reply: Description) -> Result<Description, Error> {
        self.and_reply(reply).checked()
    }

    /// Does so; [`Description::checked`] looks at it later.
    pub(crate) fn and_reply(self, reply: Description) -> Description {
        Description { reply: Some(Box::new(reply)), ..self }
    }

    /// Returns the description of a service's replies; `None` if this is no service's.
    #[must_use]
    pub fn reply(&self) -> Option<&Description> {
        self.reply.as_deref()
    }

    /// Returns the description of a service's requests; of anything else what it is.
    #[must_use]
    pub fn request(&self) -> Description {
        Description { reply: None, ..self.clone() }
    }

    /// Returns the type's name; it may be empty.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns in what form messages have their values.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns whether a message has any number of such values.
    #[must_use]
    pub fn is_slice(&self) -> bool {
        self.is_slice
    }

    /// Returns the bytes of a value; of a slice, of one of its values; 0 if values are not raw.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.shape.size.into()
    }

    /// Returns the alignment of a value.
    #[must_use]
    pub fn align(&self) -> u64 {
        self.shape.align.into()
    }

    /// Returns the fields of raw values, in the order of their places.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.shape.fields
    }

    /// Returns the fields with the place of the whole.
    #[must_use]
    pub fn shape(&self) -> &Struct {
        &self.shape
    }

    /// Returns what follows a value, any number of times: its name, and the type of an item.
    #[must_use]
    pub fn tail(&self) -> Option<&Field> {
        self.tail.as_ref()
    }

    /// Returns whether all messages have the same number of bytes.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.encoding == Encoding::Raw && !self.is_slice && self.tail.is_none()
    }

    /// Returns the one field of a type that is no struct: a number, or an array.
    #[must_use]
    pub fn single(&self) -> Option<&Field> {
        match &self.shape.fields[..] {
            [field] if field.name.is_empty() => Some(field),
            _ => None,
        }
    }

    /// Returns whether a message can have so many bytes.
    #[must_use]
    pub fn fits(&self, len: usize) -> bool {
        match (self.encoding, self.is_slice) {
            (Encoding::Raw, true) => (len as u64).is_multiple_of(self.size()),
            (Encoding::Raw, false) => match &self.tail {
                None => len as u64 == self.size(),
                Some(tail) => (len as u64)
                    .checked_sub(self.size())
                    .is_some_and(|rest| rest.is_multiple_of(tail.bytes())),
            },
            _ => true,
        }
    }

    /// Returns how it lies in a file: doc/memory-layout.md.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        binary::written(self)
    }

    /// Reads a description as it lies in a file; `None` if these bytes are none.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Description> {
        let read = binary::read(bytes)?;
        read.flaw().is_none().then_some(read)
    }

    /// Returns `None` if both are the same; otherwise what each of them has where they differ
    /// first. Two names differ only where both have one.
    #[must_use]
    pub fn difference(&self, other: &Description) -> Option<(String, String)> {
        compare::difference(self, other)
    }

    /// Returns the type's name as the header of a file has it: for programs that open it without a
    /// description. What has no name here is called as in Rust.
    pub(crate) fn header_name(&self) -> String {
        let name = match self.single() {
            _ if !self.name.is_empty() => self.name.clone(),
            Some(Field { item: Item::Number(number), extents, .. }) => extents
                .iter()
                .rev()
                .fold(number.name().to_owned(), |inner, extent| format!("[{inner}; {extent}]")),
            _ => self.shape.to_string(),
        };
        match &self.tail {
            _ if self.is_slice => format!("[{name}]"),
            Some(_) => format!("{name} with a tail"),
            None => name,
        }
    }
}

fn refused(what: &str, why: &'static str) -> Error {
    Error::InvalidOption { what: "a payload's description", wanted: what.into(), why }
}
