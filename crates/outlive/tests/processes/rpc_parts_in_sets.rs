//! Requests of several parts, with sides that wait in wait sets: for parts, replies, room and memory.

use std::task::Poll;

use outlive::rpc::CallError;
use outlive::wait::{Readiness, WaitSet};
use outlive::{Domain, RecvError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::rpc::{make_limited, next};
use crate::rpc_parts::next_part;
use crate::runner::World;
use crate::services::{client_of, server_of};

crate::checks!(
    parts_and_their_end_wake_a_set,
    replies_to_a_stream_wake_a_set,
    room_for_a_part_wakes_a_set,
    room_for_a_reply_wakes_a_set,
    memory_for_a_part_wakes_a_set,
);

/// Whether both rings are full, and then whether the check has seen what follows.
const FULL: usize = 0;

/// Returns a domain with a service of 64 KiB.
fn small(world: &World, name: &str) -> Domain {
    let domain = world.domain_named(name);
    make_limited(&domain, "s", 64 << 10);
    domain
}

fn ready(set: &mut WaitSet) -> Vec<Readiness> {
    set.wait_timeout(PATIENCE).expect("waits").map(|(_, what)| what).collect()
}

/// The set sleeps each time: the client acts once this process is asleep.
fn parts_and_their_end_wake_a_set(world: &World) {
    for (name, end) in [("finish", 0), ("cancel", 1), ("die", 2)] {
        let domain = world.domain_named(name);
        make_limited(&domain, "s", 1 << 20);
        let mut server = server_of(&domain, "s");
        let me = std::process::id() as i32;
        // How many parts have been taken: a process that is about to wake is still asleep.
        let taken = Board::new();
        let client = Child::start(|| {
            let client = client_of(&domain, "s");
            let mut stream = client.stream(b"many").expect("sent");
            for (before, part) in (0..).zip([b"1", b"2"]) {
                taken.reach(0, before);
                wait_asleep(me);
                stream.send(part).expect("room");
            }
            taken.reach(0, 2);
            wait_asleep(me);
            match end {
                0 => {
                    let reply = stream.finish().expect("well").wait_timeout(PATIENCE);
                    assert_eq!(*reply.expect("answered"), *b"done");
                }
                1 => assert!(stream.cancel()),
                _ => crate::child::exit_now(0),
            }
        });
        let mut request = server.next_timeout(PATIENCE).expect("served").expect("asked");
        let mut set = WaitSet::new(&domain);
        set.add(&request.parts()).expect("a source");
        for part in [b"1", b"2"] {
            assert_eq!(ready(&mut set), [Readiness::Readable]);
            let Poll::Ready(Some(found)) = request.try_next_part().expect("there") else {
                panic!("the set said so");
            };
            assert_eq!(*found, *part);
            taken.add(0, 1);
        }
        if end == 0 {
            assert_eq!(ready(&mut set), [Readiness::Readable]);
            assert!(matches!(request.try_next_part(), Ok(Poll::Ready(None))));
            assert_eq!(set.try_wait().expect("waits").count(), 0, "the end was told");
            request.reply(b"done").expect("it waits");
            assert_eq!(set.try_wait().expect("waits").count(), 0, "answered");
        } else {
            assert_eq!(ready(&mut set), [Readiness::Ended]);
            assert_eq!(request.try_next_part().map(|_| ()), Err(RecvError::Cancelled));
        }
        client.finish();
        assert_eq!(domain.stats().rescues, 0);
    }
}

fn replies_to_a_stream_wake_a_set(world: &World) {
    let domain = world.domain();
    make_limited(&domain, "s", 1 << 20);
    let me = std::process::id() as i32;
    let server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
        let mut stream = request.stream();
        let mut set = WaitSet::new(&domain);
        set.add(&stream.parts()).expect("a source");
        assert_eq!(ready(&mut set), [Readiness::Readable]);
        while let Poll::Ready(Some(part)) = stream.try_next_part().expect("well") {
            wait_asleep(me);
            stream.send(&part).expect("it waits");
        }
        wait_asleep(me);
        stream.finish().expect("it waits");
    });
    let client = client_of(&domain, "s");
    client.wait_for_server_timeout(PATIENCE).expect("it comes");
    let mut stream = client.stream(b"echo").expect("sent");
    let mut set = WaitSet::new(&domain);
    set.add(&stream).expect("a source");
    stream.send(b"1").expect("room");
    assert_eq!(ready(&mut set), [Readiness::Readable]);
    let Poll::Ready(Some(reply)) = stream.try_next_reply().expect("there") else {
        panic!("the set said so");
    };
    assert_eq!(*reply, *b"1");
    assert_eq!(ready(&mut set), [Readiness::Readable]);
    assert!(matches!(stream.try_next_reply(), Ok(Poll::Ready(None))));
    assert_eq!(set.try_wait().expect("waits").count(), 0, "it is over");
    server.finish();
    assert_eq!(domain.stats().rescues, 0);
}

