//! What a topic is, and its publishers and subscribers: `topic info`, `domain info` and `ls` tell the
//! same of it, as text and as JSON.

use std::time::Duration;

use outlive::sync::Holder;
use outlive::topic::{KeptUsage, RingUsage, SubscriberUsage, TopicUsage};
use serde::Serialize;

use super::list::published;
use crate::output::{self, bytes, count};
use crate::verbs::info::{span, who};
use crate::verbs::measuring::rate;

/// A topic in words that JSON knows.
#[derive(Serialize)]
pub struct Shown {
    depth: u32,
    durability: String,
    /// As chmod writes it.
    mode: String,
    reliable: bool,
    stamps: bool,
    max_publishers: u32,
    max_subscribers: u32,
    max_samples: u32,
    published: u64,
    publishers: Vec<Publisher>,
    /// Messages of publishers that are gone, which late subscribers may have as history.
    left_over: u32,
    subscribers: Vec<Subscriber>,
    kept: Vec<Kept>,
}

/// One that is there, or has died and was not cleared away.
#[derive(Serialize)]
struct Publisher {
    pid: u32,
    tid: u32,
    program: String,
    alive: bool,
    session: Option<u32>,
    published: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages_per_second: Option<f64>,
    kept: u32,
    objects: u32,
    bytes: u64,
    /// `None`: for ever; so is that of the next.
    lifespan_seconds: Option<f64>,
    max_blocking_seconds: Option<f64>,
    stopped_waiting: u64,
    assertions: u32,
    #[serde(skip)]
    notes: String,
}

/// One that is there, or has died and was not cleared away.
#[derive(Serialize)]
struct Subscriber {
    pid: u32,
    tid: u32,
    program: String,
    alive: bool,
    reliable: bool,
    lagging: bool,
    lagged: u32,
    leaving: bool,
    lag: u64,
    lost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_per_second: Option<f64>,
    held: u32,
    #[serde(skip)]
    notes: String,
}

/// A name for which a subscriber's place is kept.
#[derive(Serialize)]
struct Kept {
    name: String,
    /// `None`: its owner has died and was cleared away.
    pid: Option<u32>,
    program: Option<String>,
    alive: bool,
    reliable: bool,
    lagging: bool,
    lag: u64,
    lost: u64,
    in_the_way: u32,
    patience_seconds: f64,
    ownerless_seconds: Option<f64>,
    patience_left_seconds: Option<f64>,
    #[serde(skip)]
    shown: [String; 2],
}

/// An earlier look, and how many seconds before.
pub type Before<'a> = Option<(&'a TopicUsage, f64)>;

impl Shown {
    /// Returns what a look at a topic has found, with rates if there was one before.
    pub fn new(now: &TopicUsage, before: Before<'_>) -> Shown {
        let there = now.rings.iter().enumerate().filter_map(|(at, ring)| {
            let who = ring.publisher.as_ref()?;
            let count = |usage: &TopicUsage| usage.rings.get(at).map_or(0, |ring| ring.published);
            let rate = before.map(|(then, seconds)| per_second(count(then), count(now), seconds));
            Some(Publisher::new(who, ring, rate))
        });
        let left_over = now.rings.iter().filter(|ring| ring.publisher.is_none());
        Shown {
            depth: now.depth,
            durability: now.durability.to_string(),
            mode: format!("{:04o}", now.mode),
            reliable: now.reliable,
            stamps: now.stamps,
            max_publishers: now.max_publishers,
            max_subscribers: now.max_subscribers,
            max_samples: now.max_samples,
            published: published(now),
            publishers: there.collect(),
            left_over: left_over.map(|ring| ring.kept).sum(),
            subscribers: now.subscribers.iter().map(|one| Subscriber::new(one, before)).collect(),
            kept: now.kept.iter().map(Kept::new).collect(),
        }
    }

    /// Returns what the topic was made with, a line each.
    pub fn made_with(&self, usage: &TopicUsage) -> Vec<(&'static str, String)> {
        let of = |number: u32, word| output::counted(u64::from(number), word);
        let (publishers, subscribers) =
            (of(self.max_publishers, "publisher"), of(self.max_subscribers, "subscriber"));
        let samples = of(self.max_samples, "message");
        vec![
            ("depth", format!("{} of each publisher", of(self.depth, "message"))),
            ("durability", self.durability.clone()),
            ("mode", format!("{} ({})", self.mode, access(usage.mode))),
            ("reliability", if self.reliable { "reliable" } else { "best effort" }.to_owned()),
            ("stamps", if self.stamps { "yes" } else { "no: messages have no age" }.to_owned()),
            ("room for", format!("{publishers}, {subscribers}; {samples} held by each")),
        ]
    }

    /// Returns the messages of publishers that are gone, if there are any.
    pub fn left_over(&self) -> Option<(&'static str, String)> {
        let left = count(u64::from(self.left_over));
        (self.left_over > 0).then(|| ("left over", format!("{left} of publishers that are gone")))
    }

