//! The folder of a window: segments, notes, and what made them. doc/protocols/record.md says what it has.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outlive::Domain;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::notes::LOOK;

/// What the folder of a window has in front of the recorder's name.
const FOLDER: &str = ".record:";
/// The file that says where snapshots go.
pub const MADE: &str = "made.json";

/// For how long a folder is waited for.
const MOMENT: Duration = Duration::from_secs(2);
/// What a process needs to write a snapshot of a dead recorder.
#[derive(Debug, Deserialize, Serialize)]
pub struct Made {
    pub output: PathBuf,
    pub profile: String,
    pub library: String,
}

/// A window's folder.
pub struct Folder {
    pub path: PathBuf,
}

impl Folder {
    pub fn of(domain: &Domain, name: &str) -> Folder {
        Folder { path: domain.path().join(format!("{FOLDER}{name}")) }
    }

    /// Makes it, or enters the one that is there.
    pub fn make(&self) -> Result<(), Error> {
        match DirBuilder::new().mode(0o700).create(&self.path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(self.failed("make", error)),
        }
        match self.is_there()? {
            true => Ok(()),
            false => Err(self.failed("enter", ErrorKind::NotFound.into())),
        }
    }

    /// Returns whether it is there. It is an error if it is another user's, since that user could put anything in.
    pub fn is_there(&self) -> Result<bool, Error> {
        let found = match self.path.symlink_metadata() {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(self.failed("look at", error)),
        };
        let is_own = found.uid() == rustix::process::geteuid().as_raw();
        match found.is_dir() && is_own {
            true => Ok(true),
            false => Err(self.failed("enter", ErrorKind::PermissionDenied.into())),
        }
    }

    /// Locks it for its recorder; the kernel frees the lock of a dead one. `None`: a recorder has it.
    pub fn try_lock(&self) -> Result<Option<File>, Error> {
        let file = File::open(&self.path).map_err(|error| self.failed("open", error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // It may have been removed since it was opened, and made anew.
            Ok(()) => {
                match self.is_at_path(&file).map_err(|error| self.failed("look at", error))? {
                    true => Ok(Some(file)),
                    false => Err(self.failed("lock", ErrorKind::NotFound.into())),
                }
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(self.failed("lock", errno.into())),
        }
    }

    fn is_at_path(&self, file: &File) -> std::io::Result<bool> {
        let (there, own) = (self.path.symlink_metadata()?, file.metadata()?);
        Ok((there.dev(), there.ino()) == (own.dev(), own.ino()))
    }

    /// Makes it, or enters the one that is there, and locks it.
    pub fn enter(&self) -> Result<File, Error> {
        let end = Instant::now() + MOMENT;
        loop {
            match self.make().and_then(|()| self.lock()) {
                // Its recorder has ended, and has removed it meanwhile.
                Err(Error::Io { error, .. })
                    if error.kind() == ErrorKind::NotFound && Instant::now() < end => {}
                entered => return entered,
            }
        }
    }

    /// Locks it, also if a process has it that only looks, or that has just been killed.
    pub fn lock(&self) -> Result<File, Error> {
        let end = Instant::now() + MOMENT;
        loop {
            match self.try_lock()? {
                Some(file) => return Ok(file),
                None if Instant::now() < end => std::thread::sleep(LOOK),
                None => {
                    let path = self.path.clone();
                    return Err(Error::File(outlive_mcap::Error::Locked { path, holder: None }));
                }
            }
        }
    }

    pub fn segment(&self, number: u32) -> PathBuf {
        self.path.join(format!("window_{number}.mcap"))
    }

    /// Returns the numbers and lengths of the segments that are there, in order.
    pub fn segments(&self) -> Result<Vec<(u32, u64)>, Error> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(|error| self.failed("list", error))? {
            let entry = entry.map_err(|error| self.failed("list", error))?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| {
                name.strip_prefix("window_")?.strip_suffix(".mcap")?.parse::<u32>().ok()
            });
            // One that has been removed meanwhile is none.
            if let (Some(number), Ok(found_there)) = (number, entry.metadata())
                && found_there.is_file()
            {
                found.push((number, found_there.len()));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    pub fn remove(&self) -> Result<(), Error> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.failed("remove", error)),
            _ => Ok(()),
        }
    }

    pub fn failed(&self, doing: &'static str, error: std::io::Error) -> Error {
        Error::Io { doing, path: self.path.clone(), error }
    }
}

/// Returns the last numbers that follow one another.
pub fn without_gap(numbers: &[u32]) -> &[u32] {
    let gap = numbers.windows(2).rposition(|two| two[0].checked_add(1) != Some(two[1]));
    &numbers[gap.map_or(0, |at| at + 1)..]
}

/// Returns how many bytes are free where that is.
pub fn free(path: &Path) -> Result<u64, Error> {
    let told = rustix::fs::statvfs(path).map_err(|errno| Error::Io {
        doing: "look for room in",
        path: path.to_owned(),
        error: errno.into(),
    })?;
    Ok(told.f_bavail.saturating_mul(told.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recorder that ends removes its folder, and frees the lock then.
    #[test]
    fn a_folder_that_is_being_removed_is_made_anew() {
        let path = std::env::temp_dir().join(format!("outlive-folder-{}", std::process::id()));
        let folder = || Folder { path: path.clone() };
        for _ in 0..100 {
            let former = folder().enter().expect("made");
            let next = std::thread::scope(|scope| {
                let next = scope.spawn(|| folder().enter());
                std::thread::yield_now();
                folder().remove().expect("removed");
                drop(former);
                next.join().expect("no panic")
            });
            // The one that has the lock has it of the folder that is there.
            let next = next.expect("entered");
            assert_eq!(
                next.metadata().expect("there").ino(),
                path.metadata().expect("there").ino()
            );
            assert!(folder().try_lock().expect("looked").is_none());
        }
        fs::remove_dir_all(&path).expect("removed");
    }

    #[test]
    fn a_window_begins_after_its_last_gap() {
        assert_eq!(without_gap(&[1, 2, 4, 5, 6]), [4, 5, 6]);
        assert_eq!(without_gap(&[1, 2]), [1, 2]);
        assert_eq!(without_gap(&[]), [0; 0]);
    }
}
