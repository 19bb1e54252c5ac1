//! Busy rounds: several children use the domain while it is scribbled over.
//!
//! What libc itself keeps in a slot, its mutex, is left alone here: libc follows the pointers in
//! it, and a process that writes there while a thread is inside can lead that thread anywhere.
//! doc/threat-model.md says so.

use std::time::{Duration, Instant};

use crate::board::Board;
use crate::operations;
use crate::random::Random;
use crate::script::Write;
use crate::watch::{Child, Find, limit_memory};
use crate::world::World;

/// What each child does. None waits on a condition variable: that ends by locking the mutex,
/// without a deadline, and a stray write may have given it to a living thread.
/// doc/threat-model.md says so too.
const PARTS: &[&[&str]] = &[
    &["lock", "try lock", "reset", "record"],
    &["read", "write", "events"],
    &["make once", "permits", "meet"],
    &["take objects", "claim offers"],
    &["take objects", "pool's gc"],
    &["send small", "send large", "send batch"],
    &["receive", "peek", "receive values"],
    &["sweep", "sweep dry", "entries", "look"],
    &["publish", "subscribe", "look at a topic"],
    &["tokens", "peers", "short-lived threads", "open anew"],
];

/// Where the slots of the registry begin, how large they are, and how much of each is libc's.
const SLOTS_AT: u64 = 16_384;
const SLOT: u64 = 128;
const OF_LIBC: u64 = 48;

fn touches_libc(write: &Write) -> bool {
    let first = write.at;
    let last = first + write.width * write.times - 1;
    write.file == ".tokens"
        && last >= SLOTS_AT
        && (last - first >= SLOT - OF_LIBC
            || (first.max(SLOTS_AT) - SLOTS_AT) % SLOT < OF_LIBC
            || (last - SLOTS_AT) % SLOT < OF_LIBC)
}

/// One round of so long; what was written is in the find's text.
pub fn run(
    world: &World,
    board: Board,
    seed: u64,
    span: Duration,
) -> Result<(), (Find, Vec<Write>)> {
    world.restore();
    board.set_stop(false);
    let mut random = Random::new(seed);
    let mut written = Vec::new();
    let mut children: Vec<Child> = PARTS
        .iter()
        .enumerate()
        .map(|(place, part)| {
            board.clear(place);
            Child::start(|| {
                limit_memory();
                operations::until_stopped(
                    world,
                    board,
                    place,
                    seed.wrapping_add(place as u64),
                    part,
                );
            })
        })
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < span {
        let write = Write::by_chance(world, &mut random);
        if !touches_libc(&write) {
            write.apply(world);
            written.push(write);
        }
        std::thread::sleep(Duration::from_micros(random.below(400)));
        for (place, child) in children.iter_mut().enumerate() {
            match child.look(board, place) {
                None => {}
                Some(Err(find)) => return Err((find, written)),
                Some(Ok(())) => return Ok(()),
            }
        }
    }
    board.set_stop(true);
    for (place, child) in children.into_iter().enumerate() {
        child.wait(board, place).map_err(|find| (find, written.clone()))?;
    }
    Ok(())
}
