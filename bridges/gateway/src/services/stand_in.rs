//! A service that comes in: its stand-in serves here in the name of a server elsewhere.
//!
//! | state of a call | its client here, if this gateway dies | if the other gateway, the link or the server goes |
//! | --- | --- | --- |
//! | not taken by the stand-in | is told that it was not begun | the stand-in leaves: no server |
//! | taken; asked there, or not | is told that it was begun | the question ends, or the other gateway's token does, or it says so: the same. It says that none has begun it: "not begun" |
//! | replies come | has those before; then the same | the same |
//! | let go of | | the other gateway is told once; if that is lost, so is the link, and its end tells it too |
//!
//! A queryable of a program that is no gateway serves where a rule says so, as long as zenoh finds one and
//! there is no gateway. Its replies have no numbers: the end of the answer is that of the call.
//!
//! A server of one's own comes first: while one lives, this one waits for it to leave; and it leaves for one
//! that comes (rpc/forwarding.rs). The calls in its hands go on.
//!
//! A request is asked once. What becomes of it is said by its answer alone: nothing here asks again.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive::describe::Description;
use outlive::rpc::{Request, Server, Service};
use outlive::{Error, RecvError};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use zenoh::Wait;
use zenoh::matching::MatchingListener;
use zenoh::query::Querier;
use zenoh::sample::Locality;

use crate::context::Shared;
use crate::rules::Rule;
use crate::services::carried::{Carried, Place};
use crate::services::offer::meta_of;
use crate::services::tasks::{self, Inbox};
use crate::services::wire::ServiceMeta;
use crate::services::{Calls, MOST_OF_A_CALLER};
use crate::told::Event;
use crate::wire::Origin;

/// How long a place is left to the server of its own that asked for it.
const LEFT: Duration = Duration::from_millis(100);
/// How long another gateway's stand-in is waited for that has no place.
const OTHER: Duration = Duration::from_secs(1);
/// The most bytes of a service that is made here.
const MOST_BYTES: u64 = 6 << 30;

/// A server elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// Its domain.
    pub origin: Origin,
    /// Its offer.
    pub instance: u64,
    /// The start of its gateway.
    pub epoch: u64,
    /// Its token there.
    pub server: u32,
}

/// See the head of this file.
pub struct StandIn {
    pub(super) context: Shared,
    name: String,
    service: Service,
    pub(super) fingerprint: u64,
    pub(super) reply: Option<Description>,
    /// The servers elsewhere, the one that is known longest first.
    servers: Mutex<Vec<Elsewhere>>,
    /// The key whose queryables may serve, if a rule says so.
    plain: Option<String>,
    /// There is one.
    is_queryable: AtomicBool,
    changed: Inbox<()>,
    calls: Arc<Calls>,
    /// One for each call that may be on its way: what is beyond is not taken, and waits as not begun.
    may_begin: Arc<Semaphore>,
    closed: AtomicBool,
}

/// What looks for queryables.
struct Looks {
    _listener: MatchingListener<()>,
    _querier: Querier<'static>,
}

/// Returns the local service, which is made if need be.
fn open(context: &Shared, name: &str, meta: &ServiceMeta, rule: &Rule) -> Result<Service, String> {
    let text = |error: Error| error.to_string();
    let service = match Service::open_as_bytes(&context.domain, name) {
        Err(Error::NotFound { .. }) if rule.create => {
            let bytes = rule.max_bytes.unwrap_or(meta.max_bytes).min(MOST_BYTES);
            let options = Service::<[u8]>::options().max_bytes(bytes);
            let options = match &meta.description {
                Some(bytes) => options.description(
                    Description::from_bytes(bytes).ok_or("the types' description is damaged")?,
                ),
                None if meta.type_name.is_empty() => options,
                None => {
                    return Err(format!(
                        "its types '{}' have no description, by which it could be made here: make the service first",
                        meta.type_name
                    ));
                }
            };
            options.open_or_create(&context.domain, name).map_err(text)?
        }
        other => other.map_err(text)?,
    };
    let here = meta_of(context, &service, name)?;
    if here.fingerprint != meta.fingerprint {
        return Err(format!("the types differ: here {}, there {}", here.type_name, meta.type_name));
    }
    Ok(service)
}

