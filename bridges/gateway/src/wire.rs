//! What gateways tell each other: of a fixed form, read from bytes that may be anything.
//!
//! Numbers are little-endian. A reader refuses what it does not know, and never trusts a length.

use outlive::topic::Header;
use serde::{Deserialize, Serialize};

use crate::topics::stream::Ending;

/// The first bytes of an attachment.
const MAGIC: [u8; 4] = *b"OLV1";
/// Bytes of an attachment without a header, and with one.
const SHORT: usize = 80;
const LONG: usize = SHORT + 48;
/// The most sessions in one message: more than a topic has publishers.
const MOST_SESSIONS: usize = 4096;

/// No stream has so many messages: a number from the network that is higher is refused, since one more
/// than that would be none.
pub const MOST_NUMBER: u64 = 1 << 62;

/// Nothing older is left of this stream.
const OLDEST: u32 = 1;
/// Messages between may be missing on purpose: the rule lets only some go.
const THINNED: u32 = 2;

/// A domain, as others know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin(pub u128);

/// One start of a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId {
    /// The publisher's domain.
    pub origin: Origin,
    /// Its topic's instance.
    pub instance: u64,
    /// Its session.
    pub session: u32,
}

/// What a message bears beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The stream.
    pub stream: StreamId,
    /// Its number in the stream.
    pub number: u64,
    /// How many the sender has put of this topic before it: counts what a network drops.
    pub sent: u64,
    /// Which start of a sender counts so.
    pub epoch: u64,
    /// What the payload's type is, in short.
    pub fingerprint: u64,
    /// Nothing older is left of this stream.
    pub is_oldest: bool,
    /// Numbers may be missing on purpose.
    pub is_thinned: bool,
    /// The message's header.
    pub header: Header,
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A message's number, or one behind it. No publisher comes that far, and one more does not overflow.
pub(crate) fn number_at(bytes: &[u8], at: usize) -> Option<u64> {
    u64_at(bytes, at).filter(|number| *number <= MOST_NUMBER)
}

pub(crate) fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_le_bytes(bytes.get(at..at + 16)?.try_into().ok()?))
}

impl Attachment {
    /// Returns its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let is_plain = self.header == Header { stamp: self.header.stamp, ..Header::default() };
        let mut bytes = Vec::with_capacity(LONG);
        bytes.extend(MAGIC);
        let flags = (u32::from(self.is_oldest) * OLDEST) | (u32::from(self.is_thinned) * THINNED);
        bytes.extend(flags.to_le_bytes());
        bytes.extend(self.stream.origin.0.to_le_bytes());
        bytes.extend(self.stream.instance.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.sent.to_le_bytes());
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.fingerprint.to_le_bytes());
        bytes.extend(self.header.stamp.to_le_bytes());
        bytes.extend(self.stream.session.to_le_bytes());
        bytes.extend([0; 4]);
        debug_assert_eq!(bytes.len(), SHORT);
        if !is_plain {
            bytes.extend(self.header.frame.to_le_bytes());
            bytes.extend(self.header.key.to_le_bytes());
            bytes.extend(self.header.own);
        }
        bytes
    }

    /// Reads an attachment; `None`: it is none of a gateway's.
    pub fn from_bytes(bytes: &[u8]) -> Option<Attachment> {
        if !matches!(bytes.len(), SHORT | LONG) || bytes[..4] != MAGIC {
            return None;
        }
        let flags = u32_at(bytes, 4)?;
        if flags & !(OLDEST | THINNED) != 0 || u32_at(bytes, 76)? != 0 {
            return None;
        }
        number_at(bytes, 32)?;
        let mut header = Header { stamp: u64_at(bytes, 64)?, ..Header::default() };
        if bytes.len() == LONG {
            header.frame = u64_at(bytes, SHORT)?;
            header.key = u64_at(bytes, SHORT + 8)?;
            header.own = bytes[SHORT + 16..].try_into().ok()?;
        }
        Some(Attachment {
            stream: StreamId {
                origin: Origin(u128_at(bytes, 8)?),
                instance: u64_at(bytes, 24)?,
                session: u32_at(bytes, 72)?,
            },
            number: u64_at(bytes, 32)?,
            sent: u64_at(bytes, 40)?,
            epoch: u64_at(bytes, 48)?,
            fingerprint: u64_at(bytes, 56)?,
            is_oldest: flags & OLDEST != 0,
            is_thinned: flags & THINNED != 0,
            header,
        })
    }
}

/// Numbers by session: what a receiver has, what it asks for, how far a sender is.
pub fn numbers_to_bytes(who: Origin, numbers: impl IntoIterator<Item = (u32, u64)>) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(who.0.to_le_bytes());
    for (session, number) in numbers.into_iter().take(MOST_SESSIONS) {
        bytes.extend(session.to_le_bytes());
        bytes.extend(number.to_le_bytes());
    }
    bytes
}

