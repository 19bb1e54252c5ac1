//! A service that comes in: its stand-in serves here in the name of a server elsewhere.
//!
//! | state of a call | its client here, if this gateway dies | if the other gateway, the link or the server goes |
//! | --- | --- | --- |
//! | not taken by the stand-in | is told that it was not begun | the stand-in leaves: no server |
//! | taken; asked there, or not | is told that it was begun | the question ends, or the other gateway's token does, or it says so: the same |
//! | replies come | has those before; then the same | the same |
//! | let go of | | the other gateway is told once; if that is lost, so is the link, and its end tells it too |
//!
//! A queryable of a program that is no gateway serves where a rule says so, as long as zenoh finds one and
//! there is no gateway. Its replies have no numbers: the end of the answer is that of the call.
//!
//! A request is asked once. What becomes of it is said by its answer alone: nothing here asks again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use outlive::describe::Description;
use outlive::rpc::{Request, Server, Service, Stream};
use outlive::{Error, RecvError, SendError, WaitError};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::matching::MatchingListener;
use zenoh::qos::CongestionControl;
use zenoh::query::{ConsolidationMode, Querier, Reply};
use zenoh::sample::Locality;

use crate::call_wire::{self, CallId, Kind, ServiceMeta, Word};
use crate::context::Shared;
use crate::either::{Either, Inbox, either};
use crate::keys;
use crate::offer::{is_gateway, meta_of};
use crate::rules::Rule;
use crate::services::Calls;
use crate::told::Event;
use crate::wire::Origin;

/// A request up to this length is copied.
const COPIED: usize = 1024;
/// After so many replies the other gateway is told that the client has them.
const GATHERED: u64 = 8;
/// How long a reply waits before it looks for memory again.
const NO_MEMORY: Duration = Duration::from_millis(10);
/// A call ends with its client, its server or the link, and not by a time.
const FOR_EVER: Duration = Duration::from_secs(100 * 24 * 3600);
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

/// What the network says of a call.
pub enum Told {
    /// A message of the answer.
    Reply(Reply),
    /// Nothing more comes.
    Over,
}

/// See the head of this file.
pub struct StandIn {
    context: Shared,
    name: String,
    service: Service,
    fingerprint: u64,
    reply: Option<Description>,
    /// The servers elsewhere, the one that is known longest first.
    servers: Mutex<Vec<Elsewhere>>,
    /// The key whose queryables may serve, if a rule says so.
    plain: Option<String>,
    /// There is one.
    is_queryable: AtomicBool,
    changed: Inbox<()>,
    calls: Arc<Calls>,
    closed: AtomicBool,
}

/// What looks for queryables.
struct Looks {
    _listener: MatchingListener<()>,
    _querier: Querier<'static>,
}

/// Where a call is carried out.
enum Place {
    Gateway(Elsewhere),
    Queryable(String),
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
            closed: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&stand_in);
        let run = move || {
            if let Err(why) = theirs.look_for_queryables().and_then(|_looks| theirs.run()) {
                theirs.context.told.tell(&Event::of("refused", &theirs.name).because(&why));
            }
        };
        let named = std::thread::Builder::new().name("gateway-serve".into());
        named.spawn(run).map_err(|error| error.to_string())?;
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

    fn run(self: &Arc<StandIn>) -> Result<(), String> {
        while !self.closed.load(Ordering::Acquire) {
            if !self.is_wanted() {
                crate::either::block_on(self.changed.next());
                continue;
            }
            let servers = self.service.current_servers();
            let mut living = servers.iter().filter(|holder| holder.alive);
            if living.any(|holder| !is_gateway(&self.context, holder.token)) {
                return Err("the service has a server of its own here".to_owned());
            }
            match either(self.changed.next(), self.service.wait_to_serve_async()) {
                Either::First(()) => {}
                Either::Second(server) => self.serve(server.map_err(|error| error.to_string())?)?,
            }
        }
        Ok(())
    }

    /// Serves until there is no server elsewhere any more.
    fn serve(self: &Arc<StandIn>, mut server: Server) -> Result<(), String> {
        let tell = |event| self.context.told.tell(&Event::of(event, &self.name));
        tell("serves");
        while self.is_wanted() {
            match either(self.changed.next(), server.next_async()) {
                Either::First(()) => {}
                Either::Second(Ok(request)) => self.ask(request),
                // A request that is none: its client was told.
                Either::Second(Err(RecvError::Encoding(_))) => {}
                Either::Second(Err(error)) => return Err(error.to_string()),
            }
        }
        // What is in its hands goes on, or ends by itself.
        drop(server);
        tell("leaves");
        Ok(())
    }

    /// Asks a server elsewhere, on a thread of its own.
    fn ask(self: &Arc<StandIn>, request: Request) {
        let elsewhere = self.servers().first().copied();
        let place = match (elsewhere, &self.plain) {
            (Some(elsewhere), _) => Place::Gateway(elsewhere),
            (None, Some(key)) if self.is_queryable.load(Ordering::Acquire) => {
                Place::Queryable(key.clone())
            }
            (None, _) => return request.disown(),
        };
        let Some((id, inbox)) = self.calls.begin(elsewhere) else {
            // A failure: the client has gone.
            let _ = request.fail("the gateway has as many calls in flight as it can have");
            return;
        };
        let theirs = Arc::clone(self);
        let ask = move || {
            let mut carried = Carried::new(&theirs, place, id, request);
            if let Err(why) = carried.ask(&inbox).and_then(|()| carried.take_all(&inbox)) {
                theirs.context.told.tell(&Event::of("refused", &theirs.name).because(&why));
            }
            // Before the client is told: what it knows then is true.
            theirs.calls.end(id);
            carried.end();
        };
        // No thread: the request goes with its closure, and its client is told that it was dropped.
        if std::thread::Builder::new().name("gateway-call".into()).spawn(ask).is_err() {
            self.calls.end(id);
        }
    }
}

