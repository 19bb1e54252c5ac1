//! What gateways tell each other of a notifier: of a fixed form, read from bytes that may be anything.

use crate::wire::{MOST_NUMBER, Origin, number_at, u32_at, u64_at, u128_at};

const WORD: [u8; 4] = *b"OLN1";
/// Bytes of a word.
const LEN: usize = 56;
/// The numbers of notices.
pub const IDS: usize = 64;

/// How many notices of each number there were.
pub type Totals = [u64; IDS];

/// What is said beside totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The notifier's domain.
    pub origin: Origin,
    /// Since when it is counted there.
    pub tenure: u64,
    /// Which start of its gateway says so.
    pub start: u64,
    /// The numbers of the notices that a notifier has come, has left, or has died.
    pub told: [Option<u32>; 3],
}

impl Word {
    /// Returns its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LEN);
        bytes.extend(WORD);
        bytes.extend([0; 4]);
        bytes.extend(self.origin.0.to_le_bytes());
        bytes.extend(self.tenure.to_le_bytes());
        bytes.extend(self.start.to_le_bytes());
        for id in self.told {
            bytes.extend(id.map_or(0, |id| id + 1).to_le_bytes());
        }
        bytes.extend([0; 4]);
        debug_assert_eq!(bytes.len(), LEN);
        bytes
    }

    /// Reads a word; `None`: it is none of a gateway's.
    pub fn from_bytes(bytes: &[u8]) -> Option<Word> {
        if bytes.len() != LEN || bytes[..4] != WORD || u32_at(bytes, 4)? != 0 {
            return None;
        }
        let mut told = [None; 3];
        for (at, id) in told.iter_mut().enumerate() {
            *id = u32_at(bytes, 40 + 4 * at)?.checked_sub(1);
        }
        let is_one = |id: Option<u32>| id.is_none_or(|id| (id as usize) < IDS);
        let word = Word {
            origin: Origin(u128_at(bytes, 8)?),
            tenure: u64_at(bytes, 24)?,
            start: u64_at(bytes, 32)?,
            told,
        };
        (told.into_iter().all(is_one) && u32_at(bytes, 52)? == 0).then_some(word)
    }
}

/// Returns the bytes of totals: 64 numbers.
pub fn totals_to_bytes(totals: &Totals) -> Vec<u8> {
    totals.iter().flat_map(|total| total.to_le_bytes()).collect()
}

/// Reads them.
pub fn totals_from_bytes(bytes: &[u8]) -> Option<Totals> {
    let mut totals = [0; IDS];
    for (at, total) in totals.iter_mut().enumerate() {
        *total = number_at(bytes, 8 * at)?;
    }
    (bytes.len() == 8 * IDS).then_some(totals)
}

/// Returns all of them as one number, which only grows.
pub fn sum(totals: &Totals) -> u64 {
    totals.iter().fold(0_u64, |sum, total| sum.saturating_add(*total)).min(MOST_NUMBER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_totals_are_read_as_they_were_written() {
        let told = [Some(0), None, Some(63)];
        let word = Word { origin: Origin(7), tenure: u64::MAX, start: 3, told };
        let bytes = word.to_bytes();
        assert_eq!(Word::from_bytes(&bytes), Some(word));
        let totals: Totals = std::array::from_fn(|id| id as u64 * 1000);
        let numbers = totals_to_bytes(&totals);
        assert_eq!((totals_from_bytes(&numbers), sum(&totals)), (Some(totals), 2_016_000));
        for whole in [bytes.clone(), numbers] {
            for len in 0..whole.len() {
                assert_eq!(Word::from_bytes(&whole[..len]), None);
                assert_eq!(totals_from_bytes(&whole[..len]), None);
            }
            for at in 0..whole.len() {
                for bit in 0..8 {
                    let mut changed = whole.clone();
                    changed[at] ^= 1 << bit;
                    let _ = (Word::from_bytes(&changed), totals_from_bytes(&changed));
                }
            }
        }
        let mut other = bytes;
        other[40] = 65;
        assert_eq!(Word::from_bytes(&other), None);
        assert_eq!(totals_from_bytes(&totals_to_bytes(&[u64::MAX; IDS])), None);
    }
}
