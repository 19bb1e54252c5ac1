//! Bringing pages into memory before they are used, and keeping them there.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::mm::{self, Advice};

use super::map::PAGE;
use super::{Errno, clock};

/// The most bytes of a library's own data that [`prefault_code`] makes private pages for.
const MOST_DATA: usize = 16 << 20;
/// Bytes of stack that [`prefault_stack`] leaves untouched at the far end.
const STACK_MARGIN: usize = 64 << 10;

/// Says what is to be done with pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Residency {
    /// They are mapped now, so that the first use of one is no page fault.
    Prefault,
    /// They are mapped now, and the kernel does not take them away: mlock(2).
    Lock,
}

/// Why pages are not resident.
pub(crate) enum Failure {
    /// The kernel could not map them.
    Map(Errno),
    /// The kernel does not lock them: see RLIMIT_MEMLOCK.
    Lock(Errno),
}

/// Makes a range of whole pages resident; writes nothing there.
///
/// # Safety
/// The range is part of a living mapping that may be read, and, if it `is_writable`, be written; the
/// mapped file has all of it.
pub(crate) unsafe fn make_resident(
    at: *mut u8,
    len: usize,
    is_writable: bool,
    residency: Residency,
) -> Result<(), Failure> {
    // SAFETY: the caller promises a living mapping; the advice changes no bytes.
    match unsafe { populate(at, len, is_writable) } {
        Ok(()) => {}
        // SAFETY: the caller promises what `touch` asks for.
        Err(errno) if is_absent(errno) => unsafe { touch(at, len, is_writable) },
        Err(errno) => return Err(Failure::Map(errno)),
    }
    match residency {
        Residency::Prefault => Ok(()),
        // SAFETY: the caller promises a living mapping; a lock changes no bytes.
        Residency::Lock => unsafe { mm::mlock(at.cast(), len) }.map_err(Failure::Lock),
    }
}

/// Returns whether the kernel, or a filter before it, says that it has no such advice.
fn is_absent(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::PERM)
}

