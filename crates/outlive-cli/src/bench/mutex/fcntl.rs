//! A record lock on one byte of a file. The kernel gives it back when its process ends, without telling the next.

use super::super::error::{Error, check};
use super::super::round::Stage;
use super::super::shared::Shared;
use super::Lock;
use super::counter::Counter;
use std::fs::{File, OpenOptions};
use std::mem;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// The file's path, and the counter.
pub(super) struct Place {
    path: PathBuf,
    counter: Shared<Counter>,
}

/// A process's own opening of the file.
pub(super) struct Fcntl {
    file: File,
    counter: *const Counter,
}

impl Fcntl {
    #[inline]
    fn set(&self, kind: libc::c_int, command: libc::c_int) -> Result<(), Error> {
        // SAFETY: plain data; zero where nothing is said.
        let mut lock: libc::flock = unsafe { mem::zeroed() };
        lock.l_type = kind as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_len = 1;
        // SAFETY: an open file and a valid flock.
        check(unsafe { libc::fcntl(self.file.as_raw_fd(), command, &lock) }, "locking a byte of a file").map(drop)
    }
}

impl Lock for Fcntl {
    const NAME: &'static str = "fcntl";
    type Place = Place;

    fn place(stage: &Stage) -> Result<Place, Error> {
        Ok(Place { path: stage.scratch.path().join("byte"), counter: Shared::new()? })
    }

    fn open(place: &Place) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&place.path)
            .map_err(|source| Error::System { doing: "opening the file to lock", source })?;
        Ok(Self { file, counter: &*place.counter })
    }

    #[inline]
    fn with<R>(&self, body: impl FnOnce(&mut u64) -> R) -> Result<R, Error> {
        self.set(libc::F_WRLCK, libc::F_SETLKW)?;
        // SAFETY: mapped longer than the turn's processes live, and we hold the lock.
        let result = unsafe { (*self.counter).with(body) };
        self.set(libc::F_UNLCK, libc::F_SETLK)?;
        Ok(result)
    }
}
