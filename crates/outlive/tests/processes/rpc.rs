//! Requests and replies between processes that live.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::task::Poll;
use std::time::Duration;

use outlive::rpc::{Call, CallError, Client, Reply, Service};
use outlive::{Domain, Error, Payload, RecvError, SendError, WaitStrategy};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE, wait_until};
use crate::order::{message, read_message};
use crate::random::Random;
use crate::runner::World;
use crate::services::{client_of, server_of, waiting_client_of};

crate::checks!(
    four_clients_get_their_own_answers: 60,
    every_size_comes_back_whole: 60,
    many_calls_in_flight_are_answered_in_any_order,
    streams_wait_for_their_clients,
    a_cancelled_stream_ends_its_sender,
    a_sleeping_client_is_woken,
    a_sleeping_server_is_woken,
    a_second_server_is_refused,
    a_server_that_leaves_tells_its_clients,
    a_client_that_waits_for_a_server_gets_the_next_one,
    cancelled_calls_are_not_begun,
    a_client_moves_between_threads,
    requests_move_between_threads,
    too_many_calls_and_too_large_ones,
    too_many_clients,
    a_forked_child_is_nobody,
    nothing_is_left_of_large_replies,
    scribbled_words_give_errors: 60,
);

/// Makes a service whose file has at most so many bytes.
pub(crate) fn make_limited(domain: &Domain, name: &str, bytes: u64) {
    Service::<[u8], [u8]>::options().max_bytes(bytes).open_or_create(domain, name).expect("made");
}

/// Answers with what was asked.
pub fn echo(domain: &Domain, name: &str) {
    let mut server = server_of(domain, name);
    loop {
        let request = server.next().expect("served");
        let payload = request.to_vec();
        // The client may be dead.
        let _ = request.reply(&payload);
    }
}

/// Returns the next reply, or `None` after the last; it must come in time.
pub(crate) fn next<R: Payload + ?Sized>(
    call: &mut Call<'_, R>,
) -> Result<Option<Reply<R>>, CallError> {
    match call.next_timeout(PATIENCE)? {
        Poll::Ready(found) => Ok(found),
        Poll::Pending => panic!("no reply came in time"),
    }
}

/// Waits until there is a server, by asking it.
pub fn await_server(client: &Client) {
    client.set_wait_for_server(true);
    client.call_timeout(&message(0, 0, 16), PATIENCE).expect("a server comes");
    client.set_wait_for_server(false);
}

