//! The points of a curve: as many as a picture can show, however many messages come.
//!
//! Time is cut into short spans, and of each span the first, the least, the largest and the last
//! value stay, so that a line through them looks as one through all of them. A NaN among the points
//! is a gap.

use std::collections::VecDeque;

/// Spans in a window: of twice as many as a wide terminal has dots.
const SPANS: f64 = 1024.0;
/// How many windows are kept: the person can scroll back.
pub const WINDOWS: f64 = 4.0;
/// The most points, whatever the numbers are.
const MOST_POINTS: usize = 40_000;
/// Larger numbers have no room on an axis.
const LARGEST: f64 = 1e300;

/// A value, and when it came, in seconds since the plot began.
pub type Point = (f64, f64);

/// A curve.
#[derive(Clone, Debug)]
pub struct Curve {
    points: VecDeque<Point>,
    span: f64,
    /// How many points at the end are of the last span.
    in_span: usize,
    /// Messages that had no number there, or one that is none.
    pub gaps: u64,
}

impl Curve {
    /// Returns an empty one, for a window of so many seconds.
    pub fn new(window: f64) -> Curve {
        Curve { points: VecDeque::new(), span: window / SPANS, in_span: 0, gaps: 0 }
    }

    /// Adds a value. Times never go back.
    pub fn push(&mut self, at: f64, value: f64) {
        if !value.is_finite() || value.abs() > LARGEST {
            self.gaps += 1;
            return self.cut(at);
        }
        let is_same = self.points.back().is_some_and(|(last, before)| {
            !before.is_nan() && (last / self.span).floor() == (at / self.span).floor()
        });
        self.in_span = if is_same { self.in_span + 1 } else { 1 };
        self.points.push_back((at, value));
        if self.in_span == 5 {
            // The first and the last stay, and of the three between them all but the middle one.
            let first = self.points.len() - 5;
            let mut inner = [first + 1, first + 2, first + 3];
            inner.sort_by(|a, b| self.points[*a].1.total_cmp(&self.points[*b].1));
            self.points.remove(inner[1]);
            self.in_span = 4;
        }
        let keep = self.span * SPANS * WINDOWS;
        while self.points.len() > MOST_POINTS
            || self.points.front().is_some_and(|(first, _)| *first < at - keep)
        {
            self.points.pop_front();
        }
    }

    /// The curve is interrupted here.
    pub fn cut(&mut self, at: f64) {
        if self.points.back().is_some_and(|(_, last)| !last.is_nan()) {
            self.points.push_back((at, f64::NAN));
            self.in_span = 0;
        }
    }

    /// Returns its lines in a time, gaps between them. The first and last may reach over its ends.
    pub fn lines(&self, from: f64, to: f64) -> Vec<Vec<Point>> {
        let begin = self.points.partition_point(|(at, _)| *at < from).saturating_sub(1);
        let end = self.points.partition_point(|(at, _)| *at <= to);
        let shown: Vec<Point> =
            self.points.range(begin..(end + 1).min(self.points.len())).copied().collect();
        let lines = shown.split(|(_, value)| value.is_nan());
        lines.filter(|line| !line.is_empty()).map(<[Point]>::to_vec).collect()
    }

    /// Returns the least and the largest value in a time.
    pub fn range(&self, from: f64, to: f64) -> Option<(f64, f64)> {
        let shown =
            self.points.iter().filter(|(at, value)| (from..=to).contains(at) && !value.is_nan());
        shown.fold(None, |range: Option<(f64, f64)>, (_, value)| {
            let (least, largest) = range.unwrap_or((*value, *value));
            Some((least.min(*value), largest.max(*value)))
        })
    }

    /// Returns the last value before that time.
    pub fn last(&self, to: f64) -> Option<f64> {
        let end = self.points.partition_point(|(at, _)| *at <= to);
        self.points.range(..end).rev().map(|(_, value)| *value).find(|value| !value.is_nan())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_points_are_few_and_keep_their_extremes() {
        let mut curve = Curve::new(10.0);
        for step in 0..1_000_000 {
            let at = f64::from(step) / 50_000.0;
            let value = if step == 777_777 { 1e9 } else { f64::from(step % 100) };
            curve.push(at, value);
        }
        assert!(curve.points.len() <= 4 * 2 * 1025, "{}", curve.points.len());
        assert!(curve.points.iter().zip(curve.points.iter().skip(1)).all(|(a, b)| a.0 <= b.0));
        assert_eq!(curve.range(0.0, 20.0), Some((0.0, 1e9)));
        assert_eq!(curve.range(16.0, 20.0), Some((0.0, 99.0)));
        assert_eq!(curve.last(30.0), Some(99.0));
        // No more than the windows that are kept.
        curve.push(1000.0, 1.0);
        assert_eq!(curve.points, [(1000.0, 1.0)]);
    }

    #[test]
    fn what_is_no_number_is_a_gap() {
        let mut curve = Curve::new(10.0);
        for (at, value) in [
            (0.0, f64::NAN),
            (1.0, 1.0),
            (2.0, 2.0),
            (3.0, f64::INFINITY),
            (3.1, f64::NAN),
            (4.0, 4.0),
            (5.0, 1e301),
        ] {
            curve.push(at, value);
        }
        assert_eq!(curve.lines(0.0, 10.0), [vec![(1.0, 1.0), (2.0, 2.0)], vec![(4.0, 4.0)]]);
        assert_eq!((curve.gaps, curve.last(10.0), curve.last(3.5)), (4, Some(4.0), Some(2.0)));
        // A line goes on beyond the ends of what is shown.
        assert_eq!(curve.lines(1.5, 1.6), [vec![(1.0, 1.0), (2.0, 2.0)]]);
        for step in 0..200_000 {
            curve.push(5.0 + f64::from(step) * 1e-6, if step % 2 == 0 { 1.0 } else { f64::NAN });
        }
        assert!(curve.points.len() <= MOST_POINTS + 1);
    }
}
