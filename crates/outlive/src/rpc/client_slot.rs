//! A client slot: sixteen call slots, and one word that names their owner.
//!
//! | {process, thread inside} | meaning | changes |
//! | --- | --- | --- |
//! | 0 | free | a new client: → {its process, its thread} |
//! | {P alive, T} | P's; T is the thread that last made a call | another thread of P enters: → {P, T'}; P leaves: → 0 |
//! | {P dead, T alive} | T is being killed, and may still send a request | no process takes it |
//! | {P dead, T dead} | the remains of its calls are there to be settled | a client or a sweep takes it |
//!
//! It is one word, so that a thread of a dead process that still runs and a process that takes the
//! slot over cannot both enter.

use super::asked::pending;
use super::call::{Settled, State};
use super::layout::{CallSlot, SLOTS, ServiceFile};
use crate::Error;
use crate::liveness::{Me, TokenId};
use crate::shim::Ordering;

/// The word of a client slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ClientWord(u64);

impl ClientWord {
    pub(super) const NOBODY: ClientWord = ClientWord(0);

    #[inline]
    pub(super) fn new(process: TokenId, thread: u32) -> ClientWord {
        ClientWord(u64::from(process.as_u32()) | u64::from(thread) << 32)
    }

    pub(super) fn process(self) -> Option<TokenId> {
        TokenId::from_word(self.0 as u32)
    }

    pub(super) fn thread(self) -> Option<TokenId> {
        TokenId::from_word((self.0 >> 32) as u32)
    }

    /// Returns whether no process can have calls in it, or begin one.
    pub(super) fn is_free(self, me: Me) -> bool {
        let is_dead = |id: Option<TokenId>| id.is_none_or(|id| !me.registry.is_alive(id));
        // The calling thread's own process lives, whatever its token says.
        is_dead(self.process()) && is_dead(self.thread())
    }
}

/// The call slots of a client slot.
#[derive(Default)]
pub(super) struct CallSlots {
    /// Without a call, with the number of the last one.
    pub(super) free: Vec<(u32, u64)>,
    /// A living thread still writes there.
    pub(super) busy: Vec<u32>,
}

/// What a sweep found in a client slot.
enum Left {
    Nothing,
    /// The remains of a dead client, settled now (in a dry run: they would be).
    Settled,
    /// The client slot belongs to a dead client, of which a thread still runs.
    Ending,
}

impl ServiceFile {
    #[inline]
    pub(super) fn who(&self, client_slot: u32) -> ClientWord {
        // Acquire: this thread sees what a dead client wrote.
        ClientWord(self.client_slot(client_slot).load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn change_client_slot(
        &self,
        client_slot: u32,
        from: ClientWord,
        to: ClientWord,
    ) -> bool {
        self.client_slot(client_slot)
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes a client slot, a free or a new one; it is not settled yet.
    pub(super) fn take_client_slot(&self, me: Me, process: TokenId) -> Result<u32, Error> {
        let mine = ClientWord::new(process, me.id.as_u32());
        loop {
            let client_slots = self.client_slots();
            for client_slot in 0..client_slots {
                let seen = self.who(client_slot);
                // A death just after leaves {P dead, T dead}.
                if seen.is_free(me) && self.change_client_slot(client_slot, seen, mine) {
                    return Ok(client_slot);
                }
            }
            self.add_client_slot(client_slots)?;
        }
    }

    /// Settles the call slots of a client slot that this client owns. Returns the free slots, each
    /// with the number of its last call, and the busy ones. A slot that cannot be settled counts as
    /// busy; the other slots are settled all the same, and the first error is returned beside them.
    pub(super) fn settle_client_slot(
        &self,
        me: Me,
        client_slot: u32,
    ) -> (CallSlots, Result<(), Error>) {
        let mut slots = CallSlots::default();
        let mut result = Ok(());
        for slot in client_slot * SLOTS..(client_slot + 1) * SLOTS {
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

    /// Returns whether something is left in a client slot that is free: a call in which a server
    /// was still writing when the last client left, or a call or an object that could not be
    /// settled then. The claims of all slots are looked at first: an object may be one that cannot
    /// be looked up.
    fn is_unsettled(&self, client_slot: u32) -> Result<bool, Error> {
        let slots = || client_slot * SLOTS..(client_slot + 1) * SLOTS;
        for slot in slots() {
            let CallSlot { words, question, .. } = self.call(slot)?;
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

    /// Settles a call slot of a client slot that this client owns. After a death in the middle, or
    /// an error, objects may be left in it, and the next process to settle it frees them.
    pub(super) fn settle(&self, me: Me, slot: u32) -> Result<Settled, Error> {
        let call = self.call(slot)?;
        let settled = call.words.settle(me);
        if let Settled::Over(_) = settled {
            self.free_objects(call)?;
        }
        Ok(settled)
    }

    /// Frees what dead clients left in their slots; takes each client slot for a moment. Returns
    /// how many of them there were, and how many it has to leave because a thread of the dead
    /// client still runs. If a client slot cannot be settled, the others are settled all the same,
    /// and the first error is returned at the end.
    pub(super) fn settle_dead(
        &self,
        me: Me,
        process: TokenId,
        dry_run: bool,
    ) -> Result<(u32, u32), Error> {
        let (mut found, mut left) = (0, 0);
        let mut result = Ok(());
        for client_slot in 0..self.client_slots() {
            match self.settle_if_dead(me, process, client_slot, dry_run) {
                Ok(Left::Nothing) => {}
                Ok(Left::Settled) => found += 1,
                Ok(Left::Ending) => left += 1,
                Err(error) => result = result.and(Err(error)),
            }
        }
        result.map(|()| (found, left))
    }

    fn settle_if_dead(
        &self,
        me: Me,
        process: TokenId,
        client_slot: u32,
        dry_run: bool,
    ) -> Result<Left, Error> {
        let mine = ClientWord::new(process, me.id.as_u32());
        let seen = self.who(client_slot);
        // A slot that cannot be looked at is settled as far as possible, and the error is returned
        // then. A dry run settles nothing, and returns it now.
        let is_unsettled = || {
            self.is_unsettled(client_slot)
                .or_else(|error| if dry_run { Err(error) } else { Ok(true) })
        };
        if seen == ClientWord::NOBODY && !is_unsettled()?
            || seen.process().is_some_and(|id| me.registry.is_alive(id))
        {
            return Ok(Left::Nothing);
        }
        if !seen.is_free(me) {
            return Ok(Left::Ending);
        }
        // If a client has taken the slot meanwhile, the remains that were seen there may be that
        // client's.
        let is_still = if dry_run {
            self.who(client_slot) == seen
        } else {
            self.change_client_slot(client_slot, seen, mine)
        };
        if !is_still {
            return Ok(Left::Nothing);
        }
        if !dry_run {
            // The next client of the slot, or a later sweep, settles the slots in which a living
            // thread writes.
            let (_, settled) = self.settle_client_slot(me, client_slot);
            // After an error, too: the claims and the tags say what is left in it. The dead
            // client's name must not come back, because its token may be retired by now: a sweep
            // that comes while this process's name is there finds the dead client's nowhere.
            self.change_client_slot(client_slot, mine, ClientWord::NOBODY);
            settled?;
        }
        Ok(Left::Settled)
    }
}
