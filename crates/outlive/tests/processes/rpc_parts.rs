//! Requests of several parts: a client sends them while a server takes them.

use std::task::Poll;
use std::time::Duration;

use outlive::rpc::{CallError, Client, Part, Request, Service};
use outlive::{Domain, RecvError, SendError};

use crate::asleep::{wait_asleep, wait_thread_asleep};
use crate::board::Board;
use crate::child::{Child, End, PATIENCE, wait_until};
use crate::order::{message, read_message};
use crate::rpc::{make_limited, next};
use crate::runner::World;
use crate::services::{client_of, server_of};

crate::checks!(
    parts_come_whole_and_in_order: 60,
    both_streams_at_once,
    each_side_waits_for_the_other,
    a_reply_comes_before_the_last_part,
    a_killed_client_ends_its_parts,
    a_killed_server_ends_a_waiting_send,
    a_call_that_is_let_go_of_ends_its_parts,
    an_upload_that_begins_anew_is_not_the_first_ones_end,
    a_send_that_waits_for_memory_is_told_what_its_server_does,
    parts_of_values,
    parts_and_replies_by_loan,
    a_loan_of_a_part_is_told_what_its_server_does,
    one_of_several_servers_takes_the_parts,
);

/// Returns the next part, or `None` after the last; it must come in time.
pub(crate) fn next_part(request: &mut Request) -> Result<Option<Part>, RecvError> {
    match request.next_part_timeout(PATIENCE)? {
        Poll::Ready(found) => Ok(found),
        Poll::Pending => panic!("no part came in time"),
    }
}

/// Serves a service: takes all parts of each request, in which the parts are numbered, and replies
/// with their number.
fn count(domain: &Domain, requests: u64) {
    let mut server = server_of(domain, "s");
    for _ in 0..requests {
        let mut request = server.next_timeout(PATIENCE).expect("served").expect("asked");
        let (who, first) = read_message(&request);
        let mut number = 0u64;
        while let Some(part) = next_part(&mut request).expect("sent") {
            number += 1;
            assert_eq!(read_message(&part), (who, first + number));
        }
        assert!(next_part(&mut request).expect("well").is_none(), "the end stays the end");
        request.reply(&number.to_le_bytes()).expect("it waits");
    }
}

/// Sends so many parts of these lengths, and returns how many the server counted.
fn upload(client: &Client, who: u64, parts: u64, len: impl Fn(u64) -> usize) -> u64 {
    let mut stream = client.stream(&message(who, 0, len(0))).expect("sent");
    for number in 1..=parts {
        stream.send_timeout(&message(who, number, len(number)), PATIENCE).expect("room");
    }
    let reply = stream.finish().expect("well").wait_timeout(PATIENCE).expect("answered");
    u64::from_le_bytes(reply[..].try_into().expect("8 bytes"))
}

fn parts_come_whole_and_in_order(world: &World) {
    let domain = world.domain();
    make_limited(&domain, "s", 8 << 20);
    let mut server = Child::start(|| count(&domain, 9));
    wait_until("a server", || domain.entry("s").is_ok());
    let client = client_of(&domain, "s");
    client.wait_for_server_timeout(PATIENCE).expect("it comes");
    assert_eq!(upload(&client, 1, 0, |_| 16), 0, "no part is one stream, too");
    assert_eq!(upload(&client, 2, 300, |number| 16 + number as usize % 300), 300);
    assert_eq!(upload(&client, 3, 60, |number| 16 + number as usize * 3000), 60);
    // Several clients at once; the server takes one request after the other.
    let mut others: Vec<Child> = (4..8)
        .map(|who| {
            let domain = &domain;
            Child::start(move || {
                let client = client_of(domain, "s");
                assert_eq!(upload(&client, who, 50, |number| 16 + number as usize * 40), 50);
            })
        })
        .collect();
    others.iter_mut().for_each(|other| assert_eq!(other.wait(), End::Code(0)));
    assert_eq!(upload(&client, 8, 20, |_| 100_000), 20);
    // A plain call has no parts.
    let plain = client.call_timeout(&message(9, 5, 16), PATIENCE).expect("answered");
    assert_eq!(*plain, 0u64.to_le_bytes());
    assert_eq!(server.wait(), End::Code(0));
    drop(client);
    assert_eq!(domain.sweep(true).expect("looks").objects, 0, "all memory is back");
    assert_eq!(domain.stats().rescues, 0, "nobody was woken by the clock");
}

