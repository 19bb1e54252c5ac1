//! Wait sets as descriptors, and futures, under tokio and under an executor of a few lines.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use outlive::sync::{Event, Latch, Reset};
use outlive::wait::{Readiness, Timer, WaitSet};
use outlive::{TokenId, WaitStrategy};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::asleep::{wait_asleep, wait_thread_asleep};
use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::counted::{counted, sleeps_of};
use crate::random::Random;
use crate::runner::World;
use crate::wait_sets::{add_all, crowd, helper_threads, helpers_of, queue};
use crate::waiting::{owner, token_on};

crate::checks!(
    a_descriptor_is_readable_until_nothing_is_found,
    a_descriptor_tells_of_sources_that_come_and_go,
    a_descriptor_in_a_loop_misses_nothing: 60,
    messages_and_deaths_are_awaited_under_tokio: 60,
    a_plain_executor_will_do,
    a_future_that_is_dropped_has_taken_nothing,
    bits_that_are_taken_are_had_by_one,
    two_hundred_futures_at_once: 60,
    a_forked_child_has_a_bridge_of_its_own,
    idle_bridges_use_no_processor,
    bridges_that_die_with_an_owner_strand_nobody: 60,
);

/// Returns whether it is readable within that time.
fn is_readable(set: &mut WaitSet, span: Duration) -> bool {
    let fd = set.as_fd().expect("a descriptor");
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let span = Timespec::try_from(span).expect("short");
    poll(&mut polled, Some(&span)).expect("polls") > 0
}

const SHORTLY: Duration = Duration::from_millis(30);

fn a_descriptor_is_readable_until_nothing_is_found(world: &World) {
    let domain = world.domain();
    let queue = queue(&domain, "queue");
    Child::start(|| {
        let mut receiver = queue.receiver().expect("free");
        let mut set = WaitSet::new(&domain);
        let key = set.add(&receiver).expect("added");
        assert!(!is_readable(&mut set, SHORTLY));
        for _ in 0..20 {
            queue.sender().expect("a sender").send(b"message").expect("sent");
            assert!(is_readable(&mut set, PATIENCE));
            assert_eq!(
                set.try_wait().expect("looks").collect::<Vec<_>>(),
                [(key, Readiness::Readable)]
            );
            assert!(is_readable(&mut set, PATIENCE), "not taken yet");
            assert_eq!(receiver.try_recv().expect("readable").expect("there"), b"message");
            assert_eq!(set.try_wait().expect("looks").count(), 0);
            // It may have been told a moment late, once.
            if is_readable(&mut set, SHORTLY) {
                assert_eq!(set.try_wait().expect("looks").count(), 0);
                assert!(!is_readable(&mut set, SHORTLY));
            }
        }
    })
    .finish();
}

fn a_descriptor_tells_of_sources_that_come_and_go(world: &World) {
    let domain = world.domain();
    let event =
        Event::options().reset(Reset::Manual).open_or_create(&domain, "event").expect("opens");
    let (mut victim, peer) = owner(&domain, Board::new());
    let board = Board::new();
    let child = Child::start(|| {
        let mut set = WaitSet::new(&domain);
        assert!(!is_readable(&mut set, Duration::from_millis(5)));
        let bit = set.add(&event.any_of(1)).expect("added");
        event.set(1);
        assert!(is_readable(&mut set, PATIENCE));
        assert!(set.remove(bit));
        while set.try_wait().expect("looks").count() > 0 || is_readable(&mut set, SHORTLY) {}
        let gone = set.add(&peer).expect("added");
        board.set(0, 1);
        assert!(is_readable(&mut set, PATIENCE));
        assert_eq!(set.try_wait().expect("looks").collect::<Vec<_>>(), [(gone, Readiness::Ended)]);
        set.remove(gone);
        while set.try_wait().expect("looks").count() > 0 || is_readable(&mut set, SHORTLY) {}
        let tick = Timer::after(Duration::from_millis(20));
        set.add(&tick).expect("added");
        assert!(is_readable(&mut set, PATIENCE));
        assert_eq!(tick.take(), 1);
    });
    board.reach(0, 1);
    victim.kill();
    child.finish();
}

