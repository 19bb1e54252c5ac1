//! A process dies while a sweep is under way, or the sweep is stopped.
//!
//! Only its token tells that a name in shared memory is a dead process's. A process that dies after
//! the sweep's first look may have left its name where the sweep has been already. So the sweep
//! must not retire its token.
//!
//! A queue's region grows, and becomes a ring, while a sweep is at its slots. A sender that dies in
//! a slot then has claimed a position that the sweep can tell by the region's new limit alone.
//!
//! A sweep takes the name of a dead owner out of a lock. Were it the owner in between, a sweep that
//! is stopped there would keep every locker out.

use std::fs::File;
use std::os::unix::fs::FileExt;

use outlive::Domain;
use outlive::queue::{Queue, Receiver, Sender};
use outlive::sync::{Holder, LockError, Mutex, OnceLock};

use crate::board::Board;
use crate::child::Child;
use crate::runner::World;
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(
    the_token_of_a_process_that_dies_during_a_sweep_is_left_to_the_next,
    a_sweep_goes_by_the_limit_that_a_claim_was_made_under: 120,
    a_sweep_never_holds_a_dead_owners_lock: 120,
    a_sweep_never_has_the_turn_of_a_dead_maker: 120,
);

/// How many tokens a sweep has retired.
const RETIRED: usize = FREE;
/// 1: the owner has its token.
const OWNS: usize = FREE + 1;

