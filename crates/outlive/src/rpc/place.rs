//! A client's place: sixteen call slots, and one word that says whose they are.
//!
//! | {process, thread inside} | meaning | who leaves it, and how |
//! | --- | --- | --- |
//! | 0 | nobody's | a client comes: → {its process, its thread} |
//! | {P alive, T} | P's; T is the thread that last made a call | another thread of P comes in: → {P, T'}; P leaves: → 0 |
//! | {P dead, T alive} | T is being killed, and may still send a request | nobody takes it |
//! | {P dead, T dead} | what its calls left is there to be settled | a client or a sweep comes |
//!
//! One word, so that a thread of a dead process that still runs and somebody who takes the place over cannot both come in.

use super::asked::pending;
use super::service::{Call, SLOTS, Service};
use super::words::{Settled, State};
use crate::Error;
use crate::liveness::{Me, TokenId};
use crate::shim::Ordering;

/// The word of a place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    pub(super) const NOBODY: Word = Word(0);

    #[inline]
    pub(super) fn new(process: TokenId, thread: u32) -> Word {
        Word(u64::from(process.as_u32()) | u64::from(thread) << 32)
    }

    pub(super) fn process(self) -> Option<TokenId> {
        TokenId::from_word(self.0 as u32)
    }

    pub(super) fn thread(self) -> Option<TokenId> {
        TokenId::from_word((self.0 >> 32) as u32)
    }

    /// Whether nobody's calls can be in it, or come into it, any more.
    pub(super) fn is_free(self, me: Me) -> bool {
        let is_dead = |id: Option<TokenId>| id.is_none_or(|id| !me.registry.is_alive(id));
        // The calling thread's own process lives, whatever happens to its token.
        is_dead(self.process()) && is_dead(self.thread())
    }
}

/// The slots of a place.
#[derive(Default)]
pub(super) struct Slots {
    /// Without a call, and the number of the last.
    pub(super) free: Vec<(u32, u64)>,
    /// A living thread still writes there.
    pub(super) busy: Vec<u32>,
}

/// What a sweep found in a place.
enum Left {
    Nothing,
    /// Something that a dead client left, and that is settled now (or would be, in a dry run).
    Settled,
    /// The place belongs to a dead client, of which a thread still runs.
    Ending,
}

impl Service {
    #[inline]
    pub(super) fn who(&self, place: u32) -> Word {
        // Acquire: what a dead client wrote is seen.
        Word(self.place(place).load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn change_place(&self, place: u32, from: Word, to: Word) -> bool {
        self.place(place).compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// A place for a client: one that is nobody's, or a new one; not settled yet.
    pub(super) fn take_place(&self, me: Me, process: TokenId) -> Result<u32, Error> {
        let mine = Word::new(process, me.id.as_u32());
        loop {
            let places = self.places();
            for place in 0..places {
                let seen = self.who(place);
                // Died just after: {P dead, T dead}.
                if seen.is_free(me) && self.change_place(place, seen, mine) {
                    return Ok(place);
                }
            }
            self.add_place(places)?;
        }
    }

    /// Settles the slots of a place that is ours. Returns the free slots, each with the number of its last
    /// call, and the busy ones. A slot that cannot be settled counts as busy; the other slots are settled
    /// all the same, and the first error is returned beside them.
    pub(super) fn settle_place(&self, me: Me, place: u32) -> (Slots, Result<(), Error>) {
        let mut slots = Slots::default();
        let mut result = Ok(());
        for slot in place * SLOTS..(place + 1) * SLOTS {
            match self.settle(me, slot) {
                Ok(Settled::Over(number)) => slots.free.push((slot, number)),
                Ok(Settled::Busy) => slots.busy.push(slot),
                Err(error) => {
                    slots.busy.push(slot);
                    result = result.and(Err(error));
                }
            }
        }
        (slots, result)
    }

    /// Returns whether something is left in a place that is nobody's: a call in which a server was still
    /// writing when the last client left, or a call or an object that could not be settled then. The claims
    /// of all slots are looked at first: an object may be one that cannot be looked up.
    fn is_unsettled(&self, place: u32) -> Result<bool, Error> {
        let slots = || place * SLOTS..(place + 1) * SLOTS;
        for slot in slots() {
            let Call { words, question, .. } = self.call(slot)?;
            let is_begun = matches!(words.claim().state(), State::Taken | State::Writing);
            if is_begun || pending(words, question).is_some() {
                return Ok(true);
            }
        }
        for slot in slots() {
            if self.has_objects(self.call(slot)?)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Settles a slot of a place that is ours. Died in the middle, or an error: objects may be left in it, for the next to settle it.
    pub(super) fn settle(&self, me: Me, slot: u32) -> Result<Settled, Error> {
        let call = self.call(slot)?;
        let settled = call.words.settle(me);
        if let Settled::Over(_) = settled {
            self.free_objects(call)?;
        }
        Ok(settled)
    }

    /// Frees what dead clients left in their places; takes each place for a moment. Returns how many
    /// places there were, and how many it has to leave because a thread of the dead client still runs. If
    /// a place cannot be settled, the others are settled all the same, and the first error is returned at
    /// the end.
    pub(super) fn settle_dead(&self, me: Me, process: TokenId, dry_run: bool) -> Result<(u32, u32), Error> {
        let (mut found, mut left) = (0, 0);
        let mut result = Ok(());
        for place in 0..self.places() {
            match self.settle_if_dead(me, process, place, dry_run) {
                Ok(Left::Nothing) => {}
                Ok(Left::Settled) => found += 1,
                Ok(Left::Ending) => left += 1,
                Err(error) => result = result.and(Err(error)),
            }
        }
        result.map(|()| (found, left))
    }

    fn settle_if_dead(&self, me: Me, process: TokenId, place: u32, dry_run: bool) -> Result<Left, Error> {
        let mine = Word::new(process, me.id.as_u32());
        let seen = self.who(place);
        // What cannot be looked at is settled as far as that can be done, and the error is told then. A dry run
        // settles nothing, and tells it now.
        let is_unsettled = || self.is_unsettled(place).or_else(|error| if dry_run { Err(error) } else { Ok(true) });
        if seen == Word::NOBODY && !is_unsettled()? || seen.process().is_some_and(|id| me.registry.is_alive(id)) {
            return Ok(Left::Nothing);
        }
        if !seen.is_free(me) {
            return Ok(Left::Ending);
        }
        // If a client has taken the place meanwhile, what was seen there may be that client's.
        let is_still = if dry_run { self.who(place) == seen } else { self.change_place(place, seen, mine) };
        if !is_still {
            return Ok(Left::Nothing);
        }
        if !dry_run {
            // The next client of the place, or a later sweep, settles the slots in which a living thread writes.
            let (_, settled) = self.settle_place(me, place);
            // After an error, too: the claims and the tags say what is left in it. The dead client's name must not
            // come back, because its token may be retired by now: a sweep that comes while our name stands there
            // finds the dead client's nowhere.
            self.change_place(place, mine, Word::NOBODY);
            settled?;
        }
        Ok(Left::Settled)
    }
}
