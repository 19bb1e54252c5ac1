//! What gateways tell each other of a call: of a fixed form, read from bytes that may be anything.

use serde::{Deserialize, Serialize};

use crate::wire::Origin;

const ASKED: [u8; 4] = *b"OLC1";
const REPLIED: [u8; 4] = *b"OLR1";
const TOLD: [u8; 4] = *b"OLT1";
const PART: [u8; 4] = *b"OLP1";

/// A call: no other has these three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    /// The domain of its client.
    pub origin: Origin,
    /// The start of the gateway there.
    pub epoch: u64,
    /// Its number; the later call has the higher one.
    pub number: u64,
}

fn id_to_bytes(bytes: &mut Vec<u8>, id: CallId) {
    bytes.extend(id.origin.0.to_le_bytes());
    bytes.extend(id.epoch.to_le_bytes());
    bytes.extend(id.number.to_le_bytes());
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn id_at(bytes: &[u8], at: usize) -> Option<CallId> {
    let origin = u128::from_le_bytes(bytes.get(at..at + 16)?.try_into().ok()?);
    let (epoch, number) = (u64_at(bytes, at + 16)?, u64_at(bytes, at + 24)?);
    Some(CallId { origin: Origin(origin), epoch, number })
}

/// What a request bears beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Which call it is.
    pub id: CallId,
    /// The types' fingerprint.
    pub fingerprint: u64,
    /// Parts of the request may follow.
    pub has_parts: bool,
}

/// The same, as bytes.
pub fn asked_to_bytes(asked: Asked) -> Vec<u8> {
    let mut bytes = ASKED.to_vec();
    id_to_bytes(&mut bytes, asked.id);
    bytes.extend(asked.fingerprint.to_le_bytes());
    bytes.push(u8::from(asked.has_parts));
    bytes
}

/// Reads it.
pub fn asked_from_bytes(bytes: &[u8]) -> Option<Asked> {
    let rest = bytes.strip_prefix(&ASKED).filter(|rest| rest.len() == 41 && rest[40] < 2)?;
    let (id, fingerprint) = (id_at(rest, 0)?, u64_at(rest, 32)?);
    Some(Asked { id, fingerprint, has_parts: rest[40] == 1 })
}

/// What a part of a request bears beside its payload: how many came before, and whether it is only the
/// end of them.
pub fn part_to_bytes(id: CallId, number: u64, is_end: bool) -> Vec<u8> {
    let mut bytes = PART.to_vec();
    id_to_bytes(&mut bytes, id);
    bytes.extend(number.to_le_bytes());
    bytes.push(u8::from(is_end));
    bytes
}

/// Reads it.
pub fn part_from_bytes(bytes: &[u8]) -> Option<(CallId, u64, bool)> {
    let rest = bytes.strip_prefix(&PART).filter(|rest| rest.len() == 41 && rest[40] < 2)?;
    Some((id_at(rest, 0)?, u64_at(rest, 32)?, rest[40] == 1))
}

/// What the caller's gateway says of a call later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// So many replies have been handed to the client.
    Taken(u64),
    /// No client waits any more.
    Cancelled,
}

/// The same, as bytes.
pub fn word_to_bytes(id: CallId, word: Word) -> Vec<u8> {
    let mut bytes = TOLD.to_vec();
    id_to_bytes(&mut bytes, id);
    let word = match word {
        Word::Taken(count) => count,
        Word::Cancelled => u64::MAX,
    };
    bytes.extend(word.to_le_bytes());
    bytes
}

/// Reads it.
pub fn word_from_bytes(bytes: &[u8]) -> Option<(CallId, Word)> {
    let rest = bytes.strip_prefix(&TOLD).filter(|rest| rest.len() == 40)?;
    let word = match u64_at(rest, 32)? {
        u64::MAX => Word::Cancelled,
        count => Word::Taken(count),
    };
    Some((id_at(rest, 0)?, word))
}

