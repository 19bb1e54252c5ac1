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
            Err(Error::Locked { path: path.to_owned(), pid: writer_of(path) })
        }
        Err(errno) => Err(Error::io("lock", path, errno.into())),
    }
}

/// Returns the process that writes a file: the one that has its [`Writer`](crate::Writer)'s lock. It takes no lock, so
/// it disturbs no writer. `None`: no process writes it, or one that this process cannot see, as in another container.
///
/// # If a process dies
/// The kernel frees its lock, and this returns `None` from then on.
#[must_use]
pub fn writer_of(path: &Path) -> Option<u32> {
    let file = path.metadata().ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let own = |pid| has_open(pid, &file);
    locks.lines().find_map(|line| holder(line, (file.dev(), file.ino()), own))
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
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let open = entries.flatten().filter_map(|entry| fs::metadata(entry.path()).ok());
    open.map(|open| (open.dev(), open.ino())).any(|open| open == (file.dev(), file.ino()))
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
        let found = writer_of(&path);
        let second = Writer::<Vec<u8>>::resume(&path, Options::default()).map(drop);
        drop(writer);
        let later = writer_of(&path);
        fs::remove_file(&path).expect("removed");
        let own = Some(std::process::id());
        assert_eq!((found, later, writer_of(&path)), (own, None, None));
        let Err(Error::Locked { pid, .. }) = second else { panic!("{second:?}") };
        assert_eq!(pid, own);
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
