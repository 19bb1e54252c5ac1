//! The ways that ask the kernel.

use super::Question;
use crate::harness::error::{Error, check};
use crate::harness::round::Stage;
use std::fs::{File, OpenOptions};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

/// `epoll_wait` on an empty set, without waiting: the price of looking at a connected socket.
pub(super) struct Epoll {
    set: OwnedFd,
}

impl Question for Epoll {
    const NAME: &'static str = "epoll";
    const KNOWS: bool = false;
    type Place = ();

    fn place(_: &Stage) -> Result<(), Error> {
        Ok(())
    }

    fn prepare(_: &(), _: libc::pid_t) -> Result<Self, Error> {
        // SAFETY: no memory is touched; the descriptor is fresh.
        let set = unsafe {
            OwnedFd::from_raw_fd(check(
                libc::epoll_create1(libc::EPOLL_CLOEXEC),
                "making an epoll set",
            )?)
        };
        Ok(Self { set })
    }

    #[inline]
    fn ask(&self) -> bool {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for the one event asked for.
        unsafe { libc::epoll_wait(self.set.as_raw_fd(), &mut event, 1, 0) == 0 }
    }
}

/// `kill(pid, 0)`. A reused pid fools it.
pub(super) struct Kill {
    pid: libc::pid_t,
}

impl Question for Kill {
    const NAME: &'static str = "kill";
    type Place = ();

    fn place(_: &Stage) -> Result<(), Error> {
        Ok(())
    }

    fn prepare(_: &(), pid: libc::pid_t) -> Result<Self, Error> {
        Ok(Self { pid })
    }

    #[inline]
    fn ask(&self) -> bool {
        // SAFETY: signal 0 only asks.
        unsafe { libc::kill(self.pid, 0) == 0 }
    }
}

/// `faccessat` on the open directory /proc/PID. It asks for a name in it: the directory itself
/// stays open after death.
pub(super) struct Procfs {
    folder: File,
}

impl Question for Procfs {
    const NAME: &'static str = "procfs";
    type Place = ();

    fn place(_: &Stage) -> Result<(), Error> {
        Ok(())
    }

    fn prepare(_: &(), pid: libc::pid_t) -> Result<Self, Error> {
        let folder = File::open(format!("/proc/{pid}")).map_err(|source| Error::System {
            doing: "opening the process's folder in /proc",
            source,
        })?;
        Ok(Self { folder })
    }

    #[inline]
    fn ask(&self) -> bool {
        // SAFETY: an open directory and a string that ends with NUL.
        unsafe { libc::faccessat(self.folder.as_raw_fd(), c"stat".as_ptr(), libc::F_OK, 0) == 0 }
    }
}

/// `poll` on a pidfd, without waiting.
pub(super) struct PidFd {
    pidfd: OwnedFd,
}

impl Question for PidFd {
    const NAME: &'static str = "pidfd";
    type Place = ();

    fn place(_: &Stage) -> Result<(), Error> {
        Ok(())
    }

    fn prepare(_: &(), pid: libc::pid_t) -> Result<Self, Error> {
        // SAFETY: no memory is touched; the descriptor is fresh.
        let pidfd = unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as libc::c_int;
            OwnedFd::from_raw_fd(check(fd, "opening a pidfd")?)
        };
        Ok(Self { pidfd })
    }

    #[inline]
    fn ask(&self) -> bool {
        let mut poll =
            libc::pollfd { fd: self.pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&mut poll, 1, 0) == 0 }
    }
}

/// `F_GETLK` on a byte that the watched process has locked for writing.
pub(super) struct Fcntl {
    file: File,
    watched: libc::pid_t,
}

impl Fcntl {
    fn open(path: &PathBuf) -> Result<File, Error> {
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .map_err(|source| Error::System { doing: "opening a file to lock", source })
    }

    fn first_byte() -> libc::flock {
        // SAFETY: plain data; zero where nothing is said.
        let mut lock: libc::flock = unsafe { mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_len = 1;
        lock
    }
}

impl Question for Fcntl {
    const NAME: &'static str = "fcntl";
    type Place = PathBuf;

    fn place(stage: &Stage) -> Result<PathBuf, Error> {
        Ok(stage.scratch.path().join("locked-byte"))
    }

    fn hold(path: &PathBuf) -> Result<impl Sized, Error> {
        let file = Self::open(path)?;
        // SAFETY: an open file and a valid flock.
        let locked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &Self::first_byte()) };
        check(locked, "locking a byte")?;
        Ok(file)
    }

    fn prepare(path: &PathBuf, watched: libc::pid_t) -> Result<Self, Error> {
        Ok(Self { file: Self::open(path)?, watched })
    }

    #[inline]
    fn ask(&self) -> bool {
        let mut lock = Self::first_byte();
        // SAFETY: an open file and a valid flock, which the call fills.
        unsafe {
            libc::fcntl(self.file.as_raw_fd(), libc::F_GETLK, &mut lock) == 0
                && lock.l_pid == self.watched
        }
    }
}
