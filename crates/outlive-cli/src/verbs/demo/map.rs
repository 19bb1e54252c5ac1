//! Files of the demo in memory: read by all, or words that one process writes and others read.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapped stretch of a file.
pub struct Map {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: shared bytes are read only, or atomics; see the two constructors.
unsafe impl Send for Map {}

impl Map {
    /// Maps a file that no process writes any more.
    pub fn read_only(file: &File, len: u64) -> io::Result<Map> {
        Map::new(file, 0, len as usize, ProtFlags::READ)
    }

    /// Maps words of a file, whose pages are allocated first: a full memory file system is an error
    /// here, not a signal later.
    pub fn words(file: &File, from: u64, words: usize) -> io::Result<Map> {
        let len = words * size_of::<AtomicU64>();
        fallocate(file, FallocateFlags::empty(), from, len as u64)?;
        Map::new(file, from, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn new(file: &File, from: u64, len: usize, protection: ProtFlags) -> io::Result<Map> {
        // SAFETY: a new mapping at a place of the kernel's choice touches nothing that exists.
        let base =
            unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, from) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Map { base, len })
    }

    /// Returns the bytes of a file that no process writes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped for as long as `self` lives; the demo's material is written before it is
        // mapped, and its folder is the demo's alone.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// Returns the words of a file that several processes use.
    pub fn as_words(&self) -> &[AtomicU64] {
        // SAFETY: mapped for as long as `self` lives, page-aligned, and atomics may be shared.
        unsafe {
            std::slice::from_raw_parts(self.base.as_ptr().cast(), self.len / size_of::<AtomicU64>())
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: ours, mapped by `new`, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
