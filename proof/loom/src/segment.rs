//! What the queue's code asks of a segment, where loom runs it: nothing but names for errors.

#[path = "../../../crates/outlive/src/segment/copy.rs"]
mod copy;

use std::path::Path;

pub(crate) use copy::{copy_in, copy_out};

use crate::Error;

/// Where a file's own words begin.
pub(crate) const BODY: u64 = 12_288;
/// The most bytes of a description.
pub(crate) const MOST_PAGE_BYTES: usize = 4080;

/// # Safety
/// None: nothing is mapped here.
pub(crate) unsafe trait SharedLayout {}

pub(crate) struct Segment;

impl Segment {
    pub(crate) fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { path: self.path().to_path_buf(), what }
    }

    pub(crate) fn path(&self) -> &Path {
        Path::new("loom")
    }

    pub(crate) fn facts(&self) -> Result<&Segment, Error> {
        Ok(self)
    }

    pub(crate) fn identity(&self) -> (u64, u64) {
        (0, 0)
    }

    pub(crate) fn header(&self) -> &Segment {
        self
    }

    pub(crate) fn max_bytes(&self) -> u64 {
        0
    }

    /// # Safety
    /// Never called: messages are small under loom.
    pub(crate) unsafe fn address(&self, _offset: u64) -> *mut u8 {
        core::ptr::null_mut()
    }
}
