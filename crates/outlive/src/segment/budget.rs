//! A domain's budget: the most memory that its files take together.
//!
//! The budget is the text of a symbolic link in the domain's folder, `.max-bytes -> 67108864`: one
//! system call reads it, and `rename(2)` replaces it, so no process reads half of one. A domain
//! without the link has no budget.
//!
//! No process keeps a count, which a process that is killed could leave wrong. A process that is
//! about to ask for pages adds up what the kernel says of the folder's files. Two that do so at once
//! could both find room for one, so they take turns: `flock(2)` on an opening of the folder that is
//! the turn's own.
//!
//! | state | died here |
//! | --- | --- |
//! | it has the turn | the kernel ends the lock |
//! | it has the turn, and the file has its pages | the same; the next one counts the pages |
//! | `.max-bytes-new` is there | the next that sets a budget removes it |
//!
//! A process that is stopped in its turn keeps the turn. The others wait for it a little, and go on
//! without: the domain may then exceed its budget by what those that were on their way ask for. No
//! process waits for a stopped one.
//!
//! A process that has dropped its rights since it opened the domain, so that it can no longer read the link,
//! goes on without the budget: what it grows, the others count.
//!
//! A file without a name is counted by its maker alone, and one whose name has been removed by no
//! process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use super::folder::Folder;
use crate::Error;
use crate::sys::map::PAGE;
use crate::sys::{Errno, file, folder_usage};

const LINK: &str = ".max-bytes";
const UNFINISHED: &str = ".max-bytes-new";

/// How often a process asks for its turn, and how long it sleeps in between.
const TRIES: u32 = 50;
const BETWEEN: Duration = Duration::from_millis(1);

/// The calling process's turn to count and to allocate.
struct Turn {
    /// `None`: a stopped process has had the turn for long.
    folder: Option<OwnedFd>,
}

impl Turn {
    fn take(folder: OwnedFd) -> Result<Turn, Errno> {
        for _ in 0..TRIES {
            if file::lock(folder.as_fd())? {
                return Ok(Turn { folder: Some(folder) });
            }
            std::thread::sleep(BETWEEN);
        }
        Ok(Turn { folder: None })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Not by closing alone: a child that another thread has forked has the opening, too.
        if let Some(folder) = &self.folder {
            file::unlock(folder.as_fd());
        }
    }
}

/// Makes sure that the pages exist, unless the domain's files would take more than its budget. What
/// exists already takes nothing.
pub(super) fn allocate(
    file: BorrowedFd<'_>,
    path: &Path,
    from: u64,
    len: u64,
) -> Result<(), Error> {
    let Some(folder) = path.parent() else { return allocate_within(file, path, from, len) };
    let most = match folder_usage::number_of_link(&folder.join(LINK)) {
        // One that has dropped its rights since it opened the domain, or whose filter refuses the call, cannot
        // read the budget. What it may do by its descriptors goes on.
        Err(Errno::ACCESS | Errno::PERM | Errno::NOSYS) => None,
        found => found.map_err(|errno| unreadable(folder, errno))?,
    };
    let Some(most) = most else { return allocate_within(file, path, from, len) };
    let failed = |errno| Error::from_errno("add up the files of", folder, errno);
    let opened = file::open_folder(folder).map_err(failed)?;
    let listed = file::open_folder(folder).map_err(failed)?;
    let _turn = Turn::take(opened).map_err(failed)?;
    let facts = file::facts(file).map_err(|errno| Error::from_errno("examine", path, errno))?;
    let wanted = missing(&facts, from, len);
    if wanted > 0 {
        let unnamed = if facts.links == 0 { facts.allocated } else { 0 };
        let named = folder_usage::allocated_in(listed.as_fd()).map_err(failed)?;
        let exceeds = |wanted| named.saturating_add(unnamed).saturating_add(wanted) > most;
        // The file may have its holes elsewhere: a process that opens a thing of a full domain asks for pages that
        // exist.
        if exceeds(wanted) {
            let holes = file::holes_in(file, from / PAGE * PAGE, from.saturating_add(len));
            if holes > 0 && exceeds(wanted.min(holes)) {
                return Err(Error::NoSpace { path: path.to_path_buf(), wanted: len });
            }
        }
    }
    allocate_within(file, path, from, len)
}

