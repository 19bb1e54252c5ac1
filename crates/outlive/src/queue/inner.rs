//! What all handles of one opened queue share.

use super::ring::Ring;
use crate::liveness::Registry;
use crate::wake::SpinWait;

/// See the file's head.
pub(crate) struct Inner {
    pub(super) ring: Ring,
    pub(super) registry: &'static Registry,
    pub(super) spin_wait: SpinWait,
    pub(super) need_receiver: bool,
}
