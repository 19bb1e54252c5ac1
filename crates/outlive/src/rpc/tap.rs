//! What goes on in a service's call slots, for a process that takes no part. Hidden: its user is the recorder of
//! this repository.
//!
//! It reads words alone. A tap for the bytes of requests would need a step more of each call: a client writes its
//! next request over the last one before any word says so, and a tap could not tell a copy that was torn by
//! that from a whole one.
//!
//! The words are read one by one, so what is told is true of some moment during the look; the number of the
//! call is looked at before and behind the others. It makes no store, and never waits. If it dies or is
//! stopped, no process notices.

use super::call::{State, next};
use super::layout::SLOTS;
use super::service::Service;
use crate::Error;
use crate::claim::Holder;

/// How far a call is.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No server has begun it.
    Waiting,
    /// A server has begun it.
    Begun,
    /// It has its last reply.
    Answered,
    /// Its server dropped it without a last reply.
    Dropped,
    /// Its server said why it has no last reply.
    Failed,
    /// Its client let go of it, or its client or its server died.
    Cancelled,
}

impl Phase {
    /// Returns whether the call is over.
    #[must_use]
    pub fn is_over(self) -> bool {
        !matches!(self, Phase::Waiting | Phase::Begun)
    }

    /// Returns a word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Begun => "begun",
            Phase::Answered => "answered",
            Phase::Dropped => "dropped",
            Phase::Failed => "failed",
            Phase::Cancelled => "cancelled",
        }
    }
}

/// The last call of a call slot.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Seen {
    /// The call slot.
    pub slot: u32,
    /// The call's number there; it grows with each call.
    pub number: u64,
    /// How far it is.
    pub phase: Phase,
    /// How many replies it has.
    pub replies: u32,
    /// The bytes of its request.
    pub request_len: usize,
}

/// The processes that take part in a call. They are looked up apart, since that costs system calls.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Sides {
    /// The client's process.
    pub client: Option<Holder>,
    /// The server's process, or its thread that writes the reply.
    pub server: Option<Holder>,
}

impl Service<[u8], [u8]> {
    /// Shows `see` the last call of each slot. Returns how many calls had been made when it began.
    ///
    /// # Errors
    /// [`Error::Damaged`], and errors of the system.
    #[doc(hidden)]
    pub fn look_at_calls(&self, mut see: impl FnMut(Seen)) -> Result<u64, Error> {
        let made = self.calls_made();
        for slot in 0..self.file.client_slots() * SLOTS {
            let call = self.file.call(slot)?;
            let asked = call.question.asked();
            let (claim, ready) = (call.words.claim(), call.words.ready());
            if asked != call.question.asked() || asked.number() == 0 {
                // It has changed just now: the next look sees it.
                continue;
            }
            let number = asked.number();
            let is_answered = ready.number() == number && ready.is_end();
            let phase = if is_answered && ready.is_failed() {
                Phase::Failed
            } else if is_answered && ready.is_dropped() {
                Phase::Dropped
            } else if is_answered {
                Phase::Answered
            } else if next(claim.number()) == number {
                Phase::Waiting
            } else if claim.number() == number
                && matches!(claim.state(), State::Taken | State::Writing)
            {
                Phase::Begun
            } else {
                Phase::Cancelled
            };
            let replies = if ready.number() == number { ready.count() } else { 0 };
            see(Seen { slot, number, phase, replies, request_len: asked.len() });
        }
        Ok(made)
    }

    /// Returns how many calls have been made.
    #[doc(hidden)]
    #[must_use]
    pub fn calls_made(&self) -> u64 {
        self.file.asks().horizon()
    }

    /// Returns a number that no other service has, nor has had.
    #[doc(hidden)]
    #[must_use]
    pub fn id(&self) -> u64 {
        self.file.queue.id()
    }

    /// Returns who takes part in the last call of a slot.
    ///
    /// # Errors
    /// [`Error::Damaged`], and errors of the system.
    #[doc(hidden)]
    pub fn sides(&self, slot: u32) -> Result<Sides, Error> {
        let registry = self.file.queue.registry();
        let call = self.file.call(slot)?;
        let client = call.question.asker().map(|token| Holder::of(registry, token));
        let server = call.words.claim().owner().map(|token| Holder::of(registry, token));
        Ok(Sides { client, server })
    }
}
