//! One shared file, mapped once, which grows in place.
//!
//! Creation: the file is built without a name and linked under its name in one step. So a process
//! that opens a name finds a whole thing, and a death during creation leaves nothing. If two
//! processes create at once, one link succeeds, and the other process opens that file.
//! | state | how it got there | died here |
//! | --- | --- | --- |
//! | no name, no file | | nothing to repair |
//! | file without a name | `O_TMPFILE` | the kernel drops it |
//! | named | `linkat`, which is the last call of the maker that can fail | whole and usable |
//! | longer | `fallocate` | pages that no process claims yet; the next to grow finds them there |
//! | unnamed again | `unlink` | processes that have it open go on; the memory is freed with the last of them |
//!
//! Growth: address space for the largest size is mapped at once, and `fallocate` extends the file
//! below it. Both are idempotent. The kind's own header says how much of the file may be touched,
//! and is advanced only after `fallocate` has returned.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use super::budget::{self, allocation_error};
use super::folder::Folder;
use super::hash::fnv_1a;
use super::header::{BODY, Header, Spec};
use crate::shim::{AtomicU64, Ordering};
use crate::sys::file::{self, KeptFile, Rights};
use crate::sys::map::{Mapping, PAGE};
use crate::sys::resident::{self, Residency};
use crate::sys::{Errno, clock, process};
use crate::{Error, Kind};

/// Types that any process may read in shared memory at any time: every bit pattern is a valid
/// value, and whatever several processes write at once is inside atomics.
///
/// # Safety
/// The type is `repr(C)`, holds no padding that matters, no pointer, no `bool` or enum, and nothing
/// outside atomics or `UnsafeCell` that can change while it is shared.
pub unsafe trait SharedLayout {}

// SAFETY: `repr(C)`, all fields are atomics: any bytes are a value, and any process may change
// them.
unsafe impl SharedLayout for Header {}
// SAFETY: an atomic: any bytes are a value, and any process may change them.
unsafe impl SharedLayout for crate::shim::AtomicU32 {}
// SAFETY: an atomic: any bytes are a value, and any process may change them.
unsafe impl SharedLayout for crate::shim::AtomicU64 {}
// SAFETY: an array of types that may be shared.
unsafe impl<T: SharedLayout, const N: usize> SharedLayout for [T; N] {}

/// Says whether an opening makes what is not there, and whether it takes what is: for
/// [`Untyped`](crate::sync::Untyped), whose callers learn that from another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Opens what exists: `open`.
    Open,
    /// Opens what exists, and makes what does not: `open_or_create`.
    OpenOrCreate,
    /// Makes what does not exist: `create_new`.
    CreateNew,
}

/// A mapped file of a domain.
pub struct Segment {
    file: KeptFile,
    map: Mapping,
    path: PathBuf,
    /// Bytes that this process has seen to exist and has mapped: it may touch them without asking.
    /// Never more than the mapping, which may be shorter than the file.
    known: AtomicU64,
    /// What the mapping allows.
    rights: Rights,
}

/// Returns with which rights a process opens what exists: a topic's subscribers cannot write.
fn rights_of(kind: Kind) -> Rights {
    if kind == Kind::Topic { Rights::Read } else { Rights::ReadWrite }
}

impl Segment {
    /// Opens the named file, or makes it. `init` fills the body of a new one, which no other
    /// process sees yet.
    pub(crate) fn create_or_open(
        folder: &Folder,
        name: &str,
        spec: &Spec,
        init: impl Fn(&Segment) -> Result<(), Error>,
    ) -> Result<Segment, Error> {
        let opened = Segment::open_as(folder, name, Opening::OpenOrCreate, spec, init, |_| Ok(()));
        opened.map(|(segment, ())| segment)
    }

