//! The places of a service's servers: one role (claim/role.rs) for each server that it may have.
//!
//! The first place is the role of the queue's receiver; the others lie in the annex. A server that
//! comes takes the first place that no living process holds.
//!
//! | a server | which process goes on |
//! | --- | --- |
//! | comes | where there may be several: `serving` + 1, and it wakes all clients that sleep: those that wait for a server (on the first place's `holder`, on `serving`, or on their call's `replies`), and those that sleep behind the other servers only |
//! | leaves | the same: its clients watch a process that lives on |
//! | dies with a call that it has begun | its client, which watches it |
//! | dies, having cleared the bit of a call that it has not begun | every other server that has nothing to do sets all bits, once for this holder: it sleeps behind the holders of all places. The last thread of the dead one has ended by then, or it would clear a bit once more |
//! | is stopped there | every other server that sleeps sets all bits once a second |
//! | has set such a bit again | it wakes the others (accept.rs), of which one may have looked in between |
//! | dies, the last one | its clients, as with one server |
//!
//! A wait set of a server looks at all calls where a server would set all bits.
//!
//! A client whose call is not begun watches any one living server. If that one ends, it looks for
//! another. proof/models/rpc_servers.pml.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering as StdOrdering};
use std::time::Duration;

use super::error::CallError;
use super::layout::{MOST_SERVERS, SLOTS, ServiceFile};
use super::own_slots::OwnSlots;
use crate::claim::{HeldRole, Role, RoleState, Standing, unless_taken};
use crate::liveness::{Me, TokenId};
use crate::queue::Counterpart;
use crate::shim::Ordering;
use crate::sys::clock::monotonic_nanos;
use crate::sys::futex::{self, Watch};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep};
use crate::{Deadline, Error, RecvError, SendError};

/// How often a server that sleeps beside others looks at all calls.
const LOOK_AT_ALL: Duration = Duration::from_secs(1);

/// A place that this process holds.
pub(super) struct Place {
    service: ServiceFile,
    index: u32,
    role: Cell<HeldRole>,
    others: Others,
}

/// What a server knows of those at the other places, and its wait sets with it.
#[derive(Clone)]
pub(super) struct Others {
    service: ServiceFile,
    index: u32,
    seen: Arc<Seen>,
}

struct Seen {
    /// By place: the word of a dead holder since whose end all calls were looked at.
    settled: Vec<AtomicU32>,
    /// When all calls are looked at again, in nanoseconds: a server may be stopped.
    look_at_all: AtomicU64,
}

/// What a look at all calls settles, as of before it: a server may die during the look.
struct AsOf {
    /// By place: see [`dead_word`].
    dead: Vec<u32>,
    /// In nanoseconds.
    moment: u64,
}

impl Place {
    /// Takes the first place that no living process holds. Waits for the last thread of a dead one's
    /// until the deadline, and two seconds at most.
    pub(super) fn take(service: ServiceFile, deadline: Deadline) -> Result<Place, Error> {
        let mut index = 0;
        let role = loop {
            match service.place(index).take("server", service.segment(), deadline) {
                Ok(role) => break role,
                Err(Error::Taken { .. } | Error::Ending { .. })
                    if index + 1 < service.servers() =>
                {
                    index += 1;
                }
                Err(error) => return Err(error),
            }
        };
        let others = Others::of(&service, index);
        let place = Place { service, index, role: Cell::new(role), others };
        // What died by now needs it no more. After a death here the next server does it again.
        place.others.settle(place.others.as_of_now());
        place.service.set_all();
        if place.service.servers() > 1 {
            // Clients sleep behind those that lived when they looked: not behind this one yet, which
            // may begin their calls, and die. A death before this has begun none.
            place.service.tell_serving();
            // What a dead server had left, and this one is too busy for.
            place.service.queue.wake_server();
        }
        Ok(place)
    }

    /// Puts the calling thread into `inside` unless it is there.
    #[inline(always)]
    pub(super) fn enter(&self) -> Result<Me, RecvError> {
        let me = self.service.queue.registry().me()?;
        if !self.role.get().is_inside(me) {
            self.enter_slow(me)?;
        }
        Ok(me)
    }

    #[cold]
    fn enter_slow(&self, me: Me) -> Result<(), RecvError> {
        // `&mut self` in the server's calls means that no other thread of the process is inside.
        let role = self.service.place(self.index);
        self.role.set(self.role.get().enter(role, me).ok_or(RecvError::NotOwner)?);
        Ok(())
    }

    pub(super) fn others(&self) -> &Others {
        &self.others
    }
}

