//! The plot in a file, as SVG or PNG: the same lines on another ground.
//!
//! No font of the machine is needed: a program that reads SVG has its own, and the letters of a PNG
//! come with their crate.

use std::convert::Infallible;

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendTextStyle, DrawingErrorKind};

use super::follow::Trouble;
use super::sheet::{self, Sheet};
use crate::output::count;

/// Of a picture.
pub const SIZE: (u32, u32) = (960, 480);
const MARGIN: i32 = 16;
/// Room for the numbers of the values.
const AXIS: i32 = 84;
const ROW: i32 = 20;
const INK: RGBColor = RGBColor(33, 37, 41);
const PALE: RGBColor = RGBColor(108, 117, 125);
const GRID: RGBColor = RGBColor(222, 226, 230);
const DEATH: RGBColor = RGBColor(200, 30, 30);
/// Of the curves, in turn.
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 130, 0),
    RGBColor(0, 140, 100),
    RGBColor(180, 80, 150),
    RGBColor(70, 70, 70),
    RGBColor(120, 90, 40),
];

/// Returns the sheet as SVG.
pub fn svg(sheet: &Sheet) -> Result<String, String> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, size(sheet)).into_drawing_area();
    draw(&area, sheet).map_err(|error| error.to_string())?;
    drop(area);
    Ok(text)
}

/// Returns the sheet as PNG.
pub fn png(sheet: &Sheet) -> Result<Vec<u8>, String> {
    let size = size(sheet);
    let mut pixels = vec![255; size.0 as usize * size.1 as usize * 3];
    let area = Pixels { size, rgb: &mut pixels }.into_drawing_area();
    draw(&area, sheet).map_err(|error| error.to_string())?;
    drop(area);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size.0, size.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&pixels));
    written.map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// The legend's rows are below the curves.
fn size(sheet: &Sheet) -> (u32, u32) {
    (SIZE.0, SIZE.1 + (sheet.lines.len().min(MOST_ROWS) + 1) as u32 * ROW as u32)
}

/// So many curves are named.
const MOST_ROWS: usize = 64;

type Area<'a, B> = DrawingArea<B, plotters::coord::Shift>;

fn draw<B: DrawingBackend>(
    area: &Area<'_, B>,
    sheet: &Sheet,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    area.fill(&WHITE)?;
    let (left, right) = (MARGIN + AXIS, SIZE.0 as i32 - MARGIN);
    let (top, foot) = (MARGIN, SIZE.1 as i32 - MARGIN - ROW);
    let (from, to) = sheet.time;
    let place = |value: f64, from: f64, to: f64, begin: i32, end: i32| {
        // Both halves, as the largest numbers have no difference.
        let part = (value / 2.0 - from / 2.0) / (to / 2.0 - from / 2.0);
        begin + (part * f64::from(end - begin)).clamp(-1e5, 1e5).round() as i32
    };
    let x = |at: f64| place(at, from, to, left, right);
    let y = |value: f64| place(value, sheet.values.least, sheet.values.largest, foot, top);
    let line =
        |from, to, color: RGBColor| area.draw(&PathElement::new([from, to], color.stroke_width(1)));
    for number in sheet.values.numbers() {
        line((left, y(number)), (right, y(number)), GRID)?;
        text(area, &sheet.values.label(number), (left - 8, y(number)), PALE, HPos::Right)?;
    }
    for part in 0..=5 {
        let at = from + (to - from) * f64::from(part) / 5.0;
        let label = format!("{} s", sheet::value(at - to));
        line((x(at), foot), (x(at), foot + 4), PALE)?;
        let anchor = if part == 5 { HPos::Right } else { HPos::Center };
        text(area, &label, (x(at), foot + 16), PALE, anchor)?;
    }
    for (at, what) in &sheet.marks {
        line((x(*at), top), (x(*at), foot), DEATH)?;
        let anchor = if x(*at) > (left + right) / 2 { HPos::Right } else { HPos::Left };
        let aside = if matches!(anchor, HPos::Left) { 4 } else { -4 };
        text(area, what, (x(*at) + aside, top + 8), DEATH, anchor)?;
    }
    for (at, curve) in sheet.lines.iter().enumerate() {
        let color = COLORS[at % COLORS.len()];
        for piece in &curve.pieces {
            // What reaches over the ends ends there.
            let points = piece.iter().map(|(at, value)| (x(at.clamp(from, to)), y(*value)));
            let points: Vec<(i32, i32)> = points.collect();
            match points[..] {
                [point] => area.draw(&Circle::new(point, 2, color.filled()))?,
                _ => area.draw(&PathElement::new(points, color.stroke_width(2)))?,
            }
        }
    }
    let mut row = foot + ROW + MARGIN;
    for (at, curve) in sheet.lines.iter().enumerate().take(MOST_ROWS) {
        let color = COLORS[at % COLORS.len()];
        row += ROW;
        area.draw(&PathElement::new([(left, row), (left + 24, row)], color.stroke_width(3)))?;
        text(area, &told(curve), (left + 32, row), INK, HPos::Left)?;
    }
    area.present()
}