    /// Opens the named file or makes it, as `opening` says. `prepare` does for the handle what may
    /// fail, whether the file is new or not.
    ///
    /// Nothing can fail once a new file has its name: another process may have it open by then, so
    /// the name could not be taken back.
    pub(crate) fn open_as<L>(
        folder: &Folder,
        name: &str,
        opening: Opening,
        spec: &Spec,
        init: impl Fn(&Segment) -> Result<(), Error>,
        prepare: impl Fn(&Segment) -> Result<L, Error>,
    ) -> Result<(Segment, L), Error> {
        loop {
            match Segment::open_with(folder, name, rights_of(spec.kind)) {
                Err(Error::NotFound { .. }) if opening != Opening::Open => {}
                // Something has the name, if only another user's file, or no segment at all.
                Ok(_)
                | Err(
                    Error::NotASegment { .. }
                    | Error::OtherVersion { .. }
                    | Error::Damaged { .. }
                    | Error::Permission { .. },
                ) if opening == Opening::CreateNew => {
                    return Err(Error::AlreadyExists { path: folder.file_path(name) });
                }
                Err(other) => return Err(other),
                Ok(segment) => {
                    segment.expect(spec.kind)?;
                    segment.check_type(spec)?;
                    let prepared = prepare(&segment)?;
                    return Ok((segment, prepared));
                }
            }
            let segment = Segment::build(folder, name, spec)?;
            init(&segment)?;
            let prepared = prepare(&segment)?;
            match file::link(segment.fd()?, folder.fd()?, name) {
                Ok(()) => return Ok((segment, prepared)),
                // Another process was quicker: the next turn finds its file. (It may be gone again
                // by then.)
                Err(Errno::EXIST) => {}
                Err(errno) => {
                    return Err(Error::from_errno("give a name to", &segment.path, errno));
                }
            }
        }
    }

    /// Builds a whole file that has no name yet.
    pub(super) fn build(folder: &Folder, name: &str, spec: &Spec) -> Result<Segment, Error> {
        let path = folder.file_path(name);
        let access = folder.access();
        let file = file::create_unnamed(folder.fd()?, access.file_mode(), access.group())
            .map_err(|errno| Error::from_errno("create a file in", folder.path(), errno))?;
        let initial = spec.initial.next_multiple_of(PAGE).max(BODY + PAGE);
        // Not the two pages between: they use memory only in a file that has something to say there
        // (`pages`), and no process touches them through a mapping.
        for (from, len) in [(0, PAGE), (BODY, initial - BODY)] {
            budget::allocate(file.as_fd(), &path, from, len)?;
        }
        let reserve = spec.reserve.max(initial);
        let rights = Rights::ReadWrite;
        let map = Mapping::reserve(file.as_fd(), reserve, initial, rights)
            .map_err(|errno| mapping_error(&path, reserve, errno))?;
        let facts = file::facts(file.as_fd())
            .map_err(|errno| Error::from_errno("examine", &path, errno))?;
        let file = KeptFile::new(file, &facts);
        let segment = Segment { file, map, path, known: AtomicU64::new(initial), rights };
        segment.header().fill(&Spec { reserve, ..spec.clone() }, process::process_id());
        if let Some(description) = &spec.description {
            let description = description.clone().checked_for(spec.kind)?;
            segment.write_description(&description.to_bytes())?;
        }
        Ok(segment)
    }

    /// Opens a file that exists, of any kind, for reading and writing.
    pub(crate) fn open(folder: &Folder, name: &str) -> Result<Segment, Error> {
        Segment::open_with(folder, name, Rights::ReadWrite)
    }

    /// Opens a file that exists, of any kind.
    pub(crate) fn open_with(folder: &Folder, name: &str, rights: Rights) -> Result<Segment, Error> {
        let path = folder.file_path(name);
        let file = file::open(folder.fd()?, name, rights).map_err(|errno| match errno {
            Errno::LOOP => Error::NotASegment { path: path.clone(), why: "it is a symbolic link" },
            Errno::ISDIR | Errno::NXIO => {
                Error::NotASegment { path: path.clone(), why: "it is no ordinary file" }
            }
            errno => Error::from_errno("open", &path, errno),
        })?;
        Segment::of_file(file, path, rights)
    }

    /// Maps an open file, after checks.
    fn of_file(file: OwnedFd, path: PathBuf, rights: Rights) -> Result<Segment, Error> {
        let facts = file::facts(file.as_fd())
            .map_err(|errno| Error::from_errno("examine", &path, errno))?;
        if !facts.regular {
            return Err(Error::NotASegment { path, why: "it is no ordinary file" });
        }
        let short = |path| Error::NotASegment { path, why: "it is too short" };
        if facts.len < PAGE {
            return Err(short(path));
        }
        let look = Mapping::reserve(file.as_fd(), PAGE, PAGE, Rights::Read)
            .map_err(|errno| mapping_error(&path, PAGE, errno))?;
        // SAFETY: the mapping is one page, which exists in the file, as `len` says; page-aligned;
        // Header may be shared.
        let header = unsafe { look.base().cast::<Header>().as_ref() };
        header.check(&path)?;
        // A file of exactly its header has no body; no file of a domain is that short. Only now: one
        // of another version says so, and may have had a shorter header.
        if facts.len <= BODY {
            return Err(short(path));
        }
        // A damaged size must not make us map a huge range, nor less than exists.
        let reserve = header.reserve().clamp(facts.len, MOST_RESERVED.max(facts.len));
        let map = Mapping::reserve(file.as_fd(), reserve, facts.len, rights)
            .map_err(|errno| mapping_error(&path, reserve, errno))?;
        Ok(Segment {
            file: KeptFile::new(file, &facts),
            map,
            path,
            known: AtomicU64::new(facts.len),
            rights,
        })
    }

