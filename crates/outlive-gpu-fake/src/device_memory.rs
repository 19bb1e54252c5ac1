//! "Device" memory: a memfd, mapped twice: out of the processor's reach where its address says that it is, and within reach for the
//! driver's own threads.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex};

use crate::contexts::put;
use crate::control::{Needs, enter};
use crate::{Code, INVALID_VALUE, OUT_OF_MEMORY, code, lock, streams};

/// One allocation. Stays as long as something that is enqueued needs it.
pub(crate) struct Memory {
    address: usize,
    within_reach: usize,
    len: usize,
}

static ALLOCATED: Mutex<BTreeMap<usize, Arc<Memory>>> = Mutex::new(BTreeMap::new());

impl Memory {
    fn new(len: usize) -> Option<Memory> {
        // SAFETY: plain system calls; the mappings touch no memory of ours.
        unsafe {
            let file = libc::memfd_create(c"fake device memory".as_ptr(), libc::MFD_CLOEXEC);
            if file < 0 {
                return None;
            }
            let map = |protection| {
                let at = libc::mmap(ptr::null_mut(), len, protection, libc::MAP_SHARED, file, 0);
                (at != libc::MAP_FAILED).then_some(at.addr())
            };
            let sized = libc::ftruncate(file, len as libc::off_t) == 0;
            let mapped = if sized { map(libc::PROT_NONE).zip(map(libc::PROT_READ | libc::PROT_WRITE)) } else { None };
            libc::close(file);
            mapped.map(|(address, within_reach)| Memory { address, within_reach, len })
        }
    }

    /// Where the driver's threads reach that address.
    pub(crate) fn at(&self, address: usize) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.within_reach + (address - self.address))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for at in [self.address, self.within_reach] {
            // SAFETY: mapped in `new`, and nothing that is enqueued needs it.
            unsafe { libc::munmap(ptr::without_provenance_mut::<c_void>(at), self.len) };
        }
    }
}

/// The allocation in which all of that lies.
pub(crate) fn find(address: u64, len: usize) -> Result<Arc<Memory>, Code> {
    let allocated = lock(&ALLOCATED);
    let address = address as usize;
    let found = allocated.range(..=address).next_back().map(|(_, memory)| memory);
    let inside = |memory: &&Arc<Memory>| {
        address - memory.address <= memory.len && len <= memory.len - (address - memory.address)
    };
    found.filter(inside).cloned().ok_or(INVALID_VALUE)
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