impl StandIn {
    /// Opens the local service of that name; its thread serves while there is a server elsewhere.
    ///
    /// # Errors
    /// Why it cannot come in.
    pub fn open(
        context: &Shared,
        name: &str,
        meta: Option<(&ServiceMeta, &Rule)>,
        plain: Option<String>,
        calls: &Arc<Calls>,
    ) -> Result<Arc<StandIn>, String> {
        let service = match meta {
            Some((meta, rule)) => open(context, name, meta, rule)?,
            // One that is here, which a queryable is to serve.
            None => {
                Service::open_as_bytes(&context.domain, name).map_err(|error| error.to_string())?
            }
        };
        let fingerprint = meta_of(context, &service, name)?.fingerprint;
        let description = service.description().map_err(|error| error.to_string())?;
        let stand_in = Arc::new(StandIn {
            context: Arc::clone(context),
            name: name.to_owned(),
            service,
            fingerprint,
            reply: description.and_then(|both| both.reply().cloned()),
            servers: Mutex::default(),
            plain,
            is_queryable: AtomicBool::new(false),
            changed: Inbox::default(),
            calls: Arc::clone(calls),
            may_begin: Arc::new(Semaphore::new(MOST_OF_A_CALLER)),
            closed: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&stand_in);
        let looks = stand_in.look_for_queryables()?;
        let run = async move {
            let _looks = looks;
            if let Err(why) = theirs.run().await {
                theirs.context.told.tell(&Event::of("refused", &theirs.name).because(&why));
            }
            theirs.service.end_standing_in();
        };
        tasks::runtime().map_err(|error| error.to_string())?.spawn(run);
        Ok(stand_in)
    }

    fn servers(&self) -> MutexGuard<'_, Vec<Elsewhere>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which servers there are elsewhere.
    pub fn set_servers(&self, servers: Vec<Elsewhere>) {
        *self.servers() = servers;
        self.changed.put(());
    }

    /// Whether the local service's name has been removed.
    pub fn is_removed(&self) -> bool {
        self.service.is_removed()
    }

    /// Ends it: clients here see that there is no server any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.put(());
    }

    fn is_wanted(&self) -> bool {
        let is_queryable = self.is_queryable.load(Ordering::Acquire);
        !self.closed.load(Ordering::Acquire) && (is_queryable || !self.servers().is_empty())
    }

    /// Looks for queryables of the plain key, as long as what it returns exists.
    fn look_for_queryables(self: &Arc<StandIn>) -> Result<Option<Looks>, String> {
        let Some(key) = &self.plain else { return Ok(None) };
        let text = |error: zenoh::Error| error.to_string();
        // Its own are none: else its calls would come back.
        let querier = self.context.session.declare_querier(key.clone());
        let querier = querier.allowed_destination(Locality::Remote).wait().map_err(text)?;
        let theirs = Arc::downgrade(self);
        let note = move |is_there: bool| {
            if let Some(stand_in) = theirs.upgrade() {
                stand_in.is_queryable.store(is_there, Ordering::Release);
                stand_in.changed.put(());
            }
        };
        let told = note.clone();
        let listener = querier.matching_listener().callback(move |status| told(status.matching()));
        let listener = listener.wait().map_err(text)?;
        if querier.matching_status().wait().map_err(text)?.matching() {
            note(true);
        }
        Ok(Some(Looks { _listener: listener, _querier: querier }))
    }

