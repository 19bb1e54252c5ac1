//! Large wait sets that sleep on one word for all of their queues and services: doorbells.

use std::time::Duration;

use outlive::queue::{Queue, Receiver};
use outlive::sync::Event;
use outlive::wait::{Key, Readiness, WaitSet};
use outlive::{Domain, WaitStrategy};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::runner::World;
use crate::services::{client_of, server_of};
use crate::wait_sets::helpers_of;

crate::checks!(
    a_set_sleeps_on_one_word_for_all_of_its_queues: 60,
    a_second_set_on_the_same_queues_is_told_as_well: 60,
    a_doorbell_passes_to_another_set_when_its_process_is_killed: 60,
    sets_without_a_doorbell_have_sections: 60,
    a_set_that_has_no_use_for_a_doorbell_leaves_it: 60,
    services_and_other_sources_beside_queues: 60,
    a_writer_that_dies_in_its_slot_hides_nothing_from_a_large_set: 60,
);

/// More than a section has.
const QUEUES: usize = 110;
/// As many doorbells as a registry has.
const DOORBELLS: usize = 24;

fn queues(domain: &Domain, many: usize) -> Vec<Queue> {
    let open = |n| {
        Queue::<[u8]>::options()
            .max_bytes(1 << 16)
            .slots(4)
            .open_or_create(domain, &format!("queue-{n}"))
            .expect("a queue")
    };
    (0..many).map(open).collect()
}

fn receivers(queues: &[Queue]) -> Vec<Receiver> {
    queues.iter().map(|queue| queue.receiver().expect("free")).collect()
}

fn set_of(domain: &Domain, receivers: &[Receiver]) -> (WaitSet, Vec<Key>) {
    let mut set = WaitSet::new(domain);
    set.set_wait_strategy(WaitStrategy::Block);
    let keys = receivers.iter().map(|one| set.add(one).expect("added")).collect();
    (set, keys)
}

fn send(queue: &Queue) {
    queue.sender().expect("a sender").send(b"a message").expect("sent");
}

fn threads() -> usize {
    helpers_of(std::process::id() as i32)
}

/// Takes one message, and returns of which queue.
fn take(set: &mut WaitSet, keys: &[Key], receivers: &mut [Receiver]) -> usize {
    let (key, what) = set.wait().expect("waits").next().expect("ready");
    assert_eq!(what, Readiness::Readable);
    let which = keys.iter().position(|&one| one == key).expect("one of ours");
    assert!(receivers[which].try_recv().expect("receives").is_some());
    which
}

fn a_set_sleeps_on_one_word_for_all_of_its_queues(world: &World) {
    // More than a doorbell has bits, so some share one.
    const MANY: usize = 600;
    let domain = world.domain();
    let queues = queues(&domain, MANY);
    let board = Board::new();
    let waiter = Child::start(|| {
        let mut receivers = receivers(&queues);
        let (mut set, keys) = set_of(&domain, &receivers);
        board.set(1, 1);
        loop {
            let which = take(&mut set, &keys, &mut receivers);
            assert_eq!(threads(), 0, "it sleeps by itself");
            board.set(2, which as u64);
            board.add(0, 1);
            if which == MANY - 1 {
                return;
            }
        }
    });
    board.reach(1, 1);
    for (round, which) in [3, 3, 515, 3, 0, 511, 512, 77, 599].into_iter().enumerate() {
        wait_asleep(waiter.pid());
        send(&queues[which]);
        board.reach(0, round as u64 + 1);
        assert_eq!(board.get(2), which as u64);
    }
    waiter.finish();
}

/// The first to register has the doorbell; the other one sleeps in sections.
fn a_second_set_on_the_same_queues_is_told_as_well(world: &World) {
    let domain = world.domain();
    let queues = queues(&domain, QUEUES);
    let board = Board::new();
    let receivers = receivers(&queues);
    let waiters: Vec<Child> = (0..2)
        .map(|which| {
            let waiter = Child::start(|| {
                let (mut set, keys) = set_of(&domain, &receivers);
                let told = set.wait().expect("waits").next();
                assert_eq!(told, Some((keys[80], Readiness::Readable)));
                assert_eq!(threads() > 0, which == 1);
                crate::child::exit_now(0);
            });
            wait_asleep(waiter.pid());
            board.set(0, which);
            waiter
        })
        .collect();
    send(&queues[80]);
    waiters.into_iter().for_each(Child::finish);
}

fn a_doorbell_passes_to_another_set_when_its_process_is_killed(world: &World) {
    let domain = world.domain();
    let queues = queues(&domain, QUEUES);
    let board = Board::new();
    // More often than there are doorbells.
    for round in 1..=DOORBELLS as u64 + 6 {
        let mut waiter = Child::start(|| {
            let mut receivers = receivers(&queues);
            let (mut set, keys) = set_of(&domain, &receivers);
            loop {
                take(&mut set, &keys, &mut receivers);
                assert_eq!(threads(), 0);
                board.set(0, round);
            }
        });
        wait_asleep(waiter.pid());
        send(&queues[round as usize]);
        board.reach(0, round);
        waiter.kill();
    }
}

