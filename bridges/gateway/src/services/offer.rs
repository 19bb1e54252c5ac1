//! A service that leaves: its server is here, and calls of others come by the network.
//!
//! | state of a call | repaired by |
//! | --- | --- |
//! | its request is known by its number, and not asked here yet | a death: the caller's gateway, whose question ends with the link, tells its client "died" |
//! | asked here, not begun by its server | the server's death: this gateway says "not begun", of which it was told that none will begin it. This one's: as above |
//! | begun, parts coming in, replies going out | the server's death: this gateway says "died". This one's: its calls end as a dead client's, and the caller as above |
//! | let go of by the caller, or the caller's gateway has gone | this gateway lets go of the call: the server sees it cancelled |
//! | over | a repeat of the request is known by its number, and refused |

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use outlive::rpc::{Call, CallError, Client, PartRoom, Reply, RequestStream, Service};
use outlive::{Deadline, TokenId};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::liveliness::LivelinessToken;
use zenoh::query::{Query, Queryable};

use crate::context::{COPIED, Shared};
use crate::journal;
use crate::keys;
use crate::leaving::Leaves;
use crate::services::tasks::{self, Inbox, on_the_link};
use crate::services::wire::{self as call_wire, Asked, CallId, Kind, ServiceMeta, Word};
use crate::told::Event;
use crate::wire;

/// As many replies are on their way to a client elsewhere.
const WINDOW: u64 = 32;
/// As many parts of a request are on their way from it.
pub const PARTS: u64 = 8;
/// How long a request may wait here for memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether the service was removed.
const LOOK: Duration = Duration::from_secs(1);

/// As many questions of programs that are no gateways are answered at a time.
const MOST_STRANGERS: usize = 64;

/// What the caller's gateway says of a call.
pub enum Said {
    /// How far it has come.
    Word(Word),
    /// So many parts of the request came before this one; or, they were all.
    Part(u64, Option<ZBytes>),
}

static STRANGERS: AtomicUsize = AtomicUsize::new(0);

/// See the head of this file.
pub struct Offer {
    context: Shared,
    name: String,
    key: String,
    service: Service,
    /// Which offer it is: a service that is made anew has another.
    pub instance: u64,
    client: Arc<Client>,
    meta: ServiceMeta,
    state: Mutex<State>,
    closed: AtomicBool,
}

#[derive(Default)]
struct State {
    server: Option<TokenId>,
    token: Option<LivelinessToken>,
    queryable: Option<Queryable<()>>,
}

/// What is known of a service in this domain.
pub fn meta_of(context: &Shared, service: &Service, name: &str) -> Result<ServiceMeta, String> {
    let text = |error: outlive::Error| error.to_string();
    let type_name = context.domain.type_name_of(name).map_err(text)?;
    let description = service.description().map_err(text)?.map(|found| found.to_bytes());
    let fingerprint = wire::fingerprint(&type_name, description.as_deref());
    Ok(ServiceMeta { type_name, description, max_bytes: service.config().max_bytes, fingerprint })
}

impl Leaves for Offer {
    /// Ends it: others see that there is no server any more.
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::default();
    }

    /// Whether the service's name has been removed.
    fn is_removed(&self) -> bool {
        self.service.is_removed()
    }
}

