//! A call that is let go of before a server has begun it, with a sweep at the instructions on the
//! way.
//!
//! The client is the child that is moved on. The call before, in the same slot, was answered by a
//! thread that has ended: the sweep takes that thread's id out of the claim, which changes the word
//! that the client is about to change. The server is the check's own, and looks afterwards.

use std::cell::RefCell;

use outlive::rpc::{Client, ServeError, Server};

use crate::board::Board;
use crate::child::PATIENCE;
use crate::runner::World;
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(
    what_is_cancelled_beside_a_sweep_is_not_begun: 120,
);

/// What `cancel` returned: whether the call was begun.
const BEGUN: usize = FREE;

fn what_is_cancelled_beside_a_sweep_is_not_begun(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut cancelling = Stepped::start(world, board, || {
        let client = Client::open(&domain, "s").expect("open");
        let pending = RefCell::new(None);
        let cancel = |_| {
            if let Some(call) = pending.take() {
                board.set(BEGUN, u64::from(outlive::rpc::Pending::cancel(call)));
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
