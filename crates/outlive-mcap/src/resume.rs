//! Writing on in a file whose writer died, or which is finished.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use mcap::MAGIC;
use mcap::records::{Record, op};

use crate::contents::Contents;
use crate::error::Error;
use crate::lock::lock;
use crate::record;
use crate::scan::{Place, Scan, Step};
use crate::write::{Options, POSITIONS, Positions, Writer};

/// A header that says it is longer is damaged, and not cut off.
const LONGEST_HEADER: u64 = 64 << 10;

/// What a resumed writer found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// How far each source is in the file.
    pub positions: Positions,
    /// How many bytes of a group that was not whole were cut off.
    pub cut: u64,
    /// The file was finished; its index was cut off, and [`Writer::finish`] writes it anew. A part of an
    /// index, too, is cut off, and not told.
    pub finished: bool,
    /// Nothing whole was there: the file began anew.
    pub fresh: bool,
}

/// Where a file's last whole group ends.
struct Found {
    end: u64,
    positions: Positions,
    /// Where the data ends, if the file says so: an index follows, or a part of one.
    data_end: Option<u64>,
}

impl<O: AsRef<[u8]>> Writer<O> {
    /// Opens a file to continue it: locks it, cuts off what is behind its last whole group, and
    /// returns what it holds. The options' profile and library count only if nothing is there.
    ///
    /// # Errors
    /// [`Error::Locked`] while another process writes the file; [`Error::NotResumable`] if it was not
    /// written by a [`Writer`] whose groups end with their positions; [`Error::NotMcap`],
    /// [`Error::OtherVersion`], [`Error::Damaged`]; the system's. The file is as it was then.
    ///
    /// # If a process dies
    /// The next one resumes the file as this one did.
    pub fn resume(path: impl AsRef<Path>, options: Options) -> Result<(Writer<O>, Tail), Error> {
        let path = path.as_ref();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| Error::io("open", path, error))?;
        lock(&file, path)?;
        let mut writer = Writer::over(file, path, options);
        let found = find_end(&writer.file, &writer.path)?;
        let len = writer.file.metadata().map_err(|error| Error::io("look at", path, error))?.len();
        let Some(found) = found else {
            // What is there is a part of a beginning.
            writer.torn = true;
            writer.mend()?;
            writer.begin()?;
            return Ok((writer, Tail { cut: len, fresh: true, ..Tail::default() }));
        };
        writer.contents = read_contents(&writer.file, &writer.path, found.end)?;
        writer.end = found.end;
        writer.positions = found.positions.clone();
        writer.options.resumable = true;
        let mut magic = [0; MAGIC.len()];
        let at = len.saturating_sub(magic.len() as u64);
        let read = writer.file.read_exact_at(&mut magic, at);
        read.map_err(|error| Error::io("read", path, error))?;
        let ends_with_magic = magic == *MAGIC;
        // From here on a finished file is one no more: its data are whole, without an index.
        writer.torn = len > found.end;
        writer.mend()?;
        let tail = Tail {
            positions: found.positions,
            cut: found.data_end.unwrap_or(len).saturating_sub(found.end),
            finished: found.data_end.is_some() && ends_with_magic,
            fresh: false,
        };
        Ok((writer, tail))
    }
}

/// Returns how far each source is in a file that a [`Writer`] has written, whether or not it is finished; `None`: it
/// has no whole group. The file is only read, and another process may be writing it.
///
/// # Errors
/// Those of [`Writer::resume`], but for [`Error::Locked`].
///
/// # If a process dies
/// Nothing was changed.
pub fn read_positions(path: impl AsRef<Path>) -> Result<Option<Positions>, Error> {
    let path: Arc<Path> = path.as_ref().into();
    let file = File::open(&path).map_err(|error| Error::io("open", &path, error))?;
    Ok(find_end(&Arc::new(file), &path)?.map(|found| found.positions))
}

/// Finds the end of the last whole group; `None` if not even the beginning is whole.
fn find_end(file: &Arc<File>, path: &Arc<Path>) -> Result<Option<Found>, Error> {
    let mut scan = match Scan::new(file, path) {
        Ok(scan) => scan,
        Err(Error::Cut { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let begin = MAGIC.len() as u64;
    let header_end = match scan.step()? {
        Step::Record(place) if place.op == op::HEADER => place.end(),
        Step::End => return Ok(None),
        Step::Torn(place) if place.op == op::HEADER && place.len <= LONGEST_HEADER => {
            return Ok(None);
        }
        Step::Record(_) | Step::Torn(_) => {
            return Err(Error::damaged(begin, "the file has no header"));
        }
    };
    let (mut last, mut data_end) = (None::<Place>, None);
    loop {
        match scan.step()? {
            // What follows was written by a writer that was finishing.
            Step::Record(place) if place.op == op::DATA_END => {
                data_end = Some(place.offset);
                break;
            }
            Step::Record(place) => {
                if scan.is_metadata(&place, POSITIONS)? {
                    last = Some(place);
                }
            }
            Step::Torn(_) | Step::End => break,
        }
    }
    let Some(last) = last else {
        // The beginning is written at once, with positions that are empty: a part of these may be there,
        // and nothing else, or another program wrote it.
        let mut positions = Vec::new();
        record::push_metadata(&mut positions, POSITIONS, &Positions::new());
        let left = scan.file_len() - header_end;
        if left < positions.len() as u64
            && positions.starts_with(scan.read(header_end, left as usize)?)
        {
            return Ok(None);
        }
        let why = "its groups do not end with their positions";
        return Err(Error::NotResumable { path: path.to_path_buf(), why });
    };
    match scan.parse(&last)? {
        Record::Metadata(record) => {
            Ok(Some(Found { end: last.end(), positions: record.metadata, data_end }))
        }
        _ => Err(Error::damaged(last.offset, "a record of metadata cannot be read")),
    }
}

/// Takes in all records before `end`.
fn read_contents(file: &Arc<File>, path: &Arc<Path>, end: u64) -> Result<Contents, Error> {
    let mut contents = Contents::default();
    let mut scan = Scan::new(file, path)?;
    while let Step::Record(place) = scan.step()? {
        if place.offset >= end {
            break;
        }
        if let Err(why) = contents.absorb(&mut scan, &place)? {
            return Err(Error::NotResumable { path: path.to_path_buf(), why });
        }
    }
    Ok(contents)
}
