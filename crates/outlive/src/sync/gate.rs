//! An event or a latch as a wait set sees it: open or not, and how to be told.

use super::home::Home;
use super::raw_event::RawEvent;
use super::raw_sleepers::Ticket;
use crate::liveness::{Net, Registry, Words};
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
    /// Whether its thread's `list_op_pending` points here, unless it watches owners.
    passes_on: bool,
}

impl Enlisted {
    /// Of one who has no word to look at besides.
    pub(crate) fn with(ticket: Ticket) -> Enlisted {
        Enlisted { ticket, ..Enlisted::default() }
    }

    pub(crate) fn ticket(self) -> Ticket {
        self.ticket
    }

    /// Its thread's end passes a wake on, or not: see [`Words::pass_on_to`].
    pub(crate) fn set_passes_on(&mut self, passes_on: bool) {
        self.passes_on = passes_on;
    }

    pub(crate) fn passes_on(self) -> bool {
        self.passes_on
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
        Enlisted::with(self.home.shared().enlist())
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
        enlisted.passes_on = words.pass_on_to(raw.sleepers().x());
    }

    /// Whether the set looks by itself now and then; `alone`: it watches nobody's end.
    pub(crate) fn net(&self, enlisted: Enlisted, alone: bool) -> Net {
        self.home.shared().sleepers().net_in_set(enlisted.passes_on, alone)
    }

    /// After a sleep on them.
    pub(crate) fn woken(&self, enlisted: Enlisted) {
        self.home.shared().woken(enlisted.ticket, enlisted.seen);
    }
}