impl Offer {
    /// Watches a service, which others may call while it has a server here.
    ///
    /// # Errors
    /// Why it cannot leave.
    pub fn open(context: &Shared, name: &str, key: String) -> Result<Arc<Offer>, String> {
        let text = |error: outlive::Error| error.to_string();
        let service = Service::open_as_bytes(&context.domain, name).map_err(text)?;
        let meta = meta_of(context, &service, name)?;
        let offer = Arc::new(Offer {
            context: Arc::clone(context),
            name: name.to_owned(),
            key,
            instance: journal::random().map_err(|error| error.to_string())? as u64,
            client: Arc::new(service.client().map_err(text)?),
            meta,
            service,
            state: Mutex::default(),
            closed: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&offer);
        let run = move || {
            if let Err(why) = theirs.watch() {
                theirs.context.told.tell(&Event::of("refused", &theirs.name).because(&why));
            }
            theirs.close();
        };
        let named = std::thread::Builder::new().name("gateway-offer".into());
        named.spawn(run).map_err(|error| error.to_string())?;
        Ok(offer)
    }

    /// Returns what others have to know to make the service.
    pub fn meta(&self) -> &ServiceMeta {
        &self.meta
    }

    /// Announces the service as servers of its own come and go.
    fn watch(self: &Arc<Offer>) -> Result<(), String> {
        let mut seen = Vec::new();
        loop {
            let servers = self.service.servers_other_than(&seen, Deadline::after(LOOK));
            let servers = servers.map_err(|error| error.to_string())?;
            if self.closed.load(Ordering::Acquire) || self.service.is_removed() {
                return Ok(());
            }
            let living: Vec<TokenId> = servers.iter().map(|holder| holder.token).collect();
            if living == seen {
                continue;
            }
            let own = living.iter().copied().find(|server| !self.context.is_gateway(*server));
            self.announce(own)?;
            seen = living;
        }
    }

    fn announce(self: &Arc<Offer>, server: Option<TokenId>) -> Result<(), String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.server == server || self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        let session = &self.context.session;
        let text = |error: zenoh::Error| error.to_string();
        let Some(id) = server else {
            *state = State::default();
            drop(state);
            self.context.told.tell(&Event::of("withdraws", &self.name));
            return Ok(());
        };
        let (origin, epoch) = (self.context.origin(), self.context.epoch);
        let key = keys::service(origin, self.instance, epoch, id.as_u32(), &self.key);
        // The new one first: others see one server without a gap.
        let token = session.liveliness().declare_token(key).wait().map_err(text)?;
        if state.queryable.is_none() {
            let theirs = Arc::clone(self);
            let answer = move |query| theirs.stranger(query);
            let queryable = session.declare_queryable(self.key.clone()).callback(answer).wait();
            state.queryable = Some(queryable.map_err(text)?);
        }
        let is_new = state.server.is_none();
        (state.server, state.token) = (server, Some(token));
        drop(state);
        if is_new {
            self.context.told.tell(&Event::of("offers", &self.name));
        }
        Ok(())
    }

    /// Carries out a call of another gateway's client.
    pub async fn carry_out(&self, asked: Asked, query: Query, words: &Inbox<Said>) {
        let mut answer = Answer { offer: self, id: asked.id, query, number: 0 };
        if asked.fingerprint != self.meta.fingerprint {
            let why = format!("its types are not those of the service: {}", self.meta.type_name);
            return answer.send(Kind::Failed, why.into());
        }
        // What a stand-in serves goes no further.
        if !self.has_server() {
            return answer.send(Kind::NotBegun, ZBytes::new());
        }
        let begun = tokio::select! {
            biased;
            begun = self.begin(&mut answer.query, asked.has_parts) => begun,
            () = cancelled(words) => return,
            () = tokio::time::sleep(PATIENCE) => Err(CallError::TimedOut { begun: false }),
        };
        match begun {
            Ok(call) => Carried::new(answer, call).carry(words).await,
            Err(error) => answer.end(error),
        }
    }

