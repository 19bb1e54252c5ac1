//! `outlive info NAME`: all that is known about one thing.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use outlive::node::NodeInfo;
use outlive::queue::OnReceiverDeath;
use outlive::sync::{Holder, LockOrder};
use outlive::topic::TopicUsage;
use outlive::{Detail, Domain, Entry, Kind, Waiter};
use serde::Serialize;

use crate::cli::Common;
use crate::described::{self, Told};
use crate::exit::{Code, Failure};
use crate::output::{self, bytes, count};
use crate::process;
use crate::verbs::doctor::locks::cycle;
use crate::verbs::holding::{Command, type_for_people};
use crate::verbs::topic::list;
use crate::verbs::topic::shown::{self, Shown};
use crate::verbs::{ls, node};

/// Show all that is known about one thing
///
/// It has a line for its kind, its size and its state, one for each process that has it open, holds
/// it or waits for it, and since when, and one for each deadlock cycle that it is part of. What else
/// is shown depends on the kind: 'outlive help queue info' says it for queues, and so on.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  \
    outlive domain info log")]
pub struct InfoArgs {
    /// The thing's name
    name: String,
}

/// An entry as JSON; `ls` prints the same.
#[derive(Default, Serialize)]
pub struct Described {
    name: String,
    kind: Option<String>,
    /// Why it could not be looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    bytes: u64,
    max_bytes: u64,
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    type_name: String,
    /// Of its payloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Told>,
    users: Vec<User>,
    dead_claims: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_recoverable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locks: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    figures: Option<BTreeMap<&'static str, u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holders: Option<Vec<Owner>>,
    waiters: Vec<Asleep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receiver: Option<Option<Owner>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    senders: Option<Vec<Owner>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<Counters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<Config>,
    /// What there is of a topic, its publishers and subscribers among it.
    #[serde(flatten)]
    topic: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notifiers: Option<Vec<Owner>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    listeners: Option<Vec<Owner>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<String, String>,
}

/// What `info` adds to that.
#[derive(Serialize)]
struct Alone {
    #[serde(flatten)]
    entry: Described,
    /// The users that have a name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<node::Described>,
    /// What the holders of a lock run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<Command>,
    /// Deadlock cycles of threads, one of which waits for this.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deadlocks: Vec<String>,
    /// Orders of locks, this among them, that can become such a cycle.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lock_orders: Vec<String>,
}

#[derive(Serialize)]
struct User {
    pid: u32,
    program: Option<String>,
}

#[derive(Serialize)]
struct Owner {
    pid: u32,
    tid: u32,
    program: String,
    alive: bool,
}

/// A thread that waits.
#[derive(Serialize)]
pub struct Asleep {
    #[serde(flatten)]
    who: Owner,
    waited_seconds: f64,
    offset: u64,
    /// The thread that it waits for.
    holder: Option<Owner>,
    /// For how long, at least, that thread has held it.
    held_seconds: Option<f64>,
}

impl Asleep {
    /// Returns a waiter in words that JSON knows.
    pub fn new(waiter: &Waiter) -> Asleep {
        Asleep {
            who: Owner::new(&waiter.who),
            waited_seconds: waiter.waited.as_secs_f64(),
            offset: waiter.offset,
            holder: waiter.holder.as_ref().map(Owner::new),
            held_seconds: waiter.held.map(|held| held.as_secs_f64()),
        }
    }
}

/// What a queue was made with.
#[derive(Serialize)]
struct Config {
    /// The most unread messages.
    max_messages: Option<u32>,
    slots: u32,
    slot_bytes: u32,
    need_receiver: bool,
    on_receiver_death: &'static str,
}

impl Config {
    fn new(config: &outlive::queue::QueueConfig) -> Config {
        let on_receiver_death = match config.on_receiver_death {
            OnReceiverDeath::Fail => "fail",
            OnReceiverDeath::Keep => "keep",
        };
        Config {
            max_messages: config.max_messages,
            slots: config.slots,
            slot_bytes: config.slot_bytes,
            need_receiver: config.need_receiver,
            on_receiver_death,
        }
    }
}

