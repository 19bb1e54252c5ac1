//! What gateways tell each other of a state: of a fixed form, read from bytes that may be anything.

use serde::{Deserialize, Serialize};

use crate::wire::{Origin, number_at, u32_at, u64_at, u128_at};

const WORD: [u8; 4] = *b"OLS1";
const ASKED: [u8; 4] = *b"OLG1";
const HAS: [u8; 4] = *b"OLK1";
/// Bytes of a word.
const LEN: usize = 64;

/// The value is left out: the asker has it.
const BARE: u32 = 4;

/// What has become of a state's writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterIs {
    /// None has come, or the last one has left in order.
    Nobody,
    /// One writes.
    Living,
    /// It died.
    Dead,
}

impl WriterIs {
    /// Returns the word for it.
    pub fn event(self) -> &'static str {
        match self {
            WriterIs::Nobody => "left",
            WriterIs::Living => "came",
            WriterIs::Dead => "died",
        }
    }
}

/// Which word of a sender about its state's writer: the later one has the higher one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Which start of the sender's gateway.
    pub start: u64,
    /// How often it has found that the writer has come, left or died.
    pub changes: u64,
}

/// What is said beside a value, or without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The state's home.
    pub origin: Origin,
    /// Which state there.
    pub instance: u64,
    /// The value's version.
    pub version: u64,
    /// What has become of the writer.
    pub writer: WriterIs,
    /// As of then.
    pub turn: Turn,
    /// What the value's type is, in short.
    pub fingerprint: u64,
    /// The value is left out: the asker has it.
    pub is_bare: bool,
}

impl Word {
    /// Returns its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let writer = match self.writer {
            WriterIs::Nobody => 0,
            WriterIs::Living => 1,
            WriterIs::Dead => 2,
        };
        let mut bytes = Vec::with_capacity(LEN);
        bytes.extend(WORD);
        bytes.extend((writer | (u32::from(self.is_bare) * BARE)).to_le_bytes());
        bytes.extend(self.origin.0.to_le_bytes());
        for number in
            [self.instance, self.version, self.turn.start, self.turn.changes, self.fingerprint]
        {
            bytes.extend(number.to_le_bytes());
        }
        debug_assert_eq!(bytes.len(), LEN);
        bytes
    }

    /// Reads a word; `None`: it is none of a gateway's.
    pub fn from_bytes(bytes: &[u8]) -> Option<Word> {
        if bytes.len() != LEN || bytes[..4] != WORD {
            return None;
        }
        let flags = u32_at(bytes, 4)?;
        let writer = match flags & !BARE {
            0 => WriterIs::Nobody,
            1 => WriterIs::Living,
            2 => WriterIs::Dead,
            _ => return None,
        };
        Some(Word {
            origin: Origin(u128_at(bytes, 8)?),
            instance: u64_at(bytes, 24)?,
            version: number_at(bytes, 32)?,
            writer,
            turn: Turn { start: number_at(bytes, 40)?, changes: number_at(bytes, 48)? },
            fingerprint: u64_at(bytes, 56)?,
            is_bare: flags & BARE != 0,
        })
    }
}

/// A question for the value, unless it has that version; 0: in any case.
pub fn asked_to_bytes(version: u64) -> Vec<u8> {
    [&ASKED[..], &version.to_le_bytes()].concat()
}

/// Reads it.
pub fn asked_from_bytes(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(&ASKED).filter(|rest| rest.len() == 8)?;
    number_at(rest, 0)
}

/// What a receiver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Has {
    /// Which receiver.
    pub who: Origin,
    /// The version of its value.
    pub version: u64,
    /// The last word that it has heard of the writer.
    pub turn: Turn,
}

impl Has {
    /// Returns its bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = [&HAS[..], &self.who.0.to_le_bytes()].concat();
        for number in [self.version, self.turn.start, self.turn.changes] {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    /// Reads it.
    pub fn from_bytes(bytes: &[u8]) -> Option<Has> {
        let rest = bytes.strip_prefix(&HAS).filter(|rest| rest.len() == 40)?;
        Some(Has {
            who: Origin(u128_at(rest, 0)?),
            version: number_at(rest, 16)?,
            turn: Turn { start: number_at(rest, 24)?, changes: number_at(rest, 32)? },
        })
    }
}

/// What a receiver has to know to make the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateMeta {
    /// The type's name, as the state's maker gave it.
    pub type_name: String,
    /// The type's description, if it has one: its bytes.
    pub description: Option<Vec<u8>>,
    /// The most bytes of a value.
    pub capacity: u64,
    /// Whether all values have as many.
    pub is_fixed: bool,
    /// Of the type: in each word.
    pub fingerprint: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word() -> Word {
        Word {
            origin: Origin(u128::MAX - 3),
            instance: u64::MAX,
            version: 1 << 55,
            writer: WriterIs::Dead,
            turn: Turn { start: 3, changes: 4 },
            fingerprint: 5,
            is_bare: true,
        }
    }

    #[test]
    fn words_are_read_as_they_were_written() {
        for writer in [WriterIs::Nobody, WriterIs::Living, WriterIs::Dead] {
            let word = Word { writer, is_bare: writer == WriterIs::Living, ..word() };
            assert_eq!(Word::from_bytes(&word.to_bytes()), Some(word));
        }
        assert_eq!(asked_from_bytes(&asked_to_bytes(7)), Some(7));
        let has = Has { who: Origin(1), version: 2, turn: Turn { start: 3, changes: 4 } };
        assert_eq!(Has::from_bytes(&has.to_bytes()), Some(has));
    }

    #[test]
    fn hostile_bytes_are_refused_and_nothing_panics() {
        let has = Has { who: Origin(1), version: 2, turn: Turn::default() };
        for whole in [word().to_bytes(), asked_to_bytes(7), has.to_bytes()] {
            let read = |bytes: &[u8]| {
                (Word::from_bytes(bytes), asked_from_bytes(bytes), Has::from_bytes(bytes))
            };
            for len in 0..whole.len() {
                assert_eq!(read(&whole[..len]), (None, None, None));
            }
            for at in 0..whole.len() {
                for bit in 0..8 {
                    let mut changed = whole.clone();
                    changed[at] ^= 1 << bit;
                    read(&changed);
                }
            }
            assert_eq!(read(&[&whole[..], &[0]].concat()), (None, None, None));
        }
        // Numbers from which one more would be none.
        let highest = Word { version: u64::MAX, ..word() };
        assert_eq!(Word::from_bytes(&highest.to_bytes()), None);
        let mut flags = word().to_bytes();
        flags[4] = 3;
        assert_eq!(Word::from_bytes(&flags), None);
    }
}
