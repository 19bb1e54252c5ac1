//! Reads all that is in a domain, once, as `outlive ls` does: nothing is written into shared memory, and
//! nothing is waited for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outlive::topic::TopicUsage;
use outlive::{Detail, Domain, Entry, Error, TokenKind};

use super::page::{Page, Thing};
use super::table::Id;
use crate::verbs::topic::list;
use crate::verbs::topic::shown::is_owned;

/// A thread that has waited for less is not asked whether it is deadlocked: that takes two more looks.
const DEADLOCK: Duration = Duration::from_secs(1);

/// Returns the page of a domain that is not there, or cannot be read.
pub fn down(name: &str) -> Page {
    let mut page = Page::new(name.to_owned());
    page.add(Id::Up, &[], false);
    page.add(Id::Build, &[env!("CARGO_PKG_VERSION")], 1_u64);
    page
}

/// Returns the page of a domain. `endpoints`: with publishers and subscribers one by one.
pub fn up(domain: &Domain, name: &str, endpoints: bool) -> Result<Page, Error> {
    let begun = Instant::now();
    let entries = domain.entries()?;
    let mut page = Page::new(name.to_owned());
    page.add(Id::Up, &[], true);
    page.add(Id::Build, &[env!("CARGO_PKG_VERSION")], 1_u64);
    whole(&mut page, domain, &entries)?;
    for entry in &entries {
        let Ok(kind) = &entry.kind else { continue };
        let thing = Arc::new(Thing { kind: kind.to_string(), name: entry.name.clone() });
        each(&mut page, &thing, entry);
        detail(&mut page, &thing, entry, endpoints);
    }
    page.add(Id::Took, &[], begun.elapsed().as_secs_f64());
    Ok(page)
}

/// Adds what the domain as a whole says.
fn whole(page: &mut Page, domain: &Domain, entries: &[Entry]) -> Result<(), Error> {
    let (mut kinds, mut reasons) = (BTreeMap::<String, u64>::new(), BTreeMap::new());
    for entry in entries {
        match &entry.kind {
            Ok(kind) => *kinds.entry(kind.to_string()).or_default() += 1,
            // It was removed after it was listed.
            Err(Error::NotFound { .. }) => {}
            Err(error) => *reasons.entry(reason(error)).or_insert(0_u64) += 1,
        }
    }
    kinds.iter().for_each(|(kind, &count)| page.add(Id::Things, &[kind], count));
    reasons.iter().for_each(|(reason, &count)| page.add(Id::Unreadable, &[reason], count));
    if let Ok(facts) = rustix::fs::statvfs(domain.path()) {
        let size = facts.f_blocks.saturating_mul(facts.f_frsize);
        let free = facts.f_bavail.saturating_mul(facts.f_frsize);
        // Of a domain that keeps to less: that, and what is left of it.
        let most = domain.max_bytes()?.unwrap_or(u64::MAX);
        let left = match most {
            u64::MAX => u64::MAX,
            most => most.saturating_sub(domain.allocated_bytes()?),
        };
        page.add(Id::FileSystemSize, &[], size.min(most));
        page.add(Id::FileSystemFree, &[], free.min(left));
    }
    let (stats, tokens) = (domain.stats(), domain.tokens());
    for (holder, kind) in [("process", TokenKind::Process), ("thread", TokenKind::Thread)] {
        for (state, alive) in [("alive", true), ("dead", false)] {
            let such = tokens.iter().filter(|one| one.kind == kind && one.alive == alive);
            page.add(Id::Tokens, &[holder, state], such.count());
        }
    }
    page.add(Id::TokenSlots, &[], stats.slots);
    page.add(Id::OwnerDeaths, &[], stats.owner_deaths);
    page.add(Id::Rescues, &[], stats.rescues);
    let waits_long = |entry: &Entry| {
        let mut waiters = entry.waiters.iter();
        waiters.any(|waiter| waiter.holder.is_some() && waiter.waited >= DEADLOCK)
    };
    let deadlocks = match entries.iter().any(waits_long) {
        true => domain.deadlocks()?.len(),
        false => 0,
    };
    page.add(Id::Deadlocks, &[], deadlocks);
    Ok(())
}

/// Returns why a file was not read, in a word.
fn reason(error: &Error) -> &'static str {
    match error {
        Error::OtherVersion { .. } => "other_version",
        Error::NotASegment { .. } => "not_of_outlive",
        Error::Damaged { .. } => "damaged",
        Error::Permission { .. } | Error::Untrusted { .. } => "permission",
        _ => "other",
    }
}

