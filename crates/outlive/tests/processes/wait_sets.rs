//! Wait sets: what they tell, which processes wake them, more sources than the kernel watches at
//! once, and deaths on all sides.

use std::time::Duration;

use outlive::queue::Queue;
use outlive::sync::{Event, Latch, Reset};
use outlive::wait::{Readiness, Timer, WaitSet};
use outlive::{Domain, Error, Peer, RecvError, WaitStrategy};

use crate::asleep::{thread_id, wait_asleep, wait_thread_asleep};
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::counted::{counted, sleeps_of};
use crate::random::Random;
use crate::runner::World;
use crate::waiting::{owner, token_on};

crate::checks!(
    all_that_is_ready_is_told_and_told_again,
    each_kind_wakes_a_sleeper,
    without_futex_waitv_as_well,
    timers_are_ready_until_taken,
    things_of_another_domain_are_refused,
    a_queue_whose_senders_have_gone,
    a_writer_that_dies_in_its_slot_hides_nothing,
    a_receiver_and_two_sets_on_one_queue,
    a_forked_child_waits_for_itself,
    four_hundred_sources: 60,
    a_hundred_sources_without_futex_waitv: 60,
    idle_sets_use_no_processor,
    killed_senders_are_told_of_all_the_same: 60,
    sets_that_die_with_their_owner_strand_nobody: 60,
    large_sets_that_die_with_their_owner_strand_nobody: 60,
);

pub const AS_IT_IS: fn() = || {};
pub const NO_WAITV: fn() = outlive::abilities::pretend_no_futex_waitv;

pub fn queue(domain: &Domain, name: &str) -> Queue {
    let queue = Queue::<[u8]>::options()
        .max_bytes(1 << 20)
        .slots(4)
        .open_or_create(domain, name)
        .expect("a queue");
    queue.sender().expect("a sender").set_wait_strategy(WaitStrategy::Block);
    queue
}

fn send(queue: &Queue, text: &[u8]) {
    queue.sender().expect("a sender").send(text).expect("sent");
}

fn all_that_is_ready_is_told_and_told_again(world: &World) {
    let domain = world.domain();
    let (first, second) = (queue(&domain, "first"), queue(&domain, "second"));
    let (mut one, two) = (first.receiver().expect("free"), second.receiver().expect("free"));
    let event =
        Event::options().reset(Reset::Automatic).open_or_create(&domain, "event").expect("opens");
    let mut set = WaitSet::new(&domain);
    let keys =
        [set.add(&one), set.add(&two), set.add(&event.any_of(1))].map(|key| key.expect("added"));
    assert_eq!(set.try_wait().expect("looks").count(), 0);
    assert_eq!(set.wait_timeout(Duration::from_millis(5)).expect("waits").len(), 0);
    send(&first, b"a");
    event.set(1);
    for _ in 0..3 {
        let mut ready: Vec<_> = set.wait().expect("ready").collect();
        ready.sort_by_key(|(key, _)| *key);
        assert_eq!(
            ready,
            [(keys[0], Readiness::Readable), (keys[2], Readiness::Set)],
            "nothing is taken by waiting"
        );
    }
    assert_eq!(one.try_recv().expect("readable").expect("there"), b"a");
    assert_eq!(event.try_wait_any(1), Ok(Some(1)));
    assert_eq!(set.try_wait().expect("looks").count(), 0);
    send(&second, b"b");
    assert!(set.remove(keys[1]));
    assert!(!set.remove(keys[1]));
    assert_eq!((set.try_wait().expect("looks").count(), set.len()), (0, 2));
}