fn both_streams_at_once(world: &World) {
    let domain = world.domain();
    let mut server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        let mut replies = server.next_timeout(PATIENCE).expect("served").expect("asked").stream();
        while let Poll::Ready(Some(part)) = replies.next_part_timeout(PATIENCE).expect("sent") {
            replies.send_timeout(&part, PATIENCE).expect("it takes them");
        }
        replies.finish().expect("it waits");
    });
    let client = client_of(&domain, "s");
    client.wait_for_server_timeout(PATIENCE).expect("it comes");
    let mut stream = client.stream(b"echo").expect("sent");
    for number in 0..100 {
        stream.send_timeout(&message(1, number, 200), PATIENCE).expect("room");
        let Poll::Ready(Some(reply)) = stream.next_reply_timeout(PATIENCE).expect("well") else {
            panic!("no reply came in time")
        };
        assert_eq!(read_message(&reply), (1, number));
    }
    // Behind each other: as many as both rings hold.
    for number in 0..8 {
        stream.send_timeout(&message(2, number, 20), PATIENCE).expect("room");
    }
    let mut call = stream.finish().expect("well");
    for number in 0..8 {
        assert_eq!(read_message(&next(&mut call).expect("well").expect("one")), (2, number));
    }
    assert!(next(&mut call).expect("well").is_none());
    assert_eq!(server.wait(), End::Code(0));
}

fn each_side_waits_for_the_other(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let client = client_of(&domain, "s");
    let mut stream = client.stream(b"first").expect("sent");
    for number in 0..8 {
        stream.try_send(&[number]).expect("room for eight");
    }
    let late = CallError::TimedOut { begun: false };
    assert_eq!(stream.try_send(b"9"), Err(late.clone()));
    assert_eq!(stream.send_timeout(b"9", Duration::from_millis(5)), Err(late));
    let mut request = server.try_next().expect("well").expect("asked");
    let late = CallError::TimedOut { begun: true };
    assert_eq!(stream.try_send(b"9"), Err(late));
    for number in 0..8 {
        let part = next_part(&mut request).expect("well").expect("sent");
        assert_eq!(*part, [number]);
    }
    assert!(request.try_next_part().expect("well").is_pending());
    let passed = request.next_part_timeout(Duration::from_millis(5)).expect("well");
    assert!(passed.is_pending());
    drop(stream.finish().expect("well"));
    assert!(matches!(next_part(&mut request), Err(RecvError::Cancelled) | Ok(None)));
    drop(request);
    // Asleep, each is woken by the other.
    let mut other = Child::start(|| {
        let client = client_of(&domain, "s");
        let mut stream = client.stream(b"slow").expect("sent");
        for number in 0..9u8 {
            stream.send_timeout(&[number], PATIENCE).expect("room");
        }
        wait_until("told to go on", || domain.entry("go").is_ok());
        let call = stream.finish().expect("well");
        call.wait_timeout(PATIENCE).expect("answered");
    });
    let mut request = server.next_timeout(PATIENCE).expect("served").expect("asked");
    wait_asleep(other.pid());
    for number in 0..9u8 {
        assert_eq!(*next_part(&mut request).expect("well").expect("sent"), [number]);
    }
    let mut signal = Child::start(|| {
        std::thread::sleep(Duration::from_millis(30));
        Service::<[u8]>::open_or_create(&domain, "go").expect("made");
    });
    assert!(next_part(&mut request).expect("well").is_none());
    request.reply(b"").expect("it waits");
    assert_eq!((other.wait(), signal.wait()), (End::Code(0), End::Code(0)));
    assert_eq!(domain.stats().rescues, 0, "nobody was woken by the clock");
}

