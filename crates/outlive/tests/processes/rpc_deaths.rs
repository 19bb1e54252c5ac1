//! Requests and replies among processes that are killed: every process is told at once, nothing is
//! carried out twice or after its caller was told that it would not be, and nothing is left behind.

use std::collections::HashSet;
use std::time::Duration;

use outlive::rpc::{Call, CallError, Client, Service};
use outlive::{Domain, SendError, WaitStrategy};

use crate::asleep::wait_asleep;
use crate::board::{Board, WORDS};
use crate::child::{Child, PATIENCE, wait_until};
use crate::order::{message, read_message};
use crate::random::Random;
use crate::rpc::{await_server, echo, make_limited, next};
use crate::runner::World;
use crate::services::{client_of, server_of, waiting_client_of};

crate::checks!(
    a_dead_server_ends_every_call_at_once,
    calls_not_begun_are_kept_for_the_next_server,
    who_was_told_is_not_served,
    a_dead_client_s_replies_are_freed,
    a_client_without_memory_finds_what_the_dead_left,
    memory_in_the_hands_of_the_dead_is_free_again,
    a_dead_client_s_requests_are_skipped,
    a_request_names_its_own_client,
    a_dead_client_ends_a_stream,
    a_dead_server_cuts_a_stream_off_after_what_it_sent,
    a_server_thread_that_ends_alone_is_noticed,
    no_server_comes_beside_a_living_one,
    random_kills: 120,
);

const CALLS: usize = 100;

fn begin_all<'c>(client: &'c Client, who: u64) -> Vec<Call<'c>> {
    (0..CALLS as u64).map(|n| client.begin(&message(who, n, 40)).expect("sent")).collect()
}

/// A server that begins `most` calls and answers none.
fn silent_server(domain: &Domain, board: Board, most: u64) {
    let mut server = server_of(domain, "s");
    let mut requests = Vec::new();
    while (requests.len() as u64) < most {
        requests.push(server.next().expect("asked"));
        board.add(0, 1);
    }
    loop {
        std::thread::park();
    }
}

fn a_dead_server_ends_every_call_at_once(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut server = Child::start(|| silent_server(&domain, board, 60));
    wait_until("there is a server", || domain.entry("s").is_ok());
    let clients: Vec<Child> = (0..3)
        .map(|who| {
            let domain = &domain;
            Child::start(move || {
                let client = Service::<[u8], [u8]>::options()
                    .wait_strategy(WaitStrategy::Block)
                    .open_or_create(domain, "s")
                    .and_then(|service| service.client())
                    .expect("open");
                client.set_wait_for_server(true);
                let calls = begin_all(&client, who);
                client.set_wait_for_server(false);
                board.add(1, 1);
                for mut call in calls {
                    match call.next() {
                        Err(CallError::ServerDied { begun }) => {
                            board.add(2 + usize::from(begun), 1)
                        }
                        other => panic!("{other:?}"),
                    };
                }
            })
        })
        .collect();
    board.reach(0, 60);
    board.reach(1, 3);
    clients.iter().for_each(|client| wait_asleep(client.pid()));
    server.kill();
    clients.into_iter().for_each(Child::finish);
    assert_eq!((board.get(2), board.get(3)), (240, 60), "not begun, and begun");
    // The server does not serve the clients that were told.
    let mut heir = server_of(&domain, "s");
    assert!(matches!(heir.try_next(), Ok(None)));
    drop(heir);
    domain.sweep(false).expect("sweeps");
    assert!(domain.sweep(false).expect("sweeps").is_clean());
    assert_eq!(domain.stats().rescues, 0);
}

fn calls_not_begun_are_kept_for_the_next_server(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut server = Child::start(|| silent_server(&domain, board, 10));
    let client = Child::start(|| {
        let client = Service::<[u8], [u8]>::options()
            .wait_strategy(WaitStrategy::Block)
            .open_or_create(&domain, "s")
            .and_then(|service| service.client())
            .expect("open");
        client.set_wait_for_server(true);
        let calls = begin_all(&client, 7);
        for (n, mut call) in calls.into_iter().enumerate() {
            match next(&mut call) {
                Ok(Some(reply)) => {
                    assert_eq!(read_message(&reply), (7, n as u64));
                    board.add(1, 1);
                }
                Err(CallError::ServerDied { begun: true }) => {
                    board.add(2, 1);
                }
                other => panic!("{other:?}"),
            }
        }
    });
    board.reach(0, 10);
    wait_asleep(client.pid());
    server.kill();
    let mut heir = Child::start(|| echo(&domain, "s"));
    client.finish();
    assert_eq!((board.get(1), board.get(2)), (90, 10), "answered, and begun by the dead");
    heir.kill();
}

