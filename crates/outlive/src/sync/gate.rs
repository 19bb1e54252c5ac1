//! An event or a latch as a wait set sees it: open or not, and the word to sleep on.

use super::home::Home;
use super::raw_event::RawEvent;
use crate::liveness::Registry;
use crate::sys::futex::Watch;

/// When it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opens {
    /// When one of these bits is set, or there are none.
    WithAny(u32),
    /// When all of these bits are set.
    WithAll(u32),
    /// When the word is 0.
    AtZero,
}

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
        let value = self.home.shared().value();
        match self.opens {
            Opens::WithAny(bits) => bits == 0 || value & bits != 0,
            Opens::WithAll(bits) => value & bits == bits,
            Opens::AtZero => value == 0,
        }
    }

    /// The word to sleep on; the set looks once more.
    pub(crate) fn watch(&self) -> Watch<'_> {
        self.home.shared().watch()
    }
}
