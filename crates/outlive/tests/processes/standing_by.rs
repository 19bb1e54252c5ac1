//! Processes that stand by: when the receiver or the server leaves, or dies, one of them takes over,
//! and the others wait on.

use std::time::Duration;

use outlive::queue::{OnReceiverDeath, Queue};
use outlive::rpc::Service;
use outlive::state::State;
use outlive::wait::{Readiness, WaitSet};
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
    tasks_take_over_one_after_the_other: 60,
    tasks_stand_by_for_a_place_of_several: 60,
    tasks_stand_by_as_receivers_and_writers,
    a_wait_set_tells_that_a_role_is_free,
    a_stand_in_gives_way,
    a_stand_in_gives_way_to_servers_that_are_killed: 60,
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

/// Serves as a task once it can, echoes, and ends with the process. A second task of the process shows
/// that the first one blocks no thread.
fn stand_by_as_task(domain: &Domain, board: &'static Board, who: usize) -> Child {
    let domain = domain.clone();
    Child::start(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("built").block_on(async {
            let task = tokio::spawn(async move {
                let service = Service::<[u8]>::open(&domain, "s").expect("there");
                let mut server = service.wait_to_serve_async().await.expect("my turn");
                board.add(who, 1);
                loop {
                    let request = server.next_async().await.expect("served");
                    let payload = request.to_vec();
                    let _ = request.reply(&payload);
                }
            });
            // Asked once before this.
            tokio::task::yield_now().await;
            board.set(STANDING_BY + who, 1);
            task.await.expect("no panic");
        });
    })
}

fn tasks_take_over_one_after_the_other(world: &World) {
    let domain = world.domain();
    let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let server = service.server().expect("none yet");
    let mut standing: Vec<Child> =
        (0..STANDING_BY).map(|who| stand_by_as_task(&domain, board, who)).collect();
    (0..STANDING_BY).for_each(|who| _ = board.reach(STANDING_BY + who, 1));
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
    assert_eq!(domain.stats().rescues, 0, "each was woken, and found nothing at a recheck");
}

fn tasks_stand_by_for_a_place_of_several(world: &World) {
    let domain = world.domain();
    let options = Service::<[u8]>::options().max_servers(2);
    let service = options.create_new(&domain, "s").expect("made");
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let mut standing: Vec<Child> =
        (0..STANDING_BY).map(|who| stand_by_as_task(&domain, board, who)).collect();
    (0..STANDING_BY).for_each(|who| _ = board.reach(STANDING_BY + who, 1));
    let serving = || (0..STANDING_BY).filter(|&who| board.get(who) == 1).collect::<Vec<_>>();
    wait_until("two serve", || serving().len() == 2);
    let two = serving();
    assert!(service.try_wait_to_serve().expect("looks").is_none());
    standing[two[0]].kill();
    wait_until("the third serves", || serving().len() == 3);
    let client = waiting_client_of(&domain, "s");
    client.call_timeout(b"asked", PATIENCE).expect("served");
}

fn tasks_stand_by_as_receivers_and_writers(world: &World) {
    let domain = world.domain();
    // The message may come before the task has taken over: with `Fail` its sender is told of the death.
    let queue = Queue::<[u8]>::options().on_receiver_death(OnReceiverDeath::Keep);
    let queue = queue.open_or_create(&domain, "q").expect("made");
    let level = State::<u64>::open_or_create(&domain, "level").expect("made");
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let mut holder = Child::start(|| {
        let _receiver = queue.receiver().expect("none yet");
        let _writer = level.writer().expect("none yet");
        board.set(0, 1);
        std::thread::sleep(PATIENCE);
    });
    board.reach(0, 1);
    let stays = Child::start(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        let runtime = runtime.expect("built");
        let (queue, level) =
            (Queue::<[u8]>::open(&domain, "q"), State::<u64>::open(&domain, "level"));
        let (queue, level) = (queue.expect("there"), level.expect("there"));
        let receiving = runtime.spawn(async move {
            let mut receiver = queue.wait_to_receive_async().await.expect("my turn");
            receiver.recv_async().await.expect("one")
        });
        let writing = runtime.spawn(async move {
            level.wait_to_write_async().await.expect("my turn").set(&7).expect("set")
        });
        board.set(1, 1);
        runtime.block_on(async {
            assert_eq!(receiving.await.expect("no panic"), b"one");
            writing.await.expect("no panic");
        });
    });
    board.reach(1, 1);
    wait_asleep(stays.pid());
    holder.kill();
    queue.sender().expect("one").send(b"one").expect("kept for the next receiver");
    stays.finish();
    assert_eq!(level.get().expect("whole"), 7);
}

