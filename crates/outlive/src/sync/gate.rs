//! An event or a latch as a wait set sees it: open or not, and the word to sleep on.

use super::home::Home;
use super::raw_event::{Opens, RawEvent};
use crate::liveness::Registry;
use crate::sys::futex::Watch;

/// See the file's head. It keeps the word mapped.
#[derive(Clone)]
pub(crate) struct Gate {
    home: Home<RawEvent>,
    opens: Opens,
}

impl Gate {
    pub(super) fn new(home: Home<RawEvent>, opens: Opens) -> Gate {
        Gate { home, opens }
    }

    pub(crate) fn registry(&self) -> &'static Registry {
        self.home.registry()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.opens.at(self.home.shared().value())
    }

    /// The word to sleep on; the set looks once more.
    pub(crate) fn watch(&self) -> Watch<'_> {
        self.home.shared().watch(self.opens)
    }
}
