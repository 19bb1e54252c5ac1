//! Calls, loans and streams as tasks: a task that has to wait blocks no thread of its executor.

use std::sync::Arc;
use std::time::Duration;

use outlive::rpc::{CallError, Client, Service};
use outlive::{Domain, SendError};
use tokio::runtime::Runtime;

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::runner::World;
use crate::services::{client_of, server_of};

crate::checks!(
    a_begin_waits_for_a_server_as_a_task,
    a_begin_that_waits_for_a_server_is_woken_by_a_second_place,
    a_begin_waits_for_memory_as_a_task,
    a_loan_waits_for_memory_as_a_task,
    a_server_that_dies_ends_a_task_that_waits_for_memory,
    a_stream_waits_for_room_as_a_task,
    a_client_that_dies_ends_a_task_that_sends,
    parts_wait_for_room_as_a_task,
    a_server_that_dies_ends_a_task_that_sends_parts,
    futures_move_between_threads: 60,
);

/// One thread for all tasks: one that blocked it would keep the others from running.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("built")
}

/// Runs the task to its end; before that `meanwhile`, once the task waits.
fn beside<T>(task: impl Future<Output = T>, meanwhile: impl FnOnce()) -> T {
    runtime().block_on(async {
        let mut task = std::pin::pin!(task);
        let brief = tokio::time::timeout(Duration::from_millis(30), &mut task).await;
        assert!(brief.is_err(), "it had not to wait");
        meanwhile();
        tokio::time::timeout(PATIENCE, task).await.expect("it is woken")
    })
}

fn a_begin_waits_for_a_server_as_a_task(world: &World) {
    let domain = world.domain();
    let client = client_of(&domain, "s");
    assert_eq!(runtime().block_on(client.call_async(b"a")).unwrap_err(), CallError::NoServer);
    client.set_wait_for_server(true);
    let board = Board::new();
    let mut server = None;
    let reply = beside(client.call_async(b"a"), || server = Some(echo_once(&domain, board)));
    assert_eq!(*reply.expect("served"), *b"a");
    server.expect("started").finish();
    let mut server = None;
    beside(client.wait_for_server_async(), || server = Some(server_of(&domain, "s"))).expect("one");
    assert_eq!(domain.stats().rescues, 0);
}

/// A process that serves one request.
fn echo_once(domain: &Domain, board: Board) -> Child {
    let child = Child::start(|| {
        let service = Service::<[u8]>::open(domain, "s").expect("there");
        let mut server = service.server().expect("none yet");
        board.set(0, 1);
        let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
        let payload = request.to_vec();
        request.reply(&payload).expect("wanted");
    });
    board.reach(0, 1);
    child
}

fn a_begin_that_waits_for_a_server_is_woken_by_a_second_place(world: &World) {
    let domain = world.domain();
    let service = Service::<[u8]>::options().max_servers(2).create_new(&domain, "s").expect("made");
    let board = Board::new();
    // The first place's holder is dead, and of a thread that is not: only the second is free.
    let mut first = Child::start(|| {
        let _server = service.server().expect("a place");
        board.set(1, 1);
        std::thread::sleep(PATIENCE);
    });
    board.reach(1, 1);
    first.kill();
    let client = service.client().expect("room");
    client.set_wait_for_server(true);
    let mut server = None;
    let reply = beside(client.call_async(b"a"), || server = Some(echo_once(&domain, board)));
    assert_eq!(*reply.expect("served"), *b"a");
    server.expect("started").finish();
}

/// A service whose memory a few long requests fill.
fn small(domain: &Domain) -> Service {
    Service::options().max_bytes(1 << 20).open_or_create(domain, "s").expect("made")
}

const LONG: usize = 200_000;

/// Calls that have all memory of the service.
fn fill(client: &Client) -> Vec<outlive::rpc::Call<'_>> {
    let mut calls = Vec::new();
    loop {
        match client.try_begin(&[1; LONG]) {
            Ok(call) => calls.push(call),
            Err(CallError::TimedOut { begun: false }) => break calls,
            Err(error) => panic!("{error}"),
        }
    }
}

