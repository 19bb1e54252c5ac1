//! Several servers at one service: they share the calls; what a dead one had not begun is taken by
//! another.

use std::collections::HashSet;
use std::time::Duration;

use outlive::rpc::{CallError, Service};
use outlive::{Domain, Error, WaitStrategy};

use crate::asleep::{wait_asleep, wait_looks};
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::order::{message, read_message};
use crate::runner::World;

crate::checks!(
    servers_share_the_calls,
    what_a_dead_server_had_not_begun_is_taken_by_another,
    a_stopped_server_holds_up_its_own_calls_alone,
    the_last_server_s_death_is_told,
    a_standby_comes_when_any_place_is_free,
    a_client_that_waits_finds_a_server_at_any_place,
    a_client_that_waits_for_memory_sleeps_behind_all_servers,
    the_number_of_servers_is_the_file_s,
);

fn made(domain: &Domain, servers: u32) -> Service {
    Service::<[u8], [u8]>::options()
        .max_servers(servers)
        .wait_strategy(WaitStrategy::Block)
        .open_or_create(domain, "s")
        .expect("made")
}

/// A server that answers so many calls, and begins one more that it does not answer.
fn server(domain: &Domain, board: &'static Board, who: usize, answers: u64) -> Child {
    let domain = domain.clone();
    Child::start(move || {
        let mut server = made(&domain, 3).server().expect("a place");
        board.add(8, 1);
        for _ in 0..answers {
            let request = server.next().expect("asked");
            let payload = request.to_vec();
            request.reply(&payload).expect("the client waits");
            board.add(who, 1);
        }
        let _begun = server.next().expect("asked");
        board.add(who, 1);
        loop {
            std::thread::park();
        }
    })
}

fn board() -> &'static Board {
    Box::leak(Box::new(Board::new()))
}

fn servers_share_the_calls(world: &World) {
    let domain = world.domain();
    let service = made(&domain, 3);
    let client = service.client().expect("room");
    assert_eq!(client.call(b"x").unwrap_err(), CallError::NoServer);
    let mut servers: Vec<_> = (0..3).map(|_| service.server().expect("a place")).collect();
    assert!(matches!(service.server(), Err(Error::Taken { .. })), "three, and no more");
    assert_eq!(service.current_servers().len(), 3);
    let calls: Vec<_> = (0..9).map(|n| client.begin(&message(0, n, 40)).expect("sent")).collect();
    let mut seen = HashSet::new();
    for turn in 0..9 {
        // Each has found all nine when it looked first.
        let request = servers[turn % 3].try_next().expect("served").expect("asked");
        assert!(seen.insert(read_message(&request).1), "begun once");
        let payload = request.to_vec();
        request.reply(&payload).expect("it waits");
    }
    for server in &mut servers {
        assert!(server.try_next().expect("served").is_none(), "all are begun");
    }
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(read_message(&call.wait().expect("answered")).1, n as u64);
    }
    // The first leaves: the others serve on, and a new one takes its place.
    drop(servers.remove(0));
    let call = client.begin(b"y").expect("two serve");
    assert!(servers[1].try_next().expect("served").is_some());
    assert_eq!(call.wait().unwrap_err(), CallError::Dropped);
    let _third = service.server().expect("a place");
    drop((servers, _third));
    assert_eq!(client.call(b"z").unwrap_err(), CallError::NoServer);
}

fn what_a_dead_server_had_not_begun_is_taken_by_another(world: &World) {
    let domain = world.domain();
    let board = board();
    let service = made(&domain, 3);
    let client = service.client().expect("room");
    let mut dying = server(&domain, board, 0, 0);
    board.reach(8, 1);
    let begun = client.begin(&message(0, 0, 40)).expect("sent");
    board.reach(0, 1);
    let mut other = service.server().expect("a place");
    let waiting: Vec<_> =
        (1..40).map(|n| client.begin(&message(0, n, 40)).expect("sent")).collect();
    dying.kill();
    assert_eq!(begun.wait().unwrap_err(), CallError::ServerDied { begun: true });
    for n in 1..40 {
        let request = other.next().expect("asked");
        assert_eq!(read_message(&request).1, n);
        request.reply(b"ok").expect("it waits");
    }
    waiting.into_iter().for_each(|call| assert_eq!(*call.wait().expect("answered"), *b"ok"));
    drop(other);
    domain.sweep(false).expect("sweeps");
    assert!(domain.sweep(false).expect("sweeps").is_clean());
    assert_eq!(domain.stats().rescues, 0);
}

fn a_stopped_server_holds_up_its_own_calls_alone(world: &World) {
    let domain = world.domain();
    let board = board();
    let service = made(&domain, 3);
    let client = service.client().expect("room");
    let stopped = server(&domain, board, 0, 0);
    board.reach(8, 1);
    let begun = client.begin(&message(0, 0, 40)).expect("sent");
    board.reach(0, 1);
    stopped.stop();
    let serving = server(&domain, board, 1, 100);
    board.reach(8, 2);
    for n in 1..=100 {
        assert_eq!(read_message(&client.call(&message(0, n, 40)).expect("answered")).1, n);
    }
    assert!(begun.wait_timeout(Duration::from_millis(1)).is_err(), "that one is stopped");
    drop((stopped, serving));
}

