//! The registry's slots: used again and again, never wedged; and what happens when all are in use.

use std::collections::HashSet;
use std::sync::mpsc;

use outlive::sync::PiMutex;
use outlive::{Domain, Error, TokenId};

use crate::asleep::thread_id;
use crate::board::Board;
use crate::child::{Child, End, PATIENCE};
use crate::forge::{MOST_SLOTS, Registry};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    a_hundred_thousand_one_after_another: 240,
    every_slot_can_be_held_at_once,
    all_in_use: 60,
    claimers_killed_at_random: 60,
);

const FORKS: u64 = 3_000;
const THREADS: u64 = 97_000;
const PROCESSES: u64 = 2;
/// So many of a process's threads live at once: on a busy machine each waits long for a processor.
const TOGETHER: u64 = 10;

/// The slot of an id, as it is printed: `slot.number`.
pub fn slot_of(id: TokenId) -> u32 {
    let text = id.to_string();
    text.split('.').next().and_then(|slot| slot.parse().ok()).expect("slot.number")
}

/// The token of a thread that ends at once.
pub fn short_lived(domain: &Domain) -> TokenId {
    let domain = domain.clone();
    let thread = std::thread::spawn(move || domain.token().expect("a token"));
    thread.join().expect("no panic")
}

/// The tokens of so many threads, all of which have ended.
fn short_lived_together(domain: &Domain, threads: u64) -> Vec<TokenId> {
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| domain.token().expect("a token"))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

fn a_hundred_thousand_one_after_another(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let threads: Vec<Child> = (0..PROCESSES as usize)
        .map(|n| {
            let domain = domain.clone();
            Child::start(move || {
                for _ in 0..THREADS / PROCESSES / TOGETHER {
                    for id in short_lived_together(&domain, TOGETHER) {
                        assert!(!domain.peer(id).is_alive());
                        board.add(n, 1);
                    }
                }
            })
        })
        .collect();
    let mut forked = 0;
    for _ in 0..FORKS {
        let mut child = Child::start(|| {
            board.set(10, u64::from(domain.token().expect("a token").as_u32()));
            loop {
                std::thread::park();
            }
        });
        board.reach(10, 1);
        child.kill();
        let bits = board.word(10).swap(0, std::sync::atomic::Ordering::SeqCst);
        let alive =
            domain.tokens().iter().any(|token| token.alive && u64::from(token.id.as_u32()) == bits);
        assert!(!alive, "killed and waited for");
        forked += 1;
    }
    for child in threads {
        // The check's own limit is theirs: on a busy machine so many threads take minutes.
        assert_eq!(child.wait_however_long(), End::Code(0));
    }
    assert_eq!(forked + board.get(0) + board.get(1), FORKS + THREADS);
    // No more than a handful lived at any moment.
    assert_eq!(domain.stats().slots, 224, "the registry did not grow");
    hold_all(&domain);
}

/// Holds as many tokens as there are slots, all at once, and sees that none is out of use.
fn hold_all(domain: &Domain) {
    let slots = domain.stats().slots;
    let alive = domain.tokens().iter().filter(|token| token.alive).count() as u32;
    let (tell, told) = mpsc::channel();
    let mut threads = Vec::new();
    let mut ends = Vec::new();
    for _ in alive..slots {
        let (end, ended) = mpsc::channel::<()>();
        let (domain, tell) = (domain.clone(), tell.clone());
        threads.push(std::thread::spawn(move || {
            tell.send(domain.token().expect("a token")).expect("somebody listens");
            let _ = ended.recv();
        }));
        ends.push(end);
    }
    let ids: HashSet<TokenId> = (alive..slots).map(|_| told.recv().expect("told")).collect();
    assert_eq!(ids.len() as u32, slots - alive, "no two threads have one token");
    assert!(ids.iter().all(|&id| domain.peer(id).is_alive()));
    assert_eq!(domain.stats().slots, slots, "every slot could be used");
    drop(ends);
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert!(ids.iter().all(|&id| !domain.peer(id).is_alive()));
}

fn every_slot_can_be_held_at_once(world: &World) {
    let domain = world.domain();
    domain.token().expect("a token");
    hold_all(&domain);
    hold_all(&domain);
}

fn all_in_use(world: &World) {
    let domain = world.domain();
    let mine = slot_of(domain.token().expect("a token"));
    let registry = Registry::of(&domain);
    registry.grow_to_most();
    // All but ten; this very thread holds them, as far as any process can tell.
    let last = MOST_SLOTS - 10;
    for slot in (0..last).filter(|&slot| slot != mine) {
        registry.pretend_in_use(slot, mine, thread_id() as u32);
    }
    assert_eq!(domain.stats().slots, MOST_SLOTS);
    let (tell, told) = mpsc::channel();
    let mut held = Vec::new();
    for _ in last..MOST_SLOTS {
        let (end, ended) = mpsc::channel::<()>();
        let (domain, tell) = (domain.clone(), tell.clone());
        let thread = std::thread::spawn(move || {
            tell.send(domain.token().expect("ten are left")).expect("somebody listens");
            let _ = ended.recv();
        });
        let id = told.recv().expect("told");
        assert!(slot_of(id) >= last, "{id} was free");
        held.push((id, thread, end));
    }
    let refused = |domain: &Domain| {
        let domain = domain.clone();
        std::thread::spawn(move || domain.token()).join().expect("no panic")
    };
    let error = refused(&domain).expect_err("none is left");
    assert_eq!(error, Error::NoToken { path: domain.path().to_owned() });
    // A lock that needs its maker's token is not made by a thread that gets none.
    let made = std::thread::spawn({
        let domain = domain.clone();
        move || PiMutex::options(0u64).create_new(&domain, "pi_mutex").map(drop)
    });
    let path = domain.path().to_owned();
    assert_eq!(made.join().expect("no panic"), Err(Error::NoToken { path }));
    assert!(!domain.path().join("pi_mutex").exists(), "it has no name, so it may be made anew");
    let text = error.to_string();
    assert!(text.contains("65536") && text.contains("outlive gc"), "{text}");
    assert!(domain.token().is_ok(), "who has one keeps it");
    // One ends: there is room for one.
    let (id, thread, end) = held.pop().expect("ten were held");
    drop(end);
    thread.join().expect("no panic");
    let again = refused(&domain).expect("one is free");
    assert_eq!(slot_of(again), slot_of(id));
    // All end.
    for slot in (0..last).filter(|&slot| slot != mine) {
        registry.mark_died(slot);
    }
    for _ in 0..1_000 {
        let id = short_lived(&domain);
        domain.peer(id).wait_dead_timeout(PATIENCE).expect("it has ended");
    }
    let report = domain.sweep(false).expect("sweeps");
    assert!(report.tokens > 60_000, "{report:?}");
    assert_eq!(domain.sweep(false).expect("sweeps").tokens, 0);
    short_lived(&domain);
}

fn claimers_killed_at_random(world: &World) {
    let domain = world.domain();
    let mut random = Random::new();
    // A child that does nothing but claim: a kill at a random moment often falls into a claim.
    for _ in 0..400 {
        let mut child = Child::start(|| {
            loop {
                short_lived(&domain);
            }
        });
        random.pause(3_000);
        child.kill();
    }
    assert!(domain.tokens().iter().all(|token| !token.alive));
    hold_all(&domain);
    assert_eq!(domain.stats().slots, 224, "no slot was lost");
}