fn a_reply_comes_before_the_last_part(world: &World) {
    let domain = world.domain();
    make_limited(&domain, "s", 1 << 20);
    let mut server = server_of(&domain, "s");
    let client = client_of(&domain, "s");
    // As many long parts as fit only if none is left behind.
    for round in 0..40 {
        let mut stream = client.stream(b"first").expect("sent");
        for _ in 0..4 {
            stream.try_send(&[7; 40_000]).expect("room");
        }
        let mut request = server.try_next().expect("well").expect("asked");
        let part = next_part(&mut request).expect("well").expect("sent");
        match round % 4 {
            0 => request.fail("enough").expect("it waits"),
            1 => request.reply(b"enough").expect("it waits"),
            2 => request.reply(&[1; 3_000]).expect("it waits"),
            _ => drop(request),
        }
        // What the server has is its own.
        assert_eq!(part[39_999], 7);
        drop(part);
        assert_eq!(stream.try_send(b"more"), Err(CallError::Answered));
        assert_eq!(stream.send(b"more"), Err(CallError::Answered));
        let told = stream.finish().expect("well").wait_timeout(PATIENCE);
        match round % 4 {
            0 => assert_eq!(told.unwrap_err(), CallError::Failed("enough".to_owned())),
            1 => assert_eq!(*told.expect("answered"), *b"enough"),
            2 => assert_eq!(told.expect("answered").len(), 3_000),
            _ => assert_eq!(told.unwrap_err(), CallError::Dropped),
        }
    }
    drop(client);
    assert_eq!(domain.sweep(true).expect("looks").objects, 0);
}

fn a_killed_client_ends_its_parts(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let mut other = Child::start(|| {
        let client = client_of(&domain, "s");
        let mut stream = client.stream(b"first").expect("sent");
        for number in 0..3u8 {
            stream.send(&[number; 500]).expect("room");
        }
        loop {
            std::thread::park();
        }
    });
    let mut request = server.next_timeout(PATIENCE).expect("served").expect("asked");
    for number in 0..2u8 {
        assert_eq!(*next_part(&mut request).expect("well").expect("sent"), [number; 500]);
    }
    other.kill();
    // The last one may be there still.
    let told = next_part(&mut request).and_then(|_| next_part(&mut request));
    assert!(matches!(told, Err(RecvError::Cancelled)), "{told:?}");
    assert!(matches!(request.reply(b""), Err(SendError::ReceiverDied | SendError::Cancelled)));
    domain.sweep(false).expect("sweeps");
    wait_until("nothing of the dead", || domain.sweep(true).expect("looks").is_clean());
    // Asleep, the server is woken by the death.
    let mut other = Child::start(|| {
        let client = client_of(&domain, "s");
        let _stream = client.stream(b"first").expect("sent");
        loop {
            std::thread::park();
        }
    });
    let mut request = server.next_timeout(PATIENCE).expect("served").expect("asked");
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        other.kill();
    });
    assert!(matches!(next_part(&mut request), Err(RecvError::Cancelled)));
    killer.join().expect("no panic");
    assert_eq!(domain.stats().rescues, 0, "nobody was woken by the clock");
}

fn a_killed_server_ends_a_waiting_send(world: &World) {
    let domain = world.domain();
    let client = client_of(&domain, "s");
    for begun in [false, true] {
        let mut server = Child::start(|| {
            let mut server = server_of(&domain, "s");
            let mut request = begun.then(|| server.next_timeout(PATIENCE).expect("served"));
            if let Some(Some(request)) = &mut request {
                next_part(request).expect("well").expect("sent");
            }
            loop {
                std::thread::park();
            }
        });
        client.wait_for_server_timeout(PATIENCE).expect("it comes");
        let mut stream = client.stream(b"first").expect("sent");
        for number in 0..8 + u8::from(begun) {
            stream.send_timeout(&[number; 300], PATIENCE).expect("room");
        }
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            server.kill();
        });
        let told = stream.send_timeout(b"more", PATIENCE);
        assert_eq!(told, Err(CallError::ServerDied { begun }));
        killer.join().expect("no panic");
    }
    drop(client);
    domain.sweep(false).expect("sweeps");
    wait_until("nothing of the dead", || domain.sweep(true).expect("looks").is_clean());
    assert_eq!(domain.stats().rescues, 0, "nobody was woken by the clock");
}

fn a_call_that_is_let_go_of_ends_its_parts(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let client = client_of(&domain, "s");
    for taken in 0..3 {
        let mut stream = client.stream(&[5; 1_000]).expect("sent");
        for number in 0..3u8 {
            stream.send(&[number; 20_000]).expect("room");
        }
        let mut request = server.try_next().expect("well").expect("asked");
        let parts: Vec<_> =
            (0..taken).map(|_| next_part(&mut request).expect("well").expect("sent")).collect();
        drop(stream);
        assert!(matches!(next_part(&mut request), Err(RecvError::Cancelled)));
        assert!(request.is_cancelled());
        for (number, part) in parts.iter().enumerate() {
            assert_eq!(**part, [number as u8; 20_000]);
        }
    }
    // One that no server has begun.
    let mut stream = client.stream(b"first").expect("sent");
    stream.send(&[1; 20_000]).expect("room");
    drop(stream);
    assert!(server.try_next().expect("well").is_none());
    drop(client);
    assert_eq!(domain.sweep(true).expect("looks").objects, 0);
}

