//! `outlive topic info`: both ends of a topic, looked at twice for the rates.

use std::time::{Duration, Instant};

use clap::Args;
use outlive::describe::Description;
use outlive::sync::Holder;
use outlive::topic::TopicUsage;
use outlive::{Detail, Domain, Entry};
use serde::Serialize;

use super::list::{living_publishers, living_subscribers, message_type, published};
use crate::cli::Common;
use crate::described::{self, Told};
use crate::duration;
use crate::exit::{Code, Failure};
use crate::output::{self, bytes, count};
use crate::verbs::measuring::rate;

/// Show the publishers and subscribers of a topic, how far each is, and how fast
///
/// LAG is how many messages a subscriber has still to take, LOST how many it has found overwritten
/// before it had taken them (one that is stopped has not looked), HELD how many it holds at the
/// moment.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  \
    outlive topic info camera")]
pub struct InfoArgs {
    /// The topic's name
    name: String,
    /// Count messages for this time, for the rates
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration::seconds)]
    look: Duration,
}

#[derive(Serialize)]
struct Report {
    name: String,
    #[serde(rename = "type")]
    type_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Told>,
    depth: u32,
    durability: String,
    /// As chmod writes it.
    mode: String,
    reliable: bool,
    bytes: u64,
    max_bytes: u64,
    max_publishers: u32,
    max_subscribers: u32,
    max_samples: u32,
    published: u64,
    messages_per_second: f64,
    publishers: Vec<Publisher>,
    /// Messages of publishers that are gone, which late subscribers may have as history.
    left_over: u32,
    subscribers: Vec<Subscriber>,
}

#[derive(Serialize)]
struct Publisher {
    pid: u32,
    program: String,
    alive: bool,
    published: u64,
    messages_per_second: f64,
    kept: u32,
    objects: u32,
    bytes: u64,
    stopped_waiting: u64,
}

#[derive(Serialize)]
struct Subscriber {
    pid: u32,
    program: String,
    alive: bool,
    reliable: bool,
    lagging: bool,
    lagged: u32,
    leaving: bool,
    lag: u64,
    lost: u64,
    lost_per_second: f64,
    held: u32,
}

/// Says what a topic's mode means.
fn access(mode: u32) -> &'static str {
    match mode & 0o060 {
        0o060 => "the group publishes and subscribes",
        0o040 => "the group subscribes alone",
        _ => "its owner's alone",
    }
}

impl Report {
    fn new(entry: &Entry, before: &TopicUsage, now: &TopicUsage, seconds: f64) -> Report {
        let per_second =
            |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds.max(1e-9);
        let publishers = now.rings.iter().enumerate().filter_map(|(at, ring)| {
            let who = ring.publisher.as_ref()?;
            let published_before = before.rings.get(at).map_or(0, |ring| ring.published);
            Some(Publisher {
                pid: who.pid,
                program: who.program.clone(),
                alive: who.alive,
                published: ring.published,
                messages_per_second: per_second(published_before, ring.published),
                kept: ring.kept,
                objects: ring.objects,
                bytes: ring.bytes,
                stopped_waiting: ring.stopped_waiting,
            })
        });
        let lost_before = |who: &Holder, lost: u64| {
            let same = before
                .subscribers
                .iter()
                .filter(|one| one.who.token == who.token && one.lost <= lost);
            same.map(|one| one.lost).max().unwrap_or(lost)
        };
        let subscribers = now.subscribers.iter().map(|one| Subscriber {
            pid: one.who.pid,
            program: one.who.program.clone(),
            alive: one.who.alive,
            reliable: one.reliable,
            lagging: one.lagging,
            lagged: one.lagged,
            leaving: one.leaving,
            lag: one.lag,
            lost: one.lost,
            lost_per_second: per_second(lost_before(&one.who, one.lost), one.lost),
            held: one.held,
        });
        Report {
            name: entry.name.clone(),
            type_name: entry.type_name.clone(),
            payload: entry.description.as_ref().map(Told::of),
            depth: now.depth,
            durability: now.durability.to_string(),
            mode: format!("{:04o}", now.mode),
            reliable: now.reliable,
            bytes: now.bytes,
            max_bytes: now.max_bytes,
            max_publishers: now.max_publishers,
            max_subscribers: now.max_subscribers,
            max_samples: now.max_samples,
            published: published(now),
            messages_per_second: per_second(published(before), published(now)),
            left_over: now
                .rings
                .iter()
                .filter(|ring| ring.publisher.is_none())
                .map(|ring| ring.kept)
                .sum(),
            publishers: publishers.collect(),
            subscribers: subscribers.collect(),
        }
    }

