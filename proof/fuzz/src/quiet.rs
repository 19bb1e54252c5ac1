//! Quiet rounds: scribble, then use. What goes wrong comes again with the same script, so it can be
//! made shorter.

use crate::board::Board;
use crate::operations;
use crate::random::Random;
use crate::script::Write;
use crate::watch::{Child, Find, Wrong, limit_memory};
use crate::world::World;

/// How much memory the files may take: what the queues' plans have room for, with everything else.
const MOST_IN_FILES: u64 = 600 << 20;

/// One round with this script; the seed orders the operations.
pub fn run(world: &World, board: Board, seed: u64, writes: &[Write]) -> Result<(), Find> {
    world.restore();
    for write in writes {
        write.apply(world);
    }
    board.clear(0);
    let child = Child::start(|| {
        limit_memory();
        operations::all_once(world, board, 0, seed);
    });
    child.wait(board, 0)?;
    let bytes = world.bytes();
    if bytes > MOST_IN_FILES {
        return Err(Find { wrong: Wrong::Memory(bytes), operation: "files" });
    }
    Ok(())
}

/// Returns a script of the seed's.
pub fn script(world: &World, seed: u64) -> Vec<Write> {
    let mut random = Random::new(seed);
    let count = 1 + random.below(*random.clone().pick(&[1, 3, 8, 30]));
    world.restore();
    (0..count).map(|_| Write::by_chance(world, &mut random)).collect()
}

/// Leaves out writes for as long as the find stays.
pub fn shorten(
    world: &World,
    board: Board,
    seed: u64,
    mut writes: Vec<Write>,
    find: &Find,
) -> Vec<Write> {
    // A hang costs seconds a try.
    let mut tries = if matches!(find.wrong, Wrong::Hang(_)) { 12 } else { 200 };
    let mut at = 0;
    while at < writes.len() && tries > 0 {
        tries -= 1;
        let mut fewer = writes.clone();
        fewer.remove(at);
        match run(world, board, seed, &fewer) {
            Err(again) if again.is_like(find) => writes = fewer,
            _ => at += 1,
        }
    }
    writes
}