    /// Returns the publishers, the subscribers and the places that are kept, each as a table, if there are
    /// any.
    pub fn tables(&self) -> String {
        let mut text = String::new();
        if !self.publishers.is_empty() {
            let headings = [
                "PUBLISHER",
                "PID",
                "SESSION",
                "PUBLISHED",
                "PER SECOND",
                "KEPT",
                "OBJECTS",
                "BYTES",
                "",
            ];
            let rows: Vec<Vec<String>> = self.publishers.iter().map(Publisher::cells).collect();
            text.push('\n');
            text.push_str(&output::table(&headings, &[1, 2, 3, 4, 5, 6, 7], &rows));
        }
        if !self.subscribers.is_empty() {
            let headings = ["SUBSCRIBER", "PID", "LAG", "LOST", "PER SECOND", "HELD", ""];
            let rows: Vec<Vec<String>> = self.subscribers.iter().map(Subscriber::cells).collect();
            text.push('\n');
            text.push_str(&output::table(&headings, &[1, 2, 3, 4, 5], &rows));
        }
        if !self.kept.is_empty() {
            let headings = ["KEPT FOR", "PID", "LAG", "LOST", "PATIENCE", ""];
            let rows: Vec<Vec<String>> = self.kept.iter().map(Kept::cells).collect();
            text.push('\n');
            text.push_str(&output::table(&headings, &[1, 2, 3, 4], &rows));
        }
        text
    }
}

/// Returns the publishers, subscribers and the places that are kept, a line each.
pub fn ends(usage: &TopicUsage) -> Vec<(&'static str, String)> {
    let publishers = usage.rings.iter().filter_map(|ring| Some((ring, ring.publisher.as_ref()?)));
    let publishes = |(ring, one): (&RingUsage, &Holder)| {
        let session = ring.session.map_or_else(String::new, |number| format!(", session {number}"));
        let text = format!("{}{session}, {} published", who(one), count(ring.published));
        ("publisher", with_notes(text, &of_publisher(ring)))
    };
    let subscribes = |one: &SubscriberUsage| {
        let held = match one.held {
            0 => String::new(),
            held => format!(", {} held", count(u64::from(held))),
        };
        let lost = match one.lost {
            0 => String::new(),
            lost => format!(", {} lost", count(lost)),
        };
        let text = format!("{}, {} to take{held}{lost}", who(&one.who), count(one.lag));
        ("subscriber", with_notes(text, &of_subscriber(one)))
    };
    let kept = |one: &KeptUsage| {
        let text = format!("'{}', {} to take", one.name.escape_debug(), count(one.lag));
        ("kept for", with_notes(text, &of_kept(one)))
    };
    let subscribers = usage.subscribers.iter().map(subscribes);
    publishers.map(publishes).chain(subscribers).chain(usage.kept.iter().map(kept)).collect()
}

fn with_notes(text: String, notes: &str) -> String {
    if notes.is_empty() { text } else { format!("{text}; {notes}") }
}

fn per_second(before: u64, now: u64, seconds: f64) -> f64 {
    now.saturating_sub(before) as f64 / seconds.max(1e-9)
}

/// Says what a topic's mode means.
fn access(mode: u32) -> &'static str {
    match mode & 0o060 {
        0o060 => "the group publishes and subscribes",
        0o040 => "the group subscribes alone",
        _ => "its owner's alone",
    }
}

fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        number => format!("{} times", count(number)),
    }
}

/// Returns what is unusual about a publisher.
fn of_publisher(ring: &RingUsage) -> String {
    let mut notes = Vec::new();
    match ring.max_blocking {
        Some(Duration::ZERO) => notes.push("never waits for subscribers".to_owned()),
        Some(span) => notes.push(format!("waits {span:?} for subscribers at most")),
        None => {}
    }
    if ring.stopped_waiting > 0 {
        notes.push(format!("stopped waiting {}", times(ring.stopped_waiting)));
    }
    if let Some(span) = ring.lifespan {
        notes.push(format!("messages count for {span:?}"));
    }
    if ring.assertions > 0 {
        notes.push(format!("asserted its liveliness {}", times(u64::from(ring.assertions))));
    }
    notes.join(", ")
}

/// Returns what is unusual about a subscriber.
fn of_subscriber(one: &SubscriberUsage) -> String {
    let kind = match (one.leaving, one.lagging, one.reliable) {
        (true, ..) => "gone, its samples are held",
        (_, true, _) => "reliable, lagging: publishers do not wait",
        (.., true) => "reliable",
        _ => "",
    };
    let mut notes: Vec<String> =
        Some(kind).filter(|kind| !kind.is_empty()).map(str::to_owned).into_iter().collect();
    if one.lagged > 0 {
        notes.push(format!("has lagged {}", times(u64::from(one.lagged))));
    }
    notes.join(", ")
}

