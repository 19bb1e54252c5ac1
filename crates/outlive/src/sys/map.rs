//! Mappings: address space reserved once, never moved.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

use super::Errno;
use super::file::Rights;

/// Bytes in a page as layouts count them; larger hardware pages are multiples of it.
pub(crate) const PAGE: u64 = 4096;

/// Bytes in a huge page, where the processor has this size; elsewhere asking for one has no effect.
pub(crate) const HUGE: usize = 2 << 20;

/// Whether core dumps may have the mappings that this process makes.
static IN_CORE_DUMPS: AtomicBool = AtomicBool::new(true);

/// Sets whether core dumps may have the mappings of files that this process makes from now on.
pub(crate) fn set_in_core_dumps(may: bool) {
    // Relaxed: see there.
    IN_CORE_DUMPS.store(may, Ordering::Relaxed);
}

/// A shared mapping of a file, from its beginning unless it is a [`Mapping::part`], usually much longer than the file is yet.
///
/// Pages beyond the file's end become usable as the file grows, without remapping. Touching them
/// before that raises `SIGBUS`, so no code reads beyond what the file's header says has been
/// allocated.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is an address range that stays mapped for the life of the value; threads reach
// its contents through atomics or under the rules of the protocol that owns them.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send` above: the range stays mapped, and protocols guard its contents.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of the file. Where the address space has no room for them (`RLIMIT_AS`),
    /// maps an eighth of the room, so that other mappings find some too, but not less than `least`.
    pub(crate) fn reserve(
        file: BorrowedFd<'_>,
        len: u64,
        least: u64,
        rights: Rights,
    ) -> Result<Mapping, Errno> {
        let least = usize::try_from(least).map_err(|_| Errno::OVERFLOW)?;
        let mut len = usize::try_from(len).map_err(|_| Errno::OVERFLOW)?.max(least);
        match Mapping::new(file, len, rights) {
            Err(Errno::NOMEM) if len > least => {}
            other => return other,
        }
        let shrink = |len: usize, by: usize| (len / by).next_multiple_of(PAGE as usize).max(least);
        loop {
            len = shrink(len, 2);
            match Mapping::new(file, len, rights) {
                Err(Errno::NOMEM) if len > least => {}
                Err(error) => return Err(error),
                Ok(largest) if len == least => return Ok(largest),
                Ok(largest) => {
                    drop(largest);
                    return Mapping::new(file, shrink(len, 8), rights);
                }
            }
        }
    }

    /// Makes a mapping; a long one begins at a multiple of a huge page if it can, because otherwise
    /// no part of it could be one.
    fn new(file: BorrowedFd<'_>, len: usize, rights: Rights) -> Result<Mapping, Errno> {
        let mapping = Mapping::near(core::ptr::null_mut(), file, 0, len, rights)?;
        let beyond = mapping.base.addr().get() % HUGE;
        if len < 4 * HUGE || beyond == 0 {
            return Ok(mapping);
        }
        // The addresses below are usually free. If another mapping is there, or comes there now,
        // this one gets another place.
        let wish = mapping.base.as_ptr().wrapping_sub(beyond);
        drop(mapping);
        Mapping::near(wish, file, 0, len, rights)
    }

    /// Maps a part of the file, which begins at a page and exists, for reading and writing.
    pub(crate) fn part(file: BorrowedFd<'_>, from: u64, len: u64) -> Result<Mapping, Errno> {
        let len = usize::try_from(len).map_err(|_| Errno::OVERFLOW)?;
        Mapping::near(core::ptr::null_mut(), file, from, len, Rights::ReadWrite)
    }

    /// Maps at that address, unless another mapping is there.
    fn near(
        wish: *mut u8,
        file: BorrowedFd<'_>,
        from: u64,
        len: usize,
        rights: Rights,
    ) -> Result<Mapping, Errno> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        let reach = match rights {
            Rights::Read => ProtFlags::READ,
            Rights::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: a new mapping, not a fixed one, touches no existing memory.
        let base = unsafe { mm::mmap(wish.cast(), len, reach, flags, file, from)? };
        let mapping = Mapping { base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?, len };
        // Relaxed: it guards nothing. A mapping that another thread makes meanwhile may be either.
        if IN_CORE_DUMPS.load(Ordering::Relaxed) {
            return Ok(mapping);
        }
        // SAFETY: all of the mapping just made; the advice changes no bytes.
        unsafe { mm::madvise(mapping.base.as_ptr().cast(), len, Advice::LinuxDontDump)? };
        Ok(mapping)
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Sets whether instructions of this process may touch that piece: mprotect(2). System calls
    /// get `EFAULT` instead of a signal.
    pub(crate) fn set_reach(&self, offset: u64, len: u64, is_reachable: bool) -> Result<(), Errno> {
        let end = offset.checked_add(len).filter(|&end| end <= self.len()).ok_or(Errno::INVAL)?;
        let flags = if is_reachable {
            MprotectFlags::READ | MprotectFlags::WRITE
        } else {
            MprotectFlags::empty()
        };
        // SAFETY: the piece is inside the mapping; a caller that takes it out of reach no longer
        // uses what lies there.
        unsafe {
            mm::mprotect(
                self.base.as_ptr().add(offset as usize).cast(),
                (end - offset) as usize,
                flags,
            )
        }
    }

    /// Returns the length in bytes of address space, not of memory.
    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }
}

