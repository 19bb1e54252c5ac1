//! A client's own call slots: which are free, and which thread is inside.
//!
//! The client slots' words allow one thread inside at a time (client_slot.rs): a process that takes
//! the slot over waits for the end of that thread alone. So the threads of a client take turns
//! (turns.rs). Whatever changes shared words of a call slot, except the eventcounts and
//! the bitmap, happens in a turn, by a thread whose name is in the client slot's word. No thread waits
//! in its turn, and none copies a long message there.

use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};

use super::call::Settled;
use super::client_slot::ClientWord;
use super::error::CallError;
use super::layout::{MOST_CLIENT_SLOTS, SLOTS, ServiceFile};
use super::turns::{TurnGuard, Turns};
use crate::Error;
use crate::liveness::{Me, TokenId};
use crate::shim::Ordering;
use crate::sys::Errno;

/// The most calls in flight of one client.
const MOST_IN_FLIGHT: usize = 1024;

/// See the file's head.
pub(super) struct OwnSlots {
    pub(super) service: ServiceFile,
    pub(super) process: TokenId,
    slots: Turns<Slots>,
    /// Whether calls wait for a server while there is none.
    waits_for_server: AtomicBool,
}

#[derive(Default)]
struct Slots {
    client_slots: Vec<OwnClientSlot>,
    /// Slots without a call, and the numbers of their last calls.
    free: Vec<(u32, u64)>,
    /// Slots to which a server was still writing when this client let go of their calls.
    parked: Vec<u32>,
}

#[derive(Clone, Copy)]
struct OwnClientSlot {
    client_slot: u32,
    /// The thread that last entered, as in the client slot's word.
    inside: u32,
}

/// A thread's turn with a client's slots.
pub(super) struct Turn<'s> {
    own: &'s OwnSlots,
    slots: TurnGuard<'s, Slots>,
}

impl OwnSlots {
    pub(super) fn new(service: ServiceFile) -> Result<OwnSlots, Error> {
        let registry = service.queue.registry();
        let process = registry.process_token()?;
        let me = registry.me()?;
        let slots = OwnSlots {
            service,
            process,
            slots: Turns::new(Slots::default()),
            waits_for_server: AtomicBool::new(false),
        };
        let first = slots.slots.wait(me.id.as_u32());
        Turn { own: &slots, slots: first }.add_client_slot(me)?;
        Ok(slots)
    }

    pub(super) fn refused(&self, errno: Errno) -> CallError {
        Error::from_errno("wait in", self.service.queue.registry().path(), errno).into()
    }

    pub(super) fn waits_for_server(&self) -> bool {
        self.waits_for_server.load(StdOrdering::Relaxed)
    }

    pub(super) fn set_waits_for_server(&self, wait: bool) {
        self.waits_for_server.store(wait, StdOrdering::Relaxed);
    }

    /// Returns the calling thread.
    #[inline(always)]
    pub(super) fn me(&self) -> Result<Me, CallError> {
        Ok(self.service.queue.registry().me()?)
    }

    /// Returns the calling thread, for a wait: a forked child has its parent's handle, and is not
    /// its parent.
    pub(super) fn me_of_owner(&self) -> Result<Me, CallError> {
        let me = self.me()?;
        if self.is_ours() { Ok(me) } else { Err(CallError::NotClient) }
    }

    /// Returns whether the calling process is the client, and not its forked child.
    pub(super) fn is_ours(&self) -> bool {
        self.service.queue.registry().process_token_if_any() == Some(self.process)
    }

    /// Begins the calling thread's turn, after those of others.
    #[inline(always)]
    pub(super) fn turn(&self) -> Result<Turn<'_>, CallError> {
        // Once a thread has exited, no thread has its token.
        let thread = self.service.queue.registry().current_bits();
        let slots = match self.slots.try_fast(thread) {
            Some(slots) => slots,
            None => self.turn_slow(thread)?,
        };
        Ok(Turn { own: self, slots })
    }

    #[cold]
    fn turn_slow(&self, thread: u32) -> Result<TurnGuard<'_, Slots>, CallError> {
        // In a forked child the turn may be one of a thread that the child does not have.
        if !self.is_ours() {
            return Err(CallError::NotClient);
        }
        Ok(self.slots.wait(thread))
    }

    /// Begins a turn, and puts the calling thread into the word of that call slot's client slot.
    pub(super) fn inside(&self, slot: u32) -> Result<Turn<'_>, CallError> {
        let me = self.me()?;
        let mut turn = self.turn()?;
        turn.enter(me, slot)?;
        Ok(turn)
    }

    /// Gives back a slot whose call is over. Changes no shared words.
    #[inline(always)]
    pub(super) fn give_back(&self, slot: u32, number: u64) {
        // An error: a forked child's copy.
        if let Ok(mut turn) = self.turn() {
            turn.give_back(slot, number);
        }
    }

    /// Keeps a slot that has to be settled before it can be used again.
    #[cold]
    pub(super) fn park(&self, slot: u32) {
        if let Ok(mut turn) = self.turn() {
            turn.park(slot);
        }
    }

    /// Counts an assertion that the client is there.
    pub(super) fn assert_liveliness(&self) -> Result<(), CallError> {
        let me = self.me()?;
        let mut turn = self.turn()?;
        let Some(first) = turn.slots.client_slots.first() else { return Err(CallError::NotClient) };
        let slot = first.client_slot * SLOTS;
        turn.enter(me, slot)?;
        // Relaxed: a count, nothing comes with it.
        self.service.call(slot)?.words.asserted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Settles all parked slots that can be settled now. Returns the first error, after trying all
    /// of them.
    pub(super) fn settle_parked(&self, me: Me) -> Result<(), CallError> {
        self.turn()?.settle_parked(me)
    }
}