/// One of each, in a child that sleeps in a set; the parent makes the `which`th ready, which must
/// be told alone.
fn each_kind(world: &World, prepare: fn()) {
    let domain = world.domain();
    for which in 0..5 {
        let name = |kind: &str| format!("{kind}-{which}");
        let queue = queue(&domain, &name("queue"));
        let event = Event::options()
            .reset(Reset::Manual)
            .open_or_create(&domain, &name("event"))
            .expect("opens");
        let latch = Latch::options(2).open_or_create(&domain, &name("latch")).expect("opens");
        let (mut child, peer) = owner(&domain, Board::new());
        let waiter = Child::start(|| {
            prepare();
            let receiver = queue.receiver().expect("free");
            let mut set = WaitSet::new(&domain);
            set.set_wait_strategy(WaitStrategy::Block);
            let late = Timer::after(if which == 4 {
                Duration::from_secs(2)
            } else {
                Duration::from_secs(3600)
            });
            let added = [
                set.add(&receiver),
                set.add(&event.all_of(0b11)),
                set.add(&latch),
                set.add(&peer),
                set.add(&late),
            ];
            let keys = added.map(|key| key.expect("added"));
            let expected = [
                Readiness::Readable,
                Readiness::Set,
                Readiness::Set,
                Readiness::Ended,
                Readiness::Elapsed,
            ][which];
            assert_eq!(set.wait().expect("ready").collect::<Vec<_>>(), [(keys[which], expected)]);
        });
        wait_asleep(waiter.pid());
        // Not enough yet, for those that can say so.
        event.set(0b01);
        latch.arrive(1);
        match which {
            0 => send(&queue, b"now"),
            1 => assert_eq!(event.set(0b10), 0b01),
            2 => assert_eq!(latch.arrive(1), 0),
            3 => child.kill(),
            _ => {}
        }
        waiter.finish();
    }
}

fn each_kind_wakes_a_sleeper(world: &World) {
    each_kind(world, AS_IT_IS);
}

fn without_futex_waitv_as_well(world: &World) {
    each_kind(world, NO_WAITV);
}

fn timers_are_ready_until_taken(world: &World) {
    let mut set = WaitSet::new(&world.domain());
    let (once, every) = (Timer::after(Duration::ZERO), Timer::every(Duration::from_millis(1)));
    let keys = [&once, &every].map(|timer| set.add(timer).expect("added"));
    assert_eq!((once.take(), once.take()), (1, 0));
    let mut ticks = 0;
    while ticks < 20 {
        assert_eq!(
            set.wait().expect("a tick").collect::<Vec<_>>(),
            [(keys[1], Readiness::Elapsed)]
        );
        assert!(set.try_wait().expect("looks").count() == 1, "until it is taken");
        let taken = every.take();
        assert!(taken > 0, "it was ready");
        ticks += taken;
    }
    set.remove(keys[1]);
    assert_eq!(set.wait_timeout(Duration::from_millis(5)).expect("waits").len(), 0);
    let mut nothing = WaitSet::new(&world.domain());
    assert_eq!(nothing.wait_timeout(Duration::from_millis(5)).expect("waits").len(), 0);
}

fn things_of_another_domain_are_refused(world: &World) {
    let (domain, other) = (world.domain(), world.domain_named("other"));
    let receiver = queue(&other, "queue").receiver().expect("free");
    let mut set = WaitSet::new(&domain);
    assert!(matches!(set.add(&receiver), Err(Error::OtherDomain { .. })));
    // The same one, opened again, is no other.
    let again = queue(&world.domain(), "queue").receiver().expect("free");
    set.add(&again).expect("added");
}

fn a_queue_whose_senders_have_gone(world: &World) {
    let domain = world.domain();
    let queue = queue(&domain, "queue");
    let board = Board::new();
    let mut sender = Child::start(|| {
        let sender = queue.sender().expect("a sender");
        sender.send(b"last").expect("sent");
        board.set(1, 1);
        loop {
            std::thread::park();
        }
    });
    // Before that, all that there were have gone.
    board.reach(1, 1);
    let waiter = Child::start(|| {
        let mut receiver = queue.receiver().expect("free");
        receiver.end_when_senders_gone(true);
        let mut set = WaitSet::new(&domain);
        set.set_wait_strategy(WaitStrategy::Block);
        let key = set.add(&receiver).expect("added");
        assert_eq!(set.wait().expect("ready").collect::<Vec<_>>(), [(key, Readiness::Readable)]);
        assert_eq!(receiver.try_recv().expect("readable").expect("there"), b"last");
        board.set(0, 1);
        assert_eq!(set.wait().expect("ready").collect::<Vec<_>>(), [(key, Readiness::Ended)]);
        assert_eq!(receiver.try_recv(), Err(RecvError::Closed));
    });
    board.reach(0, 1);
    wait_asleep(waiter.pid());
    sender.kill();
    waiter.finish();
}