    /// Opens the same file once more, with other rights if its mode allows it, and maps it.
    pub(crate) fn again(&self, rights: Rights) -> Result<Segment, Error> {
        let file = self.reopen(rights)?;
        Segment::of_file(file, self.path.clone(), rights)
    }

    /// Opens the same file once more. Where there is no `/proc`, a file whose name is gone, or that
    /// has none yet, can be opened with the rights alone that this opening has.
    fn reopen(&self, rights: Rights) -> Result<OwnedFd, Error> {
        let failed = |errno| Error::from_errno("open once more", &self.path, errno);
        let file = match file::reopen(self.fd()?, &self.path, rights) {
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(failed(errno)),
            Ok(file) => {
                let facts = file::facts(file.as_fd()).map_err(failed)?;
                (facts.identity() == self.facts()?.identity()).then_some(file)
            }
        };
        match file {
            Some(file) => Ok(file),
            None if self.rights == rights || self.rights == Rights::ReadWrite => {
                file::duplicate(self.fd()?).map_err(failed)
            }
            None => Err(failed(Errno::NOENT)),
        }
    }

    /// Opens the file for writing while this mapping of it can only be read.
    pub(crate) fn writer(&self) -> Result<Writer<'_>, Error> {
        Ok(Writer { file: self.reopen(Rights::ReadWrite)?, segment: self })
    }

    /// Sets who may open the file, whatever the umask. For a file that has no name yet: until it has
    /// one, no process but its maker can open it.
    pub(crate) fn set_mode(&self, mode: u32) -> Result<(), Error> {
        file::set_mode(self.fd()?, mode)
            .map_err(|errno| Error::from_errno("set the mode of", &self.path, errno))
    }

    pub(crate) fn rights(&self) -> Rights {
        self.rights
    }

    /// Refuses a file of another kind.
    pub(crate) fn expect(&self, wanted: Kind) -> Result<(), Error> {
        let found = self.header().check(&self.path)?;
        if found == wanted {
            Ok(())
        } else {
            Err(Error::OtherKind { path: self.path.clone(), found, wanted })
        }
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: `open` and `build` have checked that the first page exists; page-aligned; Header
        // may be shared.
        unsafe { self.map.base().cast::<Header>().as_ref() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns facts about the file, if the descriptor is still this file's. Asked before the
    /// descriptor is used, so that no other file is lengthened or loses pages.
    pub(crate) fn facts(&self) -> Result<file::Metadata, Error> {
        self.file.facts().map_err(|errno| Error::from_errno("examine", &self.path, errno))
    }

    /// Returns a number that no other file has, nor has had, also before the machine was started
    /// anew: by which file it is, and when. For a file that is being made.
    pub(crate) fn new_number(&self) -> Result<u64, Error> {
        let (device, inode) = self.facts()?.identity();
        let now = clock::realtime_nanos();
        let process = u64::from(process::process_id());
        let words = [device, inode, clock::monotonic_nanos(), now, process];
        Ok(fnv_1a(words.iter().flat_map(|word| word.to_le_bytes())))
    }

    pub(super) fn fd(&self) -> Result<BorrowedFd<'_>, Error> {
        self.file.fd().map_err(|errno| Error::from_errno("examine", &self.path, errno))
    }

    /// Returns how many bytes of address space this process has mapped: it does not see growth
    /// beyond them.
    pub(crate) fn mapped(&self) -> u64 {
        self.map.len()
    }

    /// Checks that the file has that many bytes. A shared word is not enough, because it may be
    /// damaged, and touching a page beyond the file's end raises `SIGBUS`.
    #[inline]
    pub(crate) fn exists(&self, end: u64) -> Result<(), Error> {
        // Relaxed: a file of a domain does not shrink (threat-model.md), so an older figure is only
        // too low.
        if end <= self.known.load(Ordering::Relaxed) { Ok(()) } else { self.exists_slow(end) }
    }

    #[cold]
    fn exists_slow(&self, end: u64) -> Result<(), Error> {
        if end > self.map.len() {
            return Err(Error::NoAddressSpace { path: self.path.clone(), wanted: end });
        }
        // The file may be longer than this mapping: the next question may be about bytes behind it.
        self.known.fetch_max(self.facts()?.len.min(self.map.len()), Ordering::Relaxed);
        if end <= self.known.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(self.damaged("a size beyond the file's end"))
        }
    }

    /// Refuses a file of which this process has mapped less than that.
    pub(crate) fn expect_mapped(&self, wanted: u64) -> Result<(), Error> {
        if wanted <= self.map.len() {
            return Ok(());
        }
        Err(Error::NoAddressSpace { path: self.path.clone(), wanted })
    }

    pub(crate) fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { path: self.path.clone(), what }
    }

    /// Returns what lies at `offset`.
    #[inline]
    pub(crate) fn at<T: SharedLayout>(&self, offset: u64) -> Result<&T, Error> {
        let end =
            offset.checked_add(size_of::<T>() as u64).ok_or_else(|| self.damaged("an offset"))?;
        if !offset.is_multiple_of(align_of::<T>() as u64) {
            return Err(self.damaged("an offset"));
        }
        if end > self.map.len() {
            return Err(self.unmapped(end));
        }
        self.exists(end)?;
        // SAFETY: `exists` has checked mapping and file; aligned, as the offset was checked and the
        // base is page-aligned; T may be shared.
        Ok(unsafe { self.map.base().add(offset as usize).cast::<T>().as_ref() })
    }

    /// Makes the error for bytes that exist and this process has not mapped, or that do not exist.
    #[cold]
    fn unmapped(&self, end: u64) -> Error {
        match self.facts() {
            Ok(facts) if end <= facts.len => {
                Error::NoAddressSpace { path: self.path.clone(), wanted: end }
            }
            Ok(_) => self.damaged("an offset"),
            Err(error) => error,
        }
    }

    /// Returns the address of `offset`, for callers that have checked bounds themselves.
    ///
    /// # Safety
    /// `offset` lies inside the mapping.
    pub(crate) unsafe fn address(&self, offset: u64) -> *mut u8 {
        // SAFETY: the caller promises that `offset` lies inside the mapping.
        unsafe { self.map.base().as_ptr().add(offset as usize) }
    }

    /// Returns where in the file that address lies; `None` when it is not in this mapping.
    pub(crate) fn offset_of(&self, address: usize) -> Option<u64> {
        let offset = address.checked_sub(self.map.base().as_ptr() as usize)? as u64;
        (offset < self.map.len()).then_some(offset)
    }

    /// Makes sure that the pages exist and that this process has them mapped.
    pub(crate) fn grow(&self, from: u64, len: u64) -> Result<(), Error> {
        self.grow_by(from, len, budget::allocate)
    }

    fn grow_by(
        &self,
        from: u64,
        len: u64,
        allocate: impl Fn(BorrowedFd<'_>, &Path, u64, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let end = from.checked_add(len).ok_or_else(|| self.damaged("a length"))?;
        if end > self.map.len() {
            return Err(Error::NoAddressSpace { path: self.path.clone(), wanted: end });
        }
        allocate(self.fd()?, &self.path, from, len)?;
        // Not asked of the file again: that question might fail, after a claim.
        self.known.fetch_max(end, Ordering::Relaxed);
        Ok(())
    }

    /// Makes sure that the pages exist; where this process may not write, it only asks whether they
    /// do.
    pub(crate) fn grow_or_exists(&self, from: u64, len: u64) -> Result<(), Error> {
        match self.rights {
            Rights::ReadWrite => self.grow(from, len),
            Rights::Read => self.exists(from + len),
        }
    }

    /// Sets whether instructions of this process may touch a piece of the mapping; other processes'
    /// mappings do not change.
    pub(crate) fn set_reach(&self, from: u64, len: u64, is_reachable: bool) -> Result<(), Error> {
        let changed = self.map.set_reach(from, len, is_reachable);
        changed.map_err(|errno| Error::from_errno("change the protection of", &self.path, errno))
    }

    /// Makes a part of the file resident in this mapping. The caller knows that its pages exist;
    /// where they may be written, the file's pages are asked for once more, so that a full file
    /// system is an error here and no signal later. The two pages behind the header stay as they
    /// are: no process touches them.
    pub(crate) fn make_part_resident(
        &self,
        from: u64,
        len: u64,
        residency: Residency,
    ) -> Result<(), Error> {
        let (body, end) = (from.max(BODY), from + len);
        if from < BODY {
            self.make_pages_resident(0, PAGE, residency)?;
        }
        self.make_pages_resident(body, end.saturating_sub(body), residency)
    }

    fn make_pages_resident(&self, from: u64, len: u64, residency: Residency) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        match self.rights {
            // They exist, so they are within the domain's budget.
            Rights::ReadWrite => self.grow_by(from, len, budget::allocate_within)?,
            Rights::Read => self.exists(from + len)?,
        }
        let (from, end) = (from / PAGE * PAGE, (from + len).next_multiple_of(PAGE));
        let end = end.min(self.map.len());
        // SAFETY: inside the mapping, as just checked, and its pages are in the file; the mapping
        // was made with these rights.
        let done = unsafe {
            let at = self.map.base().as_ptr().add(from as usize);
            let is_writable = self.rights == Rights::ReadWrite;
            resident::make_resident(at, (end - from) as usize, is_writable, residency)
        };
        done.map_err(|failure| residency_error(&self.path, end - from, failure))
    }

    /// Makes a part of the file that this process has mapped for writing resident there.
    pub(crate) fn make_view_resident(
        &self,
        view: &View,
        residency: Residency,
    ) -> Result<(), Error> {
        let len = view.map.len();
        // SAFETY: all of a mapping that may be written, and whose pages existed when it was made.
        let done = unsafe {
            resident::make_resident(view.map.base().as_ptr(), len as usize, true, residency)
        };
        done.map_err(|failure| residency_error(&self.path, len, failure))
    }

    /// Writes into the file what is out of reach in the mapping, or must not be touched there.
    pub(super) fn write(&self, from: u64, bytes: &[u8]) -> Result<(), Error> {
        file::write(self.fd()?, from, bytes)
            .map_err(|errno| allocation_error(&self.path, bytes.len() as u64, errno))
    }

    /// Reads from the file what may be out of reach in the mapping.
    pub(crate) fn read(&self, from: u64, bytes: &mut [u8]) -> Result<(), Error> {
        file::read(self.fd()?, from, bytes)
            .map_err(|errno| Error::from_errno("read", &self.path, errno))
    }

    /// Gives pages back to the system; they read as zero afterwards.
    pub(crate) fn punch(&self, from: u64, len: u64) -> Result<(), Error> {
        file::punch(self.fd()?, from, len)
            .map_err(|errno| Error::from_errno("give back pages of", &self.path, errno))
    }
}

