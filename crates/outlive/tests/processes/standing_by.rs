//! Processes that stand by: when the receiver or the server leaves, or dies, one of them takes over,
//! and the others wait on.

use std::time::Duration;

use outlive::queue::Queue;
use outlive::rpc::Service;
use outlive::{Deadline, Domain, Error};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE, wait_until};
use crate::order::{message, read_message};
use crate::runner::World;
use crate::services::waiting_client_of;

crate::checks!(
    servers_take_over_one_after_the_other,
    receivers_take_over_one_after_the_other,
    a_stopped_server_stays_the_server,
    a_standby_that_is_killed_holds_up_no_other,
);

/// How many processes stand by.
const STANDING_BY: usize = 3;

/// Serves once it can, and says on the board that it does; ends with the process.
fn stand_by(domain: &Domain, board: &'static Board, who: usize) -> Child {
    let domain = domain.clone();
    Child::start(move || {
        let service = Service::<[u8]>::open(&domain, "s").expect("there");
        let mut server = service.wait_to_serve().expect("my turn");
        board.add(who, 1);
        loop {
            let request = server.next().expect("served");
            let payload = request.to_vec();
            // The client may be dead.
            let _ = request.reply(&payload);
        }
    })
}

/// Returns which of them serves, and that it is one alone; none of `former` does.
fn which_serves(board: &Board, former: &[usize]) -> usize {
    let others = || (0..STANDING_BY).filter(|who| !former.contains(who));
    wait_until("one takes over", || others().any(|who| board.get(who) == 1));
    let serving: Vec<_> = others().filter(|&who| board.get(who) == 1).collect();
    assert_eq!(serving.len(), 1, "one server at a time");
    serving[0]
}

fn servers_take_over_one_after_the_other(world: &World) {
    let domain = world.domain();
    let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let server = service.server().expect("none yet");
    assert!(matches!(service.server(), Err(Error::Taken { .. })));
    assert!(service.try_wait_to_serve().expect("taken").is_none());
    assert!(service.wait_to_serve_timeout(Duration::from_millis(5)).expect("taken").is_none());
    assert!(service.wait_to_serve_until(Deadline::at_nanos(0)).expect("taken").is_none());
    let mut standing: Vec<Child> =
        (0..STANDING_BY).map(|who| stand_by(&domain, board, who)).collect();
    standing.iter().for_each(|child| wait_asleep(child.pid()));
    // The first one leaves in good order, the others are killed, each with a call under way.
    drop(server);
    let client = waiting_client_of(&domain, "s");
    let mut former = Vec::new();
    for turn in 0..STANDING_BY {
        let now = which_serves(board, &former);
        let asked = message(0, turn as u64, 100);
        let reply = client.call_timeout(&asked, PATIENCE).expect("served");
        assert_eq!(read_message(&reply), read_message(&asked));
        standing[now].kill();
        former.push(now);
    }
    // Now no process serves, and the place is free at once.
    assert!(service.wait_to_serve_timeout(PATIENCE).expect("free").is_some());
}

fn receivers_take_over_one_after_the_other(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let receiver = queue.receiver().expect("none yet");
    assert!(queue.try_wait_to_receive().expect("taken").is_none());
    assert!(queue.wait_to_receive_timeout(Duration::from_millis(5)).expect("taken").is_none());
    assert!(queue.wait_to_receive_until(Deadline::at_nanos(0)).expect("taken").is_none());
    let mut standing: Vec<Child> = (0..STANDING_BY)
        .map(|_| {
            let domain = domain.clone();
            Child::start(move || {
                let queue = Queue::<[u8]>::open(&domain, "q").expect("there");
                let mut receiver = queue.wait_to_receive().expect("my turn");
                // The message that the one before had peeked at comes first.
                let (_, number) = read_message(&receiver.recv().expect("one"));
                board.set(0, number + 1);
                let _ = receiver.peek().expect("the next");
                board.set(1, number + 1);
                std::thread::sleep(PATIENCE);
            })
        })
        .collect();
    standing.iter().for_each(|child| wait_asleep(child.pid()));
    let sender = queue.sender().expect("one");
    (0..=STANDING_BY as u64).for_each(|number| sender.send(&message(0, number, 24)).expect("sent"));
    drop(receiver);
    for turn in 1..=STANDING_BY as u64 {
        wait_until("the next one has peeked", || board.get(1) == turn);
        let holder = queue.current_receiver().expect("one receives");
        let pid = holder.pid;
        let now = standing.iter().position(|child| child.pid() as u32 == pid).expect("one of them");
        standing.remove(now).kill();
    }
}

fn a_stopped_server_stays_the_server(world: &World) {
    let domain = world.domain();
    let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let mut first = stand_by(&domain, board, 0);
    wait_until("it serves", || board.get(0) == 1);
    first.stop();
    assert!(service.wait_to_serve_timeout(Duration::from_millis(50)).expect("taken").is_none());
    let second = stand_by(&domain, board, 1);
    wait_asleep(second.pid());
    assert_eq!(board.get(1), 0);
    first.kill();
    wait_until("the other takes over", || board.get(1) == 1);
}

fn a_standby_that_is_killed_holds_up_no_other(world: &World) {
    let domain = world.domain();
    let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let server = service.server().expect("none yet");
    let mut killed = stand_by(&domain, board, 0);
    let stays = stand_by(&domain, board, 1);
    [&killed, &stays].into_iter().for_each(|child| wait_asleep(child.pid()));
    killed.kill();
    drop(server);
    wait_until("the other takes over", || board.get(1) == 1);
    assert_eq!(board.get(0), 0);
}
