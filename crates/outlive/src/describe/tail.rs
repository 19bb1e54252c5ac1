//! Messages with a fixed head and a tail: any number of items behind it.
//!
//! | bytes | what |
//! | --- | --- |
//! | from 0 | the head, as long as its type |
//! | from there to the message's end | the items, one after the other |
//!
//! Nothing in the message says how many items there are: its length does, which the queue, topic,
//! service or state has checked. So no number that another process has written can lead a reader
//! beyond the message.

use core::borrow::Borrow;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Describe, Described, Description, Encoding, Field, Struct};
use crate::payload::{AnyLength, Metadata, Sealed};
use crate::{Payload, Plain};

/// Marks where the items of a message begin: the last field of a struct that derives
/// [`Payload`](macro@crate::Payload), behind which any number of `T` follow. It takes no bytes
/// itself; [`WithTail`] is the message with its items.
///
/// The struct ends where the items begin, so its size is a multiple of their alignment. In C it is
/// a flexible array member.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-tail-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::describe::{Tail, WithTail};
/// use outlive::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
/// use outlive::{Payload, topic::Topic};
///
/// #[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
/// #[repr(C)]
/// struct Rect { x: f32, y: f32, width: f32, height: f32 }
///
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
/// #[repr(C)]
/// struct Detections { stamp: u64, boxes: Tail<Rect> }
///
/// let topic = Topic::<WithTail<Detections>>::options().described().open_or_create(&domain, "seen")?;
/// let (mut subscriber, publisher) = (topic.subscriber()?, topic.publisher()?);
///
/// let one = Rect { x: 1.0, y: 2.0, width: 3.0, height: 4.0 };
/// publisher.publish_with_tail(&Detections { stamp: 7, boxes: Tail::new() }, &[one, one])?;
/// let mut loan = publisher.loan_with_tail(3)?;                // or in place
/// loan.stamp = 8;
/// loan.tail_mut().fill(one);
/// publisher.publish(loan)?;
///
/// let sample = subscriber.recv()?;
/// assert_eq!((sample.stamp, sample.tail()), (7, &[one, one][..]));
/// assert_eq!(subscriber.recv()?.tail().len(), 3);
/// assert_eq!(
///     topic.description()?.expect("its maker gave one").to_string(),
///     "Detections { stamp: u64, boxes: { x: f32, y: f32, width: f32, height: f32 }[] }",
/// );
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Tail<T>([T; 0]);

impl<T> Tail<T> {
    /// Returns the mark.
    #[must_use]
    pub const fn new() -> Tail<T> {
        Tail([])
    }
}

impl<T> Default for Tail<T> {
    fn default() -> Tail<T> {
        Tail::new()
    }
}

impl<T> PartialEq for Tail<T> {
    fn eq(&self, _: &Tail<T>) -> bool {
        true
    }
}

impl<T> Eq for Tail<T> {}

impl<T> fmt::Debug for Tail<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[..]")
    }
}

/// Marks structs whose last field is a [`Tail`]: [`Payload`](macro@crate::Payload) implements it.
pub trait HasTail: Plain {
    /// What the tail's items are.
    type Item: Describe;
    /// The type's name, the same in all languages.
    const NAME: &'static str;
    /// The name of the field.
    const TAIL: &'static str;

    /// Returns the fields before the tail.
    #[doc(hidden)]
    fn head() -> Struct;
}

/// A message that is an `H` with its items behind it: of a topic, queue, state, job queue, or the
/// requests or replies of a service. It is used by reference, as a slice is; [`WithTailBuf`] owns
/// one. The fields of the head are its fields; [`WithTail::tail`] returns the items.
#[repr(transparent)]
pub struct WithTail<H: HasTail> {
    of: PhantomData<H>,
    /// Aligned as `H` is; of a length that [`Payload::METADATA`] fits.
    bytes: [u8],
}