/// Reads them, and the number of the domain that sent them.
pub fn numbers_from_bytes(bytes: &[u8]) -> Option<(Origin, Vec<(u32, u64)>)> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let who = Origin(u128_at(rest, 0)?);
    let (pairs, rest) = rest[16..].as_chunks::<12>();
    if !rest.is_empty() || pairs.len() > MOST_SESSIONS {
        return None;
    }
    let pair = |pair: &[u8; 12]| Some((u32_at(pair, 0)?, number_at(pair, 4)?));
    Some((who, pairs.iter().map(pair).collect::<Option<_>>()?))
}

/// A session that has ended.
pub fn ended_to_bytes(session: u32, until: u64, ending: Ending) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(session.to_le_bytes());
    bytes.extend(until.to_le_bytes());
    bytes.push(u8::from(ending == Ending::Left));
    bytes
}

/// Reads it.
pub fn ended_from_bytes(bytes: &[u8]) -> Option<(u32, u64, Ending)> {
    let rest = bytes.strip_prefix(&MAGIC).filter(|rest| rest.len() == 13)?;
    let ending = match rest[12] {
        0 => Ending::Died,
        1 => Ending::Left,
        _ => return None,
    };
    Some((u32_at(rest, 0)?, number_at(rest, 4)?, ending))
}

/// What a receiver has to know to make the topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meta {
    /// The type's name, as the topic's maker gave it.
    pub type_name: String,
    /// The type's description, if it has one: its bytes.
    pub description: Option<Vec<u8>>,
    /// How many messages of each publisher are kept.
    pub depth: u32,
    /// The most bytes of the topic.
    pub max_bytes: u64,
    /// Whether it offers reliable delivery.
    pub reliable: bool,
    /// 0: volatile, 1: as long as the publisher lives, 2: longer.
    pub durability: u8,
    /// Of the type: in each message.
    pub fingerprint: u64,
}

/// Returns a type's fingerprint: FNV-1a of its description, or else of its name.
pub fn fingerprint(type_name: &str, description: Option<&[u8]>) -> u64 {
    let bytes = description.unwrap_or(type_name.as_bytes());
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment() -> Attachment {
        Attachment {
            stream: StreamId { origin: Origin(u128::MAX - 7), instance: 1 << 60, session: 77 },
            number: 1 << 50,
            sent: 3,
            epoch: 4,
            fingerprint: 5,
            is_oldest: true,
            is_thinned: false,
            header: Header { stamp: 9, frame: 1, key: u64::MAX, own: [8; 32] },
        }
    }

    #[test]
    fn attachments_are_read_as_they_were_written() {
        let long = attachment();
        let short = Attachment {
            header: Header { stamp: 9, ..Header::default() },
            is_thinned: true,
            ..long
        };
        for (attachment, len) in [(long, LONG), (short, SHORT)] {
            let bytes = attachment.to_bytes();
            assert_eq!(bytes.len(), len);
            assert_eq!(Attachment::from_bytes(&bytes), Some(attachment));
        }
    }

    #[test]
    fn hostile_bytes_are_refused_and_nothing_panics() {
        let whole = attachment().to_bytes();
        for len in 0..whole.len() {
            assert_eq!(Attachment::from_bytes(&whole[..len]).is_some(), len == SHORT, "{len}");
        }
        let mut flags = whole.clone();
        flags[4] = 0x80;
        assert_eq!(Attachment::from_bytes(&flags), None);
        let mut longer = whole;
        longer.push(0);
        assert_eq!(Attachment::from_bytes(&longer), None);
        let numbers = numbers_to_bytes(Origin(5), [(1, 2), (3, 4)]);
        assert_eq!(numbers_from_bytes(&numbers), Some((Origin(5), vec![(1, 2), (3, 4)])));
        let ended = ended_to_bytes(7, 8, Ending::Left);
        assert_eq!(ended_from_bytes(&ended), Some((7, 8, Ending::Left)));
        // Each cut, and each byte with other bits.
        for bytes in [numbers, ended] {
            for at in 0..bytes.len() {
                let _ = (numbers_from_bytes(&bytes[..at]), ended_from_bytes(&bytes[..at]));
                for bit in 0..8 {
                    let mut changed = bytes.clone();
                    changed[at] ^= 1 << bit;
                    let _ = (numbers_from_bytes(&changed), ended_from_bytes(&changed));
                }
            }
        }
        let many = numbers_to_bytes(Origin(1), (0..10_000).map(|session| (session, 1)));
        assert_eq!(
            numbers_from_bytes(&many).map(|(_, numbers)| numbers.len()),
            Some(MOST_SESSIONS)
        );
    }
}
