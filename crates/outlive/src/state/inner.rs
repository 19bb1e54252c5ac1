//! What all handles of one opened state share.

use super::buffers::Buffers;
use crate::liveness::Registry;
use crate::wake::SpinWait;

/// See the head of this file.
pub(crate) struct Inner {
    pub(super) buffers: Buffers,
    pub(super) registry: &'static Registry,
    pub(super) spin_wait: SpinWait,
}
