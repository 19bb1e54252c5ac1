//! What sensors see: files of a folder, or pictures and scans that are made; and how a frame is
//! written and checked.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use outlive::topic::Header;

use super::Sees;
use crate::exit::{Code, Failure};

/// A frame is no larger than this, and no more files than that are used of a kind.
const MOST_BYTES: u64 = 16 << 20;
const MOST_FILES: usize = 16;

/// Bytes at the beginning of a payload that tell one frame from the next: number and life.
const MARK: usize = 16;

impl Sees {
    fn folder(self) -> &'static str {
        match self {
            Sees::Pictures => "robot.pictures",
            Sees::Scans => "robot.scans",
        }
    }

    fn is_seen_in(self, path: &Path) -> bool {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match self {
            Sees::Pictures => ["jpg", "jpeg", "png", "ppm", "bmp"].contains(&extension.as_str()),
            Sees::Scans => ["bin", "pcd", "las", "ply"].contains(&extension.as_str()),
        }
    }

    /// Makes what it sees, where there are no files.
    fn made(self) -> Vec<Vec<u8>> {
        let picture = |at: u32| {
            let pixel =
                |place: u32| [(place % 640 + at) as u8, (place / 640) as u8, (at * 16) as u8];
            (0..640 * 480).flat_map(pixel).collect()
        };
        // A room's walls, as a laser that turns sees them: x, y, z, intensity.
        let scan = |at: u32| {
            let point = |place: u32| {
                let angle = (place as f32 / 30_000.0 + at as f32 / 16.0) * std::f32::consts::TAU;
                let distance = 4.0 + (angle * 2.0).cos();
                [
                    distance * angle.cos(),
                    distance * angle.sin(),
                    (place % 16) as f32 / 8.0 - 1.0,
                    0.5,
                ]
            };
            (0..60_000).flat_map(point).flat_map(f32::to_le_bytes).collect()
        };
        match self {
            Sees::Pictures => (0..4).map(picture).collect(),
            Sees::Scans => (0..4).map(scan).collect(),
        }
    }
}

/// Writes into the demo's folder what the sensors are to see: so a replaced one goes on at once.
pub fn gather(folder: &Path, data: Option<&Path>) -> Result<(), Failure> {
    for sees in [Sees::Pictures, Sees::Scans] {
        let into = folder.join(sees.folder());
        let writing = |error: io::Error| Failure::system("write the sensors' material", &error);
        fs::create_dir(&into).map_err(writing)?;
        let found = match data {
            Some(data) => files(data, sees)?,
            None => Vec::new(),
        };
        let frames = if found.is_empty() { sees.made() } else { found };
        for (number, frame) in frames.iter().enumerate() {
            fs::write(into.join(format!("{number:02}")), frame).map_err(writing)?;
        }
    }
    Ok(())
}

fn files(data: &Path, sees: Sees) -> Result<Vec<Vec<u8>>, Failure> {
    let reading = |path: &Path, error: io::Error| {
        Failure::system(format_args!("read {}", path.display()), &error)
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(data).map_err(|error| reading(data, error))? {
        paths.push(entry.map_err(|error| reading(data, error))?.path());
    }
    paths.retain(|path| path.is_file() && sees.is_seen_in(path));
    paths.sort();
    let mut frames = Vec::new();
    for path in paths.iter().take(MOST_FILES) {
        if fs::metadata(path).map_err(|error| reading(path, error))?.len() > MOST_BYTES {
            return Err(Failure::new(
                Code::Usage,
                format!("{} is larger than 16 MiB", path.display()),
            ));
        }
        frames.push(fs::read(path).map_err(|error| reading(path, error))?);
    }
    frames.retain(|frame| frame.len() >= MARK);
    Ok(frames)
}

/// What a sensor sees, one after the other, for ever.
pub struct Frames(Vec<Vec<u8>>);

impl Frames {
    /// Returns what `gather` has written.
    pub fn open(folder: &Path, sees: Sees) -> Result<Frames, Failure> {
        let reading = |error: io::Error| Failure::system("read the sensors' material", &error);
        let mut paths: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(folder.join(sees.folder())).map_err(reading)? {
            paths.push(entry.map_err(reading)?.path());
        }
        paths.sort();
        Ok(Frames(paths.iter().map(fs::read).collect::<io::Result<_>>().map_err(reading)?))
    }

    /// Returns the one of that number.
    pub fn get(&self, number: u64) -> &[u8] {
        match self.0.len() {
            0 => &[0; MARK],
            count => &self.0[(number % count as u64) as usize],
        }
    }
}

/// Which frame it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Which {
    /// Its number among its sensor's.
    pub number: u64,
    /// Which process has published it, of those that were in the sensor's place.
    pub life: u32,
}

/// Writes a frame in place, and says what goes with it.
pub fn write(into: &mut [u8], seen: &[u8], which: Which) -> Header {
    into.copy_from_slice(seen);
    into[..8].copy_from_slice(&which.number.to_le_bytes());
    into[8..12].copy_from_slice(&which.life.to_le_bytes());
    let mut own = [0; 32];
    own[..8].copy_from_slice(&which.number.to_le_bytes());
    own[8..12].copy_from_slice(&which.life.to_le_bytes());
    own[12..16].copy_from_slice(&crc32fast::hash(into).to_le_bytes());
    Header { own, frame: which.number, ..Header::default() }
}

/// Returns which frame that is, and whether it is as it was written.
pub fn check(header: &Header, payload: &[u8]) -> (Which, bool) {
    let word = |at: usize| header.own[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
    let number = u64::from(word(4)) << 32 | u64::from(word(0));
    (Which { number, life: word(8) }, crc32fast::hash(payload) == word(12))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_bit_is_seen_and_made_frames_differ() {
        let which = Which { number: 1 << 40 | 9, life: 3 };
        let seen: Vec<u8> = (0..=255).collect();
        let mut frame = seen.clone();
        let header = write(&mut frame, &seen, which);
        assert_eq!(check(&header, &frame), (which, true));
        for at in [0, 9, 255] {
            let mut changed = frame.clone();
            changed[at] ^= 1;
            assert!(!check(&header, &changed).1);
        }
        for sees in [Sees::Pictures, Sees::Scans] {
            let made = sees.made();
            assert!(made.len() == 4 && made[0] != made[1] && made[0].len() > 900_000);
        }
    }
}
