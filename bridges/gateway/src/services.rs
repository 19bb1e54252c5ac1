//! All services of a gateway: which leave and which come in, and the calls that are on their way.
//!
//! zenoh calls the functions here on its own threads. They take short locks, and leave what waits for
//! others to threads of its own.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::query::Query;
use zenoh::sample::{Sample, SampleKind};

use crate::call_wire::{self, CallId, ServiceMeta, Word};
use crate::context::Shared;
use crate::either::Inbox;
use crate::keys;
use crate::names;
use crate::names::OWN;
use crate::offer::Offer;
use crate::rules::{Rules, Thing};
use crate::stand_in::{Elsewhere, StandIn, Told};
use crate::told::Event;
use crate::wire::Origin;

/// How long another gateway may take to say what its service is.
const META: Duration = Duration::from_secs(10);
/// As many calls are on their way, in each direction.
const MOST_CALLS: usize = 512;
/// As many services elsewhere are known at a time.
const MOST_KNOWN: usize = 1 << 14;
/// Of so many gateways' starts it is known which calls have come.
const MOST_CALLERS: usize = 1024;
/// So many numbers of a caller are known one by one; what is below has come, or never will.
const MOST_NUMBERS: usize = 1 << 14;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a call is carried out, if at a gateway, and what is told of it.
type Open = (Option<Elsewhere>, Arc<Inbox<Told>>);

/// The calls of clients here that are carried to others.
pub struct Calls {
    origin: Origin,
    epoch: u64,
    count: AtomicU64,
    /// By number: where it is carried out, and what is told of it.
    open: Mutex<HashMap<u64, Open>>,
}

impl Calls {
    /// Begins a call; `None`: there are too many.
    pub fn begin(&self, elsewhere: Option<Elsewhere>) -> Option<(CallId, Arc<Inbox<Told>>)> {
        let mut open = lock(&self.open);
        if open.len() >= MOST_CALLS {
            return None;
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let inbox = Arc::new(Inbox::default());
        open.insert(number, (elsewhere, Arc::clone(&inbox)));
        Some((CallId { origin: self.origin, epoch: self.epoch, number }, inbox))
    }

    /// A call is over.
    pub fn end(&self, id: CallId) {
        lock(&self.open).remove(&id.number);
    }

    /// That gateway has gone; returns how many calls end with it.
    fn gone(&self, origin: Origin, epoch: u64) -> u64 {
        let open = lock(&self.open);
        let is_there =
            |at: &Option<Elsewhere>| at.is_some_and(|at| (at.origin, at.epoch) == (origin, epoch));
        let ended = open.values().filter(|(at, _)| is_there(at));
        ended.map(|(_, inbox)| inbox.put(Told::Over)).count() as u64
    }
}

/// Which calls of a caller have come.
#[derive(Default)]
struct Caller {
    /// All below have.
    below: u64,
    numbers: BTreeSet<u64>,
    /// When it called last, in calls of all.
    at: u64,
}

impl Caller {
    /// Notes a call; returns whether it has not come before.
    fn note(&mut self, number: u64) -> bool {
        if number < self.below || !self.numbers.insert(number) {
            return false;
        }
        if self.numbers.len() > MOST_NUMBERS
            && let Some(lowest) = self.numbers.pop_first()
        {
            self.below = lowest + 1;
        }
        true
    }
}

/// The calls of clients elsewhere that are carried out here.
#[derive(Default)]
struct Running {
    calls: HashMap<CallId, Arc<Inbox<Word>>>,
    callers: HashMap<(Origin, u64), Caller>,
    count: u64,
}

impl Running {
    /// Notes a call; returns whether it has not come before.
    fn note(&mut self, id: CallId) -> bool {
        self.count += 1;
        let caller = (id.origin, id.epoch);
        if !self.callers.contains_key(&caller) && self.callers.len() >= MOST_CALLERS {
            let oldest = self.callers.iter().min_by_key(|(_, caller)| caller.at);
            if let Some(oldest) = oldest.map(|(caller, _)| *caller) {
                self.callers.remove(&oldest);
            }
        }
        let known = self.callers.entry(caller).or_default();
        known.at = self.count;
        known.note(id.number)
    }
}

/// A service elsewhere that may come in under a name here.
#[derive(Default)]
struct Known {
    /// By name here: the servers, the one that is known longest first, and their key.
    servers: HashMap<String, (String, Vec<Elsewhere>)>,
    /// Names that are being opened.
    opening: HashSet<String>,
    /// Names that cannot come in, as long as the same servers are there.
    refused: HashSet<String>,
}

/// See the head of this file.
pub struct Services {
    context: Shared,
    rules: Rules,
    offers: Mutex<HashMap<String, Arc<Offer>>>,
    stand_ins: Mutex<HashMap<String, Arc<StandIn>>>,
    known: Mutex<Known>,
    calls: Arc<Calls>,
    running: Mutex<Running>,
    refused: Mutex<HashSet<String>>,
    /// This gateway is there.
    token: Mutex<Option<LivelinessToken>>,
}

impl Services {
    /// Begins.
    ///
    /// # Errors
    /// zenoh's.
    pub fn start(context: &Shared, rules: &Rules) -> zenoh::Result<Arc<Services>> {
        let (origin, epoch) = (context.origin(), context.epoch);
        let services = Arc::new(Services {
            context: Arc::clone(context),
            rules: rules.clone(),
            offers: Mutex::default(),
            stand_ins: Mutex::default(),
            known: Mutex::default(),
            calls: Arc::new(Calls {
                origin,
                epoch,
                count: AtomicU64::new(0),
                open: Mutex::default(),
            }),
            running: Mutex::default(),
            refused: Mutex::default(),
            token: Mutex::default(),
        });
        let session = &context.session;
        let of = |handle: fn(&Arc<Services>, Query)| {
            let services = Arc::clone(&services);
            move |query: Query| handle(&services, query)
        };
        for (key, handle) in [
            (keys::calls(origin, epoch), Services::called as fn(&Arc<Services>, Query)),
            (keys::all_of("service-meta", origin), Services::answer_meta),
        ] {
            session.declare_queryable(key).callback(of(handle)).background().wait()?;
        }
        let of = |handle: fn(&Arc<Services>, &Sample)| {
            let services = Arc::clone(&services);
            move |sample: Sample| handle(&services, &sample)
        };
        let words = session.declare_subscriber(keys::all_of("call-word", origin));
        words.callback(of(Services::word)).background().wait()?;
        let token = session.liveliness().declare_token(keys::gateway(origin, epoch)).wait()?;
        *lock(&services.token) = Some(token);
        // Last: from here on others are asked.
        for (kind, handle) in [
            ("gateway", Services::gateway_token as fn(&Arc<Services>, &Sample)),
            ("service", Services::service_token),
        ] {
            let tokens = session.liveliness().declare_subscriber(keys::all(kind)).history(true);
            tokens.callback(of(handle)).background().wait()?;
        }
        Ok(services)
    }

