//! "Device" memory: a memfd, mapped twice: out of the processor's reach where its address says that
//! it is, and within reach for the driver's own threads.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use crate::blocks;
use crate::contexts::put;
use crate::control::{Needs, VIOLATIONS, enter};
use crate::{Code, INVALID_VALUE, OUT_OF_MEMORY, code, lock, streams};

/// `CU_MEM_ACCESS_FLAGS_PROT_READ`.
pub(crate) const READ: c_int = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
pub(crate) const READ_WRITE: c_int = 3;

/// One allocation, or one mapping of a block. Stays as long as something that is enqueued needs it.
pub(crate) struct Memory {
    address: usize,
    within_reach: usize,
    pub(crate) len: usize,
    /// The addresses are its own; of a mapping they stay reserved.
    is_allocation: bool,
    /// What a device may do there.
    access: AtomicI32,
}

static ALLOCATED: Mutex<BTreeMap<usize, Arc<Memory>>> = Mutex::new(BTreeMap::new());

fn map(file: c_int, offset: usize, len: usize, protection: c_int) -> Option<usize> {
    // SAFETY: a fresh mapping, which touches no memory of ours.
    let at = unsafe {
        libc::mmap(ptr::null_mut(), len, protection, libc::MAP_SHARED, file, offset as libc::off_t)
    };
    (at != libc::MAP_FAILED).then_some(at.addr())
}

impl Memory {
    fn new(len: usize) -> Option<Memory> {
        // SAFETY: plain system calls.
        unsafe {
            let file = libc::memfd_create(c"fake device memory".as_ptr(), libc::MFD_CLOEXEC);
            if file < 0 {
                return None;
            }
            let map = |protection| map(file, 0, len, protection);
            let sized = libc::ftruncate(file, len as libc::off_t) == 0;
            let mapped = if sized {
                map(libc::PROT_NONE).zip(map(libc::PROT_READ | libc::PROT_WRITE))
            } else {
                None
            };
            libc::close(file);
            let access = AtomicI32::new(READ_WRITE);
            mapped.map(|(address, within_reach)| Memory {
                address,
                within_reach,
                len,
                is_allocation: true,
                access,
            })
        }
    }

    /// Maps a part of a block, where addresses are reserved. No access is allowed there yet.
    pub(crate) fn mapped(
        address: usize,
        file: &OwnedFd,
        offset: usize,
        len: usize,
    ) -> Option<Memory> {
        let within_reach = map(file.as_raw_fd(), offset, len, libc::PROT_READ | libc::PROT_WRITE)?;
        Some(Memory { address, within_reach, len, is_allocation: false, access: AtomicI32::new(0) })
    }

    pub(crate) fn set_access(&self, access: c_int) {
        self.access.store(access, Ordering::Relaxed);
    }

    /// Returns where the driver's threads reach that address.
    pub(crate) fn at(&self, address: usize) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.within_reach + (address - self.address))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let own = self.is_allocation.then_some(self.address);
        for at in own.into_iter().chain([self.within_reach]) {
            // SAFETY: mapped when it was made, and nothing that is enqueued needs it.
            unsafe { libc::munmap(ptr::without_provenance_mut::<c_void>(at), self.len) };
        }
    }
}

/// Returns the memory in which all of that lies, to be read.
pub(crate) fn find(address: u64, len: usize) -> Result<Arc<Memory>, Code> {
    find_for(address, len, READ)
}

/// Returns the same, to be written.
pub(crate) fn find_writable(address: u64, len: usize) -> Result<Arc<Memory>, Code> {
    find_for(address, len, READ_WRITE)
}

fn find_for(address: u64, len: usize, access: c_int) -> Result<Arc<Memory>, Code> {
    let address = address as usize;
    let inside = |memory: &Arc<Memory>| {
        address - memory.address <= memory.len && len <= memory.len - (address - memory.address)
    };
    let allocated =
        lock(&ALLOCATED).range(..=address).next_back().map(|(_, memory)| Arc::clone(memory));
    let found = allocated
        .filter(inside)
        .or_else(|| blocks::mapped_at(address).filter(inside))
        .ok_or(INVALID_VALUE)?;
    if found.access.load(Ordering::Relaxed) & access != access {
        // On a GPU, a fault.
        VIOLATIONS.fetch_add(1, Ordering::Relaxed);
        return Err(INVALID_VALUE);
    }
    Ok(found)
}

pub(crate) fn count() -> u64 {
    lock(&ALLOCATED).len() as u64
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, len: usize) -> Code {
    code(enter("cuMemAlloc", Needs::Sound).and_then(|()| {
        if len == 0 {
            return Err(INVALID_VALUE);
        }
        let memory = Memory::new(len).ok_or(OUT_OF_MEMORY)?;
        // SAFETY: the caller's.
        unsafe { put(address, memory.address as u64)? };
        lock(&ALLOCATED).insert(memory.address, Arc::new(memory));
        Ok(())
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(address: u64) -> Code {
    code(enter("cuMemFree", Needs::Sound).and_then(|()| {
        streams::wait_for_all();
        lock(&ALLOCATED).remove(&(address as usize)).map(drop).ok_or(INVALID_VALUE)
    }))
}