impl<H: HasTail> WithTail<H> {
    const HEAD: usize = size_of::<H>();
    const ITEM: usize = size_of::<H::Item>();
    /// What makes the bytes behind a head a slice of items.
    const PLACE: () = {
        assert!(Self::HEAD > 0, "a head has at least one byte");
        assert!(Self::ITEM > 0, "items have at least one byte");
        assert!(
            Self::HEAD.is_multiple_of(align_of::<H::Item>()),
            "a head's size is a multiple of its items' alignment"
        );
        assert!(align_of::<H::Item>() <= align_of::<H>(), "the head has a Tail of the items");
        assert!(align_of::<H>() <= 8, "a head and its items are aligned to at most 8 bytes");
        assert!(Self::HEAD <= 1 << 30 && Self::ITEM <= 1 << 30, "at most 1 GiB");
    };

    /// Returns how many bytes a message with so many items has.
    pub(crate) fn bytes_of(count: usize) -> Option<usize> {
        count.checked_mul(Self::ITEM)?.checked_add(Self::HEAD)
    }

    /// Returns the message that these bytes are, where they lie; `None` if their length or their
    /// alignment is none of such a message's.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<&WithTail<H>> {
        let is_aligned = bytes.as_ptr().addr().is_multiple_of(align_of::<H>());
        // SAFETY: aligned, and as many bytes as the slice has.
        is_aligned.then(|| unsafe { Self::at(bytes.as_ptr(), bytes.len()) }).flatten()
    }

    /// Returns the message's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the head.
    #[must_use]
    pub fn head(&self) -> &H {
        let () = Self::PLACE;
        // SAFETY: the bytes begin with a head, aligned as one: `Payload::at` and `WithTailBuf` see
        // to that. Every pattern of them is a head.
        unsafe { &*self.bytes.as_ptr().cast::<H>() }
    }

    /// Returns the items.
    #[must_use]
    pub fn tail(&self) -> &[H::Item] {
        let () = Self::PLACE;
        let items = &self.bytes[Self::HEAD..];
        // SAFETY: the head's address and size are multiples of the items' alignment (`PLACE`), and
        // every pattern of bytes is an item.
        unsafe { core::slice::from_raw_parts(items.as_ptr().cast(), items.len() / Self::ITEM) }
    }

    /// Returns the items for writing.
    #[must_use]
    pub fn tail_mut(&mut self) -> &mut [H::Item] {
        let () = Self::PLACE;
        let items = &mut self.bytes[Self::HEAD..];
        let count = items.len() / Self::ITEM;
        // SAFETY: aligned as `tail` says; every pattern of bytes is an item, and an item is all of
        // its bytes (`Plain`). The borrow is the only one.
        unsafe { core::slice::from_raw_parts_mut(items.as_mut_ptr().cast(), count) }
    }

    /// Writes a head and as many items as there is room for.
    pub(crate) fn write(&mut self, head: &H, items: &[H::Item]) {
        let (of_head, of_items) = self.bytes.split_at_mut(Self::HEAD);
        of_head.copy_from_slice(IntoBytes::as_bytes(head));
        of_items.copy_from_slice(IntoBytes::as_bytes(items));
    }
}

impl<H: HasTail> Deref for WithTail<H> {
    type Target = H;

    fn deref(&self) -> &H {
        self.head()
    }
}

impl<H: HasTail> DerefMut for WithTail<H> {
    fn deref_mut(&mut self) -> &mut H {
        let () = Self::PLACE;
        // SAFETY: as `head` says; a head is all of its bytes (`Plain`). The borrow is the only one.
        unsafe { &mut *self.bytes.as_mut_ptr().cast::<H>() }
    }
}

impl<H: HasTail + fmt::Debug> fmt::Debug for WithTail<H>
where
    H::Item: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WithTail").field(self.head()).field(&self.tail()).finish()
    }
}

/// A message with a tail that its reader owns, as a `Vec` is to a slice.
///
/// ```
/// # use outlive::describe::{Tail, WithTailBuf};
/// # use outlive::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
/// # use outlive::Payload;
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
/// #[repr(C)]
/// struct Path { robot: u32, points: Tail<f32> }
/// let path = WithTailBuf::new(&Path { robot: 3, points: Tail::new() }, &[0.5, 1.5]);
/// assert_eq!((path.robot, path.tail()), (3, &[0.5, 1.5][..]));
/// ```
pub struct WithTailBuf<H: HasTail> {
    /// Words, so that the bytes are aligned to 8.
    words: Vec<u64>,
    /// How many bytes of them are the message's; 0 of a blank one.
    len: usize,
    of: PhantomData<H>,
}