    /// Whether the name of a service was removed that leaves or comes in.
    #[must_use]
    pub fn has_removed(&self) -> bool {
        lock(&self.offers).values().any(|offer| offer.is_removed())
            || lock(&self.stand_ins).values().any(|stand_in| stand_in.is_removed())
    }

    /// What is in the domain has changed.
    pub fn look(self: &Arc<Services>, names: &[String]) {
        let mut offers = lock(&self.offers);
        offers.retain(|name, offer| {
            let stays = names.contains(name) && !offer.is_removed();
            if !stays {
                offer.close();
            }
            stays
        });
        for name in names.iter().filter(|name| !name.starts_with(OWN)) {
            if offers.contains_key(name)
                || !matches!(self.context.domain.kind_of(name), Ok(outlive::Kind::Service))
            {
                continue;
            }
            let opened = names::key_of(name).map_err(|why| why.to_string()).and_then(|key| {
                let outward = self.rules.outward(Thing::Service, &key);
                outward.map(|(_, key)| Offer::open(&self.context, name, key)).transpose()
            });
            match opened {
                Ok(Some(offer)) => {
                    offers.insert(name.clone(), offer);
                }
                Ok(None) => {}
                Err(why) => {
                    if lock(&self.refused).insert(name.clone()) {
                        self.context.told.tell(&Event::of("refused", name).because(&why));
                    }
                }
            }
        }
        drop(offers);
        let mut removed = Vec::new();
        lock(&self.stand_ins).retain(|name, stand_in| {
            let is_removed = stand_in.is_removed();
            if is_removed {
                stand_in.close();
                removed.push(name.clone());
            }
            !is_removed
        });
        removed.iter().for_each(|name| self.open_stand_in(name));
        self.look_for_queryables(names);
    }

