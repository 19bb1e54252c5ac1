//! A service that leaves: its server is here, and calls of others come by the network.
//!
//! | state of a call | repaired by |
//! | --- | --- |
//! | its request is known by its number, and no thread has it yet | a death: the caller's gateway, whose question ends with the link, tells its client "died" |
//! | asked here, replies going out | the server's death: this gateway says so. This one's: its calls end as a dead client's, and the caller as above |
//! | let go of by the caller, or the caller's gateway has gone | this gateway lets go of the call: the server sees it cancelled |
//! | over | a repeat of the request is known by its number, and refused |

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use outlive::rpc::{Call, CallError, Client, Reply, Service};
use outlive::{Deadline, TokenId};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::liveliness::LivelinessToken;
use zenoh::query::{Query, Queryable};

use crate::call_wire::{self, CallId, Kind, ServiceMeta, Word};
use crate::context::Shared;
use crate::either::{Either, Inbox, block_on, either};
use crate::gateway::NODE;
use crate::journal;
use crate::keys;
use crate::told::Event;
use crate::wire;

/// A reply up to this length is copied.
const COPIED: usize = 1024;
/// As many replies are on their way to a client elsewhere.
const WINDOW: u64 = 32;
/// How long a request may wait here for memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether the service was removed.
const LOOK: Duration = Duration::from_secs(1);

/// As many questions of programs that are no gateways are answered at a time.
const MOST_STRANGERS: usize = 64;

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
    let type_name = context.domain.entry(name).map_err(text)?.type_name;
    let description = service.description().map_err(text)?.map(|found| found.to_bytes());
    let fingerprint = wire::fingerprint(&type_name, description.as_deref());
    Ok(ServiceMeta { type_name, description, max_bytes: service.config().max_bytes, fingerprint })
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

    /// Whether the service's name has been removed.
    pub fn is_removed(&self) -> bool {
        self.service.is_removed()
    }

    /// Ends it: others see that there is no server any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::default();
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
            let own = living.iter().copied().find(|server| !is_gateway(&self.context, *server));
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

    /// Carries out a call of another gateway's client, in this thread.
    pub fn carry_out(&self, id: CallId, fingerprint: u64, query: &Query, words: &Inbox<Word>) {
        let key = query.key_expr().clone();
        let send = |number: u64, kind: Kind, payload: ZBytes| {
            let attachment = call_wire::replied_to_bytes(number, kind);
            let sent = query.reply(key.clone(), payload).attachment(attachment).wait();
            if let Err(error) = sent {
                let event = Event::of("refused", &self.name).from(id.origin);
                self.context.told.tell(&event.because(&error.to_string()));
            }
        };
        if fingerprint != self.meta.fingerprint {
            let why = format!("its types are not those of the service: {}", self.meta.type_name);
            return send(0, Kind::Failed, why.into());
        }
        // What a stand-in serves goes no further.
        if self.state.lock().unwrap_or_else(PoisonError::into_inner).server.is_none() {
            return send(0, Kind::Died, ZBytes::new());
        }
        let mut call = match self.begin(query) {
            Ok(call) => call,
            Err(error) => {
                let (kind, text) = ending(error);
                return send(0, kind, text.into());
            }
        };
        let (mut number, mut taken) = (0, 0);
        loop {
            let word = if number - taken >= WINDOW {
                block_on(words.next())
            } else {
                match either(words.next(), call.next_async()) {
                    Either::First(word) => word,
                    Either::Second(Ok(Some(reply))) => {
                        let kind = if call.is_over() { Kind::Last } else { Kind::Part };
                        send(number, kind, payload(reply));
                        number += 1;
                        if kind == Kind::Last {
                            return;
                        }
                        continue;
                    }
                    Either::Second(Ok(None)) => return send(number, Kind::End, ZBytes::new()),
                    Either::Second(Err(error)) => {
                        let (kind, text) = ending(error);
                        return send(number, kind, text.into());
                    }
                }
            };
            match word {
                Word::Taken(count) => taken = taken.max(count.min(number)),
                // The call goes, and its server sees that.
                Word::Cancelled => return,
            }
        }
    }

    fn begin(&self, query: &Query) -> Result<Call<'static>, CallError> {
        let request = query.payload().map(|payload| payload.to_bytes()).unwrap_or_default();
        self.client.begin_owned_until(&request, Deadline::after(PATIENCE))
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
        let theirs = Arc::clone(self);
        let answer = move || {
            let key = query.key_expr().clone();
            let answered = (|| {
                let mut call = theirs.begin(&query)?;
                while let Some(reply) = call.next()? {
                    // A failure: it has gone.
                    if query.reply(key.clone(), payload(reply)).wait().is_err() {
                        break;
                    }
                }
                Ok::<(), CallError>(())
            })();
            if let Err(error) = answered {
                let _ = query.reply_err(error.to_string()).wait();
            }
            STRANGERS.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("gateway-query".into()).spawn(answer).is_err() {
            STRANGERS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Whether that process is a gateway: what it serves is a stand-in's.
pub fn is_gateway(context: &Shared, server: TokenId) -> bool {
    // One whose node cannot be read is not announced: else what is a stand-in's could go round.
    let node = context.domain.node_of(server);
    node.map_or(true, |node| node.is_some_and(|node| node.name.starts_with(NODE)))
}

/// Returns how a call is said to have ended.
fn ending(error: CallError) -> (Kind, String) {
    match error {
        CallError::Dropped => (Kind::Dropped, String::new()),
        CallError::Failed(text) => (Kind::Failed, text),
        CallError::ServerDied { .. } | CallError::NoServer => (Kind::Died, String::new()),
        other => (Kind::Failed, other.to_string()),
    }
}

fn payload(reply: Reply) -> ZBytes {
    if reply.len() <= COPIED {
        return ZBytes::from(reply.to_vec());
    }
    ZBytes::from(Bytes::from_owner(reply))
}