/// Adds what a thing of any kind says.
fn each(page: &mut Page, thing: &Arc<Thing>, entry: &Entry) {
    page.add_of(Id::Memory, thing, &[], entry.bytes);
    page.add_of(Id::MemoryLimit, thing, &[], entry.max_bytes);
    page.add_of(Id::Users, thing, &[], entry.users.len());
    page.add_of(Id::Waiters, thing, &[], entry.waiters.len());
    let longest = entry.waiters.iter().map(|waiter| waiter.waited).max().unwrap_or_default();
    page.add_of(Id::LongestWait, thing, &[], longest.as_secs_f64());
    page.add_of(Id::DeadClaims, thing, &[], entry.dead_claims);
}

/// Adds what only things of its kind say.
fn detail(page: &mut Page, thing: &Arc<Thing>, entry: &Entry, endpoints: bool) {
    let name = &entry.name;
    match &entry.detail {
        Detail::Topic(usage) => topic(page, thing, usage, endpoints),
        Detail::Queue { counters, receiver, senders, .. } => {
            page.add_of(Id::Sent, thing, &["outlive", name, "send"], counters.sent);
            page.add_of(Id::Consumed, thing, &["outlive", name, "receive"], counters.received);
            page.add_of(Id::Pending, thing, &[], counters.pending);
            if let Some(places) = counters.places {
                page.add_of(Id::MaxMessages, thing, &[], places);
            }
            page.add_of(Id::HighWater, thing, &[], counters.high_water);
            page.add_of(Id::Abandoned, thing, &[], counters.abandoned);
            page.add_of(Id::Redelivered, thing, &[], counters.redelivered);
            page.add_of(Id::Grown, thing, &[], counters.grown);
            let living = |all: &[outlive::sync::Holder]| all.iter().filter(|one| one.alive).count();
            page.add_of(Id::Receivers, thing, &[], receiver.iter().filter(|one| one.alive).count());
            page.add_of(Id::Senders, thing, &[], living(senders));
        }
        Detail::Service(overview) => {
            page.add_of(Id::Requests, thing, &[], overview.requests.sent);
            page.add_of(Id::PendingRequests, thing, &[], overview.requests.pending);
            let begun = overview.clients.iter().map(|client| u64::from(client.begun)).sum::<u64>();
            page.add_of(Id::Begun, thing, &[], begun);
            let servers = overview.servers.iter().filter(|server| server.alive).count();
            page.add_of(Id::Servers, thing, &[], servers);
            let clients = overview.clients.iter().filter(|client| client.who.alive).count();
            page.add_of(Id::Clients, thing, &[], clients);
        }
        Detail::Jobs(usage) => {
            let counts = &usage.counts;
            page.add_of(Id::Put, thing, &[], counts.put);
            let states = [
                ("waiting", counts.waiting),
                ("taken", counts.taken),
                ("set_aside", counts.set_aside),
                ("being_put", counts.being_put),
            ];
            states.iter().for_each(|(state, count)| page.add_of(Id::Jobs, thing, &[state], *count));
            page.add_of(Id::DamagedJobs, thing, &[], usage.damaged);
            page.add_of(Id::MaxJobs, thing, &[], usage.max_jobs);
            let mut workers: Vec<u32> = usage
                .taken
                .iter()
                .map(|job| &job.worker)
                .filter(|who| who.alive)
                .map(|who| who.pid)
                .collect();
            workers.sort_unstable();
            workers.dedup();
            page.add_of(Id::Workers, thing, &[], workers.len());
        }
        Detail::State { version, capacity, writer, buffers, pins, .. } => {
            // The first value has version 1, and no process set it.
            page.add_of(Id::Sets, thing, &[], version.saturating_sub(1));
            page.add_of(Id::Capacity, thing, &[], *capacity);
            page.add_of(Id::Writers, thing, &[], writer.iter().filter(|one| one.alive).count());
            page.add_of(Id::Buffers, thing, &[], *buffers);
            page.add_of(Id::Pins, thing, &[], *pins);
        }
        Detail::Notifier(usage) => {
            let notifiers = usage.notifiers.iter().filter(|one| one.alive).count();
            page.add_of(Id::Notifiers, thing, &[], notifiers);
            let listeners = usage.listeners.iter().filter(|one| one.who.alive).count();
            page.add_of(Id::Listeners, thing, &[], listeners);
            let pending = usage.listeners.iter().flat_map(|one| &one.pending);
            let pending = pending.map(|(_, count)| count).fold(0, u64::saturating_add);
            page.add_of(Id::Notices, thing, &[], pending);
            page.add_of(Id::NotifierDeaths, thing, &[], usage.deaths);
        }
        Detail::Pool(usage) => {
            let sum = &usage.sum;
            let states = [
                ("used", sum.used),
                ("cached", sum.cached),
                ("free", sum.free),
                ("offered", sum.offered),
                ("shared", sum.shared),
                ("moving", sum.moving),
            ];
            states.iter().for_each(|(state, n)| page.add_of(Id::Objects, thing, &[state], *n));
            page.add_of(Id::PoolBytes, thing, &[], sum.bytes);
            page.add_of(Id::Unclaimed, thing, &[], usage.unclaimed);
            page.add_of(Id::PoolHolders, thing, &[], sum.holders);
            page.add_of(Id::FailedAllocations, thing, &[], sum.failed);
        }
        Detail::Lock(lock) => {
            page.add_of(Id::Holders, thing, &[], lock.holders.len());
            page.add_of(Id::NotRecoverable, thing, &[], lock.not_recoverable);
            for &(figure, value) in &lock.figures {
                match figure {
                    "free" | "held" => page.add_of(Id::Permits, thing, &[figure], value),
                    "room" => page.add_of(Id::Room, thing, &[], value),
                    "seats" => page.add_of(Id::Seats, thing, &[], value),
                    "arrived" => page.add_of(Id::Arrived, thing, &[], value),
                    _ => {}
                }
            }
        }
        Detail::Record { locks, holders } => {
            page.add_of(Id::Holders, thing, &[], holders.len());
            page.add_of(Id::RecordLocks, thing, &[], *locks);
        }
        _ => {}
    }
}

