//! What a receiver does with a message of a stream, by its number: doc/protocols/gateway.md.
//!
//! | n | then |
//! | --- | --- |
//! | = next | publish, next + 1; then those that wait ahead |
//! | < next | a repeat |
//! | > next | it waits ahead, within a bound; the receiver asks for all from next on |
//!
//! Nothing here publishes or sends: so all of it can be tried without a network. A death loses what
//! waits ahead, which comes again.

use std::collections::BTreeMap;

/// What waits ahead of a stream at most: messages,
pub const MOST_AHEAD: usize = 1024;
/// and bytes.
pub const MOST_AHEAD_BYTES: usize = 256 << 20;

/// What is counted of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Published here.
    pub published: u64,
    /// Came a second time.
    pub repeated: u64,
    /// The sender does not have them any more: passed over.
    pub lost: u64,
    /// Came ahead of others, and there was no room: they are asked for again.
    pub dropped_ahead: u64,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its publisher's process died.
    Died,
    /// Its publisher was dropped in order.
    Left,
}

/// What becomes of a message that has come.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<M> {
    /// It is the next one: publish it, then call [`Stream::published`].
    Publish(M),
    /// It has been published, or waits ahead already.
    Repeated,
    /// It waits ahead: what is before it is missing, or is being published.
    Ahead,
    /// The same, but there was no room for it: it has to come again.
    NoRoom,
}

/// The messages of one start of a publisher elsewhere.
#[derive(Debug)]
pub struct Stream<M> {
    /// The number of the message to be published next; `None`: not known yet.
    next: Option<u64>,
    /// The sender has nothing before that number any more.
    floor: u64,
    ahead: BTreeMap<u64, M>,
    ahead_bytes: usize,
    /// The message `next` is being published.
    is_busy: bool,
    /// Before which number it has ended, and why.
    ended: Option<(u64, Ending)>,
    counts: Counts,
}

impl<M> Stream<M> {
    /// Makes a stream whose next message is known, or not yet.
    pub fn new(next: Option<u64>) -> Stream<M> {
        Stream {
            next,
            floor: 0,
            ahead: BTreeMap::new(),
            ahead_bytes: 0,
            is_busy: false,
            ended: None,
            counts: Counts::default(),
        }
    }

    /// Returns the number of the message to be published next, if it is known.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Returns what was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns whether messages are missing that are known to have been published.
    pub fn is_behind(&self) -> bool {
        let is_known_to_be = |number| self.next.is_none_or(|next| next < number);
        !self.is_busy
            && (!self.ahead.is_empty()
                || self.ended.is_some_and(|(until, _)| is_known_to_be(until)))
    }

    /// Returns whether a message before that number is missing: neither published, nor here.
    pub fn lacks_before(&self, number: u64) -> bool {
        let Some(next) = self.next else { return true };
        let here = self.ahead.range(..number).count() as u64 + u64::from(self.is_busy);
        next + here < number
    }

    /// A message has come. `is_oldest`: the sender has nothing older of this stream.
    pub fn take(&mut self, number: u64, bytes: usize, message: M, is_oldest: bool) -> Verdict<M> {
        if is_oldest {
            self.none_before(number);
        }
        match self.next {
            Some(next) if number < next => {
                self.counts.repeated += 1;
                Verdict::Repeated
            }
            // One that was put back waits ahead: what comes of it is a repeat.
            Some(next) if number == next && !self.is_busy && !self.ahead.contains_key(&number) => {
                self.is_busy = true;
                Verdict::Publish(message)
            }
            _ => self.wait_ahead(number, bytes, message),
        }
    }

    fn wait_ahead(&mut self, number: u64, bytes: usize, message: M) -> Verdict<M> {
        let is_being_published = self.is_busy && self.next == Some(number);
        if is_being_published || self.ahead.contains_key(&number) {
            self.counts.repeated += 1;
            return Verdict::Repeated;
        }
        if self.ahead.len() >= MOST_AHEAD || self.ahead_bytes + bytes > MOST_AHEAD_BYTES {
            self.counts.dropped_ahead += 1;
            return Verdict::NoRoom;
        }
        self.ahead_bytes += bytes;
        self.ahead.insert(number, message);
        Verdict::Ahead
    }

    /// The message that was to be published has been.
    pub fn published(&mut self) {
        self.is_busy = false;
        self.counts.published += 1;
        self.next = self.next.map(|next| next + 1);
    }

    /// The message that was to be published cannot be now: it waits, first of all.
    pub fn put_back(&mut self, bytes: usize, message: M) {
        self.is_busy = false;
        if let Some(next) = self.next {
            // Above the bound, if need be: it has been taken.
            self.ahead_bytes += bytes;
            self.ahead.insert(next, message);
        }
    }