/// What the client here has of its answer.
enum Answer {
    None(Request),
    Begun(Stream),
    /// It has been told how the call ended.
    Over,
}

/// A call that is carried.
struct Carried<'s> {
    stand_in: &'s StandIn,
    place: Place,
    id: CallId,
    answer: Answer,
    /// The next reply's number.
    next: u64,
    /// The other gateway may still work on it.
    is_open: bool,
}

impl<'s> Carried<'s> {
    fn new(stand_in: &'s StandIn, place: Place, id: CallId, request: Request) -> Carried<'s> {
        Carried { stand_in, place, id, answer: Answer::None(request), next: 0, is_open: true }
    }

    fn ask(&mut self, inbox: &Arc<Inbox<Told>>) -> Result<(), String> {
        let Answer::None(request) = &mut self.answer else { return Ok(()) };
        let payload = if request.len() <= COPIED {
            ZBytes::from(request.to_vec())
        } else {
            ZBytes::from(Bytes::from_owner(request.take_bytes()))
        };
        let mut answer = Callback(Arc::clone(inbox));
        let session = &self.stand_in.context.session;
        let get = match &self.place {
            Place::Gateway(Elsewhere { origin, instance, epoch, .. }) => session
                .get(keys::call(*origin, *instance, *epoch))
                .attachment(call_wire::asked_to_bytes(self.id, self.stand_in.fingerprint)),
            Place::Queryable(key) => session.get(key).allowed_destination(Locality::Remote),
        };
        let get = get
            .payload(payload)
            .consolidation(ConsolidationMode::None)
            .congestion_control(CongestionControl::Block)
            .timeout(FOR_EVER)
            .callback_mut(move |reply| answer.take(reply))
            .wait();
        get.map_err(|error| error.to_string())
    }

    /// Hands the answer to the client, as it comes.
    fn take_all(&mut self, inbox: &Inbox<Told>) -> Result<(), String> {
        while !matches!(self.answer, Answer::Over) {
            let request = match &self.answer {
                Answer::None(request) => request,
                Answer::Begun(stream) => stream.request(),
                Answer::Over => return Ok(()),
            };
            match either(inbox.next(), request.wait_cancelled_async()) {
                Either::First(Told::Reply(reply)) => self.take(&reply)?,
                Either::First(Told::Over) => {
                    self.is_open = false;
                    if matches!(self.place, Place::Queryable(_)) && self.next > 0 {
                        return self.hand_on_all(&ZBytes::new(), Kind::End);
                    }
                    return Ok(());
                }
                Either::Second(Ok(())) => return Ok(()),
                Either::Second(Err(WaitError::System(error))) => return Err(error.to_string()),
                Either::Second(Err(error)) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Takes a message of the answer.
    fn take(&mut self, reply: &Reply) -> Result<(), String> {
        let is_plain = matches!(self.place, Place::Queryable(_));
        let (payload, (number, kind)) = match reply.result() {
            Ok(sample) if is_plain => (sample.payload(), (self.next, Kind::Part)),
            Ok(sample) => {
                let attachment = sample.attachment().map(|bytes| bytes.to_bytes());
                let read = attachment.and_then(|bytes| call_wire::replied_from_bytes(&bytes));
                (sample.payload(), read.ok_or("an answer that this version does not know")?)
            }
            Err(error) if is_plain => (error.payload(), (self.next, Kind::Failed)),
            // Of zenoh itself: the end follows.
            Err(_) => return Ok(()),
        };
        match number {
            // A repeat.
            number if number < self.next => return Ok(()),
            number if number > self.next => {
                return Err(format!("{} replies were lost", number - self.next));
            }
            _ => {}
        }
        if kind == Kind::Part || kind == Kind::Last {
            if let Some(description) = &self.stand_in.reply
                && !description.fits(payload.len())
            {
                return Err(format!("a reply of {} bytes is none of the service", payload.len()));
            }
            self.next += 1;
        }
        if kind != Kind::Part {
            self.is_open = false;
        }
        self.hand_on_all(payload, kind)?;
        if kind == Kind::Part && self.next.is_multiple_of(GATHERED) {
            self.tell(Word::Taken(self.next));
        }
        Ok(())
    }

    fn hand_on_all(&mut self, payload: &ZBytes, kind: Kind) -> Result<(), String> {
        match self.hand_on(payload, kind) {
            // It waits no more.
            Ok(()) | Err(SendError::Cancelled | SendError::ReceiverDied) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn hand_on(&mut self, payload: &ZBytes, kind: Kind) -> Result<(), SendError> {
        let answer = std::mem::replace(&mut self.answer, Answer::Over);
        match (kind, answer) {
            (_, Answer::Over) => Ok(()),
            (Kind::Last, Answer::None(request)) => reply(request, payload),
            (Kind::Part | Kind::Last, answer) => {
                let mut stream = match answer {
                    Answer::None(request) => request.stream(),
                    Answer::Begun(stream) => stream,
                    Answer::Over => return Ok(()),
                };
                loop {
                    match send(&mut stream, payload) {
                        Err(SendError::NoSpace { .. }) if !stream.request().is_cancelled() => {
                            std::thread::sleep(NO_MEMORY);
                        }
                        Err(error) => {
                            self.answer = Answer::Begun(stream);
                            return Err(error);
                        }
                        Ok(()) => break,
                    }
                }
                if kind == Kind::Last {
                    return stream.finish();
                }
                self.answer = Answer::Begun(stream);
                Ok(())
            }
            (Kind::End, Answer::None(request)) => request.stream().finish(),
            (Kind::End, Answer::Begun(stream)) => stream.finish(),
            (Kind::Dropped, _) => Ok(()),
            (Kind::Failed, Answer::None(request)) => request.fail(&text(payload)),
            (Kind::Failed, Answer::Begun(stream)) => stream.fail(&text(payload)),
            (Kind::Died, answer) => {
                self.answer = answer;
                self.disown();
                Ok(())
            }
        }
    }

    fn disown(&mut self) {
        match std::mem::replace(&mut self.answer, Answer::Over) {
            Answer::None(request) => request.disown(),
            Answer::Begun(stream) => stream.disown(),
            Answer::Over => {}
        }
    }

    fn tell(&self, word: Word) {
        let Place::Gateway(Elsewhere { origin, instance, .. }) = self.place else { return };
        let key = keys::message("call-word", origin, instance);
        let put = self.stand_in.context.session.put(key, call_wire::word_to_bytes(self.id, word));
        // A failure: the link has gone, and the call with it.
        let _ = put.congestion_control(CongestionControl::Block).wait();
    }

    /// The end of the answer, whatever has come of it.
    fn end(mut self) {
        if self.is_open {
            self.tell(Word::Cancelled);
        }
        self.disown();
    }
}

/// Puts an answer's messages in; dropped, its end: zenoh says so when nothing more comes.
struct Callback(Arc<Inbox<Told>>);

impl Callback {
    fn take(&mut self, reply: Reply) {
        self.0.put(Told::Reply(reply));
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        self.0.put(Told::Over);
    }
}

fn text(payload: &ZBytes) -> String {
    String::from_utf8_lossy(&payload.to_bytes()).into_owned()
}

/// Gathers the slices that came.
fn gather(payload: &ZBytes, mut to: &mut [u8]) {
    for slice in payload.slices() {
        let (these, others) = to.split_at_mut(slice.len().min(to.len()));
        these.copy_from_slice(&slice[..these.len()]);
        to = others;
    }
}

/// Sends the only reply: its slices are gathered once, into the loan.
fn reply(mut request: Request, payload: &ZBytes) -> Result<(), SendError> {
    loop {
        match request.loan_or_keep(payload.len()) {
            Ok(mut loan) => {
                gather(payload, &mut loan);
                return loan.send();
            }
            Err(kept) => {
                let (error, again) = *kept;
                let waits = matches!(error, SendError::NoSpace { .. }) && !again.is_cancelled();
                if !waits {
                    // A failure: the client has gone.
                    let _ = again.fail(&error.to_string());
                    return Err(error);
                }
                request = again;
                std::thread::sleep(NO_MEMORY);
            }
        }
    }
}

fn send(stream: &mut Stream, payload: &ZBytes) -> Result<(), SendError> {
    let mut loan = stream.loan(payload.len())?;
    gather(payload, &mut loan);
    loan.send()
}
