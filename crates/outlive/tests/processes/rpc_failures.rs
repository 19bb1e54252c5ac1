//! Services that say why they have no reply: whole, after the replies, and whatever is full.

use std::task::Poll;

use outlive::SendError;
use outlive::rpc::CallError;

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE, wait_until};
use crate::rpc::{make_limited, next};
use crate::runner::World;
use crate::services::{client_of, server_of, waiting_client_of};

crate::checks!(
    a_failure_comes_in_its_own_words: 60,
    a_failure_needs_no_memory,
    a_failing_stream_needs_no_room,
    a_sleeping_client_is_told,
    a_failure_that_no_client_waits_for,
);

/// What a call was told that failed.
fn text(error: CallError) -> String {
    match error {
        CallError::Failed(text) => text,
        other => panic!("{other:?}"),
    }
}

fn a_failure_comes_in_its_own_words(world: &World) {
    let domain = world.domain();
    make_limited(&domain, "s", 1 << 20);
    let (mut server, client) = (server_of(&domain, "s"), client_of(&domain, "s"));
    // In the slot and in an object by turns: nothing of an earlier one is left.
    for round in 0..400 {
        for len in [0, 1, 47, 48, 49, 200, 20_000] {
            let why = format!("{round:04} ").chars().cycle().take(len).collect::<String>();
            let call = client.begin(b"x").expect("sent");
            server.try_next().expect("served").expect("asked").fail(&why).expect("it waits");
            assert_eq!(text(call.wait().expect_err("failed")), why);
        }
        let mut call = client.begin(b"x").expect("sent");
        let request = server.try_next().expect("served").expect("asked");
        request.reply(b"y").expect("it waits");
        assert_eq!(*next(&mut call).expect("answered").expect("one"), *b"y");
        assert!(next(&mut call).expect("over").is_none());
    }
    // It is told once, and is cut between two letters.
    let mut call = client.begin(b"x").expect("sent");
    let request = server.try_next().expect("served").expect("asked");
    request.fail(&"ö".repeat(40_000)).expect("it waits");
    assert!(!call.is_over());
    assert_eq!(text(next(&mut call).expect_err("failed")), "ö".repeat(32 << 10));
    assert!(call.is_over() && next(&mut call).expect("over").is_none());
    wait_until("nothing of the dead", || domain.sweep(true).expect("looks").is_clean());
}

fn a_failure_needs_no_memory(world: &World) {
    let domain = world.domain();
    make_limited(&domain, "s", 1 << 20);
    let (mut server, client) = (server_of(&domain, "s"), client_of(&domain, "s"));
    let mut full = Vec::new();
    for len in [20_000, 1_000, 200] {
        loop {
            full.push(client.begin(b"x").expect("sent"));
            let request = server.try_next().expect("served").expect("asked");
            if request.reply(&vec![7; len]).is_err() {
                break;
            }
        }
    }
    let call = client.begin(b"x").expect("sent");
    let request = server.try_next().expect("served").expect("asked");
    request.fail(&"ab€".repeat(100)).expect("it needs none");
    assert_eq!(text(call.wait().expect_err("failed")), "ab€".repeat(9) + "ab");
    full.clear();
    let call = client.begin(b"x").expect("sent");
    let request = server.try_next().expect("served").expect("asked");
    request.fail(&"ab€".repeat(100)).expect("there is room again");
    assert_eq!(text(call.wait().expect_err("failed")), "ab€".repeat(100));
}

fn a_failing_stream_needs_no_room(world: &World) {
    let domain = world.domain();
    let (mut server, client) = (server_of(&domain, "s"), client_of(&domain, "s"));
    for (len, why) in [(4, "short"), (300, &*"long ".repeat(100))] {
        let mut call = client.begin(b"count").expect("sent");
        let mut stream = server.try_next().expect("served").expect("asked").stream();
        let mut count = 0;
        while stream.try_send(&vec![count; len]).is_ok() {
            count += 1;
        }
        assert_eq!(count, 8);
        stream.fail(why).expect("the client lives");
        for number in 0..count {
            assert_eq!(*next(&mut call).expect("sent").expect("one"), *vec![number; len]);
        }
        assert_eq!(text(next(&mut call).expect_err("failed")), why);
    }
    // One that a panic cuts off says so.
    let mut call = client.begin(b"count").expect("sent");
    let mut stream = server.try_next().expect("served").expect("asked").stream();
    stream.send(b"1").expect("the client lives");
    let panicked = std::thread::spawn(move || {
        let _stream = stream;
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert_eq!(*next(&mut call).expect("sent").expect("one"), *b"1");
    assert_eq!(text(next(&mut call).expect_err("failed")), "the server's thread panicked");
}

fn a_sleeping_client_is_told(world: &World) {
    let domain = world.domain();
    let ours = std::process::id() as i32;
    let server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        for _ in 0..20 {
            let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
            wait_asleep(ours);
            request.fail("asleep").expect("the client lives");
        }
    });
    let client = waiting_client_of(&domain, "s");
    for _ in 0..20 {
        let error = client.call_timeout(b"x", PATIENCE).expect_err("failed");
        assert_eq!(text(error), "asleep");
    }
    server.finish();
}

fn a_failure_that_no_client_waits_for(world: &World) {
    let domain = world.domain();
    make_limited(&domain, "s", 1 << 20);
    let (mut server, client) = (server_of(&domain, "s"), client_of(&domain, "s"));
    let why = "a long text ".repeat(2_000);
    let call = client.begin(b"x").expect("sent");
    let request = server.try_next().expect("served").expect("asked");
    assert!(call.cancel());
    assert_eq!(request.fail(&why), Err(SendError::Cancelled));
    // One that was told and never taken: its memory comes back with the slot.
    for _ in 0..200 {
        let mut call = client.begin(b"x").expect("sent");
        let request = server.try_next().expect("served").expect("asked");
        assert!(matches!(call.try_next(), Ok(Poll::Pending)));
        request.fail(&why).expect("it waits");
        drop(call);
    }
    // A dead client's, told or not.
    for tells in [true, false] {
        let board = Board::new();
        let mut victim = Child::start(|| {
            let client = client_of(&domain, "s");
            let _call = client.begin(b"x").expect("sent");
            board.set(0, 1);
            std::thread::park();
        });
        board.reach(0, 1);
        let request = server.try_next().expect("served").expect("asked");
        if tells {
            request.fail(&why).expect("the client lives");
            victim.kill();
        } else {
            victim.kill();
            assert_eq!(request.fail(&why), Err(SendError::ReceiverDied));
        }
    }
    domain.sweep(false).expect("swept");
    wait_until("nothing of the dead", || domain.sweep(true).expect("looks").is_clean());
}