fn sets_without_a_doorbell_have_sections(world: &World) {
    let domain = world.domain();
    let queues = queues(&domain, QUEUES);
    let mut receivers = receivers(&queues);
    let event = Event::open_or_create(&domain, "event").expect("opens");
    // Of events, and of one queue, for which each takes a doorbell.
    let others: Vec<WaitSet> = (0..DOORBELLS)
        .map(|which| {
            let (mut set, _) = set_of(&domain, &receivers[which..=which]);
            for _ in 0..QUEUES {
                set.add(&event.any_of(1)).expect("added");
            }
            assert_eq!(set.wait_timeout(Duration::from_millis(1)).expect("waits").len(), 0);
            set
        })
        .collect();
    let before = threads();
    let (mut set, keys) = set_of(&domain, &receivers);
    assert_eq!(set.wait_timeout(Duration::from_millis(1)).expect("waits").len(), 0);
    assert!(threads() > before);
    for which in [100, 2] {
        send(&queues[which]);
        assert_eq!(take(&mut set, &keys, &mut receivers), which);
    }
    drop(set);
    drop(others);
    wait_until("their threads end", || threads() < before);
}

fn a_set_that_has_no_use_for_a_doorbell_leaves_it(world: &World) {
    let domain = world.domain();
    let queues = queues(&domain, 2 * QUEUES);
    let mut receivers = receivers(&queues);
    let (shared, own) = receivers.split_at_mut(QUEUES);
    let wait = |set: &mut WaitSet| {
        assert_eq!(set.wait_timeout(Duration::from_millis(1)).expect("waits").len(), 0);
    };
    // The first has the doorbells of all these queues.
    let others: Vec<WaitSet> = (0..DOORBELLS)
        .map(|_| {
            let (mut set, _) = set_of(&domain, shared);
            wait(&mut set);
            set
        })
        .collect();
    let before = threads();
    let (mut set, keys) = set_of(&domain, own);
    wait(&mut set);
    assert_eq!(threads(), before, "a doorbell was free");
    send(&queues[QUEUES + 7]);
    assert_eq!(take(&mut set, &keys, own), 7);
    drop((set, others));
    wait_until("their threads end", || threads() < before);
}

fn services_and_other_sources_beside_queues(world: &World) {
    let domain = world.domain();
    let queues = queues(&domain, QUEUES);
    let mut receivers = receivers(&queues);
    let mut server = server_of(&domain, "service");
    let event = Event::open_or_create(&domain, "event").expect("opens");
    let (mut set, keys) = set_of(&domain, &receivers);
    let requests = set.add(&server).expect("added");
    let bits = set.add(&event.any_of(1)).expect("added");
    for _ in 0..3 {
        assert_eq!(set.wait_timeout(Duration::from_millis(2)).expect("waits").len(), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let client = client_of(&domain, "service");
                assert_eq!(*client.call(b"ask").expect("answered"), *b"told");
            });
            let told: Vec<_> = set.wait().expect("waits").collect();
            assert_eq!(told, [(requests, Readiness::Readable)]);
            let request = server.try_next().expect("serves").expect("there");
            request.reply(b"told").expect("answered");
        });
        event.set(1);
        assert_eq!(set.wait().expect("waits").collect::<Vec<_>>(), [(bits, Readiness::Set)]);
        event.clear(1);
        send(&queues[7]);
        assert_eq!(take(&mut set, &keys, &mut receivers), 7);
    }
    // A queue leaves the set while it is idle, and comes back.
    assert_eq!(set.wait_timeout(Duration::from_millis(2)).expect("waits").len(), 0);
    assert!(set.remove(keys[7]));
    send(&queues[7]);
    assert_eq!(set.wait_timeout(Duration::from_millis(2)).expect("waits").len(), 0);
    let again = set.add(&receivers[7]).expect("added");
    let told: Vec<_> = set.wait().expect("waits").collect();
    assert_eq!(told, [(again, Readiness::Readable)]);
}

fn a_writer_that_dies_in_its_slot_hides_nothing_from_a_large_set(world: &World) {
    let domain = world.domain();
    let queues = queues(&domain, QUEUES);
    let board = Board::new();
    let waiter = Child::start(|| {
        let mut receivers = receivers(&queues);
        let (mut set, _keys) = set_of(&domain, &receivers);
        loop {
            set.wait().expect("ready").for_each(drop);
            while let Ok(Some(message)) = receivers[9].try_recv() {
                match message[0] {
                    b'e' => return,
                    b'm' => {
                        board.add(0, 1);
                    }
                    _ => {}
                }
            }
        }
    });
    let say = |text: &[u8]| queues[9].sender().expect("a sender").send(text).expect("sent");
    let mut random = crate::random::Random::new();
    for round in 1..=50 {
        let mut writer = Child::start(|| {
            let sender = queues[9].sender().expect("a sender");
            loop {
                sender.send(&[b'x'; 100]).expect("sent");
            }
        });
        random.pause(400);
        writer.kill();
        say(b"m");
        board.reach(0, round);
    }
    say(b"e");
    waiter.finish();
}