    fn service_token(self: &Arc<Services>, sample: &Sample) {
        let Some((elsewhere, key)) = keys::parse_service(sample.key_expr().as_str()) else {
            return;
        };
        if elsewhere.origin == self.context.origin() {
            return;
        }
        let Some((_, here)) = self.rules.inward(Thing::Service, key) else { return };
        let name = match names::name_of(&here) {
            Ok(name) => name,
            Err(why) => {
                let event = Event::of("refused", key).from(elsewhere.origin);
                return self.context.told.tell(&event.because(&why.to_string()));
            }
        };
        // Gateways' own things stay where they are.
        if name.starts_with(OWN) {
            return;
        }
        let mut known = lock(&self.known);
        if sample.kind() == SampleKind::Put {
            if known.servers.len() >= MOST_KNOWN {
                return;
            }
            let (_, servers) =
                known.servers.entry(name.clone()).or_insert_with(|| (key.to_owned(), Vec::new()));
            if !servers.contains(&elsewhere) {
                servers.push(elsewhere);
            }
        } else if let Some((_, servers)) = known.servers.get_mut(&name) {
            servers.retain(|server| *server != elsewhere);
            if servers.is_empty() {
                known.servers.remove(&name);
            }
        }
        known.refused.remove(&name);
        drop(known);
        self.open_stand_in(&name);
    }

    /// Tells the stand-in of that name which servers there are; makes it if need be, on a thread of its
    /// own: another gateway is asked what the service is.
    fn open_stand_in(self: &Arc<Services>, name: &str) {
        let mut known = lock(&self.known);
        let servers = known.servers.get(name).map_or(Vec::new(), |(_, servers)| servers.clone());
        if let Some(stand_in) = lock(&self.stand_ins).get(name) {
            stand_in.set_servers(servers);
            return;
        }
        if servers.is_empty()
            || known.refused.contains(name)
            || !known.opening.insert(name.to_owned())
        {
            return;
        }
        drop(known);
        let (services, name) = (Arc::clone(self), name.to_owned());
        let open = {
            let name = name.clone();
            move || {
                let opened = services.stand_in_of(&name, servers[0]);
                let mut known = lock(&services.known);
                known.opening.remove(&name);
                match opened {
                    Ok(stand_in) => {
                        lock(&services.stand_ins).insert(name.clone(), stand_in);
                    }
                    Err(Some(why)) => {
                        let event = Event::of("refused", &name).from(servers[0].origin);
                        services.context.told.tell(&event.because(&why));
                        known.refused.insert(name.clone());
                    }
                    // That gateway was killed, or stopped, as it was asked; another may be there.
                    Err(None) => {
                        drop(known);
                        let (again, lease) = (Arc::clone(&services), services.context.lease);
                        let later = move || again.open_stand_in(&name);
                        return services.context.later.after(lease, later);
                    }
                }
                drop(known);
                services.open_stand_in(&name);
            }
        };
        if std::thread::Builder::new().name("gateway-open".into()).spawn(open).is_err() {
            lock(&self.known).opening.remove(&name);
        }
    }

    /// Returns the key whose queryables may serve the service of that name.
    fn plain(&self, name: &str) -> Option<String> {
        names::key_of(name).ok().and_then(|key| self.rules.queryables(&key))
    }

    /// Opens the stand-ins of services that are here, and that queryables may serve.
    fn look_for_queryables(self: &Arc<Services>, names: &[String]) {
        for name in names {
            let is_known = lock(&self.known).opening.contains(name)
                || lock(&self.stand_ins).contains_key(name);
            let Some(key) = self.plain(name).filter(|_| !is_known) else { continue };
            if !matches!(self.context.domain.kind_of(name), Ok(outlive::Kind::Service)) {
                continue;
            }
            match StandIn::open(&self.context, name, None, Some(key), &self.calls) {
                Ok(stand_in) => {
                    lock(&self.stand_ins).insert(name.clone(), stand_in);
                    self.open_stand_in(name);
                }
                Err(why) => self.context.told.tell(&Event::of("refused", name).because(&why)),
            }
        }
    }

    /// `Err(None)`: the other gateway did not say what the service is.
    fn stand_in_of(&self, name: &str, at: Elsewhere) -> Result<Arc<StandIn>, Option<String>> {
        let key = lock(&self.known).servers.get(name).map(|(key, _)| key.clone()).ok_or(None)?;
        let inward = self.rules.inward(Thing::Service, &key);
        let (rule, _) = inward.ok_or_else(|| Some("no rule lets it in".to_owned()))?;
        let question = keys::message("service-meta", at.origin, at.instance);
        let replies = self.context.session.get(question).timeout(META).wait();
        let replies = replies.map_err(|error| Some(error.to_string()))?;
        while let Ok(reply) = replies.recv() {
            if let Ok(sample) = reply.result() {
                let meta = serde_json::from_slice::<ServiceMeta>(&sample.payload().to_bytes());
                let meta = meta.map_err(|error| Some(error.to_string()))?;
                let (meta, plain) = (Some((&meta, rule)), self.plain(name));
                return StandIn::open(&self.context, name, meta, plain, &self.calls).map_err(Some);
            }
        }
        Err(None)
    }

