//! The rows of several groups as lines: a point is a median, the thin line through it goes from the
//! smallest to the largest turn. Each line has its name at its end, and a mark of its own, so that
//! it is known without colours too.

use super::chart::{self, Area, Drawn, GRID, INK, MARGIN, OURS, PALE_INK, Scale, WIDTH, text};
use super::report::{Report, Row};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

const FIELD: i32 = 330;
/// Room for the heading, or without one.
const TOP: [i32; 2] = [152, 16];
const BOTTOM: i32 = 58;
const AXIS: i32 = 74;
const NAMES: i32 = 150;
/// Between the lowest points of two names, at least.
const NAME_HEIGHT: i32 = 17;

/// For the rows that are not ours, in their order.
const PEERS: [RGBColor; 8] = [
    RGBColor(82, 92, 105),
    RGBColor(181, 101, 29),
    RGBColor(107, 79, 160),
    RGBColor(58, 125, 68),
    RGBColor(166, 61, 87),
    RGBColor(74, 111, 165),
    RGBColor(122, 122, 82),
    RGBColor(140, 86, 75),
];

/// One for each line, ours and others'.
const OWN_MARKS: [Mark; 3] = [Mark::Disc, Mark::Ring, Mark::Cross];
const PEER_MARKS: [Mark; 4] = [Mark::Square, Mark::Triangle, Mark::Frame, Mark::Ring];
/// Between the points of two rows in one group.
const ASIDE: i32 = 7;

#[derive(Clone, Copy)]
enum Mark {
    Disc,
    Ring,
    Cross,
    Square,
    Triangle,
    Frame,
}

/// Draws the report's groups from left to right.
pub(super) fn draw(report: &Report, with_heading: bool, svg: &mut String) -> Drawn {
    let top = TOP[usize::from(!with_heading)];
    let area = SVGBackend::with_string(svg, (WIDTH as u32, (top + FIELD + BOTTOM) as u32))
        .into_drawing_area();
    area.fill(&WHITE)?;
    if with_heading {
        chart::heading(&area, report)?;
    }
    let rows = report.parts.iter().flat_map(|part| &part.rows);
    let least = rows.clone().map(|row| row.min).fold(f64::INFINITY, f64::min);
    let scale = Scale::of(rows).for_points(least);
    let (left, right) = (MARGIN + AXIS, WIDTH - MARGIN - NAMES);
    let foot = top + FIELD;
    let y = |value: f64| foot - (scale.place(value) * f64::from(FIELD)).round() as i32;
    // Evenly, whatever the numbers are: they are categories here.
    let (first, step) = (left + 48, (right - left - 96) / (report.parts.len() as i32 - 1).max(1));
    let x = |place: usize| first + place as i32 * step;

    for tick in scale.ticks() {
        area.draw(&PathElement::new([(left, y(tick)), (right, y(tick))], GRID.stroke_width(1)))?;
        text(&area, &chart::tick_label(tick), (left - 10, y(tick)), 12, PALE_INK, HPos::Right)?;
    }
    for (place, setting) in
        report.parts.iter().enumerate().filter_map(|(place, part)| Some((place, part.setting?)))
    {
        text(&area, &setting.number().to_string(), (x(place), foot + 16), 13, INK, HPos::Center)?;
        if place == 0 {
            let axis = format!("{}; up: {}", setting.axis(), scale.axis());
            text(&area, &axis, ((left + right) / 2, foot + 40), 12, PALE_INK, HPos::Center)?;
        }
    }
    area.draw(&PathElement::new([(left, foot), (right, foot)], INK.stroke_width(1)))?;

    let mut names = Vec::new();
    let (mut own, mut peers) = (0, 0);
    let rows = names_of(report);
    for (line, name) in rows.iter().copied().enumerate() {
        let ours = report.title.ours.contains(&name);
        let (color, which) = if ours {
            (OURS, OWN_MARKS[own % OWN_MARKS.len()])
        } else {
            (PEERS[peers % PEERS.len()], PEER_MARKS[peers % PEER_MARKS.len()])
        };
        // Side by side, so that the lines from min to max do not cover each other.
        let aside = (2 * line as i32 + 1 - rows.len() as i32) * ASIDE / 2;
        let points: Vec<(i32, &Row)> = report
            .parts
            .iter()
            .enumerate()
            .filter_map(|(place, part)| {
                Some((x(place) + aside, part.rows.iter().find(|row| row.name == name)?))
            })
            .collect();
        let line: Vec<(i32, i32)> = points.iter().map(|(x, row)| (*x, y(row.median))).collect();
        area.draw(&PathElement::new(line.clone(), color.stroke_width(if ours { 3 } else { 2 })))?;
        for (x, row) in points {
            area.draw(&PathElement::new(
                [(x, y(row.min)), (x, y(row.max))],
                color.stroke_width(1),
            ))?;
            mark(&area, which, (x, y(row.median)), color)?;
        }
        *if ours { &mut own } else { &mut peers } += 1;
        names.extend(line.last().map(|end| (*end, name, color)));
    }
    // From above to below, each at least a line's height under the one before; then all of them up,
    // if the last one is outside.
    names.sort_by_key(|((_, y), ..)| *y);
    let mut heights: Vec<i32> = Vec::new();
    for ((_, y), ..) in &names {
        heights.push(heights.last().map_or(*y, |above| (*above + NAME_HEIGHT).max(*y)));
    }
    let mut lowest = foot - 4;
    for height in heights.iter_mut().rev() {
        *height = (*height).min(lowest);
        lowest = *height - NAME_HEIGHT;
    }
    for (((end_x, end_y), name, color), height) in names.into_iter().zip(heights) {
        area.draw(&PathElement::new([(end_x + 7, end_y), (right, height)], GRID.stroke_width(1)))?;
        text(&area, name, (right + 6, height), 14, color, HPos::Left)?;
    }
    area.present()?;
    Ok(())
}

/// Returns each name once, in the order of the rows.
fn names_of(report: &Report) -> Vec<&'static str> {
    let mut names = Vec::new();
    for row in report.parts.iter().flat_map(|part| &part.rows) {
        if !names.contains(&row.name) {
            names.push(row.name);
        }
    }
    names
}

fn mark(area: &Area<'_>, which: Mark, (x, y): (i32, i32), color: RGBColor) -> Drawn {
    let square = [(x - 4, y - 4), (x + 4, y + 4)];
    match which {
        Mark::Disc => area.draw(&Circle::new((x, y), 5, color.filled()))?,
        Mark::Ring => area.draw(&Circle::new((x, y), 4, color.stroke_width(2)))?,
        Mark::Cross => area.draw(&Cross::new((x, y), 4, color.stroke_width(2)))?,
        Mark::Square => area.draw(&Rectangle::new(square, color.filled()))?,
        Mark::Triangle => area.draw(&TriangleMarker::new((x, y), 6, color.filled()))?,
        Mark::Frame => area.draw(&Rectangle::new(square, color.stroke_width(2)))?,
    }
    Ok(())
}
