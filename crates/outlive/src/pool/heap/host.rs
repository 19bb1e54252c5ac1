//! What a pool asks of those whose memory it keeps. The loom model of the pool has it too.

/// Where the message at a place is, whose object a tag says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    There,
    /// Taken, by a receiver that lives and is about to free the object.
    BeingTaken,
    Gone,
}

/// What surrounds a pool.
pub(crate) trait HeapHost {
    /// Whether the file may grow by that many bytes.
    fn allows(&self, more: u64) -> bool;

    /// A scan for memory met some that is in another's hands: in a thread's, which has taken it and
    /// made it no message (yet), or, where the file system is full, in other files. If the scan
    /// comes to nothing, look again by and by, without being told: the thread may let go of it or
    /// die, and of other files nobody tells.
    ///
    /// Noted by the scan itself, and of the dead too. Asked before the scan (who holds what?), the
    /// answer misses what was taken just afterwards; asked after it, what was let go of just
    /// before.
    fn met_in_hand(&self);

    /// Memory that was taken has become free again without being used: those who wait for memory look again, sooner than
    /// they would.
    ///
    /// Not called when memory was let go of because the file could not grow. Each of several who
    /// wait on a full file system takes something at each scan that it cannot use then: told of
    /// that, they would wake one another for ever.
    fn freed(&self);
}
