//! Huge pages, for those who ask: 2 MiB of memory that the processor finds by one entry of its tables, not by 512.
//!
//! A span is as large as a huge page and lies at a multiple of it, in the file and (as a rule) in memory. A process that
//! asks says so of all spans when it opens the pool; that is all that is needed where the file system is mounted with
//! `huge=advise` or `huge=within_size`. `/dev/shm` as a rule is not. So when a span's pages are all there, they are made one huge
//! page there and then (`MADV_COLLAPSE`, Linux 6.1), which the kernel does unless
//! `/sys/kernel/mm/transparent_hugepage/shmem_enabled` says `deny`; the bytes are copied by it, a fraction of a millisecond for a
//! span, while others go on using them. What others have mapped they find huge when they next touch it for the first time.
//!
//! Nothing depends on it: where it does not come about the pool is as it is without. `Pool::huge_bytes` says what has.
//! `hugetlbfs`, which keeps huge pages apart for those who mount it, is another thing and not used: it has no holes to punch.

use super::heap::{INDEX_BITS, ObjectRef, SPAN, Use};
use super::pool::{Inner, Pool};
use crate::Error;
use crate::shim::Ordering;
use crate::sys::map;

const _: () = assert!(SPAN as usize == map::HUGE);

impl Pool {
    /// Bytes of the pool that this process has mapped as huge pages.
    ///
    /// # Errors
    /// [`Error::System`] when `/proc/self/smaps` cannot be read.
    pub fn huge_bytes(&self) -> Result<u64, Error> {
        let segment = &self.inner.file.segment;
        // SAFETY: the mapping's beginning.
        let base = unsafe { segment.address(0) };
        map::huge_bytes(base, segment.mapped()).map_err(|error| {
            let errno = error.raw_os_error().map_or(rustix::io::Errno::IO, rustix::io::Errno::from_raw_os_error);
            Error::from_errno("read /proc/self/smaps for", segment.path(), errno)
        })
    }
}

impl Inner {
    /// All spans, when the pool is opened.
    pub(super) fn prefer_huge(&self) {
        let (from, to) = self.file.heap.spans_range(self.file.segment.mapped());
        if from < to {
            // SAFETY: inside the mapping.
            unsafe { map::prefer_huge(self.file.segment.address(from), (to - from) as usize) };
        }
    }

    /// The spans of an object that was not in a cache, if their pages are all there and have not been made huge by this
    /// process yet.
    #[cold]
    pub(super) fn make_huge(&self, object: &ObjectRef) -> Result<(), Error> {
        let (heap, segment) = (&self.file.heap, &self.file.segment);
        let index = object.reference >> INDEX_BITS;
        let span = heap.span(segment, index)?;
        let word = span.word();
        let whole = match word.what() {
            Use::Class(class) => {
                u32::from(heap.shape.layout(class).is_some_and(|layout| span.objects(word, layout) == layout.count))
            }
            Use::Run(first) if first == index => (span.run_bytes(word) / SPAN) as u32,
            _ => 0,
        };
        for index in index..index.saturating_add(whole).min(heap.spans) {
            let Some(made) = self.made_huge.get(index as usize / 64) else { break };
            let bit = 1 << (index % 64);
            let at = heap.span_offset(index);
            if made.fetch_or(bit, Ordering::Relaxed) & bit == 0 && at + SPAN <= segment.mapped() {
                // SAFETY: inside the mapping. Its pages may be given back meanwhile: then there is nothing to make huge.
                unsafe { map::make_huge(segment.address(at), SPAN as usize) };
            }
        }
        Ok(())
    }
}