#[derive(Serialize)]
struct Counters {
    sent: u64,
    received: u64,
    pending: u64,
    abandoned: u64,
    redelivered: u64,
    grown: u64,
    high_water: u64,
    bytes: u64,
    max_bytes: u64,
    /// The most unread messages that it can hold.
    places: Option<u64>,
}

impl Counters {
    fn new(counters: &outlive::queue::Counters) -> Counters {
        Counters {
            sent: counters.sent,
            received: counters.received,
            pending: counters.pending,
            abandoned: counters.abandoned,
            redelivered: counters.redelivered,
            grown: counters.grown,
            high_water: counters.high_water,
            bytes: counters.bytes,
            max_bytes: counters.max_bytes,
            places: counters.places,
        }
    }
}

impl Owner {
    fn new(holder: &Holder) -> Owner {
        Owner {
            pid: holder.pid,
            tid: holder.tid,
            program: holder.program.clone(),
            alive: holder.alive,
        }
    }
}

impl Described {
    /// Returns an entry in words that JSON knows.
    pub fn new(entry: &Entry) -> Described {
        let mut described = Described {
            name: entry.name.clone(),
            kind: entry.kind.as_ref().ok().map(ToString::to_string),
            error: entry.kind.as_ref().err().map(ToString::to_string),
            bytes: entry.bytes,
            max_bytes: entry.max_bytes,
            type_name: entry.type_name.clone(),
            payload: entry.description.as_ref().map(Told::of),
            users: entry
                .users
                .iter()
                .map(|&pid| User { pid, program: process::program(pid) })
                .collect(),
            dead_claims: entry.dead_claims,
            waiters: entry.waiters.iter().map(Asleep::new).collect(),
            attributes: entry
                .attributes
                .iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            ..Described::default()
        };
        let owners = |holders: &[Holder]| holders.iter().map(Owner::new).collect();
        match &entry.detail {
            Detail::Lock(lock) => {
                described.not_recoverable = Some(lock.not_recoverable);
                described.holders = Some(owners(&lock.holders));
                described.figures = Some(lock.figures.iter().copied().collect());
            }
            Detail::Record { locks, holders, .. } => {
                described.locks = Some(*locks);
                described.holders = Some(owners(holders));
            }
            Detail::Pool(usage) => {
                let holders: Vec<Holder> =
                    usage.holders.iter().map(|holder| holder.who.clone()).collect();
                described.holders = Some(owners(&holders));
                described.figures = Some(pool_figures(&usage.sum).into_iter().collect());
            }
            Detail::State { version, capacity, writer, buffers, pins, .. } => {
                described.holders = Some(writer.iter().map(Owner::new).collect());
                described.figures =
                    Some(state_figures(*version, *capacity, *buffers, *pins).into_iter().collect());
            }
            Detail::Queue { counters, receiver, senders, config, .. } => {
                described.config = Some(Config::new(config));
                described.receiver = Some(receiver.as_ref().map(Owner::new));
                described.senders = Some(owners(senders));
                described.counters = Some(Counters::new(counters));
            }
            Detail::Service(overview) => {
                described.receiver = Some(overview.server.as_ref().map(Owner::new));
                // With one server: `receiver` is all there is to say.
                if overview.max_servers > 1 {
                    described.holders = Some(overview.servers.iter().map(Owner::new).collect());
                }
                described.senders =
                    Some(overview.clients.iter().map(|client| Owner::new(&client.who)).collect());
                described.counters = Some(Counters::new(&overview.requests));
                described.figures = Some(service_figures(overview).into_iter().collect());
            }
            Detail::Jobs(usage) => {
                described.holders =
                    Some(usage.taken.iter().map(|job| Owner::new(&job.worker)).collect());
                described.figures = Some(job_figures(usage).into_iter().collect());
            }
            Detail::Notifier(usage) => {
                described.notifiers = Some(owners(&usage.notifiers));
                described.listeners =
                    Some(usage.listeners.iter().map(|one| Owner::new(&one.who)).collect());
                described.figures = Some(notifier_figures(usage).into_iter().collect());
            }
            Detail::Topic(usage) => {
                described.topic = Some(Shown::new(usage, None));
                described.figures = Some(topic_figures(usage).into_iter().collect());
            }
            _ => {}
        }
        described
    }
}

