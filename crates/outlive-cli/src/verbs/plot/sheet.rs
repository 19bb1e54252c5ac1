//! What a picture shows, on a terminal or in a file: curves in a time, in the order of their
//! sources, and the axes for them.

use super::curve::Point;
use super::follow::{Shared, Trouble, locked};

/// A curve in a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it is of, fit for a terminal.
    pub label: String,
    /// Between two of them is a gap.
    pub pieces: Vec<Vec<Point>>,
    /// The least and the largest value.
    pub range: Option<(f64, f64)>,
    /// The value at the end.
    pub last: Option<f64>,
    /// Messages of the topic that were overwritten before they were taken.
    pub lost: u64,
    /// Messages that had no number there.
    pub gaps: u64,
    /// Why nothing comes.
    pub trouble: Option<Trouble>,
    /// Whether the person has put it away.
    pub is_hidden: bool,
}

/// What is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// The curves.
    pub lines: Vec<Line>,
    /// What happened in that time, in the order of its times.
    pub marks: Vec<Mark>,
    /// The time that is shown, in seconds since the plot began.
    pub time: (f64, f64),
    /// The values that are shown.
    pub values: Axis,
}

/// When something happened, and what.
pub type Mark = (f64, String);

/// An axis with round numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// Where it begins.
    pub least: f64,
    /// Where it ends.
    pub largest: f64,
    /// From one number on it to the next.
    pub step: f64,
}

/// An axis has about so many numbers.
const NUMBERS: f64 = 6.0;

impl Axis {
    /// Returns one on which all of this has room, with round numbers at its ends.
    pub fn around(least: f64, largest: f64) -> Axis {
        let (least, largest) = if largest > least {
            (least, largest)
        } else {
            let room = if least == 0.0 { 1.0 } else { least.abs() * 0.1 };
            (least - room, least + room)
        };
        let step = round_step((largest - least) / NUMBERS);
        let axis = Axis {
            least: (least / step).floor() * step,
            largest: (largest / step).ceil() * step,
            step,
        };
        // Of numbers that are large and differ little, steps cannot be told.
        if axis.largest > axis.least {
            axis
        } else {
            Axis { least, largest, step: largest - least }
        }
    }

    /// Returns the numbers on it, from the least one on.
    pub fn numbers(&self) -> Vec<f64> {
        let count = ((self.largest - self.least) / self.step).round();
        if !(1.0..=20.0).contains(&count) {
            return vec![self.least, self.largest];
        }
        (0..=count as u32).map(|at| self.least + f64::from(at) * self.step).collect()
    }

    /// Returns how a number on it is written: with as many digits as tell two of them apart.
    pub fn label(&self, number: f64) -> String {
        let size = self.least.abs().max(self.largest.abs());
        if !(1e-4..1e7).contains(&size) {
            return if number == 0.0 { "0".to_owned() } else { format!("{number:.3e}") };
        }
        let digits = (-self.step.log10().floor()).clamp(0.0, 9.0) as usize;
        // A step of 2.5 needs one more digit than its size says.
        let is_odd = ((self.step * 10f64.powi(digits as i32)).fract() - 0.5).abs() < 1e-6;
        let text = format!("{number:.*}", digits + usize::from(is_odd));
        if text.trim_start_matches('-').chars().all(|c| matches!(c, '0' | '.')) {
            return "0".to_owned();
        }
        text
    }
}

/// Returns the next larger number of 1, 2, 2.5 and 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let step = step.max(f64::MIN_POSITIVE * 1e10);
    let power = 10f64.powf(step.log10().floor());
    let round = [1.0, 2.0, 2.5, 5.0, 10.0].map(|times| times * power);
    round.into_iter().find(|round| *round >= step * (1.0 - 1e-9)).unwrap_or(step)
}

impl Sheet {
    /// Returns what the curves are in a time. `values`: what is shown of them, else all; `hidden`
    /// says of each curve whether it is.
    pub fn of(
        things: &[Shared],
        time: (f64, f64),
        values: Option<(f64, f64)>,
        hidden: &[bool],
    ) -> Sheet {
        let (mut lines, mut marks) = (Vec::new(), Vec::new());
        for thing in things {
            // Copied in no time, so that the follower does not wait, and then worked on.
            let thing = locked(thing).clone();
            for (source, curve) in &thing.curves {
                let is_hidden = hidden.get(lines.len()) == Some(&true);
                let mut pieces = curve.lines(time.0, time.1);
                let last = curve.last(time.1);
                if thing.is_state {
                    let holds = thing.trouble.is_none();
                    pieces = pieces.into_iter().map(|piece| steps(&piece)).collect();
                    if let (Some(piece), true) = (pieces.last_mut(), holds)
                        && let Some(&(at, value)) = piece.last()
                        && at < time.1
                    {
                        piece.push((time.1, value));
                    }
                }
                // Of a state its value at the beginning, too, which was set before.
                let range = match (curve.range(time.0, time.1), thing.is_state) {
                    (range, false) => range,
                    (range, true) => {
                        let held = curve.last(time.0).map(|value| (value, value));
                        range.into_iter().chain(held).reduce(wider)
                    }
                };
                lines.push(Line {
                    label: source.text.escape_debug().to_string(),
                    pieces: if is_hidden { Vec::new() } else { pieces },
                    range,
                    last,
                    lost: thing.lost,
                    gaps: curve.gaps,
                    trouble: thing.trouble.clone(),
                    is_hidden,
                });
            }
            marks.extend(thing.marks.into_iter().filter(|(at, _)| (time.0..=time.1).contains(at)));
        }
        marks.sort_by(|a: &Mark, b| a.0.total_cmp(&b.0));
        let shown = lines.iter().filter(|line| !line.is_hidden).filter_map(|line| line.range);
        let values = match values {
            Some((least, largest)) => {
                Axis { least, largest, step: round_step((largest - least) / NUMBERS) }
            }
            None => {
                let (least, largest) = shown.reduce(wider).unwrap_or((0.0, 1.0));
                Axis::around(least, largest)
            }
        };
        Sheet { lines, marks, time, values }
    }