/// Both rings are full, and the set sleeps: the server takes a part, or replies in full, or dies.
fn room_for_a_part_wakes_a_set(world: &World) {
    for (name, does) in [("take", 0), ("end", 1), ("die", 2)] {
        let domain = small(world, name);
        let me = std::process::id() as i32;
        let board = Board::new();
        let server = Child::start(|| {
            let mut server = server_of(&domain, "s");
            let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
            let mut stream = request.stream();
            while stream.try_send(b"a reply").is_ok() {}
            board.reach(FULL, 1);
            wait_asleep(me);
            match does {
                0 => {
                    assert!(matches!(stream.try_next_part(), Ok(Poll::Ready(Some(_)))));
                    board.reach(FULL, 2);
                }
                1 => stream.fail("enough").expect("it waits"),
                _ => crate::child::exit_now(0),
            }
        });
        let client = client_of(&domain, "s");
        client.wait_for_server_timeout(PATIENCE).expect("it comes");
        let mut stream = client.stream(b"both").expect("sent");
        let mut set = WaitSet::new(&domain);
        set.add(&stream.room()).expect("a source");
        assert_eq!(ready(&mut set), [Readiness::Writable], "there is room");
        while stream.try_send(b"a part").is_ok() {}
        board.set(FULL, 1);
        let ready = ready(&mut set);
        match does {
            0 => {
                assert_eq!(ready, [Readiness::Writable]);
                stream.try_send(b"a part").expect("the set said so");
                assert_eq!(set.try_wait().expect("waits").count(), 0, "for one");
                let call = stream.finish().expect("well");
                assert_eq!(set.try_wait().expect("waits").count(), 0, "no part comes");
                board.set(FULL, 2);
                drop(call);
            }
            1 => {
                assert_eq!(ready, [Readiness::Writable]);
                assert_eq!(stream.try_send(b"a part"), Err(CallError::Answered));
                let mut call = stream.finish().expect("well");
                for _ in 0..8 {
                    assert!(next(&mut call).expect("sent").is_some());
                }
                assert_eq!(next(&mut call).unwrap_err(), CallError::Failed("enough".to_owned()));
                assert_eq!(set.try_wait().expect("waits").count(), 0, "it is over");
            }
            _ => {
                assert_eq!(ready, [Readiness::Ended]);
                let died = CallError::ServerDied { begun: true };
                assert_eq!(stream.try_send(b"a part"), Err(died));
            }
        }
        server.finish();
    }
}

/// Both rings are full, and the set sleeps: the client takes a reply, or lets go, or dies.
fn room_for_a_reply_wakes_a_set(world: &World) {
    for (name, does) in [("take", 0), ("cancel", 1), ("die", 2)] {
        let domain = small(world, name);
        let me = std::process::id() as i32;
        let mut server = server_of(&domain, "s");
        let board = Board::new();
        let client = Child::start(|| {
            let client = client_of(&domain, "s");
            let mut stream = client.stream(b"both").expect("sent");
            while stream.try_send(b"a part").is_ok() {}
            board.reach(FULL, 1);
            wait_asleep(me);
            match does {
                0 => {
                    assert!(matches!(stream.try_next_reply(), Ok(Poll::Ready(Some(_)))));
                    board.reach(FULL, 2);
                }
                1 => assert!(stream.cancel()),
                _ => crate::child::exit_now(0),
            }
        });
        let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
        let mut stream = request.stream();
        let mut set = WaitSet::new(&domain);
        set.add(&stream.room()).expect("a source");
        assert_eq!(ready(&mut set), [Readiness::Writable], "there is room");
        while stream.try_send(b"a reply").is_ok() {}
        board.set(FULL, 1);
        let ready = ready(&mut set);
        if does == 0 {
            assert_eq!(ready, [Readiness::Writable]);
            stream.try_send(b"a reply").expect("the set said so");
            assert_eq!(set.try_wait().expect("waits").count(), 0, "for one");
            stream.finish().expect("it waits");
            assert_eq!(set.try_wait().expect("waits").count(), 0, "it is answered");
            board.set(FULL, 2);
        } else {
            assert_eq!(ready, [Readiness::Ended]);
            assert!(stream.try_send(b"a reply").is_err());
        }
        client.finish();
    }
}

/// The ring has room, and the service has no memory: the set is ready once the server has given some
/// back.
fn memory_for_a_part_wakes_a_set(world: &World) {
    let domain = small(world, "memory");
    let me = std::process::id() as i32;
    let part = [7; 20_000];
    let server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        let mut request = server.next_timeout(PATIENCE).expect("served").expect("asked");
        wait_asleep(me);
        let mut count = 0_u8;
        while next_part(&mut request).expect("sent").is_some() {
            count += 1;
        }
        request.reply(&[count]).expect("it waits");
    });
    let client = client_of(&domain, "s");
    client.wait_for_server_timeout(PATIENCE).expect("it comes");
    let mut stream = client.stream(b"much").expect("sent");
    let mut set = WaitSet::new(&domain);
    set.add(&stream.room()).expect("a source");
    let (mut sent, mut waits) = (0_u8, 0);
    while sent < 20 {
        match stream.try_send(&part) {
            Ok(()) => sent += 1,
            Err(CallError::TimedOut { .. }) => {
                waits += 1;
                assert_eq!(ready(&mut set), [Readiness::Writable]);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(waits > 0, "the memory was never missing");
    let reply = stream.finish().expect("well").wait_timeout(PATIENCE).expect("answered");
    assert_eq!(*reply, [20]);
    server.finish();
}