/// Returns whether a living process has a place that is kept.
pub fn is_owned(one: &KeptUsage) -> bool {
    one.owner.as_ref().is_some_and(|owner| owner.alive)
}

/// Returns the names without a living subscriber for which publishers wait.
pub fn stopping(usage: &TopicUsage) -> impl Iterator<Item = &KeptUsage> {
    usage.kept.iter().filter(|one| one.in_the_way > 0 && !is_owned(one))
}

/// Returns which process has a place that is kept, and what it means for publishers.
fn of_kept(one: &KeptUsage) -> String {
    let mut notes = Vec::new();
    match &one.owner {
        Some(owner) if owner.alive => {}
        Some(owner) => notes.push(who(owner)),
        None => notes.push("no process has it".to_owned()),
    }
    if one.lagging {
        notes.push("lagging: publishers do not wait".to_owned());
    }
    if one.in_the_way > 0 {
        let (publishers, verb) = match one.in_the_way {
            1 => ("1 publisher".to_owned(), "waits"),
            many => (format!("{many} publishers"), "wait"),
        };
        notes.push(format!("{publishers} {verb} for it"));
    }
    if let (Some(since), Some(left)) = (one.ownerless, one.patience_left()) {
        notes.push(format!("since {}, for {} more at most", span(since), span(left)));
    }
    notes.join(", ")
}

fn program(name: &str, alive: bool) -> String {
    let name = if name.is_empty() { "?" } else { name };
    format!("{}{}", name.escape_debug(), if alive { "" } else { ", dead" })
}

impl Publisher {
    fn new(who: &Holder, ring: &RingUsage, rate: Option<f64>) -> Publisher {
        let seconds = |span: Option<Duration>| span.map(|span| span.as_secs_f64());
        Publisher {
            pid: who.pid,
            tid: who.tid,
            program: who.program.clone(),
            alive: who.alive,
            session: ring.session,
            published: ring.published,
            messages_per_second: rate,
            kept: ring.kept,
            objects: ring.objects,
            bytes: ring.bytes,
            lifespan_seconds: seconds(ring.lifespan),
            max_blocking_seconds: seconds(ring.max_blocking),
            stopped_waiting: ring.stopped_waiting,
            assertions: ring.assertions,
            notes: of_publisher(ring),
        }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            program(&self.program, self.alive),
            self.pid.to_string(),
            self.session.map_or_else(String::new, |number| number.to_string()),
            count(self.published),
            rate(self.messages_per_second.unwrap_or(0.0)),
            count(u64::from(self.kept)),
            count(u64::from(self.objects)),
            bytes(self.bytes),
            self.notes.clone(),
        ]
    }
}

impl Subscriber {
    fn new(one: &SubscriberUsage, before: Before<'_>) -> Subscriber {
        // The slot may have been another subscriber's then.
        let lost_then = |then: &TopicUsage| {
            let same = |other: &&SubscriberUsage| {
                other.who.token == one.who.token && other.lost <= one.lost
            };
            let lost = then.subscribers.iter().filter(same).map(|other| other.lost).max();
            lost.unwrap_or(one.lost)
        };
        Subscriber {
            pid: one.who.pid,
            tid: one.who.tid,
            program: one.who.program.clone(),
            alive: one.who.alive,
            reliable: one.reliable,
            lagging: one.lagging,
            lagged: one.lagged,
            leaving: one.leaving,
            lag: one.lag,
            lost: one.lost,
            lost_per_second: before
                .map(|(then, seconds)| per_second(lost_then(then), one.lost, seconds)),
            held: one.held,
            notes: of_subscriber(one),
        }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            program(&self.program, self.alive),
            self.pid.to_string(),
            count(self.lag),
            count(self.lost),
            rate(self.lost_per_second.unwrap_or(0.0)),
            count(u64::from(self.held)),
            self.notes.clone(),
        ]
    }
}

impl Kept {
    fn new(one: &KeptUsage) -> Kept {
        Kept {
            name: one.name.clone(),
            pid: one.owner.as_ref().map(|owner| owner.pid),
            program: one.owner.as_ref().map(|owner| owner.program.clone()),
            alive: is_owned(one),
            reliable: one.reliable,
            lagging: one.lagging,
            lag: one.lag,
            lost: one.lost,
            in_the_way: one.in_the_way,
            patience_seconds: one.patience.as_secs_f64(),
            ownerless_seconds: one.ownerless.map(|since| since.as_secs_f64()),
            patience_left_seconds: one.patience_left().map(|left| left.as_secs_f64()),
            shown: [span(one.patience), of_kept(one)],
        }
    }

    fn cells(&self) -> Vec<String> {
        let [patience, notes] = &self.shown;
        vec![
            self.name.escape_debug().to_string(),
            self.pid.map_or_else(String::new, |pid| pid.to_string()),
            count(self.lag),
            count(self.lost),
            patience.clone(),
            notes.clone(),
        ]
    }
}