fn parts_of_values(world: &World) {
    let domain = world.domain();
    let service = Service::<[f64], f64>::open_or_create(&domain, "sum").expect("made");
    let (mut server, client) = (service.server().expect("none"), service.client().expect("room"));
    let mut stream = client.stream(&[1.0]).expect("sent");
    for number in 0..5 {
        stream.send(&vec![0.5; number * 1000]).expect("room");
    }
    let call = stream.finish().expect("well");
    let mut request = server.try_next().expect("well").expect("asked");
    let mut sum = request.value().iter().sum::<f64>();
    while let Some(part) = request.next_part().expect("sent") {
        sum += part.value().iter().sum::<f64>();
    }
    request.reply(&sum).expect("it waits");
    assert_eq!(call.wait().expect("answered").value(), 5001.0);
}

fn one_of_several_servers_takes_the_parts(world: &World) {
    let domain = world.domain();
    Service::<[u8]>::options().max_servers(2).create_new(&domain, "s").expect("made");
    let mut servers = [3u64, 3].map(|requests| {
        let domain = &domain;
        Child::start(move || count(domain, requests))
    });
    let clients = [1u64, 2].map(|who| {
        let domain = &domain;
        Child::start(move || {
            let client = client_of(domain, "s");
            client.set_wait_for_server(true);
            for round in 0..3 {
                assert_eq!(upload(&client, who, 30 + round, |_| 400), 30 + round);
            }
        })
    });
    // Each server has three of the six: while one takes parts, the other takes the next request.
    for mut client in clients {
        assert_eq!(client.wait(), End::Code(0));
    }
    servers.iter_mut().for_each(|server| assert_eq!(server.wait(), End::Code(0)));
}

fn an_upload_that_begins_anew_is_not_the_first_ones_end(world: &World) {
    let domain = world.domain();
    let (mut server, client) = (server_of(&domain, "s"), client_of(&domain, "s"));
    for taken in [0, 3] {
        let mut first = client.stream(b"first").expect("sent");
        let mut request = server.try_next().expect("well").expect("asked");
        for _ in 0..taken {
            first.send(b"part").expect("room");
            assert!(next_part(&mut request).expect("sent").is_some());
        }
        drop(first);
        // It has the slot of the first one.
        let again = client.stream(b"again").expect("sent");
        assert_eq!(next_part(&mut request).expect_err("let go of"), RecvError::Cancelled);
        let mut other = server.try_next().expect("well").expect("asked");
        assert_eq!(other.client(), request.client());
        let call = again.finish().expect("well");
        assert!(next_part(&mut other).expect("well").is_none());
        assert_eq!(next_part(&mut request).expect_err("let go of"), RecvError::Cancelled);
        other.reply(b"done").expect("it waits");
        assert_eq!(*call.wait().expect("answered"), *b"done");
    }
}

fn a_send_that_waits_for_memory_is_told_what_its_server_does(world: &World) {
    const LEN: usize = 20_000;
    for dies in [false, true] {
        let domain = world.domain_named(&format!("dies-{dies}"));
        make_limited(&domain, "s", 64 << 10);
        let board = Board::new();
        let mut server = Child::start(|| {
            let mut server = server_of(&domain, "s");
            let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
            board.set(0, 1);
            board.reach(1, 1);
            if dies {
                loop {
                    std::thread::park();
                }
            }
            request.reply(b"enough").expect("it waits");
        });
        wait_until("a service", || domain.entry("s").is_ok());
        let client = client_of(&domain, "s");
        client.wait_for_server_timeout(PATIENCE).expect("it comes");
        let mut stream = client.stream(b"many").expect("sent");
        board.reach(0, 1);
        while stream.try_send(&[1; LEN]).is_ok() {}
        let error = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                // SAFETY: `gettid` has no arguments, and does not fail.
                board.set(2, unsafe { libc::gettid() } as u64);
                let error = stream.send_timeout(&[1; LEN], PATIENCE).expect_err("no memory");
                (error, stream)
            });
            let sleeper = board.reach(2, 1) as i32;
            wait_thread_asleep(std::process::id() as i32, sleeper);
            board.set(1, 1);
            if dies {
                server.kill();
            }
            sender.join().expect("no panic")
        });
        let (error, mut stream) = error;
        assert_eq!(domain.stats().rescues, 0, "it was woken");
        if dies {
            let died = CallError::ServerDied { begun: true };
            assert_eq!(error, died);
            // Told again, and not as an answer.
            assert_eq!(stream.send(b"more").expect_err("dead"), died);
            assert_eq!(stream.finish().err(), Some(died));
        } else {
            assert_eq!(error, CallError::Answered);
            let reply = stream.finish().expect("well").wait_timeout(PATIENCE);
            assert_eq!(*reply.expect("answered"), *b"enough");
            server.finish();
        }
    }
}