fn a_begin_waits_for_memory_as_a_task(world: &World) {
    let domain = world.domain();
    let service = small(&domain);
    let mut server = service.server().expect("none yet");
    let client = service.client().expect("room");
    let calls = fill(&client);
    let mut served = None;
    let call = beside(client.begin_async(&[2; LONG]), || {
        served = Some(server.try_next().expect("served").expect("asked"));
        drop(served.take());
    });
    let call = call.expect("sent");
    drop(calls);
    let request = server.try_next().expect("served").expect("asked");
    assert_eq!(request.len(), LONG);
    assert_eq!(request[0], 2, "those of the dropped calls are skipped");
    request.reply(b"2").expect("wanted");
    assert_eq!(*call.wait().expect("served"), *b"2");
}

fn a_loan_waits_for_memory_as_a_task(world: &World) {
    let domain = world.domain();
    let service = small(&domain);
    let mut server = service.server().expect("none yet");
    let client = service.client().expect("room");
    let calls = fill(&client);
    let loan = beside(client.loan_async(LONG), || {
        drop(server.try_next().expect("served").expect("asked"));
    });
    let mut loan = loan.expect("lent");
    loan.fill(3);
    drop(calls);
    let call = runtime().block_on(loan.begin_async()).expect("sent");
    let request = server.try_next().expect("served").expect("asked");
    assert!(request.iter().all(|&byte| byte == 3));
    request.reply(b"3").expect("wanted");
    assert_eq!(*call.wait().expect("served"), *b"3");
    // A loan that waits for a server, and keeps its bytes meanwhile.
    drop(server);
    client.set_wait_for_server(true);
    let mut loan = client.loan(LONG).expect("lent");
    loan.fill(4);
    let mut server = None;
    let call = beside(loan.begin_async(), || server = Some(service.server().expect("free")));
    let call = call.expect("sent");
    let request = server.as_mut().expect("one").try_next().expect("served").expect("asked");
    assert!(request.iter().all(|&byte| byte == 4));
    drop(request);
    assert_eq!(call.wait().unwrap_err(), CallError::Dropped);
}

fn a_server_that_dies_ends_a_task_that_waits_for_memory(world: &World) {
    let domain = world.domain();
    let service = small(&domain);
    let board = Board::new();
    let mut server = Child::start(|| {
        let _server = service.server().expect("none yet");
        board.set(0, 1);
        std::thread::sleep(PATIENCE);
    });
    board.reach(0, 1);
    let client = service.client().expect("room");
    let _calls = fill(&client);
    let call = beside(client.begin_async(&[2; LONG]), || server.kill());
    assert_eq!(call.map(drop), Err(CallError::ServerDied { begun: false }));
}

fn a_stream_waits_for_room_as_a_task(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let client = client_of(&domain, "s");
    let mut call = client.begin(b"count").expect("sent");
    let mut stream = server.try_next().expect("served").expect("asked").stream();
    while stream.try_send(b"x").is_ok() {}
    let sent = beside(stream.send_async(b"last"), || _ = call.next().expect("one"));
    sent.expect("there is room");
    let cancelled = beside(stream.send_async(b"none"), || drop(call));
    assert_eq!(cancelled, Err(SendError::Cancelled));
}

fn a_client_that_dies_ends_a_task_that_sends(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let mut client = Child::start(|| {
        let client = client_of(&domain, "s");
        let _call = client.begin(b"count").expect("sent");
        std::thread::sleep(PATIENCE);
    });
    let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
    let mut stream = request.stream();
    while stream.try_send(b"x").is_ok() {}
    let died = beside(stream.send_async(b"x"), || client.kill());
    assert_eq!(died, Err(SendError::ReceiverDied));
}

