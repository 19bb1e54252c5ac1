//! Bringing a heap's memory in before it is used.

use super::span::Use;
use super::{Heap, PAGE};
use crate::Error;
use crate::segment::Segment;
use crate::shim::Ordering;
use crate::sys::resident::Residency;

impl Heap {
    /// Makes the heap's own words and all tags resident, and passes on where its objects lie that
    /// there are, in pieces: where they are mapped is the caller's business.
    ///
    /// A span that another thread takes meanwhile, or takes apart, is left out, or has got pages
    /// that it did not need; nothing depends on it.
    pub(crate) fn make_resident(
        &self,
        segment: &Segment,
        residency: Residency,
        mut objects: impl FnMut(u64, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let used = self.used_spans(segment)?;
        // The entry behind the last one, too: a scan for memory looks at it. Its page exists then.
        if self.spans > 0 {
            self.span(segment, used.min(self.spans - 1))?;
        }
        let control = self.control_known.load(Ordering::Relaxed);
        segment.make_part_resident(self.control, control, residency)?;
        for index in 0..used {
            let span = self.span(segment, index)?;
            let word = span.word();
            let (tags, bytes) = match word.what() {
                Use::Class(class) => self.shape.layout(class).map_or((0, 0), |layout| {
                    let count = span.objects(word, layout);
                    (layout.tag_bytes(count), layout.object_bytes(count))
                }),
                Use::Run(first) if first == index => (PAGE, span.run_bytes(word)),
                _ => (0, 0),
            };
            segment.make_part_resident(self.tags_offset(index), tags, residency)?;
            if bytes > 0 {
                objects(self.span_offset(index), bytes)?;
            }
        }
        Ok(())
    }
}
