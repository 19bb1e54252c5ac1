//! Threads and tasks of one client, servers that are told when no client waits, and long messages in
//! place.

use std::sync::Arc;
use std::time::Duration;

use outlive::rpc::{CallError, Client, Server, Service};
use outlive::wait::{Readiness, WaitSet};
use outlive::{Deadline, WaitError, WaitStrategy};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::order::message;
use crate::random::Random;
use crate::rpc::{await_server, echo, next};
use crate::runner::World;
use crate::services::{client_of, server_of};

crate::checks!(
    threads_and_tasks_share_a_client,
    a_server_is_told_when_no_client_waits,
    long_messages_are_written_and_read_in_place,
    the_next_long_message_takes_the_memory_of_the_last,
    kept_memory_of_a_dead_process_is_freed,
);

fn threads_and_tasks_share_a_client(world: &World) {
    let domain = world.domain();
    let _server = Child::start(|| echo(&domain, "s"));
    let client = Arc::new(client_of(&domain, "s"));
    await_server(&client);
    // More calls at once than one client slot has; some are let go of.
    let threads: Vec<_> = (0..4u64)
        .map(|who| {
            let client = Arc::clone(&client);
            std::thread::spawn(move || {
                let mut random = Random::from_seed(who);
                for round in 0..40 {
                    let sent: Vec<_> = (0..8)
                        .map(|n| {
                            let len = if n == 7 { 3_000 } else { 16 + random.below(90) as usize };
                            let bytes = message(who, round * 8 + n, len);
                            (client.begin(&bytes).expect("sent"), bytes)
                        })
                        .collect();
                    for (n, (mut call, bytes)) in sent.into_iter().enumerate() {
                        if n != 3 {
                            assert_eq!(*next(&mut call).expect("well").expect("one"), *bytes);
                        }
                    }
                }
            })
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build();
    runtime.expect("built").block_on(async {
        let tasks: Vec<_> = (0..60u64)
            .map(|n| {
                let client = Arc::clone(&client);
                tokio::spawn(async move {
                    let bytes = message(9, n, 40);
                    // A call that borrows from what its task has, and one that borrows nothing.
                    let mut call = client.begin(&bytes).expect("sent");
                    let reply = call.next_async().await.expect("answered").expect("one");
                    assert_eq!(*reply, *bytes);
                    drop(call);
                    let call = client.begin_owned(&bytes).expect("sent");
                    drop(client);
                    let reply = tokio::spawn(call.wait_async()).await;
                    assert_eq!(*reply.expect("no panic").expect("answered"), *bytes);
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    });
    threads.into_iter().for_each(|one| one.join().expect("no panic"));
    drop(client);
    let report = domain.sweep(true).expect("looks");
    assert_eq!(report.objects, 0, "nothing is left of calls that were let go of: {report:?}");
}

fn a_server_is_told_when_no_client_waits(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let service = Service::<[u8]>::open(&domain, "s").expect("opens");
    let client = Arc::new(service.client().expect("room"));
    // Dropped; cancelled by its deadline; its client dead.
    let dropped = client.begin_owned(b"dropped").expect("sent");
    let late = std::thread::spawn({
        let client = Arc::clone(&client);
        move || client.call_timeout(b"late", Duration::from_secs(2))
    });
    let mut other = Child::start(|| {
        let client = client_of(&domain, "s");
        let _call = client.begin(b"killed").expect("sent");
        loop {
            std::thread::park();
        }
    });
    let mut dropped = Some(dropped);
    let mut set = WaitSet::new(&domain);
    set.set_wait_strategy(WaitStrategy::Block);
    for _ in 0..3 {
        let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
        let is_late = *request == *b"late";
        assert!(is_late || request.try_wait_cancelled() == Err(WaitError::TimedOut));
        let key = set.add(&request).expect("added");
        let past = Deadline::at_nanos(0);
        assert!(is_late || request.wait_cancelled_until(past) == Err(WaitError::TimedOut));
        let waiting = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| request.wait_cancelled_timeout(PATIENCE));
            match &*request {
                b"dropped" => drop(dropped.take()),
                b"killed" => other.kill(),
                _ => {}
            }
            let ready = set.wait_timeout(PATIENCE).expect("waits").collect::<Vec<_>>();
            assert_eq!(ready, [(key, Readiness::Ended)]);
            waiting.join().expect("no panic")
        });
        assert_eq!(waiting, Ok(()));
        assert!(request.is_cancelled());
        set.remove(key);
        drop(request);
    }
    let late = late.join().expect("no panic").expect_err("nobody answers");
    assert!(matches!(late, CallError::TimedOut { .. }));
    // One that is answered is never ready.
    let call = client.begin(b"answered").expect("sent");
    let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
    set.add(&request).expect("added");
    request.reply(b"well").expect("it waits");
    assert_eq!(*call.wait().expect("answered"), *b"well");
    let _next = client.begin(b"the same slot").expect("sent");
    let _request = server.next_timeout(PATIENCE).expect("served").expect("asked");
    assert_eq!(set.try_wait().expect("looks").count(), 0);
    assert_eq!(domain.stats().rescues, 0);
}

fn long_messages_are_written_and_read_in_place(world: &World) {
    const LEN: usize = 6_000_000;
    let domain = world.domain();
    // One mapping for both sides, so that addresses tell what was copied.
    let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
    let (mut server, client) =
        (service.server().expect("none"), Arc::new(service.client().expect("room")));
    let mut loan = client.loan(LEN).expect("room");
    loan.fill(3);
    let written = loan.as_ptr();
    let call = loan.begin().expect("sent");
    let request = server.try_next().expect("well").expect("asked");
    assert_eq!((request.as_ptr(), request.len()), (written, LEN));
    assert!(request.iter().all(|&byte| byte == 3));
    let mut answer = request.loan(LEN).expect("room");
    let (from, to) = answer.split();
    assert_ne!(from.as_ptr(), to.as_ptr());
    to.copy_from_slice(from);
    to[LEN / 2] = 4;
    let written = answer.as_ptr();
    answer.send().expect("it waits");
    let reply = call.wait().expect("answered");
    assert_eq!((reply.as_ptr(), reply.len(), reply[LEN / 2]), (written, LEN, 4));
    // A reply that the server copies in lies in the request's memory, if that suits it.
    for (len, is_same) in [(5_000, true), (4_000, true), (300, false), (9_000, false)] {
        let call = client.begin(&[5; 5_000]).expect("sent");
        let request = server.try_next().expect("well").expect("asked");
        let at = request.as_ptr();
        request.reply(&vec![6; len]).expect("it waits");
        let reply = call.wait().expect("answered");
        assert!(reply.len() == len && reply.iter().all(|&byte| byte == 6));
        assert_eq!(reply.as_ptr() == at, is_same, "{len}");
    }
    // Short ones, by the same calls; what is not sent comes back, from any thread.
    let mut loan = client.loan(64).expect("room");
    loan.copy_from_slice(&[7; 64]);
    let call = loan.begin().expect("sent");
    let request = server.try_next().expect("well").expect("asked");
    assert_eq!(*request, [7; 64]);
    let mut answer = request.loan(100).expect("room");
    answer.fill(8);
    answer.send().expect("it waits");
    assert_eq!(*call.wait().expect("answered"), [8; 100]);
    let unsent = (client.loan(LEN).expect("room"), reply);
    std::thread::scope(|scope| scope.spawn(|| drop(unsent)).join()).expect("no panic");
    let call = client.begin(b"unanswered").expect("sent");
    let request = server.try_next().expect("well").expect("asked");
    drop(request.loan(LEN).expect("room"));
    assert_eq!(call.wait().expect_err("not sent"), CallError::Dropped);
    // Values of other types, also those that are aligned to more than a slot is.
    let wide = Service::<[u128], u128>::open_or_create(&domain, "wide").expect("made");
    let (mut server, client) = (wide.server().expect("none"), wide.client().expect("room"));
    let mut loan = client.loan(3).expect("room");
    loan.copy_from_slice(&[1, 2, 3]);
    let call = loan.begin().expect("sent");
    let request = server.try_next().expect("well").expect("asked");
    let sum = request.value().iter().sum();
    let mut answer = request.loan_value().expect("room");
    *answer = sum;
    answer.send().expect("it waits");
    assert_eq!(call.wait().expect("answered").value(), 6);
    let report = domain.sweep(true).expect("looks");
    assert_eq!(report.objects, 0, "{report:?}");
}

/// Calls by loans; returns where the request and the reply lay.
fn call_by_loans(client: &Client, server: &mut Server, len: usize) -> (usize, usize) {
    let mut loan = client.loan(len).expect("room");
    loan.fill(1);
    let call = loan.begin().expect("sent");
    let request = server.try_next().expect("well").expect("asked");
    let at = request.as_ptr().addr();
    let mut answer = request.loan(len).expect("room");
    answer.fill(2);
    answer.send().expect("it waits");
    (at, call.wait().expect("answered").as_ptr().addr())
}

fn the_next_long_message_takes_the_memory_of_the_last(world: &World) {
    let domain = world.domain();
    // Two handles, as in two processes, but in one place: a forked child's addresses are the same.
    let opened = || Service::<[u8]>::open_or_create(&domain, "s").expect("made");
    let (asking, answering) = (opened(), opened());
    let (client, mut server) = (asking.client().expect("room"), answering.server().expect("none"));
    let base = |handle: &Service<[u8]>| {
        // Both mappings have the same objects: the first request's place tells how far they lie apart.
        let client = handle.client().expect("room");
        let loan = client.loan(200_000).expect("room");
        loan.as_ptr().addr()
    };
    let apart = base(&answering).wrapping_sub(base(&asking));
    let (mut asked, mut answered) = call_by_loans(&client, &mut server, 5_000);
    for len in [5_000, 4_000, 5_000] {
        let (request, reply) = call_by_loans(&client, &mut server, len);
        assert_eq!(request, answered.wrapping_add(apart), "the client writes where it has read");
        assert_eq!(reply.wrapping_add(apart), asked, "the server writes where it has read");
        (asked, answered) = (request, reply);
    }
    // What a message does not suit stays for the next one that it does.
    let (_, other) = call_by_loans(&client, &mut server, 500);
    assert_ne!(other, answered);
}

fn kept_memory_of_a_dead_process_is_freed(world: &World) {
    // The last handle gives it back; a process that dies has no time for that.
    for (closes, left) in [(true, 0), (false, 1)] {
        let domain = world.domain_named(&format!("closes-{closes}"));
        let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
        let mut server = service.server().expect("none");
        let board = Board::new();
        let mut child = Child::start(|| {
            let client = client_of(&domain, "s");
            for _ in 0..2 {
                let loan = client.loan(5_000).expect("room");
                assert_eq!(loan.call().expect("answered").len(), 5_000);
            }
            let kept = (!closes).then_some(client);
            board.set(0, 1);
            loop {
                std::thread::park();
                std::hint::black_box(&kept);
            }
        });
        for _ in 0..2 {
            let request = server.next_timeout(PATIENCE).expect("well").expect("asked");
            request.loan(5_000).expect("room").send().expect("it waits");
        }
        board.reach(0, 1);
        child.kill();
        assert_eq!(domain.sweep(true).expect("looks").objects, left);
    }
}
