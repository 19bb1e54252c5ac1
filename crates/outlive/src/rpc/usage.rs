//! A service seen from outside, and what dead processes left in it.

use super::call::{Claim, State};
use super::layout::{SLOTS, ServiceFile};
use crate::claim::Holder;
use crate::liveness::{Me, Registry, TokenId};
use crate::queue::{Counters, Queue};
use crate::segment::Segment;
use crate::{Error, Kind};

/// An overview of a service: its server, its clients and its requests.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Overview {
    /// The server, dead or alive; of several, the first that lives.
    pub server: Option<Holder>,
    /// The servers, dead or alive: one, unless the service may have several.
    pub servers: Vec<Holder>,
    /// The most servers at a time.
    pub max_servers: u32,
    /// The clients, dead or alive: one entry for each sixteen call slots.
    pub clients: Vec<ClientUse>,
    /// Requests: those made, whose count never falls; those that wait; and the difference, those taken or
    /// let go of. While the service is in use, the two are of two moments, so a later look may find less
    /// of the difference.
    pub requests: Counters,
}

/// A client of a service.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientUse {
    /// The client's process.
    pub who: Holder,
    /// Calls that a server has begun and not answered to the end.
    pub begun: u32,
    /// Call slots whose last call has been answered to the end, whether its client has taken that
    /// or not.
    #[doc(hidden)]
    pub answered: u32,
}

/// What a sweep found.
pub(crate) struct Swept {
    pub(crate) claims: u32,
    pub(crate) objects: u32,
    /// Whether names of dead threads stay because a thread of theirs still runs.
    pub(crate) names_left: bool,
}

fn open(segment: Segment, registry: &'static Registry) -> Result<ServiceFile, Error> {
    ServiceFile::new(Queue::finish_as(segment, registry, None, Kind::Service)?)
}

/// Returns an overview of a service, and what a sweep would find.
pub(crate) fn usage(segment: Segment, me: Me) -> Result<(Overview, Swept), Error> {
    let registry = me.registry;
    let service = open(segment, registry)?;
    let mut clients = Vec::new();
    for client_slot in 0..service.client_slots() {
        let Some(process) = service.who(client_slot).process() else { continue };
        let (mut begun, mut answered) = (0, 0);
        for slot in client_slot * SLOTS..(client_slot + 1) * SLOTS {
            begun += u32::from(service.is_begun(slot)?);
            answered += u32::from(service.is_answered(slot)?);
        }
        clients.push(ClientUse { who: Holder::of(registry, process), begun, answered });
    }
    let overview = Overview {
        server: service.current_server(),
        servers: service.current_servers(),
        max_servers: service.servers(),
        clients,
        requests: service.counters()?,
    };
    let swept = service.sweep(me, true, &mut Vec::new())?;
    Ok((overview, swept))
}

/// Removes the names of dead threads from a service, and frees what was theirs. The name of a dead
/// thread whose process is still a client or the server stays, and goes into `kept`.
pub(crate) fn sweep(
    segment: Segment,
    me: Me,
    dry_run: bool,
    kept: &mut Vec<TokenId>,
) -> Result<Swept, Error> {
    open(segment, me.registry)?.sweep(me, dry_run, kept)
}

impl ServiceFile {
    /// Returns the first server that lives; if none does, the first that is dead.
    pub(super) fn current_server(&self) -> Option<Holder> {
        let servers = self.current_servers();
        let living = servers.iter().find(|server| server.alive).cloned();
        living.or_else(|| servers.into_iter().next())
    }

    /// Returns the holders of places, dead or alive.
    pub(super) fn current_servers(&self) -> Vec<Holder> {
        let registry = self.queue.registry();
        let holders = self.places().filter_map(|place| place.holder());
        holders.map(|token| Holder::of(registry, token)).collect()
    }

    /// Each request has drawn a ticket; those that wait lie in their slots. No word counts those that were
    /// taken: each server would write it at each request. A request that is made during the count of
    /// those that wait counts as taken until the next look.
    fn counters(&self) -> Result<Counters, Error> {
        let pending =
            (0..self.client_slots() * SLOTS).filter(|&slot| self.is_pending(slot)).count() as u64;
        let sent = self.asks().horizon();
        Ok(Counters {
            sent,
            received: sent.saturating_sub(pending),
            pending,
            ..self.queue.counters()?
        })
    }

    fn is_begun(&self, slot: u32) -> Result<bool, Error> {
        let words = self.call(slot)?.words;
        let seen = words.claim();
        let ready = words.ready();
        let ended = ready.number() == seen.number() && ready.is_end();
        Ok(matches!(seen.state(), State::Taken | State::Writing) && !ended)
    }

    fn is_answered(&self, slot: u32) -> Result<bool, Error> {
        let words = self.call(slot)?.words;
        let (seen, ready) = (words.claim(), words.ready());
        Ok(ready.number() == seen.number() && ready.is_end())
    }

    /// If one part fails, the others are swept all the same, and the first error is returned at the
    /// end.
    fn sweep(&self, me: Me, dry_run: bool, kept: &mut Vec<TokenId>) -> Result<Swept, Error> {
        let process = me.registry.process_token()?;
        let settled = self.settle_dead(me, process, dry_run);
        let of_calls = self.sweep_claims(me, dry_run);
        let swept = crate::queue::sweep(self.queue.inner(), me, dry_run, kept);
        let of_places: u32 = self.places().skip(1).map(|place| place.sweep(dry_run, kept)).sum();
        // After the settling: what is left then stays.
        let threads =
            (0..self.client_slots()).filter_map(|client_slot| self.who(client_slot).thread());
        kept.extend(threads.filter(|&thread| !me.registry.is_alive(thread)));
        let ((of_client_slots, left), of_calls, (of_queue, found)) = (settled?, of_calls?, swept?);
        Ok(Swept {
            claims: of_client_slots + of_calls + of_queue + of_places,
            objects: found.count(),
            names_left: left > 0,
        })
    }

    /// Removes dead servers' ids from living clients' calls: this tells the clients whose calls are
    /// not over.
    fn sweep_claims(&self, me: Me, dry_run: bool) -> Result<u32, Error> {
        let mut claims = 0;
        for slot in 0..self.client_slots() * SLOTS {
            let words = self.call(slot)?.words;
            let seen = words.claim();
            let names = matches!(seen.state(), State::Taken | State::Writing);
            if !names || seen.owner().is_some_and(|id| me.is_alive(id)) {
                continue;
            }
            // Whether it is over is checked after the death.
            let is_over = !self.is_begun(slot)?;
            claims += u32::from(!is_over);
            if dry_run {
                continue;
            }
            let to =
                if is_over { Claim::over(seen.number()) } else { Claim::cancelled(seen.number()) };
            if words.change(seen, to) && !is_over {
                // A sleeping client watches the dead server, and looks.
                words.wake_client();
            }
        }
        Ok(claims)
    }
}
