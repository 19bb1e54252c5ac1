//! The second file of a thing that has two: the words that its readers write, apart from what they
//! only read (`topic/control.rs`).
//!
//! Its name is `.control-` and a number, which the thing's header names, so a control file is never
//! paired with another thing that has the same name, or has had it.
//!
//! | state | how it got there | died here |
//! | --- | --- | --- |
//! | nothing | | |
//! | `.control-N`, locked (flock(2)) by its maker | `linkat` | the kernel ends the lock; a sweep finds that no name's header says N, and removes it |
//! | the thing has its name, and its header says N | `linkat` of the thing | a whole thing |
//! | not locked | the maker is done | |
//! | the thing's name is gone | `unlink` of the thing | the sweep, as above |
//! | both are gone | `unlink` of `.control-N` | processes that have both open go on |
//!
//! The control file's header also has the thing's inode. By it a sweep that cannot read some thing
//! (another member's, of mode 0600; a damaged one) tells which control file is that thing's.
//!
//! So a process that opens the name, and does not find the control file, was overtaken by a removal:
//! it looks for the name once more.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use super::folder::Folder;
use super::header::Spec;
use super::name::check_name;
use super::segment::Segment;
use crate::shim::Ordering;
use crate::sys::Errno;
use crate::sys::file::{self, Rights};
use crate::{Error, Kind};

const BEGINS: &str = ".control-";

fn name_of(number: u64) -> String {
    format!("{BEGINS}{number:020}")
}

fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix(BEGINS)?.parse().ok()?;
    (name == name_of(number)).then_some(number)
}

/// A control file that this process has made for a thing that has no name yet. Dropped, it is removed
/// again, unless the thing has got its name.
pub(crate) struct MadeControlFile<'f> {
    folder: &'f Folder,
    file: Segment,
    number: u64,
    is_paired: bool,
}

impl<'f> MadeControlFile<'f> {
    /// Makes the control file of a thing that has no name yet, and has the thing's header name it.
    /// Its mode is that of all files of the domain, unless another one is given.
    pub(crate) fn make(
        folder: &'f Folder,
        thing: &Segment,
        spec: &Spec,
        mode: Option<u32>,
    ) -> Result<MadeControlFile<'f>, Error> {
        let file = Segment::build(folder, BEGINS, spec)?;
        mode.map_or(Ok(()), |mode| file.set_mode(mode))?;
        // Before it has a name: a sweep that finds it finds it locked, until it has its pair.
        file::lock(file.fd()?).map_err(|errno| Error::from_errno("lock", file.path(), errno))?;
        // Relaxed: as the number. It tells a sweep that cannot read the thing whose pair this is.
        file.header().extra[1].store(thing.facts()?.inode, Ordering::Relaxed);
        loop {
            let number = file.new_number()?;
            // Relaxed, twice: the links that give the two files their names order it.
            file.header().extra[0].store(number, Ordering::Relaxed);
            match file::link(file.fd()?, folder.fd()?, &name_of(number)) {
                Ok(()) => {
                    thing.header().extra[0].store(number, Ordering::Relaxed);
                    return Ok(MadeControlFile { folder, file, number, is_paired: false });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => {
                    return Err(Error::from_errno("give a name to", file.path(), errno));
                }
            }
        }
    }

    /// That thing has the name now for which the control file was made: it stays if it is this one's.
    pub(crate) fn settle(mut self, thing: &Segment) {
        self.is_paired = thing.header().extra[0].load(Ordering::Relaxed) == self.number;
    }
}

impl Drop for MadeControlFile<'_> {
    fn drop(&mut self) {
        if !self.is_paired {
            remove(self.folder, self.number);
        }
        self.file.fd().map(file::unlock).ok();
    }
}

/// Opens the control file of an open thing, which can only be read by this mapping.
///
/// # Errors
/// [`Error::NotFound`], by the control file's path: the thing has been removed meanwhile.
pub(crate) fn open(folder: &Folder, thing: &Segment) -> Result<Segment, Error> {
    let number = thing.header().extra[0].load(Ordering::Relaxed);
    let control = Segment::open_with(folder, &name_of(number), Rights::Read)?;
    if control.header().extra[0].load(Ordering::Relaxed) == number {
        Ok(control)
    } else {
        Err(control.damaged("its number"))
    }
}

