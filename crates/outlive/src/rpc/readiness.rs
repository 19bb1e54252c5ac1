//! Calls and requests as a wait set sees them: is there something for a client that waits for a
//! reply, and is there a request for the server? It reads shared words alone, from any thread, and
//! changes no call: a try finds out.
//!
//! For a reply a set sleeps on {`relay`, `replies`, the claim as it was} and on the end of the
//! process or thread that has the call, as a plain wait does (client_wait.rs); for a call that waits
//! for a server, on {the `relay` of the server's role, its `holder` with WAITERS} besides.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};

use super::call::{CallWords, Claim, Ready, State, next};
use super::layout::ServiceFile;
use super::places::Others;
use crate::Deadline;
use crate::liveness::Registry;
use crate::shim::{AtomicU32, Ordering};
use crate::sys::futex::Watch;
use crate::wake::{
    EventCount, PreparedWait, Readiness, RungEventCount, SourceState, WaitWords, Waited,
};

/// A call as a wait set sees it. It keeps the service mapped.
#[derive(Clone)]
pub(crate) struct CallReadiness {
    service: ServiceFile,
    slot: u32,
    number: u64,
    waits_for_server: bool,
    over: Arc<AtomicBool>,
}

impl CallReadiness {
    pub(super) fn new(
        service: ServiceFile,
        slot: u32,
        number: u64,
        waits_for_server: bool,
        over: Arc<AtomicBool>,
    ) -> CallReadiness {
        CallReadiness { service, slot, number, waits_for_server, over }
    }

    pub(crate) fn registry(&self) -> &'static Registry {
        self.service.queue.registry()
    }

    pub(super) fn service(&self) -> &ServiceFile {
        &self.service
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn words(&self) -> Option<&CallWords> {
        // If the call is over, the slot is another call's.
        let over = self.over.load(StdOrdering::Relaxed);
        self.service.call(self.slot).ok().filter(|_| !over).map(|call| call.words)
    }

    /// Returns the eventcount that the server notifies.
    fn replies(&self) -> Option<&EventCount> {
        self.words().map(|words| &words.replies)
    }

    fn is_begun(&self, seen: Claim) -> bool {
        next(seen.number()) != self.number
    }
}

impl CallReadiness {
    /// Looks whether `is_there` finds something, and else what the call waits behind.
    pub(super) fn look_for(
        &self,
        what: Readiness,
        is_there: impl FnOnce(&CallWords) -> bool,
    ) -> SourceState {
        let Some(words) = self.words() else { return SourceState::Waiting };
        // The claim first: a server that reads dead here had written all of its replies by then.
        let seen = words.claim();
        let server = self.service.server();
        let owner = seen.owner().filter(|&owner| self.registry().is_alive(owner));
        if is_there(words) {
            return SourceState::Ready(what);
        }
        if !self.is_begun(seen) {
            return match server {
                // Any of them may begin it, and die. The one that was seen, too: if it has died since,
                // that sleep ends at once.
                Ok(server) if server.is_living() && self.service.servers() > 1 => {
                    let mut servers = self.service.living_servers();
                    servers.extend(server.watched().filter(|seen| !servers.contains(seen)));
                    SourceState::BehindOwners(servers, Deadline::NEVER)
                }
                Ok(server) if server.is_living() => SourceState::behind(server.watched()),
                // A server that died since the words were read: that sleep ends at once, and the
                // next one asks the next server.
                Ok(_) if self.waits_for_server => {
                    SourceState::behind(self.service.queue.server_role().standing().watched())
                }
                _ => SourceState::Ready(Readiness::Ended),
            };
        }
        match seen.state() {
            State::Taken | State::Writing if owner.is_some() => SourceState::behind(owner),
            // Set by a sweep, or by a dead server: a try tells which.
            _ => SourceState::Ready(Readiness::Ended),
        }
    }
}

impl Waited for CallReadiness {
    fn look(&self) -> SourceState {
        self.look_for(Readiness::Readable, |words| {
            let ready = words.ready();
            // Acquire as in stream.rs; of another call: no reply of this one has been taken.
            let taken = Ready(words.taken.load(Ordering::Acquire));
            let taken = if taken.number() == self.number { taken.count() } else { 0 };
            ready.number() == self.number && (ready.beyond(taken) > 0 || ready.is_end())
        })
    }

    fn event_count(&self) -> Option<&EventCount> {
        self.replies()
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        prepared.asked = None;
        let Some(call) = self.words() else { return };
        let seen = call.claim();
        // A stray write: the word's only value is 0.
        if call.x.load(Ordering::Relaxed) != 0 {
            call.x.store(0, Ordering::Relaxed);
        }
        let replies = call.replies.watch(prepared.ticket);
        words.add(&[Watch { word: &call.x, expected: 0 }, replies, half_of(call, seen)]);
        if self.waits_for_server && !self.is_begun(seen) {
            prepared.asked = self.service.queue.server_role().add_to(words);
        }
    }

    fn needs_recheck(&self, prepared: &PreparedWait) -> bool {
        // While there is no server: see claim/role.rs.
        prepared.asked.is_some()
    }

    fn woken(&self, prepared: &PreparedWait) {
        prepared.asked.into_iter().for_each(|asked| self.service.queue.server_role().woken(asked));
    }
}

/// The requests as a wait set sees them: whether one is asked. It looks at shared words alone,
/// works from any thread, and keeps the service mapped.
#[derive(Clone)]
pub(crate) struct RequestReadiness {
    service: ServiceFile,
    /// The servers beside this one, where the service may have several.
    others: Option<Others>,
}

impl RequestReadiness {
    pub(super) fn new(service: ServiceFile, others: Others) -> RequestReadiness {
        let others = Some(others).filter(|_| service.servers() > 1);
        RequestReadiness { service, others }
    }

    pub(crate) fn registry(&self) -> &'static Registry {
        self.service.queue.registry()
    }

    /// Returns the eventcount that clients notify.
    fn messages(&self) -> &RungEventCount {
        self.service.queue.messages()
    }
}

impl Waited for RequestReadiness {
    fn look(&self) -> SourceState {
        if self.is_ready() {
            return SourceState::Ready(Readiness::Readable);
        }
        match &self.others {
            Some(others) => SourceState::BehindOwners(others.watched(), others.look_at()),
            None => SourceState::Waiting,
        }
    }

    fn is_ready(&self) -> bool {
        self.service.is_any_pending() || self.others.as_ref().is_some_and(Others::is_any_left)
    }

    fn event_count(&self) -> Option<&EventCount> {
        Some(self.messages().count())
    }

    fn rung_count(&self) -> Option<&RungEventCount> {
        // Of several servers each has a set, and one alone would have the doorbell.
        self.others.is_none().then(|| self.messages())
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        words.add(&[self.messages().count().watch(prepared.ticket)]);
    }

    fn needs_recheck(&self, _: &PreparedWait) -> bool {
        true
    }
}

/// Returns the claim as the kernel compares it: its lower half, with the owner, the state, and
/// whether the number is odd.
pub(super) fn half_of(words: &CallWords, seen: Claim) -> Watch<'_> {
    const _: () = assert!(cfg!(target_endian = "little"));
    // SAFETY: the lower half of a word that lives as long; only the kernel reads through it
    // (`liveness::sleep`).
    let half = unsafe { &*(&raw const words.claim).cast::<AtomicU32>() };
    Watch { word: half, expected: seen.0 as u32 }
}