/// What a message of an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A reply; others follow.
    Part = 0,
    /// The last reply.
    Last = 1,
    /// No reply: there are no more.
    End = 2,
    /// The server let go of the request.
    Dropped = 3,
    /// The server says why it gives no reply: the payload is the text.
    Failed = 4,
    /// The server died, or is out of reach, and had begun the call.
    Died = 5,
    /// No server has begun the call, and none will.
    NotBegun = 6,
    /// No reply: so many parts of the request may have been sent by now. Its number counts them, and not
    /// replies.
    Credit = 7,
}

/// What a message of an answer bears beside its payload: how many replies came before, and its kind.
pub fn replied_to_bytes(number: u64, kind: Kind) -> Vec<u8> {
    let mut bytes = REPLIED.to_vec();
    bytes.extend(number.to_le_bytes());
    bytes.push(kind as u8);
    bytes
}

/// Reads it.
pub fn replied_from_bytes(bytes: &[u8]) -> Option<(u64, Kind)> {
    let rest = bytes.strip_prefix(&REPLIED).filter(|rest| rest.len() == 9)?;
    let kind = match rest[8] {
        0 => Kind::Part,
        1 => Kind::Last,
        2 => Kind::End,
        3 => Kind::Dropped,
        4 => Kind::Failed,
        5 => Kind::Died,
        6 => Kind::NotBegun,
        7 => Kind::Credit,
        _ => return None,
    };
    Some((u64_at(rest, 0)?, kind))
}

/// What a gateway has to know to make the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceMeta {
    /// The types' names, as the service's maker gave them.
    pub type_name: String,
    /// The types' description, if there is one: its bytes.
    pub description: Option<Vec<u8>>,
    /// The most bytes of the service.
    pub max_bytes: u64,
    /// Of the types: in each request.
    pub fingerprint: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: CallId = CallId { origin: Origin(u128::MAX - 3), epoch: 1 << 60, number: 9 };

    #[test]
    fn words_are_read_as_they_were_written() {
        for has_parts in [false, true] {
            let asked = Asked { id: ID, fingerprint: 5, has_parts };
            assert_eq!(asked_from_bytes(&asked_to_bytes(asked)), Some(asked));
            let part = part_to_bytes(ID, 8, has_parts);
            assert_eq!(part_from_bytes(&part), Some((ID, 8, has_parts)));
        }
        for word in [Word::Taken(7), Word::Cancelled] {
            assert_eq!(word_from_bytes(&word_to_bytes(ID, word)), Some((ID, word)));
        }
        use Kind::{Credit, Died, Dropped, End, Failed, Last, NotBegun, Part};
        for kind in [Part, Last, End, Dropped, Failed, Died, NotBegun, Credit] {
            assert_eq!(replied_from_bytes(&replied_to_bytes(3, kind)), Some((3, kind)));
        }
    }

    #[test]
    fn hostile_bytes_are_refused_and_nothing_panics() {
        let all = [
            asked_to_bytes(Asked { id: ID, fingerprint: 5, has_parts: true }),
            part_to_bytes(ID, 1, true),
            word_to_bytes(ID, Word::Cancelled),
            replied_to_bytes(1, Kind::Died),
        ];
        for bytes in &all {
            for len in 0..bytes.len() {
                let cut = &bytes[..len];
                assert_eq!(asked_from_bytes(cut), None);
                assert_eq!(word_from_bytes(cut), None);
                assert_eq!(replied_from_bytes(cut), None);
                assert_eq!(part_from_bytes(cut), None);
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(asked_from_bytes(&longer), None);
            assert_eq!(word_from_bytes(&longer), None);
            assert_eq!(replied_from_bytes(&longer), None);
            assert_eq!(part_from_bytes(&longer), None);
        }
        let mut unknown = replied_to_bytes(1, Kind::Died);
        unknown[12] = 8;
        assert_eq!(replied_from_bytes(&unknown), None);
    }
}
