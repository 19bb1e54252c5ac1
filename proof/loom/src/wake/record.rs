//! What a sleeper notes of its wait for others to read: nothing, where loom runs.

use crate::liveness::Registry;
use crate::sys::futex::Watch;

pub(super) struct WaitRecord;

impl WaitRecord {
    pub(super) fn begin(_: &Registry, _: Option<&Watch<'_>>) -> Option<WaitRecord> {
        None
    }

    pub(super) fn end(_: Option<WaitRecord>, _timed_out: bool) {}
}

pub(super) fn forget_if_woken() {}
