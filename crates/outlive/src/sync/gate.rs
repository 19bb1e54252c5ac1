//! An event or a latch as a wait set sees it: open or not, and how to be told.

use super::home::Home;
use super::raw_event::RawEvent;
use super::raw_sleepers::Ticket;
use crate::liveness::{Registry, Words};
use crate::shim::Ordering;

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

/// How a set has announced itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Enlisted {
    ticket: Ticket,
    seen: u32,
}

impl Enlisted {
    /// Of one who has no word to look at besides.
    pub(crate) fn with(ticket: Ticket) -> Enlisted {
        Enlisted { ticket, seen: 0 }
    }

    pub(crate) fn ticket(self) -> Ticket {
        self.ticket
    }
}

impl Gate {
    pub(super) fn new(home: Home<RawEvent>, opens: Opens) -> Gate {
        Gate { home, opens }
    }

    pub(crate) fn registry(&self) -> &'static Registry {
        self.home.registry()
    }

    pub(crate) fn is_open(&self) -> bool {
        // Acquire pairs with the Release of whoever changed it.
        let word = self.home.shared().word.load(Ordering::Acquire);
        match self.opens {
            Opens::WithAny(bits) => bits == 0 || word & bits != 0,
            Opens::WithAll(bits) => word & bits == bits,
            Opens::AtZero => word == 0,
        }
    }

    /// From now on changes ring for the set; it looks behind a fence of its own.
    pub(crate) fn enlist(&self) -> Enlisted {
        Enlisted { ticket: self.home.shared().enlist(), seen: 0 }
    }

    /// Whether nobody has rung since.
    pub(crate) fn stands(&self, enlisted: Enlisted) -> bool {
        !self.home.shared().has_rung(enlisted.ticket)
    }

    /// Adds its words.
    pub(crate) fn add_to<'a>(&'a self, enlisted: &mut Enlisted, words: &mut Words<'a>) {
        let raw = self.home.shared();
        let (watches, seen) = raw.watches(enlisted.ticket);
        enlisted.seen = seen;
        words.add(&watches);
        words.pass_on_to(raw.x());
    }

    /// After a sleep on them.
    pub(crate) fn woken(&self, enlisted: Enlisted) {
        self.home.shared().woken(enlisted.ticket, enlisted.seen);
    }
}
