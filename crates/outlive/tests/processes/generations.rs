//! A slot's number comes round after 8,192 uses: then it rests until the domain has been swept of
//! old claims.

use std::collections::HashSet;

use outlive::queue::Queue;
use outlive::state::State;
use outlive::sync::{LockError, Mutex};
use outlive::{Domain, TokenId};

use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::forge::{BODY, Bytes, NUMBERS, Registry};
use crate::runner::World;
use crate::services::{client_of, server_of};
use crate::slots::{short_lived, slot_of};

crate::checks!(
    slots_rest_at_the_wrap_until_a_sweep,
    a_sweep_that_fails_lets_none_go,
    when_many_rest_a_claimer_sweeps,
    an_old_claim_is_not_taken_for_a_new_owners: 60,
    a_dead_threads_name_under_a_living_holder_is_not_given_out: 60,
    generations_of_32_bits_wrap,
);

/// The even generation before the last number of a round.
const BEFORE_WRAP: u32 = 2 * (NUMBERS - 1);
const WRAPPED: u32 = 2 * NUMBERS;

/// The slots that so many short-lived threads are given.
fn slots_used(domain: &Domain, threads: u32) -> HashSet<u32> {
    (0..threads).map(|_| slot_of(short_lived(domain))).collect()
}

/// Lets the first `count` slots use up their numbers.
fn wear_out(domain: &Domain, registry: &Registry, count: u32) {
    for slot in 0..count {
        registry.set_generation(slot, BEFORE_WRAP);
    }
    let slots = domain.stats().slots;
    let used = slots_used(domain, 2 * slots);
    assert!((0..count).all(|slot| used.contains(&slot)), "the last number is given out");
    // The search for a slot retires the dead tokens, and finds that their slots are in quarantine.
    slots_used(domain, 2 * slots);
    for slot in 0..count {
        assert_eq!(registry.generation(slot), WRAPPED, "slot {slot}");
    }
}

fn slots_rest_at_the_wrap_until_a_sweep(world: &World) {
    let domain = world.domain();
    let registry = Registry::of(&domain);
    wear_out(&domain, &registry, 20);
    let used = slots_used(&domain, 600);
    assert!(used.iter().all(|&slot| slot >= 20), "those that rest are not given out");
    assert_eq!(domain.sweep(true).expect("looks").quarantined, 20);
    assert!(slots_used(&domain, 600).iter().all(|&slot| slot >= 20), "looking is not sweeping");
    assert_eq!(domain.sweep(false).expect("sweeps").quarantined, 20);
    let used = slots_used(&domain, 600);
    assert!((0..20).all(|slot| used.contains(&slot)), "rested");
    assert_eq!(domain.sweep(false).expect("sweeps").quarantined, 0);
    assert_eq!(domain.stats().slots, 224);
    assert_eq!(registry.rested(0), WRAPPED);
}

fn a_sweep_that_fails_lets_none_go(world: &World) {
    let domain = world.domain();
    let registry = Registry::of(&domain);
    wear_out(&domain, &registry, 20);
    outlive::queue::Queue::<[u8]>::open_or_create(&domain, "damaged").expect("made");
    // The number of bytes in a slot.
    Bytes::of(&domain, "damaged").set_word(BODY, 77);
    let report = domain.sweep(false).expect("sweeps the rest");
    assert_eq!(report.failed.len(), 1, "{report:?}");
    let used = slots_used(&domain, 600);
    assert!(used.iter().all(|&slot| slot >= 20), "old claims may hide in what could not be swept");
    std::fs::remove_file(domain.path().join("damaged")).expect("removed");
    domain.sweep(false).expect("sweeps");
    assert!(slots_used(&domain, 600).contains(&0));
}

fn when_many_rest_a_claimer_sweeps(world: &World) {
    let domain = world.domain();
    let registry = Registry::of(&domain);
    for slot in 0..domain.stats().slots {
        registry.set_generation(slot, WRAPPED);
    }
    // Every slot is in quarantine: the registry grows for the first process, which then sweeps.
    let first = short_lived(&domain);
    assert!(slot_of(first) >= 224);
    let used = slots_used(&domain, 1_000);
    assert!((0..224).all(|slot| used.contains(&slot)), "all rested");
    assert_eq!(domain.stats().slots, 448);
}

