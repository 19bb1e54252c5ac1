//! A domain's folder: which users may make it, and which folders are refused.
//!
//! A folder is a domain once it holds the registry's file, which its first opener gives its name in
//! one step, before there is anything else. So a folder that holds other things and no registry is
//! a folder of files (`/etc`, `/tmp`, a home): nothing is written there, and no message advises to
//! change it.
//!
//! `/dev/shm` is open to all: another user may have made `/dev/shm/outlive-1000` before user 1000
//! came. A user can at any moment change what lies in a folder that it owns, so another user's
//! folder is refused with a message, whatever its permissions say.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use super::Opening;
use crate::Error;
use crate::sys::file::{self, KeptFile};
use crate::sys::{Errno, process};

/// The users that may enter a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The caller's user alone: folders 0700, files 0600.
    Mine,
    /// The members of a group too: folders 0770, files 0660.
    Group(u32),
}

impl Access {
    fn folder_mode(self) -> u32 {
        match self {
            Access::Mine => 0o700,
            Access::Group(_) => 0o770,
        }
    }

    /// Returns the mode of the folder in which the domains lie that have a name. A group's is
    /// sticky: a member may rename or remove the domains' folders that it has made, and no other
    /// member's, so no member can put a folder of its own in the place of another's domain. (Its
    /// owner and root may.) A domain's own folder is not sticky, because there the members remove
    /// each other's names, and what the dead left.
    fn base_mode(self) -> u32 {
        match self {
            Access::Mine => 0o700,
            Access::Group(_) => 0o1770,
        }
    }

    pub(crate) fn file_mode(self) -> u32 {
        match self {
            Access::Mine => 0o600,
            Access::Group(_) => 0o660,
        }
    }

    pub(crate) fn group(self) -> Option<u32> {
        match self {
            Access::Mine => None,
            Access::Group(group) => Some(group),
        }
    }
}

/// What is found in the folder of a domain when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// The marking file: it is a domain.
    Domain,
    /// Nothing: it may become one.
    Nothing,
}

/// An open, checked folder.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: KeptFile,
    path: PathBuf,
    access: Access,
    contents: Contents,
}

impl Folder {
    /// Returns the folder in which the domains lie that have a name: the user's, or the group's.
    pub(crate) fn base(group: Option<u32>) -> PathBuf {
        PathBuf::from(match group {
            None => format!("/dev/shm/outlive-{}", process::user_id()),
            Some(group) => format!("/dev/shm/outlive-group-{group}"),
        })
    }

    /// Returns the group that shares the domain in a folder, if one does: a member that did not make
    /// the folder may open it as that group's alone.
    pub(crate) fn group_of(path: &Path) -> Option<u32> {
        let fd = file::open_folder(path).ok()?;
        let facts = file::facts(fd.as_fd()).ok()?;
        (facts.mode & 0o070 == 0o070).then_some(facts.group)
    }

    /// Opens the folder of a named domain below the user's own base folder; a group's domain below
    /// the group's, which all of its members may enter.
    pub(crate) fn in_base(
        name: &OsStr,
        group: Option<u32>,
        opening: Opening,
        mark: &str,
    ) -> Result<Folder, Error> {
        let base = Folder::base(group);
        // It holds domains, so it is none.
        let of_base = if opening == Opening::Open { opening } else { Opening::OpenOrCreate };
        let path = base.join(name);
        Folder::open_any(&base, group, of_base, None).map_err(|error| match error {
            // What is not there is what was asked for.
            Error::NotFound { .. } => Error::NotFound { path: path.clone() },
            other => other,
        })?;
        Folder::open(&path, group, opening, mark)
    }

    /// Opens the folder or makes it, as `opening` says, and checks which other users may enter it. A
    /// domain holds a file of the name `mark`; a folder that holds other things without it is
    /// refused, and so is, unless asked to make a domain, one that holds nothing.
    pub(crate) fn open(
        path: &Path,
        group: Option<u32>,
        opening: Opening,
        mark: &str,
    ) -> Result<Folder, Error> {
        Folder::open_any(path, group, opening, Some(mark))
    }