fn the_last_server_s_death_is_told(world: &World) {
    let domain = world.domain();
    let board = board();
    let service = made(&domain, 3);
    let mut servers: Vec<_> = (0..2).map(|who| server(&domain, board, who, 0)).collect();
    board.reach(8, 2);
    let asking = {
        let domain = domain.clone();
        Child::start(move || {
            let client = made(&domain, 3).client().expect("room");
            let calls: Vec<_> =
                (0..3).map(|n| client.begin(&message(0, n, 40)).expect("sent")).collect();
            board.reach(0, 1);
            board.reach(1, 1);
            board.add(9, 1);
            let ends = calls.into_iter().map(|call| call.wait().unwrap_err());
            let begun = ends.filter(|end| *end == CallError::ServerDied { begun: true }).count();
            assert_eq!(begun, 2, "the third was begun by none");
        })
    };
    board.reach(9, 1);
    wait_asleep(asking.pid());
    servers.iter_mut().for_each(Child::kill);
    asking.finish();
    assert!(service.current_servers().iter().all(|server| !server.alive));
    assert_eq!(domain.stats().rescues, 0);
}

fn a_standby_comes_when_any_place_is_free(world: &World) {
    let domain = world.domain();
    let board = board();
    let service = made(&domain, 3);
    let mut servers: Vec<_> = (0..3).map(|who| server(&domain, board, who, 0)).collect();
    board.reach(8, 3);
    assert!(service.try_wait_to_serve().expect("all serve").is_none());
    for turn in 0..2 {
        let standing_by = {
            let domain = domain.clone();
            Child::start(move || {
                let server = made(&domain, 3).wait_to_serve().expect("a place");
                board.add(4, 1);
                drop(server);
            })
        };
        wait_asleep(standing_by.pid());
        servers[2 - turn].kill();
        board.reach(4, turn as u64 + 1);
        standing_by.finish();
        servers[2 - turn] = server(&domain, board, 5, 0);
        board.reach(8, 4 + turn as u64);
    }
    assert_eq!(domain.stats().rescues, 0);
}

fn a_client_that_waits_finds_a_server_at_any_place(world: &World) {
    let domain = world.domain();
    let board = board();
    let service = made(&domain, 3);
    let first = service.server().expect("a place");
    let waiting = {
        let domain = domain.clone();
        Child::start(move || {
            let client = made(&domain, 3).client().expect("room");
            client.set_wait_for_server(true);
            let call = client.begin(b"a").expect("one serves");
            board.add(0, 1);
            assert_eq!(*call.wait().expect("answered"), *b"b");
        })
    };
    board.reach(0, 1);
    wait_asleep(waiting.pid());
    drop(first);
    wait_until("the client waits for a server", || true);
    wait_asleep(waiting.pid());
    let mut next = service.wait_to_serve().expect("a place");
    next.next().expect("asked").reply(b"b").expect("it waits");
    waiting.finish();
    assert_eq!(domain.stats().rescues, 0);
}

fn the_number_of_servers_is_the_file_s(world: &World) {
    let domain = world.domain();
    assert_eq!(made(&domain, 3).config().max_servers, 3);
    assert_eq!(Service::<[u8]>::open(&domain, "s").expect("there").config().max_servers, 3);
    let other = Service::<[u8]>::options().max_servers(2).open(&domain, "s");
    assert!(matches!(other, Err(Error::OtherOptions { what: "max_servers", .. })));
    let none = Service::<[u8]>::options().max_servers(0).open_or_create(&domain, "t");
    assert!(matches!(none, Err(Error::InvalidOption { what: "max_servers", .. })));
    let one = Service::<[u8]>::open_or_create(&domain, "t").expect("made");
    assert_eq!(one.config().max_servers, 1);
}

/// What fills the service's memory is read by a process that is neither a server nor the client.
fn a_client_that_waits_for_memory_sleeps_behind_all_servers(world: &World) {
    const LEN: usize = 20_000;
    for (name, waits) in [("told", false), ("patient", true)] {
        let domain = world.domain_named(name);
        let board = board();
        let made = |domain: &Domain| {
            let options = Service::<[u8], [u8]>::options().max_servers(3).max_bytes(64 << 10);
            let options = options.wait_strategy(WaitStrategy::Block);
            options.open_or_create(domain, "s").expect("made")
        };
        let service = made(&domain);
        let leaves = service.server().expect("a place");
        let mut dies: Vec<_> = (0..2)
            .map(|_| {
                let domain = domain.clone();
                Child::start(move || {
                    let _server = made(&domain).server().expect("a place");
                    board.add(8, 1);
                    loop {
                        std::thread::park();
                    }
                })
            })
            .collect();
        board.reach(8, 2);
        let fills = service.client().expect("room");
        let mut loans = Vec::new();
        while let Ok(loan) = fills.loan_timeout(LEN, Duration::ZERO) {
            loans.push(loan);
        }
        let waiting = {
            let domain = domain.clone();
            Child::start(move || {
                let client = made(&domain).client().expect("room");
                client.set_wait_for_server(waits);
                board.set(0, 1);
                match client.begin(&[1; LEN]) {
                    Err(CallError::NoServer | CallError::ServerDied { begun: false }) if !waits => {
                    }
                    Ok(call) if waits => assert_eq!(*call.wait().expect("answered"), *b"b"),
                    other => panic!("{:?}", other.map(drop)),
                }
                board.set(0, 2);
            })
        };
        board.reach(0, 1);
        wait_asleep(waiting.pid());
        drop(leaves);
        dies[0].kill();
        wait_looks(waiting.pid(), 1);
        wait_asleep(waiting.pid());
        assert_eq!(board.get(0), 1, "one lives");
        dies[1].kill();
        if waits {
            wait_looks(waiting.pid(), 1);
            wait_asleep(waiting.pid());
            let mut server = service.wait_to_serve().expect("a place");
            loans.clear();
            server.next().expect("asked").reply(b"b").expect("it waits");
        }
        waiting.finish();
        assert_eq!(board.get(0), 2);
        assert_eq!(domain.stats().rescues, 0);
    }
}
