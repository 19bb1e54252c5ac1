//! The lock of a file's writer, and which process has it.
//!
//! A process that only looks must not take the lock, not even for a moment: a recorder that begins just then would be
//! refused. So it reads the kernel's list of locks.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, major, minor};

use crate::error::Error;

/// Locks the file until it is closed, as it is when its writer dies.
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), Error> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(Error::Locked { path: path.to_owned(), holder: holder_of(path) })
        }
        Err(errno) => Err(Error::io("lock", path, errno.into())),
    }
}

/// A process that has a file locked as a [`Writer`](crate::Writer) does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// It has the file open for writing, as a writer has. `false`: it only reads, as the program `flock` does; or this
    /// process may not see how it has opened the file, as one of another user.
    pub writes: bool,
}

impl std::fmt::Display for Holder {
    /// Says `process 7 writes` or `process 7 has locked`, before the file's name.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} {}", self.pid, if self.writes { "writes" } else { "has locked" })
    }
}

/// Returns the process that has a file locked as its [`Writer`](crate::Writer) does, by `flock`. It takes no lock, so
/// it disturbs no writer. `None`: no process does; or one that this process cannot see, as in another container; or
/// the file system has no locks, or those of other machines do not show here.
///
/// # If a process dies
/// The kernel frees its lock, and this returns `None` from then on.
#[must_use]
pub fn holder_of(path: &Path) -> Option<Holder> {
    let file = path.metadata().ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let own = |pid| has_open(pid, &file);
    let pid = locks.lines().find_map(|line| holder(line, (file.dev(), file.ino()), own))?;
    Some(Holder { pid, writes: writes(pid, &file) })
}

/// Returns which process a line of `/proc/locks` names, if it has that file locked as a writer does. `has_open` says
/// whether a process has the file open.
fn holder(line: &str, (device, inode): (u64, u64), has_open: impl Fn(u32) -> bool) -> Option<u32> {
    // 1: FLOCK  ADVISORY  WRITE 3454 fe:00:1310857 0 EOF
    let mut words = line.split_whitespace().skip(1);
    if (words.next()?, words.nth(1)?) != ("FLOCK", "WRITE") {
        return None;
    }
    let (pid, place) = (words.next()?.parse().ok().filter(|pid| *pid > 0)?, words.next()?);
    let (found, number) = place.rsplit_once(':')?;
    if number.parse() != Ok(inode) {
        return None;
    }
    // btrfs and overlay file systems have another number for a file than for the lock on it.
    let same = format!("{:02x}:{:02x}", major(device), minor(device));
    (found == same || has_open(pid)).then_some(pid)
}

/// Returns whether a process has the file open, as far as this process may see that.
fn has_open(pid: u32, file: &fs::Metadata) -> bool {
    descriptors(pid, file).next().is_some()
}

/// Returns whether a process has the file open for writing, as far as this process may see that.
fn writes(pid: u32, file: &fs::Metadata) -> bool {
    descriptors(pid, file).any(|number| {
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        // The lowest two bits: 0 is O_RDONLY.
        flags
            .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
            .is_some_and(|f| f & 3 != 0)
    })
}

/// Returns the numbers by which a process has the file open.
fn descriptors(pid: u32, file: &fs::Metadata) -> impl Iterator<Item = String> {
    let place = (file.dev(), file.ino());
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let open = fs::metadata(entry.path()).ok()?;
        let is_it = (open.dev(), open.ino()) == place;
        is_it.then(|| entry.file_name().to_string_lossy().into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::{Options, Writer};

    #[test]
    fn a_writer_is_found_as_long_as_it_writes() {
        let name = format!("outlive-writer-{}.mcap", std::process::id());
        let path = std::env::temp_dir().join(name);
        let writer: Writer = Writer::create(&path, Options::default()).expect("made");
        let found = holder_of(&path);
        let second = Writer::<Vec<u8>>::resume(&path, Options::default()).map(drop);
        drop(writer);
        let later = holder_of(&path);
        // As the program `flock` opens it.
        let reads = File::open(&path).expect("there");
        lock(&reads, &path).expect("free");
        let locked = holder_of(&path);
        drop(reads);
        fs::remove_file(&path).expect("removed");
        let own = |writes| Some(Holder { pid: std::process::id(), writes });
        assert_eq!((found, later, holder_of(&path)), (own(true), None, None));
        assert_eq!(locked, own(false));
        let Err(Error::Locked { holder, .. }) = second else { panic!("{second:?}") };
        assert_eq!(holder, own(true));
    }

    #[test]
    fn a_line_of_the_kernels_list_names_a_writer() {
        let line = "7: FLOCK  ADVISORY  WRITE 3454 fe:0a:1310857 0 EOF";
        let device = rustix::fs::makedev(0xfe, 0x0a);
        let found = |line, place, is_open: bool| holder(line, place, |_| is_open);
        assert_eq!(found(line, (device, 1_310_857), false), Some(3454));
        assert_eq!(found(line, (7, 1_310_857), true), Some(3454));
        for (other, place, is_open) in [
            (line, (7, 1_310_857), false),
            (line, (device, 1), true),
            ("7: FLOCK  ADVISORY  READ 3454 fe:0a:1310857 0 EOF", (device, 1_310_857), true),
            ("7: POSIX  ADVISORY  WRITE 3454 fe:0a:1310857 0 EOF", (device, 1_310_857), true),
            // Waits for it; held in another namespace; nonsense.
            ("7: -> FLOCK  ADVISORY  WRITE 9 fe:0a:1310857 0 EOF", (device, 1_310_857), true),
            ("7: FLOCK  ADVISORY  WRITE 0 fe:0a:1310857 0 EOF", (device, 1_310_857), true),
            ("7: FLOCK", (device, 1_310_857), true),
            ("", (device, 1_310_857), true),
        ] {
            assert_eq!(found(other, place, is_open), None, "{other}");
        }
    }
}
