//! A call that a stand-in carries to a server elsewhere, and the answer that comes back. What each side is told
//! when one goes is in stand_in.rs's table.
//!
//! Killed, or stopped, anywhere: the client here is told so by this process's end, or waits; the other gateway
//! sees this one's token go. Nothing in here has to survive.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use outlive::rpc::{Part, Request, Stream};
use outlive::{RecvError, SendError};
use tokio::time::sleep;
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::qos::CongestionControl;
use zenoh::query::{ConsolidationMode, Reply};
use zenoh::sample::Locality;

use crate::context::COPIED;
use crate::keys;
use crate::services::stand_in::{Elsewhere, StandIn};
use crate::services::tasks::{Inbox, on_the_link};
use crate::services::wire::{self as call_wire, Asked, CallId, Kind, Word};

/// After so many replies the other gateway is told that the client has them.
const GATHERED: u64 = 8;
/// How long a reply waits before it looks for memory again.
const NO_MEMORY: Duration = Duration::from_millis(10);
/// A call ends with its client, its server or the link, and not by a time.
const FOR_EVER: Duration = Duration::from_secs(100 * 24 * 3600);
/// As many bytes of a queryable's replies wait for one client; a single reply may be larger.
const MOST_WAITING: usize = 16 << 20;
/// As many replies of another gateway: at most 32 are on their way, and a few credits.
const MOST_REPLIES: usize = 128;
/// What a queryable's reply costs beside its bytes.
const A_REPLY: usize = 256;

/// Where a call is carried out.
pub(super) enum Place {
    Gateway(Elsewhere),
    Queryable(String),
}

/// What the network says of a call.
pub enum Told {
    /// A message of the answer.
    Reply(Reply),
    /// Nothing more comes.
    Over,
    /// More replies came than wait for a client: some were dropped.
    TooMany,
}

/// What the client here has of its answer.
enum Answer {
    None(Request),
    Begun(Stream),
    /// It has been told how the call ended.
    Over,
}

/// A call that is carried.
pub(super) struct Carried<'s> {
    stand_in: &'s StandIn,
    place: Place,
    id: CallId,
    answer: Answer,
    /// The next reply's number.
    next: u64,
    /// The other gateway may still work on it.
    is_open: bool,
    /// How many parts of the request were sent, and how many may be by now; `None`: no more come.
    parts: Option<(u64, u64)>,
    /// What the replies cost that have come and are not handed on.
    waiting: Arc<AtomicUsize>,
}

/// What the client here does next.
enum Here {
    Part(Result<Option<Part>, RecvError>),
    /// It waits no more.
    Gone(Result<(), String>),
}

/// A part that is sent as it lies there.
struct Lying(Part);

impl AsRef<[u8]> for Lying {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Answer {
    /// Waits for a part, if one is wanted, and for the client to let go.
    async fn here(&mut self, wants_part: bool) -> Here {
        let request = match self {
            Answer::None(request) if wants_part => {
                return Here::Part(request.next_part_async().await);
            }
            Answer::Begun(stream) if wants_part => {
                return Here::Part(stream.next_part_async().await);
            }
            Answer::None(request) => request,
            Answer::Begun(stream) => stream.request(),
            Answer::Over => return Here::Gone(Ok(())),
        };
        let gone = request.wait_cancelled_async().await;
        Here::Gone(gone.map_err(|error| error.to_string()))
    }
}

impl<'s> Carried<'s> {
    pub(super) fn new(
        stand_in: &'s StandIn,
        place: Place,
        id: CallId,
        request: Request,
    ) -> Carried<'s> {
        let (answer, parts) = (Answer::None(request), None);
        let waiting = Arc::default();
        Carried { stand_in, place, id, answer, next: 0, is_open: true, parts, waiting }
    }

