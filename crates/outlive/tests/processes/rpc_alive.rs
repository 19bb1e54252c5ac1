//! What becomes of a service's clients, told to a process that watches them.

use std::time::Duration;

use outlive::rpc::{ClientEvent, ClientWatch, Service};
use outlive::wait::{Readiness, WaitSet};
use outlive::{Domain, Error};

use crate::board::Board;
use crate::child::Child;
use crate::runner::World;

crate::checks!(
    a_client_that_does_nothing_is_told,
    a_stopped_client_is_told_and_a_killed_one,
    a_death_is_told_once_the_client_was_swept,
    a_client_that_leaves_in_order_is_not_told,
    a_client_that_has_left_is_not_told_once_another_has_its_place,
    a_forked_child_does_not_have_its_parents_watch,
    a_call_is_something_done,
);

const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(1000);

fn made(domain: &Domain) -> Service {
    Service::<[u8], [u8]>::open_or_create(domain, "s").expect("opens")
}

fn board() -> &'static Board {
    Box::leak(Box::new(Board::new()))
}

/// A client that has come, and asserts that it is there while the board's first word is odd.
fn client(domain: &Domain, board: &'static Board) -> Child {
    let domain = domain.clone();
    let child = Child::start(move || {
        let client = made(&domain).client().expect("room");
        board.add(1, 1);
        loop {
            if board.get(0) % 2 == 1 {
                client.assert_liveliness();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    board.reach(1, 1);
    child
}

/// The next event, which is of that client.
fn told(watch: &mut ClientWatch, child: &Child) -> &'static str {
    let event = watch.next().expect("watches");
    assert_eq!(event.client().pid, child.pid() as u32);
    match event {
        ClientEvent::NotLively(_) => "not lively",
        ClientEvent::Lively(_) => "lively",
        ClientEvent::Died(_) => "died",
        other => panic!("{other:?}"),
    }
}

/// Reads events until that one. A client that is slow, on a machine that is busy, seems to do nothing
/// now and then.
fn until(watch: &mut ClientWatch, child: &Child, what: &str) {
    while told(watch, child) != what {}
}

fn a_client_that_does_nothing_is_told(world: &World) {
    let domain = world.domain();
    let board = board();
    let mut watch = made(&domain).watch_clients(SHORT).expect("watches");
    assert_eq!(watch.try_next().expect("watches"), None, "there is no client");
    let mut child = client(&domain, board);
    assert_eq!(told(&mut watch, &child), "not lively");
    assert_eq!(watch.next_timeout(SHORT * 3).expect("watches"), None, "it is told once");
    board.set(0, 1);
    assert_eq!(told(&mut watch, &child), "lively");
    board.set(0, 2);
    until(&mut watch, &child, "not lively");
    child.kill();
    until(&mut watch, &child, "died");
    assert_eq!(watch.next_timeout(SHORT).expect("watches"), None, "it is told once");
    assert!(watch.lapses() >= 2);
    assert_eq!(watch.deaths(), 1);
    domain.sweep(false).expect("sweeps");
    assert_eq!(watch.try_next().expect("watches"), None);
}

fn a_stopped_client_is_told_and_a_killed_one(world: &World) {
    let domain = world.domain();
    let board = board();
    let service = made(&domain);
    let mut watch = service.watch_clients(SHORT).expect("watches");
    board.set(0, 1);
    let mut child = client(&domain, board);
    child.stop();
    // On a slow machine the client may have seemed idle before.
    loop {
        if told(&mut watch, &child) == "not lively"
            && watch.next_timeout(SHORT * 2).expect("watches").is_none()
        {
            break;
        }
    }
    child.go_on();
    assert_eq!(told(&mut watch, &child), "lively");

    // A watch whose lease never passes sleeps behind the client, and so does a set.
    let mut deaths = service.watch_clients(LONG).expect("watches");
    let mut set = WaitSet::new(&domain);
    let _key = set.add(&deaths).expect("a source");
    assert_eq!(set.try_wait().expect("waits").count(), 0);
    let killing = std::thread::spawn(move || {
        std::thread::sleep(SHORT);
        child.kill();
        child
    });
    let ready: Vec<_> = set.wait().expect("waits").map(|(_, what)| what).collect();
    assert_eq!(ready, [Readiness::Changed]);
    let child = killing.join().expect("no panic");
    assert_eq!(told(&mut deaths, &child), "died");
    assert_eq!(domain.stats().rescues, 0);
}

fn a_death_is_told_once_the_client_was_swept(world: &World) {
    let domain = world.domain();
    let board = board();
    let service = made(&domain);
    let mut watch = service.watch_clients(LONG).expect("watches");
    let mut child = client(&domain, board);
    assert_eq!(watch.try_next().expect("watches"), None);
    child.kill();
    domain.sweep(false).expect("sweeps");
    assert_eq!(told(&mut watch, &child), "died");
    assert_eq!(watch.try_next().expect("watches"), None);
    let mut late = service.watch_clients(LONG).expect("watches");
    assert_eq!(late.try_next().expect("watches"), None, "that was before");
}

fn a_client_that_leaves_in_order_is_not_told(world: &World) {
    let domain = world.domain();
    let board = board();
    let mut watch = made(&domain).watch_clients(LONG).expect("watches");
    let leaving = {
        let domain = domain.clone();
        Child::start(move || {
            let client = made(&domain).client().expect("room");
            board.add(1, 1);
            board.reach(2, 1);
            drop(client);
        })
    };
    board.reach(1, 1);
    assert_eq!(watch.try_next().expect("watches"), None);
    board.set(2, 1);
    leaving.finish();
    assert_eq!(watch.try_next().expect("watches"), None);
    assert_eq!((watch.lapses(), watch.deaths()), (0, 0));
}

fn a_client_that_has_left_is_not_told_once_another_has_its_place(world: &World) {
    let domain = world.domain();
    let board = board();
    let mut watch = made(&domain).watch_clients(LONG).expect("watches");
    let leaving = {
        let domain = domain.clone();
        Child::start(move || {
            let client = made(&domain).client().expect("room");
            board.add(1, 1);
            board.reach(2, 1);
            drop(client);
            board.add(1, 1);
            board.reach(2, 2);
        })
    };
    board.reach(1, 1);
    assert_eq!(watch.try_next().expect("watches"), None);
    board.set(2, 1);
    board.reach(1, 2);
    let next = made(&domain).client().expect("room");
    board.set(2, 2);
    leaving.finish();
    assert_eq!(watch.try_next().expect("watches"), None);
    assert_eq!(watch.deaths(), 0);
    drop(next);
}

fn a_forked_child_does_not_have_its_parents_watch(world: &World) {
    let domain = world.domain();
    let mut watch = made(&domain).watch_clients(LONG).expect("watches");
    let child = Child::start(|| {
        assert!(matches!(watch.try_next(), Err(Error::System { .. })));
        assert!(matches!(watch.next_timeout(LONG), Err(Error::System { .. })));
        assert_eq!((watch.lapses(), watch.deaths()), (0, 0));
        let mut own = made(&domain).watch_clients(LONG).expect("watches");
        assert_eq!(own.try_next().expect("watches"), None);
    });
    child.finish();
    assert_eq!(watch.try_next().expect("watches"), None);
}

fn a_call_is_something_done(world: &World) {
    let domain = world.domain();
    let service = made(&domain);
    let mut server = service.server().expect("none yet");
    let mut watch = server.watch_clients(SHORT).expect("watches");
    let client = service.client().expect("room");
    assert!(matches!(watch.next().expect("watches"), ClientEvent::NotLively(_)));
    let call = client.begin(b"x").expect("sent");
    assert!(matches!(watch.next().expect("watches"), ClientEvent::Lively(_)));
    // It waits, and does nothing; then it takes a reply of a stream.
    assert!(matches!(watch.next().expect("watches"), ClientEvent::NotLively(_)));
    let mut stream = server.next().expect("asked").stream();
    stream.send(b"y").expect("room");
    let mut call = call;
    assert!(call.next().expect("sent").is_some());
    assert!(matches!(watch.next().expect("watches"), ClientEvent::Lively(_)));
    assert_eq!(watch.lapses(), 2);
    drop((stream, call));
    drop(client);
    assert_eq!(watch.next_timeout(SHORT * 2).expect("watches"), None, "it has left");
}