    fn has_server(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).server.is_some()
    }

    async fn begin(&self, query: &mut Query, has_parts: bool) -> Result<Begun, CallError> {
        // So that the query does not keep it as long as the call goes on.
        let request = query.payload_mut().map(std::mem::take).unwrap_or_default();
        let request = request.to_bytes();
        if has_parts {
            return self.client.stream_owned_async(&request).await.map(Begun::WithParts);
        }
        self.client.begin_owned_async(&request).await.map(Begun::Whole)
    }

    /// Answers a question of a zenoh program on the plain key.
    fn stranger(self: &Arc<Offer>, query: Query) {
        // A gateway asks elsewhere; and a pattern is no call.
        if query.key_expr().as_str() != self.key {
            return;
        }
        if STRANGERS.fetch_add(1, Ordering::Relaxed) >= MOST_STRANGERS {
            STRANGERS.fetch_sub(1, Ordering::Relaxed);
            let _ = query.reply_err("there are as many calls as a gateway has").wait();
            return;
        }
        let (theirs, runtime) = (Arc::clone(self), tasks::runtime());
        let answer = async move {
            let mut query = query;
            if let Err(error) = theirs.answer(&mut query).await {
                on_the_link(|| drop(query.reply_err(error.to_string()).wait()));
            }
            STRANGERS.fetch_sub(1, Ordering::Relaxed);
        };
        match runtime {
            Ok(runtime) => drop(runtime.spawn(answer)),
            Err(_) => drop(STRANGERS.fetch_sub(1, Ordering::Relaxed)),
        }
    }

    async fn answer(&self, query: &mut Query) -> Result<(), CallError> {
        let begun = tokio::time::timeout(PATIENCE, self.begin(query, false)).await;
        let mut call = begun.unwrap_or(Err(CallError::TimedOut { begun: false }))?;
        let key = query.key_expr().clone();
        while let Some(reply) = call.next().await? {
            let sent = on_the_link(|| query.reply(key.clone(), payload(reply)).wait());
            // A failure: it has gone.
            if sent.is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// What goes back to the caller's gateway.
struct Answer<'o> {
    offer: &'o Offer,
    id: CallId,
    query: Query,
    /// The next reply's.
    number: u64,
}

impl Answer<'_> {
    fn send(&self, kind: Kind, payload: ZBytes) {
        self.send_as(self.number, kind, payload);
    }

    fn send_as(&self, number: u64, kind: Kind, payload: ZBytes) {
        let attachment = call_wire::replied_to_bytes(number, kind);
        let key = self.query.key_expr().clone();
        let sent = on_the_link(|| self.query.reply(key, payload).attachment(attachment).wait());
        if let Err(error) = sent {
            self.refused(&error.to_string());
        }
    }

    fn refused(&self, why: &str) {
        let event = Event::of("refused", &self.offer.name).from(self.id.origin);
        self.offer.context.told.tell(&event.because(why));
    }

    /// Says how the call ended.
    fn end(&self, error: CallError) {
        match error {
            CallError::Dropped => self.send(Kind::Dropped, ZBytes::new()),
            CallError::Failed(text) => self.send(Kind::Failed, text.into()),
            // Each of these is told only once no server will begin it; and no reply has come.
            CallError::NoServer
            | CallError::ServerDied { begun: false }
            | CallError::TimedOut { begun: false }
            | CallError::TooMany
                if self.number == 0 =>
            {
                self.send(Kind::NotBegun, ZBytes::new());
            }
            CallError::ServerDied { .. } | CallError::NoServer => {
                self.send(Kind::Died, ZBytes::new());
            }
            other => self.send(Kind::Failed, other.to_string().into()),
        }
    }
}