/// Makes sure that the pages exist, which the caller knows to be within the budget.
pub(super) fn allocate_within(
    file: BorrowedFd<'_>,
    path: &Path,
    from: u64,
    len: u64,
) -> Result<(), Error> {
    file::allocate(file, from, len).map_err(|errno| allocation_error(path, len, errno))
}

/// Makes the error of pages that the file system does not give.
pub(super) fn allocation_error(path: &Path, wanted: u64, errno: Errno) -> Error {
    if file::is_no_space(errno) {
        Error::NoSpace { path: path.to_path_buf(), wanted }
    } else {
        Error::from_errno("allocate pages of", path, errno)
    }
}

/// Returns how many bytes of memory the file may need more for these pages: those behind its end,
/// and before it no more than it has holes.
fn missing(facts: &file::Metadata, from: u64, len: u64) -> u64 {
    let (from, end) = (from / PAGE * PAGE, from.saturating_add(len).next_multiple_of(PAGE));
    let beyond = end.saturating_sub(from.max(facts.len));
    let holes = facts.len.saturating_sub(facts.allocated);
    beyond + (end - from - beyond).min(holes)
}

/// Returns the budget of the domain in that folder, if it has one.
fn of(folder: &Path) -> Result<Option<u64>, Error> {
    folder_usage::number_of_link(&folder.join(LINK)).map_err(|errno| unreadable(folder, errno))
}

fn unreadable(folder: &Path, errno: Errno) -> Error {
    match errno {
        Errno::INVAL => Error::Damaged { path: folder.join(LINK), what: "the domain's budget" },
        errno => Error::from_errno("read the budget of", folder, errno),
    }
}

impl Folder {
    /// Returns the most bytes of memory that the folder's files may take together; `None`: as many
    /// as the file system has.
    pub(crate) fn max_bytes(&self) -> Result<Option<u64>, Error> {
        of(self.path())
    }

    /// Gives the domain that budget, or takes it away.
    pub(crate) fn set_max_bytes(&self, most: Option<u64>) -> Result<(), Error> {
        let failed = |errno| Error::from_errno("set the budget of", self.path(), errno);
        let fd = self.fd()?;
        match most {
            Some(most) => folder_usage::set_link(fd, LINK, UNFINISHED, &most.to_string()),
            None => folder_usage::remove_beginning_with(fd, LINK),
        }
        .map_err(failed)
    }

    /// Returns how many bytes of memory the folder's files take.
    pub(crate) fn allocated_bytes(&self) -> Result<u64, Error> {
        let failed = |errno| Error::from_errno("add up the files of", self.path(), errno);
        // An opening of its own: two threads would move one position in the list of names.
        let folder = file::open_folder(self.path()).map_err(failed)?;
        folder_usage::allocated_in(folder.as_fd()).map_err(failed)
    }

    /// Returns how many bytes of memory the folder's files can take at most: the size of its file
    /// system, or the domain's budget if that is less.
    pub(crate) fn most_bytes(&self) -> Result<u64, Error> {
        let size = self.file_system_bytes()?;
        Ok(self.max_bytes()?.map_or(size, |most| most.min(size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(len: u64, allocated: u64) -> file::Metadata {
        let (owner, group, mode, device, inode) = (0, 0, 0, 0, 0);
        file::Metadata {
            owner,
            group,
            mode,
            regular: true,
            len,
            allocated,
            links: 1,
            device,
            inode,
        }
    }

    #[test]
    fn only_what_does_not_exist_counts() {
        let whole = facts(4 * PAGE, 4 * PAGE);
        assert_eq!(missing(&whole, 0, 4 * PAGE), 0);
        assert_eq!(missing(&whole, 0, 5 * PAGE), PAGE);
        assert_eq!(missing(&whole, 4 * PAGE, 10), PAGE);
        assert_eq!(missing(&whole, 6 * PAGE, PAGE), PAGE);
        let with_hole = facts(4 * PAGE, 2 * PAGE);
        assert_eq!(missing(&with_hole, PAGE, PAGE), PAGE);
        assert_eq!(missing(&with_hole, 0, 4 * PAGE), 2 * PAGE);
        assert_eq!(missing(&with_hole, 3 * PAGE, 2 * PAGE), 2 * PAGE);
        // A huge page counts whole, though the file is shorter.
        assert_eq!(missing(&facts(PAGE, 512 * PAGE), 0, 2 * PAGE), PAGE);
    }
}
