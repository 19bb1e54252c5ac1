//! Mappings: address space taken once, never moved.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

use super::Errno;

/// Bytes in a page, as far as layouts are concerned; larger hardware pages are multiples of it.
pub(crate) const PAGE: u64 = 4096;

/// A shared mapping of a file from its beginning, usually much longer than the file is yet.
///
/// Pages beyond the file's end become usable as the file grows: nobody remaps. Touching them before is `SIGBUS`, so
/// nobody reads beyond what the file's header says has been allocated.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is an address range that stays mapped for the life of the value; what lies in it is reached through
// atomics or under the rules of the protocol that owns it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of the file; where the address space has no room for them (`RLIMIT_AS`), an eighth of what it has
    /// room for, so that others find some too, but not less than `least`.
    pub(crate) fn reserve(file: BorrowedFd<'_>, len: u64, least: u64) -> Result<Mapping, Errno> {
        let least = usize::try_from(least).map_err(|_| Errno::OVERFLOW)?;
        let mut len = usize::try_from(len).map_err(|_| Errno::OVERFLOW)?.max(least);
        match Mapping::new(file, len) {
            Err(Errno::NOMEM) if len > least => {}
            other => return other,
        }
        let shrink = |len: usize, by: usize| (len / by).next_multiple_of(PAGE as usize).max(least);
        loop {
            len = shrink(len, 2);
            match Mapping::new(file, len) {
                Err(Errno::NOMEM) if len > least => {}
                Err(error) => return Err(error),
                Ok(largest) if len == least => return Ok(largest),
                Ok(largest) => {
                    drop(largest);
                    return Mapping::new(file, shrink(len, 8));
                }
            }
        }
    }

    fn new(file: BorrowedFd<'_>, len: usize) -> Result<Mapping, Errno> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe { mm::mmap(core::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0)? };
        Ok(Mapping { base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?, len })
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Whether this process may touch that piece of it, by instructions: mprotect(2). System calls get `EFAULT` instead of a
    /// signal.
    pub(crate) fn set_reach(&self, offset: u64, len: u64, is_reachable: bool) -> Result<(), Errno> {
        let end = offset.checked_add(len).filter(|&end| end <= self.len()).ok_or(Errno::INVAL)?;
        let flags = if is_reachable { MprotectFlags::READ | MprotectFlags::WRITE } else { MprotectFlags::empty() };
        // SAFETY: inside the mapping. Whoever takes it out of reach has given up what lies there.
        unsafe { mm::mprotect(self.base.as_ptr().add(offset as usize).cast(), (end - offset) as usize, flags) }
    }

    /// Bytes of address space, not of memory.
    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `reserve` with this length, and the borrow checker has ended every reference into it.
        let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// One page of private memory that reads as zeroes in a forked child (`MADV_WIPEONFORK`): so that the child cannot pass
/// for its parent, at the price of a load.
pub(crate) fn page_wiped_on_fork() -> Result<NonNull<u8>, Errno> {
    let page = anonymous(PAGE as usize)?;
    // SAFETY: the page was mapped above and is known to nobody else.
    unsafe { mm::madvise(page.as_ptr().cast(), PAGE as usize, Advice::LinuxWipeOnFork)? };
    Ok(page)
}

/// Private zeroed memory that the caller may keep for ever.
pub(crate) fn anonymous(len: usize) -> Result<NonNull<u8>, Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory of ours.
    let base = unsafe { mm::mmap_anonymous(core::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)? };
    NonNull::new(base.cast()).ok_or(Errno::NOMEM)
}
