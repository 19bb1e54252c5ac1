//! Blocks of device memory that several processes map: the driver's virtual memory management, as
//! its documentation has it.
//!
//! What a handle stands for is a memfd. Exported, it is that memfd's descriptor, so processes
//! really share it, and it stays as long as any of them has it, dead exporters or not. An address
//! range that is reserved is a mapping out of the processor's reach; what is mapped there lies
//! within reach elsewhere, as all device memory here.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{c_int, c_ulonglong, c_void};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::contexts::put;
use crate::control::{self, Needs, VIOLATIONS, enter};
use crate::device_memory::{Memory, READ, READ_WRITE};
use crate::{Code, INVALID_DEVICE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, code, lock};

/// As on the GPUs of the last ten years.
const GRANULARITY: usize = 2 << 20;
const PAGE: usize = 4096;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`, `CU_MEM_LOCATION_TYPE_DEVICE`,
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const PINNED: c_int = 1;
const DEVICE: c_int = 1;
const FILE: c_int = 1;
/// What a block is called, so that nothing else is taken for one.
const NAME: &std::ffi::CStr = c"fake device block";

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    kind: c_int,
    id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Properties {
    kind: c_int,
    handle_types: c_int,
    location: Location,
    windows: *mut c_void,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Access {
    location: Location,
    flags: c_int,
}

/// What a handle stands for. Mappings keep their own share of the file.
struct Block {
    file: OwnedFd,
    len: usize,
    is_exportable: bool,
}

static BLOCKS: Mutex<Option<HashMap<u64, Arc<Block>>>> = Mutex::new(None);
static NEXT: AtomicU64 = AtomicU64::new(0x1000);
/// Address ranges, by where they begin.
static RESERVED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());
static MAPPED: Mutex<BTreeMap<usize, Arc<Memory>>> = Mutex::new(BTreeMap::new());

/// Handles, reservations and mappings that there are.
pub(crate) fn count() -> u64 {
    let handles = lock(&BLOCKS).as_ref().map_or(0, HashMap::len);
    (handles + lock(&RESERVED).len() + lock(&MAPPED).len()) as u64
}

/// Returns the mapping that begins there or before.
pub(crate) fn mapped_at(address: usize) -> Option<Arc<Memory>> {
    lock(&MAPPED).range(..=address).next_back().map(|(_, memory)| Arc::clone(memory))
}

fn keep(block: Block) -> u64 {
    let handle = NEXT.fetch_add(1, Ordering::Relaxed);
    lock(&BLOCKS).get_or_insert_default().insert(handle, Arc::new(block));
    handle
}

fn find(handle: u64) -> Result<Arc<Block>, Code> {
    lock(&BLOCKS).as_ref().and_then(|blocks| blocks.get(&handle)).cloned().ok_or(INVALID_VALUE)
}

/// # Safety
/// Null, or properties.
unsafe fn check(properties: *const Properties) -> Result<Properties, Code> {
    // SAFETY: the caller's promise.
    let properties = *unsafe { properties.as_ref() }.ok_or(INVALID_VALUE)?;
    if properties.kind != PINNED || properties.location.kind != DEVICE || properties.flags != [0; 8]
    {
        return Err(INVALID_VALUE);
    }
    match (properties.location.id, properties.handle_types) {
        (0, 0) => Ok(properties),
        (0, FILE) if control::attribute(103) != 0 => Ok(properties),
        (0, _) => Err(NOT_SUPPORTED),
        _ => Err(INVALID_DEVICE),
    }
}

fn is_granular(number: usize) -> bool {
    number.is_multiple_of(GRANULARITY)
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAllocationGranularity(
    granularity: *mut usize,
    properties: *const Properties,
    option: c_int,
) -> Code {
    code(enter("cuMemGetAllocationGranularity", Needs::Driver).and_then(|()| {
        // SAFETY: the caller's.
        unsafe { check(properties)? };
        if !matches!(option, 0 | 1) {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller's.
        unsafe { put(granularity, GRANULARITY) }
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemCreate(
    handle: *mut u64,
    len: usize,
    properties: *const Properties,
    flags: c_ulonglong,
) -> Code {
    code(enter("cuMemCreate", Needs::Sound).and_then(|()| {
        // SAFETY: the caller's.
        let properties = unsafe { check(properties)? };
        if len == 0 || !is_granular(len) || flags != 0 {
            return Err(INVALID_VALUE);
        }
        if control::attribute(102) == 0 {
            return Err(NOT_SUPPORTED);
        }
        // SAFETY: plain system calls.
        let file = unsafe {
            let file = libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC);
            if file < 0 {
                return Err(OUT_OF_MEMORY);
            }
            OwnedFd::from_raw_fd(file)
        };
        // SAFETY: the same.
        if unsafe { libc::ftruncate(file.as_raw_fd(), len as libc::off_t) } != 0 {
            return Err(OUT_OF_MEMORY);
        }
        let is_exportable = properties.handle_types == FILE;
        // SAFETY: the caller's.
        unsafe { put(handle, keep(Block { file, len, is_exportable })) }
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemRelease(handle: u64) -> Code {
    code(enter("cuMemRelease", Needs::Sound).and_then(|()| {
        let released = lock(&BLOCKS).as_mut().and_then(|blocks| blocks.remove(&handle));
        // Once each: a handle that is given back twice may be another's by then.
        VIOLATIONS.fetch_add(u64::from(released.is_none()), Ordering::Relaxed);
        released.map(drop).ok_or(INVALID_VALUE)
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemExportToShareableHandle(
    shareable: *mut c_void,
    handle: u64,
    kind: c_int,
    flags: c_ulonglong,
) -> Code {
    code(enter("cuMemExportToShareableHandle", Needs::Sound).and_then(|()| {
        let block = find(handle)?;
        if kind != FILE || !block.is_exportable || flags != 0 || shareable.is_null() {
            return Err(INVALID_VALUE);
        }
        let file = block.file.try_clone().map_err(|_| OUT_OF_MEMORY)?;
        // SAFETY: the caller's: a place for an int.
        unsafe { put(shareable.cast::<c_int>(), file.into_raw_fd()) }
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemImportFromShareableHandle(
    handle: *mut u64,
    shareable: *mut c_void,
    kind: c_int,
) -> Code {
    code(enter("cuMemImportFromShareableHandle", Needs::Sound).and_then(|()| {
        if kind != FILE {
            return Err(INVALID_VALUE);
        }
        if control::attribute(103) == 0 {
            return Err(NOT_SUPPORTED);
        }
        // The descriptor itself, in a pointer's place; it stays the caller's.
        let number = c_int::try_from(shareable.addr()).map_err(|_| INVALID_VALUE)?;
        let name =
            std::fs::read_link(format!("/proc/self/fd/{number}")).map_err(|_| INVALID_VALUE)?;
        if !name.to_string_lossy().contains(&*NAME.to_string_lossy()) {
            return Err(INVALID_VALUE);
        }
        // SAFETY: a descriptor that is open, as was just seen.
        let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
        let file = std::fs::File::from(file.try_clone_to_owned().map_err(|_| OUT_OF_MEMORY)?);
        let len = file.metadata().map_err(|_| INVALID_VALUE)?.len() as usize;
        // SAFETY: the caller's.
        unsafe { put(handle, keep(Block { file: file.into(), len, is_exportable: false })) }
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAddressReserve(
    address: *mut u64,
    len: usize,
    alignment: usize,
    _wish: u64,
    flags: c_ulonglong,
) -> Code {
    code(enter("cuMemAddressReserve", Needs::Sound).and_then(|()| {
        if len == 0
            || !len.is_multiple_of(PAGE)
            || flags != 0
            || !(alignment == 0 || alignment.is_power_of_two())
        {
            return Err(INVALID_VALUE);
        }
        let alignment = alignment.max(GRANULARITY);
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping, of which only the aligned part is kept.
        let start = unsafe {
            let at = libc::mmap(ptr::null_mut(), len + alignment, libc::PROT_NONE, kind, -1, 0);
            if at == libc::MAP_FAILED {
                return Err(OUT_OF_MEMORY);
            }
            let start = at.addr().next_multiple_of(alignment);
            let (before, behind) = (start - at.addr(), at.addr() + alignment - start);
            if before > 0 {
                libc::munmap(at, before);
            }
            if behind > 0 {
                libc::munmap(ptr::without_provenance_mut(start + len), behind);
            }
            start
        };
        lock(&RESERVED).insert(start, len);
        // SAFETY: the caller's.
        unsafe { put(address, start as u64) }
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAddressFree(address: u64, len: usize) -> Code {
    code(enter("cuMemAddressFree", Needs::Sound).and_then(|()| {
        let at = address as usize;
        let is_mapped = lock(&MAPPED)
            .range(..at + len)
            .next_back()
            .is_some_and(|(from, memory)| from + memory.len > at);
        let mut reserved = lock(&RESERVED);
        if is_mapped || reserved.get(&at) != Some(&len) {
            VIOLATIONS.fetch_add(1, Ordering::Relaxed);
            return Err(INVALID_VALUE);
        }
        reserved.remove(&at);
        // SAFETY: of `cuMemAddressReserve`, so long, and nothing lies there.
        unsafe { libc::munmap(ptr::without_provenance_mut(at), len) };
        Ok(())
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemMap(
    address: u64,
    len: usize,
    offset: usize,
    handle: u64,
    flags: c_ulonglong,
) -> Code {
    code(enter("cuMemMap", Needs::Sound).and_then(|()| {
        let (block, at) = (find(handle)?, address as usize);
        let is_inside = offset.checked_add(len).is_some_and(|end| end <= block.len);
        if len == 0 || flags != 0 || !is_inside || ![at, len, offset].into_iter().all(is_granular) {
            return Err(INVALID_VALUE);
        }
        let is_reserved = lock(&RESERVED)
            .range(..=at)
            .next_back()
            .is_some_and(|(from, reserved)| at + len <= from + reserved);
        let mut mapped = lock(&MAPPED);
        let is_taken = mapped
            .range(..at + len)
            .next_back()
            .is_some_and(|(from, memory)| from + memory.len > at);
        if !is_reserved || is_taken {
            return Err(INVALID_VALUE);
        }
        let memory = Memory::mapped(at, &block.file, offset, len).ok_or(OUT_OF_MEMORY)?;
        mapped.insert(at, Arc::new(memory));
        Ok(())
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemSetAccess(
    address: u64,
    len: usize,
    access: *const Access,
    count: usize,
) -> Code {
    code(enter("cuMemSetAccess", Needs::Sound).and_then(|()| {
        if access.is_null() || count != 1 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller's: one of them.
        let access = unsafe { *access };
        if access.location.kind != DEVICE || access.location.id != 0 {
            return Err(INVALID_DEVICE);
        }
        // There are drivers that refuse memory which may only be read.
        let is_known = match access.flags {
            0 | READ_WRITE => true,
            READ => control::attribute(-3) == 0,
            _ => false,
        };
        let mapped = lock(&MAPPED);
        let memory = mapped
            .get(&(address as usize))
            .filter(|memory| memory.len == len)
            .ok_or(INVALID_VALUE)?;
        if !is_known {
            return Err(INVALID_VALUE);
        }
        memory.set_access(access.flags);
        Ok(())
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemUnmap(address: u64, len: usize) -> Code {
    code(enter("cuMemUnmap", Needs::Sound).and_then(|()| {
        let mut mapped = lock(&MAPPED);
        if mapped.get(&(address as usize)).is_none_or(|memory| memory.len != len) {
            VIOLATIONS.fetch_add(1, Ordering::Relaxed);
            return Err(INVALID_VALUE);
        }
        let memory = mapped.remove(&(address as usize));
        // Work that is enqueued still goes there: on a GPU, a fault.
        let is_used = memory.is_some_and(|memory| Arc::strong_count(&memory) > 1);
        VIOLATIONS.fetch_add(u64::from(is_used), Ordering::Relaxed);
        Ok(())
    }))
}