    /// Returns why there is no curve at all, if there is none.
    pub fn trouble(&self) -> Option<&Trouble> {
        let is_empty = self.lines.iter().all(|line| line.last.is_none());
        self.lines.iter().filter(|_| is_empty).find_map(|line| line.trouble.as_ref())
    }
}

fn wider(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// Each value holds until the next.
fn steps(piece: &[Point]) -> Vec<Point> {
    let mut all = Vec::with_capacity(piece.len() * 2);
    for (at, value) in piece {
        all.extend(all.last().map(|(_, before)| (*at, *before)));
        all.push((*at, *value));
    }
    all
}

/// Returns a value for a person: as many digits as fit a legend.
pub fn value(number: f64) -> String {
    let size = number.abs();
    match size {
        _ if number == 0.0 => "0".to_owned(),
        _ if !(1e-4..1e7).contains(&size) => format!("{number:.4e}"),
        _ => {
            let digits = (5 - size.log10().floor() as i32).clamp(0, 8) as usize;
            let text = format!("{number:.digits$}");
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a sheet with these curves, of the last 10 seconds.
    pub fn sheet(lines: &[(&str, &[Point])]) -> Sheet {
        let lines = lines.iter().map(|(label, points)| {
            let values = points.iter().map(|(_, value)| (*value, *value));
            Line {
                label: (*label).to_owned(),
                pieces: vec![points.to_vec()],
                range: values.reduce(wider),
                last: points.last().map(|(_, value)| *value),
                lost: 0,
                gaps: 0,
                trouble: points.is_empty().then_some(Trouble::Absent),
                is_hidden: false,
            }
        });
        let lines: Vec<Line> = lines.collect();
        let range = lines.iter().filter_map(|line| line.range).reduce(wider).unwrap_or((0.0, 1.0));
        Sheet {
            lines,
            marks: vec![(5.0, "pose: publisher 77 (arm) died".to_owned())],
            time: (0.0, 10.0),
            values: Axis::around(range.0, range.1),
        }
    }

    #[test]
    fn axes_have_round_numbers_at_their_ends() {
        let labels = |least, largest| {
            let axis = Axis::around(least, largest);
            axis.numbers().into_iter().map(|number| axis.label(number)).collect::<Vec<_>>()
        };
        assert_eq!(labels(0.0, 1.0), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(0.0, 1.5)[..3], ["0", "0.25", "0.50"]);
        assert_eq!(labels(-1.0, 1.0), ["-1.0", "-0.5", "0", "0.5", "1.0"]);
        assert_eq!(labels(3.0, 97.0), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(5.0, 5.0), ["4.4", "4.6", "4.8", "5.0", "5.2", "5.4", "5.6"]);
        assert_eq!(labels(0.0, 0.0).len(), 5);
        assert_eq!(
            labels(-1e300, 1e300),
            ["-1.000e300", "-5.000e299", "0", "5.000e299", "1.000e300"]
        );
        // Values that differ by less than a step can say.
        for (least, largest) in
            [(1e16, 1e16 + 2.0), (1e-300, 2e-300), (0.0, 5e-324), (1e300, 1e300), (-1e-9, 1e300)]
        {
            let axis = Axis::around(least, largest);
            assert!(axis.least <= least && axis.largest >= largest, "{axis:?}");
            assert!((2..=20).contains(&axis.numbers().len()), "{axis:?}");
        }
    }

    #[test]
    fn values_are_as_long_as_they_need_to_be() {
        for (number, text) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (-0.333333333, "-0.333333"),
            (123456.7, "123457"),
            (100.0, "100"),
            (9.999_999_99, "10"),
            (1.5e10, "1.5000e10"),
            (-2e-7, "-2.0000e-7"),
        ] {
            assert_eq!(value(number), text);
        }
    }

    #[test]
    fn a_value_of_a_state_holds_until_the_next() {
        assert_eq!(steps(&[(1.0, 5.0), (2.0, 6.0)]), [(1.0, 5.0), (2.0, 5.0), (2.0, 6.0)]);
    }
}