fn four_clients_get_their_own_answers(world: &World) {
    let domain = world.domain();
    let mut server = Child::start(|| echo(&domain, "s"));
    let clients: Vec<Child> = (0..4u64)
        .map(|who| {
            let domain = &domain;
            Child::start(move || {
                let client = waiting_client_of(domain, "s");
                let mut random = Random::from_seed(who);
                for number in 0..2_000 {
                    let most = if number % 10 == 0 { 20_000 } else { 120 };
                    let bytes = message(who, number, 16 + random.below(most) as usize);
                    let reply = client.call_timeout(&bytes, PATIENCE).expect("answered");
                    assert_eq!(*reply, *bytes);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(Child::finish);
    server.kill();
    assert!(domain.sweep(false).expect("sweeps").failed.is_empty());
    assert!(domain.sweep(false).expect("sweeps").is_clean());
}

fn every_size_comes_back_whole(world: &World) {
    let domain = world.domain();
    let _server = Child::start(|| echo(&domain, "s"));
    let client = client_of(&domain, "s");
    await_server(&client);
    let mut sizes: Vec<usize> = (0..300).collect();
    for power in 9..22 {
        sizes.extend((1 << power) - 20..(1 << power) + 4);
    }
    for len in sizes {
        let bytes = if len < 16 { vec![len as u8; len] } else { message(1, len as u64, len) };
        assert_eq!(*client.call_timeout(&bytes, PATIENCE).expect("answered"), *bytes);
    }
}

fn many_calls_in_flight_are_answered_in_any_order(world: &World) {
    const CALLS: u64 = 300;
    let domain = world.domain();
    let _server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        let mut requests: Vec<_> = (0..CALLS)
            .map(|_| server.next_timeout(PATIENCE).expect("served").expect("asked"))
            .collect();
        requests.reverse();
        for request in requests {
            let payload = request.to_vec();
            request.reply(&payload).expect("the client lives");
        }
    });
    let client = waiting_client_of(&domain, "s");
    let calls: Vec<_> = (0..CALLS)
        .map(|n| client.begin_timeout(&message(1, n, 40), PATIENCE).expect("sent"))
        .collect();
    for (n, mut call) in calls.into_iter().enumerate() {
        let reply = next(&mut call).expect("answered").expect("one");
        assert_eq!(read_message(&reply), (1, n as u64));
        assert!(next(&mut call).expect("over").is_none());
    }
}

fn streams_wait_for_their_clients(world: &World) {
    const REPLIES: u64 = 500;
    let domain = world.domain();
    let board = Board::new();
    let server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        let mut stream = server.next_timeout(PATIENCE).expect("served").expect("asked").stream();
        for number in 0..REPLIES {
            let len = if number % 7 == 0 { 5_000 } else { 30 };
            stream.send_timeout(&message(2, number, len), PATIENCE).expect("taken");
            board.set(0, number + 1);
        }
        stream.finish().expect("taken");
    });
    let client = waiting_client_of(&domain, "s");
    let mut call = client.begin_timeout(b"all", PATIENCE).expect("sent");
    board.reach(0, 8);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(board.get(0), 8, "eight are on their way, not more");
    for number in 0..REPLIES {
        let reply = next(&mut call).expect("sent").expect("more");
        assert_eq!(read_message(&reply), (2, number));
    }
    assert!(next(&mut call).expect("over").is_none());
    server.finish();
}

fn a_cancelled_stream_ends_its_sender(world: &World) {
    let domain = world.domain();
    let server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        let mut stream = server.next_timeout(PATIENCE).expect("served").expect("asked").stream();
        let error = loop {
            if let Err(error) = stream.send_timeout(&message(2, 1, 3_000), PATIENCE) {
                break error;
            }
        };
        assert_eq!(error, SendError::Cancelled);
    });
    let client = waiting_client_of(&domain, "s");
    let mut call = client.begin_timeout(b"all", PATIENCE).expect("sent");
    next(&mut call).expect("one").expect("one");
    wait_asleep(server.pid());
    assert!(call.cancel(), "begun");
    server.finish();
    drop(client);
    let report = domain.sweep(true).expect("looks");
    assert_eq!(report.objects, 0, "objects of replies that nobody took are freed: {report:?}");
}

fn a_sleeping_client_is_woken(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let client = Child::start(|| {
        let client = Service::<[u8], [u8]>::options()
            .wait_strategy(WaitStrategy::Block)
            .open_or_create(&domain, "s")
            .and_then(|service| service.client())
            .expect("open");
        for _ in 0..20 {
            assert_eq!(*client.call_timeout(b"x", PATIENCE).expect("answered"), *b"y");
        }
    });
    for _ in 0..20 {
        let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
        wait_asleep(client.pid());
        request.reply(b"y").expect("the client lives");
    }
    client.finish();
    assert_eq!(domain.stats().rescues, 0);
}

fn a_sleeping_server_is_woken(world: &World) {
    let domain = world.domain();
    let server = Child::start(|| {
        let mut server = Service::<[u8], [u8]>::options()
            .wait_strategy(WaitStrategy::Block)
            .open_or_create(&domain, "s")
            .and_then(|service| service.server())
            .expect("none lives");
        for _ in 0..20 {
            server
                .next_timeout(PATIENCE)
                .expect("served")
                .expect("asked")
                .reply(b"y")
                .expect("the client lives");
        }
    });
    let client = waiting_client_of(&domain, "s");
    for _ in 0..20 {
        wait_asleep(server.pid());
        assert_eq!(*client.call_timeout(b"x", PATIENCE).expect("answered"), *b"y");
    }
    server.finish();
}