fn who_was_told_is_not_served(world: &World) {
    let domain = world.domain();
    let mut server = Child::start(|| {
        let _server = server_of(&domain, "s");
        loop {
            std::thread::park();
        }
    });
    let client = client_of(&domain, "s");
    let waiting = waiting_client_of(&domain, "s");
    let kept = waiting.begin_timeout(b"kept", PATIENCE).expect("sent");
    let told = client.begin(b"told").expect("sent");
    server.kill();
    assert_eq!(told.wait().expect_err("dead"), CallError::ServerDied { begun: false });
    assert_eq!(client.call(b"late").expect_err("dead"), CallError::ServerDied { begun: false });
    let mut heir = server_of(&domain, "s");
    let request = heir.try_next().expect("served").expect("the one that waits");
    assert_eq!(*request, *b"kept");
    request.reply(b"yes").expect("it waits");
    assert!(matches!(heir.try_next(), Ok(None)));
    assert_eq!(*kept.wait().expect("answered"), *b"yes");
}

fn a_dead_client_s_replies_are_freed(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    make_limited(&domain, "s", 8 << 20);
    let mut server = server_of(&domain, "s");
    for _ in 0..20 {
        let mut client = Child::start(|| {
            let client = client_of(&domain, "s");
            let _calls = begin_all(&client, 1);
            board.add(0, 1);
            loop {
                std::thread::park();
            }
        });
        let mut later = Vec::new();
        for n in 0..CALLS {
            let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
            // Some lie there unread, some are answered after the death.
            if n % 10 == 0 {
                later.push(request);
            } else {
                request.reply(&[7; 50_000]).expect("it lives, and there is room");
            }
        }
        client.kill();
        for request in later {
            assert_eq!(request.client().map(|client| client.alive), Some(false));
            assert_eq!(request.reply(&[7; 50_000]), Err(SendError::ReceiverDied));
        }
        assert!(domain.entry("s").expect("there").dead_claims > 0);
    }
    let report = domain.sweep(false).expect("sweeps");
    assert!(report.failed.is_empty() && report.claims > 0, "{report:?}");
    assert!(domain.sweep(false).expect("sweeps").is_clean());
    // All memory is there again: as many replies as at first fit at once.
    let client = client_of(&domain, "s");
    let calls = begin_all(&client, 2);
    for _ in 0..CALLS {
        server
            .try_next()
            .expect("served")
            .expect("asked")
            .reply(&[7; 50_000])
            .expect("there is room");
    }
    for call in calls {
        assert_eq!(call.wait().expect("answered").len(), 50_000);
    }
}

/// No process wakes the waiting client: it finds by its own look what lies in a dead client's
/// place.
fn a_client_without_memory_finds_what_the_dead_left(world: &World) {
    const LONG: usize = 5 << 20;
    let domain = world.domain();
    let board = Board::new();
    make_limited(&domain, "s", 8 << 20);
    let mut server = server_of(&domain, "s");
    let mut holding = Child::start(|| {
        let client = client_of(&domain, "s");
        let _call = client.begin(b"x").expect("sent");
        loop {
            std::thread::park();
        }
    });
    server
        .next_timeout(PATIENCE)
        .expect("served")
        .expect("asked")
        .reply(&[7; LONG])
        .expect("there is room");
    let waiting = Child::start(|| {
        let client = Service::<[u8], [u8]>::options()
            .wait_strategy(WaitStrategy::Block)
            .open_or_create(&domain, "s")
            .and_then(|service| service.client())
            .expect("open");
        board.set(0, 1);
        let call = client
            .begin_timeout(&message(1, 2, LONG), PATIENCE)
            .expect("there is memory after the death");
        assert_eq!(*call.wait().expect("answered"), *b"done");
    });
    board.reach(0, 1);
    wait_asleep(waiting.pid());
    holding.kill();
    let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
    assert_eq!(read_message(&request), (1, 2));
    request.reply(b"done").expect("it waits");
    waiting.finish();
}