/// Words of the board from here on: what senders have been told is sent.
const SENT: usize = 1000;

fn a_descriptor_in_a_loop_misses_nothing(world: &World) {
    const QUEUES: usize = 3;
    let domain = world.domain();
    let crowd = crowd(&domain, QUEUES, 0);
    let board = Board::new();
    let waiter = Child::start(|| {
        let mut receivers: Vec<_> =
            crowd.queues.iter().map(|queue| queue.receiver().expect("free")).collect();
        let mut set = WaitSet::new(&domain);
        let keys = add_all(&mut set, &receivers);
        loop {
            assert!(is_readable(&mut set, PATIENCE), "more is to come");
            let ready: Vec<_> = set.try_wait().expect("looks").collect();
            for (key, _) in ready {
                let at = keys.iter().position(|known| *known == key).expect("one of them");
                while let Ok(Some(message)) = receivers[at].try_recv() {
                    if message == b"end" {
                        return;
                    }
                    board.add(at, 1);
                }
            }
        }
    });
    let mut random = Random::new();
    let senders: Vec<_> =
        crowd.queues.iter().map(|queue| queue.sender().expect("a sender")).collect();
    let mut sent = [0; QUEUES];
    for _ in 0..1500 {
        let at = random.below(QUEUES as u64) as usize;
        senders[at].send(b"message").expect("sent");
        sent[at] += 1;
        match random.below(3) {
            0 => assert_eq!(board.reach(at, sent[at]), sent[at]),
            1 => random.pause(60),
            _ => {}
        }
    }
    (0..QUEUES).for_each(|at| assert_eq!(board.reach(at, sent[at]), sent[at]));
    senders[0].send(b"end").expect("sent");
    waiter.finish();
}

fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime")
}

fn messages_and_deaths_are_awaited_under_tokio(world: &World) {
    const MESSAGES: u64 = 400;
    let domain = world.domain();
    let mut crowd = crowd(&domain, 4, 20);
    let board = Board::new();
    let mut children = std::mem::take(&mut crowd.children);
    let waiter = Child::start(|| {
        let runtime = tokio();
        let receivers = crowd.queues.iter().enumerate().map(|(at, queue)| {
            let mut receiver = queue.receiver().expect("free");
            runtime.spawn(async move {
                for number in 0..MESSAGES {
                    assert_eq!(
                        receiver.recv_async().await.expect("received"),
                        number.to_le_bytes()
                    );
                    board.add(at, 1);
                }
            })
        });
        let receivers: Vec<_> = receivers.collect();
        let deaths = crowd.peers.iter().enumerate().map(|(at, &peer)| {
            runtime.spawn(async move {
                peer.wait_dead_async().await.expect("waits");
                assert!(!peer.is_alive());
                board.add(SENT + at, 1);
            })
        });
        let deaths: Vec<_> = deaths.collect();
        runtime.block_on(async {
            for task in receivers.into_iter().chain(deaths) {
                task.await.expect("no panic");
            }
        });
    });
    let senders: Vec<_> =
        crowd.queues.iter().map(|queue| queue.sender().expect("a sender")).collect();
    let mut random = Random::new();
    for number in 0..MESSAGES {
        senders.iter().for_each(|sender| sender.send(&number.to_le_bytes()).expect("sent"));
        if random.below(4) == 0 {
            (0..senders.len()).for_each(|at| assert_eq!(board.reach(at, number + 1), number + 1));
        }
        if number % 20 == 0 && !children.is_empty() {
            children.swap_remove(random.below(children.len() as u64) as usize).kill();
        }
    }
    children.iter_mut().for_each(Child::kill);
    waiter.finish();
    assert_eq!(domain.stats().rescues, 0);
}

/// Wakes the thread that blocks on it.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The whole executor.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