    fn open_any(
        path: &Path,
        group: Option<u32>,
        opening: Opening,
        mark: Option<&str>,
    ) -> Result<Folder, Error> {
        let asked = group.map_or(Access::Mine, Access::Group);
        // Without a mark it is a folder of domains.
        let mode = if mark.is_some() { asked.folder_mode() } else { asked.base_mode() };
        let make = || {
            file::make_folder(path, mode, asked.group()).map_err(|errno| match errno {
                // Of the steps, only giving it to a group is not permitted like that.
                Errno::PERM if group.is_some() => {
                    Error::Permission { path: path.to_path_buf(), doing: "share" }
                }
                errno => Error::from_errno("make", path, errno),
            })
        };
        let fd = match opening {
            Opening::Open => file::open_folder(path),
            Opening::OpenOrCreate => match file::open_folder(path) {
                Err(Errno::NOENT) => {
                    make()?;
                    file::open_folder(path)
                }
                other => other,
            },
            Opening::CreateNew => {
                if !make()? {
                    return Err(Error::AlreadyExists { path: path.to_path_buf() });
                }
                file::open_folder(path)
            }
        }
        .map_err(|errno| Error::from_errno("open", path, errno))?;
        let examine = |fd: BorrowedFd<'_>| {
            file::facts(fd).map_err(|errno| Error::from_errno("examine", path, errno))
        };
        // Before the question whose it is: to a folder of other things, neither answer fits.
        let contents = match mark {
            Some(mark) => contents(fd.as_fd(), path, mark)?,
            None => Contents::Nothing,
        };
        let mut facts = examine(fd.as_fd())?;
        let user = process::user_id();
        // On a file system that cannot rename without replacing, a folder gets its name before its
        // rights, and its maker may have died in between. If there is something in it, its owner
        // means to keep it.
        if group.is_some()
            && opening != Opening::Open
            && facts.owner == user
            && facts.mode & 0o077 == 0
            && file::is_empty(fd.as_fd()) == Ok(true)
        {
            // This folder, which was checked, and not the one that has the path by now.
            file::finish_open_folder(fd.as_fd(), mode, asked.group())
                .map_err(|errno| Error::from_errno("make", path, errno))?;
            facts = examine(fd.as_fd())?;
        }
        // A group's base folder that an older build made, or a member by hand. Readers change nothing.
        if mark.is_none()
            && let Some(group) = group
            && opening != Opening::Open
            && facts.owner == user
            && facts.group == group
            && facts.mode & 0o1077 == 0o070
        {
            file::finish_open_folder(fd.as_fd(), mode, None)
                .map_err(|errno| Error::from_errno("make", path, errno))?;
            facts = examine(fd.as_fd())?;
        }
        let untrusted = || {
            let (owner, mode) = (facts.owner, facts.mode);
            Error::Untrusted { path: path.to_path_buf(), owner, user, mode }
        };
        let access = match group {
            // A group's folder: any member may have made it, and no one outside may enter.
            Some(group) if facts.group == group && facts.mode & 0o077 == 0o070 => {
                Access::Group(group)
            }
            Some(_) | None if facts.owner != user => return Err(untrusted()),
            Some(_) => return Err(untrusted()),
            None if facts.mode & 0o077 == 0 => Access::Mine,
            // The owner opened it for a group before: keep that.
            None if facts.mode & 0o007 == 0 && facts.mode & 0o070 == 0o070 => {
                Access::Group(facts.group)
            }
            None => return Err(untrusted()),
        };
        match mark {
            Some(mark) if opening == Opening::Open && contents == Contents::Nothing => {
                Err(Error::NotFound { path: path.join(mark) })
            }
            _ => {
                let fd = KeptFile::new(fd, &facts);
                Ok(Folder { fd, path: path.to_path_buf(), access, contents })
            }
        }
    }

    /// Returns what was there when it was opened.
    pub(crate) fn contents(&self) -> Contents {
        self.contents
    }

    /// Removes the folder if there is nothing in it.
    pub(crate) fn remove_if_empty(&self) {
        // A failure: there is something in it, or it is gone.
        let _ = file::remove_empty_folder(&self.path);
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file_path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the descriptor, if it is still this folder's. Another folder may have got the
    /// number; nothing is made or removed there.
    pub(crate) fn fd(&self) -> Result<BorrowedFd<'_>, Error> {
        self.fd.fd().map_err(|errno| Error::from_errno("examine", &self.path, errno))
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// Returns the size, in bytes, of the file system that holds the folder.
    pub(crate) fn file_system_bytes(&self) -> Result<u64, Error> {
        file::file_system_bytes(self.fd()?)
            .map_err(|errno| Error::from_errno("examine", &self.path, errno))
    }
}

/// Says what a folder holds; refuses one that holds other things and no marking file.
fn contents(folder: BorrowedFd<'_>, path: &Path, mark: &str) -> Result<Contents, Error> {
    let failed = |errno| Error::from_errno("examine", path, errno);
    let is_marked = || file::is_there(folder, mark).map_err(failed);
    if is_marked()? {
        return Ok(Contents::Domain);
    }
    if file::is_empty(folder).map_err(failed)? {
        return Ok(Contents::Nothing);
    }
    // Another process may have made the domain just now: the mark has its name before anything else
    // in a domain has one, so it is there if the names were a domain's.
    if is_marked()? {
        return Ok(Contents::Domain);
    }
    Err(Error::NotADomain { path: path.to_path_buf() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_tells_its_group() {
        let folder = std::env::temp_dir().join(format!("outlive-group-{}", std::process::id()));
        let own = rustix::process::getegid().as_raw();
        assert_eq!(Folder::group_of(&folder), None);
        for group in [None, Some(own)] {
            drop(Folder::open(&folder, group, Opening::OpenOrCreate, ".mark").expect("made"));
            assert_eq!(Folder::group_of(&folder), group);
            std::fs::remove_dir(&folder).expect("removed");
        }
    }
}
