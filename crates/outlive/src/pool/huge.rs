//! Huge pages, on request: 2 MiB of memory that the processor finds by one entry of its tables, not
//! by 512.
//!
//! A span is as large as a huge page and lies at a multiple of it, in the file and (usually) in
//! memory. A process that asks for huge pages advises all spans when it opens the pool; where the
//! file system is mounted with `huge=advise` or `huge=within_size`, that is enough. `/dev/shm`
//! usually is not. So when a span's pages are all there, they are made one huge page at once
//! (`MADV_COLLAPSE`, Linux 6.1), which the kernel does unless
//! `/sys/kernel/mm/transparent_hugepage/shmem_enabled` says `deny`. The kernel copies the bytes, in
//! a fraction of a millisecond for a span, while other threads go on using them. Other processes
//! get the huge page when they next touch it for the first time.
//!
//! Nothing depends on it: where the kernel makes no huge pages, the pool works as without.
//! `Pool::huge_bytes` returns how many there are. `hugetlbfs`, which reserves huge pages for its
//! mounts, is not used: it cannot punch holes.

use super::heap::{INDEX_BITS, ObjectRef, SPAN, Use};
use super::inner::Inner;
use super::pool::Pool;
use crate::Error;
use crate::shim::Ordering;
use crate::sys::map;

const _: () = assert!(SPAN as usize == map::HUGE);

impl Pool {
    /// Returns how many bytes of the pool this process has mapped as huge pages.
    ///
    /// # Errors
    /// [`Error::System`] when `/proc/self/smaps` cannot be read.
    pub fn huge_bytes(&self) -> Result<u64, Error> {
        let segment = &self.inner.file.segment;
        // SAFETY: offset 0 is the mapping's beginning.
        let base = unsafe { segment.address(0) };
        map::huge_bytes(base, segment.mapped()).map_err(|error| {
            let errno = error
                .raw_os_error()
                .map_or(rustix::io::Errno::IO, rustix::io::Errno::from_raw_os_error);
            Error::from_errno("read /proc/self/smaps for", segment.path(), errno)
        })
    }
}

impl Inner {
    /// Advises all spans, when the pool is opened.
    pub(super) fn prefer_huge(&self) {
        let (from, to) = self.file.heap.spans_range(self.file.segment.mapped());
        if from < to {
            // SAFETY: `from` and `to` lie inside the mapping.
            unsafe { map::prefer_huge(self.file.segment.address(from), (to - from) as usize) };
        }
    }

    /// Makes the spans of an object huge that was not in a cache, if their pages are all there and
    /// this process has not done so yet.
    #[cold]
    pub(super) fn make_huge(&self, object: &ObjectRef) -> Result<(), Error> {
        let (heap, segment) = (&self.file.heap, &self.file.segment);
        let index = object.reference >> INDEX_BITS;
        let span = heap.span(segment, index)?;
        let word = span.word();
        let whole = match word.what() {
            Use::Class(class) => u32::from(
                heap.shape
                    .layout(class)
                    .is_some_and(|layout| span.objects(word, layout) == layout.count),
            ),
            Use::Run(first) if first == index => (span.run_bytes(word) / SPAN) as u32,
            _ => 0,
        };
        for index in index..index.saturating_add(whole).min(heap.spans) {
            let Some(made) = self.made_huge.get(index as usize / 64) else { break };
            let bit = 1 << (index % 64);
            let at = heap.span_offset(index);
            if made.fetch_or(bit, Ordering::Relaxed) & bit == 0 && at + SPAN <= segment.mapped() {
                // SAFETY: the span lies inside the mapping. If its pages are given back meanwhile,
                // there is nothing to make huge.
                unsafe { map::make_huge(segment.address(at), SPAN as usize) };
            }
        }
        Ok(())
    }
}
