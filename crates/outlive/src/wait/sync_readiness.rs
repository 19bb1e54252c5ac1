//! Events and latches as sources: bits that are set, a latch that is open.

use std::sync::Arc;

use super::source::{Announced, Look, Readiness, Source, Waited, Watched};
use crate::Error;
use crate::sync::{Event, EventReadiness, Latch};
use crate::wake::WaitWords;

/// Some bits of an event, to wait for in a [`WaitSet`](super::WaitSet): see [`Event::any_of`] and [`Event::all_of`].
#[derive(Clone)]
pub struct Bits(EventReadiness);

impl Event {
    /// Any of these bits, for a [`WaitSet`](crate::wait::WaitSet): ready as long as one is set. The set takes none, also with
    /// [`Reset::Automatic`](crate::sync::Reset::Automatic): [`Event::try_wait_any`] does.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-any-of-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::{sync::{Event, Reset}, wait::WaitSet};
    /// let event = Event::open(&domain, "arm", Reset::Manual)?;
    /// let mut set = WaitSet::new(&domain);
    /// let moved = set.add(&event.any_of(0b11))?;
    /// event.set(0b10);
    /// assert_eq!(set.wait(outlive::Deadline::NEVER)?.next().unwrap().0, moved);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn any_of(&self, bits: u32) -> Bits {
        Bits(self.readiness(bits, false))
    }

    /// All of these bits at once: as [`Event::any_of`].
    pub fn all_of(&self, bits: u32) -> Bits {
        Bits(self.readiness(bits, true))
    }
}

impl Source for Bits {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched { registry: Some(self.0.registry()), waited: Arc::new(self.0.clone()) })
    }
}

/// Ready once it is open.
impl Source for Latch {
    fn watched(&self) -> Result<Watched, Error> {
        let readiness = self.readiness();
        Ok(Watched { registry: Some(readiness.registry()), waited: Arc::new(readiness) })
    }
}

impl Waited for EventReadiness {
    fn look(&self) -> Look {
        if self.is_open() { Look::Ready(Readiness::Set) } else { Look::Nothing }
    }

    /// Whoever changes its word wakes in the same step: no eventcount, and no look by itself.
    fn add_words<'a>(&'a self, _: &mut Announced, words: &mut WaitWords<'a>) {
        words.add(&[self.watch()]);
    }
}