fn a_wait_set_tells_that_a_role_is_free(world: &World) {
    let domain = world.domain();
    let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
    let shared =
        Service::<[u8]>::options().max_servers(2).create_new(&domain, "two").expect("made");
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let mut holder = Child::start(|| {
        let _server = service.server().expect("none yet");
        let _one = shared.server().expect("a place");
        let _two = shared.server().expect("a place");
        board.set(0, 1);
        std::thread::sleep(PATIENCE);
    });
    board.reach(0, 1);
    let waiter = Child::start(|| {
        let mut set = WaitSet::new(&domain);
        let keys = [
            set.add(&service.stand_by()).expect("added"),
            set.add(&shared.stand_by()).expect("added"),
        ];
        assert_eq!(set.try_wait().expect("looks").count(), 0);
        board.set(1, 1);
        let mut left = keys.to_vec();
        while !left.is_empty() {
            let ready: Vec<_> = set.wait_timeout(PATIENCE).expect("waits").collect();
            assert!(ready.iter().all(|(_, what)| *what == Readiness::Ended) && !ready.is_empty());
            for (key, _) in ready {
                set.remove(key);
                left.retain(|known| *known != key);
            }
        }
        assert!(service.try_wait_to_serve().expect("free").is_some());
        assert!(shared.try_wait_to_serve().expect("free").is_some());
    });
    board.reach(1, 1);
    wait_asleep(waiter.pid());
    holder.kill();
    waiter.finish();
    assert_eq!(domain.stats().rescues, 0);
}

/// Stands for a server elsewhere, as a gateway does; says on the board how often it has served.
fn stand_in(domain: &Domain, board: &'static Board, who: usize) -> Child {
    let domain = domain.clone();
    Child::start(move || {
        let service = Service::<[u8]>::open(&domain, "s").expect("there");
        loop {
            let serving = service.begin_standing_in().expect("a token").expect("no other");
            let Some(mut server) = service.try_wait_to_serve().expect("looks") else {
                let mut set = WaitSet::new(&domain);
                let _free = set.add(&service.unserved()).expect("a source");
                set.wait().expect("waits");
                continue;
            };
            board.add(who, 1);
            let mut set = WaitSet::new(&domain);
            let called = set.add(&service.called_away(serving)).expect("a source");
            let _asked = set.add(&server).expect("a source");
            while !set.wait().expect("waits").any(|(source, _)| source == called) {
                while let Some(request) = server.try_next().expect("serves") {
                    let _ = request.reply(b"elsewhere");
                }
            }
            drop(server);
            std::thread::sleep(Duration::from_millis(20));
        }
    })
}

fn a_stand_in_gives_way(world: &World) {
    let domain = world.domain();
    let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let mut gateway = stand_in(&domain, board, 0);
    wait_until("it serves", || board.get(0) == 1);
    let client = service.client().expect("room");
    assert_eq!(*client.call(b"a").expect("answered"), *b"elsewhere");
    for round in 2..10 {
        let mut server = match round % 3 {
            0 => service.server().expect("it gives way"),
            1 => service.wait_to_serve().expect("it gives way"),
            _ => loop {
                if let Some(server) = service.try_wait_to_serve().expect("looks") {
                    break server;
                }
            },
        };
        let call = client.begin(b"a").expect("asked");
        server.next().expect("asked").reply(b"home").expect("wanted");
        assert_eq!(*call.wait().expect("answered"), *b"home");
        // To others this one does not.
        let taken = std::thread::scope(|scope| {
            scope.spawn(|| service.server().map(drop)).join().expect("no panic")
        });
        assert!(matches!(taken, Err(Error::Taken { .. })));
        drop(server);
        wait_until("it serves again", || board.get(0) == round);
    }
    gateway.stop();
    assert!(matches!(service.server(), Err(Error::Taken { .. })), "it cannot leave");
    gateway.go_on();
    let server = service.wait_to_serve_timeout(PATIENCE).expect("waits");
    drop(server.expect("it leaves as it goes on"));
    gateway.kill();
    drop(service.server().expect("a dead one is in no way"));
}

fn a_stand_in_gives_way_to_servers_that_are_killed(world: &World) {
    let domain = world.domain();
    let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let _gateway = stand_in(&domain, board, 0);
    for round in 0..20_u64 {
        wait_until("the stand-in is back", || board.get(0) > round);
        let mut killed = stand_by(&domain, board, 1);
        std::thread::sleep(Duration::from_micros(200 * round));
        killed.kill();
        // Whatever it had asked for: the place comes to the one that asks next.
        drop(service.wait_to_serve_timeout(PATIENCE).expect("waits").expect("a place"));
    }
}
