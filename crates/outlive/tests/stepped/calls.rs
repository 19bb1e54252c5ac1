//! Sweeps between two instructions of a client or a server: of a client that lets go of a call
//! which no server has begun, of a server that takes a client's calls, and of a client whose server
//! has died. And a client that begins to wait for memory between two instructions of the server that
//! keeps it. And a server that is stopped between two instructions, while another one serves beside it.
//!
//! In the first two checks, the call before, in the same slot, was answered by a thread that has
//! ended: the sweep takes that thread's id out of the claim, which changes the word that the
//! client, or the server, is about to change.

use std::cell::RefCell;
use std::task::Poll;
use std::time::{Duration, Instant};

use outlive::rpc::{Call, CallError, Request, Service};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::runner::World;
use crate::services::{client_of, server_of, waiting_client_of};
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(
    what_is_cancelled_beside_a_sweep_is_not_begun: 120,
    requests_keep_their_order_beside_a_sweep: 120,
    a_reply_comes_before_the_death_beside_a_sweep: 120,
    memory_that_is_kept_comes_to_a_client_that_waits_for_it: 120,
    a_call_whose_bit_a_stopped_server_has_cleared_comes_to_another: 120,
);

/// What `cancel` returned: whether the call was begun.
const BEGUN: usize = FREE;

/// The client is the child that is moved on. The check itself is the server, and looks afterwards.
fn what_is_cancelled_beside_a_sweep_is_not_begun(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut cancelling = Stepped::start(world, board, || {
        let client = client_of(&domain, "s");
        let pending = RefCell::new(None);
        let cancel = |_| {
            if let Some(call) = pending.take() {
                board.set(BEGUN, u64::from(Call::cancel(call)));
            }
        };
        in_rounds(board, cancel, |_| {
            client.call(b"before").expect("answered");
            pending.replace(Some(client.begin(b"cancelled").expect("sent")));
        });
    });
    // Its first round has nothing to cancel.
    cancelling.step(u64::MAX);
    let mut server = server_of(&domain, "s");
    let mut steps = 0;
    loop {
        let answering = std::thread::spawn(move || {
            server
                .next_timeout(PATIENCE)
                .expect("served")
                .expect("asked")
                .reply(b"done")
                .expect("it waits");
            server
        });
        cancelling.go_on();
        server = answering.join().expect("no panic");
        let is_over = cancelling.step(steps);
        let report = domain.sweep(false).expect("sweeps");
        assert!(report.failed.is_empty(), "{report:?}");
        cancelling.step(u64::MAX);
        assert_eq!(board.get(BEGUN), 0, "after {steps} instructions");
        assert!(matches!(server.try_next(), Ok(None)), "after {steps} instructions");
        if is_over {
            assert!(steps > 50, "{steps} instructions are too few to be true");
            return;
        }
        steps += 3;
    }
}

/// The last byte of the request that the server took: it says which one that was.
const TAKEN: usize = FREE;