/// Runs the verb.
pub fn run(args: &InfoArgs, common: &Common) -> Result<(), Failure> {
    run_of(args, &[], common)
}

/// Shows it if it is of one of these kinds; of whatever kind when none is given.
pub fn run_of(args: &InfoArgs, kinds: &[Kind], common: &Common) -> Result<(), Failure> {
    let domain = common.domain.existing()?;
    let entry = domain.entry(&args.name)?;
    if let Ok(kind) = &entry.kind
        && !kinds.is_empty()
        && !kinds.contains(kind)
    {
        let wanted = ls::word(kinds);
        let name = args.name.escape_debug();
        let text =
            format!("'{name}' is no {wanted} but a {kind}; 'outlive domain info {name}' shows it");
        return Err(Failure::new(Code::Mismatch, text));
    }
    let tangles = tangles(&domain, &entry)?;
    if common.json {
        return output::print_json(&Alone {
            entry: Described::new(&entry),
            nodes: nodes(&domain, &entry).iter().map(node::Described::new).collect(),
            commands: holders(&entry).iter().filter_map(Command::of).collect(),
            deadlocks: those(&tangles, DEADLOCK),
            lock_orders: those(&tangles, ORDER),
        });
    }
    let mut lines = lines(&domain, &entry);
    lines.extend(tangles);
    let width = lines.iter().map(|(name, _)| name.len()).fold(11, usize::max);
    output::print(
        lines.iter().map(|(name, value)| format!("{name:<width$}  {value}\n")).collect::<String>(),
    )
}

const DEADLOCK: &str = "DEADLOCK";
const ORDER: &str = "ORDER";

/// Returns the deadlocks of which one waits for it, and the orders of locks, it among them, that can
/// become one: a line each, with what the line is about.
pub fn tangles(domain: &Domain, entry: &Entry) -> Result<Vec<(&'static str, String)>, Failure> {
    let in_it =
        |deadlock: &outlive::Deadlock| deadlock.cycle.iter().any(|one| one.name == entry.name);
    let deadlocks = if entry.waiters.is_empty() { Vec::new() } else { domain.deadlocks()? };
    let deadlocks = deadlocks.iter().filter(|one| in_it(one)).map(|one| (DEADLOCK, cycle(one)));
    let about = |order: &LockOrder| order.pairs.iter().any(|pair| pair.held_name == entry.name);
    // Damaged, it is the doctor's business.
    let orders = domain.lock_orders().unwrap_or_default();
    let orders = orders.iter().filter(|order| about(order)).map(|one| (ORDER, one.to_string()));
    Ok(deadlocks.chain(orders).collect())
}