fn a_plain_executor_will_do(world: &World) {
    let domain = world.domain();
    let (queue, board) = (queue(&domain, "queue"), Board::new());
    let event =
        Event::options().reset(Reset::Manual).open_or_create(&domain, "event").expect("opens");
    let latch = Latch::options(2).open_or_create(&domain, "latch").expect("opens");
    let (mut victim, peer) = owner(&domain, Board::new());
    let waiter = Child::start(|| {
        let mut receiver = queue.receiver().expect("free");
        board.set(0, 1);
        assert_eq!(block_on(receiver.recv_async()).expect("received"), b"message");
        board.set(0, 2);
        assert_eq!(block_on(event.wait_all_async(0b11)).expect("set"), 0b11);
        board.set(0, 3);
        block_on(latch.wait_async()).expect("open");
        let mut set = WaitSet::new(&domain);
        let gone = set.add(&peer).expect("added");
        board.set(0, 4);
        assert_eq!(
            block_on(set.wait_async()).expect("ready").collect::<Vec<_>>(),
            [(gone, Readiness::Ended)]
        );
    });
    let step = |number| {
        board.reach(0, number);
        wait_asleep(waiter.pid());
    };
    step(1);
    queue.sender().expect("a sender").send(b"message").expect("sent");
    step(2);
    event.set(0b01);
    event.set(0b10);
    step(3);
    latch.arrive(1);
    latch.arrive(1);
    step(4);
    victim.kill();
    waiter.finish();
}

fn a_future_that_is_dropped_has_taken_nothing(world: &World) {
    const MESSAGES: u64 = 300;
    let domain = world.domain();
    let (queue, board) = (queue(&domain, "queue"), Board::new());
    let waiter = Child::start(|| {
        let mut receiver = queue.receiver().expect("free");
        tokio().block_on(async {
            let mut next: u64 = 0;
            let mut dropped: u64 = 0;
            while next < MESSAGES {
                match tokio::time::timeout(Duration::from_micros(50), receiver.recv_async()).await {
                    Ok(message) => {
                        assert_eq!(message.expect("received"), next.to_le_bytes());
                        next += 1;
                        board.set(0, next);
                    }
                    Err(_) => {
                        dropped += 1;
                        board.set(1, dropped);
                    }
                }
            }
        });
    });
    let (sender, mut random) = (queue.sender().expect("a sender"), Random::new());
    for number in 0..MESSAGES {
        sender.send(&number.to_le_bytes()).expect("sent");
        random.pause(if number % 10 == 0 { 3000 } else { 150 });
        // Also where the receiver gets a processor too seldom for that by itself.
        if number == MESSAGES / 2 {
            board.reach(1, 1);
        }
    }
    waiter.finish();
}

fn bits_that_are_taken_are_had_by_one(world: &World) {
    const TASKS: u64 = 8;
    let domain = world.domain();
    let event =
        Event::options().reset(Reset::Automatic).open_or_create(&domain, "event").expect("opens");
    let board = Board::new();
    let waiter = Child::start(|| {
        let event = Arc::new(
            Event::options()
                .reset(Reset::Automatic)
                .open_or_create(&domain, "event")
                .expect("opens"),
        );
        let runtime = tokio();
        let tasks = (0..TASKS).map(|_| {
            let event = Arc::clone(&event);
            runtime.spawn(async move {
                assert_eq!(event.wait_any_async(1).await.expect("set"), 1);
                board.add(0, 1);
            })
        });
        let tasks: Vec<_> = tasks.collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.expect("no panic");
            }
        });
    });
    for number in 1..=TASKS {
        event.set(1);
        assert_eq!(board.reach(0, number), number);
    }
    waiter.finish();
}

fn two_hundred_futures_at_once(world: &World) {
    const MANY: usize = 100;
    let domain = world.domain();
    let board = Board::new();
    let mut crowd = crowd(&domain, MANY, MANY);
    let mut children = std::mem::take(&mut crowd.children);
    let waiter = Child::start(|| {
        let runtime = tokio();
        let mut tasks = Vec::new();
        for queue in &crowd.queues {
            let mut receiver = queue.receiver().expect("free");
            tasks.push(runtime.spawn(async move {
                assert_eq!(receiver.recv_async().await.expect("one"), b"one")
            }));
        }
        for &peer in &crowd.peers {
            tasks.push(runtime.spawn(async move { peer.wait_dead_async().await.expect("told") }));
        }
        board.set(0, 1);
        runtime.block_on(async {
            for task in tasks {
                task.await.expect("no panic");
            }
        });
    });
    board.reach(0, 1);
    wait_asleep(waiter.pid());
    for (queue, child) in crowd.queues.iter().zip(&mut children) {
        queue.sender().expect("a sender").send(b"one").expect("sent");
        child.kill();
    }
    waiter.finish();

    assert_eq!(domain.stats().rescues, 0);
}

