//! Bringing a job queue's memory in before it is used.

use super::inner::Inner;
use crate::Error;
use crate::segment::Resident;
use crate::sys::resident::Residency;

impl Resident for Inner {
    fn make_resident(&self, residency: Residency) -> Result<(), Error> {
        let slots = self.places.slot_at(self.table().len() as u32);
        self.segment.make_part_resident(0, slots, residency)
    }
}
