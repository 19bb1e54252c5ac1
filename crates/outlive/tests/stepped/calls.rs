//! Calls with a sweep at the instructions on the way: a client that lets go of a call which no server
//! has begun, a server that takes a client's calls, and a client whose server has died.
//!
//! In the first two, the call before, in the same slot, was answered by a thread that has ended: the
//! sweep takes that thread's id out of the claim, which changes the word that the client, or the
//! server, is about to change.

use std::cell::RefCell;

use outlive::rpc::{Client, Pending, Request, ServeError, Server};

use crate::board::Board;
use crate::child::PATIENCE;
use crate::runner::World;
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(
    what_is_cancelled_beside_a_sweep_is_not_begun: 120,
    requests_keep_their_order_beside_a_sweep: 120,
);

/// What `cancel` returned: whether the call was begun.
const BEGUN: usize = FREE;

/// The client is the child that is moved on. The server is the check's own, and looks afterwards.
fn what_is_cancelled_beside_a_sweep_is_not_begun(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut cancelling = Stepped::start(world, board, || {
        let client = Client::open(&domain, "s").expect("open");
        let pending = RefCell::new(None);
        let cancel = |_| {
            if let Some(call) = pending.take() {
                board.set(BEGUN, u64::from(Pending::cancel(call)));
            }
        };
        in_rounds(board, cancel, |_| {
            client.call(b"before").expect("answered");
            pending.replace(Some(client.begin(b"cancelled").expect("sent")));
        });
    });
    // Its first round has nothing to cancel.
    cancelling.step(u64::MAX);
    let mut server = Server::open(&domain, "s").expect("none lives");
    let mut steps = 0;
    loop {
        let answering = std::thread::spawn(move || {
            server.next_until(PATIENCE).expect("asked").reply(b"done").expect("it waits");
            server
        });
        cancelling.go_on();
        server = answering.join().expect("no panic");
        let is_over = cancelling.step(steps);
        let report = domain.sweep(false).expect("sweeps");
        assert!(report.failed.is_empty(), "{report:?}");
        cancelling.step(u64::MAX);
        assert_eq!(board.get(BEGUN), 0, "after {steps} instructions");
        assert_eq!(server.try_next().map(drop), Err(ServeError::Empty), "after {steps} instructions");
        if is_over {
            assert!(steps > 50, "{steps} instructions are too few to be true");
            return;
        }
        steps += 3;
    }
}

/// Of the requests that lay there, which one the server took: the last byte of it.
const TAKEN: usize = FREE;

/// The server is the child that is moved on, while it takes the first of two requests. The client is
/// the check's own.
fn requests_keep_their_order_beside_a_sweep(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let client = Client::open(&domain, "s").expect("open");
    client.wait_for_server(true);
    let mut serving = Stepped::start(world, board, || {
        let server = RefCell::new(Server::open(&domain, "s").expect("none lives"));
        let taken = RefCell::new(None);
        let reply = |request: Request| {
            let answer = request.to_vec();
            request.reply(&answer).expect("it waits");
        };
        let take = |_| {
            if let Ok(request) = server.borrow_mut().try_next() {
                board.set(TAKEN, u64::from(*request.last().expect("a byte")));
                taken.replace(Some(request));
            }
        };
        in_rounds(board, take, |_| {
            if let Some(request) = taken.take() {
                reply(request);
            }
            loop {
                let request = server.borrow_mut().next_until(PATIENCE).expect("asked");
                if *request == *b"before" {
                    std::thread::scope(|scope| scope.spawn(|| reply(request)).join()).expect("no panic");
                    return;
                }
                reply(request);
            }
        });
    });
    // In its first round nothing is asked.
    serving.step(u64::MAX);
    let mut before = client.begin_until(b"before", PATIENCE).expect("sent");
    serving.go_on();
    let mut steps = 0;
    loop {
        // Its slot is the next call's.
        before.wait().expect("answered");
        let asked = [[1], [2]].map(|request| client.begin(&request).expect("sent"));
        let is_over = serving.step(steps);
        let report = domain.sweep(false).expect("sweeps");
        assert!(report.failed.is_empty(), "{report:?}");
        before = client.begin(b"before").expect("sent");
        serving.go_on();
        assert_eq!(board.get(TAKEN), 1, "after {steps} instructions");
        if is_over {
            assert!(steps > 50, "{steps} instructions are too few to be true");
            return;
        }
        for call in asked {
            call.wait().expect("answered");
        }
        steps += 7;
    }
}
