//! What there is in a domain at a moment, and how fast it changed since the moment before.

use std::time::{Duration, Instant};

use outlive::sync::Holder;
use outlive::topic::{SubscriberUsage, TopicUsage};
use outlive::{Detail, Domain, Entry, Error};
use serde::Serialize;

use super::thing::{Alarm, Cell, Section, Thing};
use crate::exit::Failure;
use crate::output::{bytes, counted};
use crate::verbs::topic::list;
use crate::verbs::topic::shown::stopping;
use crate::verbs::{gc, info, ls};

/// The domain as a whole, at a moment.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Totals {
    /// Living processes.
    processes: usize,
    things: usize,
    bytes: u64,
    /// How often a process took over what a dead owner had.
    owner_deaths: u64,
    rescues: u64,
    /// What a sweep would find.
    sweep: Sweep,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Sweep {
    claims: u32,
    objects: u32,
    tokens: u32,
    quarantined: u32,
}

/// Everything, at a moment.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The domain's folder.
    pub domain: String,
    /// The lines above everything.
    pub summary: String,
    /// The same as figures.
    pub totals: Totals,
    /// What a sweep would find, in words; empty: nothing.
    pub sweep: String,
    /// Rows, in no order.
    pub things: Vec<Thing>,
    at: Instant,
    /// What has been counted: by name, how many messages, and how many were lost.
    counters: Vec<(String, u64, u64)>,
}

impl Scene {
    /// Looks at the domain. `before` is the moment that rates are taken from.
    pub fn look(domain: &Domain, before: Option<&Scene>) -> Result<Scene, Failure> {
        let at = Instant::now();
        let entries = domain.entries()?;
        let mut scene = Scene {
            domain: domain.path().display().to_string().escape_debug().to_string(),
            summary: String::new(),
            totals: totals(domain, &entries),
            sweep: String::new(),
            things: Vec::new(),
            at,
            counters: Vec::new(),
        };
        for entry in &entries {
            let about = info::lines(domain, entry);
            let rates = scene.count(entry, before);
            scene.things.extend(thing(entry, rates, about));
        }
        scene.summary = summary(&scene.totals);
        let report = domain.sweep(true).unwrap_or_default();
        scene.totals.sweep = Sweep {
            claims: report.claims,
            objects: report.objects,
            tokens: report.tokens,
            quarantined: report.quarantined,
        };
        if report.claims + report.objects + report.tokens + report.quarantined > 0 {
            scene.sweep = gc::told(&report, true);
        }
        scene.things.extend(dead(domain, &entries));
        Ok(scene)
    }

    /// Returns how long after that one it was looked at.
    pub fn seconds_since(&self, before: &Scene) -> f64 {
        self.at.saturating_duration_since(before.at).as_secs_f64()
    }

    /// Adds to what is known about a thing the deadlocks and orders of locks that it is part of.
    pub fn add_tangles(&mut self, domain: &Domain, name: &str) {
        let Some(thing) = self.things.iter_mut().find(|thing| thing.name == name) else { return };
        let Ok(entry) = domain.entry(name) else { return };
        // Damaged, they are the doctor's business.
        thing.about.extend(info::tangles(domain, &entry).unwrap_or_default());
    }

