//! A file's bytes as they were, to begin every round alike: holes stay holes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file and what was in it.
pub struct Snapshot {
    pub name: String,
    file: File,
    len: u64,
    extents: Vec<(u64, Vec<u8>)>,
    /// Where words lie that are not 0: what is in use.
    used: Vec<u64>,
}

impl Snapshot {
    pub fn take(folder: &Path, name: &str) -> io::Result<Snapshot> {
        let file = OpenOptions::new().read(true).write(true).open(folder.join(name))?;
        let len = file.metadata()?.len();
        let mut extents = Vec::new();
        let mut used = Vec::new();
        let mut at = 0;
        while let Some(start) = seek(&file, at, libc::SEEK_DATA) {
            let end = seek(&file, start, libc::SEEK_HOLE).unwrap_or(len);
            let mut bytes = vec![0; (end - start) as usize];
            file.read_exact_at(&mut bytes, start)?;
            for (word, chunk) in bytes.chunks_exact(8).enumerate() {
                if chunk != [0; 8] {
                    used.push(start + word as u64 * 8);
                }
            }
            extents.push((start, bytes));
            at = end;
        }
        Ok(Snapshot { name: name.to_owned(), file, len, extents, used })
    }

    /// Puts everything back.
    pub fn restore(&self) -> io::Result<()> {
        self.file.set_len(self.len)?;
        let mut at = 0;
        for (start, bytes) in &self.extents {
            punch(&self.file, at, *start)?;
            self.file.write_all_at(bytes, *start)?;
            at = start + bytes.len() as u64;
        }
        punch(&self.file, at, self.len)
    }

    /// Puts what lies there now under another name: the ranges that had bytes at first.
    pub fn copy_to(&self, path: &Path) -> io::Result<()> {
        let copy = File::create(path)?;
        for (start, bytes) in &self.extents {
            let mut now = vec![0; bytes.len()];
            self.file.read_exact_at(&mut now, *start)?;
            copy.write_all_at(&now, *start)?;
        }
        copy.set_len(self.file.metadata()?.len())
    }

    pub fn used(&self) -> &[u64] {
        &self.used
    }

    /// Returns bytes with memory behind them, as ranges.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.extents.iter().map(|(start, bytes)| (*start, start + bytes.len() as u64))
    }

    /// Returns what lies there now; 0 beyond the end.
    pub fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        let _ = self.file.read_exact_at(&mut bytes, at);
        u64::from_ne_bytes(bytes)
    }

    /// Writes, never beyond the end: it neither grows nor cuts the file.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        let room = self.len.saturating_sub(at).min(bytes.len() as u64) as usize;
        let _ = self.file.write_all_at(&bytes[..room], at);
    }

    pub fn len(&self) -> u64 {
        self.len
    }
}

fn seek(file: &File, from: u64, what: i32) -> Option<u64> {
    // SAFETY: no pointers are passed.
    let at = unsafe { libc::lseek(file.as_raw_fd(), from as i64, what) };
    u64::try_from(at).ok()
}

fn punch(file: &File, from: u64, to: u64) -> io::Result<()> {
    if from >= to {
        return Ok(());
    }
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no pointers are passed.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, from as i64, (to - from) as i64) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
