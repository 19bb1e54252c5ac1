//! The rows as bars, in SVG; where there are several groups, as lines (see
//! [`lines`](super::lines)).
//!
//! A bar is a median; the thin line over its end goes from the smallest to the largest turn. The
//! scale is logarithmic when the rows are far apart, and says so. Each colour means one thing, so a
//! page that shows the chart in the dark can put others in their places: see `page.css`.

use super::crossing::EXPLAINED;
use super::error::Error;
use super::lines;
use super::report::{Part, Report, Row, figure, ratio};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt::Display;
use std::path::Path;

pub(super) const WIDTH: i32 = 960;
pub(super) const MARGIN: i32 = 28;
const NAMES: i32 = 180;
const FIGURES: i32 = 190;
/// Room for the heading, or without one.
const TOP: [i32; 2] = [152, 12];
const ROW: i32 = 38;
const BAR: i32 = 22;
const BOTTOM: i32 = 56;

pub(super) const INK: RGBColor = RGBColor(33, 37, 41);
pub(super) const PALE_INK: RGBColor = RGBColor(108, 117, 125);
pub(super) const GRID: RGBColor = RGBColor(226, 230, 234);
pub(super) const OURS: RGBColor = RGBColor(13, 124, 138);
const BASELINE: RGBColor = RGBColor(82, 92, 105);
const PEER: RGBColor = RGBColor(164, 178, 194);
const WHISKER: RGBColor = RGBColor(20, 24, 28);

/// Rows further apart than this get a logarithmic scale.
const LOGARITHMIC_FROM: f64 = 20.0;

/// Where a value lies on the axis, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// From 0 to here.
    Linear(f64),
    /// From the first to the second.
    Logarithmic(f64, f64),
}

impl Scale {
    pub(super) fn of<'a>(rows: impl IntoIterator<Item = &'a Row, IntoIter: Clone>) -> Self {
        let rows = rows.into_iter();
        let least = rows.clone().map(|row| row.min).fold(f64::INFINITY, f64::min);
        let most = rows.clone().map(|row| row.max).fold(0.0, f64::max);
        let (low, high) = (rows.map(|row| row.median).fold(f64::INFINITY, f64::min), most);
        if high / low < LOGARITHMIC_FROM {
            let step = step(most);
            return Self::Linear((most / step).ceil() * step);
        }
        // The shortest bar must still be a bar: it begins well below the least.
        Self::Logarithmic(10_f64.powf((least / 2.0).log10().floor()), most * 1.15)
    }

    /// Returns the scale for points, which need no length: it begins at the decade of the least.
    pub(super) fn for_points(self, least: f64) -> Self {
        match self {
            Self::Logarithmic(_, most) => {
                Self::Logarithmic(10_f64.powf(least.log10().floor()), most)
            }
            linear => linear,
        }
    }

    /// Returns what the axis shows.
    pub(super) fn axis(self) -> &'static str {
        match self {
            Self::Linear(_) => "nanoseconds, less is better",
            Self::Logarithmic(..) => "nanoseconds on a logarithmic scale, less is better",
        }
    }

    pub(super) fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear(most) => (value / most).clamp(0.0, 1.0),
            Self::Logarithmic(least, most) => {
                ((value / least).ln() / (most / least).ln()).clamp(0.0, 1.0)
            }
        }
    }

    pub(super) fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear(most) => {
                let step = step(most);
                (0..=(most / step).round() as u32).map(|tick| f64::from(tick) * step).collect()
            }
            Self::Logarithmic(least, most) => (0..)
                .map(|decade| least * 10_f64.powi(decade))
                .take_while(|tick| *tick <= most)
                .collect(),
        }
    }
}

/// Returns a round step that divides an axis up to `most` into four to ten parts.
fn step(most: f64) -> f64 {
    let decade = 10_f64.powf((most / 4.0).log10().floor());
    [5.0, 2.0, 1.0]
        .into_iter()
        .map(|part| part * decade)
        .find(|step| most / step >= 4.0)
        .unwrap_or(decade)
}

/// Draws the report into a file.
pub fn draw(report: &Report, path: &Path) -> Result<(), Error> {
    std::fs::write(path, svg(report, true)?).map_err(|error| {
        Error::Refused(format!("the chart could not be written to {}: {error}", path.display()))
    })
}

/// Draws the report: under a heading of its own, or for a page that has one.
pub fn svg(report: &Report, heading: bool) -> Result<String, Error> {
    let mut svg = String::new();
    let drawn = match &report.parts[..] {
        [part] => draw_bars(report, part, heading, &mut svg),
        _ => lines::draw(report, heading, &mut svg),
    };
    drawn.map_err(|error| Error::Refused(format!("the chart could not be drawn: {error}")))?;
    Ok(svg)
}

/// The plotting backend's errors come in several types; all that is done with them is to tell them.
pub(super) type Drawn = Result<(), Box<dyn std::error::Error>>;
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Returns a line of text, centred on its height.
pub(super) fn text(
    area: &Area<'_>,
    content: &str,
    at: (i32, i32),
    size: i32,
    color: RGBColor,
    to: HPos,
) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&color).pos(Pos::new(to, VPos::Center));
    area.draw(&Text::new(content.to_owned(), at, style))?;
    Ok(())
}

