//! What a folder's files take, and the short text that a symbolic link in it holds.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{self, AtFlags};

use super::Errno;

/// Returns how many bytes of memory the files take that have a name in the folder.
pub(crate) fn allocated_in(folder: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut sum = 0u64;
    for entry in fs::Dir::read_from(folder)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        match fs::statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
                sum = sum.saturating_add(blocks * 512);
            }
            // Removed since the folder was read.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(sum)
}

/// Returns the number that a symbolic link's text is, `None` when no file has the path. Text that is
/// no number is `EINVAL`, as a file is that is no symbolic link.
pub(crate) fn number_of_link(path: &Path) -> Result<Option<u64>, Errno> {
    // Longer than any number: the kernel would cut the text off.
    let mut room = [MaybeUninit::<u8>::uninit(); 32];
    match fs::readlinkat_raw(fs::CWD, path, &mut room) {
        Ok((text, _)) => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            number.map(Some).ok_or(Errno::INVAL)
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Makes a symbolic link of that text, or gives the one that is there that text, in one step.
/// `unfinished` is the name that it has first: one that a dead process left is replaced.
pub(crate) fn set_link(
    folder: BorrowedFd<'_>,
    name: &str,
    unfinished: &str,
    text: &str,
) -> Result<(), Errno> {
    match fs::unlinkat(folder, unfinished, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    fs::symlinkat(text, folder, unfinished)?;
    fs::renameat(folder, unfinished, folder, name)
}

/// Removes the names in a folder that begin so.
pub(crate) fn remove_beginning_with(folder: BorrowedFd<'_>, begins: &str) -> Result<(), Errno> {
    let is_one = |name: &CStr| name.to_bytes().starts_with(begins.as_bytes());
    for entry in fs::Dir::read_from(folder)? {
        let entry = entry?;
        if is_one(entry.file_name()) {
            match fs::unlinkat(folder, entry.file_name(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(())
}
