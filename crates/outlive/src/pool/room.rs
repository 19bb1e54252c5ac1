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
pub(crate) trait Room {
    /// Whether the file may grow by that many bytes.
    fn allows(&self, more: u64) -> bool;

    /// Memory that was taken has become free again without being used: those who wait for memory look again.
    fn freed(&self);
}
