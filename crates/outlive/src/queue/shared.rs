//! What all handles of one opening have in common.

use super::ring::Ring;
use crate::liveness::{Patience, Registry};

/// See the file's head.
pub(crate) struct Shared {
    pub(super) ring: Ring,
    pub(super) registry: &'static Registry,
    pub(super) patience: Patience,
    pub(super) refuse_without_reader: bool,
}