/// The server is the child that is moved on, while it takes the first of two requests. The check
/// itself is the client.
fn requests_keep_their_order_beside_a_sweep(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let client = waiting_client_of(&domain, "s");
    let mut serving = Stepped::start(world, board, || {
        let server = RefCell::new(server_of(&domain, "s"));
        let taken = RefCell::new(None);
        let reply = |request: Request| {
            let answer = request.to_vec();
            request.reply(&answer).expect("it waits");
        };
        let take = |_| {
            if let Ok(Some(request)) = server.borrow_mut().try_next() {
                board.set(TAKEN, u64::from(*request.last().expect("a byte")));
                taken.replace(Some(request));
            }
        };
        in_rounds(board, take, |_| {
            if let Some(request) = taken.take() {
                reply(request);
            }
            loop {
                let request =
                    server.borrow_mut().next_timeout(PATIENCE).expect("served").expect("asked");
                if *request == *b"before" {
                    std::thread::scope(|scope| scope.spawn(|| reply(request)).join())
                        .expect("no panic");
                    return;
                }
                reply(request);
            }
        });
    });
    // In the server's first round, no call is asked.
    serving.step(u64::MAX);
    let mut before = client.begin_timeout(b"before", PATIENCE).expect("sent");
    serving.go_on();
    let mut steps = 0;
    loop {
        // The next call uses its slot.
        before.wait().expect("answered");
        let asked = [[1], [2]].map(|request| client.begin(&request).expect("sent"));
        board.set(TAKEN, 0);
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

/// How many requests servers have taken, and to how many they have sent a reply.
const BEGUN_BY_NOW: usize = FREE;
const SENT: usize = FREE + 1;
/// To how many requests the servers may send a reply.
const MAY_SEND: usize = FREE + 2;
/// Whether the client's look was an error.
const FAILED: usize = FREE + 3;

/// Starts a server that sends one reply to its only request when it may, and then waits to be
/// killed.
fn start_server(domain: &outlive::Domain, board: Board) -> Child {
    Child::start(|| {
        let mut server = server_of(domain, "s");
        let mut stream = server.next_timeout(PATIENCE).expect("served").expect("asked").stream();
        let number = board.add(BEGUN_BY_NOW, 1);
        board.reach(MAY_SEND, number);
        stream.send(b"a reply").expect("it waits");
        board.set(SENT, number);
        loop {
            std::thread::park();
        }
    })
}

/// The client is the child that is moved on, while it looks for a reply. The server sends one, is
/// killed, and a sweep takes it out of the call.
fn a_reply_comes_before_the_death_beside_a_sweep(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut looking = Stepped::start(world, board, || {
        let client = waiting_client_of(&domain, "s");
        let call = RefCell::new(None::<Call<'_>>);
        let is_there = std::cell::Cell::new(false);
        let look = |_| {
            if let Some(call) = call.borrow_mut().as_mut() {
                let found = call.try_next();
                board.set(FAILED, u64::from(found.is_err()));
                is_there.set(matches!(found, Ok(Poll::Ready(_))));
            }
        };
        in_rounds(board, look, |_| {
            if let Some(mut call) = call.take() {
                let mut next = || call.next_timeout(PATIENCE);
                assert!(is_there.get() || next().expect("sent before the death").is_ready());
                assert_eq!(next().expect_err("dead"), CallError::ServerDied { begun: true });
            }
            call.replace(Some(client.begin_timeout(b"x", PATIENCE).expect("sent")));
        });
    });
    // In its first round, the client has no reply to look for.
    looking.step(u64::MAX);
    let mut steps = 0;
    for number in 1.. {
        let mut server = start_server(&domain, board);
        looking.go_on();
        board.reach(BEGUN_BY_NOW, number);
        let is_over = looking.step(steps);
        board.set(MAY_SEND, number);
        board.reach(SENT, number);
        server.kill();
        let report = domain.sweep(false).expect("sweeps");
        assert!(report.failed.is_empty(), "{report:?}");
        looking.step(u64::MAX);
        assert_eq!(
            board.get(FAILED),
            0,
            "told of the death before the reply, after {steps} instructions"
        );
        if is_over {
            assert!(steps > 50, "{steps} instructions are too few to be true");
            return;
        }
        steps += 3;
    }
}

/// A request that has all of the service's memory.
static LONG: [u8; 20_000] = [1; 20_000];

/// The server is the child that is moved on, while it replies to a long request and keeps its memory
/// for a reply of its own. The check itself is the client whose next request needs that memory, and
/// that begins to wait for it in between.
fn memory_that_is_kept_comes_to_a_client_that_waits_for_it(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let service = Service::<[u8]>::options().max_bytes(64 << 10).create_new(&domain, "s");
    let service = service.expect("made");
    let mut serving = Stepped::start(world, board, || {
        let server = RefCell::new(server_of(&domain, "s"));
        let taken: RefCell<Option<Request>> = RefCell::new(None);
        let reply = |_| {
            if let Some(request) = taken.take() {
                request.reply(b"done").expect("it waits");
            }
        };
        in_rounds(board, reply, |_| {
            let request = server.borrow_mut().next_timeout(PATIENCE);
            taken.replace(request.expect("served"));
        });
    });
    serving.step(u64::MAX);
    let client = service.client().expect("room");
    let (mut steps, mut waits, mut late) = (0, 0, 0);
    loop {
        let first = client.begin(&LONG).expect("sent");
        serving.go_on();
        let is_over = serving.step(steps);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let client = service.client().expect("room");
                let begun = client.begin_timeout(&LONG, PATIENCE).expect("memory");
                // Its memory comes back before the next round.
                begun.cancel();
                Instant::now()
            });
            // So that it is asleep.
            std::thread::sleep(Duration::from_millis(15));
            waits += u32::from(!waiting.is_finished());
            serving.step(u64::MAX);
            let free = Instant::now();
            let took = waiting.join().expect("no panic").saturating_duration_since(free);
            // A client that waits for memory looks again once a second by itself. A busy machine is late
            // now and then; a wake-up that is lost after so many instructions is lost each time.
            late = if took < Duration::from_millis(400) { 0 } else { late + 1 };
            assert!(late < 5, "after {steps} instructions: {took:?}");
        });
        assert_eq!(first.wait().expect("answered").as_ref(), b"done");
        if late > 0 {
            continue;
        }
        if is_over {
            assert!(steps > 300 && waits > 20, "{steps} instructions, {waits} waits");
            return;
        }
        steps += 7;
    }
}

