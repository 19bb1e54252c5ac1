//! Mappings: address space taken once, never moved.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

use super::Errno;

/// Bytes in a page, as far as layouts are concerned; larger hardware pages are multiples of it.
pub(crate) const PAGE: u64 = 4096;

/// Bytes in a huge page, where the processor has them of this size; elsewhere nothing comes of asking for them.
pub(crate) const HUGE: usize = 2 << 20;

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

    /// A long one begins at a multiple of a huge page if it can, or no part of it could ever be one.
    fn new(file: BorrowedFd<'_>, len: usize) -> Result<Mapping, Errno> {
        let mapping = Mapping::near(core::ptr::null_mut(), file, len)?;
        let beyond = mapping.base.addr().get() % HUGE;
        if len < 4 * HUGE || beyond == 0 {
            return Ok(mapping);
        }
        // Below it is as a rule nothing. If somebody else is there, or comes there now, it lies elsewhere, and that is all.
        let wish = mapping.base.as_ptr().wrapping_sub(beyond);
        drop(mapping);
        Mapping::near(wish, file, len)
    }

    /// At that address, unless something else is there.
    fn near(wish: *mut u8, file: BorrowedFd<'_>, len: usize) -> Result<Mapping, Errno> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping, not a fixed one, touches no memory of ours.
        let base = unsafe { mm::mmap(wish.cast(), len, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0)? };
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

    /// From now on this process may only read there, by instructions.
    pub(crate) fn set_read_only(&self, from: u64, to: u64) -> Result<(), Errno> {
        if to > self.len() || from > to {
            return Err(Errno::INVAL);
        }
        // SAFETY: inside the mapping. Whoever makes it read-only writes nothing there.
        unsafe { mm::mprotect(self.base.as_ptr().add(from as usize).cast(), (to - from) as usize, MprotectFlags::READ) }
    }

    /// Bytes of address space, not of memory.
    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }
}

/// `madvise(MADV_HUGEPAGE)`: what is mapped there from now on may be huge pages, where the file system and the kernel think
/// so. False when the kernel has none.
///
/// # Safety
/// The range is part of a living mapping.
pub(crate) unsafe fn prefer_huge(at: *mut u8, len: usize) -> bool {
    // SAFETY: the caller's promise; the advice changes no bytes.
    unsafe { mm::madvise(at.cast(), len, Advice::LinuxHugepage).is_ok() }
}

/// `madvise(MADV_COLLAPSE)` (Linux 6.1): makes what is there huge pages now, also where the file system would not by itself.
/// False when it did not: no such call, no huge page free, forbidden.
///
/// # Safety
/// The range is part of a living mapping; empty, it only asks whether there is such a call.
pub(crate) unsafe fn make_huge(at: *mut u8, len: usize) -> bool {
    // SAFETY: the caller's promise; the advice changes no bytes.
    unsafe { libc::madvise(at.cast(), len, libc::MADV_COLLAPSE) == 0 }
}

/// Bytes of a mapping that this process has as huge pages, as `/proc/self/smaps` says.
pub(crate) fn huge_bytes(base: *const u8, len: u64) -> std::io::Result<u64> {
    let range = base.addr() as u64..base.addr() as u64 + len;
    let (mut inside, mut kib) = (false, 0);
    for line in std::fs::read_to_string("/proc/self/smaps")?.lines() {
        let first = line.split_ascii_whitespace().next().unwrap_or_default();
        match first.strip_suffix(':') {
            None => {
                let start = first.split_once('-').and_then(|(start, _)| u64::from_str_radix(start, 16).ok());
                inside = start.is_some_and(|start| range.contains(&start));
            }
            Some("ShmemPmdMapped" | "FilePmdMapped") if inside => {
                kib += line.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
            }
            Some(_) => {}
        }
    }
    Ok(kib << 10)
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
    let advised = unsafe { mm::madvise(page.as_ptr().cast(), PAGE as usize, Advice::LinuxWipeOnFork) };
    if advised.is_err() {
        // SAFETY: as above.
        unsafe { unmap_page(page) };
    }
    advised.map(|()| page)
}

/// Gives such a page back.
///
/// # Safety
/// From [`page_wiped_on_fork`], and nobody uses it any more.
pub(crate) unsafe fn unmap_page(page: NonNull<u8>) {
    // SAFETY: the caller promises it (`# Safety` above).
    unsafe { unmap(page, PAGE as usize) };
}

/// The same of so many bytes, from [`anonymous`].
///
/// # Safety
/// As [`unmap_page`].
pub(crate) unsafe fn unmap(memory: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise. That it was mapped is the only thing that could go wrong.
    let _ = unsafe { mm::munmap(memory.as_ptr().cast(), len) };
}

/// What lies there will be read soon. Any address will do.
#[inline]
pub(crate) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which never faults.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the same.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags));
    }
}

/// Fetches the cache line at `at` for writing, so that a read followed by a change asks the other processor for it once. Any
/// address is allowed.
#[inline]
pub(crate) fn prefetch_for_write(at: *const u8) {
    // Assembly: the intrinsic gives this instruction only where the target promises it. Processors of 64 bits that have
    // no use for it pass over it.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which never faults.
    unsafe {
        core::arch::asm!("prefetchw [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the same.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags));
    }
}

/// Private zeroed memory that the caller may keep for ever.
pub(crate) fn anonymous(len: usize) -> Result<NonNull<u8>, Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory of ours.
    let base = unsafe { mm::mmap_anonymous(core::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)? };
    NonNull::new(base.cast()).ok_or(Errno::NOMEM)
}
