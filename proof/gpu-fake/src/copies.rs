//! Copies, done by streams in chunks.

use std::ffi::c_void;
use std::ptr;

use crate::control::{self, Needs, enter};
use crate::host_memory::{Road, road};
use crate::streams::Step;
use crate::{Code, code, device_memory, streams};

/// Copies are seen half done.
const CHUNK: usize = 64 << 10;

/// Addresses, wherever they go.
#[derive(Clone, Copy)]
struct Ends {
    to: *mut u8,
    from: *const u8,
    len: usize,
}

// SAFETY: memory that both sides have promised to leave alone until the copy is over.
unsafe impl Send for Ends {}

impl Ends {
    fn copy(self) {
        for at in (0..self.len).step_by(CHUNK) {
            let len = CHUNK.min(self.len - at);
            // SAFETY: inside both, as was seen when it was enqueued.
            unsafe { ptr::copy_nonoverlapping(self.from.add(at), self.to.add(at), len) };
            control::rest();
        }
    }
}

/// Enqueues a copy, or does at once what goes through the driver's own buffers.
fn copy(
    stream: *mut c_void,
    road: Road,
    memory: std::sync::Arc<device_memory::Memory>,
    ends: Ends,
) -> Result<(), Code> {
    let stream = streams::find(stream)?;
    stream.enqueue(Step::Do(Box::new(move || {
        // As a whole: its fields alone may not be sent.
        let ends = ends;
        ends.copy();
        drop(memory);
    })));
    if road == Road::Buffered {
        stream.wait();
    }
    Ok(())
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    len: usize,
    stream: *mut c_void,
) -> Code {
    code(enter("cuMemcpyHtoDAsync", Needs::Sound).and_then(|()| {
        let memory = device_memory::find_writable(to, len)?;
        let road = road(from.addr(), len, false)?;
        let ends = Ends { to: memory.at(to as usize), from: from.cast(), len };
        copy(stream, road, memory, ends)
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    len: usize,
    stream: *mut c_void,
) -> Code {
    code(enter("cuMemcpyDtoHAsync", Needs::Sound).and_then(|()| {
        let memory = device_memory::find(from, len)?;
        let road = road(to.addr(), len, true)?;
        let ends = Ends { to: to.cast(), from: memory.at(from as usize), len };
        copy(stream, road, memory, ends)
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8Async(
    at: u64,
    byte: u8,
    len: usize,
    stream: *mut c_void,
) -> Code {
    code(enter("cuMemsetD8Async", Needs::Sound).and_then(|()| {
        let memory = device_memory::find_writable(at, len)?;
        streams::find(stream)?.enqueue(Step::Do(Box::new(move || {
            // SAFETY: inside the allocation.
            unsafe { ptr::write_bytes(memory.at(at as usize), byte, len) };
        })));
        Ok(())
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    to: u64,
    from: u64,
    len: usize,
    stream: *mut c_void,
) -> Code {
    code(enter("cuMemcpyDtoDAsync", Needs::Sound).and_then(|()| {
        let (source, target) =
            (device_memory::find(from, len)?, device_memory::find_writable(to, len)?);
        let ends = Ends { to: target.at(to as usize), from: source.at(from as usize), len };
        streams::find(stream)?.enqueue(Step::Do(Box::new(move || {
            let ends = ends;
            ends.copy();
            drop((source, target));
        })));
        Ok(())
    }))
}
