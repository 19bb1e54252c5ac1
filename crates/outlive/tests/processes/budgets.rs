//! A domain's budget: what exceeds it is an error, for all processes together, however many of them
//! grow at once, are killed while they do, or are stopped; and what was there stays usable.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;

use outlive::pool::Pool;
use outlive::queue::Queue;
use outlive::sync::Mutex;
use outlive::topic::Topic;
use outlive::{Domain, Error, SendError};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::order::{message, read_message};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    several_processes_fill_it: 60,
    growers_are_killed: 60,
    one_that_is_stopped_holds_no_one_up: 60,
    it_is_changed_while_it_is_used: 60,
    what_is_new_must_fit: 60,
    what_exists_is_made_resident_though_it_is_used_up: 60,
    the_defaults_are_a_quarter: 60,
    a_budget_that_is_none_is_damage: 60,
    who_has_dropped_its_rights_goes_on: 60,
    a_new_process_reads_what_a_full_domain_has: 120,
);

const BUDGET: u64 = 12 << 20;

fn domain(world: &World) -> Domain {
    let domain = world.domain();
    assert_eq!(domain.max_bytes(), Ok(None));
    domain.set_max_bytes(Some(BUDGET)).expect("set");
    assert_eq!(domain.max_bytes(), Ok(Some(BUDGET)));
    domain
}

fn queue(domain: &Domain, name: &str) -> Queue {
    Queue::<[u8]>::options().max_bytes(1 << 30).open_or_create(domain, name).expect("made")
}

fn taken(domain: &Domain) -> u64 {
    domain.allocated_bytes().expect("added up")
}

fn several_processes_fill_it(world: &World) {
    const SENDERS: u64 = 4;
    let domain = domain(world);
    let mutex = Mutex::<u64>::options(3).open_or_create(&domain, "m").expect("opens");
    let queues = [0, 1, 2, 3].map(|number| queue(&domain, &format!("q{number}")));
    let board = Board::new();
    let senders: Vec<Child> = queues
        .iter()
        .zip(0..)
        .map(|(queue, number)| {
            Child::start(move || {
                let sender = queue.sender().expect("a sender");
                board.add(0, 1);
                board.reach(0, SENDERS);
                let mut sent = 0;
                let error = loop {
                    match sender.try_send(&message(number, sent, 3_000)) {
                        Ok(()) => sent += 1,
                        Err(error) => break error,
                    }
                };
                assert_eq!(error, SendError::Full { slowest: None });
                board.set(number as usize + 1, sent);
            })
        })
        .collect();
    senders.into_iter().for_each(Child::finish);
    assert!(taken(&domain) <= BUDGET, "{} of {BUDGET}", taken(&domain));
    // A ring that grows doubles, so a half of what is left may be too little.
    assert!(taken(&domain) > BUDGET / 3, "{} of {BUDGET}", taken(&domain));
    *mutex.lock().expect("usable") += 1;
    for (queue, number) in queues.iter().zip(0..) {
        let mut receiver = queue.receiver().expect("the first");
        for sent in 0..board.get(number as usize + 1) {
            let got = receiver.try_recv().expect("readable").expect("sent");
            assert_eq!(read_message(&got), (number, sent));
        }
        let sender = queue.sender().expect("a sender");
        for sent in 0..1_000 {
            sender.send_timeout(&message(9, sent, 3_000), PATIENCE).expect("there was room");
            let got = receiver.try_recv().expect("readable").expect("sent");
            assert_eq!(read_message(&got), (9, sent));
        }
    }
    assert!(taken(&domain) <= BUDGET, "{} of {BUDGET}", taken(&domain));
}

