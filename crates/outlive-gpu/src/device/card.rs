//! What a device topic carries in place of a payload: where in which GPU's memory it lies.

use std::marker::PhantomData;

use outlive::TokenId;
use outlive::sync::Plain;

use crate::gpu::Identity;

/// How many words it has: too many for a slot, so that each card is an object, and held and used again as one.
const WORDS: usize = 32;

/// What a [`DeviceTopic`](crate::DeviceTopic) publishes in its file: which block of device memory has the payload. The bytes are nobody's business but this
/// crate's; `T` is what the payload consists of.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
#[repr(transparent)]
pub struct Card<T: Plain = u8> {
    words: [u64; WORDS],
    _values: PhantomData<fn(&T)>,
}

/// What it says. All of it is somebody else's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Says {
    /// The process that answers for the block, by token.
    pub(crate) exporter: TokenId,
    /// Which of its blocks; never used again by that process.
    pub(crate) number: u64,
    /// How many bytes the block has.
    pub(crate) bytes: u64,
    /// How many the payload has, from the block's beginning on.
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

    /// `None`: nobody's card, and no payload in whole values.
    pub(crate) fn read(&self) -> Option<Says> {
        let [exporter, number, bytes, len, high, low] = *self.words.first_chunk()?;
        let exporter = TokenId::from_u32(exporter.try_into().ok()?)?;
        let is_whole = len.is_multiple_of(size_of::<T>().max(1) as u64);
        let gpu = Identity::of_words([high, low]);
        (number != 0 && is_whole && len <= bytes).then_some(Says { exporter, number, bytes, len, gpu })
    }
}
