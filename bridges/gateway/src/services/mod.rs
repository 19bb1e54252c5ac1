//! All services of a gateway: which leave and which come in, and the calls that are on their way.
//!
//! zenoh calls the functions here on its own threads. They take short locks, and leave what waits for
//! others to threads of its own.

pub mod carried;
pub mod offer;
pub mod stand_in;
pub mod tasks;
pub mod wire;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::query::Query;
use zenoh::sample::{Sample, SampleKind};

use crate::context::{Shared, lock};
use crate::keys;
use crate::leaving::Leaving;
use crate::names;
use crate::names::OWN;
use crate::rules::{Rule, Rules, Thing};
use crate::services::carried::Told;
use crate::services::offer::{Offer, Said};
use crate::services::stand_in::{Elsewhere, StandIn};
use crate::services::tasks::Inbox;
use crate::services::wire::{self as call_wire, CallId, Kind, ServiceMeta, Word};
use crate::told::Event;
use crate::wire::Origin;

/// How long another gateway may take to say what its service is.
const META: Duration = Duration::from_secs(10);
/// As many calls of a service are carried out for others at a time.
const MOST_CALLS: usize = 1024;
/// As many of them for one caller: a stand-in takes no more.
pub const MOST_OF_A_CALLER: usize = 512;
/// As many words and parts of a call wait here: of a gateway that keeps the protocol there are fewer.
const MOST_WORDS: usize = 64;
/// As many services elsewhere are known at a time.
const MOST_KNOWN: usize = 1 << 14;
/// Of so many gateways' starts it is known which calls have come.
const MOST_CALLERS: usize = 1024;
/// So many numbers of a caller are known one by one; what is below has come, or never will.
const MOST_NUMBERS: usize = 1 << 14;

/// Where a call is carried out, if at a gateway, and what is told of it.
type Asked = (Option<Elsewhere>, Arc<Inbox<Told>>);

/// The calls of clients here that are carried to others.
pub struct Calls {
    origin: Origin,
    epoch: u64,
    count: AtomicU64,
    /// By number: where it is carried out, and what is told of it.
    open: Mutex<HashMap<u64, Asked>>,
}

impl Calls {
    /// Begins a call.
    pub fn begin(&self, elsewhere: Option<Elsewhere>) -> (CallId, Arc<Inbox<Told>>) {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let inbox = Arc::new(Inbox::default());
        lock(&self.open).insert(number, (elsewhere, Arc::clone(&inbox)));
        (CallId { origin: self.origin, epoch: self.epoch, number }, inbox)
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
    /// With the offer.
    calls: HashMap<CallId, (u64, Arc<Inbox<Said>>)>,
    callers: HashMap<(Origin, u64), Caller>,
    count: u64,
    /// By offer, and by offer and caller.
    open: HashMap<(u64, Option<(Origin, u64)>), Open>,
    /// Callers whose tokens have gone, the last last: a request may come behind that, and no process
    /// would let go of its call.
    gone: VecDeque<(Origin, u64)>,
}

/// Calls of an offer.
#[derive(Default)]
struct Open {
    count: usize,
    /// One was refused since there was none.
    has_refused: bool,
}

/// What becomes of a call that comes.
enum Admitted {
    Yes(Arc<Inbox<Said>>),
    /// There are too many; whether that has been told.
    TooMany(bool),
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

    /// A caller's token has come, or gone.
    fn token(&mut self, caller: (Origin, u64), came: bool) {
        self.gone.retain(|gone| *gone != caller);
        if !came {
            self.gone.push_back(caller);
        }
        if self.gone.len() > MOST_CALLERS {
            self.gone.pop_front();
        }
    }

    /// Lets a call in that has not come before.
    fn admit(&mut self, offer: u64, id: CallId) -> Admitted {
        let bounds = [(None, MOST_CALLS), (Some((id.origin, id.epoch)), MOST_OF_A_CALLER)];
        for (caller, most) in bounds {
            if let Some(open) = self.open.get_mut(&(offer, caller))
                && open.count >= most
            {
                return Admitted::TooMany(std::mem::replace(&mut open.has_refused, true));
            }
        }
        for (caller, _) in bounds {
            self.open.entry((offer, caller)).or_default().count += 1;
        }
        let words = Arc::new(Inbox::default());
        self.calls.insert(id, (offer, Arc::clone(&words)));
        Admitted::Yes(words)
    }

    /// A call is over, or let go of: it counts no more. A word that tells the latter, and what the same
    /// caller asks next, find it so.
    fn end(&mut self, id: CallId) {
        let Some((offer, _)) = self.calls.remove(&id) else { return };
        for caller in [None, Some((id.origin, id.epoch))] {
            if let Some(open) = self.open.get_mut(&(offer, caller)) {
                open.count -= 1;
                if open.count == 0 {
                    self.open.remove(&(offer, caller));
                }
            }
        }
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
    offers: Leaving<Offer>,
    stand_ins: Mutex<HashMap<String, Arc<StandIn>>>,
    known: Mutex<Known>,
    calls: Arc<Calls>,
    running: Mutex<Running>,
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
            offers: Leaving::new(Thing::Service),
            stand_ins: Mutex::default(),
            known: Mutex::default(),
            calls: Arc::new(Calls {
                origin,
                epoch,
                count: AtomicU64::new(0),
                open: Mutex::default(),
            }),
            running: Mutex::default(),
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
        for (kind, handle) in [
            ("call-word", Services::word as fn(&Arc<Services>, &Sample)),
            ("call-part", Services::part),
        ] {
            let words = session.declare_subscriber(keys::all_of(kind, origin));
            words.callback(of(handle)).background().wait()?;
        }
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
        self.offers.has_removed()
            || lock(&self.stand_ins).values().any(|stand_in| stand_in.is_removed())
    }

