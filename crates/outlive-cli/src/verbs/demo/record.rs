//! A record as a message: its sender, its number, and a checksum over all of it.

/// What precedes the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which producer's place.
    pub source: u32,
    /// Which process in that place: 0 is the first, 1 its replacement, and so on.
    pub life: u32,
    /// The record's number among those of its source.
    pub number: u64,
}

/// Bytes before the payload: source, life, number, checksum.
pub const HEAD: usize = 4 + 4 + 8 + 4;

/// Returns the checksum of a record: of its source, number and payload, not of the life that
/// happened to send it.
fn checksum(head: Head, payload: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&head.source.to_le_bytes());
    sum.update(&head.number.to_le_bytes());
    sum.update(payload);
    sum.finalize()
}

/// Writes a record into a buffer, and returns its checksum.
pub fn write(buffer: &mut Vec<u8>, head: Head, payload: &[u8]) -> u32 {
    let sum = checksum(head, payload);
    buffer.clear();
    buffer.extend_from_slice(&head.source.to_le_bytes());
    buffer.extend_from_slice(&head.life.to_le_bytes());
    buffer.extend_from_slice(&head.number.to_le_bytes());
    buffer.extend_from_slice(&sum.to_le_bytes());
    buffer.extend_from_slice(payload);
    sum
}

/// Reads a message: its head, its checksum as computed from what arrived, and whether that is the
/// one it came with. `None`: too short to be one.
pub fn read(message: &[u8]) -> Option<(Head, u32, bool)> {
    let (head, payload) = message.split_at_checked(HEAD)?;
    let word = |at: usize| {
        head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
    };
    let number = u64::from(word(12)?) << 32 | u64::from(word(8)?);
    let head = Head { source: word(0)?, life: word(4)?, number };
    let sum = checksum(head, payload);
    Some((head, sum, Some(sum) == word(16)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_bit_is_seen() {
        let head = Head { source: 3, life: 7, number: 1 << 40 | 5 };
        let mut message = Vec::new();
        let sum = write(&mut message, head, b"some payload");
        assert_eq!(read(&message), Some((head, sum, true)));
        for bit in 0..message.len() * 8 {
            let mut changed = message.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let seen = read(&changed).expect("long enough");
            // The life is no part of the checksum: it is seen in the order.
            assert!(!seen.2 || (4..8).contains(&(bit / 8)), "bit {bit}");
        }
        assert_eq!(read(&message[..HEAD - 1]), None);
        assert!(!read(&message[..message.len() - 1]).expect("long enough").2);
    }
}
