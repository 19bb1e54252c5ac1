//! Ordinary memory, registered or allocated.

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::contexts::put;
use crate::control::{self, Needs, enter};
use crate::{
    ALREADY_REGISTERED, Code, INVALID_VALUE, NOT_REGISTERED, NOT_SUPPORTED, OUT_OF_MEMORY, code,
    lock,
};

const READ_ONLY: c_uint = 8;
const PAGE: usize = 4096;

#[derive(Clone, Copy)]
struct Range {
    len: usize,
    flags: c_uint,
    /// Of `cuMemHostAlloc`.
    is_allocated: bool,
}

static REGISTERED: Mutex<BTreeMap<usize, Range>> = Mutex::new(BTreeMap::new());
/// How many registrations there ever were.
pub(crate) static EVER: AtomicU64 = AtomicU64::new(0);

/// How the driver copies from or to there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Road {
    /// Directly, whenever the stream comes to it.
    Direct,
    /// By buffers of its own, before the call returns.
    Buffered,
}

/// Returns the processor's right to a range: `None`, it is not mapped as a whole; whether it may be
/// written.
fn mapped(from: usize, len: usize) -> Option<bool> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let (mut at, mut writable) = (from, true);
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (fields.next(), fields.next()) else { continue };
        let Some((start, end)) = range.split_once('-') else { continue };
        let parse = |text| usize::from_str_radix(text, 16).unwrap_or(0);
        let (start, end) = (parse(start), parse(end));
        if start <= at && at < end {
            if !rights.starts_with('r') {
                return None;
            }
            writable &= rights.as_bytes().get(1) == Some(&b'w');
            at = end;
            if at >= from + len {
                return Some(writable);
            }
        }
    }
    None
}

/// Returns whether the kernel can read each page: one behind the end of its file it cannot, nor
/// could the driver pin it.
fn has_pages(from: usize, len: usize) -> bool {
    // SAFETY: plain system calls; the kernel looks at what it is given.
    unsafe {
        let sink = libc::memfd_create(c"fake driver's probe".as_ptr(), libc::MFD_CLOEXEC);
        let can_be_read =
            |page: usize| libc::pwrite(sink, ptr::without_provenance(page), 1, 0) == 1;
        let all = (from..from + len).step_by(PAGE).all(can_be_read);
        libc::close(sink);
        all
    }
}

/// Returns how memory is reached. What lies half in registered memory is refused.
pub(crate) fn road(from: usize, len: usize, is_written: bool) -> Result<Road, Code> {
    let registered = lock(&REGISTERED);
    let overlapping = registered
        .range(..from + len.max(1))
        .next_back()
        .filter(|(at, range)| *at + range.len > from);
    match overlapping {
        None => Ok(Road::Buffered),
        Some((&at, range)) if at <= from && from + len <= at + range.len => {
            if is_written && range.flags & READ_ONLY != 0 {
                Err(INVALID_VALUE)
            } else {
                Ok(Road::Direct)
            }
        }
        Some(_) => Err(INVALID_VALUE),
    }
}

pub(crate) fn count() -> u64 {
    lock(&REGISTERED).values().filter(|range| !range.is_allocated).count() as u64
}

/// Returns how many are registered and not mapped any more.
pub(crate) fn unmapped() -> u64 {
    lock(&REGISTERED).iter().filter(|(at, range)| mapped(**at, range.len).is_none()).count() as u64
}

fn register(from: usize, len: usize, flags: c_uint) -> Result<(), Code> {
    if len == 0 || !from.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) || flags & !0xF != 0 {
        return Err(INVALID_VALUE);
    }
    if control::attribute(99) == 0 || flags & READ_ONLY != 0 && control::attribute(113) == 0 {
        return Err(NOT_SUPPORTED);
    }
    let uses_page_tables = control::attribute(100) != 0;
    match mapped(from, len) {
        Some(true) => {}
        Some(false) if flags & READ_ONLY != 0 || uses_page_tables => {}
        _ => return Err(INVALID_VALUE),
    }
    if !has_pages(from, len) {
        return Err(INVALID_VALUE);
    }
    let mut registered = lock(&REGISTERED);
    if registered.range(..from + len).next_back().is_some_and(|(at, range)| at + range.len > from) {
        return Err(ALREADY_REGISTERED);
    }
    registered.insert(from, Range { len, flags, is_allocated: false });
    EVER.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostRegister_v2(
    from: *mut c_void,
    len: usize,
    flags: c_uint,
) -> Code {
    code(enter("cuMemHostRegister", Needs::Sound).and_then(|()| register(from.addr(), len, flags)))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostUnregister(from: *mut c_void) -> Code {
    code(enter("cuMemHostUnregister", Needs::Sound).and_then(|()| {
        let mut registered = lock(&REGISTERED);
        match registered.get(&from.addr()) {
            Some(range) if !range.is_allocated => {
                registered.remove(&from.addr()).map(drop).ok_or(NOT_REGISTERED)
            }
            _ => Err(NOT_REGISTERED),
        }
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(
    place: *mut *mut c_void,
    len: usize,
    flags: c_uint,
) -> Code {
    code(enter("cuMemHostAlloc", Needs::Sound).and_then(|()| {
        let len = len.next_multiple_of(PAGE);
        let (rights, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping.
        let at = unsafe { libc::mmap(ptr::null_mut(), len, rights, kind, -1, 0) };
        if len == 0 || at == libc::MAP_FAILED {
            return Err(OUT_OF_MEMORY);
        }
        lock(&REGISTERED).insert(at.addr(), Range { len, flags, is_allocated: true });
        // SAFETY: the caller's.
        unsafe { put(place, at) }
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(at: *mut c_void) -> Code {
    code(enter("cuMemFreeHost", Needs::Sound).and_then(|()| {
        crate::streams::wait_for_all();
        let mut registered = lock(&REGISTERED);
        let range = registered
            .get(&at.addr())
            .copied()
            .filter(|range| range.is_allocated)
            .ok_or(INVALID_VALUE)?;
        registered.remove(&at.addr());
        // SAFETY: of `cuMemHostAlloc`.
        unsafe { libc::munmap(at, range.len) };
        Ok(())
    }))
}
