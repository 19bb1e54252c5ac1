//! Where payloads lie in a topic's file, for code that registers them with a device's driver.

use super::mapping::Inner;
use super::topic::Topic;
use crate::Payload;

/// A part of a topic's payload memory that gets and loses its pages as one, as this process has it
/// mapped; returned by [`Topic::memory_of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PayloadMemory {
    /// Where it begins: at a page.
    pub start: *const u8,
    /// How many bytes from there on have pages. It only grows as long as `generation` stays the
    /// same.
    pub bytes: usize,
    /// How many bytes may get pages.
    pub max_bytes: usize,
    /// Changes whenever its pages may have been given back to the
    /// system and replaced.
    pub generation: u64,
    /// Whether this process may write there: it lends memory in one mapping, and reads samples in
    /// another.
    pub is_writable: bool,
}

impl<M: Payload + ?Sized> Topic<M> {
    /// Returns the part of the topic's payload memory in which an address of a loan or a sample
    /// lies.
    ///
    /// The caller keeps the loan or sample meanwhile. `None`: the message is short, and lies
    /// elsewhere.
    ///
    /// This is for pinning memory for a device: pages are given back and replaced, and only
    /// `generation` tells the caller that has pinned them.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-memory-of-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::topic::Topic;
    /// let topic = Topic::<[u8]>::open_or_create(&domain, "camera")?;
    /// let publisher = topic.publisher()?;
    /// let loan = publisher.loan(3 << 20)?;
    /// let memory = topic.memory_of(loan.as_ptr()).unwrap();
    /// assert!(memory.is_writable && memory.start == loan.as_ptr() && memory.bytes >= 3 << 20);
    /// assert_eq!(topic.memory_of([0; 64].as_ptr()), None);
    /// # drop(loan);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn memory_of(&self, address: *const u8) -> Option<PayloadMemory> {
        self.inner.memory_of(address)
    }
}

impl Inner {
    fn memory_of(&self, address: *const u8) -> Option<PayloadMemory> {
        let (offset, is_writable) = match self.segment.offset_of(address.addr()) {
            Some(offset) => (offset, false),
            None => (self.written_at(address)?, true),
        };
        let unit = self.heap.unit_at(&self.segment, offset)?;
        Some(PayloadMemory {
            // Derived from the caller's address, so that it may be used as that one may.
            start: address.wrapping_sub((offset - unit.offset) as usize),
            bytes: unit.bytes as usize,
            max_bytes: unit.most as usize,
            generation: unit.generation,
            is_writable,
        })
    }
}