    /// A gateway has gone: so have its clients, and its servers are out of reach.
    fn gateway_token(self: &Arc<Services>, sample: &Sample) {
        let Some((origin, epoch)) = keys::parse_gateway(sample.key_expr().as_str()) else { return };
        if sample.kind() != SampleKind::Delete {
            return;
        }
        let running = lock(&self.running);
        let is_its = |id: &CallId| (id.origin, id.epoch) == (origin, epoch);
        for (_, words) in running.calls.iter().filter(|(id, _)| is_its(id)) {
            words.put(Word::Cancelled);
        }
        drop(running);
        let ended = self.calls.gone(origin, epoch);
        if ended > 0 {
            self.context.told.tell(&Event::of("unreachable", "calls").from(origin).messages(ended));
        }
    }

    fn word(self: &Arc<Services>, sample: &Sample) {
        let word = call_wire::word_from_bytes(&sample.payload().to_bytes());
        let Some((id, word)) = word else { return };
        let mut running = lock(&self.running);
        match running.calls.get(&id) {
            Some(words) => words.put(word),
            // It may have come before its request, which then is not to be carried out.
            None if word == Word::Cancelled => {
                running.note(id);
            }
            None => {}
        }
    }

    fn offer(&self, instance: u64) -> Option<Arc<Offer>> {
        lock(&self.offers).values().find(|offer| offer.instance == instance).cloned()
    }

    fn answer_meta(self: &Arc<Services>, query: Query) {
        let service = keys::parse("service-meta", query.key_expr().as_str());
        let Some(offer) = service.and_then(|service| self.offer(service.instance)) else { return };
        let bytes = serde_json::to_vec(offer.meta()).unwrap_or_default();
        // A failure: the other has gone.
        let _ = query.reply(query.key_expr().clone(), bytes).wait();
    }

    /// A call of a client elsewhere. A question that gets no answer has ended: its client is told that it
    /// is not known what became of it.
    fn called(self: &Arc<Services>, query: Query) {
        let key = query.key_expr().as_str();
        let refuse = |why: &str| self.context.told.tell(&Event::of("refused", key).because(why));
        let attachment = query.attachment().map(|bytes| bytes.to_bytes());
        let asked = attachment.and_then(|bytes| call_wire::asked_from_bytes(&bytes));
        let offer = keys::parse("call", key).and_then(|service| self.offer(service.instance));
        let Some((offer, (id, fingerprint))) = offer.zip(asked) else {
            return refuse("not a call that this version knows");
        };
        let mut running = lock(&self.running);
        if running.calls.len() >= MOST_CALLS {
            return refuse("there are as many calls as a gateway has");
        }
        if !running.note(id) {
            return refuse("the call has come before");
        }
        let words = Arc::new(Inbox::default());
        running.calls.insert(id, Arc::clone(&words));
        drop(running);
        let services = Arc::clone(self);
        let run = move || {
            offer.carry_out(id, fingerprint, &query, &words);
            lock(&services.running).calls.remove(&id);
        };
        if std::thread::Builder::new().name("gateway-call".into()).spawn(run).is_err() {
            lock(&self.running).calls.remove(&id);
        }
    }

    /// Ends in order.
    pub fn close(&self) {
        lock(&self.token).take();
        lock(&self.offers).drain().for_each(|(_, offer)| offer.close());
        lock(&self.stand_ins).drain().for_each(|(_, stand_in)| stand_in.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_has_come_is_known_for_good() {
        let mut running = Running::default();
        let id = |epoch, number| CallId { origin: Origin(1), epoch, number };
        assert!(running.note(id(1, 5)) && running.note(id(1, 3)) && running.note(id(2, 5)));
        assert!(!running.note(id(1, 5)) && !running.note(id(1, 3)));
        for number in 10..10 + 2 * MOST_NUMBERS as u64 {
            assert!(running.note(id(1, number)));
        }
        // What has fallen out of the numbers is below them.
        assert!(!running.note(id(1, 5)) && !running.note(id(1, 4)) && !running.note(id(1, 11)));
        assert!(running.callers[&(Origin(1), 1)].numbers.len() <= MOST_NUMBERS);
    }

    #[test]
    fn callers_are_no_more_than_there_is_room_for() {
        let mut running = Running::default();
        for epoch in 0..2 * MOST_CALLERS as u64 {
            assert!(running.note(CallId { origin: Origin(1), epoch, number: 0 }));
        }
        assert_eq!(running.callers.len(), MOST_CALLERS);
    }
}