fn parts_wait_for_room_as_a_task(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let client = client_of(&domain, "s");
    let mut parts = runtime().block_on(client.stream_async(b"upload")).expect("sent");
    let mut request = server.try_next().expect("served").expect("asked");
    while parts.try_send(b"part").is_ok() {}
    let sent = beside(parts.send_async(b"last"), || _ = request.next_part().expect("one"));
    sent.expect("there is room");
    // The server's end: all parts, then none is there, until the client sends it.
    while let Ok(std::task::Poll::Ready(Some(_))) = request.try_next_part() {}
    let part = beside(request.next_part_async(), || parts.send(b"one more").expect("room"));
    assert_eq!(*part.expect("taken").expect("there"), *b"one more");
    let mut stream = request.stream();
    stream.send(b"early").expect("room");
    let early = runtime().block_on(parts.next_reply_async()).expect("sent").expect("one");
    assert_eq!(*early, *b"early");
    let mut call = None;
    let end = beside(stream.next_part_async(), || call = Some(parts.finish().expect("ended")));
    assert!(end.expect("ended").is_none());
    stream.finish().expect("wanted");
    assert!(call.expect("one").next().expect("ended").is_none());
}

fn a_server_that_dies_ends_a_task_that_sends_parts(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        board.set(0, 1);
        let _request = server.next_timeout(PATIENCE).expect("served").expect("asked");
        board.set(0, 2);
        std::thread::sleep(PATIENCE);
    });
    board.reach(0, 1);
    let client = client_of(&domain, "s");
    let mut parts = runtime().block_on(client.stream_async(b"upload")).expect("sent");
    board.reach(0, 2);
    while parts.try_send(b"part").is_ok() {}
    let died = beside(parts.send_async(b"more"), || server.kill());
    assert_eq!(died, Err(CallError::ServerDied { begun: true }));
}

/// Many tasks on several threads, each of which may poll any of them.
fn futures_move_between_threads(world: &World) {
    let domain = world.domain();
    let _server = Child::start(|| {
        let service = Service::<[u8]>::open_or_create(&domain, "s").expect("opens");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        runtime.expect("built").block_on(async {
            let mut server = service.wait_to_serve_async().await.expect("free");
            loop {
                let mut request = server.next_async().await.expect("served");
                tokio::spawn(async move {
                    let mut bytes = request.to_vec();
                    while let Ok(Some(part)) = request.next_part_async().await {
                        bytes.extend_from_slice(&part);
                    }
                    let mut stream = request.stream();
                    for _ in 0..12 {
                        if stream.send_async(&bytes).await.is_err() {
                            return;
                        }
                    }
                    let _ = stream.finish();
                });
            }
        });
    });
    let client = client_of(&domain, "s");
    client.set_wait_for_server(true);
    let client = Arc::new(client);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build();
    runtime.expect("built").block_on(async {
        let tasks: Vec<_> = (0..40u8)
            .map(|n| {
                let client = Arc::clone(&client);
                tokio::spawn(async move {
                    let long = vec![n; 40 + 500 * usize::from(n)];
                    let mut call = match n % 4 {
                        0 => client.begin_async(&long).await.expect("sent"),
                        1 => client.begin_owned_async(&long).await.expect("sent"),
                        2 => {
                            let mut loan = client.loan_async(long.len()).await.expect("lent");
                            loan.copy_from_slice(&long);
                            loan.begin_async().await.expect("sent")
                        }
                        _ => {
                            let (first, rest) = long.split_at(7);
                            let mut parts = client.stream_owned_async(first).await.expect("sent");
                            for part in rest.chunks(100) {
                                parts.send_async(part).await.expect("room");
                            }
                            parts.finish().expect("ended")
                        }
                    };
                    for _ in 0..12 {
                        let reply =
                            call.next_async().await.expect("served").expect("one of twelve");
                        assert_eq!(*reply, *long);
                    }
                    assert!(call.next_async().await.expect("ended").is_none());
                })
            })
            .collect();
        for task in tasks {
            tokio::time::timeout(PATIENCE, task).await.expect("in time").expect("no panic");
        }
    });
    drop(client);
}
