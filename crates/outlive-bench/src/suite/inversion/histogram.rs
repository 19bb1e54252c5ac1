//! How many intervals of which length: counted, as a table, as a drawing.

use super::{Report, Row};
use crate::harness::error::Error;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Bins to a doubling of the length.
const FINE: f64 = 4.0;
const NS_PER_MS: f64 = 1e6;

/// Counts by length, in bins that grow with it.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    bins: BTreeMap<i32, u64>,
}

/// Its form in the JSON document.
#[derive(Serialize)]
struct Bin {
    from_ns: f64,
    below_ns: f64,
    count: u64,
}

fn start_of(bin: i32) -> f64 {
    NS_PER_MS * (f64::from(bin) / FINE).exp2()
}

impl Histogram {
    /// Counts an interval.
    pub fn count(&mut self, ns: u64) {
        let bin = ((ns.max(1) as f64 / NS_PER_MS).log2() * FINE).floor() as i32;
        *self.bins.entry(bin).or_default() += 1;
    }

    /// Returns all that were counted.
    pub fn total(&self) -> u64 {
        self.bins.values().sum()
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bins = serializer.serialize_seq(Some(self.bins.len()))?;
        for (&bin, &count) in &self.bins {
            bins.serialize_element(&Bin {
                from_ns: start_of(bin),
                below_ns: start_of(bin + 1),
                count,
            })?;
        }
        bins.end()
    }
}

/// Rows by columns: a line for each bin with a count in any row.
pub fn table(rows: &[Row]) -> String {
    let mut all: Vec<i32> =
        rows.iter().flat_map(|row| row.histogram.bins.keys().copied()).collect();
    all.sort_unstable();
    all.dedup();
    let mut text = format!("{:>13}", "");
    // Writing to a String cannot fail; so with all below.
    for row in rows {
        let _ = write!(text, "  {:>11}", row.name);
    }
    text.push('\n');
    for bin in all {
        let _ = write!(
            text,
            "{:>5.1} – {:>5.1}",
            start_of(bin) / NS_PER_MS,
            start_of(bin + 1) / NS_PER_MS
        );
        for row in rows {
            match row.histogram.bins.get(&bin) {
                Some(count) => {
                    let _ = write!(text, "  {count:>11}");
                }
                None => {
                    let _ = write!(text, "  {:>11}", "·");
                }
            }
        }
        text.push('\n');
    }
    text
}

const WIDTH: i32 = 960;
const MARGIN: i32 = 28;
const NAMES: i32 = 130;
const TOP: i32 = 92;
const PANEL: i32 = 110;
const GAP: i32 = 16;
const BOTTOM: i32 = 66;

const INK: RGBColor = RGBColor(33, 37, 41);
const PALE_INK: RGBColor = RGBColor(108, 117, 125);
const GRID: RGBColor = RGBColor(226, 230, 234);
const OURS: RGBColor = RGBColor(13, 124, 138);
const BASELINE: RGBColor = RGBColor(82, 92, 105);
const PLAIN: RGBColor = RGBColor(196, 78, 62);

/// Draws a panel for each row: lengths to the right, counts upwards, both on logarithmic scales.
pub fn draw(report: &Report, path: &Path) -> Result<(), Error> {
    std::fs::write(path, svg(report)?).map_err(|error| {
        Error::Refused(format!("the chart could not be written to {}: {error}", path.display()))
    })
}

/// Returns the same, as text.
pub fn svg(report: &Report) -> Result<String, Error> {
    let mut svg = String::new();
    draw_all(report, &mut svg)
        .map_err(|error| Error::Refused(format!("the chart could not be drawn: {error}")))?;
    Ok(svg)
}

/// Draws the panels. The plotting backend's errors come in several types; the caller only tells
/// them.
fn draw_all(report: &Report, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let height = TOP + (PANEL + GAP) * report.rows.len() as i32 + BOTTOM;
    let area = SVGBackend::with_string(svg, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let text = |content: &str, at: (i32, i32), size: i32, color: RGBColor, to: HPos| {
        let style = ("sans-serif", size).into_font().color(&color).pos(Pos::new(to, VPos::Center));
        area.draw(&Text::new(content.to_owned(), at, style))
    };
    let [meaning, machine] = report.heading();
    text("outlive bench inversion", (MARGIN, 28), 21, INK, HPos::Left)?;
    text(&meaning, (MARGIN, 52), 14, INK, HPos::Left)?;
    text(&machine, (MARGIN, 72), 12, PALE_INK, HPos::Left)?;

    let bins = || report.rows.iter().flat_map(|row| &row.histogram.bins);
    let least = bins().map(|(bin, _)| *bin).min().unwrap_or(0);
    let most = bins().map(|(bin, _)| *bin + 1).max().unwrap_or(1);
    let highest = bins().map(|(_, count)| *count).max().unwrap_or(1) as f64;
    let (left, right) = (MARGIN + NAMES, WIDTH - MARGIN);
    let x = |bin: f64| {
        left + ((bin - f64::from(least)) / f64::from(most - least) * f64::from(right - left)) as i32
    };
    // One interval is as high as a tenth of the panel, so that the rarest, which matter most, are
    // seen.
    let tall = |count: u64| {
        ((0.1 + 0.9 * (count as f64).ln() / highest.max(2.0).ln()) * f64::from(PANEL)) as i32
    };
    let foot = TOP + (PANEL + GAP) * report.rows.len() as i32;
    for ms in [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0_f64] {
        let bin = ms.log2() * FINE;
        if (f64::from(least)..=f64::from(most)).contains(&bin) {
            area.draw(&PathElement::new([(x(bin), TOP), (x(bin), foot)], GRID.stroke_width(1)))?;
            text(&format!("{ms} ms"), (x(bin), foot + 14), 12, PALE_INK, HPos::Center)?;
        }
    }
    for (place, row) in report.rows.iter().enumerate() {
        let ground = TOP + (PANEL + GAP) * place as i32 + PANEL;
        let color = match row.name {
            "undisturbed" => BASELINE,
            "plain" => PLAIN,
            _ => OURS,
        };
        for (&bin, &count) in &row.histogram.bins {
            let bar = [
                (x(f64::from(bin)) + 1, ground - tall(count)),
                (x(f64::from(bin + 1)) - 1, ground),
            ];
            area.draw(&Rectangle::new(bar, color.filled()))?;
        }
        area.draw(&PathElement::new([(left, ground), (right, ground)], PALE_INK.stroke_width(1)))?;
        text(row.name, (left - 12, ground - PANEL / 2), 15, INK, HPos::Right)?;
        text(
            &format!("worst {:.1} ms", row.worst / NS_PER_MS),
            (left - 12, ground - 12),
            12,
            PALE_INK,
            HPos::Right,
        )?;
    }
    text(
        "length of an interval; counts on a logarithmic scale",
        ((left + right) / 2, foot + 34),
        12,
        PALE_INK,
        HPos::Center,
    )?;
    text(&report.verdict(), ((left + right) / 2, foot + 52), 12, INK, HPos::Center)?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_grow_with_the_length_and_hold_what_they_say() {
        let mut histogram = Histogram::default();
        for ns in [5_000_000, 5_000_001, 70_000_000, 0] {
            histogram.count(ns);
        }
        assert_eq!((histogram.total(), histogram.bins.len()), (4, 3));
        for (&bin, ns) in histogram.bins.keys().zip([1.0, 5e6, 70e6]) {
            assert!((start_of(bin)..start_of(bin + 1)).contains(&ns), "{bin} for {ns}");
        }
    }
}