fn a_second_server_is_refused(world: &World) {
    let domain = world.domain();
    let server = server_of(&domain, "s");
    Child::start(|| {
        match Service::<[u8], [u8]>::open_or_create(&domain, "s")
            .and_then(|service| service.server())
        {
            Err(Error::Taken { role: "server", pid, .. }) => {
                assert_ne!(pid, Some(std::process::id()))
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("two servers"),
        }
    })
    .finish();
    drop(server);
    Child::start(|| drop(server_of(&domain, "s"))).finish();
}

fn a_server_that_leaves_tells_its_clients(world: &World) {
    let domain = world.domain();
    let server = server_of(&domain, "s");
    let clients: Vec<Child> = (0..3)
        .map(|_| {
            Child::start(|| {
                let client = Service::<[u8], [u8]>::options()
                    .wait_strategy(WaitStrategy::Block)
                    .open_or_create(&domain, "s")
                    .and_then(|service| service.client())
                    .expect("open");
                assert_eq!(client.call(b"x").expect_err("nobody answers"), CallError::NoServer);
            })
        })
        .collect();
    for client in &clients {
        wait_asleep(client.pid());
    }
    drop(server);
    clients.into_iter().for_each(Child::finish);
    let mut server = server_of(&domain, "s");
    assert!(matches!(server.try_next(), Ok(None)), "their callers were told");
}

fn a_client_that_waits_for_a_server_gets_the_next_one(world: &World) {
    let (domain, board) = (world.domain(), Board::new());
    let client = Child::start(|| {
        let client = Service::<[u8], [u8]>::options()
            .wait_strategy(WaitStrategy::Block)
            .open_or_create(&domain, "s")
            .and_then(|service| service.client())
            .expect("open");
        client.set_wait_for_server(true);
        let error =
            client.call_timeout(b"x", Duration::from_millis(20)).expect_err("there is none");
        assert_eq!(error, CallError::TimedOut { begun: false });
        board.set(0, 1);
        assert_eq!(*client.call_timeout(b"x", PATIENCE).expect("answered"), *b"y");
    });
    board.reach(0, 1);
    wait_asleep(client.pid());
    // One that comes and goes without a look, then one that answers.
    drop(server_of(&domain, "s"));
    let mut server = server_of(&domain, "s");
    server
        .next_timeout(PATIENCE)
        .expect("served")
        .expect("asked")
        .reply(b"y")
        .expect("the client lives");
    client.finish();
}

fn cancelled_calls_are_not_begun(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let client = client_of(&domain, "s");
    for round in 0..100u64 {
        let call = client.begin(&message(1, round, 30)).expect("sent");
        let kept = client.begin(&message(2, round, 30)).expect("sent");
        assert!(!call.cancel(), "nobody has begun it");
        let request = server.try_next().expect("served").expect("the other one");
        assert_eq!(read_message(&request), (2, round));
        let payload = request.to_vec();
        request.reply(&payload).expect("it waits");
        assert_eq!(read_message(&kept.wait().expect("answered")), (2, round));
        assert!(matches!(server.try_next(), Ok(None)));
    }
    // Begun, then cancelled.
    let call = client.begin(b"x").expect("sent");
    let request = server.try_next().expect("served").expect("asked");
    assert!(!request.is_cancelled());
    assert!(call.cancel(), "begun");
    assert!(request.is_cancelled());
    assert_eq!(request.reply(b"y"), Err(SendError::Cancelled));
    // Late: the call goes on, and the reply comes.
    let mut call = client.begin(b"x").expect("sent");
    let request = server.try_next().expect("served").expect("asked");
    assert!(call.next_timeout(Duration::ZERO).expect("goes on").is_pending());
    assert!(call.is_begun() && !call.is_over());
    assert!(call.try_next().expect("goes on").is_pending());
    request.reply(b"z").expect("it waits");
    assert_eq!(*call.wait().expect("answered"), *b"z");
}

fn a_client_moves_between_threads(world: &World) {
    let domain = world.domain();
    let _server = Child::start(|| echo(&domain, "s"));
    let mut client = client_of(&domain, "s");
    await_server(&client);
    for round in 0..20u64 {
        client = std::thread::spawn(move || {
            let bytes = message(1, round, 500);
            assert_eq!(*client.call_timeout(&bytes, PATIENCE).expect("answered"), *bytes);
            client
        })
        .join()
        .expect("no panic");
    }
}

fn requests_move_between_threads(world: &World) {
    let domain = world.domain();
    let server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        let working: Vec<_> = (0..200)
            .map(|_| {
                let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
                std::thread::spawn(move || {
                    let payload = request.to_vec();
                    request.reply(&payload).expect("the client lives");
                })
            })
            .collect();
        working.into_iter().for_each(|one| one.join().expect("no panic"));
        // One panics with a request in its hands.
        let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
        let result = std::thread::spawn(move || {
            let _request = request;
            panic!("on purpose");
        });
        assert!(result.join().is_err());
    });
    let client = waiting_client_of(&domain, "s");
    let calls: Vec<_> =
        (0..200).map(|n| (n, client.begin(&message(1, n, 300)).expect("sent"))).collect();
    for (n, call) in calls {
        assert_eq!(read_message(&call.wait().expect("answered")), (1, n));
    }
    let error = client.call_timeout(b"x", PATIENCE).expect_err("told");
    assert_eq!(error, CallError::Failed("the server's thread panicked".to_owned()));
    server.finish();
}