impl<H: HasTail> WithTailBuf<H> {
    /// Returns a message of a head and these items.
    #[must_use]
    pub fn new(head: &H, items: &[H::Item]) -> WithTailBuf<H> {
        let mut this = WithTailBuf::<H>::zeroed(items.len());
        this.write(head, items);
        this
    }

    /// Returns a message of zeroes, with so many items.
    ///
    /// # Panics
    /// If it would have more bytes than there are addresses.
    #[must_use]
    pub fn zeroed(count: usize) -> WithTailBuf<H> {
        let len = WithTail::<H>::bytes_of(count).expect("fewer bytes than there are addresses");
        WithTailBuf { words: vec![0; len.div_ceil(8)], len, of: PhantomData }
    }
}

impl<H: HasTail> Clone for WithTailBuf<H> {
    fn clone(&self) -> WithTailBuf<H> {
        WithTailBuf { words: self.words.clone(), len: self.len, of: PhantomData }
    }
}

impl<H: HasTail> Deref for WithTailBuf<H> {
    type Target = WithTail<H>;

    fn deref(&self) -> &WithTail<H> {
        // SAFETY: the words are aligned to 8 and have `len` bytes at least. A message that was made
        // or filled has a length that fits; a blank one is a head of zeroes.
        unsafe { WithTail::<H>::at(self.words.as_ptr().cast(), self.len).unwrap_unchecked() }
    }
}

impl<H: HasTail> DerefMut for WithTailBuf<H> {
    fn deref_mut(&mut self) -> &mut WithTail<H> {
        // SAFETY: as `deref`; the borrow is the only one.
        unsafe {
            WithTail::<H>::at_mut(self.words.as_mut_ptr().cast(), self.len).unwrap_unchecked()
        }
    }
}

impl<H: HasTail> Borrow<WithTail<H>> for WithTailBuf<H> {
    fn borrow(&self) -> &WithTail<H> {
        self
    }
}

impl<H: HasTail + fmt::Debug> fmt::Debug for WithTailBuf<H>
where
    H::Item: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<H: HasTail> Sealed for WithTail<H> {}

impl<H: HasTail> Payload for WithTail<H> {
    const METADATA: Metadata = {
        let () = Self::PLACE;
        Metadata {
            name: core::any::type_name::<H>,
            size: Self::HEAD as u64,
            align: align_of::<H>(),
            is_slice: false,
            tail: Self::ITEM as u32,
        }
    };

    type Owned = WithTailBuf<H>;

    fn blank() -> WithTailBuf<H> {
        WithTailBuf::zeroed(0)
    }

    fn replace(copy: &mut WithTailBuf<H>, bytes: &[u8]) -> bool {
        if !Self::METADATA.fits(bytes.len()) {
            return false;
        }
        copy.words.resize(bytes.len().div_ceil(8), 0);
        copy.words.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
        copy.len = bytes.len();
        true
    }

    unsafe fn fill<R, E>(
        copy: &mut WithTailBuf<H>,
        most: usize,
        write: impl FnOnce(*mut u8) -> Result<(R, usize), E>,
    ) -> Result<Option<R>, E> {
        // Whatever happens below leaves a message: a head without items.
        copy.len = Self::HEAD;
        copy.words.resize(most.max(Self::HEAD).div_ceil(8), 0);
        let (more, len) = write(copy.words.as_mut_ptr().cast())?;
        if !Self::METADATA.fits(len) {
            return Ok(None);
        }
        copy.len = len;
        Ok(Some(more))
    }

    unsafe fn at<'a>(at: *const u8, len: usize) -> Option<&'a WithTail<H>> {
        let bytes = core::ptr::slice_from_raw_parts(at, len) as *const WithTail<H>;
        // SAFETY: the caller guarantees alignment and `len` readable bytes, of which all patterns
        // are values.
        Self::METADATA.fits(len).then(|| unsafe { &*bytes })
    }

