//! What is sent: real files, cut into records.
//!
//! The files are copied into the demo's folder once, so that a replaced producer goes on at once,
//! and nothing changes under it. Each producer goes round all records, beginning at a place of its
//! own; record `number` of a source is the same whenever it is asked for.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::dice::Dice;
use super::map::Map;
use crate::exit::{Code, Failure};

const BYTES: &str = "material";
const LENGTHS: &str = "material.lengths";
/// No more than this of all files together: the demo is about many records, not about much memory.
const MOST_BYTES: u64 = 256 << 20;

/// What there is to send, as the parent tells it.
pub struct Summary {
    /// The files, as they were named.
    pub files: Vec<PathBuf>,
    /// Their bytes together.
    pub bytes: u64,
    /// How many records they make.
    pub records: u64,
}

/// Copies the files into the folder.
pub fn gather(folder: &Path, named: &[PathBuf]) -> Result<Summary, Failure> {
    let files = if named.is_empty() { found_here() } else { named.to_vec() };
    let writing = |error: io::Error| Failure::system("copy the files into memory", &error);
    let mut out = File::create(folder.join(BYTES)).map_err(writing)?;
    let (mut lengths, mut bytes) = (Vec::new(), 0);
    for path in &files {
        let reading =
            |error: io::Error| Failure::system(format_args!("read {}", path.display()), &error);
        let file = File::open(path).map_err(reading)?;
        if file.metadata().map_err(reading)?.is_dir() {
            return Err(Failure::new(
                Code::Usage,
                format!("{} is a folder; name files", path.display()),
            ));
        }
        let copied =
            copy(file.take(MOST_BYTES - bytes), &mut out).map_err(|failed| match failed {
                Copying::Reading(error) => reading(error),
                Copying::Writing(error) => writing(error),
            })?;
        lengths.push(copied);
        bytes += copied;
    }
    if bytes == 0 {
        return Err(Failure::new(Code::Usage, "the files are empty: there is nothing to send"));
    }
    let text: String = lengths.iter().map(|length| format!("{length}\n")).collect();
    fs::write(folder.join(LENGTHS), text).map_err(writing)?;
    let records = cut(&lengths).len() as u64;
    Ok(Summary { files, bytes, records })
}

enum Copying {
    Reading(io::Error),
    Writing(io::Error),
}

fn copy(mut from: impl Read, to: &mut File) -> Result<u64, Copying> {
    let mut buffer = vec![0; 1 << 20];
    let mut copied = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(copied),
            Ok(count) => {
                to.write_all(&buffer[..count]).map_err(Copying::Writing)?;
                copied += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Copying::Reading(error)),
        }
    }
}

/// Files that are on most machines: this program, the C library, some text.
fn found_here() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/proc/self/exe")];
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let libc = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5)).find(|path| {
        Path::new(path).file_name().is_some_and(|name| name.to_string_lossy().starts_with("libc"))
    });
    files.extend(libc.map(PathBuf::from));
    for path in ["/usr/share/dict/words", "/etc/services", "/usr/share/common-licenses/GPL-3"] {
        files.push(PathBuf::from(path));
    }
    files.retain(|path| File::open(path).is_ok());
    files
}

/// Returns where records begin and how long they are: mostly short, now and then long, as messages
/// are.
fn cut(lengths: &[u64]) -> Vec<(u64, u32)> {
    let mut dice = Dice::new(1);
    let (mut cuts, mut from) = (Vec::new(), 0);
    for length in lengths {
        let end = from + length;
        while from < end {
            let most = match dice.below(64) {
                0 => 64 << 10,
                1..16 => 4096,
                _ => 512,
            };
            let record = (16 + dice.below(most)).min(end - from);
            cuts.push((from, record as u32));
            from += record;
        }
    }
    cuts
}

/// The material, as a producer has it.
pub struct Material {
    bytes: Map,
    cuts: Vec<(u64, u32)>,
    first: u64,
}

impl Material {
    /// Returns what the parent has gathered, as seen by one of so many sources.
    pub fn open(folder: &Path, source: u32, sources: u32) -> Result<Material, Failure> {
        let reading = |error: io::Error| Failure::system("read the demo's material", &error);
        let text = fs::read_to_string(folder.join(LENGTHS)).map_err(reading)?;
        let lengths: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let cuts = cut(&lengths);
        let file = File::open(folder.join(BYTES)).map_err(reading)?;
        let bytes = Map::read_only(&file, lengths.iter().sum()).map_err(reading)?;
        let first = cuts.len() as u64 * u64::from(source) / u64::from(sources.max(1));
        Ok(Material { bytes, cuts, first })
    }

    /// Returns the record of that number.
    pub fn record(&self, number: u64) -> &[u8] {
        let (from, length) = self.cuts[((self.first + number) % self.cuts.len() as u64) as usize];
        &self.bytes.bytes()[from as usize..from as usize + length as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_cut_without_a_gap_and_not_across() {
        let lengths = [100_000, 0, 1, 3_000_000];
        let cuts = cut(&lengths);
        let mut at = 0;
        let ends: Vec<u64> = lengths
            .iter()
            .scan(0, |sum, length| {
                *sum += length;
                Some(*sum)
            })
            .collect();
        for (from, length) in &cuts {
            assert_eq!(*from, at);
            assert!(*length > 0);
            at += u64::from(*length);
            assert!(!ends.iter().any(|end| from < end && *end < at), "a record crosses {at}");
        }
        assert_eq!(at, 3_100_001);
        assert_eq!(cuts, cut(&lengths));
    }
}