fn too_many_calls_and_too_large_ones(world: &World) {
    let domain = world.domain();
    make_limited(&domain, "s", 1 << 20);
    let mut server = server_of(&domain, "s");
    let client = client_of(&domain, "s");
    let most = match client.begin(&vec![0; 4 << 20]).map(drop) {
        Err(CallError::TooLarge { len, max: most }) => {
            assert_eq!(len, 4 << 20);
            most
        }
        other => panic!("{other:?}"),
    };
    assert!(most < 1 << 20);
    let mut calls = Vec::new();
    let error = loop {
        match client.begin(b"x") {
            Ok(call) => calls.push(call),
            Err(error) => break error,
        }
    };
    assert_eq!((error, calls.len()), (CallError::TooMany, 1024));
    calls.clear();
    assert!(matches!(server.try_next(), Ok(None)), "all are cancelled");
    let call = client.begin(b"x").expect("there is room again");
    let error = server
        .try_next()
        .expect("served")
        .expect("asked")
        .reply(&vec![0; 4 << 20])
        .expect_err("too large");
    assert!(matches!(error, SendError::TooLarge { .. }));
    assert_eq!(call.wait().expect_err("told"), CallError::Dropped);
    // Replies that no client takes fill the memory, and dropping them frees it.
    let mut waiting = Vec::new();
    loop {
        waiting.push(client.begin(b"x").expect("sent"));
        match server.try_next().expect("served").expect("asked").reply(&[7; 20_000]) {
            Ok(()) => {}
            Err(error) => {
                assert!(matches!(error, SendError::NoSpace { .. }), "{error}");
                break;
            }
        }
    }
    assert!(waiting.len() > 2);
    waiting.clear();
    let call = client.begin(b"x").expect("sent");
    server
        .try_next()
        .expect("served")
        .expect("asked")
        .reply(&[7; 20_000])
        .expect("there is room again");
    assert_eq!(call.wait().expect("answered").len(), 20_000);
}

fn too_many_clients(world: &World) {
    let domain = world.domain();
    let service = Service::<[u8], [u8]>::open_or_create(&domain, "s").expect("made");
    let mut clients = Vec::new();
    let error = loop {
        match service.client() {
            Ok(client) => clients.push(client),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::TooMany { what: "clients", max: 1024, .. }), "{error:?}");
    assert!(error.to_string().contains("'outlive service info'"), "{error}");
    assert_eq!(clients.len(), 1024);
    clients.pop();
    service.client().expect("one has left its place");
}

fn a_forked_child_is_nobody(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let client = client_of(&domain, "s");
    let call = client.begin(b"x").expect("sent");
    let mut request = Some(server.try_next().expect("served").expect("asked"));
    let mut second = Some(client.begin(b"z").expect("sent"));
    let mut server = Some(server);
    Child::start(|| {
        assert_eq!(client.call(b"y").expect_err("not ours"), CallError::NotClient);
        let mut server = server.take().expect("a copy");
        assert_eq!(server.try_next().expect_err("not ours"), RecvError::NotOwner);
        drop(second.take());
        drop(server);
        assert_eq!(request.take().expect("a copy").reply(b"w"), Err(SendError::NotOwner));
    })
    .finish();
    request.expect("ours").reply(b"w").expect("the client lives");
    assert_eq!(*call.wait().expect("answered"), *b"w");
    let request = server
        .as_mut()
        .expect("ours")
        .try_next()
        .expect("served")
        .expect("not cancelled by a copy");
    request.reply(b"v").expect("the client lives");
    assert_eq!(*second.expect("ours").wait().expect("answered"), *b"v");
}