    pub(super) fn ask(&mut self, inbox: &Arc<Inbox<Told>>) -> Result<(), String> {
        let Answer::None(request) = &mut self.answer else { return Ok(()) };
        let has_parts = request.has_parts().map_err(|error| error.to_string())?;
        if has_parts && matches!(self.place, Place::Gateway(_)) {
            self.parts = Some((0, 0));
        }
        let payload = if request.len() <= COPIED {
            ZBytes::from(request.to_vec())
        } else {
            ZBytes::from(Bytes::from_owner(request.take_bytes()))
        };
        let waiting = Arc::clone(&self.waiting);
        let bounds = self.place.bounds();
        let mut answer = Callback { inbox: Arc::clone(inbox), waiting, bounds, is_over: false };
        let session = &self.stand_in.context.session;
        let get = match &self.place {
            Place::Gateway(Elsewhere { origin, instance, epoch, .. }) => session
                .get(keys::call(*origin, *instance, *epoch))
                .attachment(call_wire::asked_to_bytes(Asked {
                    id: self.id,
                    fingerprint: self.stand_in.fingerprint,
                    has_parts,
                })),
            Place::Queryable(key) => session.get(key).allowed_destination(Locality::Remote),
        };
        let get = get
            .payload(payload)
            .consolidation(ConsolidationMode::None)
            .congestion_control(CongestionControl::Block)
            .timeout(FOR_EVER)
            .callback_mut(move |reply| answer.take(reply));
        let get = on_the_link(|| get.wait());
        get.map_err(|error| error.to_string())
    }

    /// Hands the answer to the client, as it comes, and its parts to the other gateway.
    pub(super) async fn take_all(&mut self, inbox: &Inbox<Told>) -> Result<(), String> {
        while !matches!(self.answer, Answer::Over) {
            let wants_part = self.parts.is_some_and(|(sent, may)| sent < may);
            tokio::select! {
                biased;
                told = inbox.next() => match told {
                    Told::Reply(reply) => {
                        let cost = self.place.bounds().cost(&reply);
                        // Relaxed: the number stands for itself.
                        self.waiting.fetch_sub(cost, Ordering::Relaxed);
                        self.take(&reply).await?;
                    }
                    Told::TooMany => {
                        return Err("more replies came than a gateway keeps for a client".to_owned());
                    }
                    Told::Over => {
                        self.is_open = false;
                        if matches!(self.place, Place::Queryable(_)) && self.next > 0 {
                            return self.hand_on_all(&ZBytes::new(), Kind::End).await;
                        }
                        return Ok(());
                    }
                },
                here = self.answer.here(wants_part) => match here {
                    Here::Part(Ok(part)) => self.send_part(part)?,
                    Here::Part(Err(RecvError::Cancelled)) => return Ok(()),
                    Here::Part(Err(error)) => return Err(error.to_string()),
                    Here::Gone(gone) => return gone,
                },
            }
        }
        Ok(())
    }

    /// Sends a part of the request, or their end.
    fn send_part(&mut self, part: Option<Part>) -> Result<(), String> {
        let (Place::Gateway(at), Some((sent, _))) = (&self.place, &mut self.parts) else {
            return Ok(());
        };
        let attachment = call_wire::part_to_bytes(self.id, *sent, part.is_none());
        *sent += 1;
        let key = keys::message("call-part", at.origin, at.instance);
        let payload = match part {
            Some(part) if part.len() <= COPIED => ZBytes::from(part.to_vec()),
            Some(part) => ZBytes::from(Bytes::from_owner(Lying(part))),
            None => {
                self.parts = None;
                ZBytes::new()
            }
        };
        let put = self.stand_in.context.session.put(key, payload).attachment(attachment);
        let put = put.congestion_control(CongestionControl::Block);
        on_the_link(|| put.wait()).map_err(|error| error.to_string())
    }

    /// Takes a message of the answer.
    async fn take(&mut self, reply: &Reply) -> Result<(), String> {
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
        if kind == Kind::Credit {
            if let Some((_, may)) = &mut self.parts {
                *may = number.max(*may);
            }
            return Ok(());
        }
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
        self.hand_on_all(payload, kind).await?;
        if kind == Kind::Part && self.next.is_multiple_of(GATHERED) {
            self.tell(Word::Taken(self.next));
        }
        Ok(())
    }