fn a_forked_child_has_a_bridge_of_its_own(world: &World) {
    let domain = world.domain();
    let queue = queue(&domain, "queue");
    let (mut victim, peer) = owner(&domain, Board::new());
    let board = Board::new();
    let child = Child::start(|| {
        let mut receiver = queue.receiver().expect("free");
        let mut set = WaitSet::new(&domain);
        let gone = set.add(&peer).expect("added");
        assert!(!is_readable(&mut set, Duration::from_millis(5)));
        let me = std::process::id() as i32;
        let [helper] = helper_threads(me)[..] else { panic!("one thread serves the domain") };
        let set = &mut set;
        // Forked while the other thread sleeps: before that it may have the list of what is
        // registered, and the child would wait for it for ever.
        wait_thread_asleep(me, helper);
        let grandchild = Child::start(move || {
            assert_eq!(helpers_of(std::process::id() as i32), 0, "threads are not forked");
            assert!(
                !is_readable(set, Duration::from_millis(5)),
                "another descriptor than its parent's"
            );
            assert_eq!(helpers_of(std::process::id() as i32), 1);
            board.set(0, 1);
            assert!(is_readable(set, PATIENCE));
            assert_eq!(
                set.try_wait().expect("looks").collect::<Vec<_>>(),
                [(gone, Readiness::Ended)]
            );
        });
        queue.sender().expect("a sender").send(b"first").expect("sent");
        assert_eq!(block_on(receiver.recv_async()).expect("received"), b"first");
        grandchild.finish();
    });
    board.reach(0, 1);
    victim.kill();
    child.finish();
}

fn idle_bridges_use_no_processor(world: &World) {
    let domain = world.domain();
    let crowd = crowd(&domain, 150, 10);
    let slept = sleeps_of(|| {
        let receivers: Vec<_> =
            crowd.queues.iter().map(|queue| queue.receiver().expect("free")).collect();
        let mut set = WaitSet::new(&domain);
        add_all(&mut set, &receivers);
        add_all(&mut set, &crowd.peers);
        assert!(!is_readable(&mut set, SHORTLY));
        counted(|| assert!(!is_readable(&mut set, Duration::from_millis(500))));
    });
    let Some(slept) = slept else { world.skip("a process may not be traced here") };
    assert!(slept < 20, "{slept} sleeps in idle half a second");
}

/// One process has an owner and a reactor that waits for the owner's end: they are killed together,
/// so the reactor may swallow the kernel's one wake-up.
fn bridges_that_die_with_an_owner_strand_nobody(world: &World) {
    let domain = world.domain();
    let (mut other, other_peer) = owner(&domain, Board::new());
    for round in 0..40 {
        let board = Board::new();
        let mut both = Child::start(|| {
            let own: TokenId = domain.token().expect("a token");
            let mut set = WaitSet::new(&domain);
            set.add(&other_peer).expect("added");
            set.add(&domain.peer(own)).expect("added");
            set.as_fd().expect("a descriptor");
            board.set(0, u64::from(own.as_u32()));
            let runtime = tokio();
            let peer = domain.peer(own);
            runtime.spawn(async move { peer.wait_dead_async().await });
            loop {
                std::thread::park();
            }
        });
        let peer = domain.peer(token_on(&domain, board, 0));
        let waiters: Vec<Child> = (0..2)
            .map(|n| {
                let waiter = Child::start(|| {
                    if n == 0 {
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
                wait_asleep(waiter.pid());
                waiter
            })
            .collect();
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_micros(300));
        }
        both.kill();
        waiters.into_iter().for_each(Child::finish);
    }
    other.kill();
    assert_eq!(domain.stats().rescues, 0);
}
