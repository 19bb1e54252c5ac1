//! A pipe. It knows no messages: the reader reads as many bytes as each has.

use super::{Channel, Receive, Send};
use crate::harness::error::{Error, check};
use crate::harness::round::Stage;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};

/// Both ends.
pub(super) struct Ends {
    reading: File,
    writing: File,
}

/// The row.
pub(super) struct Pipe;

/// An end, as a process has it after the fork.
pub(super) struct End(File);

impl End {
    fn of(file: &File) -> Result<Self, Error> {
        file.try_clone()
            .map(Self)
            .map_err(|source| Error::System { doing: "copying a pipe's end", source })
    }
}

impl Channel for Pipe {
    const NAME: &'static str = "pipe";
    type Place = Ends;
    type Sender = End;
    type Receiver = End;

    fn place(_: &Stage, _: &'static str, _: usize) -> Result<Ends, Error> {
        let mut ends = [-1; 2];
        // SAFETY: room for two descriptors, which are fresh and this function's alone.
        let [reading, writing] = unsafe {
            check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), "making a pipe")?;
            ends.map(|end| File::from(OwnedFd::from_raw_fd(end)))
        };
        Ok(Ends { reading, writing })
    }

    fn sender(place: &Ends) -> Result<End, Error> {
        End::of(&place.writing)
    }

    fn receiver(place: &Ends) -> Result<End, Error> {
        End::of(&place.reading)
    }
}

impl Send for End {
    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        self.0
            .write_all(message)
            .map_err(|source| Error::System { doing: "writing to a pipe", source })
    }
}

impl Receive for End {
    #[inline]
    fn receive(&mut self, message: &mut Vec<u8>) -> Result<(), Error> {
        self.0
            .read_exact(message)
            .map_err(|source| Error::System { doing: "reading from a pipe", source })
    }
}