    fn told(&self, usage: &TopicUsage, description: Option<&Description>) -> String {
        let mut lines = vec![
            ("name", self.name.escape_debug().to_string()),
            ("type", message_type(&self.type_name)),
        ];
        lines.extend(description.into_iter().flat_map(described::lines));
        lines.extend([
            (
                "depth",
                format!("{} of each publisher", output::counted(u64::from(self.depth), "message")),
            ),
            ("durability", self.durability.clone()),
            ("mode", format!("{} ({})", self.mode, access(usage.mode))),
            ("reliability", if self.reliable { "reliable" } else { "best effort" }.to_owned()),
            ("size", format!("{}, at most {}", bytes(self.bytes), bytes(self.max_bytes))),
            (
                "room for",
                format!(
                    "{}, {}; {} held by each",
                    output::counted(u64::from(self.max_publishers), "publisher"),
                    output::counted(u64::from(self.max_subscribers), "subscriber"),
                    output::counted(u64::from(self.max_samples), "message"),
                ),
            ),
            (
                "published",
                format!("{}, {} a second", count(self.published), rate(self.messages_per_second)),
            ),
        ]);
        if self.left_over > 0 {
            lines.push((
                "left over",
                format!("{} of publishers that are gone", count(u64::from(self.left_over))),
            ));
        }
        let ends =
            [(living_publishers(usage), "publisher"), (living_subscribers(usage), "subscriber")];
        let ends = ends.map(|(number, word)| output::counted(number as u64, word));
        lines.push(("living", ends.join(", ")));
        let mut text: String =
            lines.iter().map(|(name, value)| format!("{name:<11}  {value}\n")).collect();
        if !self.publishers.is_empty() {
            let headings =
                ["PUBLISHER", "PID", "PUBLISHED", "PER SECOND", "KEPT", "OBJECTS", "BYTES"];
            let rows: Vec<Vec<String>> = self.publishers.iter().map(Publisher::cells).collect();
            text.push('\n');
            text.push_str(&output::table(&headings, &[1, 2, 3, 4, 5, 6], &rows));
        }
        if !self.subscribers.is_empty() {
            let headings = ["SUBSCRIBER", "PID", "LAG", "LOST", "PER SECOND", "HELD", ""];
            let rows: Vec<Vec<String>> = self.subscribers.iter().map(Subscriber::cells).collect();
            text.push('\n');
            text.push_str(&output::table(&headings, &[1, 2, 3, 4, 5], &rows));
        }
        text
    }
}

fn program(name: &str, alive: bool) -> String {
    let name = if name.is_empty() { "?" } else { name };
    format!("{}{}", name.escape_debug(), if alive { "" } else { ", dead" })
}

impl Publisher {
    fn cells(&self) -> Vec<String> {
        vec![
            program(&self.program, self.alive),
            self.pid.to_string(),
            count(self.published),
            rate(self.messages_per_second),
            count(u64::from(self.kept)),
            count(u64::from(self.objects)),
            bytes(self.bytes),
        ]
    }
}

impl Subscriber {
    fn cells(&self) -> Vec<String> {
        let kind = match (self.leaving, self.lagging, self.reliable) {
            (true, ..) => "gone, its samples are held",
            (_, true, _) => "reliable, lagging: publishers do not wait",
            (.., true) => "reliable",
            _ => "",
        };
        vec![
            program(&self.program, self.alive),
            self.pid.to_string(),
            count(self.lag),
            count(self.lost),
            rate(self.lost_per_second),
            count(u64::from(self.held)),
            kind.to_owned(),
        ]
    }
}

fn look(domain: &Domain, name: &str) -> Result<(Entry, TopicUsage, Instant), Failure> {
    let entry = domain.entry(name)?;
    let at = Instant::now();
    match &entry.detail {
        Detail::Topic(usage) => {
            let usage = usage.clone();
            Ok((entry, usage, at))
        }
        _ => {
            let kind = entry.kind.as_ref().map_or_else(|_| "?".to_owned(), ToString::to_string);
            let text = format!(
                "'{}' is no topic but a {kind}; 'outlive ls' lists what there is",
                name.escape_debug()
            );
            Err(Failure::new(Code::Mismatch, text))
        }
    }
}

/// Runs the verb.
pub fn run(args: &InfoArgs, common: &Common) -> Result<(), Failure> {
    let domain = common.domain.existing()?;
    let (_, before, then) = look(&domain, &args.name)?;
    std::thread::sleep(args.look);
    let (entry, usage, now) = look(&domain, &args.name)?;
    let report = Report::new(&entry, &before, &usage, (now - then).as_secs_f64());
    if common.json {
        output::print_json(&report)
    } else {
        output::print(report.told(&usage, entry.description.as_ref()))
    }
}
