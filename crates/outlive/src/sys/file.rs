//! Files of a domain: created whole or not at all, and never used before their pages exist.

use std::ffi::OsStr;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{self, AtFlags, FallocateFlags, Mode, OFlags, StatxFlags};

use super::Errno;

/// What `fstat` says of a file or folder, as far as this library asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metadata {
    pub(crate) owner: u32,
    pub(crate) group: u32,
    /// Permission bits, without the file type.
    pub(crate) mode: u32,
    pub(crate) regular: bool,
    pub(crate) len: u64,
    /// Bytes of memory that it uses.
    pub(crate) allocated: u64,
    /// How many names it has; 0: none yet, or none any more.
    pub(crate) links: u64,
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Metadata {
    /// Returns what tells the file from all others: device and inode.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

/// A file or folder that stays open for long. A process that becomes a daemon closes all of its
/// descriptors, and the next file that it opens gets the same number. So each use first checks the
/// descriptor, and dropping this closes no other file.
///
/// If the program itself has opened the same file under that number, this does not notice.
#[derive(Debug)]
pub(crate) struct KeptFile {
    fd: ManuallyDrop<OwnedFd>,
    /// See [`Metadata::identity`].
    identity: (u64, u64),
}

impl KeptFile {
    /// Keeps a descriptor, which belongs to the file of these facts.
    pub(crate) fn new(fd: OwnedFd, facts: &Metadata) -> KeptFile {
        KeptFile { fd: ManuallyDrop::new(fd), identity: facts.identity() }
    }

    /// Returns facts about the file, if the descriptor is still this file's; `EBADF` if not.
    pub(crate) fn facts(&self) -> Result<Metadata, Errno> {
        let facts = facts(self.fd.as_fd())?;
        if facts.identity() == self.identity { Ok(facts) } else { Err(Errno::BADF) }
    }

    /// Returns the descriptor, if it is still this file's; `EBADF` if not.
    pub(crate) fn fd(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.facts().map(|_| self.fd.as_fd())
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        let is_ours = match self.facts() {
            Ok(_) => true,
            Err(Errno::BADF) => false,
            // No memory, or a filter: another call may tell. A failing constructor comes here, too,
            // and its caller will try again.
            Err(_) => identity_by_statx(self.fd.as_fd()) == Ok(self.identity),
        };
        // Unknown: leave it open, which is the lesser evil.
        if is_ours {
            // SAFETY: `self` is being dropped, so `fd` is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.fd) };
        }
    }
}

/// See [`Metadata::identity`].
fn identity_by_statx(file: BorrowedFd<'_>) -> Result<(u64, u64), Errno> {
    let about = fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::INO)?;
    Ok((fs::makedev(about.stx_dev_major, about.stx_dev_minor), about.stx_ino))
}

pub(crate) fn facts(file: BorrowedFd<'_>) -> Result<Metadata, Errno> {
    let stat = fs::fstat(file)?;
    Ok(Metadata {
        owner: stat.st_uid,
        group: stat.st_gid,
        mode: stat.st_mode & 0o7777,
        regular: fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::RegularFile,
        len: u64::try_from(stat.st_size).unwrap_or(0),
        allocated: u64::try_from(stat.st_blocks).unwrap_or(0) * 512,
        #[allow(clippy::unnecessary_cast, reason = "its type differs between architectures")]
        links: stat.st_nlink as u64,
        device: stat.st_dev,
        inode: stat.st_ino,
    })
}

