//! What this process has open, by domain: for bringing its memory in before it is used, all of it at
//! once.
//!
//! This is private memory, and the list names things weakly: it keeps none of them open.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::segment::Segment;
use crate::Error;
use crate::sys::resident::Residency;

/// What has memory in a domain's files.
pub(crate) trait Resident: Send + Sync {
    /// Makes all of its memory resident whose pages exist in the file.
    fn make_resident(&self, residency: Residency) -> Result<(), Error>;
}

/// A file that is used from its beginning to its end.
impl Resident for Segment {
    fn make_resident(&self, residency: Residency) -> Result<(), Error> {
        self.make_part_resident(0, self.facts()?.len.min(self.mapped()), residency)
    }
}

/// What is open, and of which domain: the number of its registry in this process.
struct Opened {
    things: Vec<(usize, Weak<dyn Resident>)>,
    /// At how many entries those of closed things are next removed.
    look_at: usize,
}

static OPENED: Mutex<Opened> = Mutex::new(Opened { things: Vec::new(), look_at: 64 });

/// Notes that this process has opened something in the domain of that number.
#[cold]
pub(crate) fn note_opened(domain: usize, thing: &Arc<impl Resident + 'static>) {
    // As with malloc: a child forked while a thread is in here must not come here before exec.
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if opened.things.len() >= opened.look_at {
        opened.things.retain(|(_, thing)| thing.strong_count() > 0);
        opened.look_at = (2 * opened.things.len()).max(64);
    }
    let thing = Arc::downgrade(thing) as Weak<dyn Resident>;
    opened.things.push((domain, thing));
}

/// Makes the memory of all that this process has open in the domain of that number resident.
pub(crate) fn make_opened_resident(domain: usize, residency: Residency) -> Result<(), Error> {
    let things: Vec<Arc<dyn Resident>> = {
        let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let of_domain = opened.things.iter().filter(|(of, _)| *of == domain);
        of_domain.filter_map(|(_, thing)| thing.upgrade()).collect()
    };
    things.iter().try_for_each(|thing| thing.make_resident(residency))
}
