//! Bringing a notifier's memory in before it is used.

use super::inner::Inner;
use super::layout::{INITIAL, listener_at};
use crate::Error;
use crate::segment::Resident;
use crate::sys::resident::Residency;

impl Resident for Inner {
    fn make_resident(&self, residency: Residency) -> Result<(), Error> {
        let end = listener_at(self.listener_count()).max(INITIAL);
        self.segment.make_part_resident(0, end, residency)
    }
}
