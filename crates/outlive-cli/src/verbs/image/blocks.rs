//! A picture as characters: two pixels above each other in each, as the colours of a half block and
//! of what is behind it.

use std::fmt::Write;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;

use super::picture::Pixels;
use crate::screen::Look;

/// Returns whether the terminal says that it knows all colours, and not 256 of them.
pub fn has_all_colors() -> bool {
    std::env::var("COLORTERM").is_ok_and(|value| matches!(value.as_str(), "truecolor" | "24bit"))
}

/// Draws pixels, of which an even number is above each other, into a place of their size.
pub fn draw(pixels: &Pixels, place: Rect, buffer: &mut Buffer, look: Look, all_colors: bool) {
    let color = |[red, green, blue]: [u8; 3]| match all_colors {
        true => Color::Rgb(red, green, blue),
        false => Color::Indexed(indexed([red, green, blue])),
    };
    for y in 0..place.height {
        for x in 0..place.width {
            let at = |down: usize| {
                let row = usize::from(y) * 2 + down;
                pixels.rgb.get(row * pixels.width + usize::from(x)).copied()
            };
            let (Some(upper), Some(lower)) = (at(0), at(1)) else { continue };
            let Some(cell) = buffer.cell_mut((place.x + x, place.y + y)) else { continue };
            match look {
                Look { has_colors: false, .. } => {
                    cell.set_char(shade(mean(upper, lower)));
                }
                Look { has_unicode: false, .. } => {
                    cell.set_char(' ').set_bg(color(mean(upper, lower)));
                }
                _ => {
                    cell.set_char('▀').set_fg(color(upper)).set_bg(color(lower));
                }
            }
        }
    }
}

/// Returns a buffer as text for a terminal, a line for each row.
pub fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for row in buffer.content.chunks(usize::from(buffer.area.width).max(1)) {
        let mut before = (Color::Reset, Color::Reset);
        for cell in row {
            if (cell.fg, cell.bg) != before {
                before = (cell.fg, cell.bg);
                for (color, of) in [(cell.fg, 38), (cell.bg, 48)] {
                    let _ = match color {
                        Color::Rgb(red, green, blue) => {
                            write!(text, "\x1b[{of};2;{red};{green};{blue}m")
                        }
                        Color::Indexed(number) => write!(text, "\x1b[{of};5;{number}m"),
                        _ => write!(text, "\x1b[{}m", of + 1),
                    };
                }
            }
            text.push_str(cell.symbol());
        }
        if before != (Color::Reset, Color::Reset) {
            text.push_str("\x1b[0m");
        }
        text.push('\n');
    }
    text
}

fn mean(a: [u8; 3], b: [u8; 3]) -> [u8; 3] {
    [0, 1, 2].map(|part| ((u16::from(a[part]) + u16::from(b[part])) / 2) as u8)
}

/// Returns a character of about that brightness on a dark ground.
fn shade([red, green, blue]: [u8; 3]) -> char {
    const SHADES: &[u8; 10] = b" .:-=+*#%@";
    let brightness = (u32::from(red) * 3 + u32::from(green) * 6 + u32::from(blue)) / 10;
    char::from(SHADES[(brightness * 9 / 255) as usize])
}

/// Returns the nearest of the 256 colours: of the cube of six levels each, or of the greys.
fn indexed(rgb: [u8; 3]) -> u8 {
    let [red, green, blue] = rgb;
    let spread = rgb.iter().max().unwrap_or(&0) - rgb.iter().min().unwrap_or(&0);
    if spread < 8 {
        // 24 greys from 8 to 238, with black and white at their ends.
        return match red {
            0..=3 => 16,
            244.. => 231,
            grey => 232 + (grey.saturating_sub(3) / 10).min(23),
        };
    }
    let level = |part: u8| match part {
        0..=47 => 0,
        48..=114 => 1,
        part => (part - 35) / 40,
    };
    16 + 36 * level(red) + 6 * level(green) + level(blue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_blocks_have_the_colours_of_their_pixels() {
        let pixels = Pixels { width: 1, rgb: vec![[255, 0, 0], [0, 0, 255]] };
        let shown = |has_unicode, has_colors, all_colors| {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 1, 1));
            let look = Look { has_unicode, has_colors };
            draw(&pixels, buffer.area, &mut buffer, look, all_colors);
            text(&buffer)
        };
        assert_eq!(shown(true, true, true), "\x1b[38;2;255;0;0m\x1b[48;2;0;0;255m▀\x1b[0m\n");
        assert_eq!(shown(true, true, false), "\x1b[38;5;196m\x1b[48;5;21m▀\x1b[0m\n");
        assert_eq!(shown(false, true, true), "\x1b[39m\x1b[48;2;127;0;127m \x1b[0m\n");
        assert_eq!(shown(true, false, true), ".\n");
        assert_eq!([[0; 3], [255; 3], [128; 3], [250, 250, 255]].map(indexed), [16, 231, 244, 231]);
        // Fewer pixels than the place has.
        let mut buffer = Buffer::empty(Rect::new(0, 0, 3, 3));
        draw(&pixels, buffer.area, &mut buffer, Look { has_unicode: true, has_colors: true }, true);
    }
}
