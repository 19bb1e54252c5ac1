//! What a task waits for that cannot send its request yet, or that stands by to serve: a server that
//! comes, memory that is freed, a place that is free. It reads shared words alone, from any thread.
//!
//! | waits for | sleeps on | beside that |
//! | --- | --- | --- |
//! | a server | {the `relay` of the server's role, its `holder` with WAITERS}, and `serving` | the recheck: see claim/role.rs |
//! | memory | the queue's `room` | a look after 10 ms: another thread may hold what is missing, and die or let go of it without a notification; the server may die |
//! | a place | `serving`, and the ends of all holders | the recheck, as behind any owner |

use std::sync::Arc;
use std::time::Duration;

use super::client::Client;
use super::error::CallError;
use super::layout::ServiceFile;
use super::service::Service;
use crate::claim::{HasRole, Role, StandBy};
use crate::liveness::Registry;
use crate::shim::Ordering;
use crate::sys::futex::Watch;
use crate::wake::{
    EventCount, PreparedWait, Readiness, SourceState, Ticket, WaitWords, Waited, Watched,
};
use crate::{Deadline, Payload, SendError};

/// After so long a task that waits for memory looks again: as a sender (queue/room.rs).
const BRIEF_LOOK: Duration = Duration::from_millis(10);

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Client<Q, R> {
    pub(crate) fn registry(&self) -> &'static Registry {
        self.slots.service.queue.registry()
    }

    /// Returns what says that a server lives.
    pub(crate) fn server_readiness(&self) -> Arc<dyn Waited> {
        Arc::new(ServerReadiness(self.slots.service.clone()))
    }

    /// Returns what a begin waits for that would have had to wait. It tells of all that changes after
    /// this call: the caller tries once more before it waits. Fails if no server is there that could
    /// be asked, which a try that finds no memory does not look at.
    pub(crate) fn begin_readiness(&self) -> Result<Arc<dyn Waited>, CallError> {
        let service = &self.slots.service;
        match service.check_server() {
            Err(SendError::NoReceiver | SendError::ReceiverDied)
                if self.slots.waits_for_server() =>
            {
                Ok(self.server_readiness())
            }
            Err(error) => Err(error.into()),
            Ok(()) => Ok(self.memory_readiness()),
        }
    }

    /// Returns what says that the service's memory is worth another look, since this call.
    pub(crate) fn memory_readiness(&self) -> Arc<dyn Waited> {
        let service = self.slots.service.clone();
        let lack = Lack::begin(&service);
        Arc::new(MemoryReadiness { service, lack })
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Client<Q, R> {
    /// Returns what a begin waits for that would have had to wait, for the bindings' wait sets. It tells
    /// of all that changes after this call: the caller tries once more before it waits.
    #[doc(hidden)]
    pub fn begin_source(&self) -> Result<Watched, CallError> {
        Ok(Watched { waited: self.begin_readiness()?, registry: Some(self.registry()) })
    }
}

struct ServerReadiness(ServiceFile);

impl Waited for ServerReadiness {
    fn look(&self) -> SourceState {
        match self.0.server() {
            Ok(server) if !server.is_living() => {
                SourceState::behind(self.0.queue.server_role().standing().watched())
            }
            // An error: a try tells which.
            _ => SourceState::Ready(Readiness::Writable),
        }
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        prepared.asked = self.0.queue.server_role().add_to(words);
        words.add(&[self.0.serving()]);
    }

    fn needs_recheck(&self, prepared: &PreparedWait) -> bool {
        prepared.asked.is_some()
    }

    fn woken(&self, prepared: &PreparedWait) {
        prepared.asked.into_iter().for_each(|asked| self.0.queue.server_role().woken(asked));
    }
}

/// A lack of memory, as of before a try that finds none.
#[derive(Clone, Copy)]
pub(super) struct Lack {
    ticket: Ticket,
    look_at: Deadline,
}

impl Lack {
    /// What is freed from this call on ends the lack: the caller tries once more.
    pub(super) fn begin(service: &ServiceFile) -> Lack {
        // With the fence: a thread that frees memory from now on notifies, and the ticket shows it.
        // Nothing cancels this wait: the next one that frees memory makes an empty wake.
        let ticket = service.queue.room().prepare_wait();
        Lack { ticket, look_at: Deadline::after(BRIEF_LOOK) }
    }

    /// Returns until when a try is not worth it; `None`: it is.
    pub(super) fn until(self, service: &ServiceFile) -> Option<Deadline> {
        let is_over = service.queue.room().is_notified(self.ticket) || self.look_at.has_passed();
        (!is_over).then_some(self.look_at)
    }

    /// Returns the word that changes when memory is freed.
    pub(super) fn watch(self, service: &ServiceFile) -> Watch<'_> {
        service.queue.room().watch(self.ticket)
    }
}

struct MemoryReadiness {
    service: ServiceFile,
    lack: Lack,
}

impl Waited for MemoryReadiness {
    fn look(&self) -> SourceState {
        match self.lack.until(&self.service) {
            None => SourceState::Ready(Readiness::Writable),
            Some(moment) => SourceState::NotBefore(moment),
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        Some(self.service.queue.room())
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        words.add(&[self.service.queue.room().watch(prepared.ticket)]);
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Service<Q, R> {
    /// Returns what a wait set waits for that stands by: it is ready while there is no server, or,
    /// of several, while a place for one is free.
    #[must_use]
    pub fn stand_by(&self) -> StandBy {
        match self.file.servers() {
            1 => StandBy::of_role(self.file.clone()),
            _ => StandBy::of(FreePlace(self.file.clone()), self.file.queue.registry()),
        }
    }
}

impl HasRole for ServiceFile {
    fn role(&self) -> Role<'_> {
        self.queue.server_role()
    }
}

/// A place for one of several servers.
struct FreePlace(ServiceFile);

impl Waited for FreePlace {
    fn look(&self) -> SourceState {
        let living = self.0.living_servers();
        match living.len() < self.0.servers() as usize {
            true => SourceState::Ready(Readiness::Ended),
            false => SourceState::BehindOwners(living, Deadline::NEVER),
        }
    }

    fn add_words<'a>(&'a self, _: &mut PreparedWait, words: &mut WaitWords<'a>) {
        // The set looks again behind this: a server that leaves after that look raises the word.
        words.add(&[self.0.serving()]);
    }
}

impl ServiceFile {
    /// Returns the word that a server of several raises that comes or leaves, as it is now.
    pub(super) fn serving(&self) -> Watch<'_> {
        let serving = &self.head().serving;
        // Acquire pairs with the server that raises it: the look that follows sees its place.
        Watch { word: serving, expected: serving.load(Ordering::Acquire) }
    }
}
