//! Where the buffers of a state lie.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU32 as StdAtomicU32;

use super::layout::{
    BUFFER_HEAD, BUFFERS_AT, FIXED_SIZE, FOREIGN, HEAD_AT, LEAST_BUFFERS, MOST_BUFFERS, MOST_BYTES,
    StateHead, buffer_bytes,
};
use crate::Error;
use crate::segment::Segment;
use crate::shim::{AtomicU64, Ordering};

/// A state's file, with its constant words read once and checked.
pub(super) struct Buffers {
    pub(super) segment: Segment,
    head: NonNull<StateHead>,
    first: NonNull<u8>,
    /// Bytes from one buffer to the next, and how many of them are for the value.
    step: usize,
    capacity: usize,
    is_fixed: bool,
    unit: usize,
    base: usize,
    /// Buffers that this process has found to exist.
    reach: StdAtomicU32,
}

// SAFETY: it holds a pointer into the mapping that its own `segment` keeps, to atomics only.
unsafe impl Send for Buffers {}
// SAFETY: a shared reference gives access to atomics only.
unsafe impl Sync for Buffers {}

/// One buffer: its words in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Buffer<'a> {
    pub(super) stamp: &'a AtomicU64,
    pub(super) len: &'a AtomicU64,
    pub(super) words: &'a [AtomicU64],
}

impl Buffer<'_> {
    /// Returns the value's length as it stands there. Readers check that it is no more than a value may have.
    #[inline]
    pub(super) fn len(self) -> usize {
        (self.len.load(Ordering::Relaxed) & !FOREIGN) as usize
    }
}

impl Buffers {
    /// Returns how many buffers of that size a new file has: what its pages hold anyway, and four
    /// at least.
    pub(super) fn at_first(capacity: u64) -> u32 {
        let page = crate::sys::map::PAGE;
        let needed = BUFFERS_AT + u64::from(LEAST_BUFFERS) * buffer_bytes(capacity);
        let fit = (needed.next_multiple_of(page) - BUFFERS_AT) / buffer_bytes(capacity);
        (fit as u32).clamp(LEAST_BUFFERS, MOST_BUFFERS)
    }

    pub(super) fn new(segment: Segment) -> Result<Buffers, Error> {
        let head: &StateHead = segment.at(HEAD_AT)?;
        let capacity = head.capacity.load(Ordering::Relaxed);
        if capacity > MOST_BYTES {
            return Err(segment.damaged("a state's size"));
        }
        let unit = head.unit.load(Ordering::Relaxed).max(1) as usize;
        let base = head.base.load(Ordering::Relaxed) as usize;
        let is_fixed = head.options.load(Ordering::Relaxed) & FIXED_SIZE != 0;
        let step = buffer_bytes(capacity);
        segment.exists(BUFFERS_AT + u64::from(LEAST_BUFFERS) * step)?;
        let head = NonNull::from(head);
        // SAFETY: `exists` has found that it lies inside the mapping, whose address is not null.
        let first = unsafe { NonNull::new_unchecked(segment.address(BUFFERS_AT)) };
        let reach = StdAtomicU32::new(LEAST_BUFFERS);
        Ok(Buffers {
            segment,
            head,
            first,
            step: step as usize,
            capacity: capacity as usize,
            is_fixed,
            unit,
            base,
            reach,
        })
    }

    #[inline]
    pub(super) fn head(&self) -> &StateHead {
        // SAFETY: `new` has checked the head's range; it is mapped as long as `segment` is.
        unsafe { self.head.as_ref() }
    }

    /// Returns the most bytes of a value.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns whether all values have that size.
    #[inline]
    pub(super) fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    /// Returns the next length that a value can have, if it cannot have this one.
    #[inline]
    pub(super) fn wanted_length(&self, len: usize) -> Option<usize> {
        if (self.unit, self.base) == (1, 0) {
            return None;
        }
        let items = len.saturating_sub(self.base).next_multiple_of(self.unit);
        let wanted = self.base.saturating_add(items);
        (wanted != len).then_some(wanted)
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Result<Buffer<'_>, Error> {
        // Relaxed: a file does not shrink, so an older figure is only too low.
        if index >= self.reach.load(Ordering::Relaxed) {
            self.reach_slow(index)?;
        }
        // SAFETY: the file and the mapping reach beyond that buffer, as `reach` says; 64-aligned,
        // as the first buffer and the step are; all atomics.
        unsafe {
            let at = self.first.add(index as usize * self.step);
            let words = at.add(BUFFER_HEAD as usize).cast::<AtomicU64>();
            Ok(Buffer {
                stamp: at.cast::<AtomicU64>().as_ref(),
                len: at.add(8).cast::<AtomicU64>().as_ref(),
                words: core::slice::from_raw_parts(words.as_ptr(), self.capacity.div_ceil(8)),
            })
        }
    }

    #[cold]
    fn reach_slow(&self, index: u32) -> Result<(), Error> {
        if index >= MOST_BUFFERS {
            return Err(self.segment.damaged("a buffer's number"));
        }
        self.segment.exists(BUFFERS_AT + u64::from(index + 1) * self.step as u64)?;
        self.reach.fetch_max(index + 1, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the buffer of that number.
    #[cold]
    pub(super) fn make(&self, index: u32) -> Result<(), Error> {
        // If this process died just after, the buffer exists and `count` does not count it; the
        // next writer makes it again.
        self.segment.grow(BUFFERS_AT + u64::from(index) * self.step as u64, self.step as u64)
    }
}
