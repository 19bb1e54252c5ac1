//! What a bridge into a queue notes in the domain: up to which message of the stream it has sent.
//!
//! The note is a state of the domain, so its writer is one process at a time, a value is whole or
//! not there, and a successor reads the last one. The bridge writes before each send that it intends
//! it, and behind the send that it is done.
//!
//! | killed | the successor finds | and does |
//! | --- | --- | --- |
//! | before the intent | the message is not noted | sends it |
//! | between the intent and the send | intended, not done | sends it, and tells that it may be there twice |
//! | between the send and the note | intended, not done | the same: here it *is* there twice |
//! | behind the note | the message is noted | acknowledges it, and does not send it |

use outlive::Domain;
use outlive::state::{State, Writer};

use outlive_program::exit::Failure;

/// How far the bridge came, in one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// When the stream was made: one that is made anew has other messages with the same numbers.
    pub stream: u64,
    /// The last message that was sent.
    pub sequence: u64,
    /// When the stream got it. A stream that lost its end in a power cut gives its numbers away anew.
    pub published: u64,
    /// The message that is being sent; 0: none.
    pub intended: u64,
}

impl Note {
    fn words(self) -> [u64; 4] {
        [self.stream, self.sequence, self.published, self.intended]
    }

    fn of_words([stream, sequence, published, intended]: [u64; 4]) -> Note {
        Note { stream, sequence, published, intended }
    }

    /// Returns whether a message of the stream is in the queue.
    pub fn has(&self, sequence: u64, published: u64) -> bool {
        sequence <= self.sequence && published <= self.published
    }
}

/// The note, which this process writes.
pub struct SentUpTo {
    writer: Writer<[u64; 4]>,
    /// What was noted last.
    pub note: Note,
}

/// Returns the name of the state. A consumer that selects other subjects has a note of its own: a
/// sequence that was reached with one filter says nothing of another's messages.
pub fn name_of(queue: &str, stream: &str, consumer: &str, filter: &str) -> String {
    let name = format!("{queue}.from.{stream}.{consumer}");
    if name.len() <= 200 && filter.is_empty() {
        return name;
    }
    // No consumer has a '>' in its name. The hash stands for the filter, which may be no part of a name.
    let whole = format!("{name}>{filter}");
    let hash = whole.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut end = name.len().min(170);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{hash:016x}", &name[..end])
}

impl SentUpTo {
    /// Becomes the writer; waits while another bridge is.
    pub async fn take(domain: &Domain, name: &str) -> Result<SentUpTo, Failure> {
        let state = State::<[u64; 4]>::options().initial(&[0; 4]).open_or_create(domain, name)?;
        let writer = state.wait_to_write_async().await?;
        let note = Note::of_words(state.get()?);
        Ok(SentUpTo { writer, note })
    }

    /// Writes the note.
    pub fn set(&mut self, note: Note) -> Result<(), Failure> {
        self.writer.set(&note.words())?;
        self.note = note;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sent_is_known() {
        let note = Note { stream: 1, sequence: 10, published: 100, intended: 0 };
        assert!(note.has(10, 100) && note.has(9, 90));
        assert!(!note.has(11, 101));
        assert!(!note.has(10, 101), "a number that was given away anew");
    }

    #[test]
    fn names_are_ones_that_a_domain_takes_and_two_are_two() {
        let long = "ü".repeat(100);
        let names = [
            name_of(&long, "s", "a", ""),
            name_of(&long, "s", "b", ""),
            name_of(&long, "s", "b", "x.>"),
            name_of("q", "s", "c", ""),
            name_of("q", "s", "c", "x.>"),
            name_of("q", "s", "c", "x.*"),
        ];
        assert!(names.iter().all(|name| name.len() <= 200 && !name.contains(['>', '*'])));
        let different: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
    }
}
