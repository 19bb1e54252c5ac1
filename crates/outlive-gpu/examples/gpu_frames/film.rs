//! Pictures as PNG files: a frame beside its edges, and at the end all of them on one page.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Pixels of four bytes, row after row.
#[derive(Clone)]
struct Picture {
    width: usize,
    height: usize,
    bytes: Vec<u8>,
}

const DARK: [u8; 4] = [24, 26, 30, 255];
const RED: [u8; 4] = [120, 36, 36, 255];
/// Between pictures.
const MARGIN: usize = 6;
/// Pictures in a row of the page.
const COLUMNS: usize = 6;

impl Picture {
    fn new(width: usize, height: usize) -> Picture {
        Picture { width, height, bytes: DARK.repeat(width * height) }
    }

    fn set(&mut self, x: usize, y: usize, pixel: [u8; 4]) {
        let at = 4 * (y * self.width + x);
        self.bytes[at..at + 4].copy_from_slice(&pixel);
    }

    /// No edges: no filter was there to find them.
    fn missing(width: usize, height: usize) -> Picture {
        let mut picture = Picture::new(width, height);
        for x in 0..width {
            let down = x * (height - 1) / (width - 1);
            picture.set(x, down, RED);
            picture.set(x, height - 1 - down, RED);
        }
        picture
    }

    fn put(&mut self, left: usize, top: usize, other: &Picture) {
        for (row, line) in other.bytes.chunks_exact(4 * other.width).enumerate() {
            let at = 4 * ((top + row) * self.width + left);
            self.bytes[at..at + line.len()].copy_from_slice(line);
        }
    }

    /// Half as wide and high, by the mean of four.
    fn half(&self) -> Picture {
        let mut half = Picture::new(self.width / 2, self.height / 2);
        for y in 0..half.height {
            for x in 0..half.width {
                let at = |dx, dy| 4 * ((2 * y + dy) * self.width + 2 * x + dx);
                let four = [at(0, 0), at(1, 0), at(0, 1), at(1, 1)];
                let mean = |part: usize| {
                    (four.iter().map(|at| u32::from(self.bytes[at + part])).sum::<u32>() / 4) as u8
                };
                half.set(x, y, [mean(0), mean(1), mean(2), 255]);
            }
        }
        half
    }

    fn save(&self, path: &Path) -> Result<(), png::EncodingError> {
        let mut encoder = png::Encoder::new(
            BufWriter::new(File::create(path)?),
            self.width as u32,
            self.height as u32,
        );
        encoder.set_color(png::ColorType::Rgba);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.bytes)?;
        writer.finish()
    }
}

/// The pictures, by their frames' numbers.
pub(crate) struct Film {
    folder: PathBuf,
    width: usize,
    height: usize,
    /// The frame, and its edges if the filter found them.
    shown: BTreeMap<u64, [Option<Picture>; 2]>,
}

impl Film {
    pub(crate) fn new(folder: &Path, width: u32, height: u32) -> std::io::Result<Film> {
        std::fs::create_dir_all(folder)?;
        let (width, height) = (width as usize, height as usize);
        Ok(Film { folder: folder.to_owned(), width, height, shown: BTreeMap::new() })
    }

    fn picture(&self, bytes: &[u8]) -> Picture {
        let mut picture = Picture::new(self.width, self.height);
        // Another process may publish messages of another size.
        let len = bytes.len().min(picture.bytes.len());
        picture.bytes[..len].copy_from_slice(&bytes[..len]);
        picture
    }

    /// A frame: kept until its edges come, or the end.
    pub(crate) fn frame(&mut self, number: u64, bytes: &[u8]) {
        let picture = self.picture(bytes);
        self.shown.entry(number).or_default()[0] = Some(picture);
    }

    /// Its edges: one file shows both.
    pub(crate) fn edges(&mut self, number: u64, bytes: &[u8]) -> Result<(), png::EncodingError> {
        let edges = self.picture(bytes);
        let pair = self.shown.entry(number).or_default();
        let mut both = Picture::new(2 * self.width, self.height);
        if let Some(frame) = &pair[0] {
            both.put(0, 0, frame);
        }
        both.put(self.width, 0, &edges);
        pair[1] = Some(edges);
        both.save(&self.folder.join(format!("frame-{number:04}.png")))
    }

    /// All on one page, frames above and their edges below; how many files of single frames there
    /// are.
    pub(crate) fn finish(self) -> Result<usize, png::EncodingError> {
        let (width, height) = (self.width / 2, self.height / 2);
        let (across, down) = (width + MARGIN, 2 * height + 3 * MARGIN);
        let rows = self.shown.len().div_ceil(COLUMNS);
        let mut page = Picture::new(COLUMNS * across + MARGIN, rows * down + MARGIN);
        let missing = Picture::missing(self.width, self.height);
        for (place, pair) in self.shown.values().enumerate() {
            let (left, top) = (MARGIN + place % COLUMNS * across, MARGIN + place / COLUMNS * down);
            for (half, picture) in pair.iter().enumerate() {
                page.put(
                    left,
                    top + half * (height + 2),
                    &picture.as_ref().unwrap_or(&missing).half(),
                );
            }
        }
        page.save(&self.folder.join("film.png"))?;
        Ok(self.shown.values().filter(|pair| pair[1].is_some()).count())
    }
}