/// A part of a segment's file, mapped for reading and writing.
pub(crate) struct View {
    map: Mapping,
}

impl View {
    /// Returns where it begins.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.map.base()
    }
}

/// A segment's file, open for writing for a moment.
pub(crate) struct Writer<'s> {
    segment: &'s Segment,
    file: OwnedFd,
}

impl Writer<'_> {
    /// Makes sure that the pages exist.
    pub(crate) fn grow(&self, from: u64, len: u64) -> Result<(), Error> {
        budget::allocate(self.file.as_fd(), &self.segment.path, from, len)
    }

    /// Maps a part of the file, which begins at a page and exists.
    pub(crate) fn part(&self, from: u64, len: u64) -> Result<View, Error> {
        self.segment.exists(from + len)?;
        let map = Mapping::part(self.file.as_fd(), from, len)
            .map_err(|errno| mapping_error(&self.segment.path, len, errno))?;
        Ok(View { map })
    }
}

/// The most address space that one file gets: 4,096 such files fit into the 47 bits that a process
/// has.
pub(crate) const MOST_RESERVED: u64 = 16 << 30;

fn residency_error(path: &Path, len: u64, failure: resident::Failure) -> Error {
    match failure {
        resident::Failure::Map(errno) => allocation_error(path, len, errno),
        resident::Failure::Lock(errno) => lock_error(path, errno),
    }
}

/// Makes the error of a lock of memory that the kernel refuses.
pub(crate) fn lock_error(path: &Path, errno: Errno) -> Error {
    // Not by `from_errno`: the refusal is the limit's, whichever errno the kernel has for it.
    Error::System {
        doing: "lock memory (raise RLIMIT_MEMLOCK, 'ulimit -l', or give CAP_IPC_LOCK) of",
        path: path.to_path_buf(),
        errno: errno.raw_os_error(),
    }
}

fn mapping_error(path: &Path, wanted: u64, errno: Errno) -> Error {
    match errno {
        Errno::NOMEM => Error::NoAddressSpace { path: path.to_path_buf(), wanted },
        // With mlockall(MCL_FUTURE), all that is reserved counts as locked.
        Errno::AGAIN => Error::System {
            doing: "map (call mlockall(MCL_FUTURE) after it, or raise RLIMIT_MEMLOCK)",
            path: path.to_path_buf(),
            errno: errno.raw_os_error(),
        },
        errno => Error::from_errno("map", path, errno),
    }
}