impl Others {
    fn of(service: &ServiceFile, index: u32) -> Others {
        let settled = (0..service.servers()).map(|_| AtomicU32::new(0)).collect();
        let seen = Arc::new(Seen { settled, look_at_all: AtomicU64::new(0) });
        Others { service: service.clone(), index, seen }
    }

    /// Returns whether a server may have cleared the bit of a call that no server has begun, since
    /// all calls were last looked at.
    fn is_look_due(&self) -> bool {
        let places = || self.service.places().zip(&self.seen.settled);
        places().any(|(place, settled)| unsettled(place, settled).is_some())
            || monotonic_nanos() >= self.seen.look_at_all.load(StdOrdering::Relaxed)
    }

    /// Returns what a look at all calls that begins now settles.
    fn as_of_now(&self) -> AsOf {
        AsOf { dead: self.service.places().map(dead_word).collect(), moment: monotonic_nanos() }
    }

    /// Notes that all calls have been looked at since then, or are by what follows.
    fn settle(&self, since: AsOf) {
        for (settled, dead) in self.seen.settled.iter().zip(since.dead) {
            // Relaxed, as above: only this process's threads have the words, and each looks at all
            // calls after it has read that the holder is dead.
            settled.store(dead, StdOrdering::Relaxed);
        }
        let next = since.moment.saturating_add(LOOK_AT_ALL.as_nanos() as u64);
        self.seen.look_at_all.store(next, StdOrdering::Relaxed);
    }

    /// Sets all bits if a server may have cleared one whose call no server has begun; returns
    /// whether it did. For a server that has found nothing.
    #[cold]
    pub(super) fn look_after(&self) -> bool {
        let due = self.service.servers() > 1 && self.is_look_due();
        if due {
            self.settle(self.as_of_now());
            self.service.set_all();
        }
        due
    }

    /// Returns whether a call waits for which [`look_after`](Self::look_after) would set a bit. It
    /// changes no shared word.
    pub(super) fn is_any_left(&self) -> bool {
        if self.service.servers() == 1 || !self.is_look_due() {
            return false;
        }
        // Before the look: a server that dies during it may have cleared a bit behind it, of a call
        // that was asked behind it as well.
        let since = self.as_of_now();
        let slots = 0..self.service.client_slots() * SLOTS;
        let is_left = slots.into_iter().any(|slot| self.service.is_pending(slot));
        if !is_left {
            self.settle(since);
        }
        is_left
    }

    /// Returns whose ends a server that sleeps watches: those of the other places' holders. One that
    /// has died since the look is among them, so that the sleep ends at once.
    pub(super) fn watched(&self) -> Vec<TokenId> {
        let places = self.service.places().zip(&self.seen.settled).enumerate();
        let others = places.filter(|&(index, _)| index != self.index as usize);
        others
            .filter_map(|(_, (place, settled))| match place.standing().state {
                RoleState::Living(owner) => Some(owner),
                RoleState::Nobody => None,
                RoleState::Dead => TokenId::from_word(unsettled(place, settled)?),
            })
            .collect()
    }

    /// Returns when a server that sleeps beside others looks again.
    pub(super) fn look_at(&self) -> Deadline {
        Deadline::at_nanos(self.seen.look_at_all.load(StdOrdering::Relaxed))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.role.get().leave(self.service.place(self.index)) {
            return;
        }
        // Clients that wait for calls that are not begun, or for memory, watch this process, which
        // lives on. If it dies in here, they see that.
        self.service.tell_serving();
    }
}

/// Returns the word of a dead holder for which all calls have to be looked at.
fn unsettled(place: Role<'_>, settled: &AtomicU32) -> Option<u32> {
    let word = dead_word(place);
    (word != 0 && word != settled.load(StdOrdering::Relaxed)).then_some(word)
}

/// Returns the word of a dead holder whose last thread has ended, or 0.
fn dead_word(place: Role<'_>) -> u32 {
    let standing = place.standing();
    if standing.is_dead() { standing.holder() } else { 0 }
}

/// All servers, as a client sees them that waits for memory before it has a call: each may free some. It
/// sleeps on `serving` and behind all that live; while none does, as one that waits for a server.
pub(super) struct Servers<'a> {
    client: &'a OwnSlots,
    /// The value of `serving`, and the first place's standing, before the others were looked at.
    seen: Option<(u32, Standing)>,
    living: Vec<TokenId>,
}

impl<'a> Servers<'a> {
    pub(super) fn of(client: &'a OwnSlots) -> Servers<'a> {
        Servers { client, seen: None, living: Vec::new() }
    }
}

impl Counterpart for Servers<'_> {
    type Error = CallError;

