//! Attributes of things: of every kind, whole after any death, and refused when they were written
//! over.

use std::os::unix::fs::FileExt;

use outlive::jobs::JobQueue;
use outlive::notify::Notifier;
use outlive::pool::Pool;
use outlive::queue::Queue;
use outlive::rpc::Service;
use outlive::state::State;
use outlive::sync::{
    Barrier, CeilingMutex, Condvar, EmbeddedMutex, Event, Latch, Mutex, OnceLock, PiMutex, Record,
    ReentrantMutex, RwLock, Semaphore,
};
use outlive::topic::Topic;
use outlive::{Attributes, Domain, Error};

use crate::board::Board;
use crate::child::Child;
use crate::runner::World;

crate::checks!(
    things_of_every_kind_carry_attributes,
    what_contradicts_is_refused,
    a_thing_is_there_with_its_attributes_or_not_at_all: 60,
    attributes_that_were_written_over_are_refused,
);

outlive::record! {
    struct Line {
        position: EmbeddedMutex<u64>,
    }
}

fn things_of_every_kind_carry_attributes(world: &World) {
    let plain = world.domain();
    let domain = plain.with_attributes([("unit", "m/s"), ("größe", "")]);
    let check = |name: &str, read: Result<Attributes, Error>| {
        let attributes = read.expect(name);
        assert_eq!((attributes.get("unit"), attributes.len()), (Some("m/s"), 2), "{name}");
        assert_eq!(plain.attributes(name).expect(name), attributes);
        assert_eq!(plain.entry(name).expect(name).attributes, attributes, "{name}");
    };
    let d = &domain;
    check("mutex", Mutex::<u64>::options(0).open_or_create(d, "mutex").expect("made").attributes());
    check(
        "rwlock",
        RwLock::<u64>::options(0).open_or_create(d, "rwlock").expect("made").attributes(),
    );
    check("condvar", Condvar::options().open_or_create(d, "condvar").expect("made").attributes());
    check("event", Event::options().open_or_create(d, "event").expect("made").attributes());
    check("latch", Latch::options(1).open_or_create(d, "latch").expect("made").attributes());
    check("once", OnceLock::<u64>::open_or_create(d, "once").expect("made").attributes());
    check("barrier", Barrier::options(2).open_or_create(d, "barrier").expect("made").attributes());
    check(
        "permits",
        Semaphore::options(1).open_or_create(d, "permits").expect("made").attributes(),
    );
    check("queue", Queue::<[u8]>::open_or_create(d, "queue").expect("made").attributes());
    check("notifier", Notifier::open_or_create(d, "notifier").expect("made").attributes());
    check("jobs", JobQueue::<[u8]>::open_or_create(d, "jobs").expect("made").attributes());
    check("topic", Topic::<[u8]>::open_or_create(d, "topic").expect("made").attributes());
    check("state", State::<u64>::open_or_create(d, "state").expect("made").attributes());
    check(
        "service",
        Service::<[u8], [u8]>::open_or_create(d, "service").expect("made").attributes(),
    );
    let reentrant = ReentrantMutex::<u64>::options(0).open_or_create(d, "reentrant");
    check("reentrant", reentrant.expect("made").attributes());
    let inherits = PiMutex::<u64>::options(0).open_or_create(d, "inherits");
    check("inherits", inherits.expect("made").attributes());
    let record = Record::<Line>::options().open_or_create(d, "record");
    check("record", record.expect("made").attributes());
    // Its maker needs the right to run at a real-time priority.
    match CeilingMutex::<u64>::options(10, 0).open_or_create(d, "ceiling") {
        Ok(ceiling) => check("ceiling", ceiling.attributes()),
        Err(error) => assert!(matches!(error, Error::NoRealTime { .. }), "{error}"),
    }
    check("pool", Pool::open_or_create(d, "pool").expect("made").attributes());
    drop(Event::open_or_create(&plain, "without").expect("made"));
    assert!(plain.attributes("without").expect("read").is_empty());
}