/// Calls `madvise(MADV_HUGEPAGE)`: what is mapped there from now on may be huge pages, if the file
/// system and the kernel so decide. Returns false when the kernel has none.
///
/// # Safety
/// The range is part of a living mapping.
pub(crate) unsafe fn prefer_huge(at: *mut u8, len: usize) -> bool {
    // SAFETY: the caller promises a living mapping; the advice changes no bytes.
    unsafe { mm::madvise(at.cast(), len, Advice::LinuxHugepage).is_ok() }
}

/// Calls `madvise(MADV_COLLAPSE)` (Linux 6.1): makes the range huge pages now, even where the file
/// system would not by itself. Returns false if it did not: no such call, no huge page free,
/// forbidden.
///
/// # Safety
/// The range is part of a living mapping. An empty range only asks whether the call exists.
pub(crate) unsafe fn make_huge(at: *mut u8, len: usize) -> bool {
    // The kernel's number; the libc crate has it for glibc only.
    const MADV_COLLAPSE: libc::c_int = 25;
    // SAFETY: the caller promises a living mapping; the advice changes no bytes.
    unsafe { libc::madvise(at.cast(), len, MADV_COLLAPSE) == 0 }
}

/// Returns how many bytes of a mapping this process has as huge pages, as `/proc/self/smaps` says.
pub(crate) fn huge_bytes(base: *const u8, len: u64) -> std::io::Result<u64> {
    let range = base.addr() as u64..base.addr() as u64 + len;
    let (mut inside, mut kib) = (false, 0);
    for line in std::fs::read_to_string("/proc/self/smaps")?.lines() {
        let first = line.split_ascii_whitespace().next().unwrap_or_default();
        match first.strip_suffix(':') {
            None => {
                let start = first
                    .split_once('-')
                    .and_then(|(start, _)| u64::from_str_radix(start, 16).ok());
                inside = start.is_some_and(|start| range.contains(&start));
            }
            Some("ShmemPmdMapped" | "FilePmdMapped") if inside => {
                kib += line
                    .split_ascii_whitespace()
                    .nth(1)
                    .and_then(|kib| kib.parse::<u64>().ok())
                    .unwrap_or(0);
            }
            Some(_) => {}
        }
    }
    Ok(kib << 10)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `reserve` mapped it with this length, and the borrow checker has ended every
        // reference into it.
        let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Maps one page of private memory that reads as zeroes in a forked child (`MADV_WIPEONFORK`), so
/// that the child cannot pass for its parent, for the price of a load.
pub(crate) fn page_wiped_on_fork() -> Result<NonNull<u8>, Errno> {
    let page = anonymous(PAGE as usize)?;
    // SAFETY: the page was mapped above, and no other code knows it yet.
    let advised =
        unsafe { mm::madvise(page.as_ptr().cast(), PAGE as usize, Advice::LinuxWipeOnFork) };
    if advised.is_err() {
        // SAFETY: the page was mapped above, and no other code knows it yet.
        unsafe { unmap_page(page) };
    }
    advised.map(|()| page)
}

/// Unmaps such a page.
///
/// # Safety
/// The page came from [`page_wiped_on_fork`], and no code uses it any more.
pub(crate) unsafe fn unmap_page(page: NonNull<u8>) {
    // SAFETY: the caller promises that the page came from `page_wiped_on_fork` and is no longer
    // used.
    unsafe { unmap(page, PAGE as usize) };
}

/// Unmaps so many bytes of [`anonymous`] memory.
///
/// # Safety
/// The memory came from [`anonymous`] with that length, and no code uses it any more.
pub(crate) unsafe fn unmap(memory: NonNull<u8>, len: usize) {
    // SAFETY: the caller promises that it mapped the memory and no longer uses it.
    let _ = unsafe { mm::munmap(memory.as_ptr().cast(), len) };
}

/// Says that a read of that address follows soon. Any address will do.
#[inline]
pub(crate) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which never faults at any address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint, which never faults at any address.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags));
    }
}

/// Fetches the cache line at `at` for writing, so that a read followed by a change asks the other
/// processor for it once. Any address will do.
#[inline]
pub(crate) fn prefetch_for_write(at: *const u8) {
    // Assembly: the intrinsic emits this instruction only where the target promises it. 64-bit
    // processors that have no use for it skip it.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which never faults at any address.
    unsafe {
        core::arch::asm!("prefetchw [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint, which never faults at any address.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags));
    }
}

/// Maps private zeroed memory, which the caller may keep for ever.
pub(crate) fn anonymous(len: usize) -> Result<NonNull<u8>, Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    let base = unsafe {
        mm::mmap_anonymous(core::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)?
    };
    NonNull::new(base.cast()).ok_or(Errno::NOMEM)
}
