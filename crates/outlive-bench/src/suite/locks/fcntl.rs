//! A record lock on one byte of a file. The kernel gives it back when its process ends, without
//! telling the next.

use super::number::Apart;
use super::{Handle, Held, Lock};
use crate::harness::error::{Error, check};
use crate::harness::round::Stage;
use crate::harness::shared::Shared;
use std::fs::{File, OpenOptions};
use std::mem;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// The file's path, and the number.
pub(super) struct Place {
    path: PathBuf,
    number: Shared<Apart>,
}

/// The row.
pub(super) struct Fcntl;

/// A process's own opening of the file.
pub(super) struct Opening<'place> {
    file: File,
    number: &'place Apart,
}

impl Lock for Fcntl {
    const NAME: &'static str = "fcntl";
    type Place = Place;
    type Handle<'place> = Opening<'place>;

    fn place(stage: &Stage, which: &'static str) -> Result<Place, Error> {
        Ok(Place {
            path: stage.scratch.path().join(format!("byte of {which}")),
            number: Shared::new()?,
        })
    }

    fn open(place: &Place) -> Result<Opening<'_>, Error> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&place.path)
            .map_err(|source| Error::System { doing: "opening the file to lock", source })?;
        Ok(Opening { file, number: &place.number })
    }
}

impl Opening<'_> {
    #[inline]
    fn set(&self, kind: libc::c_int, command: libc::c_int) -> Result<(), Error> {
        // SAFETY: plain data; zero where nothing is said.
        let mut lock: libc::flock = unsafe { mem::zeroed() };
        lock.l_type = kind as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_len = 1;
        // SAFETY: an open file and a valid flock.
        check(
            unsafe { libc::fcntl(self.file.as_raw_fd(), command, &lock) },
            "locking a byte of a file",
        )
        .map(drop)
    }
}

impl Handle for Opening<'_> {
    type Held<'handle>
        = Locked<'handle>
    where
        Self: 'handle;

    #[inline]
    fn acquire(&self) -> Result<Locked<'_>, Error> {
        self.set(libc::F_WRLCK, libc::F_SETLKW)?;
        Ok(Locked(self))
    }
}

/// The byte, locked.
pub(super) struct Locked<'handle>(&'handle Opening<'handle>);

impl Held for Locked<'_> {
    #[inline]
    fn touch(&mut self) -> u64 {
        // SAFETY: the byte is ours.
        unsafe { self.0.number.0.raise() }
    }

    #[inline]
    fn release(self) -> Result<(), Error> {
        self.0.set(libc::F_UNLCK, libc::F_SETLK)
    }
}