    /// Returns the next message if it waits: publish it, then call [`Stream::published`]. `bytes` tells
    /// a message's length. What the sender has no more is passed over, and counted.
    pub fn next_ahead(&mut self, bytes: impl Fn(&M) -> usize) -> Option<M> {
        let mut next = self.next.filter(|_| !self.is_busy)?;
        let first = self.ahead.first_key_value().map(|(number, _)| *number);
        if next < self.floor {
            let to = first.map_or(self.floor, |first| first.min(self.floor)).max(next);
            self.counts.lost += to - next;
            next = to;
            self.next = Some(next);
        }
        while let Some(entry) = self.ahead.first_entry()
            && *entry.key() <= next
        {
            let number = *entry.key();
            let message = entry.remove();
            self.ahead_bytes -= bytes(&message);
            if number == next {
                self.is_busy = true;
                return Some(message);
            }
            self.counts.repeated += 1;
        }
        None
    }

    /// The sender has nothing before that number. A stream that is not known begins there; of one that
    /// is, [`Stream::next_ahead`] passes over what is missing.
    pub fn none_before(&mut self, number: u64) {
        if self.next.is_none() {
            self.next = Some(number);
        }
        self.floor = self.floor.max(number);
    }

    /// Begins a stream of which nothing was known: with that number, or with what has come already.
    pub fn begin(&mut self, number: u64) {
        let first = self.ahead.first_key_value().map(|(first, _)| *first);
        self.none_before(first.map_or(number, |first| first.min(number)));
    }

    /// The stream lets only some messages go: what was before that number is none that was lost.
    pub fn skip_to(&mut self, number: u64) {
        if !self.is_busy && self.next.is_none_or(|next| next < number) {
            self.next = Some(number);
        }
    }

    /// Its publisher has gone; `until` is the number behind its last message.
    pub fn end(&mut self, until: u64, ending: Ending) {
        self.ended.get_or_insert((until, ending));
    }

    /// Returns why it has ended, once all its messages have been published or passed over.
    pub fn ended(&self) -> Option<Ending> {
        let (until, ending) = self.ended?;
        (self.next.is_some_and(|next| next >= until)).then_some(ending)
    }