    fn judge(&mut self) -> Result<bool, CallError> {
        let service = &self.client.service;
        // Acquire pairs with a server that comes or leaves: that it did is seen below.
        let serving = service.head().serving.load(Ordering::Acquire);
        let first = service.queue.server()?;
        self.seen = Some((serving, first));
        if !self.client.waits_for_server() {
            service.check_server()?;
        }
        let living = service.living_servers();
        let one_has_ended = self.living.iter().any(|server| !living.contains(server));
        self.living = living;
        Ok(one_has_ended)
    }

    fn sleep(
        &mut self,
        relay: &WakeRelay,
        room: Watch<'_>,
        deadline: Deadline,
    ) -> Result<Asleep, CallError> {
        let Some((expected, first)) = self.seen else { return Ok(Asleep::LookAgain) };
        let service = &self.client.service;
        let words = [room, Watch { word: &service.head().serving, expected }];
        let slept = match &self.living[..] {
            [] => service.queue.server_role().sleep(relay, &words, first, deadline),
            living => {
                Sleep::on(service.queue.registry(), &words).behind(relay, living).until(deadline)
            }
        };
        slept.map_err(|errno| self.client.refused(errno))
    }
}

impl ServiceFile {
    /// Returns how many servers the service may have.
    #[inline]
    pub(super) fn servers(&self) -> u32 {
        // Constant. 0: the file was made for one.
        self.head().servers.load(Ordering::Relaxed).clamp(1, MOST_SERVERS)
    }