/// How far the server is moved on once the call has been asked: it may clear the call's bit in there.
const ON: u64 = 30;

/// The child is one of two servers. It finds the bit of a cancelled call, and is stopped before it
/// clears that; the client asks again in the same slot; the server clears that bit, and is stopped before
/// its second look. The check itself is the client and the other server.
fn a_call_whose_bit_a_stopped_server_has_cleared_comes_to_another(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let service = Service::<[u8]>::options().max_servers(2).create_new(&domain, "s");
    let service = service.expect("made");
    let mut serving = Stepped::start(world, board, || {
        let server = RefCell::new(server_of(&domain, "s"));
        let taken: RefCell<Option<Request>> = RefCell::new(None);
        let take = |_| {
            taken.replace(server.borrow_mut().try_next().expect("serves"));
        };
        in_rounds(board, take, |_| {
            if let Some(request) = taken.take() {
                request.reply(b"by the first").expect("it waits");
            }
        });
    });
    serving.step(u64::MAX);
    let (mut other, client) = (service.server().expect("a place"), service.client().expect("room"));
    serving.go_on();
    let (mut steps, mut cleared) = (0, 0);
    loop {
        client.begin(b"cancelled").expect("sent").cancel();
        let is_over = serving.step(steps);
        let call = client.begin(b"asked").expect("sent");
        serving.step(ON);
        // The server is stopped: the word stays as it is.
        let by = if call.is_begun() {
            &b"by the first"[..]
        } else {
            let request = match other.try_next().expect("serves") {
                Some(request) => request,
                None => {
                    cleared += 1;
                    let found = other.next_timeout(PATIENCE).expect("serves");
                    found.unwrap_or_else(|| panic!("not found, after {steps} instructions"))
                }
            };
            request.reply(b"by the other").expect("it waits");
            b"by the other"
        };
        // What the first server has begun, it replies to in here.
        serving.go_on();
        assert_eq!(*call.wait_timeout(PATIENCE).expect("answered"), *by, "{steps} instructions");
        if is_over {
            assert!(cleared > 0, "no bit was cleared in {steps} instructions");
            return;
        }
        steps += 3;
    }
}
