//! Events and latches as sources of a wait set: an event with certain bits set, an open latch.

use super::event::{Event, Latch};
use super::primitive::Handle;
use super::raw::event::{EventWord, Opens};
use crate::Error;
use crate::liveness::Registry;
use crate::wake::{PreparedWait, Readiness, Source, SourceState, WaitWords, Waited, Watched};

/// Names some bits of an event, to wait for in a [`WaitSet`](crate::wait::WaitSet): see
/// [`Event::any_of`] and [`Event::all_of`].
#[derive(Clone)]
pub struct Bits(EventReadiness);

impl Event {
    /// Returns a source for a [`WaitSet`](crate::wait::WaitSet) that is ready as long as one of
    /// these bits is set. (A bit that is set and cleared again before the set looks does not make
    /// it ready.) The set clears no bits, not even with
    /// [`Reset::Automatic`](crate::sync::Reset::Automatic): [`Event::try_wait_any`] does.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-any-of-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::{sync::Event, wait::WaitSet};
    /// let event = Event::open_or_create(&domain, "arm")?;
    /// let mut set = WaitSet::new(&domain);
    /// let moved = set.add(&event.any_of(0b11))?;
    /// event.set(0b10);
    /// assert_eq!(set.wait()?.next().unwrap().0, moved);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn any_of(&self, bits: u32) -> Bits {
        Bits(self.readiness(bits, false))
    }

    /// Returns a source that is ready as long as all of these bits are set: see [`Event::any_of`].
    pub fn all_of(&self, bits: u32) -> Bits {
        Bits(self.readiness(bits, true))
    }
}

impl Source for Bits {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched::of(self.0.clone(), self.0.registry()))
    }
}

/// Ready once the latch is open.
impl Source for Latch {
    fn watched(&self) -> Result<Watched, Error> {
        let readiness = self.readiness();
        let registry = readiness.registry();
        Ok(Watched::of(readiness, registry))
    }
}

/// An event or a latch as a wait set sees it: open or not, and the word to sleep on. It keeps the
/// word mapped.
#[derive(Clone)]
pub(crate) struct EventReadiness {
    handle: Handle<EventWord>,
    opens: Opens,
}

impl EventReadiness {
    pub(super) fn new(handle: Handle<EventWord>, opens: Opens) -> EventReadiness {
        EventReadiness { handle, opens }
    }

    fn registry(&self) -> &'static Registry {
        self.handle.registry()
    }
}

impl Waited for EventReadiness {
    fn look(&self) -> SourceState {
        match self.opens.at(self.handle.shared().value()) {
            true => SourceState::Ready(Readiness::Set),
            false => SourceState::Waiting,
        }
    }

    /// The process that changes the word wakes in the same step: no eventcount, and no recheck.
    fn add_words<'a>(&'a self, _: &mut PreparedWait, words: &mut WaitWords<'a>) {
        words.add(&[self.handle.shared().watch(self.opens)]);
    }
}