/// Returns the lines about one of these.
fn those(tangles: &[(&'static str, String)], of: &str) -> Vec<String> {
    tangles.iter().filter(|(about, _)| *about == of).map(|(_, line)| line.clone()).collect()
}

/// Returns the users that have a name.
fn nodes(domain: &Domain, entry: &Entry) -> Vec<NodeInfo> {
    // What cannot be listed has no names: `outlive node list` says why.
    let mut nodes = domain.nodes().unwrap_or_default();
    nodes.retain(|node| node.same_namespace && entry.users.contains(&node.pid));
    nodes
}

/// Returns the holders of locks.
fn holders(entry: &Entry) -> &[Holder] {
    match &entry.detail {
        Detail::Lock(lock) => &lock.holders,
        Detail::Record { holders, .. } => holders,
        _ => &[],
    }
}

/// Returns all that is known about one thing by itself, a line each, with what the line is about.
pub fn lines(domain: &Domain, entry: &Entry) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("name", entry.name.escape_debug().to_string()),
        ("kind", entry.kind.as_ref().map_or_else(ToString::to_string, ToString::to_string)),
        ("file", domain.path().join(&entry.name).display().to_string().escape_debug().to_string()),
        ("size", size(entry.bytes, entry.max_bytes)),
    ];
    if !entry.type_name.is_empty() {
        lines.push(("type", type_for_people(&entry.type_name).escape_debug().to_string()));
    }
    if let Some(description) = &entry.description {
        lines.extend(described::lines(description));
    }
    lines.push(("state", ls::state(entry)));
    lines.extend(entry.attributes.iter().map(|pair| ("attribute", node::attribute(pair))));
    lines.extend(entry.users.iter().map(|&pid| ("user", user(pid))));
    lines.extend(nodes(domain, entry).iter().map(|one| {
        let version = one.version.escape_debug();
        let space = if one.version.is_empty() { "" } else { " " };
        ("node", format!("{}{space}{version}: process {}", node::name(one), one.pid))
    }));
    if entry.dead_claims > 0 {
        lines.push((
            "dead",
            format!("{} of the dead", output::counted(u64::from(entry.dead_claims), "claim")),
        ));
    }
    match &entry.detail {
        Detail::Lock(lock) => {
            lines.extend(lock.holders.iter().flat_map(|holder| holder_lines(holder, entry)));
            lines.extend(lock.figures.iter().map(|&(name, figure)| (name, count(figure))));
        }
        Detail::Record { holders, .. } => {
            lines.extend(holders.iter().flat_map(|holder| holder_lines(holder, entry)))
        }
        Detail::Pool(usage) => {
            let has = |holder: &outlive::pool::HolderUsage| {
                format!(
                    "{}, {} bytes in {}",
                    who(&holder.who),
                    count(holder.bytes),
                    output::counted(holder.objects, "object")
                )
            };
            if !usage.modes.is_none() {
                lines.push(("modes", usage.modes.to_string()));
            }
            lines.extend(usage.holders.iter().map(|holder| ("holder", has(holder))));
            lines.extend(pool_figures(&usage.sum).map(|(name, figure)| (name, count(figure))));
        }
        Detail::State { version, capacity, writer, buffers, pins, is_fixed_size, .. } => {
            lines.extend(writer.iter().map(|writer| ("writer", who(writer))));
            let size = output::counted(*capacity, "byte");
            lines.push(("value", if *is_fixed_size { size } else { format!("{size} at most") }));
            let figures = state_figures(*version, *capacity, *buffers, *pins);
            lines.extend(
                figures
                    .into_iter()
                    .filter(|(name, _)| *name != "capacity")
                    .map(|(n, f)| (n, count(f))),
            );
        }
        Detail::Service(overview) => {
            lines.extend(overview.servers.iter().map(|server| ("server", who(server))));
            if overview.max_servers > 1 {
                lines.push(("servers", format!("{} at most", overview.max_servers)));
            }
            let client = |client: &outlive::rpc::ClientUse| {
                format!(
                    "{}, {} begun",
                    who(&client.who),
                    output::counted(u64::from(client.begun), "call")
                )
            };
            lines.extend(overview.clients.iter().map(|one| ("client", client(one))));
            lines.extend(service_figures(overview).map(|(name, figure)| (name, count(figure))));
        }
        Detail::Queue { counters, senders, config, .. } => {
            let on_death = match config.on_receiver_death {
                OnReceiverDeath::Fail => "if it dies, sends fail until the next one comes",
                OnReceiverDeath::Keep => "if it dies, messages are kept for the next one",
            };
            lines.push(("receiver", on_death.to_owned()));
            lines.extend(senders.iter().map(|sender| ("sender", who(sender))));
            if let (Some(most), Some(places)) = (config.max_messages, counters.places) {
                let most = u64::from(most);
                let fewer = format!(", but it has memory for {} alone", count(places));
                let fewer = if places < most { &fewer } else { "" };
                lines.push(("most messages", format!("{}{fewer}", count(most))));
            }
            let figures = [
                ("sent", counters.sent),
                ("received", counters.received),
                ("pending", counters.pending),
                ("abandoned", counters.abandoned),
                ("redelivered", counters.redelivered),
                ("grown", counters.grown),
                ("high water", counters.high_water),
            ];
            lines.extend(figures.map(|(name, figure)| (name, count(figure))));
        }
        Detail::Jobs(usage) => {
            let has = |job: &outlive::jobs::TakenJob| {
                format!("{}, job {}, attempt {}", who(&job.worker), job.id, job.attempts)
            };
            lines.extend(usage.taken.iter().map(|job| ("worker", has(job))));
            lines.extend(job_figures(usage).map(|(name, figure)| (name, count(figure))));
        }
        Detail::Notifier(usage) => {
            lines.extend(usage.notifiers.iter().map(|one| ("notifier", who(one))));
            lines.extend(usage.listeners.iter().map(|one| ("listener", listens(one))));
            let outlive::notify::NotifierConfig { on_created, on_left, on_died, .. } = usage.config;
            let at = [("on created", on_created), ("on left", on_left), ("on died", on_died)];
            lines.extend(at.iter().filter_map(|&(what, id)| Some((what, id?.to_string()))));
            lines.extend(notifier_figures(usage).map(|(name, figure)| (name, count(figure))));
        }
        Detail::Topic(usage) => {
            let shown = Shown::new(usage, None);
            lines.extend(shown::ends(usage));
            lines.extend(shown.made_with(usage));
            let figures = topic_figures(usage).into_iter().filter(|(name, _)| *name != "depth");
            lines.extend(figures.map(|(name, figure)| (name, count(figure))));
            lines.extend(shown.left_over());
        }
        _ => {}
    }
    lines.extend(entry.waiters.iter().map(|waiter| ("waiter", waits(waiter, entry))));
    lines
}