fn told(curve: &sheet::Line) -> String {
    let mut told = curve.label.clone();
    if let (Some(last), Some((least, largest))) = (curve.last, curve.range) {
        let [last, least, largest] = [last, least, largest].map(sheet::value);
        told.push_str(&format!("  last {last}, min {least}, max {largest}"));
    }
    for (number, what) in [(curve.lost, "lost"), (curve.gaps, "without a number")] {
        if number > 0 {
            told.push_str(&format!(", {} {what}", count(number)));
        }
    }
    match &curve.trouble {
        Some(Trouble::Absent) => told.push_str(", is not there"),
        Some(Trouble::Wrong(why)) => told.push_str(&format!(", {why}")),
        None => {}
    }
    told
}

fn text<B: DrawingBackend>(
    area: &Area<'_, B>,
    text: &str,
    at: (i32, i32),
    color: RGBColor,
    anchor: HPos,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let style = ("monospace", 13).into_font().color(&color).pos(Pos::new(anchor, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))
}

/// Pixels to draw on.
struct Pixels<'a> {
    size: (u32, u32),
    rgb: &'a mut [u8],
}

/// The size of the letters: the smallest that the crate has.
const HEIGHT: RasterHeight = RasterHeight::Size16;

impl DrawingBackend for Pixels<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn draw_pixel(
        &mut self,
        (x, y): BackendCoord,
        color: BackendColor,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let place = |at: i32, most: u32| u32::try_from(at).ok().filter(|at| *at < most);
        if let (Some(x), Some(y)) = (place(x, self.size.0), place(y, self.size.1)) {
            let first = (y as usize * self.size.0 as usize + x as usize) * 3;
            let (red, green, blue) = color.rgb;
            for (at, new) in [red, green, blue].into_iter().enumerate() {
                let old = f64::from(self.rgb[first + at]);
                let mixed = old + (f64::from(new) - old) * color.alpha.clamp(0.0, 1.0);
                self.rgb[first + at] = mixed.round() as u8;
            }
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        _style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let width = get_raster_width(FontWeight::Regular, HEIGHT) * text.chars().count();
        Ok((width as u32, HEIGHT.val() as u32))
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let (width, height) = self.estimate_text_size(text, style)?;
        let aside = match style.anchor().h_pos {
            HPos::Left => 0,
            HPos::Center => width as i32 / 2,
            HPos::Right => width as i32,
        };
        let (mut x, y) = (x - aside, y - height as i32 / 2);
        let color = style.color();
        for letter in text.chars() {
            let raster = get_raster(letter, FontWeight::Regular, HEIGHT)
                .or_else(|| get_raster('?', FontWeight::Regular, HEIGHT));
            let Some(raster) = raster else { continue };
            for (down, row) in raster.rows().enumerate() {
                for (right, part) in row.iter().enumerate() {
                    let alpha = color.alpha * f64::from(*part) / 255.0;
                    let at = (x + right as i32, y + down as i32);
                    self.draw_pixel(at, BackendColor { alpha, ..color })?;
                }
            }
            x += raster.width() as i32;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::sheet::tests::sheet;
    use super::*;

    #[test]
    fn a_picture_has_the_curves_and_their_names() {
        let rising: Vec<(f64, f64)> =
            (0..=100).map(|at| (f64::from(at) / 10.0, at.into())).collect();
        let sheet = sheet(&[("a.x < b", &rising), ("later.y", &[])]);
        let text = svg(&sheet).expect("drawn");
        for part in
            ["a.x &lt; b  last 100", "later.y, is not there", "publisher 77 (arm) died", "-10 s"]
        {
            assert!(text.contains(part), "'{part}' is not in {text}");
        }
        assert!(text.contains("<polyline"), "{text}");
        let bytes = png(&sheet).expect("drawn");
        let mut reader =
            png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().expect("a PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("small")];
        let info = reader.next_frame(&mut pixels).expect("whole");
        assert_eq!((info.width, info.height), (960, 480 + 3 * 20));
        let has = |color: RGBColor| {
            let RGBColor(red, green, blue) = color;
            pixels.chunks_exact(3).filter(|pixel| *pixel == [red, green, blue]).count()
        };
        assert!(has(COLORS[0]) > 500 && has(DEATH) > 300 && has(GRID) > 2000, "{}", has(COLORS[0]));
        // In the middle of the rising curve.
        let middle = (MARGIN + AXIS + 960 - MARGIN) / 2;
        let is_curve =
            |y: usize| pixels[(y * 960 + middle as usize - 40) * 3..][..3] == [0, 114, 178];
        assert!((180..290).any(is_curve));
    }

    #[test]
    fn the_largest_numbers_have_a_place() {
        let odd = [(0.0, -1e300), (1.0, 1e300), (2.0, 5e-324)];
        let sheet = sheet(&[("größe", &odd)]);
        assert!(svg(&sheet).expect("drawn").contains("größe"));
        png(&sheet).expect("drawn");
    }
}
