//! Bytes into the file: at an offset, all of them or an error.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

use rustix::io::{Errno, pwritev};

/// The most pieces that one system call takes (IOV_MAX).
const PIECES: usize = 1024;

/// Writes all pieces at `offset`. A call that wrote less than it was given is continued.
///
/// After an error, and after a death, a part of the bytes may be in the file.
pub(crate) fn write_all_at(
    file: &File,
    mut pieces: &mut [IoSlice<'_>],
    mut offset: u64,
) -> io::Result<()> {
    // An empty piece at the front would look like a write that wrote nothing.
    IoSlice::advance_slices(&mut pieces, 0);
    while !pieces.is_empty() {
        let some = pieces.len().min(PIECES);
        match pwritev(file, &pieces[..some], offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                offset += written as u64;
                IoSlice::advance_slices(&mut pieces, written);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// What is appended in small parts: a buffer before the file, with the checksum of all that it took.
pub(crate) struct Appender<'f> {
    file: &'f File,
    offset: u64,
    buffer: Vec<u8>,
    crc: crc32fast::Hasher,
}

impl<'f> Appender<'f> {
    const FULL: usize = 1 << 20;

    pub(crate) fn new(file: &'f File, offset: u64) -> Appender<'f> {
        Appender { file, offset, buffer: Vec::new(), crc: crc32fast::Hasher::new() }
    }

    /// Returns where the next byte goes.
    pub(crate) fn position(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    /// Appends what `fill` appends.
    pub(crate) fn append(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let before = self.buffer.len();
        fill(&mut self.buffer);
        self.crc.update(&self.buffer[before..]);
        if self.buffer.len() >= Self::FULL { self.flush() } else { Ok(()) }
    }

    /// Returns the checksum of all bytes so far.
    pub(crate) fn crc(&self) -> u32 {
        self.crc.clone().finalize()
    }

    /// Hands what is in the buffer to the kernel.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.offset)?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
