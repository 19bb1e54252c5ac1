//! What a sleeper notes of its wait for others to read: nothing, where loom runs.

use super::registry::Registry;
use crate::sys::futex::Watch;

pub(super) struct Note;

impl Note {
    pub(super) fn begin(_: &Registry, _: Option<&Watch<'_>>) -> Option<Note> {
        None
    }

    pub(super) fn end(_: Option<Note>, _timed_out: bool) {}
}

pub(super) fn forget_if_woken() {}
