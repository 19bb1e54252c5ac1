//! A client's own call slots: which are free, and which thread is inside.
//!
//! The client slots' words allow one thread inside at a time (client_slot.rs). A client may move to
//! another thread, and is not `Sync`; its calls borrow it. So at any time one thread uses the
//! client and its calls, and enters first, and the free list needs no lock. A call that owned its
//! client would cost two atomics for its share of it, a lock or an atomic for the list, and a
//! change of the client slot's word whenever another thread goes on with the call.

use std::cell::{Cell, RefCell};

use super::call::Settled;
use super::client_slot::ClientWord;
use super::error::CallError;
use super::layout::{MOST_CLIENT_SLOTS, SLOTS, ServiceFile};
use crate::Error;
use crate::liveness::{Me, TokenId};
use crate::sys::Errno;

/// The most calls in flight of one client.
const MOST_IN_FLIGHT: usize = 1024;

/// See the file's head.
pub(super) struct OwnSlots {
    pub(super) service: ServiceFile,
    pub(super) process: TokenId,
    /// The thread that last entered, as in the client slots' words.
    inside: Cell<u32>,
    client_slots: RefCell<Vec<u32>>,
    /// Slots without a call, and the numbers of their last calls.
    free: RefCell<Vec<(u32, u64)>>,
    /// Slots to which a server was still writing when this client let go of their calls.
    parked: RefCell<Vec<u32>>,
    /// Whether calls wait for a server while there is none.
    pub(super) waits_for_server: Cell<bool>,
}

impl OwnSlots {
    pub(super) fn new(service: ServiceFile) -> Result<OwnSlots, Error> {
        let registry = service.queue.registry();
        let process = registry.process_token()?;
        let me = registry.me()?;
        let slots = OwnSlots {
            service,
            process,
            inside: Cell::new(me.id.as_u32()),
            client_slots: RefCell::default(),
            free: RefCell::default(),
            parked: RefCell::default(),
            waits_for_server: Cell::new(false),
        };
        slots.add_client_slot(me)?;
        Ok(slots)
    }

    pub(super) fn refused(&self, errno: Errno) -> CallError {
        Error::from_errno("wait in", self.service.queue.registry().path(), errno).into()
    }

    /// Puts the calling thread into the client slots' words unless it is there.
    #[inline]
    pub(super) fn enter(&self) -> Result<Me, CallError> {
        let me = self.service.queue.registry().me()?;
        if me.id.as_u32() != self.inside.get() {
            self.enter_slow(me)?;
        }
        Ok(me)
    }

    #[cold]
    fn enter_slow(&self, me: Me) -> Result<(), CallError> {
        // A forked child has its parent's handle, and is not its parent.
        if !self.is_ours() {
            return Err(CallError::NotClient);
        }
        let from = ClientWord::new(self.process, self.inside.get());
        let mine = ClientWord::new(self.process, me.id.as_u32());
        for &client_slot in self.client_slots.borrow().iter() {
            // Before anything else that this thread does here. A failure: this process was taken
            // for dead.
            if !self.service.change_client_slot(client_slot, from, mine)
                && self.service.who(client_slot) != mine
            {
                return Err(CallError::NotClient);
            }
        }
        self.inside.set(me.id.as_u32());
        Ok(())
    }

    fn is_ours(&self) -> bool {
        self.service.queue.registry().process_token_if_any() == Some(self.process)
    }

    #[inline]
    pub(super) fn free_slot(&self, me: Me) -> Result<(u32, u64), CallError> {
        if let Some(slot) = self.free.borrow_mut().pop() {
            return Ok(slot);
        }
        self.free_slot_slow(me)
    }

    #[cold]
    fn free_slot_slow(&self, me: Me) -> Result<(u32, u64), CallError> {
        let settled = self.settle_parked(me);
        if self.free.borrow().is_empty() {
            settled?;
            if self.client_slots.borrow().len() * SLOTS as usize >= MOST_IN_FLIGHT {
                return Err(CallError::TooMany);
            }
            self.add_client_slot(me)?;
        }
        self.free.borrow_mut().pop().ok_or(CallError::TooMany)
    }

    /// Settles all parked slots that can be settled now. Returns the first error, after trying all
    /// of them.
    pub(super) fn settle_parked(&self, me: Me) -> Result<(), Error> {
        let mut result = Ok(());
        for slot in self.parked.take() {
            match self.service.settle(me, slot) {
                Ok(Settled::Over(number)) => self.free.borrow_mut().push((slot, number)),
                Ok(Settled::Busy) => self.parked.borrow_mut().push(slot),
                Err(error) => {
                    // It is not settled, and stays in the list.
                    self.parked.borrow_mut().push(slot);
                    result = result.and(Err(error));
                }
            }
        }
        result
    }

    #[cold]
    fn add_client_slot(&self, me: Me) -> Result<(), Error> {
        let client_slot = self.service.take_client_slot(me, self.process)?;
        debug_assert!(client_slot < MOST_CLIENT_SLOTS);
        self.client_slots.borrow_mut().push(client_slot);
        let (slots, settled) = self.service.settle_client_slot(me, client_slot);
        // The lowest is used first.
        self.free.borrow_mut().extend(slots.free.into_iter().rev());
        self.parked.borrow_mut().extend(slots.busy);
        // Slots that could not be settled are parked. If others are free, that is no error yet.
        if self.free.borrow().is_empty() { settled } else { Ok(()) }
    }

    /// Gives back a slot whose call is over.
    #[inline]
    pub(super) fn give_back(&self, slot: u32, number: u64) {
        self.free.borrow_mut().push((slot, number));
    }

    /// Keeps a slot that has to be settled before it can be used again.
    #[cold]
    pub(super) fn park(&self, slot: u32) {
        self.parked.borrow_mut().push(slot);
    }
}

impl Drop for OwnSlots {
    fn drop(&mut self) {
        // A forked child's copy has no client slots.
        let Ok(me) = self.enter() else { return };
        let mine = ClientWord::new(self.process, me.id.as_u32());
        for client_slot in self.client_slots.take() {
            // A death in between leaves {P dead, T dead}, which the next client settles.
            let _ = self.service.settle_client_slot(me, client_slot);
            self.service.change_client_slot(client_slot, mine, ClientWord::NOBODY);
        }
    }
}
