//! When a message of a recording is due: on a timetable that is kept, so that no error adds up.

use std::time::{Duration, Instant};

/// How fast a recording is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// So many times as fast as it was recorded.
    Times(f64),
    /// As fast as subscribers take.
    Max,
}

/// Times of the recording are nanoseconds since 1970.
pub struct Timetable {
    rate: Rate,
    /// A moment, and the time of the recording that belongs to it.
    anchor: (Instant, u64),
    is_paused: bool,
}

/// Later than any replay ends.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Timetable {
    pub fn new(rate: Rate, is_paused: bool) -> Timetable {
        Timetable { rate, anchor: (Instant::now(), 0), is_paused }
    }

    pub fn rate(&self) -> Rate {
        self.rate
    }

    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Returns when what has that time is due; paused, as if it went on now.
    pub fn due(&self, time: u64) -> Instant {
        let Rate::Times(rate) = self.rate else { return self.anchor.0 };
        let span = time.saturating_sub(self.anchor.1) as f64 / rate;
        self.anchor.0 + Duration::from_nanos(span as u64).min(NEVER)
    }

    /// Returns the time of the recording now.
    pub fn time(&self, now: Instant) -> u64 {
        match self.rate {
            Rate::Times(rate) if !self.is_paused => {
                let span = now.saturating_duration_since(self.anchor.0).as_nanos() as f64 * rate;
                self.anchor.1.saturating_add(span as u64)
            }
            _ => self.anchor.1,
        }
    }

    /// It is that time of the recording now.
    pub fn set(&mut self, now: Instant, time: u64) {
        self.anchor = (now, time);
    }

    /// At [`Rate::Max`] and while it is paused the time is that of the last message.
    pub fn note(&mut self, time: u64) {
        if self.is_paused || self.rate == Rate::Max {
            self.anchor.1 = self.anchor.1.max(time);
        }
    }

    pub fn pause(&mut self, now: Instant) {
        self.set(now, self.time(now));
        self.is_paused = true;
    }

    pub fn go_on(&mut self, now: Instant) {
        self.anchor.0 = now;
        self.is_paused = false;
    }

    pub fn set_rate(&mut self, now: Instant, rate: Rate) {
        self.set(now, self.time(now));
        self.rate = rate;
    }

    /// What has that time is due now: what was missed is not caught up.
    pub fn move_to(&mut self, now: Instant, time: u64) {
        self.set(now, time.max(self.anchor.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_moments_belong_together() {
        let mut table = Timetable::new(Rate::Times(2.0), false);
        let begin = Instant::now();
        let second = Duration::from_secs(1);
        table.set(begin, 10_000_000_000);
        assert_eq!(table.due(14_000_000_000), begin + 2 * second);
        // What is late, or not in order, is due at once.
        assert_eq!(table.due(3), begin);
        assert_eq!(table.time(begin + 3 * second), 16_000_000_000);
        table.pause(begin + 3 * second);
        assert_eq!(table.time(begin + 9 * second), 16_000_000_000);
        table.go_on(begin + 10 * second);
        assert_eq!(table.due(18_000_000_000), begin + 11 * second);
        table.set_rate(begin + 11 * second, Rate::Times(0.5));
        assert_eq!(table.due(19_000_000_000), begin + 13 * second);
        table.set_rate(begin + 13 * second, Rate::Max);
        assert_eq!(table.due(u64::MAX), begin + 13 * second);
        table.note(20_000_000_000);
        assert_eq!(table.time(begin + 20 * second), 20_000_000_000);
        // Times that lie take no panic.
        table.set_rate(begin, Rate::Times(1e-9));
        assert!(table.due(u64::MAX) > begin + second);
    }
}
