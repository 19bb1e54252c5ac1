//! Messages that were received and are not done: `join` waits for them, and for no process that has
//! died.

use std::time::Duration;

use outlive::queue::Queue;
use outlive::{Deadline, RecvError, WaitError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE, wait_until};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    join_waits_for_what_is_unread_and_for_what_is_not_done,
    what_is_done_too_often_is_told,
    a_killed_process_is_not_waited_for,
    a_stopped_process_is_waited_for,
    a_count_belongs_to_its_process,
    a_sweep_forgets_the_dead,
    killed_at_random_nobody_waits_for_ever: 60,
);

const LATE: Result<(), WaitError> = Err(WaitError::TimedOut);

fn join_waits_for_what_is_unread_and_for_what_is_not_done(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    queue.join().expect("nothing was sent");
    let (sender, mut receiver) = (queue.sender().expect("one"), queue.receiver().expect("one"));
    let tasks = queue.tasks().expect("room");
    sender.send(b"one").expect("room");
    assert_eq!(queue.try_join(), LATE);
    assert_eq!(queue.join_timeout(Duration::from_millis(5)), LATE);
    // Received without a count it is done, and committed it is.
    assert_eq!(receiver.recv().expect("sent"), b"one");
    queue.try_join().expect("none is left");
    sender.send(b"two").expect("room");
    let peeked = receiver.try_peek().expect("readable").expect("sent");
    assert_eq!(queue.try_join(), LATE);
    peeked.commit();
    queue.try_join().expect("none is left");
    // Of a batch each counts.
    sender.send_batch(&[b"a".as_slice(), b"b"]).expect("room");
    assert_eq!(tasks.recv(&mut receiver), Ok(b"a".to_vec()));
    assert!(tasks.done());
    assert_eq!(queue.try_join(), LATE);
    assert_eq!(tasks.recv(&mut receiver), Ok(b"b".to_vec()));
    assert_eq!(queue.try_join(), LATE);
    let joining = Child::start(|| queue.join().expect("waits"));
    wait_asleep(joining.pid());
    assert!(tasks.done());
    joining.finish();
    // A waiter sleeps through what does not concern it.
    for message in [b"x", b"y"] {
        sender.send(message).expect("room");
    }
    let mut joining = Child::start(|| queue.join().expect("waits"));
    wait_asleep(joining.pid());
    assert_eq!(receiver.recv().expect("sent"), b"x");
    assert_eq!(tasks.try_recv(&mut receiver), Ok(Some(b"y".to_vec())));
    wait_asleep(joining.pid());
    assert!(!joining.has_ended());
    assert!(tasks.done());
    joining.finish();
    assert_eq!(tasks.try_recv(&mut receiver), Ok(None));
    let soon = Deadline::after(Duration::from_millis(1));
    assert_eq!(tasks.recv_until(&mut receiver, soon), Ok(None));
    assert_eq!(tasks.recv_timeout(&mut receiver, Duration::ZERO), Ok(None));
}

fn what_is_done_too_often_is_told(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let (sender, mut receiver) = (queue.sender().expect("one"), queue.receiver().expect("one"));
    let (tasks, again) = (queue.tasks().expect("room"), queue.tasks().expect("the same"));
    assert!(!tasks.done());
    for _ in 0..3 {
        sender.send(b"m").expect("room");
        tasks.recv(&mut receiver).expect("sent");
    }
    // One count, whichever of them is asked.
    drop(tasks);
    for _ in 0..3 {
        assert_eq!(queue.try_join(), LATE);
        assert!(again.done());
    }
    queue.try_join().expect("none is left");
    assert!(!again.done());
}

/// A child that has received so many messages and done none.
fn holder(queue: &Queue, messages: u64) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let tasks = queue.tasks().expect("room");
        let mut receiver = queue.receiver().expect("none lives");
        for _ in 0..messages {
            tasks.recv(&mut receiver).expect("sent");
        }
        drop(receiver);
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    child
}

