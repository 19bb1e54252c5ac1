//! An object's redzone: a canary behind the bytes that were asked for, and the record of its
//! caller.
//!
//! ```text
//! 0              len                       capacity - 96      capacity
//! +---------------+-------------------------+------------------+
//! | the user's    | canary, 8 bytes or more | caller           |
//! +---------------+-------------------------+------------------+
//! ```

use core::panic::Location;

use super::fault::Caller;
use super::poison::{self, Difference};
use crate::liveness::{Me, Registry};
use crate::pool::file::ObjectPtr;
use crate::segment::fnv_1a;

/// Bytes of the caller's record.
pub(in crate::pool) const TAIL: usize = size_of::<Tail>();
/// The extra bytes of an object with a redzone.
pub(in crate::pool) const REDZONE: usize = TAIL + 8;

/// The record of the caller that took an object, at the object's end.
#[repr(C)]
#[derive(Clone, Copy)]
struct Tail {
    /// A checksum of all that follows, and of the object's reference.
    check: u64,
    pid: u32,
    tid: u32,
    line: u32,
    len: u32,
    program: [u8; 16],
    /// The end of the file's name.
    file: [u8; 56],
}

const _: () = assert!(TAIL == 96 && align_of::<Tail>() == 8);

/// Returns the end of a text, in so many bytes, filled up with zeroes.
fn end_of<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let end = &text.as_bytes()[text.len().saturating_sub(N)..];
    bytes[..end.len()].copy_from_slice(end);
    bytes
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl Tail {
    fn sum(&self, reference: u32) -> u64 {
        let words = [self.pid, self.tid, self.line, self.len, reference];
        let bytes =
            words.iter().flat_map(|word| word.to_ne_bytes()).chain(self.program).chain(self.file);
        fnv_1a(bytes)
    }

    fn from_bytes(bytes: &[u8; TAIL]) -> Tail {
        // SAFETY: any bytes are a tail: integers, and arrays of them.
        unsafe { bytes.as_ptr().cast::<Tail>().read_unaligned() }
    }

    fn caller(&self, reference: u32) -> Option<Caller> {
        (self.check == self.sum(reference)).then(|| Caller {
            pid: self.pid,
            tid: self.tid,
            program: text(&self.program),
            file: text(&self.file),
            line: self.line,
            len: self.len as usize,
        })
    }
}

/// Returns the caller that took an object, from its last bytes; `None` when they were overwritten.
pub(in crate::pool) fn caller_from(bytes: &[u8; TAIL], reference: u32) -> Option<Caller> {
    Tail::from_bytes(bytes).caller(reference)
}

/// Returns the caller of an object that is within reach.
///
/// # Safety
/// The caller may read the object's bytes, of which there are at least [`TAIL`].
pub(super) unsafe fn caller(ptr: &ObjectPtr) -> Option<Caller> {
    let at = (ptr.capacity as usize).checked_sub(TAIL)?;
    let mut bytes = [0; TAIL];
    for (place, byte) in bytes.iter_mut().enumerate() {
        // SAFETY: inside the object, which the caller may read. Volatile: a thread that may not
        // write there may be doing so just now.
        *byte = unsafe { ptr.data.add(at + place).read_volatile() };
    }
    caller_from(&bytes, ptr.reference)
}

/// Writes the canary and the caller's record.
///
/// # Safety
/// The caller owns the object, which has `len` and [`REDZONE`] bytes.
pub(super) unsafe fn write(
    ptr: &ObjectPtr,
    len: usize,
    registry: &'static Registry,
    me: Me,
    at: &Location<'static>,
) {
    let info = registry.info(me.id.slot()).filter(|info| info.id == me.id);
    let program = info.as_ref().map_or("", |info| info.program.as_str());
    let mut tail = Tail {
        check: 0,
        pid: info.as_ref().map_or(0, |info| info.pid),
        tid: info.as_ref().map_or(0, |info| info.tid),
        line: at.line(),
        len: len as u32,
        program: end_of(program),
        file: end_of(at.file()),
    };
    tail.check = tail.sum(ptr.reference);
    let end = ptr.capacity as usize - TAIL;
    // SAFETY: the caller owns the object and its bytes. Sizes are multiples of 16, and objects
    // begin at such, so the tail is aligned.
    unsafe {
        poison::fill(ptr.data, ptr.reference, len, end);
        ptr.data.add(end).cast::<Tail>().write(tail);
    }
}

/// Returns where the redzone differs from what was written.
///
/// # Safety
/// The caller may read the object, which has `len` and [`REDZONE`] bytes.
pub(super) unsafe fn compare(ptr: &ObjectPtr, len: usize) -> Option<Difference> {
    let end = ptr.capacity as usize - TAIL;
    // SAFETY: the caller may read the object up to `end`, which is below its capacity.
    let difference = unsafe { poison::compare(ptr.data, ptr.reference, len, end) };
    // SAFETY: the caller may read the object, which has at least TAIL bytes.
    let tail_is_whole = unsafe { caller(ptr) }.is_some_and(|caller| caller.len == len);
    // The checksum does not say which byte of it has changed.
    difference.or_else(|| {
        (!tail_is_whole).then_some(Difference { offset: end, expected: 0, found: 0, bytes: 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_tells_who_and_when_it_was_written_over() {
        let mut tail = Tail {
            check: 0,
            pid: 1,
            tid: 2,
            line: 3,
            len: 4,
            program: end_of("prog"),
            file: end_of(&format!("{}main.rs", "long/".repeat(30))),
        };
        tail.check = tail.sum(9);
        // SAFETY: integers, and arrays of them, without padding.
        let mut bytes: [u8; TAIL] = unsafe { core::mem::transmute(tail) };
        let caller = caller_from(&bytes, 9).expect("whole");
        assert_eq!((caller.pid, caller.tid, caller.line, caller.len), (1, 2, 3, 4));
        assert_eq!(caller.program, "prog");
        assert!(caller.file.ends_with("long/main.rs") && caller.file.len() == 56);
        assert!(caller_from(&bytes, 8).is_none(), "of another object");
        for at in 0..TAIL {
            bytes[at] ^= 1;
            assert!(caller_from(&bytes, 9).is_none(), "byte {at}");
            bytes[at] ^= 1;
        }
    }
}