/// Returns whether that path is a control file's.
pub(crate) fn is_path_of_one(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).and_then(number_of).is_some()
}

/// Returns the number of a thing's control file, if it has one.
pub(crate) fn number(thing: &Segment) -> Option<u64> {
    let header = thing.header();
    let number = header.extra[0].load(Ordering::Relaxed);
    (header.check(thing.path()) == Ok(Kind::Topic)).then_some(number)
}

/// Removes the control file of that number, whose thing has no name any more.
pub(crate) fn remove(folder: &Folder, number: u64) {
    // Failed: a sweep removes it.
    let _ = folder.fd().map(|fd| file::unlink(fd, &name_of(number)));
}

/// What the names in a folder say of control files. Its sets are ordered ones: a `HashSet` asks the
/// kernel for random bytes, and panics at an error that the standard library does not expect.
struct Named {
    /// The numbers that things' headers have.
    numbers: BTreeSet<u64>,
    /// The things that cannot be read: another member's of mode 0600, of another version, damaged.
    unread: BTreeSet<u64>,
}

impl Named {
    fn read(folder: &Folder) -> Result<Named, Error> {
        let mut named = Named { numbers: BTreeSet::new(), unread: BTreeSet::new() };
        for name in names(folder)?.iter().filter(|name| check_name(name).is_ok()) {
            match Segment::open_with(folder, name, Rights::Read) {
                Ok(thing) => named.numbers.extend(number(&thing)),
                Err(Error::NotFound { .. } | Error::NotASegment { .. }) => {}
                // It may be one's pair. If another thing has got the name since, that one may be.
                Err(_) => {
                    let inode = file::inode_of(folder.fd()?, name).map_err(|errno| {
                        Error::from_errno("examine", &folder.file_path(name), errno)
                    })?;
                    named.unread.extend(inode);
                }
            }
        }
        Ok(named)
    }

    /// Returns whether a control file may be a named thing's.
    fn may_pair(&self, number: u64, control: &Left) -> bool {
        self.numbers.contains(&number)
            || match control.pair {
                Some(inode) => self.unread.contains(&inode),
                None => !self.unread.is_empty(),
            }
    }
}

/// A control file that a sweep has locked.
struct Left {
    /// The inode of its thing; `None`: the control file cannot be read.
    pair: Option<u64>,
    /// The lock ends with the descriptor.
    _file: OwnedFd,
}

impl Left {
    /// Opens and locks a control file, unless another process has it locked, or has removed it.
    fn lock(folder: &Folder, number: u64) -> Result<Option<Left>, Error> {
        let name = name_of(number);
        // Another member's, of mode 0600: that one's processes remove it.
        let Ok(file) = file::open(folder.fd()?, &name, Rights::Read) else { return Ok(None) };
        if file::lock(file.as_fd()) != Ok(true) {
            return Ok(None);
        }
        let control = Segment::open_with(folder, &name, Rights::Read).ok();
        let pair = control.map(|control| control.header().extra[1].load(Ordering::Relaxed));
        Ok(Some(Left { pair, _file: file }))
    }
}

fn names(folder: &Folder) -> Result<Vec<String>, Error> {
    file::names(folder.fd()?).map_err(|errno| Error::from_errno("list", folder.path(), errno))
}

/// Removes control files that no thing's header names, and no process is about to give one to. A
/// thing that cannot be read keeps its own control file, which names the thing's inode, and no other.
pub(crate) fn sweep(folder: &Folder) -> Result<(), Error> {
    let there: Vec<u64> = names(folder)?.iter().filter_map(|name| number_of(name)).collect();
    if there.is_empty() {
        return Ok(());
    }
    let named = Named::read(folder)?;
    let mut left = Vec::new();
    for number in there.into_iter().filter(|number| !named.numbers.contains(number)) {
        match Left::lock(folder, number)? {
            Some(control) if !named.may_pair(number, &control) => left.push((number, control)),
            _ => {}
        }
    }
    if left.is_empty() {
        return Ok(());
    }
    // Once more behind the locks: a maker that is done has given its thing a name by then.
    let named = Named::read(folder)?;
    left.retain(|(number, control)| !named.may_pair(*number, control));
    left.iter().for_each(|(number, _)| remove(folder, *number));
    Ok(())
}
