//! `outlive domain watch`: what appears in a domain and vanishes from it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use clap::Args;
use outlive::node::{DomainContents, DomainWatch, NodeInfo};
use outlive::{Domain, Error};
use serde::Serialize;

use super::awaited::{Awaited, Found};
use crate::cli::Common;
use crate::duration;
use crate::exit::Failure;
use crate::output;
use crate::signals::{SLICE, Signals};

/// Print what is in the domain, and then what appears in it and vanishes from it
///
/// Each thing and each named process ('outlive node list') is a line: 'there' at the beginning, then
/// 'appeared' or 'vanished'. A process that dies vanishes at once; the things that it made stay. What
/// appears and vanishes between two looks is not printed. watch goes on until it is interrupted (exit
/// code 0), or as its options say. A domain that is not there is waited for.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive domain watch\n  \
    outlive domain watch --json | jq -r 'select(.event == \"vanished\") | .name'\n  \
    outlive domain watch --until-idle 5s > what-started")]
pub struct WatchArgs {
    /// End after N lines
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
    /// End when nothing has appeared or vanished for this time; 0 prints what is there
    #[arg(long, value_name = "TIME", value_parser = duration::seconds)]
    until_idle: Option<Duration>,
}

/// A line.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    name: &'a str,
    /// `node`: a process that has named itself.
    kind: &'a str,
    /// Of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
}

impl Line<'_> {
    fn print(&self, common: &Common) -> Result<(), Failure> {
        if common.json {
            return output::print_json(self);
        }
        let pid = self.pid.map_or_else(String::new, |pid| format!(" {pid}"));
        let Line { event, kind, .. } = self;
        output::print(format_args!("{event}  {}  {kind}{pid}\n", self.name.escape_debug()))
    }
}

/// What the last report had: things with their kinds, and nodes.
#[derive(Default)]
struct Known {
    things: BTreeMap<String, String>,
    nodes: Vec<NodeInfo>,
}

/// Runs the verb.
pub fn run(args: &WatchArgs, common: &Common) -> Result<(), Failure> {
    let mut signals = Signals::that_end()?;
    let mut awaited = Awaited::domain(&common.domain);
    let open = |domain: &Domain, _: &str| -> Result<(Domain, DomainWatch), Error> {
        Ok((domain.clone(), domain.watch()))
    };
    let begun = Instant::now();
    let end = |since: Instant| args.until_idle.and_then(|span| since.checked_add(span));
    let (domain, mut watch) = match awaited.wait(Some(&mut signals), end(begun), open)? {
        Found::Thing(here) => here,
        Found::Late => return Err(awaited.no_domain()),
        Found::End => return Ok(()),
    };
    let (mut known, mut printed, mut idle_since) = (Known::default(), 0, begun);
    let mut is_first = true;
    loop {
        let until = Instant::now() + SLICE;
        let until = end(idle_since).map_or(until, |end| until.min(end));
        if let Some(contents) = watch.changed_until(outlive::Deadline::at(until))? {
            let events = if is_first { ("there", "vanished") } else { ("appeared", "vanished") };
            for line in known.changes(&domain, contents, events) {
                if args.count.is_some_and(|count| printed >= count) {
                    return Ok(());
                }
                line.as_line().print(common)?;
                printed += 1;
            }
            (is_first, idle_since) = (false, Instant::now());
        }
        let is_enough = args.count.is_some_and(|count| printed >= count);
        let is_idle = !is_first && end(idle_since).is_some_and(|end| Instant::now() >= end);
        if is_enough || is_idle || signals.came()? {
            return Ok(());
        }
    }
}

/// A line that owns what it says.
struct Change {
    event: &'static str,
    name: String,
    kind: String,
    pid: Option<u32>,
}

impl Change {
    fn as_line(&self) -> Line<'_> {
        Line { event: self.event, name: &self.name, kind: &self.kind, pid: self.pid }
    }
}

impl Known {
    /// Returns how those contents differ from what is known, what has vanished first, and knows them.
    fn changes(
        &mut self,
        domain: &Domain,
        now: DomainContents,
        (came, went): (&'static str, &'static str),
    ) -> Vec<Change> {
        let node = |event, node: &NodeInfo| Change {
            event,
            name: node.name.clone(),
            kind: "node".to_owned(),
            pid: Some(node.pid),
        };
        let is_in =
            |all: &[NodeInfo], one: &NodeInfo| all.iter().any(|other| other.token == one.token);
        let mut changes = Vec::new();
        let names: BTreeSet<&String> = now.names.iter().collect();
        self.things.retain(|name, kind| {
            let is_there = names.contains(name);
            if !is_there {
                let (name, kind) = (name.clone(), kind.clone());
                changes.push(Change { event: went, name, kind, pid: None });
            }
            is_there
        });
        changes.extend(
            self.nodes.iter().filter(|one| !is_in(&now.nodes, one)).map(|one| node(went, one)),
        );
        for name in &now.names {
            if self.things.contains_key(name) {
                continue;
            }
            // It may be gone already, or be no thing of Outlive's.
            let kind =
                domain.kind_of(name).map_or_else(|_| "?".to_owned(), |kind| kind.to_string());
            self.things.insert(name.clone(), kind.clone());
            changes.push(Change { event: came, name: name.clone(), kind, pid: None });
        }
        changes.extend(
            now.nodes.iter().filter(|one| !is_in(&self.nodes, one)).map(|one| node(came, one)),
        );
        self.nodes = now.nodes;
        changes
    }
}