fn a_killed_process_is_not_waited_for(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("one");
    for round in 0..4 {
        for _ in 0..6 {
            sender.send(b"m").expect("room");
        }
        let (mut first, mut second) = (holder(&queue, 4), holder(&queue, 2));
        let mut joining = Child::start(|| queue.join().expect("waits"));
        wait_asleep(joining.pid());
        first.kill();
        // It looks, and sleeps on behind the other one.
        wait_asleep(joining.pid());
        assert!(!joining.has_ended(), "round {round}");
        assert_eq!(queue.try_join(), LATE);
        second.kill();
        joining.finish();
        queue.try_join().expect("none is left");
    }
}

fn a_stopped_process_is_waited_for(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    queue.sender().expect("one").send(b"m").expect("room");
    let mut holder = holder(&queue, 1);
    holder.stop();
    assert_eq!(queue.join_timeout(Duration::from_millis(5)), LATE);
    holder.go_on();
    assert_eq!(queue.try_join(), LATE);
    holder.kill();
    queue.join_timeout(PATIENCE).expect("it is dead");
}

fn a_count_belongs_to_its_process(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let other = Queue::<[u8]>::open_or_create(&domain, "other").expect("made");
    let sender = queue.sender().expect("one");
    let tasks = queue.tasks().expect("room");
    sender.send(b"m").expect("room");
    let mut receiver = queue.receiver().expect("one");
    assert_eq!(tasks.try_recv(&mut other.receiver().expect("one")), Err(RecvError::NotOwner));
    tasks.recv(&mut receiver).expect("sent");
    drop(receiver);
    sender.send(b"m").expect("room");
    Child::start(|| {
        assert!(!tasks.done(), "it is the parent's");
        let mut receiver = queue.receiver().expect("none lives");
        assert_eq!(tasks.try_recv(&mut receiver), Err(RecvError::NotOwner));
        let own = queue.tasks().expect("room");
        assert!(!own.done());
        own.recv(&mut receiver).expect("sent");
        assert!(own.done());
    })
    .finish();
    assert_eq!(queue.try_join(), LATE);
    assert!(tasks.done());
    queue.try_join().expect("none is left");
}

fn a_sweep_forgets_the_dead(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    queue.sender().expect("one").send(b"m").expect("room");
    holder(&queue, 1).kill();
    assert!(domain.sweep(true).expect("looks").claims > 0);
    assert!(domain.sweep(false).expect("sweeps").claims > 0);
    assert_eq!(domain.sweep(true).expect("looks").claims, 0);
    queue.try_join().expect("none is left");
}

/// Consumers that take turns, and are killed at random while they receive and say that they have
/// done: the one that waits always comes to its end.
fn killed_at_random_nobody_waits_for_ever(world: &World) {
    const CONSUMERS: usize = 3;
    let domain = world.domain();
    let mut random = Random::new();
    for round in 0..60 {
        let name = format!("q{round}");
        let queue = Queue::<[u8]>::open_or_create(&domain, &name).expect("made");
        let sender = queue.sender().expect("one");
        for number in 0..300_u64 {
            sender.send(&number.to_le_bytes()).expect("room");
        }
        let board = Board::new();
        let work = |who: usize| {
            let tasks = queue.tasks().expect("room");
            loop {
                // Another one's turn.
                let Ok(mut receiver) = queue.receiver() else { continue };
                if tasks.try_recv(&mut receiver).expect("readable").is_some() {
                    drop(receiver);
                    board.set(who, board.get(who) + 1);
                    assert!(tasks.done());
                }
            }
        };
        let mut consumers: Vec<Child> =
            (0..CONSUMERS).map(|who| Child::start(|| work(who))).collect();
        let joining = Child::start(|| queue.join().expect("waits"));
        for consumer in &mut consumers {
            random.pause(400);
            assert!(!consumer.has_ended());
            consumer.kill();
        }
        // One more takes the rest.
        let mut last = Child::start(|| work(CONSUMERS));
        joining.finish();
        last.kill();
        queue.join_timeout(PATIENCE).expect("none is left");
        let received: u64 = (0..=CONSUMERS).map(|who| board.get(who)).sum();
        assert!((300 - CONSUMERS as u64..=300).contains(&received), "{received}");
        wait_until("the counts are whole", || queue.counters().expect("counts").received == 300);
        domain.remove(&name).expect("removed");
    }
}
