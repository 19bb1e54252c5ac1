//! A thread takes the tag of a free run, and meanwhile the run is taken apart, and another thread
//! gathers the same spans into a run of the same length.
//!
//! The slow thread is stopped twice: after it has seen the run free and before it takes the tag,
//! and at each of the instructions after that. There is memory for one such run only. So the two
//! threads may not both have one.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

use outlive::pool::{Pool, PoolError};

use crate::board::Board;
use crate::runner::World;
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(a_run_that_is_made_anew_is_not_also_a_slow_threads: 120);

/// Longer than what a pool keeps for later: `gc` takes such a run apart whenever it is free.
const RUN: usize = 17 << 20;
const MAX_BYTES: u64 = 30 << 20;

/// What the slow thread's allocation came to.
const GOT: usize = FREE;
const OBJECT: u64 = 1;
const NO_SPACE: u64 = 2;

/// Returns whether a thread is taking the run that begins with the first span
/// (doc/memory-layout.md).
fn is_being_taken(file: &File) -> bool {
    let word = |at| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, at).expect("readable");
        u64::from_ne_bytes(bytes)
    };
    let first_tag = word(12_288);
    word(first_tag) >> 62 == 1
}

fn a_run_that_is_made_anew_is_not_also_a_slow_threads(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let pool = Pool::options().max_bytes(MAX_BYTES);
    let pool = pool.open_or_create(&domain, "pool").expect("a pool");
    let file = File::open(domain.path().join("pool")).expect("there");
    // The first span's tag is the run's.
    drop(pool.alloc(RUN).expect("there is room"));
    let mut slow = Stepped::start(world, board, || {
        let object = RefCell::new(None);
        let take = |_| {
            let got = match pool.alloc(RUN) {
                Ok(taken) => {
                    *object.borrow_mut() = Some(taken);
                    OBJECT
                }
                Err(PoolError::NoSpace { .. }) => NO_SPACE,
                Err(error) => panic!("{error}"),
            };
            board.set(GOT, got);
        };
        in_rounds(board, take, |_| drop(object.take()));
    });
    // What a thread does only once is not counted.
    slow.go_on();
    let (mut met, mut missed) = (0, 0);
    for steps in (0..).step_by(7) {
        // Undisturbed: how far it is to where the tag is taken.
        drop(pool.alloc(RUN).expect("nobody has it"));
        let mut far = 0;
        while !is_being_taken(&file) {
            assert!(!slow.step(1), "a free run is taken by its tag");
            far += 1;
        }
        slow.go_on();
        assert_eq!(board.get(GOT), OBJECT, "nobody else is there");

        // Shortly before it. Not exactly, since a look at the clock may be a few instructions more.
        let mut over = slow.step(far - 5);
        pool.gc().expect("the run is taken apart");
        while !over && !is_being_taken(&file) {
            over = slow.step(1);
        }
        // Or it has seen that the run was taken apart, and has gathered one of its own.
        over = over || slow.step(steps);
        let slow_has_tag = is_being_taken(&file);
        let others = pool.alloc(RUN);
        slow.go_on();
        let (slows, context) = (board.get(GOT), format!("after {steps} more instructions"));
        match others {
            Ok(object) => {
                assert_eq!(slows, NO_SPACE, "two have the run, {context}");
                drop(object);
            }
            Err(PoolError::NoSpace { .. }) => {
                assert_eq!(slows, OBJECT, "nobody has the run, {context}")
            }
            Err(error) => panic!("{error}, {context}"),
        }
        match (slows, slow_has_tag) {
            // Made anew while the slow thread had its tag.
            (NO_SPACE, true) => met += 1,
            // The slow thread has looked by then, and has let go of the tag.
            (NO_SPACE, false) => break,
            // It was stopped too early or too late, and has taken the run rightly.
            _ => missed += 1,
        }
        assert!(
            missed < 20,
            "{missed} times it was not stopped between its look and the tag, {met} times it was"
        );
    }
    assert!(met > 5, "after only {met} instructions it has let go");
}