/// Returns what was measured and on what.
pub(super) fn heading(area: &Area<'_>, report: &Report) -> Drawn {
    let bold = ("sans-serif", 21).into_font().style(FontStyle::Bold).color(&INK);
    let title = format!("outlive bench {} · {}", report.title.bench, report.title.mode);
    area.draw(&Text::new(title, (MARGIN, 34), bold.pos(Pos::new(HPos::Left, VPos::Center))))?;
    let machine = format!(
        "{}, Linux {}; medians of interleaved rounds, lines from min to max",
        report.machine.cpu, report.machine.kernel
    );
    let counted = match &report.parts[..] {
        [part] => format!("; {}", part.counted()),
        _ => String::new(),
    };
    let crossing = format!("{}{counted}", report.machine.crossing());
    text(area, &report.subtitle(), (MARGIN, 60), 15, INK, HPos::Left)?;
    text(area, &machine, (MARGIN, 82), 13, PALE_INK, HPos::Left)?;
    text(area, &crossing, (MARGIN, 102), 13, PALE_INK, HPos::Left)?;
    if report.tells_kinds() {
        text(area, EXPLAINED, (MARGIN, 122), 13, PALE_INK, HPos::Left)?;
    }
    Ok(())
}

fn draw_bars(report: &Report, part: &Part, with_heading: bool, svg: &mut String) -> Drawn {
    let top = TOP[usize::from(!with_heading)];
    let height = top + ROW * part.rows.len() as i32 + BOTTOM;
    let area = SVGBackend::with_string(svg, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    if with_heading {
        heading(&area, report)?;
    }
    let text = |content: &str, at, size, color, to| text(&area, content, at, size, color, to);
    let scale = Scale::of(&part.rows);
    let (left, right) = (MARGIN + NAMES, WIDTH - MARGIN - FIGURES);
    let x = |value: f64| left + (scale.place(value) * f64::from(right - left)).round() as i32;
    let foot = height - BOTTOM + 4;
    for tick in scale.ticks() {
        area.draw(&PathElement::new([(x(tick), top - 6), (x(tick), foot)], GRID.stroke_width(1)))?;
        text(&tick_label(tick), (x(tick), foot + 14), 12, PALE_INK, HPos::Center)?;
    }
    text(scale.axis(), ((left + right) / 2, foot + 34), 12, PALE_INK, HPos::Center)?;

    for (place, row) in part.rows.iter().enumerate() {
        let middle = top + ROW * place as i32 + ROW / 2;
        let color = match row {
            row if report.title.ours.contains(&row.name) => OURS,
            row if row.baseline => BASELINE,
            _ => PEER,
        };
        let bar = [(left, middle - BAR / 2), (x(row.median), middle + BAR / 2)];
        area.draw(&Rectangle::new(bar, color.filled()))?;
        for line in whisker(x(row.min), x(row.max), middle) {
            area.draw(&PathElement::new(line, WHISKER.stroke_width(1)))?;
        }
        text(row.name, (left - 12, middle), 15, INK, HPos::Right)?;
        text(&format!("{} ns", figure(row.median)), (right + 100, middle), 15, INK, HPos::Right)?;
        let compared =
            if row.baseline { "baseline".to_owned() } else { format!("{} ×", ratio(row.ratio)) };
        text(
            &compared,
            (WIDTH - MARGIN, middle),
            15,
            if row.baseline { PALE_INK } else { INK },
            HPos::Right,
        )?;
    }
    area.draw(&PathElement::new([(left, top - 6), (left, foot)], INK.stroke_width(1)))?;
    area.present()?;
    Ok(())
}

/// Returns the lines from the smallest to the largest, with a cap at both ends.
fn whisker(from: i32, to: i32, middle: i32) -> [[(i32, i32); 2]; 3] {
    [
        [(from, middle), (to, middle)],
        [(from, middle - 5), (from, middle + 5)],
        [(to, middle - 5), (to, middle + 5)],
    ]
}

/// Returns a tick's label, in the unit that a person would use.
pub(super) fn tick_label(tick: impl Into<f64> + Display + Copy) -> String {
    let value: f64 = tick.into();
    match value {
        1e6.. => format!("{} ms", value / 1e6),
        1e3.. => format!("{} µs", value / 1e3),
        // Powers of ten are not exact in binary.
        _ => format!("{} ns", (value * 1e4).round() / 1e4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &'static str, median: f64) -> Row {
        Row {
            name,
            kind: "all",
            unit: "ns",
            median,
            min: median * 0.9,
            max: median * 1.1,
            ratio: 1.0,
            baseline: false,
            per_second: 1e9 / median,
            operations: 1,
            p99: None,
            p99_9: None,
            turns: 1,
            preempted: 0,
        }
    }

    #[test]
    fn rows_close_together_get_a_linear_scale() {
        let scale = Scale::of(&[row("a", 4.0), row("b", 6.0)]);
        assert_eq!(scale, Scale::Linear(7.0));
        assert_eq!(scale.ticks(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!(scale.place(3.5), 0.5);
    }

    #[test]
    fn rows_far_apart_get_a_logarithmic_scale() {
        let scale = Scale::of(&[row("a", 0.5), row("b", 500.0)]);
        let Scale::Logarithmic(least, most) = scale else { panic!("{scale:?}") };
        assert!(least < 0.45 && most > 550.0);
        assert_eq!(scale.ticks().len(), 4);
        assert!(scale.place(0.5) > 0.0 && scale.place(550.0) < 1.0);
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(step(10.0), 2.0);
        assert_eq!(step(40.0), 10.0);
        assert_eq!(step(23.0), 5.0);
    }

    #[test]
    fn ticks_are_labelled_in_their_unit() {
        assert_eq!(tick_label(0.1), "0.1 ns");
        assert_eq!(tick_label(20_000.0), "20 µs");
        assert_eq!(tick_label(1_500_000.0), "1.5 ms");
    }
}