/// A call that a server here was asked for.
enum Begun {
    Whole(Call<'static>),
    /// Parts of its request may follow.
    WithParts(RequestStream<'static>),
}

impl Begun {
    async fn next(&mut self) -> Result<Option<Reply>, CallError> {
        match self {
            Begun::Whole(call) => call.next_async().await,
            Begun::WithParts(stream) => stream.next_reply_async().await,
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Begun::Whole(call) => call.is_over(),
            Begun::WithParts(stream) => stream.call().is_over(),
        }
    }
}

/// What comes next of a call.
enum Next {
    Said(Said),
    Reply(Result<Option<Reply>, CallError>),
    /// Another try to send a part is worth it.
    Room,
}

struct Carried<'o> {
    answer: Answer<'o>,
    /// `None` for a moment, or after an error.
    call: Option<Begun>,
    /// So many replies have been handed on there.
    taken: u64,
    /// Parts that the server has no room for yet, and how many have come, and were handed on.
    parts: VecDeque<ZBytes>,
    came: u64,
    handed_on: u64,
    /// No more come.
    has_all: bool,
}

impl<'o> Carried<'o> {
    fn new(answer: Answer<'o>, call: Begun) -> Carried<'o> {
        let has_all = matches!(call, Begun::Whole(_));
        let (parts, call) = (VecDeque::new(), Some(call));
        Carried { answer, call, taken: 0, parts, came: 0, handed_on: 0, has_all }
    }

    async fn carry(mut self, words: &Inbox<Said>) {
        if !self.has_all {
            self.answer.send_as(PARTS, Kind::Credit, ZBytes::new());
        }
        loop {
            if let Err(error) = self.hand_on_parts() {
                return self.answer.end(error);
            }
            let Some(call) = &mut self.call else { return };
            let room = match call {
                Begun::WithParts(stream) if !self.parts.is_empty() => Some(stream.room_once()),
                _ => None,
            };
            let has_window = self.answer.number - self.taken < WINDOW;
            let next = tokio::select! {
                biased;
                said = words.next() => Next::Said(said),
                worth = worth_a_try(&room), if room.is_some() => match worth {
                    Ok(()) => Next::Room,
                    Err(error) => Next::Reply(Err(CallError::System(error))),
                },
                reply = call.next(), if has_window => Next::Reply(reply),
            };
            match next {
                Next::Room => {}
                Next::Said(Said::Word(Word::Taken(count))) => {
                    self.taken = self.taken.max(count.min(self.answer.number));
                }
                // The call goes, and its server sees that.
                Next::Said(Said::Word(Word::Cancelled)) => return,
                Next::Said(Said::Part(number, part)) => {
                    if !self.take_part(number, part) {
                        self.answer.refused("parts of a request were lost, or are too many");
                        return self.answer.send(Kind::Died, ZBytes::new());
                    }
                }
                Next::Reply(Ok(Some(reply))) => {
                    let is_last = self.call.as_ref().is_some_and(Begun::is_over);
                    let kind = if is_last { Kind::Last } else { Kind::Part };
                    self.answer.send(kind, payload(reply));
                    self.answer.number += 1;
                    if is_last {
                        return;
                    }
                }
                Next::Reply(Ok(None)) => return self.answer.send(Kind::End, ZBytes::new()),
                Next::Reply(Err(error)) => return self.answer.end(error),
            }
        }
    }

    /// Takes a part; `None` is their end. Returns whether the call can go on.
    fn take_part(&mut self, number: u64, part: Option<ZBytes>) -> bool {
        if self.has_all || number < self.came {
            // A repeat.
            return true;
        }
        if number > self.came || self.parts.len() as u64 >= PARTS {
            return false;
        }
        match part {
            Some(part) => {
                self.parts.push_back(part);
                self.came += 1;
            }
            None => self.has_all = true,
        }
        true
    }

    /// Hands parts on as long as there is room.
    fn hand_on_parts(&mut self) -> Result<(), CallError> {
        let Some(Begun::WithParts(stream)) = &mut self.call else { return Ok(()) };
        while let Some(part) = self.parts.front() {
            match stream.try_send(&part.to_bytes()) {
                Ok(()) => {}
                Err(CallError::TimedOut { .. }) => return Ok(()),
                // It takes no more of them, and has replied.
                Err(CallError::Answered) => {
                    self.parts.clear();
                    self.has_all = true;
                    break;
                }
                Err(error) => return Err(error),
            }
            self.parts.pop_front();
            self.handed_on += 1;
            if self.handed_on.is_multiple_of(PARTS / 2) {
                self.answer.send_as(self.handed_on + PARTS, Kind::Credit, ZBytes::new());
            }
        }
        if self.has_all
            && let Some(Begun::WithParts(stream)) = self.call.take()
        {
            self.call = Some(Begun::Whole(stream.finish()?));
        }
        Ok(())
    }
}

async fn worth_a_try(room: &Option<PartRoom>) -> Result<(), outlive::Error> {
    match room {
        Some(room) => room.worth_a_try_async().await,
        None => Ok(()),
    }
}

/// Waits until no client waits any more. Other words are for a call that is begun, and this is none.
async fn cancelled(words: &Inbox<Said>) {
    while !matches!(words.next().await, Said::Word(Word::Cancelled)) {}
}

fn payload(reply: Reply) -> ZBytes {
    if reply.len() <= COPIED {
        return ZBytes::from(reply.to_vec());
    }
    ZBytes::from(Bytes::from_owner(reply))
}