/// Opens a folder; refuses a symbolic link in its place (`ELOOP` or `ENOTDIR`).
pub(crate) fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    fs::open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Makes a folder with exactly this mode, whatever the umask, and returns whether this call made
/// it. If it was there already, or another process made it meanwhile, that is no error: the caller
/// checks its owner and mode.
///
/// The folder gets its name once it has its group and mode, in one step, so no process finds it
/// half made. A maker that dies before that leaves an empty folder with another name, which the
/// next maker of this name removes.
pub(crate) fn make_folder(path: &Path, mode: u32, group: Option<u32>) -> Result<bool, Errno> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().ok_or(Errno::EXIST)?;
    let begins = [b".making-", name.as_bytes(), b"-"].concat();
    let made = loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let rest = format!("{}-{number}", super::process::process_id());
        let unfinished =
            path.with_file_name(OsStr::from_bytes(&[&begins[..], rest.as_bytes()].concat()));
        match fs::mkdir(&unfinished, Mode::from_raw_mode(0o700)) {
            Ok(()) => {}
            // A dead process with the same number left it.
            Err(Errno::EXIST) => continue,
            Err(error) => break Err(error),
        }
        let named = finish_folder(&unfinished, mode, group).and_then(|()| {
            fs::renameat_with(fs::CWD, &unfinished, fs::CWD, path, fs::RenameFlags::NOREPLACE)
        });
        if named.is_err() {
            let _ = fs::rmdir(&unfinished);
        }
        break match named {
            // Another maker removed it as a dead maker's: again.
            Err(Errno::NOENT) => continue,
            Err(Errno::EXIST) => Ok(false),
            // This file system cannot rename like that.
            Err(Errno::INVAL | Errno::NOSYS) => match fs::mkdir(path, Mode::from_raw_mode(0o700)) {
                Ok(()) => finish_folder(path, mode, group).map(|()| true),
                Err(Errno::EXIST) => Ok(false),
                Err(error) => Err(error),
            },
            other => other.map(|()| true),
        };
    };
    if made.is_ok() {
        remove_unfinished(path, &begins);
    }
    made
}

/// Removes a folder that has nothing in it.
pub(crate) fn remove_empty_folder(path: &Path) -> Result<(), Errno> {
    fs::rmdir(path)
}

/// Gives a folder that the caller has made its group and mode.
fn finish_folder(path: &Path, mode: u32, group: Option<u32>) -> Result<(), Errno> {
    let folder = match open_folder(path) {
        // The umask left the caller no right to open it.
        Err(Errno::ACCESS) => {
            fs::chmodat(fs::CWD, path, Mode::from_raw_mode(0o700), AtFlags::empty())?;
            open_folder(path)
        }
        other => other,
    }?;
    finish_open_folder(folder.as_fd(), mode, group)
}

/// Gives an open folder its group and mode.
pub(crate) fn finish_open_folder(
    folder: BorrowedFd<'_>,
    mode: u32,
    group: Option<u32>,
) -> Result<(), Errno> {
    if let Some(group) = group {
        fs::fchown(folder, None, Some(fs::Gid::from_raw(group)))?;
    }
    remove_access_lists(folder)?;
    fs::fchmod(folder, Mode::from_raw_mode(mode))
}

