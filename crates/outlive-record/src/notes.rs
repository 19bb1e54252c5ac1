//! Notes: each is a file in the window's folder, and says that a snapshot is to be written.
//!
//! | step | died just after |
//! | --- | --- |
//! | the note has its name | the next process writes the file |
//! | a part of the file is there, as `.FILE.ID.part` | the next process removes it, and writes the file |
//! | the file has its name | the next process finds the file, and removes the note |
//! | the note is removed | |
//!
//! A process holds a note's lock (`flock`) while it carries the note out. The kernel frees a dead process's lock.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outlive_mcap::Options;
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::join::{Joined, join};
use crate::recorder::now;

/// What a note says.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Wanted {
    /// The file, which was not there when the note was made.
    pub file: PathBuf,
    /// Why.
    pub reason: String,
    /// When it is to be written, in nanoseconds of the time of day.
    pub due: u64,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Note {
    path: PathBuf,
    pub wanted: Wanted,
    /// Another process made the note, and may have written the file, too.
    is_inherited: bool,
}

/// What became of a note.
#[derive(Debug)]
pub enum Outcome {
    /// The file is written.
    Written(Joined),
    /// Another process has written the file.
    WasWritten,
}

/// What trying to lock a note came to.
enum Lock {
    Taken(File),
    Busy,
    /// The note has been carried out.
    Gone,
}

/// How long this process waits for another one that carries a note out. It does not wait for a dead one.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a process looks whether another one has ended.
pub const LOOK: Duration = Duration::from_millis(10);

const NOTE: &str = "note";

impl Note {
    /// Makes a note in a folder. From here on the snapshot outlives this process.
    pub fn write(folder: &Path, wanted: Wanted) -> Result<Note, Error> {
        let pid = std::process::id();
        let stem = (now()..).map(|time| format!("{time:016x}-{pid}"));
        let path = stem
            .map(|stem| folder.join(format!("{stem}.{NOTE}")))
            .find(|path| !path.exists())
            .unwrap_or_default();
        write_whole(&path, &wanted)?;
        Ok(Note { path, wanted, is_inherited: false })
    }

    /// Returns the notes of a folder, in the order in which they were made. One that cannot be read is
    /// removed: it got its name when it was whole, so a stray write has hit it.
    pub fn all(folder: &Path) -> Result<Vec<Note>, Error> {
        let failed = |error| Error::Io { doing: "list", path: folder.to_owned(), error };
        let mut notes = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_none_or(|end| end != NOTE) {
                continue;
            }
            let Ok(bytes) = fs::read(&path) else { continue };
            match serde_json::from_slice(&bytes) {
                Ok(wanted) => notes.push(Note { path, wanted, is_inherited: true }),
                Err(_) => remove(&path)?,
            }
        }
        notes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(notes)
    }

    /// Writes the file and removes the note. After an error the note is removed, too, and no part of the
    /// file is left.
    pub fn carry_out(
        &self,
        segments: &[PathBuf],
        options: &Options,
        copied: &dyn Fn(usize),
    ) -> Result<Outcome, Error> {
        let file = &self.wanted.file;
        let end = Instant::now() + PATIENCE;
        let _lock = loop {
            match self.lock()? {
                Lock::Taken(lock) => break lock,
                Lock::Gone if file.symlink_metadata().is_ok() => return Ok(Outcome::WasWritten),
                Lock::Busy if Instant::now() < end => std::thread::sleep(LOOK),
                Lock::Gone | Lock::Busy => return Err(Error::Elsewhere(file.clone())),
            }
        };
        if self.is_inherited && file.symlink_metadata().is_ok() {
            remove(&self.path)?;
            return Ok(Outcome::WasWritten);
        }
        let part = self.part();
        let written = remove(&part)
            .and_then(|()| join(segments, &part, options, &self.wanted.reason, copied))
            .and_then(|joined| rename(&part, file).map(|()| joined));
        if written.is_err() {
            let _ = remove(&part);
        }
        // The file is there: a death just before leaves the note, which the next process removes.
        remove(&self.path)?;
        written.map(Outcome::Written)
    }

    /// Returns what the file is called until it is whole. Two notes may want one name.
    fn part(&self) -> PathBuf {
        let name = self.wanted.file.file_name().unwrap_or_default().to_string_lossy();
        let id = self.path.file_stem().unwrap_or_default().to_string_lossy();
        self.wanted.file.with_file_name(format!(".{name}.{id}.part"))
    }

    fn lock(&self) -> Result<Lock, Error> {
        let failed = |error| Error::Io { doing: "lock", path: self.path.clone(), error };
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Lock::Gone),
            Err(error) => return Err(failed(error)),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Lock::Busy),
            Err(errno) => return Err(failed(errno.into())),
        }
        // It may have been removed since it was opened.
        let is_there = file.metadata().map_err(failed)?.nlink() > 0;
        Ok(if is_there { Lock::Taken(file) } else { Lock::Gone })
    }
}