    /// Messages a second, and those lost, since the moment before.
    fn count(&mut self, entry: &Entry, before: Option<&Scene>) -> Rates {
        let (messages, lost) = match &entry.detail {
            Detail::Topic(usage) => (
                list::published(usage),
                usage.subscribers.iter().map(|one| one.lost).fold(0, u64::saturating_add),
            ),
            Detail::Queue { counters, .. } => (counters.received, 0),
            Detail::State { version, .. } => (*version, 0),
            _ => return Rates::default(),
        };
        self.counters.push((entry.name.clone(), messages, lost));
        let Some(before) = before else { return Rates::default() };
        let Some((_, messages_before, lost_before)) =
            before.counters.iter().find(|(name, ..)| *name == entry.name)
        else {
            return Rates::default();
        };
        let seconds = (self.at - before.at).as_secs_f64().max(1e-6);
        let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        Rates {
            messages: per_second(messages, *messages_before),
            lost: per_second(lost, *lost_before),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    messages: f64,
    lost: f64,
}

fn totals(domain: &Domain, entries: &[Entry]) -> Totals {
    let tokens = domain.tokens();
    let mut living: Vec<u32> =
        tokens.iter().filter(|token| token.alive).map(|token| token.pid).collect();
    living.sort_unstable();
    living.dedup();
    let stats = domain.stats();
    Totals {
        processes: living.len(),
        things: entries.len(),
        bytes: entries.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add),
        owner_deaths: stats.owner_deaths,
        rescues: stats.rescues,
        sweep: Sweep::default(),
    }
}

fn summary(totals: &Totals) -> String {
    let rescued = match totals.rescues {
        0 => String::new(),
        rescues => format!(", {} rescued", counted(rescues, "sleeper")),
    };
    format!(
        "{} living, {}, {}; {} taken over from the dead{rescued}",
        match totals.processes {
            1 => "1 process".to_owned(),
            count => format!("{count} processes"),
        },
        counted(totals.things as u64, "thing"),
        bytes(totals.bytes),
        counted(totals.owner_deaths, "claim"),
    )
}

fn thing(entry: &Entry, rates: Rates, about: Vec<(&'static str, String)>) -> Option<Thing> {
    let name = entry.name.escape_debug().to_string();
    let row = |section, cells: Vec<Cell>, figures: &[(&'static str, f64)], activity, alarm| {
        let cells = [Cell::from(name.clone())].into_iter().chain(cells).collect();
        Some(Thing {
            section,
            name: name.clone(),
            cells,
            figures: figures.to_vec(),
            activity,
            bytes: entry.bytes,
            alarm,
            about,
        })
    };
    let note = |is_so: bool| if is_so { Alarm::Note } else { Alarm::None };
    match (&entry.detail, &entry.kind) {
        // A file that is not Outlive's is not shown.
        (_, Err(Error::NotASegment { .. })) => None,
        (_, Err(error)) => {
            let why = error.to_string().escape_debug().to_string();
            let cells = vec![Cell::bytes(entry.bytes), why.into()];
            row(Section::Others, cells, &[], 0.0, Alarm::Bad)
        }
        (Detail::Topic(usage), _) => {
            let living = || usage.subscribers.iter().filter(|one| one.who.alive);
            let lag = living().map(|one| one.lag).max().unwrap_or(0);
            let held: u64 = usage.subscribers.iter().map(|one| u64::from(one.held)).sum();
            let cells = vec![
                Cell::rate(rates.messages),
                Cell::count(list::living_publishers(usage) as u64),
                Cell::count(list::living_subscribers(usage) as u64),
                Cell::count(lag),
                Cell::rate(rates.lost),
                Cell::count(held),
                Cell::bytes(usage.bytes),
                laggards(usage).into(),
            ];
            let figures = [
                ("messages a second", rates.messages),
                ("lag", lag as f64),
                ("lost a second", rates.lost),
            ];
            let is_held_up = stopping(usage).next().is_some();
            let alarm = match rates.lost > 0.0 {
                true => Alarm::Bad,
                false => note(is_held_up || lag >= u64::from(usage.depth)),
            };
            row(Section::Topics, cells, &figures, rates.messages, alarm)
        }
        (Detail::Queue { counters, receiver: receiver_holder, senders, .. }, _) => {
            let receiver = match receiver_holder {
                Some(holder) => info::who(holder),
                None => "none".to_owned(),
            };
            let senders = senders.iter().filter(|sender| sender.alive).count();
            let cells = vec![
                Cell::rate(rates.messages),
                Cell::count(counters.pending),
                Cell::count(senders as u64),
                Cell::bytes(counters.bytes),
                receiver.into(),
            ];
            let figures =
                [("messages a second", rates.messages), ("waiting", counters.pending as f64)];
            let alarm = match receiver_holder {
                Some(holder) if !holder.alive => Alarm::Bad,
                _ => note(counters.pending > 0 && receiver_holder.is_none()),
            };
            row(Section::Queues, cells, &figures, rates.messages, alarm)
        }
        (Detail::Pool(usage), _) => {
            let sum = &usage.sum;
            let cells = vec![
                Cell::count(sum.used),
                Cell::count(sum.cached),
                Cell::count(sum.free),
                Cell::count(sum.failed),
                Cell::bytes(usage.bytes),
            ];
            let figures = [("objects in use", sum.used as f64)];
            row(Section::Pools, cells, &figures, sum.used as f64, note(sum.failed > 0))
        }
        (Detail::Lock(_), _) | (Detail::Record { locks: 1.., .. }, _) => {
            let waited =
                entry.waiters.iter().map(|waiter| waiter.held.unwrap_or(waiter.waited)).max();
            let since = match waited {
                Some(waited) => Cell::new(info::span(waited), waited.as_secs_f64()),
                None => String::new().into(),
            };
            let waiters = entry.waiters.len() as u64;
            let cells = vec![Cell::count(waiters), since, ls::state(entry).into()];
            let figures = [("waiting", waiters as f64)];
            let holders = match &entry.detail {
                Detail::Lock(lock) if lock.not_recoverable => {
                    return row(Section::Locks, cells, &figures, 0.0, Alarm::Bad);
                }
                Detail::Lock(lock) => &lock.holders,
                Detail::Record { holders, .. } => holders,
                _ => return None,
            };
            let dead = holders.iter().any(|holder| !holder.alive);
            let long = waited.is_some_and(|waited| waited > Duration::from_secs(5));
            let alarm = if dead { Alarm::Bad } else { note(long) };
            let activity = holders.len() as f64 + waiters as f64;
            row(Section::Locks, cells, &figures, activity, alarm)
        }
        (_, Ok(kind)) => {
            let state = ls::state(entry);
            let state = if state.is_empty() { kind.to_string() } else { state };
            // What a person asks of these: how much there is to do, or has been.
            let (figures, activity) = others(&entry.detail, rates);
            let cells = vec![Cell::bytes(entry.bytes), state.into()];
            row(Section::Others, cells, &figures, activity, Alarm::None)
        }
    }
}

/// Returns what is drawn over time of things in the last section, and how busy they are.
fn others(detail: &Detail, rates: Rates) -> (Vec<(&'static str, f64)>, f64) {
    let figure = match detail {
        Detail::State { .. } => ("values a second", rates.messages),
        Detail::Service(overview) => ("requests waiting", overview.requests.pending as f64),
        Detail::Jobs(usage) => ("jobs waiting", f64::from(usage.counts.waiting)),
        _ => return (Vec::new(), 0.0),
    };
    (vec![figure], figure.1)
}

/// Returns the dead by process, each with what names it still.
fn dead(domain: &Domain, entries: &[Entry]) -> Vec<Thing> {
    let mut found: Vec<(u32, String, Vec<String>)> = Vec::new();
    let mut note = |pid: u32, program: &str, left: String| match found
        .iter_mut()
        .find(|(known, name, _)| (*known, name.as_str()) == (pid, program))
    {
        Some((.., all)) if all.contains(&left) => {}
        Some((.., all)) => all.push(left),
        None => found.push((pid, program.to_owned(), vec![left])),
    };
    for entry in entries {
        let name = entry.name.escape_debug();
        let kind = entry.kind.as_ref().map_or_else(|_| String::new(), ToString::to_string);
        let mut all: Vec<(&Holder, String)> = Vec::new();
        match &entry.detail {
            Detail::Topic(usage) => {
                let publishers = usage.rings.iter().filter_map(|ring| ring.publisher.as_ref());
                all.extend(publishers.map(|who| (who, format!("publisher of {name}"))));
                all.extend(usage.subscribers.iter().map(|one| match one.held {
                    0 => (&one.who, format!("subscriber of {name}")),
                    held => (
                        &one.who,
                        format!("subscriber of {name}, {}", counted(u64::from(held), "sample")),
                    ),
                }));
            }
            Detail::Queue { receiver, senders, .. } => {
                all.extend(receiver.iter().map(|who| (who, format!("receiver of {name}"))));
                all.extend(senders.iter().map(|who| (who, format!("sender of {name}"))));
            }
            Detail::Pool(usage) => {
                let left = |objects| format!("{} of {name}", counted(objects, "object"));
                all.extend(usage.holders.iter().map(|holder| (&holder.who, left(holder.objects))));
            }
            Detail::Lock(lock) => {
                all.extend(lock.holders.iter().map(|who| (who, format!("{kind} {name}"))))
            }
            Detail::Record { holders, .. } => {
                all.extend(holders.iter().map(|who| (who, format!("lock in {name}"))))
            }
            Detail::State { writer, .. } => {
                all.extend(writer.iter().map(|who| (who, format!("writer of {name}"))))
            }
            _ => {}
        }
        for (who, left) in all.into_iter().filter(|(who, _)| !who.alive) {
            note(who.pid, &who.program, left);
        }
    }
    // Every program that ends leaves its tokens, also one that ends in order: they are told together, and not as dead.
    let ended = domain.tokens().iter().filter(|token| !token.alive).count() as u64;
    let told = |(pid, program, left): (u32, String, Vec<String>)| {
        let program =
            if program.is_empty() { "?".to_owned() } else { program.escape_debug().to_string() };
        let pid = if pid == 0 { "?".to_owned() } else { pid.to_string() };
        Thing {
            section: Section::Dead,
            name: format!("{program} {pid}"),
            cells: vec![program.clone().into(), pid.clone().into(), left.join(", ").into()],
            figures: Vec::new(),
            activity: left.len() as f64,
            bytes: 0,
            alarm: Alarm::Note,
            about: [("process", format!("{pid} ({program}), dead"))]
                .into_iter()
                .chain(left.into_iter().map(|left| ("left", left)))
                .collect(),
        }
    };
    let mut things: Vec<Thing> = found.into_iter().map(told).collect();
    if ended > 0 {
        let left = format!("{}, free for new threads", counted(ended, "token"));
        things.push(Thing {
            section: Section::Dead,
            name: "~".to_owned(),
            cells: vec!["ended".to_owned().into(), String::new().into(), left.clone().into()],
            figures: Vec::new(),
            activity: 0.0,
            bytes: 0,
            alarm: Alarm::None,
            about: vec![
                ("left", left),
                (
                    "",
                    "each thread that ends leaves its token, and a new thread takes it".to_owned(),
                ),
            ],
        });
    }
    things
}

/// Returns the reliable subscribers for which publishers wait, or have stopped waiting, living ones and
/// those whose place is kept: the one that is farthest behind, and how many more there are.
fn laggards(usage: &TopicUsage) -> String {
    let depth = u64::from(usage.depth);
    let is_one = |one: &&SubscriberUsage| {
        one.who.alive && one.reliable && !one.leaving && (one.lagging || one.lag >= depth)
    };
    let living = usage.subscribers.iter().filter(is_one).map(|one| {
        let no_more = if one.lagging { " no more" } else { "" };
        (one.lag, format!("{}{no_more}", info::who(&one.who)))
    });
    let kept = stopping(usage).map(|one| (one.lag, format!("'{}'", one.name.escape_debug())));
    let mut all: Vec<_> = living.chain(kept).collect();
    all.sort_by_key(|(lag, _)| std::cmp::Reverse(*lag));
    match &*all {
        [] => String::new(),
        [(_, one)] => one.clone(),
        [(_, farthest), more @ ..] => format!("{farthest}, and {} more", more.len()),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a row with these cells behind its name.
    pub fn thing(section: Section, name: &str, cells: &[&str]) -> Thing {
        let cell = |text: &&str| Cell { text: (*text).to_owned(), figure: text.parse().ok() };
        let cells = [name].iter().chain(cells).map(cell).collect();
        let about = vec![("about", name.to_owned())];
        Thing {
            section,
            name: name.to_owned(),
            cells,
            figures: Vec::new(),
            activity: 0.0,
            bytes: 0,
            alarm: Alarm::None,
            about,
        }
    }

    /// Returns a scene with these rows.
    pub fn scene(things: Vec<Thing>) -> Scene {
        Scene {
            domain: "/dev/shm/outlive-0/default".to_owned(),
            summary: "5 processes living".to_owned(),
            totals: Totals::default(),
            sweep: "would sweep 3 claims".to_owned(),
            things,
            at: Instant::now(),
            counters: Vec::new(),
        }
    }

    #[test]
    fn rows_have_as_many_cells_as_headings() {
        let folder =
            std::env::temp_dir().join(format!("outlive-test-scene-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("a domain");
        let topic = outlive::topic::Topic::<[u8]>::options().depth(1).reliable(true);
        let topic = topic.open_or_create(&domain, "topic").expect("made");
        let publisher = topic.publisher().expect("made");
        let waited_for = outlive::topic::Subscriber::options().reliable(true);
        let _subscriber = topic.subscriber_with(waited_for).expect("made");
        let queue = outlive::queue::Queue::<[u8]>::open_or_create(&domain, "queue").expect("made");
        queue.sender().expect("made").send(b"x").expect("sent");
        let mutex =
            outlive::sync::Mutex::<u64>::options(0).open_or_create(&domain, "mutex").expect("made");
        let _guard = mutex.lock().expect("free");
        drop(outlive::pool::Pool::open_or_create(&domain, "pool").expect("made"));
        let before = Scene::look(&domain, None).expect("looked");
        publisher.publish(b"one").expect("published");
        let scene = Scene::look(&domain, Some(&before)).expect("looked");
        let waits_for = |scene: &Scene| {
            scene.things.iter().find(|one| one.name == "topic").map(|one| one.cells[8].text.clone())
        };
        assert_eq!(waits_for(&before).as_deref(), Some(""), "there was room");
        let this = std::process::id().to_string();
        assert!(waits_for(&scene).is_some_and(|cell| cell.contains(&this)));
        let of = |name: &str| scene.things.iter().find(|thing| thing.name == name).expect("there");
        for (name, section) in [
            ("topic", Section::Topics),
            ("queue", Section::Queues),
            ("mutex", Section::Locks),
            ("pool", Section::Pools),
        ] {
            assert_eq!(of(name).section, section);
        }
        assert!(
            scene.things.iter().all(|thing| thing.cells.len() == thing.section.headings().len())
        );
        assert!(of("topic").activity > 0.0);
        assert_eq!(
            (of("topic").cells[2].figure, of("topic").cells[4].figure),
            (Some(1.0), Some(1.0))
        );
        assert_eq!(of("queue").alarm, Alarm::Note, "no process receives");
        assert!(of("mutex").cells[3].text.contains(&std::process::id().to_string()));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