fn the_token_of_a_process_that_dies_during_a_sweep_is_left_to_the_next(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut owner = Child::start(|| {
        domain.token().expect("a token");
        board.set(OWNS, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(OWNS, 1);
    let mut sweeping = Stepped::start(world, board, || {
        let sweep = |_| {
            let report = domain.sweep(false).expect("sweeps");
            assert!(report.failed.is_empty() && report.ending == 0, "{report:?}");
            board.set(RETIRED, u64::from(report.tokens));
        };
        in_rounds(board, sweep, |_| {});
    });
    assert!(
        sweeping.to_call(libc::SYS_getdents64),
        "the sweep lists the domain after its first look"
    );
    owner.kill();
    sweeping.go_on();
    assert_eq!(board.get(RETIRED), 0, "the owner lived when the sweep began");
    sweeping.go_on();
    assert_eq!(board.get(RETIRED), 1, "the next sweep retires it");
}

/// A queue's region of slots comes in steps of so many, if a slot has [`SLOT_BYTES`].
const STEP: u64 = 512;
const SLOT_BYTES: u32 = 4096;
/// Slots of the first region, which is complete from the beginning. The second would have twice as
/// many.
const FIRST_SLOTS: u64 = 2 * STEP;
/// Room for both regions at [`FIRST_SLOTS`], and for no further step: rings take three quarters.
const MAX_BYTES: u64 = 12 << 20;
/// Too long for a slot.
const LARGE: usize = 10_000;

/// How many names of the dead the last sweep has found.
const CLAIMS: usize = FREE;
/// How many objects of the dead.
const OBJECTS: usize = FREE + 1;

/// The words of a queue that senders change before they write to a slot.
fn head_of(queue: &File) -> [u8; 4096] {
    let mut bytes = [0; 4096];
    queue.read_exact_at(&mut bytes, 12_288).expect("a queue's head is its fourth page");
    bytes
}

fn pass(sender: &Sender, receiver: &mut Receiver, count: u64) {
    for _ in 0..count {
        sender.try_send(b"passed").expect("room");
        assert_eq!(receiver.try_recv(), Ok(Some(b"passed".to_vec())));
    }
}

/// A child claims the next slot, and dies in it.
fn die_in_the_next_slot(world: &World, domain: &Domain, queue: &Queue, name: &str) {
    let board = Board::new();
    let mut dying = Stepped::start(world, board, || {
        let sender = queue.sender().expect("a sender");
        in_rounds(board, |_| sender.try_send(b"never sent").expect("room"), |_| {});
    });
    let file = File::open(domain.path().join(name)).expect("there");
    let before = head_of(&file);
    while head_of(&file) == before {
        assert!(!dying.step(1), "a sender moves the tail on before it has sent");
    }
    dying.child.kill();
}

/// The second region has one step when the sweep begins, and the last slot of this step still shows
/// the reference of a message that has been received. While the sweep stands still, the region
/// grows by another step, whose last slot gets a message in the same object, and is sealed. Then a
/// sender dies in the former slot, a lap later. By the limit of before, its position would be that
/// of the message which waits in the latter.
fn a_sweep_goes_by_the_limit_that_a_claim_was_made_under(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut sweeping = Stepped::start(world, board, || {
        let sweep = |_| {
            let report = domain.sweep(false).expect("sweeps");
            assert!(report.failed.is_empty() && report.ending == 0, "{report:?}");
            board.set(CLAIMS, u64::from(report.claims));
            board.set(OBJECTS, u64::from(report.objects));
        };
        in_rounds(board, sweep, |_| {});
    });
    let mut steps = 0;
    for round in 0.. {
        let name = format!("queue-{round}");
        let options = Queue::<[u8]>::options()
            .slot_bytes(SLOT_BYTES)
            .slots(FIRST_SLOTS as u32)
            .max_bytes(MAX_BYTES);
        let queue = options.open_or_create(&domain, &name).expect("made");
        let (sender, mut receiver) =
            (queue.sender().expect("a sender"), queue.receiver().expect("none yet"));
        // Full, the first region is left for good.
        for _ in 0..FIRST_SLOTS {
            sender.try_send(b"first region").expect("room");
        }
        sender.try_send(b"second region").expect("room");
        for _ in 0..=FIRST_SLOTS {
            receiver.try_recv().expect("readable").expect("sent");
        }
        pass(&sender, &mut receiver, STEP - 2);
        sender.try_send(&[1; LARGE]).expect("room");
        assert_eq!(receiver.try_recv(), Ok(Some(vec![1; LARGE])));

        assert!(sweeping.to_call(libc::SYS_munmap), "the sweep opens the queue");
        sweeping.step(steps);
        pass(&sender, &mut receiver, STEP - 1);
        sender.try_send(&[2; LARGE]).expect("room");
        for _ in 0..STEP - 1 {
            sender.try_send(b"next lap").expect("the region is a ring");
        }
        die_in_the_next_slot(world, &domain, &queue, &name);
        sweeping.go_on();
        let claims = board.get(CLAIMS);
        let objects = board.get(OBJECTS);
        sweeping.go_on();
        let context = format!("after {steps} instructions");
        // The dead sender's slot and its entry among the senders, each once in the two sweeps.
        assert_eq!(claims + board.get(CLAIMS), 2, "{context}");
        assert_eq!(objects + board.get(OBJECTS), 0, "{context}");
        // Would be written over the message that waits, if its object had been freed.
        sender.try_send(&[3; LARGE]).expect("room");
        let mut receive = |expected: &[u8]| {
            let received = receiver.try_recv().expect("readable");
            assert!(received.as_deref() == Some(expected), "another message, {context}");
        };
        receive(&[2; LARGE]);
        (0..STEP - 1).for_each(|_| receive(b"next lap"));
        receive(&[3; LARGE]);
        assert_eq!(receiver.try_recv(), Ok(None), "{context}");
        let counters = queue.counters().expect("readable");
        assert_eq!((counters.pending, counters.abandoned), (0, 1), "{context}");
        domain.remove(&name).expect("removed");
        if claims < 2 {
            assert!(steps > 13_000, "{steps} instructions are too few to be true");
            return;
        }
        steps += 13_000;
    }
}

/// Kills `owner` once it has what it is to hold. Then a sweep runs, one instruction at a time:
/// after none of them is a living process the holder. Returns after how many of them a dead one
/// was.
fn sweeps_without_holding(
    world: &World,
    domain: &Domain,
    board: Board,
    mut owner: Child,
    holder: impl Fn() -> Option<Holder>,
) -> u64 {
    board.reach(OWNS, 1);
    owner.kill();
    let sweeping = Stepped::start(world, board, || {
        in_rounds(board, |_| drop(domain.sweep(false).expect("sweeps")), |_| {});
    });
    let mut dead = 0;
    loop {
        let over = sweeping.step(1);
        if let Some(holder) = holder() {
            assert!(!holder.alive, "{holder:?} would keep others out for as long as it is stopped");
            assert!(!over, "the sweep leaves the name of a dead owner");
            dead += 1;
        }
        if over {
            return dead;
        }
    }
}

fn a_sweep_never_holds_a_dead_owners_lock(world: &World) {
    let (domain, board) = (world.domain(), Board::new());
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let owner = Child::start(|| {
        std::mem::forget(mutex.lock().expect("free"));
        board.set(OWNS, 1);
        loop {
            std::thread::park();
        }
    });
    let dead = sweeps_without_holding(world, &domain, board, owner, || mutex.holder());
    assert!(dead > 0, "the sweep met no dead owner");
    assert!(
        matches!(mutex.try_lock(), Err(LockError::OwnerDied(_))),
        "the next is told as without a sweep"
    );
}

fn a_sweep_never_has_the_turn_of_a_dead_maker(world: &World) {
    let (domain, board) = (world.domain(), Board::new());
    let once = OnceLock::<u64>::open_or_create(&domain, "o").expect("opens");
    let maker = Child::start(|| {
        let _ = once.get_or_init(|_| {
            board.set(OWNS, 1);
            loop {
                std::thread::park();
            }
        });
    });
    let dead = sweeps_without_holding(world, &domain, board, maker, || once.initializer());
    assert!(dead > 0, "the sweep met no dead maker");
    let made = once.get_or_init(|before| u64::from(before.previous_died())).expect("made");
    assert_eq!(*made, 1, "the next is told as without a sweep");
}
