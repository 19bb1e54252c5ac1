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
use super::client_stream::RequestStream;
use super::error::CallError;
use super::layout::ServiceFile;
use super::service::Service;
use crate::claim::{HasRole, Role, RoleState, StandBy};
use crate::liveness::{Registry, TokenId};
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
        // With the fence: a thread that frees memory from now on notifies, and the ticket shows it.
        // Nothing cancels this wait: the next one that frees memory makes an empty wake.
        let ticket = service.queue.room().prepare_wait();
        Arc::new(MemoryReadiness { service, ticket, look_at: Deadline::after(BRIEF_LOOK) })
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

impl<Q: Payload + ?Sized, R: Payload + ?Sized> RequestStream<'_, Q, R> {
    /// Returns what a send of a part waits for, as [`Client::begin_source`] does for a begin.
    #[doc(hidden)]
    pub fn room_source(&self) -> Result<Watched, CallError> {
        let client = self.client();
        let waited = match self.room_readiness()? {
            Some(room) => Arc::new(room),
            None => client.memory_readiness(),
        };
        Ok(Watched { waited, registry: Some(client.registry()) })
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

struct MemoryReadiness {
    service: ServiceFile,
    /// Of the task, from before its last try.
    ticket: Ticket,
    look_at: Deadline,
}

impl Waited for MemoryReadiness {
    fn look(&self) -> SourceState {
        let is_freed = self.service.queue.room().is_notified(self.ticket);
        match is_freed || self.look_at.has_passed() {
            true => SourceState::Ready(Readiness::Writable),
            false => SourceState::NotBefore(self.look_at),
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
        let is_taken = |place: Role<'_>| matches!(place.standing().state, RoleState::Living(_));
        match self.0.places().all(is_taken) {
            true => SourceState::BehindOwners,
            false => SourceState::Ready(Readiness::Ended),
        }
    }

    fn owners(&self, into: &mut Vec<TokenId>) {
        let living = self.0.living_servers();
        // A server that has died since `look` is not among them, and its death changed no word: this
        // changes the one that the set sleeps on. A set that dies here leaves nothing undone.
        if living.len() < self.0.servers() as usize {
            self.0.raise_serving();
        }
        into.extend(living);
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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::rpc::Server;
    use crate::wait::{Source, WaitSet};
    use crate::wake::RungEventCount;
    use crate::{Domain, Error};

    const PATIENCE: Duration = Duration::from_secs(10);

    /// A source during whose look something happens: before its owners are asked for.
    struct Interrupted<F> {
        waited: Arc<dyn Waited>,
        registry: &'static Registry,
        happens: Arc<F>,
    }

    impl<F: Fn() + Send + Sync + 'static> Source for Interrupted<F> {
        fn watched(&self) -> Result<Watched, Error> {
            let Interrupted { waited, registry, happens } = self;
            let (waited, happens) = (Arc::clone(waited), Arc::clone(happens));
            Ok(Watched::of(Interrupted { waited, registry, happens }, registry))
        }
    }

    impl<F: Fn() + Send + Sync> Waited for Interrupted<F> {
        fn look(&self) -> SourceState {
            self.waited.look()
        }

        fn owners(&self, into: &mut Vec<TokenId>) {
            (self.happens)();
            self.waited.owners(into);
        }

        fn event_count(&self) -> Option<&EventCount> {
            self.waited.event_count()
        }

        fn rung_count(&self) -> Option<&RungEventCount> {
            self.waited.rung_count()
        }

        fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
            self.waited.add_words(prepared, words);
        }

        fn needs_recheck(&self, prepared: &PreparedWait) -> bool {
            self.waited.needs_recheck(prepared)
        }

        fn woken(&self, prepared: &PreparedWait) {
            self.waited.woken(prepared);
        }
    }

    /// Returns what a set finds at once that looks at `source`, between whose look and whose owners
    /// the holders of so many places die.
    fn found_when(
        name: &str,
        dying: u32,
        source: impl FnOnce(&Service<[u8]>) -> Watched,
    ) -> Vec<Readiness> {
        let name = format!("outlive-unit-between-{name}-{dying}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        // Without the recheck, which would find it after a second.
        let domain = Domain::options().recheck(None).open_or_create_at(&folder).expect("opens");
        let service = Service::<[u8]>::options().max_servers(2);
        let service = service.create_new(&domain, "s").expect("made");
        // Of a thread that has ended: such a server can be dead.
        let serve = || std::thread::scope(|scope| scope.spawn(|| service.server()).join());
        let serve = || -> Server<[u8]> { serve().expect("joined").expect("a place") };
        let servers = [serve(), serve()];
        let file = service.file.clone();
        let holders: Vec<u32> =
            file.places().map(|place| place.holder.load(Ordering::Relaxed)).collect();
        let set_holders = {
            let file = file.clone();
            move |holders: &[u32]| {
                file.places().zip(holders).for_each(|(place, &holder)| {
                    place.holder.store(holder, Ordering::Relaxed);
                });
            }
        };
        let dead: Vec<u32> = (0..)
            .zip(&holders)
            .map(|(at, holder)| {
                // Another number: that token's owner is gone.
                if at < dying { holder ^ 1 << 16 } else { *holder }
            })
            .collect();
        let Watched { waited, registry } = source(&service);
        let registry = registry.expect("of a domain");
        let die = set_holders.clone();
        let happens = Arc::new(move || die(&dead));
        let mut set = WaitSet::new(&domain);
        set.add(&Interrupted { waited, registry, happens }).expect("a source");
        let begun = Instant::now();
        let ready = set.wait_timeout(PATIENCE).expect("waits");
        let ready = ready.map(|(_, what)| what).collect();
        let first = file.place(0).holder.load(Ordering::Relaxed);
        assert_ne!(first, holders[0], "no owners were asked for");
        // At its deadline the set looks once more.
        assert!(begun.elapsed() < PATIENCE, "it was found at the deadline");
        set_holders(&holders);
        drop(servers);
        let _ = std::fs::remove_dir_all(&folder);
        ready
    }

    #[test]
    fn a_server_that_dies_between_the_look_and_its_owners_frees_its_place() {
        for dying in [1, 2] {
            let ready = found_when("place", dying, |service| {
                service.stand_by().watched().expect("a source")
            });
            assert_eq!(ready, [Readiness::Ended], "{dying} died");
        }
    }

    #[test]
    fn servers_that_die_between_a_calls_look_and_its_owners_end_it() {
        let ready = found_when("call", 2, |service| {
            // Neither is dropped: the set waits for the call.
            let client = Box::leak(Box::new(service.client().expect("room")));
            let call = client.begin(b"asked").expect("sent");
            let watched = call.watched().expect("a source");
            core::mem::forget(call);
            watched
        });
        assert_eq!(ready, [Readiness::Ended]);
    }
}