    /// Returns the role of that place.
    #[inline]
    pub(super) fn place(&self, index: u32) -> Role<'_> {
        match index.checked_sub(1) {
            None => self.queue.server_role(),
            Some(other) => {
                let places = &self.head().places;
                places[other as usize % places.len()].role(self.queue.registry())
            }
        }
    }

    pub(super) fn places(&self) -> impl Iterator<Item = Role<'_>> {
        (0..self.servers()).map(|index| self.place(index))
    }

    /// Returns which process serves at the moment: of several, the first that lives. If none does,
    /// and one is dead, the service's server is dead.
    pub(super) fn server(&self) -> Result<Standing, Error> {
        let first = self.queue.server()?;
        if first.is_living() || self.servers() == 1 {
            return Ok(first);
        }
        self.any_server(first)
    }

    /// Returns the processes of all servers that live, and the last threads of those that are dying: a
    /// client whose call is not begun sleeps behind all of them, since each may begin it, and end.
    #[cold]
    pub(super) fn living_servers(&self) -> Vec<TokenId> {
        let living = |place: Role<'_>| match place.standing().state {
            RoleState::Living(owner) => Some(owner),
            RoleState::Nobody | RoleState::Dead => None,
        };
        self.places().filter_map(living).collect()
    }

    #[cold]
    fn any_server(&self, mut first: Standing) -> Result<Standing, Error> {
        let mut before = None;
        loop {
            let (mut found, mut holders) = (first, [0; MOST_SERVERS as usize]);
            holders[0] = first.holder();
            for (place, holder) in self.places().zip(&mut holders).skip(1) {
                let standing = place.standing_of_process();
                if standing.is_damaged() {
                    return Err(self.segment().damaged("a server's word"));
                }
                if standing.is_living() {
                    return Ok(standing);
                }
                if standing.is_dead() {
                    found = standing;
                }
                *holder = standing.holder();
            }
            // While we read one place after the other, a server may have come to one that was read,
            // and another may have left one that was not read yet. So the places are read until they
            // are as they were: each further round is for a server that came or went.
            if before == Some(holders) {
                return Ok(found);
            }
            before = Some(holders);
            first = self.queue.server()?;
            if first.is_living() {
                return Ok(first);
            }
        }
    }

    /// Checks that a process serves that can be asked.
    #[inline]
    pub(super) fn check_server(&self) -> Result<(), SendError> {
        match self.queue.check_server() {
            Err(SendError::NoReceiver | SendError::ReceiverDied) if self.servers() > 1 => {
                match self.server()?.state {
                    RoleState::Living(_) => Ok(()),
                    RoleState::Nobody => Err(SendError::NoReceiver),
                    RoleState::Dead => Err(SendError::ReceiverDied),
                }
            }
            other => other,
        }
    }

    /// Repeats `take`, which takes a place, until one is free: it sleeps behind the holders of all
    /// places. `None`: the deadline has passed.
    #[cold]
    pub(super) fn wait_to_serve<S>(
        &self,
        deadline: Deadline,
        mut take: impl FnMut() -> Result<S, Error>,
    ) -> Result<Option<S>, Error> {
        let registry = self.queue.registry();
        let me = registry.me()?;
        let relay = WakeRelay::begin(me.list());
        loop {
            // That a server has left by now is seen below.
            let left = self.serving();
            let living = |place: Role<'_>| match place.standing().state {
                RoleState::Living(owner) => Some(owner),
                RoleState::Nobody | RoleState::Dead => None,
            };
            let owners = self.places().filter_map(living).collect::<Vec<_>>();
            if owners.len() < self.servers() as usize || deadline.has_passed() {
                let taken = unless_taken(take())?;
                if taken.is_some() || deadline.has_passed() {
                    return Ok(taken);
                }
                continue;
            }
            let watch = [left];
            let slept = Sleep::on(registry, &watch).behind(&relay, &owners).until(deadline);
            slept.map_err(|errno| Error::from_errno("wait in", registry.path(), errno))?;
        }
    }

    pub(super) fn set_all(&self) {
        self.asks().set_all(self.client_slots() * SLOTS);
    }

    /// Wakes the clients and the processes that wait for a change of the servers, after it.
    #[cold]
    fn tell_serving(&self) {
        // A death before: a process that waits for a server sleeps on, and no server has come.
        self.raise_serving();
        self.wake_clients();
    }

    /// Wakes the processes that sleep on `serving`, or are about to.
    #[cold]
    pub(super) fn raise_serving(&self) {
        // Release pairs with the look of a process that waits for a server.
        let serving = &self.head().serving;
        serving.fetch_add(1, Ordering::AcqRel);
        futex::wake_all(serving);
    }

    /// Wakes every client that waits for a reply: it looks again whether a server lives.
    #[cold]
    pub(super) fn wake_clients(&self) {
        crate::sys::barrier::light();
        for slot in 0..self.client_slots() * SLOTS {
            // Once more where the system did not say whether the slot exists. Then a client that
            // sleeps in it looks again after the recheck interval.
            if let Ok(call) = self.call(slot).or_else(|_| self.call(slot)) {
                call.words.wake_client();
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::Ordering as StdOrdering;

    use crate::Domain;
    use crate::rpc::Service;
    use crate::shim::Ordering;
    use crate::wait::{Readiness, WaitSet};

    #[test]
    fn a_server_beside_others_finds_a_call_whose_bit_was_cleared() {
        let name = format!("outlive-unit-places-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let service = Service::<[u8]>::options().max_servers(2);
        let service = service.create_new(&domain, "s").expect("made");
        let mut server = service.server().expect("a place");
        // Of a thread that has ended: such a server can be dead.
        let other = std::thread::scope(|scope| scope.spawn(|| service.server()).join());
        let other = other.expect("joined").expect("another place");
        let client = service.client().expect("room");
        assert!(server.try_next().expect("serves").is_none());

        let call = client.begin(b"a").expect("sent");
        // As a server that is stopped between the clearing of a bit and its second look.
        service.file.asks().clear(0);
        let mut set = WaitSet::new(&domain);
        let _served = set.add(&server).expect("a source");
        assert_eq!(set.try_wait().expect("waits").count(), 0);
        assert!(
            server.try_next().expect("serves").is_none(),
            "it looks at all calls once a second"
        );
        let look_now = |server: &crate::rpc::Server| {
            let seen = &server.place.others.seen;
            seen.look_at_all.store(0, StdOrdering::Relaxed);
        };
        look_now(&server);
        let ready: Vec<_> = set.wait().expect("waits").map(|(_, what)| what).collect();
        assert_eq!(ready, [Readiness::Readable]);
        server.try_next().expect("serves").expect("asked").reply(b"b").expect("it waits");
        assert_eq!(*call.wait().expect("answered"), *b"b");

        look_now(&server);
        assert_eq!(set.try_wait().expect("waits").count(), 0, "and no call is left");
        assert!(!server.place.others.is_look_due(), "the set has looked");

        // A server that dies during the set's look is not settled by it.
        let place = &server.place;
        let since = place.others.as_of_now();
        let holder = service.file.place(1).holder;
        let living = holder.load(Ordering::Relaxed);
        holder.store(living ^ 1 << 16, Ordering::Relaxed);
        place.others.settle(since);
        assert!(place.others.is_look_due());
        assert_eq!(set.try_wait().expect("waits").count(), 0);
        assert!(!place.others.is_look_due());
        holder.store(living, Ordering::Relaxed);
        drop(other);
        let _ = std::fs::remove_dir_all(&folder);
    }
}