    /// Returns the number behind the last message, if the session has ended.
    pub fn until(&self) -> Option<u64> {
        self.ended.map(|(until, _)| until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays messages to a stream, and returns what it published.
    fn play(stream: &mut Stream<u64>, messages: &[(u64, bool)]) -> Vec<u64> {
        let mut published = Vec::new();
        for &(number, is_oldest) in messages {
            let mut next = match stream.take(number, 8, number, is_oldest) {
                Verdict::Publish(message) => Some(message),
                _ => stream.next_ahead(|_| 8),
            };
            while let Some(message) = next {
                published.push(message);
                stream.published();
                next = stream.next_ahead(|_| 8);
            }
        }
        published
    }

    #[test]
    fn order_is_kept_and_repeats_are_dropped() {
        let mut stream = Stream::new(Some(0));
        let came = [0, 2, 1, 1, 4, 2, 3, 0].map(|number| (number, false));
        assert_eq!(play(&mut stream, &came), [0, 1, 2, 3, 4]);
        assert_eq!(stream.counts(), Counts { published: 5, repeated: 3, ..Counts::default() });
        assert!(!stream.is_behind());
    }

    #[test]
    fn nothing_is_passed_over_unless_the_sender_has_it_no_more() {
        let mut stream = Stream::new(Some(3));
        assert_eq!(play(&mut stream, &[(7, false), (8, false)]), [] as [u64; 0]);
        assert!(stream.is_behind());
        assert_eq!(play(&mut stream, &[(6, true)]), [6, 7, 8]);
        assert_eq!(stream.counts(), Counts { published: 3, lost: 3, ..Counts::default() });
    }

    #[test]
    fn what_waits_ahead_is_published_before_the_jump() {
        let mut stream = Stream::new(Some(0));
        assert_eq!(play(&mut stream, &[(2, false), (4, false)]), [] as [u64; 0]);
        // Only 0, 1, 3 and 5 are lost.
        assert_eq!(play(&mut stream, &[(6, true)]), [2, 4, 6]);
        assert_eq!(stream.counts().lost, 4);
        // Nothing is left at all.
        stream.none_before(9);
        assert_eq!(stream.next_ahead(|_| 8), None);
        assert_eq!((stream.next(), stream.counts().lost), (Some(9), 6));
    }

    #[test]
    fn while_a_message_is_being_published_others_wait() {
        let mut stream = Stream::new(Some(0));
        assert_eq!(stream.take(0, 8, 0_u64, false), Verdict::Publish(0));
        assert_eq!(stream.take(0, 8, 0, false), Verdict::Repeated);
        assert_eq!(stream.take(1, 8, 1, false), Verdict::Ahead);
        assert_eq!(stream.next_ahead(|_| 8), None);
        stream.put_back(8, 0);
        assert_eq!(stream.next_ahead(|_| 8), Some(0));
        stream.published();
        assert_eq!(stream.next_ahead(|_| 8), Some(1));
    }

    #[test]
    fn a_message_that_was_put_back_and_comes_again_is_published_once() {
        let mut stream = Stream::new(Some(0));
        assert_eq!(stream.take(0, 8, 0_u64, false), Verdict::Publish(0));
        stream.put_back(8, 0);
        assert_eq!(stream.take(0, 8, 0, false), Verdict::Repeated);
        assert_eq!((stream.next_ahead(|_| 8), stream.next_ahead(|_| 8)), (Some(0), None));
    }

    #[test]
    fn what_waits_ahead_is_not_lacking() {
        let mut stream = Stream::new(Some(3));
        assert!(!stream.lacks_before(3) && stream.lacks_before(4));
        assert_eq!(stream.take(3, 8, 3_u64, false), Verdict::Publish(3));
        stream.take(5, 8, 5, false);
        assert!(!stream.lacks_before(4) && stream.lacks_before(5) && stream.lacks_before(6));
        stream.put_back(8, 3);
        assert!(!stream.lacks_before(4) && stream.lacks_before(6));
        stream.take(4, 8, 4, false);
        assert!(!stream.lacks_before(6) && stream.lacks_before(7));
        assert!(Stream::<u64>::new(None).lacks_before(0));
    }

    #[test]
    fn a_stream_that_is_not_known_begins_where_the_sender_says() {
        let mut stream = Stream::new(None);
        assert_eq!(play(&mut stream, &[(9, false)]), [] as [u64; 0]);
        assert_eq!(play(&mut stream, &[(8, true)]), [8, 9]);
        let mut begun = Stream::new(None);
        begun.begin(4);
        assert_eq!(play(&mut begun, &[(4, false)]), [4]);
        assert_eq!(begun.counts().lost, 0);
        // What has come before it was known where it begins is none that is too old.
        let mut early = Stream::new(None);
        assert_eq!(play(&mut early, &[(0, false), (1, false)]), [] as [u64; 0]);
        early.begin(6);
        assert_eq!((early.next(), early.next_ahead(|_| 8)), (Some(0), Some(0)));
    }

    #[test]
    fn it_ends_behind_its_last_message() {
        let mut stream = Stream::new(Some(0));
        play(&mut stream, &[(0, false)]);
        stream.end(3, Ending::Died);
        assert!(stream.is_behind());
        assert_eq!(stream.ended(), None);
        play(&mut stream, &[(1, false), (2, false)]);
        assert_eq!(stream.ended(), Some(Ending::Died));
        // The first word counts.
        stream.end(9, Ending::Left);
        assert_eq!(stream.ended(), Some(Ending::Died));
    }

    #[test]
    fn what_waits_ahead_is_bounded_and_counted() {
        let mut stream = Stream::new(Some(0));
        for number in 1..=MOST_AHEAD as u64 {
            assert_eq!(stream.take(number, 8, number, false), Verdict::Ahead);
        }
        for number in 0..5 {
            assert_eq!(stream.take(5000 + number, 8, number, false), Verdict::NoRoom);
        }
        assert_eq!(stream.counts().dropped_ahead, 5);
        assert_eq!(play(&mut stream, &[(0, false)]).len(), MOST_AHEAD + 1);
        let mut large = Stream::new(Some(0));
        large.take(1, MOST_AHEAD_BYTES, 1, false);
        large.take(2, 1, 2, false);
        assert_eq!(large.counts().dropped_ahead, 1);
    }

    #[test]
    fn any_order_of_repeats_publishes_each_once() {
        // Every sequence of six messages out of three.
        for code in 0..3_u32.pow(6) {
            let mut stream = Stream::new(Some(0));
            let came: Vec<(u64, bool)> =
                (0..6).map(|at| (u64::from(code / 3_u32.pow(at) % 3), false)).collect();
            let published = play(&mut stream, &came);
            let whole: Vec<u64> =
                (0..3).take_while(|number| came.iter().any(|(other, _)| other == number)).collect();
            assert_eq!(published, whole, "{came:?}");
        }
    }
}
