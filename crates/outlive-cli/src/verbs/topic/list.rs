//! `outlive topic list`.

use clap::Args;
use outlive::topic::TopicUsage;
use outlive::{Detail, Entry};
use serde::Serialize;

use crate::cli::Common;
use crate::exit::{Failure, code_of};
use crate::output::{self, bytes, count, talk};

/// List the topics of the domain
///
/// PUBS and SUBS count living publishers and subscribers. DEAD counts what dead processes left;
/// it needs no attention: see 'outlive domain gc'.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  \
    outlive topic list")]
pub struct ListArgs {}

#[derive(Serialize)]
struct Listing {
    domain: String,
    topics: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<Failed>,
}

/// A topic that could not be looked at.
#[derive(Serialize)]
struct Failed {
    name: String,
    why: String,
}

#[derive(Serialize)]
struct Row {
    name: String,
    #[serde(rename = "type")]
    type_name: String,
    depth: u32,
    publishers: usize,
    subscribers: usize,
    dead: u32,
    published: u64,
    bytes: u64,
    max_bytes: u64,
}

impl Row {
    fn new(entry: &Entry, usage: &TopicUsage) -> Row {
        Row {
            name: entry.name.clone(),
            type_name: entry.type_name.clone(),
            depth: usage.depth,
            publishers: living_publishers(usage),
            subscribers: living_subscribers(usage),
            dead: entry.dead_claims,
            published: published(usage),
            bytes: usage.bytes,
            max_bytes: usage.max_bytes,
        }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.escape_debug().to_string(),
            message_type(&self.type_name),
            count(u64::from(self.depth)),
            self.publishers.to_string(),
            self.subscribers.to_string(),
            self.dead.to_string(),
            count(self.published),
            bytes(self.bytes),
        ]
    }
}

/// Returns what a topic's messages are.
pub fn message_type(name: &str) -> String {
    if name.is_empty() { "bytes".to_owned() } else { name.escape_debug().to_string() }
}

/// Returns how many messages there have been, of all publishers.
pub fn published(usage: &TopicUsage) -> u64 {
    usage.rings.iter().map(|ring| ring.published).fold(0, u64::saturating_add)
}

/// Publishers that live.
pub fn living_publishers(usage: &TopicUsage) -> usize {
    usage.rings.iter().filter(|ring| ring.publisher.as_ref().is_some_and(|who| who.alive)).count()
}

/// Subscribers that live.
pub fn living_subscribers(usage: &TopicUsage) -> usize {
    usage.subscribers.iter().filter(|one| one.who.alive && !one.leaving).count()
}

/// Runs the verb.
pub fn run(_args: &ListArgs, common: &Common) -> Result<(), Failure> {
    let path = common.domain.path().display().to_string();
    let entries = match common.domain.look()? {
        Some(domain) => domain.entries()?,
        None => Vec::new(),
    };
    let (mut topics, mut failed, mut code) = (Vec::new(), Vec::new(), None);
    for entry in &entries {
        match (&entry.detail, &entry.kind) {
            (Detail::Topic(usage), _) => topics.push(Row::new(entry, usage)),
            // A file that is not Outlive's at all is no topic that the list lacks.
            (
                _,
                Err(outlive::Error::NotASegment { .. } | outlive::Error::OtherVersion { .. })
                | Ok(_),
            ) => {}
            (_, Err(error)) => {
                code = code.or(Some(code_of(error)));
                failed.push(Failed { name: entry.name.clone(), why: error.to_string() });
            }
        }
    }
    if common.json {
        output::print_json(&Listing { domain: path, topics, failed })?;
    } else {
        for one in &failed {
            talk(format_args!("'{}' was left out: {}", one.name.escape_debug(), one.why));
        }
        if topics.is_empty() {
            talk(format_args!("no topics in {path}"));
        } else {
            let rows: Vec<Vec<String>> = topics.iter().map(Row::cells).collect();
            let headings = ["NAME", "TYPE", "DEPTH", "PUBS", "SUBS", "DEAD", "MESSAGES", "BYTES"];
            output::print(output::table(&headings, &[2, 3, 4, 5, 6, 7], &rows))?;
        }
    }
    code.map_or(Ok(()), |code| Err(Failure::Silent(code as u8)))
}