fn memory_in_the_hands_of_the_dead_is_free_again(world: &World) {
    const LEN: usize = 300_000;
    let domain = world.domain();
    make_limited(&domain, "s", 1 << 20);
    let board = Board::new();
    // A server with a request and a loan; a client with a loan and a reply: half of the memory each.
    for round in 0..3u64 {
        let mut server = Child::start(|| {
            let mut server = server_of(&domain, "s");
            if round == 0 {
                board.set(0, 1);
                let request = server.next().expect("asked");
                let _loan = request.loan(LEN).expect("room");
                board.set(1, 1);
                loop {
                    std::thread::park();
                }
            }
            board.set(0, 1);
            loop {
                let request = server.next().expect("asked");
                let payload = request.to_vec();
                let _ = request.reply(&payload);
            }
        });
        let mut client = Child::start(|| {
            let client = client_of(&domain, "s");
            client.wait_for_server_timeout(PATIENCE).expect("there");
            if round == 0 {
                let outcome = client.call(&[1; LEN]);
                assert_eq!(outcome.unwrap_err(), CallError::ServerDied { begun: true });
                return;
            }
            let reply = client.call_timeout(&message(1, 2, LEN), PATIENCE).expect("answered");
            let mut loan = client.loan_timeout(LEN, PATIENCE).expect("room");
            loan.fill(9);
            assert_eq!(read_message(&reply), (1, 2));
            board.add(1, 1);
            loop {
                std::thread::park();
            }
        });
        board.reach(0, 1);
        board.reach(1, 1);
        server.kill();
        if round == 0 {
            client.finish();
        } else {
            client.kill();
        }
        board.set(0, 0);
        board.set(1, 0);
        if round == 2 {
            domain.sweep(false).expect("sweeps");
            let report = domain.sweep(true).expect("looks");
            assert!(report.is_clean(), "{report:?}");
        }
        // All of the memory is there again, also without a sweep.
        let _server = Child::start(|| echo(&domain, "s"));
        let client = waiting_client_of(&domain, "s");
        let loans: Vec<_> = (0..2)
            .map(|_| client.loan_timeout(LEN, PATIENCE).expect("all of it is free"))
            .collect();
        for loan in loans {
            assert_eq!(loan.call_timeout(PATIENCE).expect("answered").len(), LEN);
        }
    }
    assert_eq!(domain.stats().rescues, 0);
}