/// Writes a value as JSON into a file that has its name only when it is whole.
pub fn write_whole(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let failed = |error| Error::Io { doing: "write", path: path.to_owned(), error };
    let begun = path.with_extension("begun");
    let bytes = serde_json::to_vec(value).map_err(|error| failed(error.into()))?;
    let written = fs::write(&begun, bytes).and_then(|()| fs::rename(&begun, path));
    written.map_err(|error| {
        // Each try has a name of its own, and where there is no room it would take some.
        let _ = fs::remove_file(&begun);
        failed(error)
    })
}

/// Removes a file, if it is there.
pub fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::Io { doing: "remove", path: path.to_owned(), error })
        }
        _ => Ok(()),
    }
}

/// Gives a file its name, which no other may have.
fn rename(part: &Path, file: &Path) -> Result<(), Error> {
    let renamed = match renameat_with(CWD, part, CWD, file, RenameFlags::NOREPLACE) {
        // Some file systems do not know the flag.
        Err(rustix::io::Errno::INVAL) if !file.exists() => fs::rename(part, file),
        renamed => renamed.map_err(Into::into),
    };
    renamed.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::NameTaken(file.to_owned()),
        _ => Error::Io { doing: "name", path: file.to_owned(), error },
    })
}

/// Chooses the file of a snapshot: the name, or one with the time of day (UTC), and `own` behind it.
pub fn choose(
    output: &Path,
    name: Option<&str>,
    own: &str,
    taken: &[PathBuf],
) -> Result<PathBuf, Error> {
    let is_taken = |path: &PathBuf| path.symlink_metadata().is_ok() || taken.contains(path);
    if let Some(name) = name {
        // Requests come from all that may enter the domain, and the file is this user's.
        let is_plain = Path::new(name).file_name().is_some_and(|own| own == name);
        let is_shown_as_it_is = !name.contains(char::is_control);
        if !is_plain || !is_shown_as_it_is || name.starts_with('.') || name.len() > 200 {
            return Err(Error::NoName(name.to_owned()));
        }
        let path = output.with_file_name(name);
        return if is_taken(&path) { Err(Error::NameTaken(path)) } else { Ok(path) };
    }
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    let base = format!("{stem}_{}{own}", stamp(now() / 1_000_000));
    let more = (2_u64..).map(|count| format!("{base}_{count}.mcap"));
    let mut all = std::iter::once(format!("{base}.mcap")).chain(more);
    let free =
        all.find_map(|name| Some(output.with_file_name(name)).filter(|path| !is_taken(path)));
    free.ok_or_else(|| Error::NameTaken(output.to_owned()))
}

/// Returns a time of day, in milliseconds, as `20261127T194014.123Z`.
fn stamp(millis: u64) -> String {
    let (days, in_day) = (millis / 86_400_000, millis % 86_400_000);
    // Years that begin in March have their leap day at their end; an era of 400 of them has 146,097 days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (seconds, millis) = (in_day / 1000, in_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_could_not_be_written_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("outlive-begun-{}", std::process::id()));
        // What is in the way is a folder.
        std::fs::create_dir_all(folder.join("1.note")).expect("made");
        let written = write_whole(&folder.join("1.note"), &5);
        let left = fs::read_dir(&folder).expect("there").count();
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!(written.is_err());
        assert_eq!(left, 1);
    }

    #[test]
    fn a_name_is_plain() {
        let output = Path::new("/nowhere/out.mcap");
        for wrong in ["", "..", ".", "a/b", "/a", "a/", ".a", "a\0b", "a\nb", "\x1b[2Ja"] {
            let chosen = choose(output, Some(wrong), "", &[]);
            assert!(matches!(chosen, Err(Error::NoName(_))), "{wrong:?}: {chosen:?}");
        }
        let chosen = choose(output, Some("a b.mcap"), "", &[]).expect("a name");
        assert_eq!(chosen, Path::new("/nowhere/a b.mcap"));
    }

    #[test]
    fn a_stamp_is_the_time_of_day() {
        for (seconds, wanted) in [
            (0, "19700101T000000.000Z"),
            (951_782_400, "20000229T000000.000Z"),
            (1_767_225_599, "20251231T235959.000Z"),
            (4_107_542_400, "21000301T000000.000Z"),
        ] {
            assert_eq!(stamp(seconds * 1000), wanted);
        }
    }
}
