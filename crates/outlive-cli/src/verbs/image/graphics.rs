//! A picture as pixels of the terminal: sixel, and the protocol of kitty.
//!
//! Sixels have the 216 colours of a cube, with a pattern that mixes them. Colours chosen for each
//! picture would be truer, and would cost more time than a picture of a live topic has.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::picture::Pixels;

/// Levels of each colour.
const LEVELS: u16 = 6;
/// By how much a pixel is brightened before it is rounded down, by its place: so neighbours mix.
const PATTERN: [[u16; 4]; 4] = [[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]];

/// Returns the picture as sixels, at the cursor.
pub fn sixel(pixels: &Pixels) -> String {
    let width = pixels.width.max(1);
    let height = pixels.rgb.len() / width;
    let mut text = format!("\x1bP0;1q\"1;1;{width};{height}");
    for color in 0..LEVELS * LEVELS * LEVELS {
        let part = |level: u16| level % LEVELS * 100 / (LEVELS - 1);
        let (red, green, blue) = (color / 36, color / 6, color);
        let _ = write!(text, "#{color};2;{};{};{}", part(red), part(green), part(blue));
    }
    // Six rows at a time: of each colour in them which dots it has.
    for band in 0..height.div_ceil(6) {
        let mut dots: Vec<Option<Vec<u8>>> = vec![None; 216];
        for (row, y) in (band * 6..height.min(band * 6 + 6)).enumerate() {
            for x in 0..width {
                let color = of_cube(pixels.rgb[y * width + x], x, y);
                dots[usize::from(color)].get_or_insert_with(|| vec![0; width])[x] |= 1 << row;
            }
        }
        for (color, dots) in
            dots.iter().enumerate().filter_map(|(at, dots)| Some((at, dots.as_ref()?)))
        {
            let _ = write!(text, "#{color}");
            for run in dots.chunk_by(|a, b| a == b) {
                let dot = char::from(b'?' + run[0]);
                if run.len() > 3 {
                    let _ = write!(text, "!{}{dot}", run.len());
                } else {
                    text.extend(std::iter::repeat_n(dot, run.len()));
                }
            }
            text.push('$');
        }
        text.push('-');
    }
    text.push_str("\x1b\\");
    text
}

fn of_cube(rgb: [u8; 3], x: usize, y: usize) -> u16 {
    let aside = PATTERN[y % 4][x % 4];
    let [red, green, blue] =
        rgb.map(|part| (u16::from(part) * (LEVELS - 1) * 16 + aside * 255) / (255 * 16));
    red * 36 + green * 6 + blue
}

/// Returns the picture for a terminal that knows kitty's protocol, at the cursor, in a place of so
/// many columns and rows. Of one number, it takes the place of the one before.
pub fn kitty(pixels: &Pixels, (columns, rows): (u16, u16)) -> String {
    // What the protocol allows in one piece.
    const PIECE: usize = 4096;
    let width = pixels.width.max(1);
    let height = pixels.rgb.len() / width;
    let data = STANDARD.encode(pixels.rgb.as_flattened());
    let mut text = String::with_capacity(data.len() + data.len() / 64);
    let pieces = data.len().div_ceil(PIECE);
    for (at, piece) in data.as_bytes().chunks(PIECE).enumerate() {
        let more = u8::from(at + 1 < pieces);
        text.push_str("\x1b_G");
        if at == 0 {
            let _ =
                write!(text, "a=T,f=24,s={width},v={height},i=1,p=1,c={columns},r={rows},C=1,q=2,");
        }
        // base64 is ASCII.
        let _ = write!(text, "m={more};{}\x1b\\", String::from_utf8_lossy(piece));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the dots of sixels: their colours, row by row.
    fn read(text: &str, width: usize) -> Vec<Option<u16>> {
        let body = text.strip_prefix("\x1bP0;1q").and_then(|text| text.strip_suffix("\x1b\\"));
        let body = body.expect("sixels");
        let begin = body.find("#215;2;100;100;100").expect("colours") + "#215;2;100;100;100".len();
        let mut dots = Vec::new();
        let (mut x, mut band, mut color, mut chars) = (0, 0, 0, body[begin..].chars().peekable());
        while let Some(c) = chars.next() {
            let mut number = || {
                let mut number = 0_usize;
                while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                    number = number * 10 + digit as usize;
                    chars.next();
                }
                number
            };
            let (times, dot) = match c {
                '#' => {
                    color = number() as u16;
                    continue;
                }
                '$' => {
                    x = 0;
                    continue;
                }
                '-' => {
                    (x, band) = (0, band + 1);
                    continue;
                }
                '!' => (number(), chars.next().expect("a dot")),
                dot => (1, dot),
            };
            for _ in 0..times {
                for row in (0..6).filter(|row| (dot as u8 - b'?') & (1 << row) != 0) {
                    let place = (band * 6 + row) * width + x;
                    dots.resize(dots.len().max(place + 1), None);
                    dots[place] = Some(color);
                }
                x += 1;
            }
        }
        dots
    }

    #[test]
    fn sixels_have_each_dot_once_in_its_colour() {
        let rgb: Vec<[u8; 3]> = (0..20 * 13)
            .map(|place| match place % 3 {
                0 => [255, 0, 0],
                1 => [0, 255, 255],
                _ => [255; 3],
            })
            .collect();
        let dots = read(&sixel(&Pixels { width: 20, rgb }), 20);
        let expected: Vec<Option<u16>> =
            (0..20 * 13).map(|place| Some([180, 35, 215][place % 3])).collect();
        assert_eq!(dots, expected);
        // Grey between two levels is a mixture of them.
        let grey = read(&sixel(&Pixels { width: 4, rgb: vec![[128; 3]; 16] }), 4);
        let levels: std::collections::BTreeSet<_> = grey.into_iter().flatten().collect();
        assert_eq!(levels.into_iter().collect::<Vec<_>>(), [2 * 43, 3 * 43]);
    }

    #[test]
    fn kittys_pieces_are_of_the_length_that_it_takes() {
        let text = kitty(&Pixels { width: 100, rgb: vec![[1, 2, 3]; 5000] }, (40, 12));
        let pieces: Vec<&str> = text.split_terminator("\x1b\\").collect();
        assert!(pieces[0].starts_with("\x1b_Ga=T,f=24,s=100,v=50,i=1,p=1,c=40,r=12,C=1,q=2,m=1;"));
        assert!(pieces[1..pieces.len() - 1].iter().all(|piece| piece.starts_with("\x1b_Gm=1;")));
        assert!(pieces[pieces.len() - 1].starts_with("\x1b_Gm=0;"));
        let data: String =
            pieces.iter().map(|piece| piece.split_once(';').expect("data").1).collect();
        assert!(pieces.iter().all(|piece| piece.split_once(';').expect("data").1.len() <= 4096));
        assert_eq!(STANDARD.decode(data).expect("base64"), [1, 2, 3].repeat(5000));
    }
}
