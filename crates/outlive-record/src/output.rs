//! The files of a recording: one, or several one after another.
//!
//! The next file is made, with the positions that hold at its beginning, before the one before it is finished.
//! So wherever a recorder is killed, the last file with a whole group says how far all sources are:
//!
//! | died | what is there | its successor |
//! | --- | --- | --- |
//! | in a group | a part of it | cuts it off |
//! | after the next file was made, before its first group | a file that has nothing | removes it, and goes on in the one before; if that is finished, writes the one that has nothing |
//! | after that group, before the one before is finished | two files, of which the former has no index | finishes the former |
//!
//! A finished file is not continued, except by a recorder that is to resume it. A file that has the number of a next
//! one may be of another recording (`-o out_1.mcap` beside `-o out.mcap`), so the header names the recording.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outlive_mcap::{Index, Item, Options, Positions, RECORDING, Reader, Writer};

use crate::account::{self, Phase};
use crate::error::Error;
use crate::source::Payload;

/// When the next file begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Split {
    /// Once a file is so long.
    pub bytes: Option<u64>,
    /// Once it has been written for so long.
    pub span: Option<Duration>,
    /// How many files stay; the oldest are removed.
    pub max_files: Option<u32>,
}

/// Whether to continue a file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    No,
    /// If its recorder has not finished it.
    Unfinished,
    Yes,
    /// If its recorder has not finished it; else the next file begins.
    Next,
}

/// A file that is open, and the account that holds at its end.
pub struct Opened {
    pub output: Output,
    pub positions: Positions,
    pub phase: Phase,
}

/// The recorder that opens it.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    pub name: Option<&'a str>,
    /// One of its name has died, and its service is there: a file that says it was stopped is this one's.
    pub is_heir: bool,
}

/// What the files are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Recording,
    /// Segments in shared memory, which need no index.
    Window,
}

impl Split {
    fn is_any(&self) -> bool {
        self.bytes.is_some() || self.span.is_some()
    }
}

/// See the head of this file.
pub struct Output {
    path: PathBuf,
    split: Split,
    options: Options,
    number: u32,
    begun: Instant,
    /// This process made the file, and nothing else.
    is_new: bool,
    pub writer: Writer<Payload>,
}

impl Output {
    /// Makes the first file, or continues the last one. If its recorder had been told to stop, the next file begins.
    pub fn open(
        path: &Path,
        split: Split,
        options: Options,
        resume: Resume,
        purpose: Purpose,
        owner: Owner<'_>,
    ) -> Result<Opened, Error> {
        let options = match purpose {
            Purpose::Recording => named(options, path),
            Purpose::Window => options,
        };
        let (last, former) = last_numbers(path, split, purpose)?;
        let at = |number| file(path, split, number);
        let output = |number, writer, is_new| Output {
            path: path.to_owned(),
            split,
            options: options.clone(),
            number,
            begun: Instant::now(),
            is_new,
            writer,
        };
        let begun = |number, positions, phase| {
            let writer = create(&at(number), &options)?;
            Ok(Opened { output: output(number, writer, true), positions, phase })
        };
        let Some(mut last) = last else {
            let first = if exists(&at(0))? { free_number(path, split, 0)? } else { 0 };
            return begun(first, Positions::new(), Phase::First);
        };
        match resume {
            Resume::Yes => {}
            Resume::No => return Err(Error::Exists(at(last))),
            Resume::Unfinished | Resume::Next => match Found::of(&at(last), owner, &options)? {
                Found::Open => {}
                Found::Stopped(positions) => {
                    return begun(free_number(path, split, last)?, positions, Phase::Stopped);
                }
                Found::Finished if resume == Resume::Next => {
                    let next = free_number(path, split, last)?;
                    return begun(next, Positions::new(), Phase::First);
                }
                Found::Finished | Found::Another => return Err(Error::Exists(at(last))),
            },
        }
        let (mut writer, mut tail) = Writer::resume(at(last), options.clone())?;
        let is_empty = tail.positions.is_empty() && writer.contents().channels().next().is_none();
        match former {
            Some(former) if is_empty => {
                let found = match resume {
                    Resume::Yes => Found::Open,
                    _ => Found::of(&at(former), owner, &options)?,
                };
                // Its recorder died when it had begun this one. How far it was, the one before says if it is its own.
                let (positions, phase) = match found {
                    Found::Stopped(positions) => (positions, Phase::Stopped),
                    Found::Finished => (Positions::new(), Phase::First),
                    Found::Another => return Err(Error::Exists(at(former))),
                    Found::Open => {
                        // Without positions of its own: those of the file before hold.
                        drop(writer);
                        fs::remove_file(at(last)).map_err(|error| Error::Io {
                            doing: "remove",
                            path: at(last),
                            error,
                        })?;
                        last = former;
                        (writer, tail) = Writer::resume(at(last), options.clone())?;
                        let phase = Phase::of(&tail.positions, tail.finished);
                        let output = output(last, writer, false);
                        return Ok(Opened { output, positions: tail.positions, phase });
                    }
                };
                return Ok(Opened { output: output(last, writer, true), positions, phase });
            }
            Some(former) if purpose == Purpose::Recording => finish(&at(former), &options)?,
            _ => {}
        }
        let phase = Phase::of(&tail.positions, tail.finished);
        Ok(Opened { output: output(last, writer, false), positions: tail.positions, phase })
    }

