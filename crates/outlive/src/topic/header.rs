//! What a message may carry besides its payload.

use std::time::{Duration, SystemTime};

use super::slot::HEADER_WORDS;

/// Data that a publisher sends along with a message. All zero by default.
///
/// ```
/// use outlive::topic::Header;
/// let header = Header { frame: 7, key: 42, ..Header::now() };
/// assert!(header.time().unwrap() <= std::time::SystemTime::now());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The time: nanoseconds since 1970, as in [`Header::now`], or what the users of a topic agree
    /// on; 0: not given. A topic's publishers fill it in by themselves unless
    /// [`TopicOptions::stamps`](super::TopicOptions::stamps) is off.
    pub stamp: u64,
    /// A frame of reference, sensor or stream; its meaning is up to the application.
    pub frame: u64,
    /// The key by which subscribers may select messages: see
    /// [`SubscriberOptions::keys`](super::SubscriberOptions::keys).
    pub key: u64,
    /// Bytes for the application's own use.
    pub own: [u8; 32],
}

const _: () = assert!(size_of::<Header>() == (1 + HEADER_WORDS) * 8);

impl Header {
    /// Returns a header with the time of day as its stamp.
    #[must_use]
    pub fn now() -> Header {
        Header { stamp: stamp(), ..Header::default() }
    }

    /// Returns the stamp as a time of day; `None` when the stamp is 0.
    #[must_use]
    pub fn time(&self) -> Option<SystemTime> {
        time_of(self.stamp)
    }

    /// Returns all but the stamp.
    pub(super) fn words(&self) -> [u64; HEADER_WORDS] {
        let mut words = [self.frame, self.key, 0, 0, 0, 0];
        for (word, bytes) in words[2..].iter_mut().zip(self.own.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        words
    }

    pub(super) fn of(stamp: u64, words: [u64; HEADER_WORDS]) -> Header {
        let mut own = [0; 32];
        for (bytes, word) in own.as_chunks_mut::<8>().0.iter_mut().zip(&words[2..]) {
            *bytes = word.to_ne_bytes();
        }
        Header { stamp, frame: words[0], key: words[1], own }
    }
}

/// Returns the time of day as a stamp.
#[inline]
pub(super) fn stamp() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |span| span.as_nanos() as u64)
}

/// Returns a stamp as a time of day; `None` when it is 0.
pub(super) fn time_of(stamp: u64) -> Option<SystemTime> {
    let span = Duration::from_nanos(stamp);
    (stamp != 0).then(|| SystemTime::UNIX_EPOCH.checked_add(span)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_what_they_are_given() {
        let header =
            Header { stamp: 1, frame: 2, key: u64::MAX, own: core::array::from_fn(|at| at as u8) };
        assert_eq!(Header::of(header.stamp, header.words()), header);
        assert_eq!(Header::default().time(), None);
    }
}