/// Removes the access lists that a folder has from its parent's default one (acl(5)). With them, the
/// mode's bits for the group are a mask: other users could get in, or the group's members could not.
fn remove_access_lists(folder: BorrowedFd<'_>) -> Result<(), Errno> {
    for list in [c"system.posix_acl_access", c"system.posix_acl_default"] {
        match fs::fremovexattr(folder, list) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            // A filter that lets no process change attributes: the mode alone decides, as the umask lets it.
            Err(Errno::NOSYS | Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Removes folders whose makers died before they had a name. It also removes one that is just being
/// made; its maker begins again.
fn remove_unfinished(path: &Path, begins: &[u8]) {
    let Some(Ok(parent)) = path.parent().map(open_folder) else { return };
    for entry in fs::Dir::read_from(&parent).into_iter().flatten().flatten() {
        if entry.file_name().to_bytes().starts_with(begins) {
            // Only of the caller's own user, and only an empty one.
            let _ = fs::unlinkat(&parent, entry.file_name(), AtFlags::REMOVEDIR);
        }
    }
}

/// What a process can do with a file by a descriptor and the mappings made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    Read,
    ReadWrite,
}

impl Rights {
    fn flags(self) -> OFlags {
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match self {
            Rights::Read => flags | OFlags::RDONLY,
            Rights::ReadWrite => flags | OFlags::RDWR,
        }
    }
}

/// Opens a file of the folder.
pub(crate) fn open(folder: BorrowedFd<'_>, name: &str, rights: Rights) -> Result<OwnedFd, Errno> {
    fs::openat(folder, name, rights.flags(), Mode::empty())
}

/// Opens the same file once more, with other rights if its mode allows it; the path is where it had
/// its name. The caller checks that it is the same file.
pub(crate) fn reopen(file: BorrowedFd<'_>, path: &Path, rights: Rights) -> Result<OwnedFd, Errno> {
    // The thread's own folder: that of a process whose first thread has ended is empty.
    let there = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    match fs::open(there, rights.flags() - OFlags::NOFOLLOW, Mode::empty()) {
        // No /proc.
        Err(Errno::NOENT | Errno::NOTDIR) => fs::open(path, rights.flags(), Mode::empty()),
        other => other,
    }
}

/// Returns a second descriptor of the same opening, with the same rights.
pub(crate) fn duplicate(file: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(file, 0)
}

/// Locks a file for its opening, until that is closed by all processes that have it, or unlocked.
/// Returns whether that succeeded: false, another opening has it locked.
pub(crate) fn lock(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    loop {
        match fs::flock(file, fs::FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(false),
            other => return other.map(|()| true),
        }
    }
}

/// Ends such a lock, also for a forked child that has the opening.
pub(crate) fn unlock(file: BorrowedFd<'_>) {
    // Failed: the lock ends with the last descriptor.
    let _ = fs::flock(file, fs::FlockOperation::Unlock);
}

/// Makes a file without a name. If this process dies before the file gets one, the kernel drops it.
pub(crate) fn create_unnamed(
    folder: BorrowedFd<'_>,
    mode: u32,
    group: Option<u32>,
) -> Result<OwnedFd, Errno> {
    let file = fs::openat(
        folder,
        ".",
        OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC,
        Mode::from_raw_mode(0o600),
    )?;
    if let Some(group) = group {
        fs::fchown(&file, None, Some(fs::Gid::from_raw(group)))?;
    }
    // The umask must not decide who shares the memory.
    fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    Ok(file)
}

/// Sets who may read and write a file: exactly that, whatever the umask.
pub(crate) fn set_mode(file: BorrowedFd<'_>, mode: u32) -> Result<(), Errno> {
    fs::fchmod(file, Mode::from_raw_mode(mode))
}

/// Gives an unnamed file its name in one step; `EXIST` when another file has it.
pub(crate) fn link(file: BorrowedFd<'_>, folder: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    // Without CAP_DAC_READ_SEARCH, older kernels answer ENOENT: then link by way of /proc, if there
    // is one.
    match fs::linkat(file, "", folder, name, AtFlags::EMPTY_PATH) {
        Err(Errno::NOENT | Errno::PERM | Errno::INVAL) => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            fs::linkat(fs::CWD, path, folder, name, AtFlags::SYMLINK_FOLLOW)
        }
        other => other,
    }
}

pub(crate) fn unlink(folder: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    fs::unlinkat(folder, name, AtFlags::empty())
}

/// Returns whether the folder holds something of that name, of whatever kind.
pub(crate) fn is_there(folder: BorrowedFd<'_>, name: &str) -> Result<bool, Errno> {
    match fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Returns the inode of the file that has a name; `None` when none has it. It takes no right to read
/// the file.
pub(crate) fn inode_of(folder: BorrowedFd<'_>, name: &str) -> Result<Option<u64>, Errno> {
    match fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(found.st_ino)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns whether a folder holds nothing, of whatever name.
pub(crate) fn is_empty(folder: BorrowedFd<'_>) -> Result<bool, Errno> {
    for entry in fs::Dir::read_from(folder)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the names in a folder that are UTF-8, as all names of a domain's files are; without `.`
/// and `..`.
pub(crate) fn names(folder: BorrowedFd<'_>) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in fs::Dir::read_from(folder)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().to_str()
            && name != "."
            && name != ".."
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Returns how many bytes of a part of a file have no page that was written, as far as the file system
/// tells: pages that were only asked for may count. A file system that does not tell has all of it.
pub(crate) fn holes_in(file: BorrowedFd<'_>, from: u64, end: u64) -> u64 {
    let (mut at, mut holes) = (from, 0);
    while at < end {
        match fs::seek(file, fs::SeekFrom::Data(at)) {
            Ok(data) => {
                holes += data.min(end) - at;
                at = match fs::seek(file, fs::SeekFrom::Hole(data)) {
                    Ok(hole) if hole > at => hole,
                    _ => return end - from,
                };
            }
            // No data behind it.
            Err(Errno::NXIO) => return holes + (end - at),
            Err(_) => return end - from,
        }
    }
    holes
}

/// Makes sure that the pages of `from .. from + len` exist, extending the file as needed.
/// Idempotent: several processes may do it at once. After `Ok`, touching them cannot raise
/// `SIGBUS`.
pub(crate) fn allocate(file: BorrowedFd<'_>, from: u64, len: u64) -> Result<(), Errno> {
    // Beyond RLIMIT_FSIZE the kernel would not only refuse but send SIGXFSZ, which kills.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|limit| from.saturating_add(len) > limit) {
        return Err(Errno::FBIG);
    }
    loop {
        match fs::fallocate(file, FallocateFlags::empty(), from, len) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Gives the pages of `from .. from + len` back to the system; they read as zero afterwards.
pub(crate) fn punch(file: BorrowedFd<'_>, from: u64, len: u64) -> Result<(), Errno> {
    loop {
        match fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, len)
        {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Returns the size of the file system, in bytes.
pub(crate) fn file_system_bytes(folder: BorrowedFd<'_>) -> Result<u64, Errno> {
    let stat = fs::fstatvfs(folder)?;
    Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
}

/// Returns whether an errno of [`allocate`] says that there is no room.
pub(crate) fn is_no_space(error: Errno) -> bool {
    matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::NOMEM)
}

/// Reads a file of the system's whole.
pub(crate) fn read_text(path: &str) -> Result<String, Errno> {
    std::fs::read_to_string(path)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ILSEQ))
}

/// Writes all of the bytes into pages that the file's length covers already.
pub(crate) fn write(file: BorrowedFd<'_>, mut from: u64, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, from) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(count) => {
                bytes = bytes.get(count..).unwrap_or_default();
                from += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Reads a file whole; `None` when it is no ordinary file, or longer than `most`. Opening a FIFO or a
/// device does not wait.
#[cfg(feature = "config")]
pub(crate) fn read_ordinary(path: &Path, most: u64) -> Result<Option<Vec<u8>>, Errno> {
    use std::io::Read;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = fs::open(path, flags, Mode::empty())?;
    if !facts(file.as_fd())?.regular {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    // One more, to notice it.
    let read = std::fs::File::from(file).take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// What tells that names in a folder have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FolderStamp {
    seconds: i64,
    nanoseconds: i64,
    size: i64,
}

/// Returns when names in a folder changed last, and its size: of a tmpfs, that says how many there
/// are, where two changes fall into one tick of its clock.
pub(crate) fn folder_stamp(folder: BorrowedFd<'_>) -> Result<FolderStamp, Errno> {
    let stat = fs::fstat(folder)?;
    #[allow(clippy::unnecessary_cast, reason = "their types differ between architectures")]
    Ok(FolderStamp {
        seconds: stat.st_mtime as i64,
        nanoseconds: stat.st_mtime_nsec as i64,
        size: stat.st_size as i64,
    })
}

/// Reads an ordinary file of the folder whole; `FBIG` when it is longer than `most`.
pub(crate) fn read_small(
    folder: BorrowedFd<'_>,
    name: &str,
    most: usize,
) -> Result<Vec<u8>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = fs::openat(folder, name, flags, Mode::empty())?;
    let facts = facts(file.as_fd())?;
    if !facts.regular {
        return Err(Errno::ISDIR);
    }
    if facts.len > most as u64 {
        return Err(Errno::FBIG);
    }
    let mut bytes = vec![0; facts.len as usize];
    match read(file.as_fd(), 0, &mut bytes) {
        // It has become shorter meanwhile.
        Err(Errno::NODATA) => Err(Errno::FBIG),
        read => read.map(|()| bytes),
    }
}

/// Reads exactly so many bytes; fails behind the file's end.
pub(crate) fn read(file: BorrowedFd<'_>, mut from: u64, mut bytes: &mut [u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pread(file, &mut *bytes, from) {
            Ok(0) => return Err(Errno::NODATA),
            Ok(count) => {
                bytes = &mut bytes[count..];
                from += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
