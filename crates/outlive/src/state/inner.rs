//! What all handles of one opening have in common.

use super::buffers::Buffers;
use crate::liveness::Registry;
use crate::wake::SpinWait;

/// See the file's head.
pub(crate) struct Inner {
    pub(super) buffers: Buffers,
    pub(super) registry: &'static Registry,
    pub(super) spin_wait: SpinWait,
}