fn a_dead_client_s_requests_are_skipped(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let board = Board::new();
    let mut dead = Child::start(|| {
        let client = client_of(&domain, "s");
        let _calls = begin_all(&client, 1);
        board.add(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    dead.kill();
    // No process has settled what it left.
    assert!(matches!(server.try_next(), Ok(None)));
    assert!(matches!(server.next_timeout(Duration::from_millis(10)), Ok(None)));
    drop(server);
    let mut server = server_of(&domain, "s");
    assert!(matches!(server.try_next(), Ok(None)));
    // The same places, the same slots, perhaps the same numbers.
    let client = client_of(&domain, "s");
    let calls = begin_all(&client, 2);
    for call in calls {
        let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
        let payload = request.to_vec();
        assert_eq!(read_message(&payload).0, 2, "a dead client's request came as a living one's");
        request.reply(&payload).expect("it waits");
        assert_eq!(read_message(&call.wait().expect("answered")).0, 2);
    }
}

fn a_request_names_its_own_client(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let mut first = Child::start(|| {
        let client = client_of(&domain, "s");
        let _call = client.begin(b"first").expect("sent");
        loop {
            std::thread::park();
        }
    });
    let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
    let before = request.client().expect("named");
    assert_eq!((before.pid, before.alive), (first.pid().cast_unsigned(), true));
    first.kill();
    // The next client has the place of the first.
    let second = client_of(&domain, "s");
    let call = second.begin(b"second").expect("sent");
    let of_second = server.try_next().expect("served").expect("asked");
    assert_eq!(of_second.client().expect("named").pid, std::process::id());
    let named = request.client().expect("named");
    assert_eq!((named.token, named.alive), (before.token, false), "its own, not who has its place");
    assert!(request.is_cancelled());
    assert!(matches!(request.reply(b"late"), Err(SendError::ReceiverDied | SendError::Cancelled)));
    of_second.reply(b"right").expect("it waits");
    assert_eq!(*call.wait().expect("answered"), *b"right");
}

fn a_dead_client_ends_a_stream(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let server = Child::start(|| {
        let mut server = Service::<[u8], [u8]>::options()
            .wait_strategy(WaitStrategy::Block)
            .open_or_create(&domain, "s")
            .and_then(|service| service.server())
            .expect("none lives");
        let mut stream = server.next().expect("asked").stream();
        let error = loop {
            if let Err(error) = stream.send(&[7; 5_000]) {
                break error;
            }
            board.add(0, 1);
        };
        assert_eq!(error, SendError::ReceiverDied);
    });
    let mut client = Child::start(|| {
        let client = waiting_client_of(&domain, "s");
        let _call = client.begin(b"all").expect("sent");
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 8);
    wait_asleep(server.pid());
    client.kill();
    server.finish();
    domain.sweep(false).expect("sweeps");
    let report = domain.sweep(false).expect("sweeps");
    assert!(report.is_clean(), "{report:?}");
}

fn a_dead_server_cuts_a_stream_off_after_what_it_sent(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        let mut stream = server.next().expect("asked").stream();
        for n in 0..5 {
            stream.send(&message(1, n, 2_000)).expect("there is space");
        }
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    let client = waiting_client_of(&domain, "s");
    let mut call = client.begin_timeout(b"all", PATIENCE).expect("sent");
    board.reach(0, 1);
    server.kill();
    for n in 0..5 {
        assert_eq!(read_message(&next(&mut call).expect("sent").expect("more")), (1, n));
    }
    assert_eq!(next(&mut call).expect_err("dead"), CallError::ServerDied { begun: true });
}

fn a_server_thread_that_ends_alone_is_noticed(world: &World) {
    let domain = world.domain();
    let server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        // The first is killed where the second writes its reply: by a system call in the middle of
        // it.
        let request = server.next().expect("asked");
        std::thread::spawn(move || {
            let _ = request.reply_with(1 << 20, |_| {
                // SAFETY: ends this thread alone, without a destructor.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
            });
        });
        let request = server.next().expect("asked");
        request.reply(b"y").expect("it waits");
        // The thread's memory is free again: the process's own end is not needed for it.
        domain.sweep(false).expect("sweeps");
        std::thread::sleep(std::time::Duration::from_millis(100));
    });
    let client = waiting_client_of(&domain, "s");
    let mut lost = client.begin_timeout(b"x", PATIENCE).expect("sent");
    let second = client.begin_timeout(b"x", PATIENCE).expect("sent");
    assert_eq!(*second.wait().expect("answered"), *b"y");
    // No process can say that the request will never be answered while the request's process lives;
    // its end tells.
    assert_eq!(next(&mut lost).expect_err("never"), CallError::ServerDied { begun: true });
    server.finish();
    domain.sweep(false).expect("sweeps");
    assert!(domain.sweep(false).expect("sweeps").is_clean());
}

fn no_server_comes_beside_a_living_one(world: &World) {
    let domain = world.domain();
    let mut server = Child::start(|| echo(&domain, "s"));
    let client = client_of(&domain, "s");
    for _ in 0..30 {
        await_server(&client);
        assert!(matches!(
            Service::<[u8], [u8]>::open_or_create(&domain, "s")
                .and_then(|service| service.server()),
            Err(outlive::Error::Taken { role: "server", .. })
        ));
        server.kill();
        server = Child::start(|| echo(&domain, "s"));
    }
}

/// Words of the board.
const LOG_LEN: usize = 10;
const TOLD_LEN: usize = 11;
const ANSWERED: usize = 12;
const LOG: usize = 16;
const TOLD: usize = WORDS / 2;

/// Servers and clients are killed for seconds; what was carried out is written down by the servers,
/// what was told by the clients.
fn random_kills(world: &World) {
    const SECONDS: u64 = 4;
    const CLIENTS: u64 = 3;
    let domain = world.domain();
    // Made here: a client may come before the first server, and would make it larger.
    let service = Service::<[u8], [u8]>::options().max_bytes(16 << 20).create_new(&domain, "s");
    drop(service.expect("made"));
    let board = Board::new();
    let start_server = || {
        Child::start(|| {
            let mut server = Service::<[u8], [u8]>::open(&domain, "s")
                .and_then(|service| service.server())
                .expect("none lives");
            loop {
                let request = server.next().expect("served");
                let (who, number) = read_message(&request);
                let at = board.add(LOG_LEN, 1) as usize - 1;
                assert!(LOG + at < TOLD, "the log is full");
                board.set(LOG + at, who << 40 | number);
                let payload = request.to_vec();
                let _ = match number % 5 {
                    0 => {
                        let mut stream = request.stream();
                        let sent = (0..12).try_for_each(|_| stream.send(&payload));
                        sent.and_then(|()| stream.finish())
                    }
                    _ => request.reply(&payload),
                };
            }
        })
    };
    let start_client = |who: u64| {
        let domain = &domain;
        Child::start(move || {
            let client = client_of(domain, "s");
            let mut random = Random::from_seed(who);
            for number in 0.. {
                let len = if number % 3 == 0 { 9_000 } else { 16 + random.below(90) as usize };
                client.set_wait_for_server(number % 2 == 0);
                let mut calls = Vec::new();
                for part in 0..3 {
                    let number = number * 4 + part;
                    calls
                        .push((number, client.begin_timeout(&message(who, number, len), PATIENCE)));
                }
                for (number, call) in calls {
                    let told = call.and_then(|mut call| {
                        while let Some(reply) = next(&mut call)? {
                            assert_eq!(read_message(&reply), (who, number));
                        }
                        Ok(())
                    });
                    match told {
                        Ok(()) => {
                            board.add(ANSWERED, 1);
                        }
                        Err(CallError::NoServer | CallError::ServerDied { begun: false }) => {
                            let at = board.add(TOLD_LEN, 1) as usize - 1;
                            board.set((TOLD + at).min(WORDS - 1), who << 40 | number);
                        }
                        Err(CallError::ServerDied { begun: true }) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            }
        })
    };
    let mut random = Random::new();
    let begun = std::time::Instant::now();
    let mut next = CLIENTS;
    let mut server = start_server();
    let mut clients: Vec<Child> = (0..CLIENTS).map(start_client).collect();
    let mut kills = 0;
    // On a busy machine a server may be killed before it has had a turn, each time: then longer,
    // and with longer lives.
    let is_over =
        |seconds: u64| seconds >= SECONDS && board.get(ANSWERED) > 0 || seconds >= 5 * SECONDS;
    while !is_over(begun.elapsed().as_secs()) && board.get(LOG_LEN) < (TOLD - LOG - 5_000) as u64 {
        random.pause(4_000 << (begun.elapsed().as_secs() / SECONDS));
        kills += 1;
        if kills % 3 == 0 {
            let which = random.below(CLIENTS) as usize;
            clients[which].kill();
            clients[which] = start_client(next);
            next += 1;
        } else {
            server.kill();
            server = start_server();
        }
        if kills % 40 == 0 {
            assert!(domain.sweep(false).expect("sweeps").failed.is_empty());
        }
    }
    clients.iter_mut().for_each(Child::kill);
    server.kill();
    let log: Vec<u64> = (0..board.get(LOG_LEN) as usize)
        .map(|at| board.get(LOG + at))
        .filter(|&w| w != 0)
        .collect();
    let carried_out: HashSet<u64> = log.iter().copied().collect();
    assert_eq!(carried_out.len(), log.len(), "nothing is carried out twice");
    let told = board.get(TOLD_LEN).min((WORDS - TOLD - 1) as u64);
    for at in 0..told as usize {
        assert!(
            !carried_out.contains(&board.get(TOLD + at)),
            "told that it would not be, and it was"
        );
    }
    eprintln!(
        "{kills} kills; {} carried out, {} answered, {told} told not begun",
        log.len(),
        board.get(ANSWERED)
    );
    assert!(board.get(ANSWERED) > 0);
    // All memory is there again.
    assert!(domain.sweep(false).expect("sweeps").failed.is_empty());
    let report = domain.sweep(false).expect("sweeps");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(domain.stats().rescues, 0);
}