/// Calls `madvise(MADV_POPULATE_WRITE)` or `READ` (Linux 5.14).
///
/// # Safety
/// The range is part of a living mapping.
unsafe fn populate(at: *mut u8, len: usize, is_writable: bool) -> Result<(), Errno> {
    let advice = if is_writable { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
    loop {
        // SAFETY: the caller promises a living mapping; the advice changes no bytes.
        match unsafe { mm::madvise(at.cast(), len, advice) } {
            Err(Errno::INTR | Errno::AGAIN) => {}
            other => return other,
        }
    }
}

/// Does the same with one access to each page.
///
/// # Safety
/// The same as with [`make_resident`].
unsafe fn touch(at: *mut u8, len: usize, is_writable: bool) {
    for offset in (0..len).step_by(PAGE as usize) {
        // SAFETY: inside the range, which the caller promises.
        let byte = unsafe { at.add(offset) };
        if is_writable {
            // SAFETY: the caller promises that it may be written; other processes reach it by
            // atomics, or not at all while it is in no use.
            let byte = unsafe { AtomicU8::from_ptr(byte) };
            let value = byte.load(Ordering::Relaxed);
            // An exchange with the same value. An addition of 0 would not do: compilers make a load
            // of it. Whether it succeeds is all the same: the processor asks to write in any case.
            let _ = byte.compare_exchange(value, value, Ordering::Relaxed, Ordering::Relaxed);
        } else {
            // SAFETY: inside the range, which may be read.
            unsafe { byte.read_volatile() };
        }
    }
}

/// Touches so many bytes of the calling thread's stack below the caller's frame. Returns `false`, and
/// touches nothing, if the stack may not become that long.
pub(crate) fn prefault_stack(bytes: usize) -> Result<bool, Errno> {
    if bytes == 0 {
        return Ok(true);
    }
    let here = core::ptr::from_ref(&bytes).addr();
    let room = here.saturating_sub(end_of_stack()?);
    if bytes.saturating_add(STACK_MARGIN) > room {
        return Ok(false);
    }
    touch_stack(here - bytes);
    Ok(true)
}

/// Locks the pages of the calling thread's stack from the caller's frame to so many bytes below it,
/// which have been touched.
pub(crate) fn lock_stack(bytes: usize) -> Result<(), Failure> {
    let here = core::ptr::from_ref(&bytes).addr();
    let from = (here - bytes.min(here)) & !(PAGE as usize - 1);
    let at = core::ptr::without_provenance_mut::<c_void>(from);
    // SAFETY: the thread's own stack; the call changes no bytes.
    unsafe { mm::mlock(at, here - from) }.map_err(Failure::Lock)
}

/// Returns the lowest address that the calling thread's stack may reach.
fn end_of_stack() -> Result<usize, Errno> {
    let mut attributes = core::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut lowest, mut size) = (core::ptr::null_mut(), 0);
    // SAFETY: the attributes are initialized by the first call, read by the second, and destroyed
    // once; the calling thread exists.
    unsafe {
        super::check_pthread(libc::pthread_getattr_np(
            libc::pthread_self(),
            attributes.as_mut_ptr(),
        ))?;
        let got = libc::pthread_attr_getstack(attributes.as_ptr(), &mut lowest, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        super::check_pthread(got)?;
    }
    Ok(lowest.addr())
}

/// Touches the stack down to that address, each half page in a frame of its own. It ends by the
/// address and not by a count, because a frame is longer than what it declares; it declares half a
/// page, so that none is longer than a page and passes one over.
#[inline(never)]
fn touch_stack(until: usize) {
    let mut frame = [core::mem::MaybeUninit::<u8>::uninit(); PAGE as usize / 2];
    // SAFETY: the frame's own byte.
    unsafe { frame.as_mut_ptr().cast::<u8>().write_volatile(0) };
    if frame.as_ptr().addr() > until {
        touch_stack(until);
    }
    // Keeps the call above from being the frame's last act, whose frame a compiler may give up first.
    core::hint::black_box(&frame);
}

/// Brings the code of the program, of this library, and of the C library into memory, the latter
/// two's data as well, and what reads the clocks. As far as the kernel does it: it is a help, and
/// nothing is wrong without it.
pub(crate) fn prefault_code() {
    // The first call may look for the vDSO.
    clock::monotonic_nanos();
    clock::realtime_after(std::time::Duration::ZERO);
    let mut seen = 0_usize;
    // SAFETY: `see` has the form that the call asks for, and gets the counter's address.
    unsafe { libc::dl_iterate_phdr(Some(see), (&raw mut seen).cast()) };
}

/// Sees one loaded program or library.
unsafe extern "C" fn see(info: *mut libc::dl_phdr_info, _: usize, seen: *mut c_void) -> c_int {
    // SAFETY: `dl_iterate_phdr` passes a valid description, and what `prefault_code` gave it.
    let (info, seen) = unsafe { (&*info, &mut *seen.cast::<usize>()) };
    let is_program = *seen == 0;
    *seen += 1;
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the description names its own table.
    let headers =
        unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let place = |header: &libc::Elf64_Phdr| {
        let from = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        (from, from.saturating_add(header.p_memsz as usize))
    };
    let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let has = |address: usize| {
        loads().any(|header| (place(header).0..place(header).1).contains(&address))
    };
    let is_ours = has(see as *const () as usize);
    if !is_program && !is_ours && !has(libc::malloc as *const () as usize) {
        return 0;
    }
    // Data that the loader has made read-only after it had filled them.
    let read_only_until = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_GNU_RELRO)
        .map(|header| place(header).1)
        .max()
        .unwrap_or(0);
    let page = PAGE as usize;
    for header in loads() {
        let is_data = header.p_flags & libc::PF_W != 0;
        let (mut from, until) = place(header);
        if is_data {
            from = from.max(read_only_until);
        }
        let (from, until) = (from & !(page - 1), until.next_multiple_of(page));
        // A program's own data may be gigabytes of zeroes that it never needs.
        if from >= until || is_data && (until - from > MOST_DATA || is_program && !is_ours) {
            continue;
        }
        let at = core::ptr::with_exposed_provenance_mut(from);
        // SAFETY: a loaded segment, which stays mapped while the call visits it; the advice changes
        // no bytes. A refusal changes nothing.
        let _ = unsafe { populate(at, until - from, is_data) };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::map;

    #[test]
    fn touching_changes_no_byte() {
        let len = 4 * PAGE as usize;
        let memory = map::anonymous(len).expect("mapped");
        // SAFETY: the memory was mapped above, with this length, and is this test's alone.
        unsafe {
            memory.as_ptr().write_bytes(0x5a, len);
            touch(memory.as_ptr(), len, true);
            touch(memory.as_ptr(), len, false);
            assert!(core::slice::from_raw_parts(memory.as_ptr(), len).iter().all(|b| *b == 0x5a));
            map::unmap(memory, len);
        }
    }

    #[test]
    fn a_stack_that_is_too_short_is_told() {
        let told = std::thread::Builder::new()
            .stack_size(256 << 10)
            .spawn(|| (prefault_stack(64 << 10), prefault_stack(1 << 20)))
            .expect("started")
            .join()
            .expect("no overflow");
        assert_eq!(told, (Ok(true), Ok(false)));
    }

    /// Some thousand frames, each longer than what it declares.
    #[test]
    fn nearly_all_of_a_long_stack_can_be_touched() {
        let told = std::thread::Builder::new()
            .stack_size(16 << 20)
            .spawn(|| prefault_stack((16 << 20) - (128 << 10)))
            .expect("started")
            .join()
            .expect("no overflow");
        assert_eq!(told, Ok(true));
    }
}
