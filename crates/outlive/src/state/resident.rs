//! Bringing a state's memory in before it is used.

use super::inner::Inner;
use super::layout::{BUFFERS_AT, MOST_BUFFERS, buffer_bytes};
use crate::Error;
use crate::segment::Resident;
use crate::shim::Ordering;
use crate::sys::resident::Residency;

impl Resident for Inner {
    fn make_resident(&self, residency: Residency) -> Result<(), Error> {
        let buffers = &self.buffers;
        let count = buffers.head().count.load(Ordering::Acquire).min(MOST_BUFFERS);
        let bytes = u64::from(count) * buffer_bytes(buffers.capacity() as u64);
        buffers.segment.make_part_resident(0, BUFFERS_AT + bytes, residency)
    }
}
