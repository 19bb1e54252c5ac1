//! Calls and requests as a wait set sees them: is there something to tell a client that
//! waits for a reply, and is there a request for the server? By shared words, from any thread, and
//! without changing a call: a try finds out.
//!
//! For a reply a set sleeps on {`x`, `replies`, the claim as it was} and on the end of the process
//! or thread that has the call, as a plain wait does (pending.rs); for a call that waits for a
//! server, on {the queue's `x`, its `receiver` with WAITERS} besides.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};

use super::call::{Claim, Ready, State, next};
use super::layout::Service;
use super::pending::half_of;
use crate::liveness::{Registry, TokenId};
use crate::queue::Server;
use crate::shim::Ordering;
use crate::sys::futex::Watch;
use crate::wake::EventCount;
use crate::wake::WaitWords;

/// A call as a wait set sees it. It keeps the service mapped.
#[derive(Clone)]
pub(crate) struct CallReadiness {
    service: Service,
    slot: u32,
    number: u64,
    is_patient: bool,
    over: Arc<AtomicBool>,
}

/// What is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallNews {
    /// A reply, or the call's end.
    Something,
    /// There is no server any more that could answer.
    ServerGone,
    /// Nothing. That thread's or process's end would make it worth another look.
    Nothing(Option<TokenId>),
}

impl CallReadiness {
    pub(super) fn new(
        service: Service,
        slot: u32,
        number: u64,
        is_patient: bool,
        over: Arc<AtomicBool>,
    ) -> CallReadiness {
        CallReadiness { service, slot, number, is_patient, over }
    }

    pub(crate) fn registry(&self) -> &'static Registry {
        self.service.queue.registry()
    }

    fn words(&self) -> Option<&super::call::CallWords> {
        // Over, the slot is another call's.
        let over = self.over.load(StdOrdering::Relaxed);
        self.service.call(self.slot).ok().filter(|_| !over).map(|call| call.words)
    }

    /// What the server notifies.
    pub(crate) fn replies(&self) -> Option<&EventCount> {
        self.words().map(|words| &words.replies)
    }

    fn is_begun(&self, seen: Claim) -> bool {
        next(seen.number()) != self.number
    }

    pub(crate) fn look(&self) -> CallNews {
        let Some(words) = self.words() else { return CallNews::Nothing(None) };
        // The claim first: who reads dead by then had written what is ready by then.
        let seen = words.claim();
        let server = self.service.queue.server();
        let owner = seen.owner().filter(|&owner| self.registry().is_alive(owner));
        let ready = words.ready();
        // Acquire as in stream.rs; of another call: nothing was taken of this one.
        let taken = Ready(words.taken.load(Ordering::Acquire));
        let taken = if taken.number() == self.number { taken.count() } else { 0 };
        if ready.number() == self.number && (ready.beyond(taken) > 0 || ready.is_end()) {
            return CallNews::Something;
        }
        if !self.is_begun(seen) {
            return match server {
                Ok(Server::Alive(process)) => CallNews::Nothing(Some(process)),
                // One who died since the words: that sleep ends at once, and the next one asks who comes.
                Ok(_) if self.is_patient => CallNews::Nothing(self.service.queue.dead_and_unasked()),
                _ => CallNews::ServerGone,
            };
        }
        match seen.state() {
            State::Taken | State::Writing if owner.is_some() => CallNews::Nothing(owner),
            // A sweep's, or of one who is dead: told by a try.
            _ => CallNews::ServerGone,
        }
    }

    /// Adds the words to sleep on, `replies` among them. What was asked of a server that comes, and whether a wake-up for that is passed on.
    pub(crate) fn add_to<'a>(&'a self, replies: Watch<'a>, words: &mut WaitWords<'a>) -> Option<u32> {
        let call = self.words()?;
        let seen = call.claim();
        // A stray write. It means nothing but 0.
        if call.x.load(Ordering::Relaxed) != 0 {
            call.x.store(0, Ordering::Relaxed);
        }
        words.add(&[Watch { word: &call.x, expected: 0 }, replies, half_of(call, seen)]);
        if self.is_patient && !self.is_begun(seen) { self.service.queue.add_who_serves(words) } else { None }
    }

    /// After a sleep on them.
    pub(crate) fn woken(&self, asked: u32) {
        self.service.queue.woken_by_who_serves(asked);
    }
}

/// The requests as a wait set sees them: whether one is asked. It looks at shared words alone,
/// works from any thread, and keeps the service mapped.
#[derive(Clone)]
pub(crate) struct RequestReadiness {
    service: Service,
}

impl RequestReadiness {
    pub(super) fn new(service: Service) -> RequestReadiness {
        RequestReadiness { service }
    }

    pub(crate) fn registry(&self) -> &'static Registry {
        self.service.queue.registry()
    }

    /// What clients notify.
    pub(crate) fn messages(&self) -> &EventCount {
        self.service.queue.messages()
    }

    pub(crate) fn is_any(&self) -> bool {
        self.service.is_any_pending()
    }
}