/// Returns what a state says in numbers.
fn state_figures(version: u64, capacity: u64, buffers: u32, pins: u32) -> [(&'static str, u64); 4] {
    [
        ("version", version),
        ("capacity", capacity),
        ("buffers", buffers.into()),
        ("pins", pins.into()),
    ]
}

/// Returns what there is of a job queue's jobs.
fn job_figures(usage: &outlive::jobs::JobsUsage) -> [(&'static str, u64); 8] {
    [
        ("put", usage.counts.put),
        ("waiting", usage.counts.waiting.into()),
        ("taken", usage.counts.taken.into()),
        ("set aside", usage.counts.set_aside.into()),
        ("damaged", usage.damaged.into()),
        ("max jobs", usage.max_jobs.into()),
        ("job bytes", usage.job_bytes.into()),
        ("max attempts", usage.max_attempts.into()),
    ]
}

/// Returns what there is of a notifier's notices, and its deaths.
fn notifier_figures(usage: &outlive::notify::NotifierUsage) -> [(&'static str, u64); 2] {
    let pending = usage.listeners.iter().flat_map(|one| &one.pending).map(|(_, count)| count);
    [("pending", pending.fold(0, u64::saturating_add)), ("deaths", usage.deaths)]
}

/// Returns a listener, and what it has not taken.
fn listens(one: &outlive::notify::ListenerUsage) -> String {
    let pending = one.pending.iter().map(|(id, times)| format!("{id}: {}", count(times)));
    let pending: Vec<String> = pending.collect();
    let to_take = if pending.is_empty() { "nothing".to_owned() } else { pending.join(", ") };
    format!("{}, {to_take} to take", who(&one.who))
}

/// Returns what there is of a service's requests and calls.
fn service_figures(overview: &outlive::rpc::Overview) -> [(&'static str, u64); 4] {
    [
        ("requests", overview.requests.sent),
        ("received", overview.requests.received),
        ("pending", overview.requests.pending),
        ("begun", overview.clients.iter().map(|client| u64::from(client.begun)).sum()),
    ]
}

/// Returns what there is of a pool's objects, of all sizes together.
fn pool_figures(sum: &outlive::pool::SizeUsage) -> [(&'static str, u64); 8] {
    [
        ("objects", sum.total),
        ("used", sum.used),
        ("cached", sum.cached),
        ("free", sum.free),
        ("offered", sum.offered),
        ("shared", sum.shared),
        ("moving", sum.moving),
        ("failed", sum.failed),
    ]
}

/// Returns what there is of a topic's messages, of all publishers together.
fn topic_figures(usage: &TopicUsage) -> [(&'static str, u64); 5] {
    [
        ("published", list::published(usage)),
        ("kept", usage.rings.iter().map(|ring| u64::from(ring.kept)).sum()),
        ("held", usage.subscribers.iter().map(|one| u64::from(one.held)).sum()),
        ("lost", usage.subscribers.iter().map(|one| one.lost).fold(0, u64::saturating_add)),
        ("depth", u64::from(usage.depth)),
    ]
}

/// Returns a holder of a lock, and what it runs.
fn holder_lines(holder: &Holder, entry: &Entry) -> Vec<(&'static str, String)> {
    let mut lines = vec![("holder", held(holder, entry))];
    if let Some(command) = Command::of(holder) {
        let told = format!("{}: {}{}", command.pid, command.command, command.since());
        lines.push(("command", told));
    }
    lines
}

/// Returns a holder, and since when it has been one as far as its waiters can tell.
fn held(holder: &Holder, entry: &Entry) -> String {
    let of = entry
        .waiters
        .iter()
        .filter(|waiter| waiter.holder.as_ref().is_some_and(|one| one.token == holder.token));
    let since = of.filter_map(|waiter| waiter.held).max();
    format!(
        "{}{}",
        thread(holder),
        since.map_or_else(String::new, |held| format!(", for {} at least", span(held)))
    )
}

/// Returns a waiter, for how long it has waited, and for which thread.
fn waits(waiter: &Waiter, entry: &Entry) -> String {
    let place = if matches!(entry.detail, Detail::Record { .. }) {
        format!(", at byte {}", waiter.offset)
    } else {
        String::new()
    };
    let holder = waiter
        .holder
        .as_ref()
        .map_or_else(String::new, |holder| format!(", held by {}", who(holder)));
    format!("{}, for {}{place}{holder}", thread(&waiter.who), span(waiter.waited))
}

/// Returns a span for a person: `0.4 s`, `3 min 20 s`, `5 h 1 min`.
pub fn span(span: Duration) -> String {
    match span.as_secs() {
        0..60 => format!("{:.1} s", span.as_secs_f64()),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Returns a thread in a few words.
pub fn thread(holder: &Holder) -> String {
    let tid = if [0, holder.pid].contains(&holder.tid) {
        String::new()
    } else {
        format!(", thread {}", holder.tid)
    };
    format!("{}{tid}", who(holder))
}

/// Returns a holder in a few words.
pub fn who(holder: &Holder) -> String {
    let program = if holder.program.is_empty() { "?" } else { &holder.program };
    let dead = if holder.alive { "" } else { ", dead" };
    format!("{} ({}{dead})", holder.pid, program.escape_debug())
}

fn user(pid: u32) -> String {
    let program = process::program(pid).unwrap_or_else(|| "?".to_owned());
    format!("{pid} ({})", program.escape_debug())
}

/// Returns a size in words. A file takes whole pages, also when its contents need less.
fn size(now: u64, most: u64) -> String {
    if most > now { format!("{}, at most {}", bytes(now), bytes(most)) } else { bytes(now) }
}