    /// The recording cannot begin: leaves no file behind that was not there.
    pub fn give_up(&self) {
        if self.is_new {
            let _ = fs::remove_file(self.current());
        }
    }

    /// Returns whether it is time for the next file.
    pub fn is_full(&self) -> bool {
        let is_long = self.split.bytes.is_some_and(|most| self.writer.file_len() >= most);
        is_long || self.split.span.is_some_and(|most| self.begun.elapsed() >= most)
    }

    /// Begins the next file; the caller adds its channels, and flushes. Returns the one before, which is to be
    /// finished then.
    pub fn next(&mut self) -> Result<Writer<Payload>, Error> {
        let number = free_number(&self.path, self.split, self.number)?;
        let path = file(&self.path, self.split, number);
        let next = create(&path, &self.options)?;
        self.number = number;
        self.begun = Instant::now();
        Ok(std::mem::replace(&mut self.writer, next))
    }

    /// Removes the oldest files.
    pub fn remove_old(&self) -> Result<(), Error> {
        let Some(most) = self.split.max_files.filter(|_| self.split.is_any()) else {
            return Ok(());
        };
        let last = self.number.saturating_add(1).checked_sub(most.max(1));
        let Some(last) = last else { return Ok(()) };
        // A recorder that was killed may have left more.
        for number in (0..last).rev() {
            let old = file(&self.path, self.split, number);
            if exists(&old)? && !is_own(&old, &self.path)? {
                continue;
            }
            match fs::remove_file(&old) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
                Err(error) => return Err(Error::Io { doing: "remove", path: old, error }),
            }
        }
        Ok(())
    }

    /// Returns the number of the file that is written now.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the file that is written now.
    pub fn current(&self) -> PathBuf {
        file(&self.path, self.split, self.number)
    }
}

/// Returns the files from that one to that one that are there, in their order.
pub fn files_between(first: &Path, last: &Path) -> Vec<PathBuf> {
    let numbered = |path: &Path| {
        let stem = stem(path);
        let (name, number) = stem.rsplit_once('_')?;
        Some((name.to_owned(), number.parse::<u32>().ok()?))
    };
    let is_there = |file: &PathBuf| file.is_file();
    // Of the same name up to the number; the first one may have none.
    let (Some((name, to)), false) = (numbered(last), first == last) else {
        return Some(last.to_owned()).into_iter().filter(is_there).collect();
    };
    let from = match numbered(first) {
        Some((of, number)) if of == name => number + 1,
        _ => 1,
    };
    let whole = last.with_file_name(format!("{name}.mcap"));
    let later = (from..=to).map(|number| last.with_file_name(format!("{name}_{number}.mcap")));
    // What cannot be looked at is not counted.
    let later = later.filter(|file| is_own(file, &whole).unwrap_or(false));
    Some(first.to_owned()).into_iter().filter(is_there).chain(later).collect()
}

/// Removes a finished file that tells that its recorder has begun and ended, and has nothing else.
pub fn remove_if_empty(path: &Path) -> Result<(), Error> {
    let Some(Index { statistics: Some(there), .. }) = Index::read(path)? else { return Ok(()) };
    // The channel of the events alone. Of one that was resumed there are more of them, and of a later one of several
    // files fewer.
    if (there.channel_count, there.message_count) == (1, 2) {
        let failed = |error| Error::Io { doing: "remove", path: path.to_owned(), error };
        fs::remove_file(path).map_err(failed)?;
    }
    Ok(())
}

fn create(path: &Path, options: &Options) -> Result<Writer<Payload>, Error> {
    let created = Writer::create(path, options.clone()).inspect_err(|error| {
        // What was begun would be in the way of the next try.
        if matches!(error, outlive_mcap::Error::NoSpace { .. }) {
            let _ = fs::remove_file(path);
        }
    });
    Ok(created?)
}

/// What a file is to a recorder that is not to resume finished ones.
enum Found {
    /// It is not finished, and goes on.
    Open,
    /// It ends, and nothing of it goes on.
    Finished,
    /// The recorder that died had been told to stop: the next file begins with these positions.
    Stopped(Positions),
    /// It is not finished, and another recorder's.
    Another,
}

impl Found {
    fn of(path: &Path, owner: Owner<'_>, options: &Options) -> Result<Found, Error> {
        let is_finished = is_finished(path)?;
        let positions = positions(path)?.filter(|positions| !positions.is_empty());
        let Some(positions) = positions else {
            return Ok(if is_finished { Found::Finished } else { Found::Open });
        };
        let is_own = account::is_of(&positions, owner.name);
        if is_own && Phase::of(&positions, is_finished) == Phase::Stopped {
            // The recorder may have died before the index was there: it was stopped with the last group.
            finish(path, options)?;
            return Ok(if owner.is_heir { Found::Stopped(positions) } else { Found::Finished });
        }
        Ok(match (is_finished, is_own) {
            (true, _) => Found::Finished,
            (false, true) => Found::Open,
            (false, false) => Found::Another,
        })
    }
}

