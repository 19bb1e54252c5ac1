//! Units: the parts of a heap's memory that get and lose their pages as one, for code that
//! registers them with a device's driver.

use super::Heap;
use super::span::{SPAN, Use};
use crate::segment::Segment;
use crate::shim::Ordering;

/// A span of objects of one class, or a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Where it begins in the segment: at a span.
    pub(crate) offset: u64,
    /// Bytes of it that have pages.
    pub(crate) bytes: u64,
    /// Bytes of it that may get pages.
    pub(crate) most: u64,
    /// The first span's word: as long as it is the same, so are the pages.
    pub(crate) generation: u64,
}

impl Heap {
    /// Returns the unit in which that offset lies. The caller has an object in it, so it stays what
    /// it is.
    pub(crate) fn unit_at(&self, segment: &Segment, offset: u64) -> Option<Unit> {
        let index = u32::try_from(offset.checked_sub(self.span_offset(0))? / SPAN).ok()?;
        let (first, word) = match self.span(segment, index).ok()?.word() {
            word if matches!(word.what(), Use::Class(_)) => (index, word),
            word => match word.what() {
                Use::Run(first) if first <= index => {
                    (first, self.span(segment, first).ok()?.word())
                }
                _ => return None,
            },
        };
        let span = self.span(segment, first).ok()?;
        let (bytes, most) = match word.what() {
            Use::Class(class) => {
                let layout = self.shape.layout(class)?;
                (u64::from(span.objects(word, layout)) * layout.size, SPAN)
            }
            Use::Run(own) if own == first => {
                let spans = span.spans.load(Ordering::Acquire).min(self.spans - first);
                (span.run_bytes(word), u64::from(spans) * SPAN)
            }
            _ => return None,
        };
        let unit = Unit {
            offset: self.span_offset(first),
            bytes: bytes.min(most),
            most,
            generation: word.raw(),
        };
        // A damaged count must not lead behind the end of the file.
        segment.exists(unit.offset + unit.bytes).ok()?;
        (offset < unit.offset + unit.bytes).then_some(unit)
    }
}