    /// What is in the domain has changed.
    pub fn look(self: &Arc<Services>, names: &[String]) {
        let open = |name: &str, key, _: &Rule| Offer::open(&self.context, name, key);
        self.offers.look(&self.context, &self.rules, names, open);
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
        let came = sample.kind() == SampleKind::Put;
        let mut running = lock(&self.running);
        running.token((origin, epoch), came);
        if came {
            return;
        }
        let is_its = |id: &CallId| (id.origin, id.epoch) == (origin, epoch);
        for (_, (_, words)) in running.calls.iter().filter(|(id, _)| is_its(id)) {
            words.put(Said::Word(Word::Cancelled));
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
            Some((_, words)) if word == Word::Cancelled => {
                words.put(Said::Word(word));
                running.end(id);
            }
            Some((_, words)) => words.put_below(MOST_WORDS, Said::Word(word)),
            // It may have come before its request, which then is not to be carried out.
            None if word == Word::Cancelled => {
                running.note(id);
            }
            None => {}
        }
    }

    /// A part of a request. One of a call that is not known is dropped: parts are sent once the call has
    /// begun here, so that one is over.
    fn part(self: &Arc<Services>, sample: &Sample) {
        let attachment = sample.attachment().map(|bytes| bytes.to_bytes());
        let part = attachment.and_then(|bytes| call_wire::part_from_bytes(&bytes));
        let Some((id, number, is_end)) = part else { return };
        let payload = (!is_end).then(|| sample.payload().clone());
        if let Some((_, words)) = lock(&self.running).calls.get(&id) {
            words.put_below(MOST_WORDS, Said::Part(number, payload));
        }
    }

    fn offer(&self, instance: u64) -> Option<Arc<Offer>> {
        self.offers.find(|offer| offer.instance == instance)
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
        let instance = keys::parse("call", key).map(|service| service.instance);
        let Some((instance, asked)) = instance.zip(asked) else {
            return refuse("not a call that this version knows");
        };
        let (id, offer) = (asked.id, self.offer(instance));
        let mut running = lock(&self.running);
        // Before all else: what is refused below has come, too, and its repeat is not carried out.
        if !running.note(id) {
            drop(running);
            return refuse("the call has come before");
        }
        let Some(offer) = offer else {
            drop(running);
            return not_begun(&query);
        };
        // No client waits: it was told.
        if running.gone.contains(&(id.origin, id.epoch)) {
            drop(running);
            return refuse("its gateway has gone");
        }
        let words = match running.admit(instance, id) {
            Admitted::Yes(words) => words,
            Admitted::TooMany(is_told) => {
                drop(running);
                if !is_told {
                    refuse("there are as many calls as a gateway has");
                }
                return not_begun(&query);
            }
        };
        drop(running);
        let services = Arc::clone(self);
        let run = async move {
            offer.carry_out(asked, query, &words).await;
            lock(&services.running).end(id);
        };
        match tasks::runtime() {
            Ok(runtime) => drop(runtime.spawn(run)),
            Err(_) => lock(&self.running).end(id),
        }
    }

    /// Ends in order.
    pub fn close(&self) {
        lock(&self.token).take();
        self.offers.close();
        lock(&self.stand_ins).drain().for_each(|(_, stand_in)| stand_in.close());
    }
}

/// Says that no server has begun the call, and none will.
fn not_begun(query: &Query) {
    let reply = query.reply(query.key_expr().clone(), [0_u8; 0]);
    // A failure: its gateway has gone.
    let _ = reply.attachment(call_wire::replied_to_bytes(0, Kind::NotBegun)).wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_no_more_than_there_is_room_for() {
        let mut running = Running::default();
        let id = |epoch, number| CallId { origin: Origin(1), epoch, number };
        let mut admitted = |epoch, number| running.admit(7, id(epoch, number));
        for number in 0..MOST_OF_A_CALLER as u64 {
            assert!(matches!(admitted(1, number), Admitted::Yes(_)));
        }
        assert!(matches!(admitted(1, 1 << 20), Admitted::TooMany(false)));
        assert!(matches!(admitted(1, 1 << 20), Admitted::TooMany(true)), "told once");
        for number in 0..MOST_OF_A_CALLER as u64 {
            assert!(matches!(admitted(2, number), Admitted::Yes(_)), "another caller");
        }
        assert!(matches!(admitted(3, 0), Admitted::TooMany(false)), "the service has too many");
        running.end(id(1, 0));
        running.end(id(1, 0));
        assert!(matches!(running.admit(7, id(3, 0)), Admitted::Yes(_)));
        for (epoch, numbers) in [(1, 1..MOST_OF_A_CALLER as u64), (2, 0..MOST_OF_A_CALLER as u64)] {
            numbers.for_each(|number| running.end(id(epoch, number)));
        }
        running.end(id(3, 0));
        assert!(running.open.is_empty() && running.calls.is_empty());
    }

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
    fn callers_that_have_gone_are_known_until_they_come_back() {
        let mut running = Running::default();
        for epoch in 0..2 * MOST_CALLERS as u64 {
            running.token((Origin(1), epoch), false);
        }
        assert_eq!(running.gone.len(), MOST_CALLERS);
        let last = (Origin(1), 2 * MOST_CALLERS as u64 - 1);
        assert!(running.gone.contains(&last));
        running.token(last, true);
        running.token((Origin(2), 0), true);
        assert!(!running.gone.contains(&last));
        assert_eq!(running.gone.len(), MOST_CALLERS - 1);
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