fn an_old_claim_is_not_taken_for_a_new_owners(world: &World) {
    let domain = world.domain();
    let registry = Registry::of(&domain);
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let board = Board::new();
    let mut child = Child::start(|| {
        board.set(0, u64::from(domain.token().expect("a token").as_u32()));
        let _guard = mutex.lock().expect("free");
        board.set(1, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(1, 1);
    child.kill();
    let old = mutex.holder().expect("locked by the dead").token;
    let slot = slot_of(old);
    // As if the slot had been used some 8,000 times since, and no thread had locked the mutex
    // meanwhile.
    registry.set_generation(slot, BEFORE_WRAP);
    slots_used(&domain, 500);
    assert_eq!(registry.generation(slot), WRAPPED);
    assert!(!slots_used(&domain, 500).contains(&slot), "it rests");
    assert_eq!(mutex.holder().expect("not swept yet").token, old);
    let report = domain.sweep(false).expect("sweeps");
    assert_eq!((report.claims, report.quarantined), (1, 1), "{report:?}");
    assert!(mutex.holder().is_none(), "the claim is gone");
    // Until a living thread has the very same id again.
    let namesake = loop {
        let domain = domain.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let id = domain.token().expect("a token");
            tell.send(id).expect("somebody listens");
            let _ = ended.recv();
        });
        if told.recv().expect("told") == old {
            break (thread, end);
        }
        drop(end);
        thread.join().expect("no panic");
    };
    assert!(domain.peer(old).is_alive(), "the new owner of the number");
    match mutex.try_lock() {
        Err(LockError::OwnerDied(mut guard)) => guard.mark_consistent(),
        other => panic!("the death must be told, not waited for: {other:?}"),
    }
    drop(namesake.1);
    namesake.0.join().expect("no panic");
}

/// A thread has received, written a state and called, and has ended, while its process lives on and
/// does so no more: the thread's name is good for as long as these are its process's. It must not
/// be a living stranger's when that process dies.
fn a_dead_threads_name_under_a_living_holder_is_not_given_out(world: &World) {
    let domain = world.domain();
    let registry = Registry::of(&domain);
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let state = State::<u64>::open_or_create(&domain, "state").expect("made");
    let server = server_of(&domain, "s");
    let board = Board::new();
    let mut child = Child::start(|| {
        let _ends = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                board.set(0, u64::from(domain.token().expect("a token").as_u32()));
                let client = client_of(&domain, "s");
                (queue.receiver().expect("none yet"), state.writer().expect("none yet"), client)
            });
            thread.join().expect("no panic")
        });
        board.set(1, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(1, 1);
    let old = TokenId::from_u32(board.get(0) as u32).expect("a token");
    let slot = slot_of(old);
    wait_until("the thread has ended", || !domain.peer(old).is_alive());
    registry.set_generation(slot, BEFORE_WRAP);
    slots_used(&domain, 500);
    assert_eq!(registry.generation(slot), WRAPPED);
    let report = domain.sweep(false).expect("sweeps");
    assert!(report.failed.is_empty(), "{report:?}");
    // The thread that gets that very number lives on.
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = std::sync::Arc::new(std::sync::Mutex::new(ended));
    let mut namesake = None;
    for _ in 0..8 * domain.stats().slots {
        let (domain, ended) = (domain.clone(), std::sync::Arc::clone(&ended));
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let id = domain.token().expect("a token");
            tell.send(id).expect("somebody listens");
            if id == old {
                let _ = ended.lock().expect("no panic").recv();
            }
        });
        if told.recv().expect("told") == old {
            namesake = Some(thread);
            break;
        }
        thread.join().expect("no panic");
    }
    child.kill();
    let (received, written) = (queue.receiver().map(drop), state.writer().map(drop));
    let swept = domain.sweep(false).expect("sweeps");
    drop(end);
    let was_given_out = namesake.map(|thread| thread.join().expect("no panic")).is_some();
    assert_eq!((received, written), (Ok(()), Ok(())), "given out: {was_given_out}");
    assert_eq!(swept.ending, 0, "given out: {was_given_out}, {swept:?}");
    assert!(!was_given_out);
    // With the names it goes.
    domain.sweep(false).expect("sweeps");
    assert!(slots_used(&domain, 600).contains(&slot));
    drop(server);
}

fn generations_of_32_bits_wrap(world: &World) {
    let domain = world.domain();
    let registry = Registry::of(&domain);
    for slot in 0..20 {
        registry.set_generation(slot, u32::MAX - 1);
    }
    assert!(slots_used(&domain, 600).contains(&3), "the last of all");
    slots_used(&domain, 600);
    // 0 is a number's beginning like any other wrap, but it looks like a slot that was never used.
    assert_eq!(registry.generation(3) % (2 * NUMBERS), registry.generation(3));
    let id = short_lived(&domain);
    assert!(!domain.peer(id).is_alive());
}