    async fn run(self: &Arc<StandIn>) -> Result<(), String> {
        let text = |error: Error| error.to_string();
        let mut yields = false;
        while !self.closed.load(Ordering::Acquire) {
            if !self.is_wanted() {
                self.service.end_standing_in();
                self.changed.next().await;
                continue;
            }
            // First: from here on a server of one's own that comes calls this one away.
            let Some(serving) = self.service.begin_standing_in().map_err(text)? else {
                tokio::select! {
                    () = self.changed.next() => {}
                    () = sleep(OTHER) => {}
                }
                continue;
            };
            let server = match self.living() {
                0 => self.service.try_wait_to_serve().map_err(text)?,
                _ => None,
            };
            if let Some(server) = server {
                yields = false;
                self.serve(server, serving).await?;
                continue;
            }
            if !yields && self.has_own() {
                yields = true;
                let event = Event::of("yields", &self.name);
                self.context.told.tell(&event.because("a server of its own is here"));
            }
            tokio::select! {
                () = self.changed.next() => {}
                left = self.service.unserved_async() => left.map_err(text)?,
            }
        }
        Ok(())
    }

    /// Serves until there is no server elsewhere any more, or one of its own wants the place.
    async fn serve(self: &Arc<StandIn>, mut server: Server, serving: u32) -> Result<(), String> {
        let text = |error: Error| error.to_string();
        let tell = |event| self.context.told.tell(&Event::of(event, &self.name));
        let serving = match self.service.config().max_servers {
            1 => serving,
            // This one's coming was told there, too. A server beside it that came before that is seen.
            _ => match self.service.begin_standing_in().map_err(text)? {
                Some(serving) if self.living() < 2 => serving,
                _ => return Ok(()),
            },
        };
        tell("serves");
        // Registered once, and not for each request.
        let mut called = pin!(self.service.called_away_async(serving));
        let mut is_called = false;
        while !is_called && self.is_wanted() {
            let next = async {
                // Never closed.
                let permit = Arc::clone(&self.may_begin).acquire_owned().await;
                (server.next_async().await, permit)
            };
            tokio::select! {
                biased;
                () = self.changed.next() => {}
                called = &mut called => {
                    called.map_err(text)?;
                    is_called = true;
                }
                (next, permit) = next => match next {
                    Ok(request) => self.ask(request, permit.ok()),
                    // A request that is none: its client was told.
                    Err(RecvError::Encoding(_)) => {}
                    Err(error) => return Err(error.to_string()),
                },
            }
        }
        // What is in its hands goes on, or ends by itself.
        drop(server);
        tell("leaves");
        if is_called {
            sleep(LEFT).await;
        }
        Ok(())
    }

    /// Returns how many servers live.
    fn living(&self) -> usize {
        self.service.current_servers().iter().filter(|holder| holder.alive).count()
    }

    /// Whether a server lives that is no gateway.
    fn has_own(&self) -> bool {
        let servers = self.service.current_servers();
        servers.iter().any(|holder| holder.alive && !self.context.is_gateway(holder.token))
    }

    /// Asks a server elsewhere, in a task of its own.
    fn ask(
        self: &Arc<StandIn>,
        request: Request,
        permit: Option<tokio::sync::OwnedSemaphorePermit>,
    ) {
        let elsewhere = self.servers().first().copied();
        let place = match (elsewhere, &self.plain) {
            (Some(elsewhere), _) => Place::Gateway(elsewhere),
            (None, Some(key)) if self.is_queryable.load(Ordering::Acquire) => {
                Place::Queryable(key.clone())
            }
            (None, _) => return request.give_back(),
        };
        let (id, inbox) = self.calls.begin(elsewhere);
        let theirs = Arc::clone(self);
        tokio::spawn(async move {
            let mut carried = Carried::new(&theirs, place, id, request);
            let asked = carried.ask(&inbox);
            let carried_out = match asked {
                Ok(()) => carried.take_all(&inbox).await,
                Err(why) => Err(why),
            };
            if let Err(why) = carried_out {
                theirs.context.told.tell(&Event::of("refused", &theirs.name).because(&why));
            }
            // Before the client is told: what it knows then is true.
            theirs.calls.end(id);
            carried.end();
            drop(permit);
        });
    }
}