fn what_contradicts_is_refused(world: &World) {
    let domain = world.domain();
    let unit = |value: &str| State::<u64>::options().attribute("unit", value);
    drop(unit("m/s").attribute("more", "x").create_new(&domain, "speed").expect("made"));
    drop(State::<u64>::open(&domain, "speed").expect("takes what is there"));
    drop(unit("m/s").open(&domain, "speed").expect("agrees"));
    let other = unit("km/h").open_or_create(&domain, "speed").map(drop).expect_err("another");
    let Error::OtherOptions { what: "attribute", found, wanted, .. } = &other else {
        panic!("{other}")
    };
    assert_eq!((&**found, &**wanted), ("\"unit\" = \"m/s\"", "\"unit\" = \"km/h\""));
    let missing = State::<u64>::options().attribute("new", "").open(&domain, "speed").map(drop);
    let missing = missing.expect_err("there is none").to_string();
    assert!(missing.contains("without \"new\""), "{missing}");
    // Nothing is made with what cannot be.
    for (key, value) in [("", "x"), ("k", &*"x".repeat(4076))] {
        let made = State::<u64>::options().attribute(key, value).create_new(&domain, "none");
        assert!(matches!(made.map(drop), Err(Error::InvalidOption { .. })));
        assert!(matches!(domain.attributes("none"), Err(Error::NotFound { .. })));
    }
    let most = "x".repeat(4075);
    drop(State::<u64>::options().attribute("k", &most).create_new(&domain, "most").expect("fits"));
    assert_eq!(domain.attributes("most").expect("read").get("k"), Some(&*most));
}

/// Processes are killed while they make things that carry attributes.
fn a_thing_is_there_with_its_attributes_or_not_at_all(world: &World) {
    let domain = world.domain();
    let long = "x".repeat(3000);
    for round in 0..60u64 {
        let board = Board::new();
        let (their, value) = (domain.clone(), long.clone());
        let mut child = Child::start(move || {
            their.token().expect("a token");
            board.set(0, 1);
            loop {
                let event = Event::options().attribute("long", &value);
                drop(event.create_new(&their, "thing").expect("made"));
                their.remove("thing").expect("removed");
            }
        });
        board.reach(0, 1);
        for _ in 0..round % 7 * 20 {
            match domain.attributes("thing") {
                Ok(attributes) => assert_eq!(attributes.get("long"), Some(&*long)),
                Err(Error::NotFound { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        child.kill();
        match domain.attributes("thing") {
            Ok(attributes) => {
                assert_eq!(attributes.get("long"), Some(&*long));
                domain.remove("thing").expect("removed");
            }
            Err(error) => assert!(matches!(error, Error::NotFound { .. }), "{error}"),
        }
    }
}

fn attributes_that_were_written_over_are_refused(world: &World) {
    let domain = world.domain();
    let made = |domain: &Domain| {
        let event = Event::options().attribute("key", "value").create_new(domain, "thing");
        drop(event.expect("made"));
        let path = domain.path().join("thing");
        std::fs::OpenOptions::new().read(true).write(true).open(path).expect("opened")
    };
    let page = 4096;
    for at in [0, 3, 4, 8, 15, 16, 20, 27] {
        let file = made(&domain);
        let mut byte = [0];
        file.read_exact_at(&mut byte, page + at).expect("read");
        file.write_all_at(&[byte[0] ^ 0x40], page + at).expect("written");
        let read = domain.attributes("thing");
        assert!(matches!(read, Err(Error::Damaged { what: "its attributes", .. })), "byte {at}");
        let asked = Event::options().attribute("key", "value").open(&domain, "thing").map(drop);
        assert!(matches!(asked, Err(Error::Damaged { .. })), "byte {at}");
        assert!(matches!(domain.entry("thing").map(drop), Err(Error::Damaged { .. })), "byte {at}");
        // What does not ask for them does not depend on them.
        drop(Event::open(&domain, "thing").expect("opens"));
        domain.remove("thing").expect("removed");
    }
    // With a right checksum, too: no pair is that long.
    let bytes = [0xff, 0xff, 0, 0, b'k'];
    let mut head = (bytes.len() as u32).to_le_bytes().to_vec();
    head.extend([0; 4]);
    let sum = head.iter().chain(&bytes).fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    head.extend(sum.to_le_bytes());
    head.extend(bytes);
    made(&domain).write_all_at(&head, page).expect("written");
    assert!(matches!(domain.attributes("thing"), Err(Error::Damaged { .. })));
}