    async fn hand_on_all(&mut self, payload: &ZBytes, kind: Kind) -> Result<(), String> {
        match self.hand_on(payload, kind).await {
            // It waits no more.
            Ok(()) | Err(SendError::Cancelled | SendError::ReceiverDied) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn hand_on(&mut self, payload: &ZBytes, kind: Kind) -> Result<(), SendError> {
        let answer = std::mem::replace(&mut self.answer, Answer::Over);
        match (kind, answer) {
            (_, Answer::Over) => Ok(()),
            (Kind::Last, Answer::None(request)) => reply(request, payload).await,
            (Kind::Part | Kind::Last, answer) => {
                let mut stream = match answer {
                    Answer::None(request) => request.stream(),
                    Answer::Begun(stream) => stream,
                    Answer::Over => return Ok(()),
                };
                if let Err(error) = send(&mut stream, payload).await {
                    self.answer = Answer::Begun(stream);
                    return Err(error);
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
            (Kind::NotBegun, Answer::None(request)) => {
                request.give_back();
                Ok(())
            }
            // The other gateway has said of a call that it was not begun, after replies.
            (Kind::Died | Kind::NotBegun, answer) => {
                self.answer = answer;
                self.disown();
                Ok(())
            }
            (Kind::Credit, answer) => {
                self.answer = answer;
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
        let _ = on_the_link(|| put.congestion_control(CongestionControl::Block).wait());
    }

    /// The end of the answer, whatever has come of it.
    pub(super) fn end(mut self) {
        if self.is_open {
            self.tell(Word::Cancelled);
        }
        self.disown();
    }
}

/// How much of an answer waits for its client at most.
#[derive(Clone, Copy)]
enum Bounds {
    /// Its sender keeps to a window.
    Replies,
    /// There is no window.
    Bytes,
}

impl Bounds {
    fn cost(self, reply: &Reply) -> usize {
        match (self, reply.result()) {
            (Bounds::Replies, _) => 1,
            (Bounds::Bytes, Ok(sample)) => sample.payload().len() + A_REPLY,
            (Bounds::Bytes, Err(error)) => error.payload().len() + A_REPLY,
        }
    }

    fn most(self) -> usize {
        match self {
            Bounds::Replies => MOST_REPLIES,
            Bounds::Bytes => MOST_WAITING,
        }
    }
}

impl Place {
    fn bounds(&self) -> Bounds {
        match self {
            Place::Gateway(_) => Bounds::Replies,
            Place::Queryable(_) => Bounds::Bytes,
        }
    }
}

/// Puts an answer's messages in; dropped, its end: zenoh says so when nothing more comes.
struct Callback {
    inbox: Arc<Inbox<Told>>,
    waiting: Arc<AtomicUsize>,
    bounds: Bounds,
    /// Some were too many: all behind them are dropped.
    is_over: bool,
}

impl Callback {
    fn take(&mut self, reply: Reply) {
        if self.is_over {
            return;
        }
        let cost = self.bounds.cost(&reply);
        let before = self.waiting.fetch_add(cost, Ordering::Relaxed);
        // This thread is zenoh's: it does not wait for the client.
        if before > 0 && before + cost > self.bounds.most() {
            self.is_over = true;
            return self.inbox.put(Told::TooMany);
        }
        self.inbox.put(Told::Reply(reply));
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        self.inbox.put(Told::Over);
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
async fn reply(mut request: Request, payload: &ZBytes) -> Result<(), SendError> {
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
                sleep(NO_MEMORY).await;
            }
        }
    }
}

/// Sends one of several replies, once there is room.
async fn send(stream: &mut Stream, payload: &ZBytes) -> Result<(), SendError> {
    loop {
        let lack = match stream.try_loan(payload.len()) {
            Ok(mut loan) => {
                gather(payload, &mut loan);
                return loan.send();
            }
            Err(error) => error,
        };
        match lack {
            SendError::Full { .. } => stream.room_once().worth_a_try_async().await?,
            SendError::NoSpace { .. } if !stream.request().is_cancelled() => sleep(NO_MEMORY).await,
            error => return Err(error),
        }
    }
}
