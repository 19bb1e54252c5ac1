//! What a heap asks of the module whose memory it keeps. The loom model of the pool has it too.

/// The state of the message that a tag names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    There,
    /// Taken, by a living receiver that is about to free the object.
    BeingTaken,
    Gone,
}

/// The module that keeps its memory in a heap.
pub(crate) trait HeapHost {
    /// Returns whether the file may grow by that many bytes.
    fn allows(&self, more: u64) -> bool;

    /// Notes that a scan for memory met some in other hands: taken by a thread that has made it no
    /// message (yet), or, where the file system is full, in other files. If the scan finds nothing,
    /// the caller has to look again from time to time: the thread may let go of it or die without a
    /// wake, and nothing tells of other files.
    ///
    /// The scan itself notes it, for dead threads too. A question before the scan (which thread
    /// holds what?) would miss what was taken just afterwards; one after the scan, what was let go
    /// of just before.
    fn met_in_hand(&self);

    /// Notes that memory which was taken has become free again without being used: threads that
    /// wait for memory look again, sooner than they would.
    ///
    /// It is not called when memory was let go of because the file could not grow. Each of several
    /// threads that wait on a full file system takes something at each scan that it cannot use
    /// then: told of that, they would wake one another for ever.
    fn freed(&self);
}