/// All together are more than the service has memory for: so each loan that is dropped, and each part and
/// reply that was read, must give its memory back.
fn parts_and_replies_by_loan(world: &World) {
    const LENGTHS: [usize; 5] = [0, 16, 112, 5_000, 20_000];
    let domain = world.domain();
    make_limited(&domain, "s", 256 << 10);
    let server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
        let mut stream = request.stream();
        while let Some(part) = match stream.next_part_timeout(PATIENCE).expect("sent") {
            Poll::Ready(found) => found,
            Poll::Pending => panic!("no part came in time"),
        } {
            drop(stream.loan_timeout(part.len(), PATIENCE).expect("room"));
            let mut reply = stream.loan_timeout(part.len(), PATIENCE).expect("room");
            reply.copy_from_slice(&part);
            reply.send().expect("it waits");
        }
        stream.finish().expect("it waits");
    });
    wait_until("a service", || domain.entry("s").is_ok());
    let client = client_of(&domain, "s");
    client.wait_for_server_timeout(PATIENCE).expect("it comes");
    let mut stream = client.stream(b"echo").expect("sent");
    for round in 0..200 {
        let len = LENGTHS[round % LENGTHS.len()];
        drop(stream.loan_timeout(len, PATIENCE).expect("room"));
        let mut part = stream.loan_timeout(len, PATIENCE).expect("room");
        part.fill(round as u8);
        assert_eq!(part.len(), len);
        part.send().expect("it takes parts");
        let Poll::Ready(Some(reply)) = stream.next_reply_timeout(PATIENCE).expect("sent") else {
            panic!("no reply came in time");
        };
        assert!(reply.len() == len && reply.iter().all(|&byte| byte == round as u8));
    }
    let mut call = stream.finish().expect("well");
    assert!(matches!(call.next_timeout(PATIENCE), Ok(Poll::Ready(None))));
    server.finish();
}

fn a_loan_of_a_part_is_told_what_its_server_does(world: &World) {
    const LEN: usize = 20_000;
    let domain = world.domain();
    make_limited(&domain, "s", 64 << 10);
    let (mut server, client) = (server_of(&domain, "s"), client_of(&domain, "s"));
    let mut stream = client.stream(b"many").expect("sent");
    let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
    let mut sent = 0;
    let full = loop {
        match stream.try_loan(LEN) {
            Ok(part) => part.send().expect("it takes parts"),
            Err(error) => break error,
        }
        sent += 1;
    };
    assert!((1..8).contains(&sent), "there is room for {sent}");
    assert_eq!(full, CallError::TimedOut { begun: true });
    let mut call = {
        let other = client.stream(b"other").expect("sent");
        let mut taken = server.next_timeout(PATIENCE).expect("served").expect("asked");
        drop(other);
        assert!(taken.try_next_part().is_err(), "its client has let go");
        // Memory of a dropped part.
        let short = client.stream(b"short").expect("sent");
        drop(taken);
        short
    };
    request.reply(b"enough").expect("it waits");
    assert_eq!(stream.try_loan(LEN).err(), Some(CallError::Answered));
    let part = call.loan_timeout(LEN, Duration::from_millis(1)).err();
    assert_eq!(part, Some(CallError::TimedOut { begun: false }), "all parts still lie there");
    assert_eq!(*stream.finish().expect("well").wait_timeout(PATIENCE).expect("there"), *b"enough");
    let part = call.loan_timeout(LEN, PATIENCE).expect("what was not taken is free");
    let next = server.next_timeout(PATIENCE).expect("served").expect("asked");
    next.fail("no").expect("it waits");
    assert_eq!(part.send(), Err(CallError::Answered));
}