fn nothing_is_left_of_large_replies(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let client = client_of(&domain, "s");
    let entry = domain.entry("s").expect("there");
    for round in 0..200u64 {
        let taken = client.begin(b"x").expect("sent");
        let left = client.begin(b"x").expect("sent");
        for _ in 0..2 {
            let bytes = message(1, round, 200_000);
            let reply = server.next_timeout(PATIENCE).expect("served").expect("asked");
            reply.reply_with(bytes.len(), |to| to.copy_from_slice(&bytes)).expect("it waits");
        }
        assert_eq!(read_message(&taken.wait().expect("answered")), (1, round));
        drop(left);
    }
    let later = domain.entry("s").expect("there");
    assert!(
        later.bytes < entry.bytes + (4 << 20),
        "{} bytes at first, {} later",
        entry.bytes,
        later.bytes
    );
    wait_until("nothing of the dead", || domain.sweep(true).expect("looks").is_clean());
}

/// Where in the file the clients' places begin: a place names its client, as process and as thread.
fn places_at(domain: &Domain, name: &str) -> u64 {
    let process = domain.process_token().expect("a token").as_u32();
    let thread = domain.token().expect("a token").as_u32();
    let wanted = u64::from(thread) << 32 | u64::from(process);
    let file = File::open(domain.path().join(name)).expect("there");
    let mut page = vec![0; 4096];
    let mut at = 0;
    while file.read_at(&mut page, at).expect("read") == page.len() {
        if u64::from_le_bytes(page[..8].try_into().expect("8 bytes")) == wanted {
            return at;
        }
        at += page.len() as u64;
        assert!(at < 64 << 20, "nobody's place");
    }
    panic!("nobody's place");
}

fn scribbled_words_give_errors(world: &World) {
    const BEFORE: u64 = 4096;
    const BYTES: u64 = BEFORE + 8192 + 24_576;
    let soon = Duration::from_millis(2);
    let domain = world.domain();
    let mut random = Random::new();
    for round in 0..300 {
        let name = format!("s{round}");
        let mut server = Service::<[u8], [u8]>::options()
            .max_bytes(1 << 20)
            .open_or_create(&domain, &name)
            .and_then(|service| service.server())
            .expect("made");
        let client = client_of(&domain, &name);
        let from = places_at(&domain, &name) - BEFORE;
        let file = File::options().write(true).open(domain.path().join(&name)).expect("there");
        let mut calls: Vec<_> =
            (0..4).filter_map(|n| client.begin_timeout(&message(1, n, 300), soon).ok()).collect();
        let mut requests: Vec<_> =
            (0..2).filter_map(|_| server.try_next().ok().flatten()).collect();
        if let Some(request) = requests.pop() {
            let _ = request.reply(&[7; 500]);
        }
        let token = u64::from(domain.token().expect("a token").as_u32());
        for _ in 0..1 + random.below(60) {
            let value = match random.below(6) {
                0 => 0,
                1 => u64::MAX,
                2 => random.next(),
                3 => token << 2 | 1 | random.below(4) << 31,
                4 => random.below(4) << 31 | random.below(64),
                _ => 1 << 63 | random.below(1 << 40),
            };
            // Mostly the first slots, whose words are looked at.
            let within = if random.below(3) == 0 { BYTES } else { BEFORE + 8192 + 3 * 1536 };
            let at = from + random.below(within / 8) * 8;
            file.write_at(&value.to_le_bytes(), at).expect("written");
        }
        for call in &mut calls {
            // Whatever it says: it says something.
            let _ = call.try_next();
            let _ = call.next_timeout(soon);
        }
        requests.into_iter().for_each(|request| drop(request.reply(&[7; 40])));
        if let Ok(Some(request)) = server.next_timeout(soon) {
            let mut stream = request.stream();
            let _ = (0..10).try_for_each(|_| stream.send_timeout(&[7; 200], soon));
        }
        drop(calls);
        let _ = client.call_timeout(b"x", soon);
        drop(client);
        if let Ok(client) = Service::<[u8], [u8]>::open_or_create(&domain, &name)
            .and_then(|service| service.client())
        {
            let _ = client.call_timeout(b"x", soon);
        }
        drop(server);
        let _ = domain.entry(&name);
        let _ = domain.sweep(false).expect("sweeps");
        domain.remove(&name).expect("removed");
    }
}
