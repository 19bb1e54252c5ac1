//! Making named things: without a race, and without a trace of the makers that die meanwhile.

use std::fs;
use std::os::unix::fs::MetadataExt;

use outlive::pool::Pool;
use outlive::queue::Queue;
use outlive::sync::Mutex;
use outlive::topic::Topic;
use outlive::{Domain, Error, Kind};
use rustix::fs::SeekFrom;

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    eight_make_one_mutex,
    eight_make_one_queue,
    eight_make_one_domain,
    made_and_removed_at_once,
    makers_are_killed: 60,
    values_of_the_maker,
    pages_with_nothing_to_say_use_no_memory,
);

/// Eight children that do it at the same moment.
fn eight_at_once(body: impl Fn(u64)) {
    let board = Board::new();
    let children: Vec<Child> = (0..8)
        .map(|n| {
            let body = &body;
            Child::start(move || {
                board.add(0, 1);
                board.reach(0, 8);
                body(n);
            })
        })
        .collect();
    children.into_iter().for_each(Child::finish);
}

fn names(domain: &Domain) -> Vec<String> {
    let entries = fs::read_dir(domain.path()).expect("there");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("readable").file_name().into_string().expect("a plain name"))
        .collect();
    names.sort();
    names
}

fn eight_make_one_mutex(world: &World) {
    let domain = world.domain();
    for round in 0..40 {
        let name = format!("m{round}");
        eight_at_once(|n| {
            let mutex =
                Mutex::<[u64; 2]>::options([n, 0]).open_or_create(&domain, &name).expect("opens");
            mutex.lock().expect("free")[1] += 1;
        });
        let mutex =
            Mutex::<[u64; 2]>::options([99, 99]).open_or_create(&domain, &name).expect("opens");
        let [maker, count] = *mutex.lock().expect("free");
        assert!(maker < 8);
        assert_eq!(count, 8, "all had the same one");
    }
    assert_eq!(names(&domain).len(), 41, "and nothing else is there");
}

fn eight_make_one_queue(world: &World) {
    let domain = world.domain();
    for round in 0..20 {
        let name = format!("q{round}");
        eight_at_once(|n| {
            // Each wants another size: one makes it, and the others are refused.
            let options = Queue::<[u8]>::options().slots(4 << n).max_bytes((n + 1) << 20);
            let queue = match options.open_or_create(&domain, &name) {
                Err(Error::OtherOptions { .. }) => Queue::<[u8]>::open(&domain, &name),
                other => other,
            };
            let queue = queue.expect("made");
            queue.sender().expect("a sender").send(&[n as u8]).expect("room");
        });
        let queue = Queue::<[u8]>::open(&domain, &name).expect("there");
        let mut receiver = queue.receiver().expect("the first");
        let mut all: Vec<u8> = (0..8)
            .map(|_| receiver.recv_timeout(PATIENCE).expect("readable").expect("sent")[0])
            .collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
    assert_eq!(names(&domain).len(), 21);
}

fn eight_make_one_domain(world: &World) {
    for round in 0..20 {
        let name = format!("domain{round}");
        let board = Board::new();
        eight_at_once(|n| {
            let domain = world.domain_named(&name);
            board.set(1 + n as usize, u64::from(domain.token().expect("a token").as_u32()));
            board.add(0, 1);
            board.reach(0, 8);
            assert_eq!(domain.tokens().len(), 8, "all are in one registry");
        });
        let mut ids: Vec<u64> = (1..9).map(|word| board.get(word)).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 8);
    }
}

/// Opened while it is being removed: the old one or a new one, never an error.
fn made_and_removed_at_once(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let removing = Child::start(|| {
        while board.get(0) == 0 {
            let _ = domain.remove("m");
        }
    });
    for _ in 0..2_000 {
        let mutex = Mutex::<u64>::options(5).open_or_create(&domain, "m").expect("opens");
        assert_eq!(*mutex.lock().expect("free"), 5);
    }
    board.set(0, 1);
    removing.finish();
}

fn makers_are_killed(world: &World) {
    let domain = world.domain();
    let mut random = Random::new();
    for round in 0..250 {
        let mut maker = Child::start(|| {
            for n in 0.. {
                Mutex::<u64>::options(5)
                    .open_or_create(&domain, &format!("m{round}-{n}"))
                    .expect("opens");
                Queue::<[u8]>::open_or_create(&domain, &format!("q{round}-{n}")).expect("made");
            }
        });
        random.pause(2_000);
        maker.kill();
        // Whatever has a name is whole.
        for entry in domain.entries().expect("listed") {
            let kind = entry.kind.unwrap_or_else(|error| panic!("{}: {error}", entry.name));
            let expected = if entry.name.starts_with('m') { Kind::Mutex } else { Kind::Queue };
            assert_eq!(kind, expected);
            domain.remove(&entry.name).expect("removed");
        }
        assert_eq!(names(&domain), [".tokens"], "nothing else is left");
    }
    // And nothing without a name: no process has anything of this domain open but this one.
    assert!(domain.sweep(false).expect("sweeps").claims == 0);
}

fn values_of_the_maker(world: &World) {
    let domain = world.domain();
    let first = Mutex::<[u16; 3]>::options([1, 2, 3]).open_or_create(&domain, "m").expect("opens");
    let second = Mutex::<[u16; 3]>::options([4, 5, 6]).open_or_create(&domain, "m").expect("opens");
    assert_eq!(*second.lock().expect("free"), [1, 2, 3]);
    drop(first);
    domain.remove("m").expect("there");
    let third = Mutex::<[u16; 3]>::options([4, 5, 6]).open_or_create(&domain, "m").expect("opens");
    assert_eq!(*third.lock().expect("free"), [4, 5, 6]);
}

/// Behind the header's page lie two that most files do not need: they stay holes, whatever is done
/// with the thing.
fn pages_with_nothing_to_say_use_no_memory(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "mutex").expect("made");
    *mutex.lock().expect("free") += 1;
    let queue = Queue::<[u8]>::open_or_create(&domain, "queue").expect("made");
    queue.sender().expect("a sender").send(b"one").expect("room");
    let topic = Topic::<[u8]>::open_or_create(&domain, "topic").expect("made");
    let publisher = topic.publisher().expect("a publisher");
    publisher.publish(b"one").expect("published");
    let pool = Pool::open_or_create(&domain, "pool").expect("made");
    drop(pool.alloc(100).expect("room"));
    domain.entries().expect("looked at");
    domain.sweep(false).expect("swept");
    for name in [".tokens", "mutex", "queue", "topic", "pool"] {
        let file = fs::File::open(domain.path().join(name)).expect("there");
        let hole = rustix::fs::seek(&file, SeekFrom::Hole(0)).expect("a hole");
        let data = rustix::fs::seek(&file, SeekFrom::Data(hole)).expect("a body");
        assert_eq!((hole, data), (4096, 12_288), "{name}");
    }
    let blocks = fs::metadata(domain.path().join("mutex")).expect("there").blocks();
    assert_eq!(blocks * 512, 2 * 4096, "a page of header, a page of body");
}