/// Gives a file its index, if its writer died before.
fn finish(path: &Path, options: &Options) -> Result<(), Error> {
    if !exists(path)? || is_finished(path)? {
        return Ok(());
    }
    let (mut former, tail) = Writer::<Vec<u8>>::resume(path, options.clone())?;
    Ok(former.finish(&tail.positions)?)
}

/// Returns how far a file is. `None`: nothing of it is whole; or another program wrote it, or it is damaged.
fn positions(path: &Path) -> Result<Option<Positions>, Error> {
    match outlive_mcap::read_positions(path) {
        Ok(found) => Ok(found),
        Err(
            outlive_mcap::Error::NotMcap { .. }
            | outlive_mcap::Error::NotResumable { .. }
            | outlive_mcap::Error::OtherVersion { .. }
            | outlive_mcap::Error::Damaged { .. }
            | outlive_mcap::Error::TwoChannels { .. },
        ) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A file that cannot be looked at is not one that is not there.
fn exists(path: &Path) -> Result<bool, Error> {
    let failed = |error| Error::Io { doing: "look at", path: path.to_owned(), error };
    path.try_exists().map_err(failed)
}

/// Returns whether a file ends as one with an index. One without ends with its positions.
fn is_finished(path: &Path) -> Result<bool, Error> {
    let failed = |error| Error::Io { doing: "read", path: path.to_owned(), error };
    let read = fs::File::open(path).map_err(failed)?;
    let Some(end) = read.metadata().map_err(failed)?.len().checked_sub(MAGIC.len() as u64) else {
        return Ok(false);
    };
    let mut last = MAGIC;
    read.read_exact_at(&mut last, end).map_err(failed)?;
    Ok(last == MAGIC && end > 0)
}

/// What a file begins with, and ends with once it has an index.
const MAGIC: [u8; 8] = *b"\x89MCAP0\r\n";

/// Returns the path of a file: the name as it is, or with a number where there are several.
pub fn file(path: &Path, split: Split, number: u32) -> PathBuf {
    if !split.is_any() && number == 0 {
        return path.to_owned();
    }
    let stem = stem(path);
    path.with_file_name(format!("{stem}_{number}.mcap"))
}

/// Returns the next number that no file has.
fn free_number(path: &Path, split: Split, last: u32) -> Result<u32, Error> {
    let mut number = last.saturating_add(1);
    while number < u32::MAX && exists(&file(path, split, number))? {
        number += 1;
    }
    Ok(number)
}

/// Returns the numbers of the recording's last file and of the one before. One that was moved away leaves a gap.
fn last_numbers(
    path: &Path,
    split: Split,
    purpose: Purpose,
) -> Result<(Option<u32>, Option<u32>), Error> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let failed = |error| Error::Io { doing: "list", path: folder.to_owned(), error };
    let begin = format!("{}_", stem(path));
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let number = name.to_string_lossy();
        let number = number.strip_prefix(&begin).and_then(|rest| rest.strip_suffix(".mcap"));
        let number =
            number.and_then(|text| text.parse::<u32>().ok().filter(|n| n.to_string() == text));
        // Without bounds, the next ones are begun because a request asks for that.
        numbers.extend(number.filter(|number| split.is_any() || *number > 0));
    }
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    let mut own = Vec::new();
    for number in numbers {
        if own.len() < 2
            && (purpose == Purpose::Window || is_own(&file(path, split, number), path)?)
        {
            own.push(number);
        }
    }
    // The one that has the name as it is: whatever it is, it is what was asked for.
    if !split.is_any() && exists(path)? {
        own.push(0);
    }
    Ok((own.first().copied(), own.get(1).copied()))
}

/// Has the header name the recording.
fn named(options: Options, path: &Path) -> Options {
    let library = format!("{}{RECORDING}{}", options.library, stem(path));
    Options { library, ..options }
}

/// Returns whether a file is one of the recording, by its header. One without a whole header has nothing, and counts
/// as one; so does one of a recorder that did not name its recording yet.
fn is_own(file: &Path, path: &Path) -> Result<bool, Error> {
    let found = Reader::open(file).and_then(|mut reader| match reader.next()? {
        Some(Item::Header(header)) => Ok(Some(header)),
        _ => Ok(None),
    });
    let library = match found {
        Ok(Some(header)) => header.library,
        Ok(None) | Err(outlive_mcap::Error::Cut { .. }) => return Ok(true),
        Err(outlive_mcap::Error::Io { error, .. })
            // Another recorder has removed it since the folder was listed.
            if error.kind() == std::io::ErrorKind::NotFound =>
        {
            return Ok(false);
        }
        Err(error @ outlive_mcap::Error::Io { .. }) => return Err(error.into()),
        Err(_) => return Ok(false),
    };
    Ok(match library.split_once(RECORDING) {
        Some((_, recording)) => recording == stem(path),
        None => library.starts_with("outlive "),
    })
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
