//! The page of options, doc/options.md, names the defaults that the library has.

use std::fmt::Display;

use outlive::Domain;
use outlive::jobs::JobQueue;
use outlive::notify::Notifier;
use outlive::pool::Pool;
use outlive::queue::{OnReceiverDeath, Queue};
use outlive::rpc::Service;
use outlive::state::State;
use outlive::sync::{Semaphore, SemaphoreOptions};
use outlive::topic::{Publisher, Subscriber, Topic};

const PAGE: &str = include_str!("../../../doc/options.md");

/// Returns what the page says is the default of that option.
fn on_the_page(thing: &str, option: &str) -> String {
    let row = |line: &str| {
        let cells: Vec<String> = line.split('|').map(|cell| cell.trim().to_owned()).collect();
        let [_, of, named, default, ..] = &cells[..] else { return None };
        let is_it = of == thing && named.split(' ').next() == Some(format!("`{option}`").as_str());
        is_it.then(|| default.clone())
    };
    let found: Vec<String> = PAGE.lines().filter_map(row).collect();
    assert_eq!(found.len(), 1, "doc/options.md has {} rows of {thing}'s {option}", found.len());
    found[0].clone()
}

fn expect(thing: &str, option: &str, default: impl Display) {
    assert_eq!(on_the_page(thing, option), default.to_string(), "{thing}: {option}");
}

/// Sees that a default is a quarter of the file system, up to what the page says.
fn expect_a_quarter(thing: &str, found: u64, most: u64) {
    let said = format!("a quarter of the file system, at most {} GiB", most >> 30);
    assert_eq!(on_the_page(thing, "max_bytes"), said, "{thing}");
    assert!(found <= most, "{thing}: {found}");
}

#[test]
fn the_page_has_the_defaults() {
    let folder = std::env::temp_dir().join(format!("outlive-options-{}", std::process::id()));
    let domain = Domain::open_or_create_at(&folder).expect("opens");
    let queue = Queue::<[u8]>::open_or_create(&domain, "queue").expect("made").config();
    assert_eq!(queue.max_messages, None);
    expect("queue", "max_messages", "none: bytes alone bound it");
    expect("queue", "slots", queue.slots);
    expect("queue", "slot_bytes", queue.slot_bytes);
    expect("queue", "need_receiver", queue.need_receiver);
    assert_eq!(queue.on_receiver_death, OnReceiverDeath::Fail);
    expect("queue", "on_receiver_death", "fail");
    expect_a_quarter("queue", queue.max_bytes, 6 << 30);
    let jobs = JobQueue::<[u8]>::open_or_create(&domain, "jobs").expect("made").config();
    expect("job queue", "max_jobs", jobs.max_jobs);
    expect("job queue", "job_bytes", jobs.job_bytes);
    expect("job queue", "max_attempts", jobs.max_attempts);
    let notifier = Notifier::open_or_create(&domain, "notifier").expect("made").config();
    assert_eq!((notifier.on_created, notifier.on_left, notifier.on_died), (None, None, None));
    for option in ["on_created", "on_left", "on_died"] {
        expect("notifier", option, "none");
    }
    let topic = Topic::<[u8]>::open_or_create(&domain, "topic").expect("made").config();
    expect("topic", "depth", topic.depth);
    expect("topic", "max_publishers", topic.max_publishers);
    expect("topic", "max_subscribers", topic.max_subscribers);
    expect("topic", "max_samples", topic.max_samples);
    expect("topic", "stamps", topic.stamps);
    expect("topic", "reliable", topic.reliable);
    expect("topic", "durability", topic.durability);
    assert_eq!(topic.mode, 0o600);
    expect("topic", "mode", "0600, in a group's domain 0660");
    expect_a_quarter("topic", topic.max_bytes, 4 << 30);
    let state = State::<[u8]>::open_or_create(&domain, "state").expect("made").config();
    expect("state", "capacity", state.capacity);
    let service = Service::<[u8], [u8]>::open_or_create(&domain, "service").expect("made").config();
    expect("service", "max_bytes", service.max_bytes);
    expect("service", "max_servers", service.max_servers);
    let pool = Pool::open_or_create(&domain, "pool").expect("made").config();
    expect("pool", "cache_bytes", pool.cache_bytes);
    expect("pool", "huge_pages", pool.huge_pages);
    expect_a_quarter("pool", pool.max_bytes, 8 << 30);
    let semaphore = SemaphoreOptions::default().open_or_create(&domain, "semaphore").expect("made");
    expect("semaphore", "permits", semaphore.available_permits());
    let three = Semaphore::options(3).create_new(&domain, "three").expect("made");
    assert_eq!(three.available_permits(), 3);
    let found = SemaphoreOptions::default().open_or_create(&domain, "three").expect("as it is");
    assert_eq!(found.available_permits(), 3);
    let publisher = format!("{:?}", Publisher::options());
    let told =
        "PublisherOptions { max_blocking: None, period: None, lifespan: None, is_foreign: false }";
    assert_eq!(publisher, told);
    expect("publisher", "max_blocking", "none: it waits for reliable subscribers for ever");
    expect("publisher", "period", "none");
    expect("publisher", "lifespan", "none: for ever");
    let subscriber = Subscriber::options();
    expect("subscriber", "reliable", false);
    expect("subscriber", "history", 0);
    expect("subscriber", "sessions", false);
    let told = "SubscriberOptions { reliable: false, history: 0, keep_last: None, keys: [], period: None, durability: None, sessions: false, max_age: None, liveliness: None, unvouched: false, kept: None, acknowledges: false }";
    assert_eq!(format!("{subscriber:?}"), told);
    std::fs::remove_dir_all(&folder).expect("removed");
}