    unsafe fn at_mut<'a>(at: *mut u8, len: usize) -> Option<&'a mut WithTail<H>> {
        let bytes = core::ptr::slice_from_raw_parts_mut(at, len) as *mut WithTail<H>;
        // SAFETY: the caller guarantees alignment, `len` bytes and no other reference; all patterns
        // are values.
        Self::METADATA.fits(len).then(|| unsafe { &mut *bytes })
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl<H: HasTail> AnyLength for WithTail<H> {}

impl<H: HasTail> Described for WithTail<H> {
    fn description() -> Description {
        let shape = H::head();
        let (item, extents) = <H::Item as Describe>::describe();
        let tail = Field { name: H::TAIL.to_owned(), offset: shape.size, extents, item };
        Description {
            name: H::NAME.to_owned(),
            encoding: Encoding::Raw,
            is_slice: false,
            shape,
            tail: Some(tail),
            reply: None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
    #[repr(C)]
    struct Head {
        stamp: u32,
        tail: Tail<u16>,
    }

    impl HasTail for Head {
        type Item = u16;
        const NAME: &'static str = "Head";
        const TAIL: &'static str = "tail";

        fn head() -> Struct {
            let fields = vec![Field::of::<u32>("stamp", 0)];
            Struct { size: 4, align: 4, fields }
        }
    }

    /// A message whose length is none of such a message's is none, wherever it comes from.
    #[test]
    fn a_length_says_how_many_items_there_are_and_another_is_refused() {
        let words = [7_u64, 0x0004_0003_0002_0001];
        for len in 0..=16 {
            // SAFETY: so many bytes, aligned to 8.
            let message = unsafe { WithTail::<Head>::at(words.as_ptr().cast(), len) };
            let count = message.map(|message| message.tail().len());
            assert_eq!(count, (len >= 4 && len % 2 == 0).then(|| len / 2 - 2), "{len} bytes");
        }
        let mut copy = WithTail::<Head>::blank();
        assert!(WithTail::<Head>::replace(&mut copy, &words.as_bytes()[..10]));
        assert_eq!((copy.stamp, copy.tail()), (7, &[0, 0, 1][..]));
        assert!(!WithTail::<Head>::replace(&mut copy, &words.as_bytes()[..3]));
        assert!(!WithTail::<Head>::replace(&mut copy, &words.as_bytes()[..9]));
        assert_eq!(copy.tail().len(), 3);
        copy.tail_mut()[2] = 9;
        copy.stamp = 8;
        assert_eq!(copy.bytes(), [8, 0, 0, 0, 0, 0, 0, 0, 9, 0]);
        assert_eq!(
            format!("{:?}", WithTailBuf::new(copy.head(), &[5])),
            "WithTail(Head { stamp: 8, \
            tail: [..] }, [5])"
        );
    }

    /// What fills a copy may write too little, too much, or fail: the copy stays a message.
    #[test]
    fn a_copy_that_is_filled_is_a_message_whatever_is_written() {
        let mut copy = WithTailBuf::new(&Head { stamp: 1, tail: Tail::new() }, &[1, 2]);
        for (len, count) in [(6, Some(1)), (5, None), (2, None), (8, Some(2))] {
            // SAFETY: eight bytes, of which so many are the message.
            let filled = unsafe {
                WithTail::<Head>::fill(&mut copy, 8, |at| {
                    at.write_bytes(0xff, 8);
                    Ok::<_, ()>(((), len))
                })
            };
            assert_eq!(filled, Ok(count.map(drop)));
            assert_eq!(copy.tail(), &[0xffff; 2][..count.unwrap_or(0)]);
        }
        // SAFETY: nothing is written.
        let failed = unsafe { WithTail::<Head>::fill(&mut copy, 0, |_| Err::<((), _), _>(1)) };
        assert_eq!((failed, copy.tail().len()), (Err(1), 0));
    }
}
