//! Messages that prove themselves: each names its sender and its place in order, and shows whether
//! every byte arrived.
//!
//! ```text
//! sender (8 bytes) | number (8) | length (8) | filling from all three | checksum of all before (8)
//! ```

use crate::random::mix;

/// The shortest message.
pub const SHORTEST: usize = 32;

/// Whose a message is, and which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// The sender, as the test numbers them.
    pub sender: u64,
    /// Counts from 1 for each sender.
    pub number: u64,
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0x9e37_79b9_7f4a_7c15, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(sum ^ u64::from_le_bytes(word))
    })
}

fn word(bytes: &[u8], place: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[place..place + 8]);
    u64::from_le_bytes(word)
}

impl Stamp {
    /// The message of `length` bytes (at least [`SHORTEST`]) with this stamp.
    #[must_use]
    pub fn message(self, length: usize) -> Vec<u8> {
        let length = length.max(SHORTEST);
        let mut bytes = Vec::with_capacity(length);
        for head in [self.sender, self.number, length as u64] {
            bytes.extend_from_slice(&head.to_le_bytes());
        }
        let mut filling = mix(self.sender ^ mix(self.number ^ length as u64));
        while bytes.len() < length - 8 {
            filling = mix(filling.wrapping_add(0x9e37_79b9_7f4a_7c15));
            let left = (length - 8 - bytes.len()).min(8);
            bytes.extend_from_slice(&filling.to_le_bytes()[..left]);
        }
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The stamp of a message that has arrived.
    ///
    /// # Errors
    /// What is wrong with it, when it is not whole.
    pub fn of(message: &[u8]) -> Result<Stamp, String> {
        let length = message.len();
        if length < SHORTEST {
            return Err(format!("a message of {length} bytes was never sent"));
        }
        if word(message, 16) != length as u64 {
            return Err(format!("{length} bytes arrived of a message of {}", word(message, 16)));
        }
        if word(message, length - 8) != checksum(&message[..length - 8]) {
            return Err(format!("a message of {length} bytes arrived damaged"));
        }
        Ok(Stamp { sender: word(message, 0), number: word(message, 8) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_proves_itself_and_a_changed_one_does_not() {
        let stamp = Stamp { sender: 3, number: 77 };
        for length in [32, 33, 40, 47, 5000] {
            let mut message = stamp.message(length);
            assert_eq!(message.len(), length);
            assert_eq!(Stamp::of(&message), Ok(stamp));
            message[length / 2] ^= 1;
            assert!(Stamp::of(&message).is_err());
            assert!(Stamp::of(&message[..length - 1]).is_err());
        }
    }
}
