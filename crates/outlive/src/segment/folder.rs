//! A domain's folder: which users may make it, and which users' folders are refused.
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

/// An open, checked folder.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: KeptFile,
    path: PathBuf,
    access: Access,
}

impl Folder {
    /// Opens the folder of a named domain below the user's own base folder; a group's domain below
    /// the group's, which all of its members may enter.
    pub(crate) fn in_base(
        name: &OsStr,
        group: Option<u32>,
        opening: Opening,
    ) -> Result<Folder, Error> {
        let base = PathBuf::from(match group {
            None => format!("/dev/shm/outlive-{}", process::user_id()),
            Some(group) => format!("/dev/shm/outlive-group-{group}"),
        });
        let of_base = if opening == Opening::Open { opening } else { Opening::OpenOrCreate };
        Folder::open(&base, group, of_base)?;
        Folder::open(&base.join(name), group, opening)
    }

    /// Opens the folder or makes it, as `opening` says, and checks which other users may enter it.
    pub(crate) fn open(path: &Path, group: Option<u32>, opening: Opening) -> Result<Folder, Error> {
        let asked = group.map_or(Access::Mine, Access::Group);
        let make = || {
            file::make_folder(path, asked.folder_mode(), asked.group())
                .map_err(|errno| Error::from_errno("make", path, errno))
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
        let mut facts = examine(fd.as_fd())?;
        let user = process::user_id();
        // On a file system that cannot rename without replacing, a folder gets its name before its
        // rights, and its maker may have died in between. If there is something in it, its owner
        // means to keep it.
        if group.is_some()
            && opening != Opening::Open
            && facts.owner == user
            && facts.mode & 0o077 == 0
            && file::names(fd.as_fd()).is_ok_and(|names| names.is_empty())
        {
            file::finish_folder(path, asked.folder_mode(), asked.group())
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
        Ok(Folder { fd: KeptFile::new(fd, &facts), path: path.to_path_buf(), access })
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
