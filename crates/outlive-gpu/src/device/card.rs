//! Cards: what a device topic carries in place of a payload. A card says where in which GPU's
//! memory the payload lies.

use std::marker::PhantomData;

use outlive::Plain;
use outlive::TokenId;

use crate::gpu::Identity;

/// The number of its words: too many for a slot, so that each card is an object, and held and
/// reused as one.
const WORDS: usize = 32;

/// What a [`DeviceTopic`](crate::DeviceTopic) publishes in its file: which block of device memory
/// has the payload. Only this crate reads the bytes; `T` is the type of the payload's values.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
#[repr(transparent)]
pub struct Card<T: Plain = u8> {
    words: [u64; WORDS],
    _values: PhantomData<fn(&T)>,
}

/// The contents of a card. Another process wrote it, so all of it has to be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Says {
    /// The process that answers for the block, by token.
    pub(crate) exporter: TokenId,
    /// The block's number, which that process never uses again.
    pub(crate) number: u64,
    /// The block's length in bytes.
    pub(crate) bytes: u64,
    /// The payload's length in bytes, from the block's beginning on.
    pub(crate) len: u64,
    /// The GPU whose memory it is.
    pub(crate) gpu: Identity,
}

impl<T: Plain> Card<T> {
    pub(crate) fn write(&mut self, says: &Says) {
        let [high, low] = says.gpu.words();
        let words = [says.exporter.as_u32().into(), says.number, says.bytes, says.len, high, low];
        self.words = [0; WORDS];
        self.words[..words.len()].copy_from_slice(&words);
    }

    /// Reads it. `None`: no card, or a payload that is no whole number of values.
    pub(crate) fn read(&self) -> Option<Says> {
        let [exporter, number, bytes, len, high, low] = *self.words.first_chunk()?;
        let exporter = TokenId::from_u32(exporter.try_into().ok()?)?;
        let is_whole = len.is_multiple_of(size_of::<T>().max(1) as u64);
        let gpu = Identity::of_words([high, low]);
        (number != 0 && is_whole && len <= bytes).then_some(Says {
            exporter,
            number,
            bytes,
            len,
            gpu,
        })
    }
}
