//! A queue's first sender, at each instruction of its coming: the receiver, which is told when all
//! senders have gone, is not told so of one that is about to come.

use std::mem::forget;

use outlive::queue::Queue;

use crate::board::Board;
use crate::runner::World;
use crate::steps::{Stepped, in_rounds};

crate::checks!(the_first_sender_has_not_gone_before_it_has_come: 120);

fn the_first_sender_has_not_gone_before_it_has_come(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "queue").expect("made");
    let mut receiver = queue.receiver().expect("none yet");
    receiver.end_when_senders_gone(true);
    let board = Board::new();
    let mut stepped = Stepped::start(world, board, || {
        // What a process does once, it does before.
        domain.process_token().expect("a token");
        in_rounds(board, |_| forget(queue.sender().expect("a sender")), |_| {});
    });
    loop {
        let is_over = stepped.step(1);
        assert!(receiver.try_recv().expect("none has gone").is_none());
        if is_over {
            break;
        }
    }
    stepped.child.kill();
    assert!(receiver.recv_timeout(crate::child::PATIENCE).is_err(), "it has come and gone");
}