/// Whatever has died in its turn, the next has its own, and what the domain takes is known.
fn growers_are_killed(world: &World) {
    let domain = domain(world);
    let mut random = Random::new();
    for round in 0..100 {
        let name = format!("q{}", round % 3);
        let mut growers = [0, 1].map(|_| {
            Child::start(|| {
                let queue = queue(&domain, &name);
                let pool = Pool::options().max_bytes(1 << 30);
                let pool = pool.open_or_create(&domain, "pool");
                let sender = queue.sender().expect("a sender");
                loop {
                    match sender.try_send(&[1; 20_000]) {
                        Ok(()) | Err(SendError::Full { .. } | SendError::NoSpace { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    drop(pool.as_ref().map(|pool| pool.alloc(200_000)));
                }
            })
        });
        random.pause(8_000);
        growers.iter_mut().for_each(Child::kill);
        assert!(taken(&domain) <= BUDGET, "{} of {BUDGET} in round {round}", taken(&domain));
        if random.below(4) == 0 {
            let _ = domain.remove(&name);
        }
    }
    for name in ["q0", "q1", "q2", "pool"] {
        let _ = domain.remove(name);
    }
    let sender = queue(&domain, "last").sender().expect("a sender");
    let mut sent = 0;
    while sender.try_send(&[1; 1_000]).is_ok() {
        sent += 1;
    }
    assert!(sent > 1_000, "there is room for {sent} messages alone");
}

/// The turn is a lock of the folder. It is not waited for as long as a stopped process has it.
fn one_that_is_stopped_holds_no_one_up(world: &World) {
    let domain = domain(world);
    let board = Board::new();
    let holder = Child::start(|| {
        let folder = File::open(domain.path()).expect("opens");
        // SAFETY: no pointers are passed.
        assert_eq!(unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX) }, 0);
        board.set(0, 1);
        board.reach(1, 1);
    });
    board.reach(0, 1);
    holder.stop();
    let sender = queue(&domain, "q").sender().expect("a sender");
    while sender.try_send(&[1; 100_000]).is_ok() {}
    assert!(taken(&domain) <= BUDGET, "it is counted all the same");
    holder.go_on();
    board.set(1, 1);
    holder.finish();
}

fn it_is_changed_while_it_is_used(world: &World) {
    let domain = domain(world);
    let sender = queue(&domain, "q").sender().expect("a sender");
    let fill = || while sender.try_send(&[1; 1_000]).is_ok() {};
    fill();
    let first = taken(&domain);
    // Another process changes it.
    Child::start(|| domain.set_max_bytes(Some(8 * BUDGET)).expect("set")).finish();
    fill();
    let second = taken(&domain);
    assert!(first <= BUDGET && second > first && second <= 8 * BUDGET, "{first}, {second}");
    // Less than there is: nothing is taken away, and nothing more fits.
    domain.set_max_bytes(Some(BUDGET)).expect("set");
    fill();
    assert_eq!(taken(&domain), second);
    let error = Mutex::<u64>::options(0).open_or_create(&domain, "new").err().expect("no room");
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    domain.set_max_bytes(None).expect("taken away");
    assert_eq!(domain.max_bytes(), Ok(None));
    fill();
    assert!(taken(&domain) > second);
}

fn what_is_new_must_fit(world: &World) {
    let domain = world.domain();
    domain.token().expect("a token");
    let mutex = Mutex::<u64>::options(3).open_or_create(&domain, "m").expect("opens");
    domain.set_max_bytes(Some(taken(&domain))).expect("set");
    let errors = [
        Mutex::<u64>::options(0).open_or_create(&domain, "n").err(),
        Queue::<[u8]>::options().max_bytes(1 << 20).open_or_create(&domain, "q").err(),
        Topic::<[u8]>::options().max_bytes(1 << 20).open_or_create(&domain, "t").err(),
    ];
    for error in errors {
        let error = error.expect("no room");
        assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    }
    assert_eq!(domain.entries().expect("listed").len(), 1, "nothing half-made is left");
    assert_eq!(taken(&domain), domain.max_bytes().expect("read").expect("set"));
    *mutex.lock().expect("usable") += 1;
    domain.remove("m").expect("removed");
    let again = Mutex::<u64>::options(0).open_or_create(&domain, "n");
    drop(again.expect("there is as much room as the other one has left"));
}

fn what_exists_is_made_resident_though_it_is_used_up(world: &World) {
    let domain = world.domain();
    let queue = queue(&domain, "q");
    let sender = queue.sender().expect("a sender");
    domain.set_max_bytes(Some(taken(&domain))).expect("set");
    domain.prefault(0).expect("it takes no more");
    sender.try_send(b"x").expect("there is room for one");
}

fn the_defaults_are_a_quarter(world: &World) {
    let domain = domain(world);
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    assert_eq!(queue.counters().expect("counts").max_bytes, BUDGET / 4);
    let pool = Pool::open_or_create(&domain, "p").expect("made");
    let mut objects = Vec::new();
    while let Ok(object) = pool.alloc(100_000) {
        objects.push(object);
    }
    assert!(taken(&domain) <= BUDGET / 2, "{}", taken(&domain));
}

fn a_budget_that_is_none_is_damage(world: &World) {
    let domain = world.domain();
    for text in ["", "much", "-1", "99999999999999999999999999999999999999"] {
        let link = domain.path().join(".max-bytes");
        let _ = std::fs::remove_file(&link);
        // An empty link cannot be made: an empty file.
        match text {
            "" => drop(File::create(&link).expect("made")),
            text => symlink(text, &link).expect("made"),
        }
        let error = Mutex::<u64>::options(0).open_or_create(&domain, "m").err().expect("refused");
        assert!(matches!(error, Error::Damaged { what: "the domain's budget", .. }), "{error}");
        assert_eq!(domain.max_bytes().err(), Some(error));
    }
    // What a process that died while it set one has left does not matter.
    symlink("7", domain.path().join(".max-bytes-new")).expect("made");
    domain.set_max_bytes(Some(BUDGET)).expect("set");
    assert_eq!(domain.max_bytes(), Ok(Some(BUDGET)));
    assert!(!domain.path().join(".max-bytes-new").is_symlink());
    domain.set_max_bytes(None).expect("taken away");
    Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("made");
}

/// It has opened all that it uses; the folder is its former user's alone.
fn who_has_dropped_its_rights_goes_on(world: &World) {
    // SAFETY: always.
    if unsafe { libc::geteuid() } != 0 {
        world.skip("only root can become another user");
    }
    let domain = world.domain();
    let queue = queue(&domain, "q");
    Child::start(|| {
        let sender = queue.sender().expect("a sender");
        // SAFETY: no pointers are passed.
        unsafe {
            assert_eq!(libc::setgid(65534), 0);
            assert_eq!(libc::setuid(65534), 0);
        }
        for _ in 0..30 {
            sender.send(&vec![7; 1 << 20]).expect("room");
        }
    })
    .finish();
}

/// So many long messages that the table of their memory has several pages: a new process asks for each of them,
/// though it is there.
fn a_new_process_reads_what_a_full_domain_has(world: &World) {
    const MESSAGES: usize = 70;
    let domain = world.domain();
    let made = queue(&domain, "q");
    let sender = made.sender().expect("a sender");
    for _ in 0..MESSAGES {
        sender.try_send(&vec![7; 3_000_000]).expect("room");
    }
    domain.set_max_bytes(Some(taken(&domain))).expect("set");
    let fresh = Domain::options().recheck(None).open_at(domain.path()).expect("opens");
    Child::start(|| {
        let queue = Queue::<[u8]>::open(&fresh, "q").expect("there");
        let mut receiver = queue.receiver().expect("none yet");
        for number in 0..MESSAGES {
            let got = receiver.try_recv();
            assert!(got.as_ref().is_ok_and(Option::is_some), "{number}: {:?}", got.err());
        }
    })
    .finish();
}
