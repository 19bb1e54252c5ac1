//! What a sender sends again: a receiver asks for all from certain numbers on, and gets what the ring
//! still has.
//!
//! The answer is messages, then how far each session is and how others have ended. That list is made
//! *before* the ring is read: what is below its number, and not in the answer, the ring has no more;
//! what is not below comes as any message does. Each message that does not follow the one before it
//! says that nothing older is left.
//!
//! Replies wait for room in the network as their question asks, which a receiver's does (`Block`).
//!
//! | cut short: the sender dies, the link, the receiver | the receiver |
//! | --- | --- |
//! | anywhere before the list | knows no more than before but for the messages that came, and asks again |

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outlive::topic::Subscriber;
use outlive::{Error, RecvError};
use serde::{Deserialize, Serialize};
use zenoh::Wait;
use zenoh::query::Query;

use crate::told::Event;
use crate::topics::sender::{HELD, Known, Sender, payload};
use crate::topics::stream::Ending;
use crate::wire;

/// As many are answered at a time; others get no answer, and ask again.
const MOST: usize = 16;

static ANSWERING: AtomicUsize = AtomicUsize::new(0);

/// The end of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// By living session: before which number all is in the answer, or gone.
    pub at: Vec<(u32, u64)>,
    /// Sessions that have ended: before which number, and whether they left in order.
    pub ended: Vec<(u32, u64, bool)>,
    /// By session: how many messages the answer had. Where fewer came, one was lost on the way.
    pub messages: Vec<(u32, u64)>,
    /// A rule lets only some messages leave: what is not in the answer is none that was lost.
    #[serde(default)]
    pub is_thinned: bool,
}

/// In a question, in the place of a session: the highest one that the receiver has known.
pub const HIGHEST: u32 = u32::MAX;

impl Summary {
    /// Reads one; `None`: it is none that a sender could have made.
    pub fn from_bytes(bytes: &[u8]) -> Option<Summary> {
        let summary: Summary = serde_json::from_slice(bytes).ok()?;
        let at = summary.at.iter().map(|(_, at)| *at);
        let ended = summary.ended.iter().map(|(_, until, _)| *until);
        at.chain(ended).all(|number| number <= wire::MOST_NUMBER).then_some(summary)
    }

    fn of(known: Known) -> Summary {
        let ended = |(session, until, ending)| (session, until, ending == Ending::Left);
        Summary {
            at: known.at,
            ended: known.ended.into_iter().map(ended).collect(),
            messages: Vec::new(),
            is_thinned: false,
        }
    }
}

/// Answers a question, on a thread of its own.
pub fn answer(sender: Arc<Sender>, query: Query) {
    let asked = query.payload().map(|payload| payload.to_bytes());
    let Some((who, wanted)) = asked.and_then(|bytes| wire::numbers_from_bytes(&bytes)) else {
        let key = query.key_expr().as_str();
        sender
            .context()
            .told
            .tell(&Event::of("refused", key).because("not a question that this version knows"));
        return;
    };
    // Before that it does not know which publishers there are. The receiver asks again.
    if !sender.is_announced() {
        return;
    }
    // What it asks for it lacks, and what is before that it has.
    sender.acknowledged(who, &wanted);
    if ANSWERING.fetch_add(1, Ordering::Relaxed) >= MOST {
        ANSWERING.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let answer = move || {
        let answered = send_again(&sender, &query, &wanted.into_iter().collect());
        if matches!(answered, Ok(true)) {
            sender.has_answered(who);
        }
        if let Err(why) = answered {
            sender
                .context()
                .told
                .tell(&Event::of("refused", query.key_expr().as_str()).because(&why));
        }
        ANSWERING.fetch_sub(1, Ordering::Relaxed);
    };
    if std::thread::Builder::new().name("gateway-resume".into()).spawn(answer).is_err() {
        ANSWERING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether the answer is whole.
fn send_again(sender: &Sender, query: &Query, wanted: &HashMap<u32, u64>) -> Result<bool, String> {
    let mut summary = Summary { is_thinned: !sender.is_whole(), ..Summary::of(sender.known()) };
    let depth = sender.meta().depth;
    let options = Subscriber::options().history(depth).unvouched(true);
    let mut reader =
        sender.topic.subscriber_with(options).map_err(|error: Error| error.to_string())?;
    let is_living = |session: u32| summary.at.iter().any(|(living, _)| *living == session);
    let highest = wanted.get(&HIGHEST).map(|highest| *highest as u32);
    // Behind which number the next message of a session is one that follows.
    let mut behind = HashMap::new();
    let mut messages: HashMap<u32, u64> = HashMap::new();
    // Publishers go on publishing. Where there is no end, there is no list, and the receiver asks again.
    let most = u64::from(depth) * (summary.at.len() + summary.ended.len()).max(64) as u64;
    let mut taken = 0;
    loop {
        let sample = match reader.try_recv() {
            Ok(Some(_)) if taken >= most => return Ok(false),
            Ok(Some(sample)) => sample,
            Ok(None) => break,
            // Of another type, by a gateway's word: none that is sent.
            Err(RecvError::Lagged { .. } | RecvError::Encoding(_)) => continue,
            // zenoh still reads those before it; it lets go as it sends.
            Err(RecvError::TooManyHeld) => {
                std::thread::sleep(HELD);
                continue;
            }
            Err(error) => return Err(error.to_string()),
        };
        taken += 1;
        let (session, number) = (sample.session(), sample.sequence());
        let is_wanted = match (wanted.get(&session), sender.durability()) {
            (Some(next), _) => number >= *next,
            // It is of a publisher that has come since the receiver was here last.
            (None, _) if highest.is_some_and(|highest| session > highest) => true,
            (None, _) if highest.is_some() => false,
            // A receiver that knows no stream comes later, and gets what the topic offers those.
            (None, 0) => false,
            (None, 1) => is_living(session),
            (None, _) => true,
        };
        if sample.is_foreign() || !is_wanted || summary.is_thinned {
            continue;
        }
        let is_oldest = behind.insert(session, number + 1) != Some(number);
        *messages.entry(session).or_default() += 1;
        let attachment = sender.attachment(&sample, is_oldest);
        query
            .reply(query.key_expr().clone(), payload(sample))
            .attachment(attachment.to_bytes())
            .wait()
            .map_err(|error| error.to_string())?;
    }
    summary.messages = messages.into_iter().collect();
    let bytes = serde_json::to_vec(&summary).map_err(|error| error.to_string())?;
    query
        .reply(query.key_expr().clone(), bytes)
        .wait()
        .map_err(|error| error.to_string())
        .map(|()| true)
}