/// Adds what a topic says.
fn topic(page: &mut Page, thing: &Arc<Thing>, usage: &TopicUsage, endpoints: bool) {
    // A ring's count goes on with its next publisher, so the sum never falls.
    page.add_of(Id::Sent, thing, &["outlive", &thing.name, "publish"], list::published(usage));
    let rings = &usage.rings;
    let stopped = rings.iter().map(|ring| ring.stopped_waiting).fold(0, u64::saturating_add);
    page.add_of(Id::StoppedWaiting, thing, &[], stopped);
    page.add_of(Id::Publishers, thing, &[], list::living_publishers(usage));
    page.add_of(Id::Subscribers, thing, &[], list::living_subscribers(usage));
    page.add_of(Id::MaxPublishers, thing, &[], usage.max_publishers);
    page.add_of(Id::MaxSubscribers, thing, &[], usage.max_subscribers);
    page.add_of(Id::Depth, thing, &[], usage.depth);
    page.add_of(Id::Kept, thing, &[], rings.iter().map(|ring| u64::from(ring.kept)).sum::<u64>());
    let subscribers = &usage.subscribers;
    page.add_of(
        Id::HeldSamples,
        thing,
        &[],
        subscribers.iter().map(|one| u64::from(one.held)).sum::<u64>(),
    );
    let bytes = rings.iter().map(|ring| ring.bytes).fold(0, u64::saturating_add);
    page.add_of(Id::ObjectBytes, thing, &[], bytes);
    let present = || subscribers.iter().filter(|one| one.who.alive && !one.leaving);
    page.add_of(Id::Lag, thing, &[], present().map(|one| one.lag).max().unwrap_or(0));
    page.add_of(Id::Lagging, thing, &[], present().filter(|one| one.lagging).count());
    let lost = present().map(|one| one.lost).fold(0, u64::saturating_add);
    page.add_of(Id::Lost, thing, &[], lost);
    // A name has one place; damaged ones may look the same.
    let kept: BTreeMap<&str, _> = usage.kept.iter().map(|one| (&*one.name, one)).collect();
    for (name, one) in kept {
        page.add_of(Id::KeptOwned, thing, &[name], is_owned(one));
        page.add_of(Id::KeptLag, thing, &[name], one.lag);
        page.add_of(Id::KeptInTheWay, thing, &[name], one.in_the_way);
        if let Some(left) = one.patience_left() {
            page.add_of(Id::KeptPatience, thing, &[name], left.as_secs_f64());
        }
    }
    if !endpoints {
        return;
    }
    for (index, ring) in rings.iter().enumerate() {
        let index = index.to_string();
        page.add_of(Id::RingSent, thing, &[&index], ring.published);
        if let (Some(who), Some(session)) = (&ring.publisher, ring.session)
            && who.alive
        {
            let (session, pid) = (session.to_string(), who.pid.to_string());
            let more = [&*index, &session, &pid, &who.program];
            page.add_of(Id::RingPublisher, thing, &more, 1_u64);
        }
    }
    // By process: its subscribers have no number of their own.
    let mut processes = BTreeMap::<(u32, &str), (u64, u64, u64)>::new();
    for one in present() {
        let sum = processes.entry((one.who.pid, &one.who.program)).or_default();
        *sum = (sum.0 + 1, sum.1.max(one.lag), sum.2.saturating_add(one.lost));
    }
    for ((pid, program), (count, lag, lost)) in processes {
        let more = [&*pid.to_string(), program];
        page.add_of(Id::ProcessSubscribers, thing, &more, count);
        page.add_of(Id::ProcessLag, thing, &more, lag);
        page.add_of(Id::ProcessLost, thing, &more, lost);
    }
}
