//! Notices whether a step changed anything that survivors or the kernel could see.
//!
//! Two moments of a victim's life are the same to every other process when three things are: the
//! files in the domain's folder, the thread's robust list head (private memory, but the kernel
//! reads it at a death), and what the kernel knows (which only a system call changes). A [`Watch`]
//! keeps a private copy of the first two and compares after each step.
//!
//! Only the parts of a file that hold data are looked at: a look at a hole in a memory file system
//! would fill it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use libc::pid_t;
use rustix::fs::SeekFrom;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::trace::{self, RobustHead};

/// A stretch of a file that holds data, mapped, with the copy that it was last compared with.
struct Extent {
    start: u64,
    address: NonNull<u8>,
    copy: Vec<u8>,
}

impl Extent {
    fn map(file: &File, start: u64, bytes: usize) -> io::Result<Extent> {
        // SAFETY: a fresh shared, read-only mapping of a part of the file that has data.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED,
                file.as_fd(),
                start,
            )?
        };
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut extent = Extent { start, address, copy: vec![0; bytes] };
        extent.refresh();
        Ok(extent)
    }

    /// Compares with the copy and renews it where they differ.
    fn refresh(&mut self) -> bool {
        // SAFETY: the mapping is as long as the copy. Other processes may write at the same time;
        // memcmp and memcpy are the C library's and make no claim about a byte's value staying the
        // same, and a torn copy is a change seen twice, no more. (A file cut short meanwhile would
        // be SIGBUS: domain files never shrink.)
        unsafe {
            let shared = self.address.as_ptr().cast();
            if libc::memcmp(shared, self.copy.as_ptr().cast(), self.copy.len()) == 0 {
                return false;
            }
            libc::memcpy(self.copy.as_mut_ptr().cast(), shared, self.copy.len());
        }
        true
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        // SAFETY: our own mapping, made with this length.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.copy.len()) };
    }
}

struct Watched {
    file: File,
    extents: Vec<Extent>,
}

impl Watched {
    /// Looks for data that came or went: also a first write to a page that was allocated before
    /// makes it data.
    fn remap(&mut self) -> io::Result<bool> {
        let now = data_extents(&self.file)?;
        if self
            .extents
            .iter()
            .map(|extent| (extent.start, extent.copy.len()))
            .eq(now.iter().copied())
        {
            return Ok(false);
        }
        self.extents = now
            .iter()
            .map(|&(start, bytes)| Extent::map(&self.file, start, bytes))
            .collect::<io::Result<_>>()?;
        Ok(true)
    }
}

/// The shared state as it was after the last comparison.
pub struct Watch {
    folder: PathBuf,
    files: BTreeMap<PathBuf, Watched>,
    robust: RobustHead,
}

fn data_extents(file: &File) -> io::Result<Vec<(u64, usize)>> {
    let mut found = Vec::new();
    let mut place = 0;
    loop {
        let start = match rustix::fs::seek(file, SeekFrom::Data(place)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => return Ok(found),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
        found.push((start, (end - start) as usize));
        place = end;
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), found)?,
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            // Gone meanwhile, or nothing that can be mapped.
            _ => {}
        }
    }
    Ok(())
}

impl Watch {
    /// Begins to watch a folder and a thread, as they are now.
    ///
    /// # Errors
    /// What listing, opening or mapping reports.
    pub fn new(folder: &Path, tid: pid_t) -> io::Result<Watch> {
        let mut watch = Watch {
            folder: folder.to_owned(),
            files: BTreeMap::new(),
            robust: RobustHead::default(),
        };
        watch.relist()?;
        watch.robust = trace::robust_head(tid)?;
        Ok(watch)
    }

    /// Looks for files that came or went. Only system calls can have caused that.
    fn relist(&mut self) -> io::Result<bool> {
        let mut changed = false;
        let mut paths = Vec::new();
        if self.folder.is_dir() {
            walk(&self.folder, &mut paths)?;
        }
        let before = self.files.len();
        self.files.retain(|path, _| paths.contains(path));
        changed |= self.files.len() != before;
        for path in paths {
            if self.files.contains_key(&path) {
                continue;
            }
            let Ok(file) = File::open(&path) else { continue };
            let mut watched = Watched { file, extents: Vec::new() };
            watched.remap()?;
            self.files.insert(path, watched);
            changed = true;
        }
        Ok(changed)
    }

    /// Returns whether anything differs from the last comparison. `tid` stands still;
    /// `entered_kernel` says that its last step was a system call, after which files are looked for
    /// anew.
    ///
    /// # Errors
    /// What listing, mapping or reading reports.
    pub fn changed(&mut self, tid: pid_t, entered_kernel: bool) -> io::Result<bool> {
        let mut changed = false;
        for watched in self.files.values_mut() {
            for extent in &mut watched.extents {
                changed |= extent.refresh();
            }
            changed |= watched.remap()?;
        }
        if entered_kernel {
            changed |= self.relist()?;
        }
        let robust = trace::robust_head(tid)?;
        changed |= robust != self.robust;
        self.robust = robust;
        Ok(changed)
    }

    /// How many bytes each comparison covers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.files
            .values()
            .flat_map(|watched| &watched.extents)
            .map(|extent| extent.copy.len())
            .sum()
    }
}