/// Sends large batches for ever; killed somewhere in one of them.
fn a_writer_that_dies_in_its_slot_hides_nothing(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::options()
        .max_bytes(8 << 20)
        .slots(4)
        .slot_bytes(4096)
        .open_or_create(&domain, "queue")
        .expect("opens");
    let mut random = Random::new();
    let board = Board::new();
    let waiter = Child::start(|| {
        let mut receiver = queue.receiver().expect("free");
        let mut set = WaitSet::new(&domain);
        set.set_wait_strategy(WaitStrategy::Block);
        set.add(&receiver).expect("added");
        loop {
            set.wait().expect("ready");
            while let Ok(Some(message)) = receiver.try_recv() {
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
    for round in 1..=100 {
        let mut writer = Child::start(|| {
            let sender = queue.sender().expect("a sender");
            loop {
                sender.send(&[b'x'; 4000]).expect("sent");
            }
        });
        random.pause(400);
        writer.kill();
        send(&queue, b"m");
        board.reach(0, round);
    }
    send(&queue, b"e");
    waiter.finish();
}

fn a_receiver_and_two_sets_on_one_queue(world: &World) {
    let domain = world.domain();
    let queue = queue(&domain, "queue");
    let board = Board::new();
    let waiter = Child::start(|| {
        let mut receiver = queue.receiver().expect("free");
        let mut sets: Vec<WaitSet> = (0..2).map(|_| WaitSet::new(&domain)).collect();
        for set in &mut sets {
            set.set_wait_strategy(WaitStrategy::Block);
            set.add(&receiver).expect("added");
        }
        std::thread::scope(|scope| {
            for (n, mut set) in sets.into_iter().enumerate() {
                let tick = Timer::every(Duration::from_micros(700 + 400 * n as u64));
                let ticks = set.add(&tick).expect("added");
                scope.spawn(move || {
                    while board.get(3) == 0 {
                        for (key, _) in set.wait().expect("ready") {
                            // Coming and going all the time, it must not take back what the
                            // receiver has announced.
                            let _ = if key == ticks { tick.take() } else { board.add(1 + n, 1) };
                        }
                    }
                });
            }
            receiver.set_wait_strategy(WaitStrategy::Block);
            loop {
                match receiver.recv_timeout(Duration::from_micros(900)) {
                    Ok(Some(message)) if message == b"end" => break,
                    Ok(Some(_)) => {
                        board.add(0, 1);
                    }
                    Ok(None) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            board.set(3, 1);
        });
    });
    let sender = queue.sender().expect("a sender");
    let mut random = Random::new();
    for round in 1..=500 {
        sender.send(b"go on").expect("sent");
        board.reach(0, round);
        random.pause(100);
    }
    sender.send(b"end").expect("sent");
    waiter.finish();
}

fn a_forked_child_waits_for_itself(world: &World) {
    let domain = world.domain();
    let (mut victim, peer) = owner(&domain, Board::new());
    let event =
        Event::options().reset(Reset::Manual).open_or_create(&domain, "event").expect("opens");
    let mut set = WaitSet::new(&domain);
    set.set_wait_strategy(WaitStrategy::Block);
    let (gone, told) = (set.add(&peer).expect("added"), set.add(&event.any_of(1)).expect("added"));
    assert_eq!(set.wait_timeout(Duration::from_millis(5)).expect("waits").len(), 0);
    let set = &mut set;
    let waiter = Child::start(move || {
        assert_eq!(set.wait().expect("ready").collect::<Vec<_>>(), [(gone, Readiness::Ended)]);
        set.remove(gone);
        assert_eq!(set.wait().expect("ready").collect::<Vec<_>>(), [(told, Readiness::Set)]);
    });
    wait_asleep(waiter.pid());
    victim.kill();
    wait_asleep(waiter.pid());
    event.set(1);
    waiter.finish();
}

/// Adds them, in that order.
pub fn add_all<S: outlive::wait::Source>(
    set: &mut WaitSet,
    sources: &[S],
) -> Vec<outlive::wait::Key> {
    sources.iter().map(|source| set.add(source).expect("added")).collect()
}

/// The threads of ours that process has started to wait for it. A helper of a set names itself when
/// it first runs, and that of a descriptor before it is polled.
pub fn helper_threads(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    let is_ours = |path: &std::path::Path| {
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        name.trim_end() == "outlive-wait"
    };
    let ours = tasks.flatten().filter(|task| is_ours(&task.path()));
    ours.map(|task| task.file_name().to_str().and_then(|id| id.parse().ok()).expect("an id"))
        .collect()
}

/// How many these are.
pub fn helpers_of(pid: i32) -> usize {
    helper_threads(pid).len()
}

const MANY: usize = 200;

/// Queues, and children that live until they are killed.
pub struct Many {
    pub queues: Vec<Queue>,
    pub children: Vec<Child>,
    pub peers: Vec<Peer>,
}

pub fn crowd(domain: &Domain, queues: usize, peers: usize) -> Many {
    let queues = (0..queues).map(|n| queue(domain, &format!("queue-{n}"))).collect();
    let (children, peers) = (0..peers).map(|_| owner(domain, Board::new())).unzip();
    Many { queues, children, peers }
}

/// Words of the board: messages of each queue that were received, deaths of each peer that were
/// told, all together.
const DEATHS: usize = 1000;
const TOLD: usize = 2000;
const READY: usize = 2001;
const END: usize = 2002;

/// Tells all by the board, until there is nothing more to come or the board says so.
fn tell_all(domain: &Domain, crowd: &Many, board: Board) {
    let mut receivers: Vec<_> =
        crowd.queues.iter().map(|queue| queue.receiver().expect("free")).collect();
    let mut set = WaitSet::new(domain);
    set.set_wait_strategy(WaitStrategy::Block);
    let (queue_keys, peer_keys) = (add_all(&mut set, &receivers), add_all(&mut set, &crowd.peers));
    board.set(READY, 1);
    while board.get(END) == 0 {
        let ready: Vec<_> = set.wait().expect("ready").collect();
        for (key, what) in ready {
            if what == Readiness::Ended {
                let at = peer_keys.iter().position(|peer| *peer == key).expect("a peer's");
                assert!(!crowd.peers[at].is_alive(), "told of a living one");
                set.remove(key);
                board.add(DEATHS + at, 1);
            } else {
                let at = queue_keys.iter().position(|queue| *queue == key).expect("a queue's");
                while receivers[at].try_recv().is_ok_and(|message| message.is_some()) {
                    board.add(at, 1);
                }
            }
            board.add(TOLD, 1);
        }
    }
}

fn four_hundred_sources(world: &World) {
    many_sources(world, MANY, AS_IT_IS, 5);
}

fn many_sources(world: &World, many: usize, prepare: fn(), helpers: usize) {
    let domain = world.domain();
    let mut crowd = crowd(&domain, many, many);
    let board = Board::new();
    let (shared, children) = (&domain, std::mem::take(&mut crowd.children));
    let waiter = Child::start(|| {
        prepare();
        tell_all(shared, &crowd, board);
    });
    board.reach(READY, 1);
    wait_asleep(waiter.pid());
    // It may have been asleep while it started them.
    wait_until("the helpers are there", || helpers_of(waiter.pid()) >= helpers);
    assert!(helpers > 0 || helpers_of(waiter.pid()) == 0);
    let senders: Vec<_> =
        crowd.queues.iter().map(|queue| queue.sender().expect("a sender")).collect();
    let mut random = Random::new();
    let mut sent = vec![0; many];
    // In an order of chance: each dies, and messages come in between.
    let mut living: Vec<(usize, Child)> = children.into_iter().enumerate().collect();
    while !living.is_empty() {
        let queue = random.below(many as u64) as usize;
        senders[queue].send(b"message").expect("sent");
        sent[queue] += 1;
        let (at, mut victim) = living.swap_remove(random.below(living.len() as u64) as usize);
        if random.below(2) == 0 {
            board.reach(queue, sent[queue]);
        }
        victim.kill();
        if random.below(2) == 0 {
            board.reach(DEATHS + at, 1);
        }
    }
    for (at, &sent) in sent.iter().enumerate() {
        assert_eq!(board.reach(at, sent), sent, "messages of queue {at}");
        assert_eq!(board.reach(DEATHS + at, 1), 1, "deaths of peer {at}");
    }
    board.set(END, 1);
    senders[0].send(b"end").expect("sent");
    waiter.finish();
    assert_eq!(domain.stats().rescues, 0);
}

fn a_hundred_sources_without_futex_waitv(world: &World) {
    many_sources(world, 50, NO_WAITV, 0);
}

/// A thread that polls every 10 ms goes to sleep a hundred times in a second; a set and its
/// helpers, some ten of them, a few times each.
fn idle_sets_use_no_processor(world: &World) {
    let domain = world.domain();
    let crowd = crowd(&domain, MANY, MANY);
    let slept = sleeps_of(|| {
        let receivers: Vec<_> =
            crowd.queues.iter().map(|queue| queue.receiver().expect("free")).collect();
        let mut set = WaitSet::new(&domain);
        add_all(&mut set, &receivers);
        add_all(&mut set, &crowd.peers);
        assert_eq!(set.wait_timeout(Duration::from_millis(20)).expect("waits").len(), 0);
        counted(|| assert_eq!(set.wait_timeout(Duration::from_secs(1)).expect("waits").len(), 0));
    });
    let Some(slept) = slept else { world.skip("a process may not be traced here") };
    assert!(slept < 40, "{slept} sleeps in an idle second");
}

/// A wait set tells of every message that was acknowledged to a sender, without the help of another
/// process, however the sender died after that.
fn killed_senders_are_told_of_all_the_same(world: &World) {
    const QUEUES: usize = 140;
    const ACKNOWLEDGED: usize = 3000;
    let domain = world.domain();
    let board = Board::new();
    let crowd = crowd(&domain, QUEUES, 0);
    let waiter = Child::start(|| {
        tell_all(&domain, &crowd, board);
    });
    board.reach(READY, 1);
    let mut random = Random::new();
    for _ in 0..60 {
        let seed = random.next();
        let mut victims: Vec<Child> = (0..2)
            .map(|n| {
                let (domain, crowd) = (&domain, &crowd);
                Child::start(move || {
                    domain.token().expect("a token");
                    let senders: Vec<_> =
                        crowd.queues.iter().map(|queue| queue.sender().expect("one")).collect();
                    let mut random = Random::from_seed(seed + n);
                    loop {
                        let at = random.below(QUEUES as u64) as usize;
                        senders[at].send(b"message").expect("sent");
                        board.add(ACKNOWLEDGED + at, 1);
                    }
                })
            })
            .collect();
        random.pause(2500);
        victims.iter_mut().for_each(Child::kill);
        for at in 0..QUEUES {
            board.reach(at, board.get(ACKNOWLEDGED + at));
        }
    }
    board.set(END, 1);
    crowd.queues.iter().for_each(|queue| send(queue, b"end"));
    waiter.finish();

    assert_eq!(domain.stats().rescues, 0);
}

/// One process has an owner and sets that wait for its end: killed together, a set may swallow the
/// kernel's one wake-up.
fn strand_nobody(world: &World, others: usize, rounds: usize, prepare: fn()) {
    let domain = world.domain();
    let crowd = crowd(&domain, others, 0);
    let (mut other, other_peer) = owner(&domain, Board::new());
    for _ in 0..rounds {
        let board = Board::new();
        let (shared, crowd) = (&domain, &crowd);
        let mut both = Child::start(move || {
            prepare();
            let own = shared.token().expect("a token");
            board.set(0, u64::from(own.as_u32()));
            let receivers: Vec<_> =
                crowd.queues.iter().map(|queue| queue.receiver().expect("free")).collect();
            let sets: Vec<_> = (1..4)
                .map(|n| {
                    let mut set = WaitSet::new(shared);
                    set.set_wait_strategy(WaitStrategy::Block);
                    add_all(&mut set, &receivers);
                    set.add(&other_peer).expect("added");
                    set.add(&shared.peer(own)).expect("added");
                    std::thread::spawn(move || {
                        board.set(n, thread_id() as u64);
                        assert!(set.wait().expect("ready").count() > 0);
                    })
                })
                .collect();
            sets.into_iter().for_each(|set| set.join().expect("no panic"));
        });
        let peer = domain.peer(token_on(&domain, board, 0));
        for n in 1..4 {
            let sleeper = board.reach(n, 1) as i32;
            wait_thread_asleep(both.pid(), sleeper);
        }
        let waiter = |in_set: bool| {
            let child = Child::start(|| {
                if !in_set {
                    return peer.wait_dead().expect("told");
                }
                let mut set = WaitSet::new(&domain);
                set.set_wait_strategy(WaitStrategy::Block);
                set.add(&other_peer).expect("added");
                let key = set.add(&peer).expect("added");
                assert_eq!(
                    set.wait().expect("ready").collect::<Vec<_>>(),
                    [(key, Readiness::Ended)]
                );
            });
            wait_asleep(child.pid());
            child
        };
        let late = [waiter(false), waiter(true)];
        both.kill();
        late.into_iter().for_each(Child::finish);
    }
    other.kill();
    assert_eq!(domain.stats().rescues, 0);
}

fn sets_that_die_with_their_owner_strand_nobody(world: &World) {
    strand_nobody(world, 0, 30, AS_IT_IS);
}

fn large_sets_that_die_with_their_owner_strand_nobody(world: &World) {
    strand_nobody(world, 140, 15, AS_IT_IS);
}
