//! Where payloads lie in this process, for those who tell a device's driver.

use super::file::Shared;
use super::message::Message;
use super::topic::Topic;

/// A part of a topic's payload memory that comes and goes as one, as this process has it mapped: of [`Topic::memory_of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PayloadMemory {
    /// Where it begins: at a page.
    pub start: *const u8,
    /// How many bytes from there on have pages. It only grows as long as `life` is the same.
    pub bytes: usize,
    /// How many bytes may come to have some.
    pub most: usize,
    /// Another number whenever its pages may have been given back to the system and are others now.
    pub life: u64,
    /// Whether this process may write there: it lends memory in one mapping, and reads samples in another.
    pub is_writable: bool,
}

impl<M: Message + ?Sized> Topic<M> {
    /// The part of the topic's payload memory in which an address lies: of a loan, or of a sample, which the caller has and keeps
    /// meanwhile. `None`: the message is a short one, and lies elsewhere.
    ///
    /// For pinning memory for a device: pages are given back and come anew, and who has pinned them does not see it but by `life`.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-memory-of-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::topic::Topic;
    /// let topic = Topic::<[u8]>::open(&domain, "camera")?;
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
        self.shared.memory_of(address)
    }
}

impl Shared {
    fn memory_of(&self, address: *const u8) -> Option<PayloadMemory> {
        let (offset, is_writable) = match self.segment.offset_of(address.addr()) {
            Some(offset) => (offset, false),
            None => (self.written_at(address)?, true),
        };
        let unit = self.heap.unit_at(&self.segment, offset)?;
        Some(PayloadMemory {
            // From the address that was asked for, so that it may be used as that one may.
            start: address.wrapping_sub((offset - unit.offset) as usize),
            bytes: unit.bytes as usize,
            most: unit.most as usize,
            life: unit.generation,
            is_writable,
        })
    }
}