impl Turn<'_> {
    /// Puts the calling thread into the word of that call slot's client slot, unless it is there.
    #[inline(always)]
    pub(super) fn enter(&mut self, me: Me, slot: u32) -> Result<(), CallError> {
        let of = slot / SLOTS;
        // As a rule the first one, and the thread that was there last.
        match self.slots.client_slots.first() {
            Some(own) if own.client_slot == of && own.inside == me.id.as_u32() => Ok(()),
            _ => self.enter_slow(me, of),
        }
    }

    #[inline(never)]
    fn enter_slow(&mut self, me: Me, of: u32) -> Result<(), CallError> {
        let (service, process) = (&self.own.service, self.own.process);
        let own = self.slots.client_slots.iter().find(|own| own.client_slot == of);
        if own.is_some_and(|own| own.inside == me.id.as_u32()) {
            return Ok(());
        }
        // A forked child has its parent's handle, and is not its parent.
        if !self.own.is_ours() {
            return Err(CallError::NotClient);
        }
        let own = self.slots.client_slots.iter_mut().find(|own| own.client_slot == of);
        let Some(own) = own else { return Err(CallError::NotClient) };
        let from = ClientWord::new(process, own.inside);
        let mine = ClientWord::new(process, me.id.as_u32());
        // Before anything else that this thread does there. A failure: this process was taken for
        // dead.
        if !service.change_client_slot(of, from, mine) && service.who(of) != mine {
            return Err(CallError::NotClient);
        }
        own.inside = me.id.as_u32();
        Ok(())
    }

    /// Returns a slot without a call, and the number of its last call. The calling thread is inside.
    #[inline(always)]
    pub(super) fn free_slot(&mut self, me: Me) -> Result<(u32, u64), CallError> {
        let (slot, last) = match self.slots.free.pop() {
            Some(free) => free,
            None => self.free_slot_slow(me)?,
        };
        if let Err(error) = self.enter(me, slot) {
            self.give_back(slot, last);
            return Err(error);
        }
        Ok((slot, last))
    }

    #[cold]
    fn free_slot_slow(&mut self, me: Me) -> Result<(u32, u64), CallError> {
        let settled = self.settle_parked(me);
        if self.slots.free.is_empty() {
            settled?;
            if self.slots.client_slots.len() * SLOTS as usize >= MOST_IN_FLIGHT {
                return Err(CallError::TooMany);
            }
            self.add_client_slot(me)?;
        }
        self.slots.free.pop().ok_or(CallError::TooMany)
    }

    /// Does [`OwnSlots::settle_parked`].
    fn settle_parked(&mut self, me: Me) -> Result<(), CallError> {
        let mut result = Ok(());
        for slot in std::mem::take(&mut self.slots.parked) {
            let settled =
                self.enter(me, slot).and_then(|()| Ok(self.own.service.settle(me, slot)?));
            match settled {
                Ok(Settled::Over(number)) => self.give_back(slot, number),
                Ok(Settled::Busy) => self.park(slot),
                Err(error) => {
                    // It is not settled, and stays in the list.
                    self.park(slot);
                    result = result.and(Err(error));
                }
            }
        }
        result
    }

    #[cold]
    fn add_client_slot(&mut self, me: Me) -> Result<(), Error> {
        let client_slot = self.own.service.take_client_slot(me, self.own.process)?;
        debug_assert!(client_slot < MOST_CLIENT_SLOTS);
        self.slots.client_slots.push(OwnClientSlot { client_slot, inside: me.id.as_u32() });
        self.own.service.tell_client(client_slot, self.own.process);
        let (slots, settled) = self.own.service.settle_client_slot(me, client_slot);
        // The lowest is used first.
        self.slots.free.extend(slots.free.into_iter().rev());
        self.slots.parked.extend(slots.busy);
        // Slots that could not be settled are parked. If others are free, that is no error yet.
        if self.slots.free.is_empty() { settled } else { Ok(()) }
    }

    /// Gives back a slot whose call is over.
    #[inline]
    pub(super) fn give_back(&mut self, slot: u32, number: u64) {
        self.slots.free.push((slot, number));
    }

    /// Keeps a slot that has to be settled before it can be used again.
    #[cold]
    pub(super) fn park(&mut self, slot: u32) {
        self.slots.parked.push(slot);
    }
}

impl Drop for OwnSlots {
    fn drop(&mut self) {
        // A forked child's copy has no client slots.
        let (Ok(me), Ok(mut turn)) = (self.me_of_owner(), self.turn()) else { return };
        let mine = ClientWord::new(self.process, me.id.as_u32());
        for OwnClientSlot { client_slot, .. } in turn.slots.client_slots.clone() {
            if turn.enter(me, client_slot * SLOTS).is_err() {
                continue;
            }
            // A death in between leaves {P dead, T dead}, which the next client settles.
            let _ = self.service.settle_client_slot(me, client_slot);
            self.service.set_left(client_slot, self.process);
            self.service.change_client_slot(client_slot, mine, ClientWord::NOBODY);
        }
    }
}
